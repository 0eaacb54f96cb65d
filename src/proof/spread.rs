//! The middle of measured values.

/// Median and quartiles.
pub(super) fn spread(mut values: Vec<f64>) -> (f64, [f64; 2]) {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    let at = |index: usize| values.get(index).copied().unwrap_or(0.0);
    let median = f64::midpoint(at(last / 2), at(last.div_ceil(2)));
    (median, [at((last + 2) / 4), at((3 * last + 2) / 4)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_quartiles_are_those_of_the_sorted_values() {
        assert_eq!(spread(vec![5.0, 1.0, 4.0, 2.0, 3.0]), (3.0, [2.0, 4.0]));
        assert_eq!(spread(vec![4.0, 1.0]), (2.5, [1.0, 4.0]));
        assert_eq!(spread(Vec::new()), (0.0, [0.0, 0.0]));
    }
}

//! The nearest name to a mistyped one.

/// Fewest single-character insertions, deletions and replacements that turn `from` into `to`.
fn edit_distance(from: &[u8], to: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

/// The candidate nearest to `name`, unless more than a third of it would have to change (one change is
/// always allowed): a wild guess helps nobody. No name is longer than 40 bytes, so a longer one has no
/// neighbour.
pub(super) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > 40 {
        return None;
    }
    candidates
        .map(|candidate| (edit_distance(name.as_bytes(), candidate.as_bytes()), candidate))
        .min()
        .filter(|(distance, _)| *distance <= (name.len() / 3).max(1))
        .map(|(_, candidate)| candidate)
}

//! Vector-scalar registers, of which floating-point and vector registers are parts.

/// One 128-bit vector-scalar register (Power ISA 2.07 Book I, 7.2.1). Its elements are numbered from the most
/// significant end, whatever the byte order of storage.
///
/// FPR n is doubleword 0 of VSR n, VR n is VSR 32 + n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Vsr(u128);

impl Vsr {
    /// The register with these doublewords, doubleword 0 first.
    #[must_use]
    pub const fn new(doublewords: [u64; 2]) -> Self {
        Self((doublewords[0] as u128) << 64 | doublewords[1] as u128)
    }

    /// Both doublewords, doubleword 0 first.
    #[must_use]
    pub const fn doublewords(self) -> [u64; 2] {
        [self.element(0, 8), self.element(1, 8)]
    }

    /// Element `index` of `bytes` bytes (1, 2, 4 or 8), 0 the most significant; an index past the last wraps.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "masked to the element")]
    pub const fn element(self, index: usize, bytes: usize) -> u64 {
        (self.0 >> Self::shift(index, bytes)) as u64 & Self::mask(bytes)
    }

    /// Replaces one element by the low bytes of `value`; the others stay.
    pub const fn set_element(&mut self, index: usize, bytes: usize, value: u64) {
        let shift = Self::shift(index, bytes);
        let mask = (Self::mask(bytes) as u128) << shift;
        self.0 = self.0 & !mask | ((value & Self::mask(bytes)) as u128) << shift;
    }

    const fn mask(bytes: usize) -> u64 {
        u64::MAX >> (64 - 8 * bytes)
    }

    const fn shift(index: usize, bytes: usize) -> usize {
        8 * (16 - bytes * (index % (16 / bytes) + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_count_from_the_most_significant_end() {
        let mut vsr = Vsr::new([0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f]);
        for index in 0..16 {
            assert_eq!(vsr.element(index, 1), index as u64);
        }
        assert_eq!(
            (vsr.element(3, 2), vsr.element(1, 4), vsr.element(1, 8)),
            (0x0607, 0x0405_0607, 0x0809_0a0b_0c0d_0e0f)
        );
        vsr.set_element(2, 4, 0xffff_ffff_1111_2222);
        assert_eq!(vsr.doublewords(), [0x0001_0203_0405_0607, 0x1111_2222_0c0d_0e0f]);
        vsr.set_element(15, 1, 0xee);
        assert_eq!(vsr.doublewords()[1], 0x1111_2222_0c0d_0eee);
    }
}

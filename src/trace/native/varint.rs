//! LEB128 numbers and zigzag differences.

pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 0x80")]
    out.push(value as u8);
}

/// The difference, wrapping, small whichever way it goes.
pub(super) fn put_difference(out: &mut Vec<u8>, from: u64, to: u64) {
    let difference = to.wrapping_sub(from);
    put(out, difference << 1 ^ if difference >> 63 == 1 { u64::MAX } else { 0 });
}

/// Takes a number off the front; `None` if it is cut or beyond 64 bits.
#[inline]
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[inline]
pub(super) fn take_difference(bytes: &mut &[u8], from: u64) -> Option<u64> {
    let folded = take(bytes)?;
    Some(from.wrapping_add(folded >> 1 ^ (folded & 1).wrapping_neg()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_and_differences_come_back(value: u64, from: u64) {
            let mut out = Vec::new();
            put(&mut out, value);
            put_difference(&mut out, from, value);
            let mut bytes = &out[..];
            prop_assert_eq!((take(&mut bytes), take_difference(&mut bytes, from)), (Some(value), Some(value)));
            prop_assert!(bytes.is_empty());
        }
    }

    #[test]
    fn a_number_beyond_64_bits_or_cut_is_none() {
        assert_eq!(take(&mut &[0xff; 10][..]), None);
        assert_eq!(take(&mut &[0x80][..]), None);
        assert_eq!(take(&mut &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2][..]), None);
    }
}

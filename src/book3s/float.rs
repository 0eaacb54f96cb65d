//! Single and double format of floating-point registers: the ISA's DOUBLE and SINGLE functions.
//!
//! `lfs` and its like put a single into a register as a double, `stfs` does the reverse. Neither rounds, neither looks at
//! or touches FPSCR, and a signalling NaN stays one: they are moves of bits, so the host's conversions (which quieten
//! NaNs and round) will not do. KVM has the host's own `lfs` and `stfs` do it (`sp_to_dp`, `dp_to_sp`).

/// Bias of a double's exponent.
const BIAS: u64 = 1023;
/// Largest biased exponent of a double that a normalized single has no exponent for: 1023 - 127.
const DENORMAL_FROM: u64 = 896;
/// Smallest biased exponent of a double of which one bit is left in a denormalized single: 1023 - 149.
const DENORMAL_TO: u64 = 874;
/// Width of a double's fraction.
const FRACTION: u32 = 52;
/// By how much it is wider than a single's.
const WIDER: u32 = FRACTION - 23;

/// DOUBLE(x): the register after a load of a single (Power ISA 2.07 Book I, 4.6.2; `sp_to_dp`).
#[must_use]
pub const fn double(single: u32) -> u64 {
    let sign = ((single >> 31) as u64) << 63;
    let exponent = ((single >> 23) & 0xff) as u64;
    let fraction = (single & 0x7f_ffff) as u64;
    match exponent {
        // Infinities and NaNs: all ones stay all ones.
        0xff => sign | 0x7ff << FRACTION | fraction << WIDER,
        0 if fraction == 0 => sign,
        0 => {
            // A denormalized single is a normalized double: shift until the leading one is the hidden one.
            let shift = fraction.leading_zeros() - (63 - 23);
            let fraction = (fraction << shift) & 0x7f_ffff;
            sign | (DENORMAL_FROM + 1 - shift as u64) << FRACTION | fraction << WIDER
        }
        _ => sign | (exponent + BIAS - 127) << FRACTION | fraction << WIDER,
    }
}

/// SINGLE(x): what a store of a register as a single writes (Power ISA 2.07 Book I, 4.6.3; `dp_to_sp`).
///
/// Bits that a single has no room for are cut off. Magnitudes below the least denormalized single, for which the ISA
/// leaves the result undefined, give zero of their sign, as QEMU does; those of 2^128 and more have their exponent cut off.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the ISA picks bits")]
pub const fn single(double: u64) -> u32 {
    let exponent = (double >> FRACTION) & 0x7ff;
    if exponent > DENORMAL_FROM {
        return ((double >> 32) & 0xc000_0000) as u32 | ((double >> WIDER) & 0x3fff_ffff) as u32;
    }
    let sign = (double >> 32) as u32 & 0x8000_0000;
    if exponent < DENORMAL_TO {
        return sign;
    }
    let fraction = 1 << FRACTION | double & ((1 << FRACTION) - 1);
    sign | (fraction >> (WIDER as u64 + DENORMAL_FROM + 1 - exponent)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exponent_and_edge_fraction_of_a_single_survives_the_register() {
        for exponent in 0..=0xff_u32 {
            for fraction in [0, 1, 2, 0x3f_ffff, 0x40_0000, 0x40_0001, 0x7f_fffe, 0x7f_ffff] {
                for sign in [0, 1 << 31] {
                    let word = sign | exponent << 23 | fraction;
                    assert_eq!(single(double(word)), word, "{word:#010x}");
                    let value = f32::from_bits(word);
                    if !value.is_nan() {
                        assert_eq!(double(word), f64::from(value).to_bits(), "{word:#010x} is its own value");
                    }
                }
            }
        }
    }

    #[test]
    fn a_signalling_nan_stays_one_with_its_payload() {
        assert_eq!(double(0x7f80_0001), 0x7ff0_0000_2000_0000);
        assert_eq!(single(0x7ff0_0000_2000_0000), 0x7f80_0001);
        assert_eq!(single(0xfff8_0000_0000_0001), 0xffc0_0000, "payload bits that do not fit are cut off");
        // A signalling NaN all of whose payload is cut off becomes an infinity.
        assert_eq!(single(0x7ff0_0000_0000_0001), 0x7f80_0000);
    }

    #[test]
    fn denormalized_singles_are_cut_and_not_rounded() {
        // 2^-149, the least; 2^-149 * 1.99; 2^-150 (undefined: zero); 2^-126 - 2^-150.
        assert_eq!(single(0x36a0_0000_0000_0000), 1);
        assert_eq!(single(0x36af_ffff_ffff_ffff), 1);
        assert_eq!(single(0x3690_0000_0000_0000), 0);
        assert_eq!(single(0xb690_0000_0000_0000), 0x8000_0000);
        assert_eq!(single(0x380f_ffff_f000_0000), 0x007f_ffff);
        assert_eq!(single(1), 0, "a denormalized double is far below");
        assert_eq!(single(0x3ff0_0000_1fff_ffff), 0x3f80_0000, "no rounding of normalized ones either");
    }
}

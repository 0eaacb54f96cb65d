//! Encoders for loads, stores and cache operations of guest programs, for [`asm`](super::asm): `const`, which
//! [`load_store`](super::load_store) is not, and with the floating-point and vector ones that a register save needs.
//!
//! # Panics
//!
//! Each function panics on an operand outside the range its documentation gives; registers are 0 to 31 throughout.

use super::asm::{d_form, immediate, x_form};

/// DS-form displacement and extended opcode in one halfword.
const fn ds(displacement: i16, extended: u32) -> u32 {
    assert!(displacement % 4 == 0, "a DS-form displacement is a multiple of 4");
    immediate(displacement) | extended
}

/// RT = doubleword at RA + displacement, a multiple of 4 (Power ISA 2.07 Book I, 3.3.2).
#[must_use]
pub const fn ld(rt: u8, displacement: i16, ra: u8) -> u32 {
    d_form(58, rt, ra, ds(displacement, 0))
}

/// Doubleword at RA + displacement, a multiple of 4, = RS (Power ISA 2.07 Book I, 3.3.3).
#[must_use]
pub const fn std(rs: u8, displacement: i16, ra: u8) -> u32 {
    d_form(62, rs, ra, ds(displacement, 0))
}

/// As [`std()`], and RA = the address.
#[must_use]
pub const fn stdu(rs: u8, displacement: i16, ra: u8) -> u32 {
    d_form(62, rs, ra, ds(displacement, 1))
}

/// RT = word at RA + displacement, zero-extended (Power ISA 2.07 Book I, 3.3.2).
#[must_use]
pub const fn lwz(rt: u8, displacement: i16, ra: u8) -> u32 {
    d_form(32, rt, ra, immediate(displacement))
}

/// As [`lwz`], and RA = the address.
#[must_use]
pub const fn lwzu(rt: u8, displacement: i16, ra: u8) -> u32 {
    d_form(33, rt, ra, immediate(displacement))
}

/// Word at RA + displacement = RS (Power ISA 2.07 Book I, 3.3.3).
#[must_use]
pub const fn stw(rs: u8, displacement: i16, ra: u8) -> u32 {
    d_form(36, rs, ra, immediate(displacement))
}

/// Word at RA + RB = RS (Power ISA 2.07 Book I, 3.3.3).
#[must_use]
pub const fn stwx(rs: u8, ra: u8, rb: u8) -> u32 {
    x_form(rs, ra, rb, 151)
}

/// FRT = double at RA + displacement (Power ISA 2.07 Book I, 4.6.2).
#[must_use]
pub const fn lfd(frt: u8, displacement: i16, ra: u8) -> u32 {
    d_form(50, frt, ra, immediate(displacement))
}

/// Double at RA + displacement = FRS (Power ISA 2.07 Book I, 4.6.3).
#[must_use]
pub const fn stfd(frs: u8, displacement: i16, ra: u8) -> u32 {
    d_form(54, frs, ra, immediate(displacement))
}

/// VRT = quadword at RA + RB, rounded down to 16 (Power ISA 2.07 Book I, 6.7.2).
#[must_use]
pub const fn lvx(vrt: u8, ra: u8, rb: u8) -> u32 {
    x_form(vrt, ra, rb, 103)
}

/// Quadword at RA + RB, rounded down to 16, = VRS (Power ISA 2.07 Book I, 6.7.3).
#[must_use]
pub const fn stvx(vrs: u8, ra: u8, rb: u8) -> u32 {
    x_form(vrs, ra, rb, 231)
}

/// Writes the data cache block at RA + RB, RA 0 for zero, to memory (Power ISA 2.07 Book II, 4.3.2).
#[must_use]
pub const fn dcbst(ra: u8, rb: u8) -> u32 {
    x_form(0, ra, rb, 54)
}

/// Forgets the instruction cache block at RA + RB, RA 0 for zero (Power ISA 2.07 Book II, 4.3.1).
#[must_use]
pub const fn icbi(ra: u8, rb: u8) -> u32 {
    x_form(0, ra, rb, 982)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of GNU as 2.40 (`powerpc64le-linux-gnu-as -mpower8 -mbig`) for the text beside them.
    #[test]
    fn words_are_those_of_the_gnu_assembler() {
        let words = [
            (std(3, -16, 1), 0xf861_fff0, "std 3,-16(1)"),
            (ld(14, 112, 31), 0xe9df_0070, "ld 14,112(31)"),
            (lwz(5, 8, 31), 0x80bf_0008, "lwz 5,8(31)"),
            (lwzu(10, 4, 9), 0x8549_0004, "lwzu 10,4(9)"),
            (stw(5, 0, 6), 0x90a6_0000, "stw 5,0(6)"),
            (stwx(14, 15, 10), 0x7dcf_512e, "stwx 14,15,10"),
            (stdu(1, -368, 1), 0xf821_fe91, "stdu 1,-368(1)"),
            (stfd(14, -144, 1), 0xd9c1_ff70, "stfd 14,-144(1)"),
            (lfd(31, 8, 1), 0xcbe1_0008, "lfd 31,8(1)"),
            (stvx(20, 1, 12), 0x7e81_61ce, "stvx 20,1,12"),
            (lvx(31, 1, 12), 0x7fe1_60ce, "lvx 31,1,12"),
            (dcbst(0, 6), 0x7c00_306c, "dcbst 0,6"),
            (icbi(0, 6), 0x7c00_37ac, "icbi 0,6"),
        ];
        for (ours, assembled, text) in words {
            assert_eq!(ours, assembled, "{text}: {ours:08x} instead of {assembled:08x}");
        }
    }

    #[test]
    #[should_panic(expected = "multiple of 4")]
    fn a_displacement_that_would_change_the_opcode_is_refused() {
        let _ = std(3, 2, 1);
    }
}

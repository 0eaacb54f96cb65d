//! Encoders for what a guest program needs besides loads and stores.
//!
//! Named as the assembler names them, operands in its order. All are `const`, so a program written as a constant is
//! checked by the compiler.
//!
//! # Panics
//!
//! Each function panics on an operand outside the range its documentation gives; registers are 0 to 31 throughout.

pub use super::asm_storage::{dcbst, icbi, ld, lfd, lvx, lwz, lwzu, std, stdu, stfd, stvx, stw, stwx};

/// Special-purpose register numbers (Power ISA 2.07 Book III-S, 4.4.4 and Book II, 6.1).
pub mod spr {
    /// Link register.
    pub const LR: u16 = 8;
    /// Count register.
    pub const CTR: u16 = 9;
    /// Data storage interrupt status.
    pub const DSISR: u16 = 18;
    /// Data address.
    pub const DAR: u16 = 19;
    /// Save and restore register 0: where an interrupt came from.
    pub const SRR0: u16 = 26;
    /// Save and restore register 1: MSR at an interrupt.
    pub const SRR1: u16 = 27;
    /// Authority mask: storage keys.
    pub const AMR: u16 = 29;
    /// Time base, for reading.
    pub const TB: u16 = 268;
    /// Software use, first of four.
    pub const SPRG0: u16 = 272;
    /// Software use, second of four.
    pub const SPRG1: u16 = 273;
}

const fn gpr(number: u8) -> u32 {
    assert!(number < 32, "general registers are r0 to r31");
    number as u32
}

pub(super) const fn immediate(value: i16) -> u32 {
    value as u16 as u32
}

pub(super) const fn d_form(major: u32, rt: u8, ra: u8, low_half: u32) -> u32 {
    major << 26 | gpr(rt) << 21 | gpr(ra) << 16 | low_half
}

pub(super) const fn x_form(rt: u8, ra: u8, rb: u8, extended: u32) -> u32 {
    31 << 26 | gpr(rt) << 21 | gpr(ra) << 16 | gpr(rb) << 11 | extended << 1
}

/// RT = RA + value; RA 0 stands for zero (Power ISA 2.07 Book I, 3.3.9).
#[must_use]
pub const fn addi(rt: u8, ra: u8, value: i16) -> u32 {
    d_form(14, rt, ra, immediate(value))
}

/// RT = RA + (value << 16); RA 0 stands for zero (Power ISA 2.07 Book I, 3.3.9).
#[must_use]
pub const fn addis(rt: u8, ra: u8, value: i16) -> u32 {
    d_form(15, rt, ra, immediate(value))
}

/// RT = value, sign-extended: `addi rt,0,value`.
#[must_use]
pub const fn li(rt: u8, value: i16) -> u32 {
    addi(rt, 0, value)
}

/// RT = value << 16, sign-extended: `addis rt,0,value`.
#[must_use]
pub const fn lis(rt: u8, value: i16) -> u32 {
    addis(rt, 0, value)
}

/// RA = RS | value (Power ISA 2.07 Book I, 3.3.13). Destination first, as in assembly.
#[must_use]
pub const fn ori(ra: u8, rs: u8, value: u16) -> u32 {
    d_form(24, rs, ra, value as u32)
}

/// RA = RS | (value << 16) (Power ISA 2.07 Book I, 3.3.13). Destination first, as in assembly.
#[must_use]
pub const fn oris(ra: u8, rs: u8, value: u16) -> u32 {
    d_form(25, rs, ra, value as u32)
}

/// RA = RS: `or ra,rs,rs` (Power ISA 2.07 Book I, 3.3.13). Destination first, as in assembly.
#[must_use]
pub const fn mr(ra: u8, rs: u8) -> u32 {
    x_form(rs, ra, rs, 444)
}

/// RT = -RA (Power ISA 2.07 Book I, 3.3.9).
#[must_use]
pub const fn neg(rt: u8, ra: u8) -> u32 {
    x_form(rt, ra, 0, 104)
}

/// No operation: `ori 0,0,0`.
pub const NOP: u32 = ori(0, 0, 0);

/// RA = RS << shift, shift 0 to 63: `rldicr ra,rs,shift,63-shift` (Power ISA 2.07 Book I, 3.3.14).
#[must_use]
pub const fn sldi(ra: u8, rs: u8, shift: u8) -> u32 {
    assert!(shift < 64, "shift is 0 to 63");
    let (sh, me) = (shift as u32, 63 - shift as u32);
    // MD form: each 6-bit field keeps its high bit apart from the other five.
    30 << 26
        | gpr(rs) << 21
        | gpr(ra) << 16
        | (sh & 31) << 11
        | (me & 31) << 6
        | (me >> 5) << 5
        | 1 << 2
        | (sh >> 5) << 1
}

/// The five words that put any 64-bit value into RT: `lis`, `ori`, `sldi`, `oris`, `ori`.
#[must_use]
pub const fn li64(rt: u8, value: u64) -> [u32; 5] {
    [
        lis(rt, halfword(value, 3) as i16),
        ori(rt, rt, halfword(value, 2)),
        sldi(rt, rt, 32),
        oris(rt, rt, halfword(value, 1)),
        ori(rt, rt, halfword(value, 0)),
    ]
}

/// Halfword `index` of a value, 0 the least significant.
const fn halfword(value: u64, index: u32) -> u16 {
    ((value >> (16 * index)) & 0xffff) as u16
}

const fn spr_form(rt: u8, spr: u16, extended: u32) -> u32 {
    assert!(spr < 1024, "SPR numbers have 10 bits");
    // The two halves of the SPR number are swapped in the word.
    let swapped = (spr as u32 & 31) << 5 | spr as u32 >> 5;
    31 << 26 | gpr(rt) << 21 | swapped << 11 | extended << 1
}

/// SPR = RS, SPR 0 to 1023 (Power ISA 2.07 Book III-S, 4.4.4); see [`spr`].
#[must_use]
pub const fn mtspr(spr: u16, rs: u8) -> u32 {
    spr_form(rs, spr, 467)
}

/// RT = SPR, SPR 0 to 1023 (Power ISA 2.07 Book III-S, 4.4.4); see [`spr`].
#[must_use]
pub const fn mfspr(rt: u8, spr: u16) -> u32 {
    spr_form(rt, spr, 339)
}

/// CTR = RS.
#[must_use]
pub const fn mtctr(rs: u8) -> u32 {
    mtspr(spr::CTR, rs)
}

/// LR = RS.
#[must_use]
pub const fn mtlr(rs: u8) -> u32 {
    mtspr(spr::LR, rs)
}

/// RT = LR.
#[must_use]
pub const fn mflr(rt: u8) -> u32 {
    mfspr(rt, spr::LR)
}

/// RT = time base (Power ISA 2.07 Book II, 6.1), by its current form, `mfspr rt,268`.
#[must_use]
pub const fn mftb(rt: u8) -> u32 {
    mfspr(rt, spr::TB)
}

/// MSR = RS, all bits that may be set so (L = 0; Power ISA 2.07 Book III-S, 4.4.4).
#[must_use]
pub const fn mtmsrd(rs: u8) -> u32 {
    x_form(rs, 0, 0, 178)
}

/// RT = MSR (Power ISA 2.07 Book III-S, 4.4.4).
#[must_use]
pub const fn mfmsr(rt: u8) -> u32 {
    x_form(rt, 0, 0, 83)
}

/// Enters a segment: RS the VSID doubleword, RB the ESID doubleword with index and V (Power ISA 2.07 Book III-S,
/// 5.9.3.1).
#[must_use]
pub const fn slbmte(rs: u8, rb: u8) -> u32 {
    x_form(rs, 0, rb, 402)
}

/// Invalidates the segment that RB names (Power ISA 2.07 Book III-S, 5.9.3.1).
#[must_use]
pub const fn slbie(rb: u8) -> u32 {
    x_form(0, 0, rb, 434)
}

/// Invalidates all segments but entry 0, or what the hint `ih`, 0 to 7, says (Power ISA 2.07 Book III-S, 5.9.3.1).
#[must_use]
pub const fn slbia(ih: u8) -> u32 {
    assert!(ih < 8, "IH has 3 bits");
    x_form(ih, 0, 0, 498)
}

/// Context synchronisation (Power ISA 2.07 Book II, 4.4.1).
pub const ISYNC: u32 = 19 << 26 | 150 << 1;

/// Heavyweight `sync` (L = 0; Power ISA 2.07 Book II, 4.4.3).
pub const SYNC: u32 = x_form(0, 0, 0, 598);

/// `ptesync`: orders page and segment table updates (L = 2; Power ISA 2.07 Book III-S, 5.9.2).
pub const PTESYNC: u32 = x_form(2, 0, 0, 598);

/// Orders accesses to caching-inhibited storage (Power ISA 2.07 Book II, 4.4.3).
pub const EIEIO: u32 = x_form(0, 0, 0, 854);

/// System call with level `lev`, 0 to 127; 1 is a hypercall (Power ISA 2.07 Book III-S, 3.3.1).
#[must_use]
pub const fn sc(lev: u8) -> u32 {
    assert!(lev < 128, "LEV has 7 bits");
    17 << 26 | (lev as u32) << 5 | 1 << 1
}

const fn i_form(offset: i32, link: u32) -> u32 {
    assert!(offset % 4 == 0, "a branch distance is a multiple of 4");
    assert!(offset >= -(1 << 25) && offset < 1 << 25, "a branch reaches 32 MiB either way");
    18 << 26 | offset as u32 & 0x03ff_fffc | link
}

/// Branch to this word's address + `offset` bytes, a multiple of 4 from -2^25 to 2^25 - 4 (Power ISA 2.07 Book I,
/// 2.4).
#[must_use]
pub const fn b(offset: i32) -> u32 {
    i_form(offset, 0)
}

/// As [`b`], with the next word's address to LR.
#[must_use]
pub const fn bl(offset: i32) -> u32 {
    i_form(offset, 1)
}

const fn b_form(bo: u32, bi: u32, offset: i16) -> u32 {
    assert!(offset % 4 == 0, "a branch distance is a multiple of 4");
    16 << 26 | bo << 21 | bi << 16 | immediate(offset)
}

/// BO: decrement CTR, branch if it is not 0.
const CTR_NOT_ZERO: u32 = 16;
/// BO: branch if the condition bit is 1.
const IF_TRUE: u32 = 12;
/// BO: branch if the condition bit is 0.
const IF_FALSE: u32 = 4;
/// BO: branch always.
const ALWAYS: u32 = 20;
/// BI: "equal" of CR field 0.
const CR0_EQ: u32 = 2;
/// BI: "summary overflow" of CR field 0, with which Linux says that a system call failed.
const CR0_SO: u32 = 3;

/// Decrements CTR and branches by `offset` bytes, a multiple of 4, if it is not 0 (Power ISA 2.07 Book I, 2.4).
#[must_use]
pub const fn bdnz(offset: i16) -> u32 {
    b_form(CTR_NOT_ZERO, 0, offset)
}

/// Branches by `offset` bytes, a multiple of 4, if CR0 says equal (Power ISA 2.07 Book I, 2.4).
#[must_use]
pub const fn beq(offset: i16) -> u32 {
    b_form(IF_TRUE, CR0_EQ, offset)
}

/// Branches by `offset` bytes, a multiple of 4, if CR0 says not equal (Power ISA 2.07 Book I, 2.4).
#[must_use]
pub const fn bne(offset: i16) -> u32 {
    b_form(IF_FALSE, CR0_EQ, offset)
}

/// Branches by `offset` bytes, a multiple of 4, if CR0 says no summary overflow (Power ISA 2.07 Book I, 2.4).
#[must_use]
pub const fn bns(offset: i16) -> u32 {
    b_form(IF_FALSE, CR0_SO, offset)
}

/// Branch to LR (Power ISA 2.07 Book I, 2.4).
pub const BLR: u32 = 19 << 26 | ALWAYS << 21 | 16 << 1;

/// Branch to CTR (Power ISA 2.07 Book I, 2.4).
pub const BCTR: u32 = 19 << 26 | ALWAYS << 21 | 528 << 1;

/// L field of a comparison of doublewords into CR0.
const DOUBLEWORDS: u8 = 1;

/// Compares RA and RB as signed doublewords into CR0 (Power ISA 2.07 Book I, 3.3.10).
#[must_use]
pub const fn cmpd(ra: u8, rb: u8) -> u32 {
    x_form(DOUBLEWORDS, ra, rb, 0)
}

/// Compares RA and `value` as signed doublewords into CR0 (Power ISA 2.07 Book I, 3.3.10).
#[must_use]
pub const fn cmpdi(ra: u8, value: i16) -> u32 {
    d_form(11, DOUBLEWORDS, ra, immediate(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of GNU as 2.40 (`powerpc64-linux-gnu-as`, `.machine power8`) for the text beside them.
    #[test]
    fn words_are_those_of_the_gnu_assembler() {
        let words = [
            (li(3, -16), 0x3860_fff0, "li 3,-16"),
            (addi(3, 4, 16), 0x3864_0010, "addi 3,4,16"),
            (lis(3, 0x1234), 0x3c60_1234, "lis 3,0x1234"),
            (addis(3, 4, -1), 0x3c64_ffff, "addis 3,4,-1"),
            (ori(3, 4, 0x5678), 0x6083_5678, "ori 3,4,0x5678"),
            (oris(3, 4, 0x9abc), 0x6483_9abc, "oris 3,4,0x9abc"),
            (sldi(3, 4, 32), 0x7883_07c6, "sldi 3,4,32"),
            (sldi(3, 4, 1), 0x7883_0fa4, "sldi 3,4,1"),
            (sldi(3, 4, 40), 0x7883_45c6, "sldi 3,4,40"),
            (sldi(3, 4, 63), 0x7883_f806, "sldi 3,4,63"),
            (sldi(5, 6, 12), 0x78c5_64e4, "rldicr 5,6,12,51"),
            (mtspr(spr::SPRG0, 3), 0x7c70_43a6, "mtsprg 0,3"),
            (mfspr(3, spr::AMR), 0x7c7d_02a6, "mfspr 3,29"),
            (mtspr(spr::AMR, 4), 0x7c9d_03a6, "mtspr 29,4"),
            (mtspr(spr::DAR, 5), 0x7cb3_03a6, "mtdar 5"),
            (mtctr(5), 0x7ca9_03a6, "mtctr 5"),
            (mtlr(6), 0x7cc8_03a6, "mtlr 6"),
            (mflr(7), 0x7ce8_02a6, "mflr 7"),
            (mftb(3), 0x7c6c_42a6, "mftb 3"),
            (mtmsrd(3), 0x7c60_0164, "mtmsrd 3"),
            (mfmsr(3), 0x7c60_00a6, "mfmsr 3"),
            (slbmte(3, 4), 0x7c60_2324, "slbmte 3,4"),
            (slbie(5), 0x7c00_2b64, "slbie 5"),
            (slbia(0), 0x7c00_03e4, "slbia"),
            (slbia(1), 0x7c20_03e4, "slbia 1"),
            (ISYNC, 0x4c00_012c, "isync"),
            (SYNC, 0x7c00_04ac, "sync"),
            (PTESYNC, 0x7c40_04ac, "ptesync"),
            (EIEIO, 0x7c00_06ac, "eieio"),
            (sc(0), 0x4400_0002, "sc"),
            (sc(1), 0x4400_0022, "sc 1"),
            (b(8), 0x4800_0008, "b .+8"),
            (b(-4), 0x4bff_fffc, "b .-4"),
            (bl(0x100), 0x4800_0101, "bl .+0x100"),
            (bl(-0x100), 0x4bff_ff01, "bl .-0x100"),
            (BLR, 0x4e80_0020, "blr"),
            (BCTR, 0x4e80_0420, "bctr"),
            (bdnz(-8), 0x4200_fff8, "bdnz .-8"),
            (bdnz(0x20), 0x4200_0020, "bdnz .+0x20"),
            (cmpd(3, 4), 0x7c23_2000, "cmpd 3,4"),
            (cmpdi(3, -1), 0x2c23_ffff, "cmpdi 3,-1"),
            (beq(8), 0x4182_0008, "beq .+8"),
            (bne(-12), 0x4082_fff4, "bne .-12"),
            (bns(8), 0x4083_0008, "bns .+8"),
            (mr(31, 3), 0x7c7f_1b78, "mr 31,3"),
            (neg(3, 3), 0x7c63_00d0, "neg 3,3"),
            (NOP, 0x6000_0000, "nop"),
        ];
        for (ours, assembled, text) in words {
            assert_eq!(ours, assembled, "{text}: {ours:08x} instead of {assembled:08x}");
        }
    }

    #[test]
    fn li64_is_five_words_of_the_value() {
        // lis 3,-292; ori 3,3,0xba98; sldi 3,3,32; oris 3,3,0x7654; ori 3,3,0x3210
        let words = [0x3c60_fedc, 0x6063_ba98, 0x7863_07c6, 0x6463_7654, 0x6063_3210];
        assert_eq!(li64(3, 0xfedc_ba98_7654_3210), words);
    }

    #[test]
    #[should_panic(expected = "r0 to r31")]
    fn register_32_does_not_wrap_into_the_next_field() {
        let _ = li(32, 0);
    }
}

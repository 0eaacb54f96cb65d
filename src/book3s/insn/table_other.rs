//! One line per cache operation and per storage access that is no single integer access.
//!
//! Whether the kernel's emulator takes one is read off `kvmppc_emulate_loadstore`: of the vector-scalar accesses it
//! knows those that `analyse_instr` gives elements of 4 or 8 bytes.

use super::table::Code::{self, D, Dq, Ds, X};
use super::types::{CacheOp, Direction, KernelSupport, Refusal, Refused};
use Direction::{Load, Store};
use KernelSupport::{Emulates, Refuses};
use Refusal::{
    AltiVec, AtomicMemory, CachingInhibited, CopyPaste, ExternalControl, FloatingPoint, Multiple, Quadword,
    Reservation, String, Vsx,
};

/// A line of the cache table.
pub(super) struct CacheRow {
    pub code: Code,
    pub op: CacheOp,
}

/// A line of the table of refused accesses.
pub(super) struct RefusedRow {
    pub code: Code,
    pub refused: Refused,
}

const fn cache(name: &'static str, code: Code, direction: Direction) -> CacheRow {
    CacheRow { code, op: CacheOp { name, direction } }
}

const fn row(
    name: &'static str,
    code: Code,
    why: Refusal,
    direction: Direction,
    bytes: u8,
    kernel: KernelSupport,
) -> RefusedRow {
    RefusedRow { code, refused: Refused { name, why, direction, bytes, kernel } }
}

/// Cache operations (Power ISA 2.07 Book II, 4.3; the CACHEOP class of `analyse_instr`).
pub(super) static CACHE: [CacheRow; 6] = [
    cache("dcbst", X(54), Load),
    cache("dcbf", X(86), Load),
    cache("dcbtst", X(246), Store),
    cache("dcbt", X(278), Load),
    cache("icbi", X(982), Load),
    cache("dcbz", X(1014), Store),
];

/// Accesses that are recognised and refused.
#[rustfmt::skip] // a table reads in columns
pub(super) static REFUSED: [RefusedRow; 101] = [
    row("lmw",      D(46),     Multiple,         Load,  0,  Refuses),
    row("stmw",     D(47),     Multiple,         Store, 0,  Refuses),
    row("lswx",     X(533),    String,           Load,  0,  Refuses),
    row("lswi",     X(597),    String,           Load,  0,  Refuses),
    row("stswx",    X(661),    String,           Store, 0,  Refuses),
    row("stswi",    X(725),    String,           Store, 0,  Refuses),
    row("lq",       D(56),     Quadword,         Load,  16, Refuses),
    row("stq",      Ds(62, 2), Quadword,         Store, 16, Refuses),
    row("lwarx",    X(20),     Reservation,      Load,  4,  Refuses),
    row("lbarx",    X(52),     Reservation,      Load,  1,  Refuses),
    row("ldarx",    X(84),     Reservation,      Load,  8,  Refuses),
    row("lharx",    X(116),    Reservation,      Load,  2,  Refuses),
    row("lqarx",    X(276),    Reservation,      Load,  16, Refuses),
    row("stwcx.",   X(150),    Reservation,      Store, 4,  Refuses),
    row("stqcx.",   X(182),    Reservation,      Store, 16, Refuses),
    row("stdcx.",   X(214),    Reservation,      Store, 8,  Refuses),
    row("stbcx.",   X(694),    Reservation,      Store, 1,  Refuses),
    row("sthcx.",   X(726),    Reservation,      Store, 2,  Refuses),
    row("lwat",     X(582),    AtomicMemory,     Load,  4,  Refuses),
    row("ldat",     X(614),    AtomicMemory,     Load,  8,  Refuses),
    row("stwat",    X(710),    AtomicMemory,     Store, 4,  Refuses),
    row("stdat",    X(742),    AtomicMemory,     Store, 8,  Refuses),
    row("copy",     X(774),    CopyPaste,        Load,  128, Refuses),
    row("paste.",   X(902),    CopyPaste,        Store, 128, Refuses),
    row("eciwx",    X(310),    ExternalControl,  Load,  4,  Refuses),
    row("ecowx",    X(438),    ExternalControl,  Store, 4,  Refuses),
    row("lwzcix",   X(789),    CachingInhibited, Load,  4,  Refuses),
    row("lhzcix",   X(821),    CachingInhibited, Load,  2,  Refuses),
    row("lbzcix",   X(853),    CachingInhibited, Load,  1,  Refuses),
    row("ldcix",    X(885),    CachingInhibited, Load,  8,  Refuses),
    row("stwcix",   X(917),    CachingInhibited, Store, 4,  Refuses),
    row("sthcix",   X(949),    CachingInhibited, Store, 2,  Refuses),
    row("stbcix",   X(981),    CachingInhibited, Store, 1,  Refuses),
    row("stdcix",   X(1013),   CachingInhibited, Store, 8,  Refuses),
    row("lfs",      D(48),     FloatingPoint,    Load,  4,  Emulates),
    row("lfsu",     D(49),     FloatingPoint,    Load,  4,  Emulates),
    row("lfd",      D(50),     FloatingPoint,    Load,  8,  Emulates),
    row("lfdu",     D(51),     FloatingPoint,    Load,  8,  Emulates),
    row("stfs",     D(52),     FloatingPoint,    Store, 4,  Emulates),
    row("stfsu",    D(53),     FloatingPoint,    Store, 4,  Emulates),
    row("stfd",     D(54),     FloatingPoint,    Store, 8,  Emulates),
    row("stfdu",    D(55),     FloatingPoint,    Store, 8,  Emulates),
    row("lfdp",     Ds(57, 0), FloatingPoint,    Load,  16, Refuses),
    row("stfdp",    Ds(61, 0), FloatingPoint,    Store, 16, Refuses),
    row("lfsx",     X(535),    FloatingPoint,    Load,  4,  Emulates),
    row("lfsux",    X(567),    FloatingPoint,    Load,  4,  Emulates),
    row("lfdx",     X(599),    FloatingPoint,    Load,  8,  Emulates),
    row("lfdux",    X(631),    FloatingPoint,    Load,  8,  Emulates),
    row("stfsx",    X(663),    FloatingPoint,    Store, 4,  Emulates),
    row("stfsux",   X(695),    FloatingPoint,    Store, 4,  Emulates),
    row("stfdx",    X(727),    FloatingPoint,    Store, 8,  Emulates),
    row("stfdux",   X(759),    FloatingPoint,    Store, 8,  Emulates),
    row("lfdpx",    X(791),    FloatingPoint,    Load,  16, Refuses),
    row("lfiwax",   X(855),    FloatingPoint,    Load,  4,  Emulates),
    row("lfiwzx",   X(887),    FloatingPoint,    Load,  4,  Emulates),
    row("stfdpx",   X(919),    FloatingPoint,    Store, 16, Refuses),
    row("stfiwx",   X(983),    FloatingPoint,    Store, 4,  Emulates),
    row("lvebx",    X(7),      AltiVec,          Load,  1,  Emulates),
    row("lvehx",    X(39),     AltiVec,          Load,  2,  Emulates),
    row("lvewx",    X(71),     AltiVec,          Load,  4,  Emulates),
    row("lvx",      X(103),    AltiVec,          Load,  16, Emulates),
    row("stvebx",   X(135),    AltiVec,          Store, 1,  Emulates),
    row("stvehx",   X(167),    AltiVec,          Store, 2,  Emulates),
    row("stvewx",   X(199),    AltiVec,          Store, 4,  Emulates),
    row("stvx",     X(231),    AltiVec,          Store, 16, Emulates),
    row("lvxl",     X(359),    AltiVec,          Load,  16, Emulates),
    row("stvxl",    X(487),    AltiVec,          Store, 16, Emulates),
    row("lxsd",     Ds(57, 2), Vsx,              Load,  8,  Emulates),
    row("lxssp",    Ds(57, 3), Vsx,              Load,  4,  Emulates),
    row("stxsd",    Ds(61, 2), Vsx,              Store, 8,  Emulates),
    row("stxssp",   Ds(61, 3), Vsx,              Store, 4,  Emulates),
    row("lxv",      Dq(61, 1), Vsx,              Load,  16, Refuses),
    row("stxv",     Dq(61, 5), Vsx,              Store, 16, Refuses),
    row("lxsiwzx",  X(12),     Vsx,              Load,  4,  Emulates),
    row("lxsiwax",  X(76),     Vsx,              Load,  4,  Emulates),
    row("stxsiwx",  X(140),    Vsx,              Store, 4,  Emulates),
    row("lxvx",     X(268),    Vsx,              Load,  16, Refuses),
    row("lxvx",     X(300),    Vsx,              Load,  16, Refuses), // an opcode bit of lxvx is "either"
    row("lxvl",     X(269),    Vsx,              Load,  0,  Refuses),
    row("lxvll",    X(301),    Vsx,              Load,  0,  Refuses),
    row("lxvdsx",   X(332),    Vsx,              Load,  8,  Emulates),
    row("lxvwsx",   X(364),    Vsx,              Load,  4,  Emulates),
    row("stxvx",    X(396),    Vsx,              Store, 16, Refuses),
    row("stxvl",    X(397),    Vsx,              Store, 0,  Refuses),
    row("stxvll",   X(429),    Vsx,              Store, 0,  Refuses),
    row("lxsspx",   X(524),    Vsx,              Load,  4,  Emulates),
    row("lxsdx",    X(588),    Vsx,              Load,  8,  Emulates),
    row("stxsspx",  X(652),    Vsx,              Store, 4,  Emulates),
    row("stxsdx",   X(716),    Vsx,              Store, 8,  Emulates),
    row("lxvw4x",   X(780),    Vsx,              Load,  16, Emulates),
    row("lxsibzx",  X(781),    Vsx,              Load,  1,  Emulates),
    row("lxvh8x",   X(812),    Vsx,              Load,  16, Refuses),
    row("lxsihzx",  X(813),    Vsx,              Load,  2,  Emulates),
    row("lxvd2x",   X(844),    Vsx,              Load,  16, Emulates),
    row("lxvb16x",  X(876),    Vsx,              Load,  16, Refuses),
    row("stxvw4x",  X(908),    Vsx,              Store, 16, Emulates),
    row("stxsibx",  X(909),    Vsx,              Store, 1,  Emulates),
    row("stxvh8x",  X(940),    Vsx,              Store, 16, Refuses),
    row("stxsihx",  X(941),    Vsx,              Store, 2,  Emulates),
    row("stxvd2x",  X(972),    Vsx,              Store, 16, Emulates),
    row("stxvb16x", X(1004),   Vsx,              Store, 16, Refuses),
];

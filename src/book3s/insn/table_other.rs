//! One line per cache operation and per storage access that KVM's emulator refuses.
//!
//! What it takes is read off `kvmppc_emulate_loadstore`: of the vector-scalar accesses those that `analyse_instr`
//! gives elements of 4 or 8 bytes.

use super::table::Code::{self, D, Dq, Ds, X};
use super::types::{CacheOp, Direction, Refusal, Refused};
use Direction::{Load, Store};
use Refusal::{
    AtomicMemory, CachingInhibited, CopyPaste, ExternalControl, FloatingPoint, Multiple, Quadword, Reservation, String,
    Vsx,
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

const fn row(name: &'static str, code: Code, why: Refusal, direction: Direction, bytes: u8) -> RefusedRow {
    RefusedRow { code, refused: Refused { name, why, direction, bytes } }
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
pub(super) static REFUSED: [RefusedRow; 51] = [
    row("lmw",      D(46),     Multiple,         Load,  0),
    row("stmw",     D(47),     Multiple,         Store, 0),
    row("lswx",     X(533),    String,           Load,  0),
    row("lswi",     X(597),    String,           Load,  0),
    row("stswx",    X(661),    String,           Store, 0),
    row("stswi",    X(725),    String,           Store, 0),
    row("lq",       D(56),     Quadword,         Load,  16),
    row("stq",      Ds(62, 2), Quadword,         Store, 16),
    row("lwarx",    X(20),     Reservation,      Load,  4),
    row("lbarx",    X(52),     Reservation,      Load,  1),
    row("ldarx",    X(84),     Reservation,      Load,  8),
    row("lharx",    X(116),    Reservation,      Load,  2),
    row("lqarx",    X(276),    Reservation,      Load,  16),
    row("stwcx.",   X(150),    Reservation,      Store, 4),
    row("stqcx.",   X(182),    Reservation,      Store, 16),
    row("stdcx.",   X(214),    Reservation,      Store, 8),
    row("stbcx.",   X(694),    Reservation,      Store, 1),
    row("sthcx.",   X(726),    Reservation,      Store, 2),
    row("lwat",     X(582),    AtomicMemory,     Load,  4),
    row("ldat",     X(614),    AtomicMemory,     Load,  8),
    row("stwat",    X(710),    AtomicMemory,     Store, 4),
    row("stdat",    X(742),    AtomicMemory,     Store, 8),
    row("copy",     X(774),    CopyPaste,        Load,  128),
    row("paste.",   X(902),    CopyPaste,        Store, 128),
    row("eciwx",    X(310),    ExternalControl,  Load,  4),
    row("ecowx",    X(438),    ExternalControl,  Store, 4),
    row("lwzcix",   X(789),    CachingInhibited, Load,  4),
    row("lhzcix",   X(821),    CachingInhibited, Load,  2),
    row("lbzcix",   X(853),    CachingInhibited, Load,  1),
    row("ldcix",    X(885),    CachingInhibited, Load,  8),
    row("stwcix",   X(917),    CachingInhibited, Store, 4),
    row("sthcix",   X(949),    CachingInhibited, Store, 2),
    row("stbcix",   X(981),    CachingInhibited, Store, 1),
    row("stdcix",   X(1013),   CachingInhibited, Store, 8),
    row("lfdp",     Ds(57, 0), FloatingPoint,    Load,  16),
    row("stfdp",    Ds(61, 0), FloatingPoint,    Store, 16),
    row("lfdpx",    X(791),    FloatingPoint,    Load,  16),
    row("stfdpx",   X(919),    FloatingPoint,    Store, 16),
    row("lxv",      Dq(61, 1), Vsx,              Load,  16),
    row("stxv",     Dq(61, 5), Vsx,              Store, 16),
    row("lxvx",     X(268),    Vsx,              Load,  16),
    row("lxvx",     X(300),    Vsx,              Load,  16), // an opcode bit of lxvx is "either"
    row("lxvl",     X(269),    Vsx,              Load,  0),
    row("lxvll",    X(301),    Vsx,              Load,  0),
    row("stxvx",    X(396),    Vsx,              Store, 16),
    row("stxvl",    X(397),    Vsx,              Store, 0),
    row("stxvll",   X(429),    Vsx,              Store, 0),
    row("lxvh8x",   X(812),    Vsx,              Load,  16),
    row("lxvb16x",  X(876),    Vsx,              Load,  16),
    row("stxvh8x",  X(940),    Vsx,              Store, 16),
    row("stxvb16x", X(1004),   Vsx,              Store, 16),
];

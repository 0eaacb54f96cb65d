//! The two doublewords of a hashed page table entry, ISA 2.07 form (Power ISA 2.07 Book III-S, 5.7.7.1).
//!
//! The one home of their bits: ISA name first, then the kernel's macro. The bits marked "software" are
//! reserved for the operating system by the ISA; Linux KVM gives them their meaning.

/// First doubleword: B, segment size, top two bits; 0 is 256 MiB, 1 is 1 TiB, 2 and 3 are reserved (`HPTE_V_SSIZE_SHIFT`).
pub const HPTE_V_B_SHIFT: u32 = 62;
/// First doubleword: AVPN field with B (`SLB_VSID_B | HPTE_V_AVPN`), bits 63 to 7.
pub const HPTE_V_AVPN_B: u64 = !0x7f;
/// First doubleword, software: lock (`HPTE_V_HVLOCK`).
pub const HPTE_V_HVLOCK: u64 = 0x40;
/// First doubleword, software: in the guest's view valid, for hardware not (`HPTE_V_ABSENT`).
pub const HPTE_V_ABSENT: u64 = 0x20;
/// First doubleword, software: bolted (`HPTE_V_BOLTED`).
pub const HPTE_V_BOLTED: u64 = 0x10;
/// First doubleword: L, page larger than 4 KiB (`HPTE_V_LARGE`).
pub const HPTE_V_LARGE: u64 = 0x4;
/// First doubleword: H, entry is in its secondary group (`HPTE_V_SECONDARY`).
pub const HPTE_V_SECONDARY: u64 = 0x2;
/// First doubleword: V, valid (`HPTE_V_VALID`).
pub const HPTE_V_VALID: u64 = 0x1;

/// Second doubleword: pp0, top protection bit (`HPTE_R_PP0`).
pub const HPTE_R_PP0: u64 = 1 << 63;
/// Second doubleword, software: reserved in the guest's view, cleared by H_ENTER (`HPTE_GR_RESERVED`).
pub const HPTE_GR_RESERVED: u64 = 1 << 62;
/// Second doubleword: key bits 0 and 1, the high ones (`HPTE_R_KEY_HI`).
pub const HPTE_R_KEY_HI: u64 = 3 << 60;
/// Second doubleword: ARPN with LP (`HPTE_R_RPN`).
pub const HPTE_R_RPN: u64 = 0x0fff_ffff_ffff_f000;
/// Second doubleword: key bits 2 to 4, the low ones (`HPTE_R_KEY_LO`).
pub const HPTE_R_KEY_LO: u64 = 0xe00;
/// Second doubleword: R, referenced (`HPTE_R_R`).
pub const HPTE_R_R: u64 = 0x100;
/// Second doubleword: C, changed (`HPTE_R_C`).
pub const HPTE_R_C: u64 = 0x80;
/// Second doubleword: W, write through (`HPTE_R_W`).
pub const HPTE_R_W: u64 = 0x40;
/// Second doubleword: I, caching inhibited (`HPTE_R_I`).
pub const HPTE_R_I: u64 = 0x20;
/// Second doubleword: M, memory coherence (`HPTE_R_M`).
pub const HPTE_R_M: u64 = 0x10;
/// Second doubleword: G, guarded (`HPTE_R_G`).
pub const HPTE_R_G: u64 = 0x8;
/// Second doubleword: N, no execute (`HPTE_R_N`).
pub const HPTE_R_N: u64 = 0x4;
/// Second doubleword: PP, low protection bits (`HPTE_R_PP`).
pub const HPTE_R_PP: u64 = 0x3;

/// All five key bits (`HPTE_R_KEY_HI | HPTE_R_KEY_LO`). All ones is key 31, which KVM uses for emulated MMIO.
pub const HPTE_R_KEY: u64 = HPTE_R_KEY_HI | HPTE_R_KEY_LO;
/// What H_PROTECT replaces: pp0, PP, N and the key (PAPR 14.5.4.1.6).
pub const HPTE_R_PROTECTION: u64 = HPTE_R_PP0 | HPTE_R_PP | HPTE_R_N | HPTE_R_KEY;

/// PP 00: supervisor read/write, user none (`PP_RWXX`).
pub const PP_RWXX: u64 = 0;
/// PP 01: supervisor read/write, user read (`PP_RWRX`).
pub const PP_RWRX: u64 = 1;
/// PP 10: read/write for both (`PP_RWRW`).
pub const PP_RWRW: u64 = 2;
/// PP 11: read for both (`PP_RXRX`).
pub const PP_RXRX: u64 = 3;
/// PP 110: supervisor read, user none (`PP_RXXX`).
pub const PP_RXXX: u64 = HPTE_R_PP0 | 2;

/// Both doublewords of an entry, in host byte order and ISA 2.07 form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hpte {
    /// First doubleword: B, AVPN, software bits, L, H, V.
    pub v: u64,
    /// Second doubleword: pp0, key, ARPN and LP, R, C, WIMG, N, PP.
    pub r: u64,
}

impl Hpte {
    /// Whether it is what KVM keeps for an emulated MMIO page: ABSENT, key 31 (`is_mmio_hpte`).
    #[must_use]
    pub const fn is_mmio(self) -> bool {
        self.v & HPTE_V_ABSENT != 0 && has_mmio_key(self.r)
    }
}

/// Storage key of a second doubleword, 0 to 31 (`hpte_get_skey_perm`).
#[must_use]
pub const fn storage_key(r: u64) -> u64 {
    ((r & HPTE_R_KEY_HI) >> 57) | ((r & HPTE_R_KEY_LO) >> 9)
}

/// A second doubleword's key bits for `key`, 0 to 31 (higher bits are dropped).
#[must_use]
pub const fn key_bits(key: u64) -> u64 {
    ((key << 57) & HPTE_R_KEY_HI) | ((key << 9) & HPTE_R_KEY_LO)
}

/// Whether the key field is all ones, KVM's mark of a possibly emulated MMIO page.
#[must_use]
pub const fn has_mmio_key(r: u64) -> bool {
    r & HPTE_R_KEY == HPTE_R_KEY
}

/// Whether a supervisor may write (`hpte_is_writable`).
#[must_use]
pub const fn is_writable(r: u64) -> bool {
    let pp = r & (HPTE_R_PP0 | HPTE_R_PP);
    pp != PP_RXRX && pp != PP_RXXX
}

/// The same entry with writing taken away and reading kept for those who had it (`hpte_make_readonly`).
#[must_use]
pub const fn make_readonly(r: u64) -> u64 {
    if r & HPTE_R_PP0 != 0 || r & HPTE_R_PP == PP_RWXX { (r & !HPTE_R_PP) | PP_RXXX } else { r | PP_RXRX }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_bits_and_storage_key_are_inverse_for_all_32_keys() {
        for key in 0..32 {
            assert_eq!(storage_key(key_bits(key)), key);
        }
        assert!(has_mmio_key(key_bits(31)) && !has_mmio_key(key_bits(30)) && !has_mmio_key(key_bits(24)));
    }

    #[test]
    fn making_an_entry_read_only_leaves_nobody_a_write_and_grants_nobody_a_read() {
        use crate::book3s::protect::{may_read, may_write};
        for pp in [PP_RWXX, PP_RWRX, PP_RWRW, PP_RXRX, PP_RXXX] {
            let ro = make_readonly(pp);
            assert!(!is_writable(ro));
            for key in [false, true] {
                assert!(!may_write(ro, key));
                assert!(!may_read(ro, key) || may_read(pp, key));
            }
        }
    }
}

//! Who may read and write a page: PP bits with Ks or Kp, and storage keys with the AMR
//! (Power ISA 2.07 Book III-S, 5.7.9).

use super::hpte::{HPTE_R_PP, HPTE_R_PP0, PP_RWRW, PP_RWRX, PP_RXRX, PP_RXXX, storage_key};
use super::insn::Direction;

/// Whether PP lets an access read (`hpte_read_permission`); `key` is Ks in supervisor state, Kp in problem state.
///
/// Like the kernel it grants a read through a reserved PP value when `key` is off; see [`is_reserved_pp`].
#[inline]
#[must_use]
pub const fn may_read(r: u64, key: bool) -> bool {
    let pp = r & (HPTE_R_PP0 | HPTE_R_PP);
    !key || (PP_RWRX <= pp && pp <= PP_RXRX)
}

/// Whether PP lets an access write (`hpte_write_permission`).
#[inline]
#[must_use]
pub const fn may_write(r: u64, key: bool) -> bool {
    let pp = r & (HPTE_R_PP0 | HPTE_R_PP);
    if key { pp == PP_RWRW } else { pp <= PP_RWRW }
}

/// Whether the three PP bits are a value the ISA reserves: PP0=1 with PP other than 10.
#[inline]
#[must_use]
pub const fn is_reserved_pp(r: u64) -> bool {
    r & HPTE_R_PP0 != 0 && r & (HPTE_R_PP0 | HPTE_R_PP) != PP_RXXX
}

/// Whether the AMR forbids the access through the storage key of `r` (`hpte_get_skey_perm`).
///
/// AMR bit pair of key k: bits `63 - 2k` (stores forbidden) and `62 - 2k` (loads forbidden), counted from the low end.
#[inline]
#[must_use]
pub const fn key_forbids(r: u64, amr: u64, direction: Direction) -> bool {
    let pair = (amr >> (62 - 2 * storage_key(r))) & 3;
    match direction {
        Direction::Load => pair & 1 != 0,
        Direction::Store => pair & 2 != 0,
    }
}

/// Whether *hardware* lets the access through PP: reserved values grant nothing.
#[inline]
#[must_use]
pub const fn hardware_permits(r: u64, key: bool, direction: Direction) -> bool {
    !is_reserved_pp(r)
        && match direction {
            Direction::Load => may_read(r, key),
            Direction::Store => may_write(r, key),
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book3s::hpte::{PP_RWXX, key_bits};

    #[test]
    fn the_pp_table_of_the_isa() {
        // (PP, key) -> (read, write)
        for (pp, key, read, write) in [
            (PP_RWXX, false, true, true),
            (PP_RWXX, true, false, false),
            (PP_RWRX, false, true, true),
            (PP_RWRX, true, true, false),
            (PP_RWRW, false, true, true),
            (PP_RWRW, true, true, true),
            (PP_RXRX, false, true, false),
            (PP_RXRX, true, true, false),
            (PP_RXXX, false, true, false),
            (PP_RXXX, true, false, false),
        ] {
            assert_eq!((may_read(pp, key), may_write(pp, key)), (read, write), "PP {pp:#x} key {key}");
            assert_eq!(hardware_permits(pp, key, Direction::Load), read);
            assert_eq!(hardware_permits(pp, key, Direction::Store), write);
        }
    }

    #[test]
    fn hardware_grants_nothing_through_a_reserved_pp_but_the_kernels_read_check_does() {
        let reserved = HPTE_R_PP0;
        assert!(is_reserved_pp(reserved) && may_read(reserved, false));
        assert!(!hardware_permits(reserved, false, Direction::Load));
    }

    #[test]
    fn each_key_has_its_own_pair_of_amr_bits() {
        for key in 0..32 {
            let r = key_bits(key);
            let stores = 1 << (63 - 2 * key);
            let loads = 1 << (62 - 2 * key);
            assert!(key_forbids(r, stores, Direction::Store) && !key_forbids(r, stores, Direction::Load));
            assert!(key_forbids(r, loads, Direction::Load) && !key_forbids(r, loads, Direction::Store));
            assert!(!key_forbids(r, !(stores | loads), Direction::Load));
        }
    }
}

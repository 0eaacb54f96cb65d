//! H_READ after any sequence of hypercalls, page-outs and accesses equals a naive model: a map from index to entry.

mod common;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use common::{MMIO, PAGE, World};
use hvmmio::addr::{EffectiveAddr, GuestPhysAddr, PteIndex};
use hvmmio::book3s::Hpte;
use hvmmio::book3s::hpte::{
    HPTE_R_C, HPTE_R_PP, HPTE_R_PROTECTION, HPTE_R_R, HPTE_V_ABSENT, HPTE_V_AVPN_B, HPTE_V_VALID, PP_RXRX, key_bits,
};
use hvmmio::kvm_hv::{HcallError, Outcome, ProtectFlags, flags};
use hvmmio::workload::guest::PageUse;
use proptest::prelude::*;

/// Pages 0 to 2 are RAM, 3 and 4 are MMIO.
const PAGES: u64 = 5;
const RAM_PAGES: u64 = 3;

#[derive(Clone, Copy, Debug)]
enum Op {
    Enter { page: u64, exact: bool, slot: u64, rc: u64, key: u64 },
    Remove { page: u64, slot: u64, condition: u64 },
    Bulk { slots: [(u64, u64); 3] },
    Protect { page: u64, slot: u64, read_only: bool, key: u64 },
    ClearRef { page: u64, slot: u64 },
    ClearMod { page: u64, slot: u64 },
    PageOut { page: u64 },
    Store { page: u64 },
    Load { page: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let page = 0..PAGES;
    let slot = 0..3_u64;
    let key = prop_oneof![Just(0_u64), Just(31), 0..32_u64];
    prop_oneof![
        4 => (page.clone(), any::<bool>(), slot.clone(), 0..4_u64, key.clone())
            .prop_map(|(page, exact, slot, rc, key)| Op::Enter { page, exact, slot, rc, key }),
        2 => (page.clone(), slot.clone(), 0..4_u64)
            .prop_map(|(page, slot, condition)| Op::Remove { page, slot, condition }),
        1 => prop::array::uniform3((page.clone(), slot.clone())).prop_map(|slots| Op::Bulk { slots }),
        2 => (page.clone(), slot.clone(), any::<bool>(), key)
            .prop_map(|(page, slot, read_only, key)| Op::Protect { page, slot, read_only, key }),
        1 => (page.clone(), slot.clone()).prop_map(|(page, slot)| Op::ClearRef { page, slot }),
        1 => (page.clone(), slot).prop_map(|(page, slot)| Op::ClearMod { page, slot }),
        1 => page.clone().prop_map(|page| Op::PageOut { page }),
        2 => page.clone().prop_map(|page| Op::Store { page }),
        2 => page.prop_map(|page| Op::Load { page }),
    ]
}

fn ea(page: u64) -> EffectiveAddr {
    common::mmio_ea(page)
}

fn gpa(page: u64) -> GuestPhysAddr {
    GuestPhysAddr(if page < RAM_PAGES { page * PAGE } else { MMIO + page * PAGE })
}

/// The naive model: what the guest put where.
#[derive(Default)]
struct Model {
    entries: BTreeMap<u64, Hpte>,
    /// R and C cleared by hypercall while the entry was ABSENT: the kernel clears them in the guest's doubleword only,
    /// and H_READ goes on to show what the host's has, until the page is mapped again.
    sticky: BTreeMap<u64, u64>,
}

impl Model {
    fn enter(&mut self, flags: u64, at: u64, hpte: Hpte) -> Result<u64, HcallError> {
        let exact = flags & flags::H_EXACT != 0;
        let mut places = if exact { at..at + 1 } else { at & !7..(at & !7) + 8 };
        let place = places.find(|i| !self.entries.contains_key(i)).ok_or(HcallError::PtegFull)?;
        self.entries.insert(place, Hpte { v: hpte.v | HPTE_V_VALID, ..hpte });
        self.sticky.remove(&place);
        Ok(place)
    }

    fn remove(&mut self, flags: u64, at: u64, avpn: u64) -> Result<Hpte, HcallError> {
        let entry = *self.entries.get(&at).ok_or(HcallError::NotFound)?;
        let holds = (flags & flags::H_AVPN == 0 || entry.v & HPTE_V_AVPN_B == avpn)
            && (flags & flags::H_ANDCOND == 0 || entry.v & !HPTE_V_VALID & avpn == 0);
        if !holds {
            return Err(HcallError::NotFound);
        }
        self.entries.remove(&at);
        Ok(entry)
    }

    fn change(&mut self, at: u64, change: impl FnOnce(&mut Hpte)) -> Result<(), HcallError> {
        self.entries.get_mut(&at).map(change).ok_or(HcallError::NotFound)
    }

    fn clear(&mut self, at: u64, bit: u64, absent: bool) -> Result<(), HcallError> {
        let entry = self.entries.get_mut(&at).ok_or(HcallError::NotFound)?;
        if absent {
            *self.sticky.entry(at).or_default() |= entry.r & bit;
        }
        entry.r &= !bit;
        Ok(())
    }

    /// An access through an entry of the group that maps the page: the first that `is_valid`, else the first.
    fn access(&mut self, group: u64, v: u64, bits: u64, is_valid: impl Fn(u64) -> bool) -> bool {
        let candidates = || self.entries.range(group..group + 8).filter(|(_, e)| e.v == v | HPTE_V_VALID).map(|e| *e.0);
        let Some(at) = candidates().find(|at| is_valid(*at)).or_else(|| candidates().next()) else { return false };
        let Some(entry) = self.entries.get_mut(&at) else { return false };
        if bits & HPTE_R_C != 0 && entry.r & HPTE_R_PP == PP_RXRX {
            return false;
        }
        entry.r |= bits;
        self.sticky.remove(&at);
        true
    }
}

struct Pair {
    world: World,
    model: Model,
}

impl Pair {
    fn new() -> Self {
        let world = World::new();
        world.add_ram(RAM_PAGES);
        Self { world, model: Model::default() }
    }

    fn hpte(&self, page: u64) -> (Hpte, u64) {
        let (hpte, key) = self.world.guest.hpte(ea(page), gpa(page), PageUse::RAM).unwrap();
        let plain = Hpte { r: hpte.r & !(HPTE_R_R | HPTE_R_C), ..hpte };
        (plain, self.world.vm.hpt().group_index(&key, false).0)
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Enter { page, exact, slot, rc, key } => {
                let (hpte, group) = self.hpte(page);
                let hpte = Hpte { r: hpte.r | rc << 7 | key_bits(key), ..hpte };
                let (flags, at) = (if exact { flags::H_EXACT } else { 0 }, group + slot);
                let entered = self.world.vm.h_enter(flags, PteIndex(at), hpte).map(|at| at.0);
                assert_eq!(entered, self.model.enter(flags, at, hpte));
            }
            Op::Remove { page, slot, condition } => {
                let (hpte, group) = self.hpte(page);
                let avpn = hpte.v & HPTE_V_AVPN_B;
                let (flags, avpn) = match condition {
                    0 => (0, 0),
                    1 => (flags::H_AVPN, avpn),
                    2 => (flags::H_AVPN, avpn ^ 0x80),
                    _ => (flags::H_ANDCOND, avpn),
                };
                let removed = self.world.vm.h_remove(flags, PteIndex(group + slot), avpn);
                assert_eq!(removed, self.model.remove(flags, group + slot, avpn));
            }
            Op::Bulk { slots } => self.bulk(slots),
            Op::Protect { page, slot, read_only, key } => {
                let (_, group) = self.hpte(page);
                let bits = key_bits(key) | if read_only { PP_RXRX } else { 0 };
                let done = self.world.vm.h_protect(ProtectFlags::from_r(bits), PteIndex(group + slot), 0);
                let change = |entry: &mut Hpte| entry.r = entry.r & !HPTE_R_PROTECTION | bits;
                assert_eq!(done, self.model.change(group + slot, change));
            }
            Op::ClearRef { page, slot } => {
                let (_, group) = self.hpte(page);
                let absent = self.is_absent(group + slot);
                let done = self.world.vm.h_clear_ref(PteIndex(group + slot)).map(|_| ());
                assert_eq!(done, self.model.clear(group + slot, HPTE_R_R, absent));
            }
            Op::ClearMod { page, slot } => {
                let (_, group) = self.hpte(page);
                let absent = self.is_absent(group + slot);
                let done = self.world.vm.h_clear_mod(PteIndex(group + slot)).map(|_| ());
                assert_eq!(done, self.model.clear(group + slot, HPTE_R_C, absent));
            }
            Op::PageOut { page } => assert_eq!(self.world.vm.page_out(gpa(page)).is_some(), page < RAM_PAGES),
            Op::Store { page } => self.access(page, HPTE_R_R | HPTE_R_C),
            Op::Load { page } => self.access(page, HPTE_R_R),
        }
    }

    fn bulk(&mut self, slots: [(u64, u64); 3]) {
        let mut args = [0xc0 << 56; 8];
        let mut wanted = args;
        for ((pair, answer), (page, slot)) in args.chunks_exact_mut(2).zip(wanted.chunks_exact_mut(2)).zip(slots) {
            let at = self.hpte(page).1 + slot;
            pair[0] = 0x40 << 56 | at;
            answer[0] = match self.model.remove(0, at, 0) {
                Ok(entry) => 0x80 << 56 | (entry.r & (HPTE_R_R | HPTE_R_C)) << 51 | at,
                Err(_) => 0x90 << 56 | at,
            };
        }
        self.world.vm.h_bulk_remove(&mut args).unwrap();
        assert_eq!(args, wanted);
    }

    fn is_absent(&self, at: u64) -> bool {
        self.world.host(PteIndex(at)).v & HPTE_V_ABSENT != 0
    }

    fn access(&mut self, page: u64, bits: u64) {
        let (hpte, group) = self.hpte(page);
        let hpt = self.world.vm.hpt().as_ref().clone();
        let record = if bits & HPTE_R_C != 0 { self.world.store(ea(page)) } else { self.world.load(ea(page)) };
        assert!(!record.ram_as_mmio);
        let served = !matches!(record.outcome, Outcome::Reflected(_));
        if page < RAM_PAGES {
            let is_valid = |at| hpt.peek(PteIndex(at)).is_some_and(|(host, _)| host.v & HPTE_V_VALID != 0);
            assert_eq!(served, self.model.access(group, hpte.v, bits, is_valid), "{record:?}");
        }
    }

    fn check(&self) {
        for page in 0..PAGES {
            let (_, group) = self.hpte(page);
            for at in group..group + 8 {
                let seen = self.world.read(PteIndex(at));
                match self.model.entries.get(&at) {
                    Some(entry) => {
                        let sticky = self.model.sticky.get(&at).copied().unwrap_or_default();
                        assert_eq!(seen, Hpte { r: entry.r | sticky & seen.r, ..*entry }, "index {at:#x}");
                    }
                    None => assert_eq!(seen.v, 0, "index {at:#x}"),
                }
            }
        }
        assert_eq!(self.world.vm.hpt().used().count(), self.model.entries.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn h_read_equals_the_model_after_every_operation(ops in prop::collection::vec(op(), 1..60)) {
        let mut pair = Pair::new();
        for op in ops {
            pair.apply(op);
            pair.check();
        }
    }

    #[test]
    fn a_cloned_vm_is_equal_hashes_alike_and_goes_its_own_way(
        ops in prop::collection::vec(op(), 1..30),
        later in prop::collection::vec(op(), 1..10),
    ) {
        let mut pair = Pair::new();
        ops.into_iter().for_each(|op| pair.apply(op));
        let (hasher, vm) = (RandomState::new(), pair.world.vm.clone());
        prop_assert!(vm == pair.world.vm);
        prop_assert_eq!(hasher.hash_one(&vm), hasher.hash_one(&pair.world.vm));
        let second = vm.clone();
        later.into_iter().for_each(|op| pair.apply(op));
        prop_assert!(vm == second, "what the original does afterwards does not show in the copy");
        // And the copy is a whole VM: the guest in it sees the entry that it enters.
        let at = pair.world.guest.map(&vm, common::ram_ea(9), GuestPhysAddr(MMIO), PageUse::DEVICE).unwrap();
        prop_assert!(vm != second);
        prop_assert!(vm.h_read(0, at).unwrap()[0].v != 0);
    }
}

#[test]
fn vms_that_differ_in_one_word_are_not_equal() {
    let world = World::new();
    let other = world.vm.clone();
    assert!(world.vm == other);
    other.hpt().rev(PteIndex(77)).unwrap().guest_rpte.store(1, std::sync::atomic::Ordering::Relaxed);
    assert!(world.vm != other);
}

//! What streams ask of the hypervisor: entries, and hypercalls on them.

use crate::addr::{GuestPhysAddr, PteIndex};
use crate::book3s::hash::PTEG_ENTRIES;
use crate::book3s::hpte::{
    HPTE_R_C, HPTE_R_G, HPTE_R_I, HPTE_R_M, HPTE_R_N, HPTE_R_R, HPTE_V_ABSENT, HPTE_V_AVPN_B, HPTE_V_BOLTED,
    HPTE_V_LARGE, HPTE_V_SECONDARY, HPTE_V_VALID, PP_RWRW, PP_RWRX, PP_RWXX, PP_RXRX, PP_RXXX, key_bits,
};
use crate::book3s::insn::Direction;
use crate::book3s::{Hpte, PageSize};
use crate::kvm_hv::{ProtectFlags, flags, number};
use crate::sim::StepError;
use crate::workload::guest::PageUse;
use crate::workload::script::{bulk, group};
use crate::workload::steps::GuestOp;

use super::draw::Draw;
use super::world::{HUGE_GPA, HUGE_PAGES, MMIO_GPA, MMIO_PAGES, REGION_PAGES, REGIONS, VirtualPage, region_gpa};

/// Protections that are not reserved, and how often.
const PROTECTIONS: [u64; 10] =
    [PP_RWXX, PP_RWXX, PP_RWRW, PP_RWRW, PP_RWRW, PP_RWRW, PP_RWRX, PP_RWRX, PP_RXRX, PP_RXXX];
/// A hypercall that PAPR does not have: it goes to user space.
pub(super) const NO_HCALL: u64 = 0x3f0;
/// Storage keys that streams use beside 0, and how often.
pub(super) const KEYS: [u64; 5] = [1, 2, 17, 31, 31];

impl Draw {
    /// An entry for the page, for its primary group: to MMIO, or where RAM may be.
    pub fn entry(&mut self, page: usize) -> Option<Hpte> {
        let VirtualPage { ea, sizes, .. } = self.pages[page];
        let gpa = match sizes.actual {
            PageSize::M16 => HUGE_GPA.0 + (self.rng.below(HUGE_PAGES) << PageSize::M16.shift()),
            _ => {
                let frame = if self.rng.one_in(2) {
                    MMIO_GPA.0 + (self.rng.below(MMIO_PAGES) << PageSize::K64.shift())
                } else {
                    let region = self.rng.below(REGIONS);
                    region_gpa(region).0 + (self.rng.below(REGION_PAGES) << PageSize::K64.shift())
                };
                let part = if self.rng.one_in(4) { self.rng.below(16) } else { 0 };
                frame | part << PageSize::K4.shift() & !(sizes.actual.bytes() - 1)
            }
        };
        let gpa = GuestPhysAddr(gpa);
        let key = if self.rng.one_in(4) { self.rng.pick(&KEYS) } else { 0 };
        let wimg = self.rng.pick(&[HPTE_R_M, HPTE_R_I | HPTE_R_G]);
        let mapped = PageUse { pp: self.rng.pick(&PROTECTIONS), key, wimg };
        let (hpte, _) = self.pages[page].guest().hpte(ea, gpa, mapped)?;
        let bolted = if self.rng.one_in(12) { HPTE_V_BOLTED } else { 0 };
        let rc = self.rng.pick(&[0, HPTE_R_R, HPTE_R_R | HPTE_R_C]);
        let n = self.rng.pick(&[0, 0, HPTE_R_N]);
        Some(Hpte { v: hpte.v | bolted, r: hpte.r & !(HPTE_R_R | HPTE_R_C) | rc | n })
    }

    /// H_ENTER of a page that has no entry: any slot of its primary group, of its secondary one, or a very slot.
    pub fn enter(&mut self, page: usize) -> Result<(), StepError> {
        if self.find(page).is_some() {
            return Ok(());
        }
        let (key, Some(entry)) = (self.key(page), self.entry(page)) else { return Ok(()) };
        let secondary = self.rng.one_in(8);
        let first = group(&key, self.order, secondary).0;
        let h = if secondary { HPTE_V_SECONDARY } else { 0 };
        // A bolted one keeps off the slot that the VRMA's have in a smaller table.
        let exact = self.rng.one_in(3) || entry.v & HPTE_V_BOLTED != 0;
        let slot = self.rng.below(PTEG_ENTRIES - 1);
        let how = if exact { flags::H_EXACT } else { 0 };
        self.hcall(number::H_ENTER, &[how, first + slot, entry.v | h, entry.r])
    }

    pub fn hcall(&mut self, number: u64, first: &[u64]) -> Result<(), StepError> {
        // What is no argument is left as it is, and seen to be.
        let mut args = [0; 9];
        args.fill_with(|| self.rng.bits());
        args[..first.len()].copy_from_slice(first);
        self.guest(GuestOp::Hcall { number, args }).map(drop)
    }

    /// An index to name: that of a page's entry, or where nothing is, or beyond the table.
    fn some_index(&mut self) -> (PteIndex, u64) {
        let page = self.some_page();
        if let Some(at) = self.find(page) {
            if !self.rng.one_in(20) {
                let v = self.sim.vm().hpt().peek(at).map_or(0, |(hpte, _)| hpte.v);
                return (at, v);
            }
        }
        let npte = self.sim.vm().hpt().npte();
        if self.rng.one_in(8) {
            return (PteIndex(npte + self.rng.below(3)), 0);
        }
        let free = (0..).map(|_| PteIndex(self.rng.below(npte)));
        let hpt = self.sim.vm().hpt();
        let mut free =
            free.filter(|at| hpt.peek(*at).is_some_and(|(it, _)| it.v & (HPTE_V_VALID | HPTE_V_ABSENT) == 0));
        (free.next().unwrap_or(PteIndex(npte)), 0)
    }

    pub fn hypercall(&mut self) -> Result<(), StepError> {
        match self.rng.below(20) {
            0..=7 => {
                let unentered: Vec<_> = (0..self.pages.len()).filter(|page| self.find(*page).is_none()).collect();
                let hot = self.hot.iter().copied().find(|page| unentered.contains(page));
                match hot.or_else(|| (!unentered.is_empty()).then(|| self.rng.pick(&unentered))) {
                    Some(page) => self.enter(page),
                    None => self.remove(),
                }
            }
            8..=10 => self.remove(),
            11 => self.bulk_remove(),
            12 => self.protect_and_back(),
            13 | 14 => self.protect(),
            15 | 16 => {
                let (at, _) = self.some_index();
                let how = self.rng.pick(&[0, flags::H_READ_4]);
                self.hcall(number::H_READ, &[how, at.0])
            }
            17 | 18 => {
                let (at, _) = self.some_index();
                let which = self.rng.pick(&[number::H_CLEAR_REF, number::H_CLEAR_MOD]);
                self.hcall(which, &[0, at.0])
            }
            _ => self.malformed(),
        }
    }

    fn protect(&mut self) -> Result<(), StepError> {
        let (at, v) = self.some_index();
        let key = if self.rng.one_in(3) { self.rng.pick(&KEYS) } else { 0 };
        let r = self.rng.pick(&PROTECTIONS) | key_bits(key) | self.rng.pick(&[0, HPTE_R_N]);
        let conditions = self.rng.pick(&[0, 0, flags::H_AVPN]);
        let avpn = self.avpn(v);
        self.hcall(number::H_PROTECT, &[ProtectFlags::from_r(r).0 | conditions, at.0, avpn])
    }

    /// Read-only, read-write again, and a store: of RAM it takes a protection fault, since H_PROTECT never makes a VALID
    /// entry writable.
    fn protect_and_back(&mut self) -> Result<(), StepError> {
        let page = self.some_page();
        let Some(at) = self.find(page) else { return self.enter(page) };
        let key = key_bits(self.rng.pick(&KEYS));
        for pp in [PP_RXRX, PP_RWRW] {
            self.hcall(number::H_PROTECT, &[ProtectFlags::from_r(pp | key).0, at.0, 0])?;
        }
        self.access_to(page, Direction::Store)
    }

    /// The AVPN of an entry, or one that is wrong.
    fn avpn(&mut self, v: u64) -> u64 {
        if self.rng.one_in(5) { v & HPTE_V_AVPN_B ^ 0x80 } else { v & HPTE_V_AVPN_B }
    }

    fn remove(&mut self) -> Result<(), StepError> {
        let (at, v) = self.some_index();
        let how = self.rng.pick(&[0, 0, flags::H_AVPN, flags::H_ANDCOND]);
        let condition = if how == flags::H_ANDCOND { HPTE_V_BOLTED } else { self.avpn(v) };
        self.hcall(number::H_REMOVE, &[how, at.0, condition])
    }

    fn bulk_remove(&mut self) -> Result<(), StepError> {
        let mut words = Vec::new();
        for _ in 0..1 + self.rng.below(4) {
            let (at, v) = self.some_index();
            let (request, condition) = match self.rng.below(8) {
                0 => (bulk::ANDCOND, HPTE_V_BOLTED),
                1 => (bulk::AVPN, self.avpn(v)),
                // Not a request.
                2 if self.rng.one_in(4) => (2 << 62, 0),
                _ => (bulk::ABSOLUTE, 0),
            };
            words.extend([request | at.0, condition]);
        }
        if words.len() < 8 {
            words.extend([bulk::END, 0]);
        }
        self.hcall(number::H_BULK_REMOVE, &words)
    }

    /// What is refused: reserved B, no page size, an index beyond the table, no such hypercall.
    fn malformed(&mut self) -> Result<(), StepError> {
        let page = self.some_page();
        let (key, Some(entry)) = (self.key(page), self.entry(page)) else { return Ok(()) };
        let first = group(&key, self.order, false).0;
        match self.rng.below(4) {
            0 => self.hcall(number::H_ENTER, &[0, first, entry.v | 1 << 63, entry.r]),
            1 => {
                let unassigned = entry.r & !0xff_0000 & !0xf000 | 0x2000;
                self.hcall(number::H_ENTER, &[0, first, entry.v | HPTE_V_LARGE, unassigned])
            }
            2 => {
                let beyond = self.sim.vm().hpt().npte();
                self.hcall(number::H_ENTER, &[0, beyond, entry.v, entry.r])
            }
            _ => self.hcall(NO_HCALL, &[]),
        }
    }
}

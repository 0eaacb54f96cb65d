//! The VMM's part of a drawn stream: memslots, page-out, tables, ioeventfds.

use crate::addr::{GuestPhysAddr, PteIndex, index};
use crate::book3s::Hpte;
use crate::book3s::hash::PTEG_ENTRIES;
use crate::book3s::hpte::{HPTE_V_ABSENT, HPTE_V_SECONDARY, HPTE_V_VALID};
use crate::kvm_hv::memslot::DirtyLog;
use crate::sim::StepError;
use crate::workload::script::group;
use crate::workload::steps::{Answer, Attach, HcallMode, Step, VmmOp};

use super::draw::{Draw, OFFSETS};
use super::world::{MMIO_GPA, MMIO_PAGES, MOVED, REGION_PAGES, REGIONS, region_gpa, region_slot};

const PAGE_SHIFT: u32 = 16;
/// ioeventfds that a stream assigns at most: each is a file descriptor of the real VMM.
const EVENTFDS: usize = 24;

/// What it remembers.
#[derive(Default)]
pub(super) struct VmmDraw {
    ioeventfds: Vec<VmmOp>,
    assigned: usize,
}

impl Draw {
    /// Creates the first two regions, so that there is RAM to begin with.
    pub fn region_steps(&mut self) -> Result<(), StepError> {
        for region in 0..2 {
            self.set_region(region, region_gpa(region), DirtyLog::Off)?;
        }
        Ok(())
    }

    fn set_region(&mut self, region: u64, base: GuestPhysAddr, dirty_log: DirtyLog) -> Result<(), StepError> {
        let size = REGION_PAGES << PAGE_SHIFT;
        self.host(VmmOp::SetMemslot { id: region_slot(region), base, size, dirty_log }).map(drop)
    }

    pub fn vmm_step(&mut self) -> Result<(), StepError> {
        let region = self.rng.below(REGIONS);
        let here = region_gpa(region);
        match self.rng.below(100) {
            0..=29 => {
                let moved = if self.rng.one_in(4) { MOVED } else { 0 };
                let drawn = self.rng.pick(&[DirtyLog::Off, DirtyLog::Off, DirtyLog::On]);
                let dirty_log = match self.hcalls {
                    HcallMode::Virtual => drawn,
                    HcallMode::Real => DirtyLog::Off,
                };
                self.set_region(region, GuestPhysAddr(here.0 + moved), dirty_log)
            }
            30..=39 => self.host(VmmOp::DeleteMemslot { id: region_slot(region) }).map(drop),
            40..=69 => self.page_out_or_in(region),
            70..=86 => self.ioeventfd(),
            87..=92 => self.write_htab(),
            93 => {
                let order = self.rng.pick(&[18, 19]);
                self.new_table(order)
            }
            94..=95 => {
                let order = self.rng.pick(&[18, 19, 20]);
                let done = self.host(VmmOp::ResizeHpt { order })?;
                if done == (Answer::Vmm { errno: 0 }) {
                    self.order = order;
                }
                Ok(())
            }
            _ => self.refused(region),
        }
    }

    /// A page of the region, where it is now; nothing where it is not.
    fn page_out_or_in(&mut self, region: u64) -> Result<(), StepError> {
        let slot = self.sim.vm().memslots().by_id(region_slot(region)).map(|slot| slot.base.base(PAGE_SHIFT));
        let Some(base) = slot else { return Ok(()) };
        let gpa = GuestPhysAddr(base.0 + (self.rng.below(REGION_PAGES) << PAGE_SHIFT) + u64::from(self.rng.byte()));
        let op = if self.rng.one_in(4) { VmmOp::PageIn { gpa } } else { VmmOp::PageOut { gpa } };
        self.host(op).map(drop)
    }

    fn ioeventfd(&mut self) -> Result<(), StepError> {
        if !self.vmm.ioeventfds.is_empty() && self.rng.one_in(3) {
            let at = index(self.rng.below(self.vmm.ioeventfds.len() as u64));
            let op = self.vmm.ioeventfds.swap_remove(at);
            return self.host(op).map(drop);
        }
        if self.vmm.assigned == EVENTFDS {
            return Ok(());
        }
        let frame = MMIO_GPA.0 + (self.rng.below(MMIO_PAGES) << PAGE_SHIFT);
        let gpa = GuestPhysAddr(frame + self.rng.pick(&OFFSETS));
        let length = self.rng.pick(&[0, 0, 1, 2, 4, 4, 8, 3]);
        let datamatch = if self.rng.one_in(4) { Some(u64::from(self.rng.byte())) } else { None };
        let op = |attach| VmmOp::Ioeventfd { gpa, length, datamatch, attach };
        if self.host(op(Attach::Assign))? == (Answer::Vmm { errno: 0 }) {
            self.vmm.assigned += 1;
            self.vmm.ioeventfds.push(op(Attach::Deassign));
        }
        Ok(())
    }

    /// An entry as migration restores it: over the page's own, into a free slot, or none where one was.
    fn write_htab(&mut self) -> Result<(), StepError> {
        let page = index(self.rng.below(self.pages.len() as u64));
        let Some(entry) = self.entry(page) else { return Ok(()) };
        let key = self.key(page);
        let (at, entry) = match self.find(page) {
            Some(at) => {
                // It keeps the group it is in.
                let primary = group(&key, self.order, false).0 == at.0 & !(PTEG_ENTRIES - 1);
                let h = if primary { 0 } else { HPTE_V_SECONDARY };
                let gone = self.rng.one_in(3);
                (at, if gone { Hpte::default() } else { Hpte { v: entry.v | h, r: entry.r } })
            }
            None => {
                let first = group(&key, self.order, false);
                let hpt = self.sim.vm().hpt();
                let free = (first.0..first.0 + PTEG_ENTRIES - 1)
                    .map(PteIndex)
                    .find(|at| hpt.peek(*at).is_some_and(|(it, _)| it.v & (HPTE_V_VALID | HPTE_V_ABSENT) == 0));
                let Some(at) = free else { return Ok(()) };
                (at, entry)
            }
        };
        self.push(Step::Vmm(VmmOp::WriteHtab { index: at, entry })).map(drop)
    }

    /// What the kernel refuses.
    fn refused(&mut self, region: u64) -> Result<(), StepError> {
        let (id, base) = (region_slot(region), region_gpa(region));
        let dirty_log = DirtyLog::Off;
        let op = match self.rng.below(5) {
            // In another's way.
            0 => VmmOp::SetMemslot { id: 30, base, size: 1 << PAGE_SHIFT, dirty_log },
            // Another size.
            1 => VmmOp::SetMemslot { id, base, size: (REGION_PAGES + 1) << PAGE_SHIFT, dirty_log },
            2 => VmmOp::DeleteMemslot { id: 29 },
            3 => VmmOp::ResizeHpt { order: 17 },
            _ => VmmOp::WriteHtab { index: PteIndex(self.sim.vm().hpt().npte()), entry: Hpte { v: 1, r: 0 } },
        };
        // Without the other there is nothing in the way, and the slot would come to stay.
        let exists = self.sim.vm().memslots().by_id(id).is_some_and(|slot| slot.base.base(PAGE_SHIFT) == base);
        if exists { self.host(op).map(drop) } else { Ok(()) }
    }
}

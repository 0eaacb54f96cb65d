//! Streams drawn from a seed.
//!
//! The draw performs each step in a kernel-faithful simulator of its own, so that hypercalls name entries that are there.
//! Not drawn, because a kernel may answer them differently, or dies of them:
//!
//! | not drawn | why |
//! |---|---|
//! | a second entry for a virtual address | which of the two hardware finds is not defined |
//! | removal of the stub's or a VRMA entry | the runtime needs them |
//! | reserved PP values | a load through one is retried without end and may fill the cache each time (H8 is a stream of its own) |
//! | accesses that are not aligned | hardware may split them or take an alignment interrupt |
//! | RAM pages of 16 MiB | the host's pages are smaller, and KVM_RUN fails with EFAULT where a memslot came later |
//! | two SLB entries for an address | a multi-hit machine check |
//! | MMIO right after another AMR | before POWER9 the early handler checks by the AMR as it was at the last exit to the host |
//! | another AMR or VSID without slbie and slbmte | required of a guest for the VSID; for the AMR, QEMU's TLB wants it |
//! | bolted entries outside their groups | a resize may find two for one place and stops the host (`BUG_ON`) |
//! | dirty logs where hypercalls are taken in real mode | the kernel stops the processor ([`HcallMode::Real`]) |
//! | KVM_PPC_ALLOCATE_HTAB of an order out of range | the kernel has freed the old table by then |
//! | WriteHtab of entries in slot 7 before the first run | KVM puts the VRMA there |

use crate::addr::{EffectiveAddr, GuestPhysAddr, PteIndex, index};
use crate::book3s::hash::PTEG_ENTRIES;
use crate::book3s::hpte::{
    HPTE_R_C, HPTE_R_G, HPTE_R_I, HPTE_R_M, HPTE_R_N, HPTE_R_R, HPTE_V_ABSENT, HPTE_V_AVPN_B, HPTE_V_BOLTED,
    HPTE_V_SECONDARY, HPTE_V_VALID, PP_RWRW, PP_RWRX, PP_RWXX, PP_RXRX, PP_RXXX, key_bits,
};
use crate::book3s::insn::{Direction, Offset, encode};
use crate::book3s::{HashKey, Hpte, PageSize};
use crate::kvm_hv::{ProtectFlags, flags, number};
use crate::proof::rng::Rng;
use crate::sim::{SimSteps, StepError, StepsConfig};
use crate::workload::guest::PageUse;
use crate::workload::script::{Script, ScriptError, bulk, group, slbie, slbmte};
use crate::workload::steps::{Answer, GuestAccess, GuestOp, HcallMode, Step, StepExecutor, VmmOp};

use super::vmm_draw::VmmDraw;
use super::words::Words;
use super::world::{
    HUGE_GPA, HUGE_PAGES, MMIO_GPA, MMIO_PAGES, REGION_PAGES, REGIONS, SEGMENTS, Variant, VirtualPage, pages,
    region_gpa, slb_entry,
};

/// A stream of steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepStream {
    /// What it is called in reports.
    pub name: String,
    /// In order.
    pub steps: Vec<Step>,
}

/// Why no stream could be drawn: the simulator refused a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrawError {
    /// A step.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The first steps.
    #[error(transparent)]
    Script(#[from] ScriptError),
}

/// Protections that are not reserved, and how often.
const PROTECTIONS: [u64; 10] =
    [PP_RWXX, PP_RWXX, PP_RWRW, PP_RWRW, PP_RWRW, PP_RWRW, PP_RWRX, PP_RWRX, PP_RXRX, PP_RXXX];
/// A hypercall that PAPR does not have: it goes to user space.
const NO_HCALL: u64 = 0x3f0;
/// Storage keys that streams use beside 0, and how often.
const KEYS: [u64; 5] = [1, 2, 17, 31, 31];
/// Offsets in a page that are accessed often, so that ioeventfds are met.
pub(super) const OFFSETS: [u64; 5] = [0, 8, 0x40, 0x100, 0xff8];

pub(super) struct Draw {
    pub rng: Rng,
    pub sim: SimSteps,
    steps: Vec<Step>,
    pub order: u32,
    pub pages: Vec<VirtualPage>,
    words: Words,
    loaded: [Option<Variant>; SEGMENTS.len()],
    /// Pages that a phase of a stream is about.
    hot: Vec<usize>,
    accesses: u64,
    pub vmm: VmmDraw,
    pub hcalls: HcallMode,
}

impl StepStream {
    /// Draws a stream of so many accesses, in batches of tens between steps of the VMM, for kernels that take hypercalls in such
    /// a mode.
    ///
    /// # Errors
    /// None in practice: the drawn steps are such that the simulator performs them.
    pub fn draw(seed: u64, accesses: u64, hcalls: HcallMode) -> Result<Self, DrawError> {
        let script = Script::new(18)?;
        let mut sim = SimSteps::new(&StepsConfig::default())?;
        sim.perform(script.steps())?;
        let mut draw = Draw {
            rng: Rng::new(seed),
            sim,
            steps: script.finish(),
            order: 18,
            pages: pages(),
            words: Words::new(),
            loaded: [None; SEGMENTS.len()],
            hot: Vec::new(),
            accesses: 0,
            vmm: VmmDraw::default(),
            hcalls,
        };
        draw.begin()?;
        while draw.accesses < accesses {
            for _ in 0..draw.rng.below(3) {
                draw.vmm_step()?;
            }
            draw.batch(accesses)?;
        }
        Ok(Self { name: format!("seed {seed}"), steps: draw.steps })
    }
}

impl Draw {
    /// Performs a step and keeps it.
    pub fn push(&mut self, step: Step) -> Result<Answer, StepError> {
        let answers = self.sim.perform(std::slice::from_ref(&step))?;
        self.steps.push(step);
        Ok(answers.first().copied().unwrap_or(Answer::Done))
    }

    pub fn guest(&mut self, op: GuestOp) -> Result<Answer, StepError> {
        self.push(Step::Guest(op))
    }

    pub fn host(&mut self, op: VmmOp) -> Result<Answer, StepError> {
        self.push(Step::Vmm(op))
    }

    fn begin(&mut self) -> Result<(), StepError> {
        self.region_steps()?;
        for segment in 0..SEGMENTS.len() {
            self.load_segment(segment)?;
        }
        self.enter_most()
    }

    fn enter_most(&mut self) -> Result<(), StepError> {
        for page in 0..self.pages.len() {
            if !self.rng.one_in(8) {
                self.enter(page)?;
            }
        }
        Ok(())
    }

    fn batch(&mut self, accesses: u64) -> Result<(), StepError> {
        if self.hot.is_empty() || self.rng.one_in(3) {
            let count = 1 + self.rng.below(6);
            self.hot = (0..count).map(|_| index(self.rng.below(self.pages.len() as u64))).collect();
            for page in self.hot.clone() {
                if !self.rng.one_in(10) {
                    self.enter(page)?;
                }
            }
        }
        for segment in 0..SEGMENTS.len() {
            if self.loaded[segment].is_none() && self.rng.one_in(2) {
                self.load_segment(segment)?;
            }
        }
        // Of a hundred: calm phases, in which entries live long, and busy ones.
        let hypercalls = self.rng.pick(&[4, 4, 15, 50]);
        for _ in 0..20 + self.rng.below(50) {
            if self.accesses >= accesses {
                break;
            }
            let drawn = self.rng.below(100);
            if drawn < hypercalls {
                self.hypercall()?;
            } else if drawn >= 98 {
                self.segments_or_amr()?;
            } else {
                self.access()?;
            }
        }
        Ok(())
    }

    fn load_segment(&mut self, segment: usize) -> Result<(), StepError> {
        let variant = if self.rng.one_in(4) { Variant::WithKp } else { Variant::Plain };
        self.unload_segment(segment)?;
        self.push(slbmte(slb_entry(segment, variant)))?;
        self.loaded[segment] = Some(variant);
        Ok(())
    }

    fn unload_segment(&mut self, segment: usize) -> Result<(), StepError> {
        if let Some(variant) = self.loaded[segment].take() {
            self.push(slbie(slb_entry(segment, variant)))?;
        }
        Ok(())
    }

    fn segments_or_amr(&mut self) -> Result<(), StepError> {
        let segment = index(self.rng.below(SEGMENTS.len() as u64));
        match self.rng.below(4) {
            0 => self.unload_segment(segment),
            1 => self.load_segment(segment),
            _ => {
                let mut value = 0;
                if self.rng.one_in(2) {
                    let key = self.rng.pick(&KEYS);
                    value = (1 + self.rng.below(3)) << (62 - 2 * key);
                }
                self.guest(GuestOp::Mtamr { value })?;
                // To the host and back, which tells POWER8's fault handler of it.
                self.hcall(NO_HCALL, &[])?;
                // A translation that was kept with the old AMR goes with its segment.
                if self.loaded[segment].is_none() {
                    self.load_segment(segment)?;
                }
                self.load_segment(segment)
            }
        }
    }

    fn some_page(&mut self) -> usize {
        if self.hot.is_empty() || self.rng.one_in(8) {
            index(self.rng.below(self.pages.len() as u64))
        } else {
            self.rng.pick(&self.hot.clone())
        }
    }

    fn access(&mut self) -> Result<(), StepError> {
        let page = self.some_page();
        let direction = self.rng.pick(&[Direction::Load, Direction::Store]);
        self.access_to(page, direction)
    }

    fn access_to(&mut self, page: usize, direction: Direction) -> Result<(), StepError> {
        let VirtualPage { ea, sizes, .. } = self.pages[page];
        let mut access = self.rng.pick(self.words.of(direction));
        let size = access.size as u64;
        let within = match self.rng.below(4) {
            0 => self.rng.below(sizes.base.bytes()),
            _ => self.rng.pick(&OFFSETS),
        };
        let target = EffectiveAddr(ea.0 + (within & !(size - 1)));
        let mut rb = self.rng.bits();
        let away = match &mut access.offset {
            Offset::Displacement(displacement) => {
                *displacement = self.rng.pick(&[0, 0, 8, -16, 0x7ff0, -0x8000]);
                i64::from(*displacement) as u64
            }
            // The words drawn have no prefix.
            Offset::Long(_) | Offset::Relative(_) => 0,
            Offset::Register(_) => {
                rb = self.rng.pick(&[0, 8, 0x1234_5678, rb]);
                rb
            }
        };
        // Values that differ in every byte.
        let rt = self.rng.bits();
        let Ok(word) = encode(&access) else { return Ok(()) };
        self.guest(GuestOp::Access(GuestAccess { word, ra: target.0.wrapping_sub(away), rb, rt }))?;
        self.accesses += 1;
        Ok(())
    }

    /// Where the page's entry is, if it has one.
    pub fn find(&self, page: usize) -> Option<PteIndex> {
        let key = self.key(page);
        let hpt = self.sim.vm().hpt();
        [(false, 0), (true, HPTE_V_SECONDARY)].into_iter().find_map(|(secondary, h)| {
            let first = group(&key, self.order, secondary);
            (first.0..first.0 + PTEG_ENTRIES).map(PteIndex).find(|at| {
                hpt.peek(*at).is_some_and(|(hpte, _)| {
                    hpte.v & (HPTE_V_VALID | HPTE_V_ABSENT) != 0 && hpte.v & key.mask == key.value | h
                })
            })
        })
    }

    pub fn key(&self, page: usize) -> HashKey {
        let VirtualPage { segment, ea, .. } = self.pages[page];
        HashKey::new(ea, slb_entry(segment, Variant::Plain).vsid)
    }

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
        let page = PageUse { pp: self.rng.pick(&PROTECTIONS), key, wimg };
        let (hpte, _) = self.pages[page_of(&self.pages, ea)].guest().hpte(ea, gpa, page)?;
        let bolted = if self.rng.one_in(12) { HPTE_V_BOLTED } else { 0 };
        let rc = self.rng.pick(&[0, HPTE_R_R, HPTE_R_R | HPTE_R_C]);
        let n = self.rng.pick(&[0, 0, HPTE_R_N]);
        Some(Hpte { v: hpte.v | bolted, r: hpte.r & !(HPTE_R_R | HPTE_R_C) | rc | n })
    }

    /// H_ENTER of a page that has no entry: any slot of its primary group, of its secondary one, or a very slot.
    fn enter(&mut self, page: usize) -> Result<(), StepError> {
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

    fn hcall(&mut self, number: u64, first: &[u64]) -> Result<(), StepError> {
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

    fn hypercall(&mut self) -> Result<(), StepError> {
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
                self.hcall(number::H_ENTER, &[0, first, entry.v | crate::book3s::hpte::HPTE_V_LARGE, unassigned])
            }
            2 => {
                let beyond = self.sim.vm().hpt().npte();
                self.hcall(number::H_ENTER, &[0, beyond, entry.v, entry.r])
            }
            _ => self.hcall(NO_HCALL, &[]),
        }
    }

    /// After a new table: the order it has, and the stub page in it.
    pub fn new_table(&mut self, order: u32) -> Result<(), StepError> {
        let Ok(script) = Script::new(order) else { return Ok(()) };
        // Its second step allocates, its third enters the stub.
        for step in script.steps().iter().skip(1).take(2) {
            self.push(step.clone())?;
        }
        self.order = order;
        self.enter_most()
    }
}

fn page_of(pages: &[VirtualPage], ea: EffectiveAddr) -> usize {
    pages.iter().position(|page| page.ea == ea).unwrap_or(0)
}

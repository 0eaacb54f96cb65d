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

use crate::addr::{EffectiveAddr, PteIndex, index};
use crate::book3s::HashKey;
use crate::book3s::hash::PTEG_ENTRIES;
use crate::book3s::hpte::{HPTE_V_ABSENT, HPTE_V_SECONDARY, HPTE_V_VALID};
use crate::book3s::insn::{Direction, Offset, encode};
use crate::proof::rng::Rng;
use crate::sim::{SimSteps, StepError, StepsConfig};
use crate::workload::script::{Script, ScriptError, group, slbie, slbmte};
use crate::workload::steps::{Answer, GuestAccess, GuestOp, HcallMode, Step, StepExecutor, VmmOp};

use super::hcall_draw::{KEYS, NO_HCALL};
use super::vmm_draw::VmmDraw;
use super::words::Words;
use super::world::{SEGMENTS, Variant, VirtualPage, pages, slb_entry};

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
    pub hot: Vec<usize>,
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

    pub fn some_page(&mut self) -> usize {
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

    pub fn access_to(&mut self, page: usize, direction: Direction) -> Result<(), StepError> {
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

//! A recording through the whole emulated path: SLB, hashed page table, both handlers, cache, emulation, exit.
//!
//! Each page is entered (H_ENTER) when the recording first accesses it; where the recording's generation moved, the page's HPTE
//! is removed and entered again, which is what moves it. Nobody listens at the addresses, so every access exits to user space.

use std::sync::atomic::{AtomicBool, Ordering};

use rustc_hash::FxHashMap;

use super::LabPolicy;
use super::details::Details;
use super::key::KeyDesign;
use super::replay::{LabFailure, ReplayConfig, STOP_EVERY, Sums, result};
use crate::addr::{EffectiveAddr, GuestPhysAddr, KernelBehaviour, Preset, PteIndex, Vsid, index};
use crate::book3s::insn::Size;
use crate::book3s::slb::{SLB_ENTRIES, SegmentSize};
use crate::book3s::{PageSize, PageSizes, SlbEntry};
use crate::kvm_hv::{CacheDesign, CacheUse, Outcome, Stage, Vcpu, VcpuConfig, Vm, VmConfig};
use crate::machine::{Machine, Prices, SimTime};
use crate::sim::{Outcomes, RunResult};
use crate::trace::{Access, Item, Recording};
use crate::workload::guest::{Guest, PageUse, Touch};

/// Most VMs and vCPUs of a recording: each VM has a table of its own.
const MOST_VMS: usize = 64;
const MOST_VCPUS: usize = 1024;
/// Where a page is that is entered and removed only to move the generation.
const SCRATCH_EA: EffectiveAddr = EffectiveAddr(0xc00f_f000_0000_0000);
const SCRATCH_GPA: GuestPhysAddr = GuestPhysAddr(0x003f_ffff_0000_0000);

/// What is asked of a run of a recording.
#[derive(Clone, Debug)]
pub struct EmulateConfig {
    /// The vCPUs' cache.
    pub cache: CacheDesign,
    /// Kernel preset.
    pub preset: Preset,
    /// Its switches.
    pub behaviour: KernelBehaviour,
    /// Seed of the random policy.
    pub seed: u64,
    /// What stages cost.
    pub machine: Machine,
}

struct World {
    vm: Vm,
    /// By EA page and segment: where the HPTE is, and what was entered.
    pages: FxHashMap<(u64, u64), (PteIndex, Guest, EffectiveAddr, GuestPhysAddr)>,
}

/// A vCPU, and which segment each of its SLB slots holds.
struct Runner {
    vcpu: Vcpu,
    slots: Vec<(u64, u64)>,
    next: usize,
}

/// Runs a recording through the emulated path; `stop` ends it early, with what is done by then.
///
/// # Errors
/// What is wrong with the recording, or stands in its way: more VMs or vCPUs than are run, a page size that no HPTE has, a
/// full table.
pub fn emulate(recording: &mut Recording, config: &EmulateConfig, stop: &AtomicBool) -> Result<RunResult, LabFailure> {
    let mut run = Run {
        config,
        file: recording.name().to_owned(),
        prices: Prices::new(&config.machine),
        worlds: Vec::new(),
        runners: FxHashMap::default(),
        details: Details::new(&[]),
        sums: Sums::default(),
        stages: vec![0; Stage::ALL.len()],
        time: SimTime::default(),
        attempts: 0,
        outcomes: Outcomes::default(),
    };
    while let Some(item) = recording.next_item()? {
        match item {
            Item::Access(access) => run.access(&access)?,
            Item::Generation { vm, page, .. } => run.moved(vm, page)?,
            Item::Lost { .. } => continue,
        }
        if run.sums.accesses % STOP_EVERY == 0 && stop.load(Ordering::Relaxed) {
            run.sums.interrupted = true;
            break;
        }
    }
    Ok(run.result(recording))
}

struct Run<'a> {
    config: &'a EmulateConfig,
    file: String,
    prices: Prices,
    worlds: Vec<World>,
    runners: FxHashMap<u32, Runner>,
    details: Details,
    sums: Sums,
    /// By stage: how often it was gone through.
    stages: Vec<u64>,
    time: SimTime,
    attempts: u64,
    outcomes: Outcomes,
}

impl Run<'_> {
    fn refused(&self, what: impl std::fmt::Display) -> LabFailure {
        LabFailure::Path { file: self.file.clone(), access: self.sums.accesses + 1, what: what.to_string() }
    }

    fn world(&mut self, vm: u32) -> Result<usize, LabFailure> {
        let at = index(u64::from(vm));
        if at >= MOST_VMS {
            return Err(self.refused(format!("more than {MOST_VMS} VMs")));
        }
        while self.worlds.len() <= at {
            let made = Vm::new(VmConfig { behaviour: self.config.behaviour, ..VmConfig::default() });
            let vm = made.map_err(|error| self.refused(error))?;
            self.worlds.push(World { vm, pages: FxHashMap::default() });
        }
        Ok(at)
    }

    fn access(&mut self, access: &Access) -> Result<(), LabFailure> {
        let world = self.world(access.vm)?;
        let guest = guest_of(access).ok_or_else(|| {
            self.refused(format!("pages of 2^{} bytes: an HPTE has 2^12, 2^16, 2^24 or 2^34", access.page_shift))
        })?;
        let entry = guest.slb_entry(0, access.ea);
        let place = (access.page(), entry.vsid);
        if !self.worlds[world].pages.contains_key(&place) {
            let mapped = guest.map(&self.worlds[world].vm, access.ea, access.gpa, PageUse::DEVICE);
            let at = mapped.map_err(|error| self.refused(format!("its page cannot be entered: {error}")))?;
            self.worlds[world].pages.insert(place, (at, guest, access.ea, access.gpa));
        }
        let size = match access.len {
            2 => Size::Halfword,
            4 => Size::Word,
            8 => Size::Doubleword,
            _ => Size::Byte,
        };
        let touch = Touch::new(access.direction, size).map_err(|error| self.refused(error))?;
        if !self.runners.contains_key(&access.vcpu) {
            if self.runners.len() >= MOST_VCPUS {
                return Err(self.refused(format!("more than {MOST_VCPUS} vCPUs")));
            }
            let seed = self.config.seed.wrapping_add(u64::from(access.vcpu));
            let config = VcpuConfig { cache: self.config.cache, seed, ..VcpuConfig::default() };
            let runner = Runner { vcpu: Vcpu::new(&self.worlds[world].vm, config), slots: Vec::new(), next: 0 };
            self.runners.insert(access.vcpu, runner);
        }
        let vm = &self.worlds[world].vm;
        let Some(runner) = self.runners.get_mut(&access.vcpu) else { return Ok(()) };
        let set = runner.segment(access.ea, guest).map_or(Ok(()), |entry| runner.vcpu.slb.slbmte(entry));
        let record = set.map(|()| touch.perform(vm, &mut runner.vcpu, access.ea, 0));
        let record = record.map_err(|error| self.refused(error))?;
        self.sums.accesses += 1;
        for attempt in record.stages.attempts() {
            self.attempts += 1;
            self.time += self.prices.attempt(*attempt);
            for stage in attempt.iter() {
                self.stages[stage as usize] += 1;
            }
        }
        match record.outcome {
            Outcome::Exit(_) => self.outcomes.exits += 1,
            Outcome::Reflected(_) => self.outcomes.reflected += 1,
            Outcome::Ram { .. } => self.outcomes.ram += 1,
            Outcome::Kernel { .. } => self.outcomes.no_op += 1,
            Outcome::RetriesForever(reason) => {
                return Err(self.refused(format!("retries for ever: {}", reason.describe())));
            }
        }
        let hit = record.cache == CacheUse::Hit;
        self.sums.hits += u64::from(hit);
        if let CacheUse::Miss(Some(class)) = record.cache {
            self.sums.classes[class as usize] += 1;
        }
        self.details.access(access, hit);
        Ok(())
    }

    /// Moves the generation as the guest did: removes the HPTE, and enters it again.
    fn moved(&mut self, vm: u32, page: Option<EffectiveAddr>) -> Result<(), LabFailure> {
        let world = self.world(vm)?;
        let World { vm, pages } = &mut self.worlds[world];
        let same = |(_, guest, ea, _): &&mut (PteIndex, Guest, EffectiveAddr, GuestPhysAddr)| {
            page.is_some_and(|page| (page.0 ^ ea.0) >> guest.sizes.base.shift() == 0)
        };
        let done = match pages.values_mut().find(same) {
            Some((at, guest, ea, gpa)) => vm.h_remove(0, *at, 0).and_then(|_| {
                *at = guest.map(vm, *ea, *gpa, PageUse::DEVICE)?;
                Ok(())
            }),
            // A page that was not accessed yet, or is not told: any MMIO HPTE moves the generation.
            None => {
                let at = Guest::default().map(vm, SCRATCH_EA, SCRATCH_GPA, PageUse::DEVICE);
                at.and_then(|at| vm.h_remove(0, at, 0).map(|_| ()))
            }
        };
        done.map_err(|error| self.refused(format!("its HPTE cannot be removed and entered: {error}")))
    }

    fn result(self, recording: &Recording) -> RunResult {
        let cache = self.config.cache;
        let config = ReplayConfig {
            policy: LabPolicy::Cache(cache.policy()),
            entries: cache.entries() as u64,
            key: KeyDesign::default(),
            counts_only: false,
            seed: self.config.seed,
            devices: Vec::new(),
            machine: self.config.machine.clone(),
        };
        let stages: Vec<_> = Stage::ALL.iter().copied().zip(self.stages).filter(|(_, count)| *count > 0).collect();
        let ns = self.time.ns() / self.sums.accesses.max(1) as f64;
        let mut result = result(recording, &config, &self.details, &self.sums, &stages, ns);
        result.description = "a recording through the whole emulated path".to_owned();
        result.kernel = self.config.preset.name();
        result.switches = self.config.behaviour.differences(&self.config.preset.behaviour());
        result.outcomes = self.outcomes;
        result.attempts = self.attempts;
        result
    }
}

impl Runner {
    /// What slbmte must be told so that `ea`'s segment is the guest's, if it is not already.
    fn segment(&mut self, ea: EffectiveAddr, guest: Guest) -> Option<SlbEntry> {
        let entry = guest.slb_entry(0, ea);
        let esid = entry.esid & !0xfff;
        let slot = match self.slots.iter().position(|(held, _)| *held == esid) {
            Some(slot) if self.slots[slot].1 == entry.vsid => return None,
            Some(slot) => slot,
            None if self.slots.len() < SLB_ENTRIES => {
                self.slots.push((esid, 0));
                self.slots.len() - 1
            }
            None => {
                self.next = (self.next + 1) % SLB_ENTRIES;
                self.next
            }
        };
        self.slots[slot] = (esid, entry.vsid);
        Some(guest.slb_entry(slot as u64, ea))
    }
}

/// The address space that an access's segment and page size belong to; `None` for a size that no segment has.
fn guest_of(access: &Access) -> Option<Guest> {
    let sizes = [PageSize::K4, PageSize::K64, PageSize::M16, PageSize::G16];
    let base = sizes.into_iter().find(|size| size.shift() == u32::from(access.page_shift))?;
    let sizes = PageSizes { base, actual: base };
    if access.segment == 0 {
        return Some(Guest { sizes, ..Guest::default() });
    }
    let segment = SegmentSize::of_slb_v(access.segment);
    // The guest's VSIDs count up from its first: so that this segment gets the one recorded.
    let vsid = (access.segment & (u64::MAX >> 2)) >> segment.vsid_shift();
    Some(Guest { segment, vsid: Vsid(vsid.wrapping_sub(access.ea.0 >> segment.shift())), sizes })
}

//! What a hit and a miss cost: read off the emulated path, priced by a machine model.
//!
//! Every access is priced as a store: a load does not ask the fast bus, which a run of the recording through the whole path
//! (`hvmmio run TRACE`) tells apart.

use crate::addr::{EffectiveAddr, GuestPhysAddr};
use crate::book3s::insn::{Direction, Size};
use crate::kvm_hv::{CacheDesign, CacheUse, Stage, StageSet, Vcpu, VcpuConfig, Vm, VmConfig};
use crate::machine::{Machine, Prices};
use crate::workload::guest::{Guest, PageUse, Touch};

/// The stages and the price of a store that exits to user space.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessCost {
    /// Stages of a hit.
    pub hit: StageSet,
    /// Stages of a miss, the fill included.
    pub miss: StageSet,
    /// Stages of an access without a cache.
    pub off: StageSet,
    /// ns of a hit.
    pub hit_ns: f64,
    /// ns of a miss.
    pub miss_ns: f64,
    /// ns of an access without a cache.
    pub off_ns: f64,
}

impl AccessCost {
    /// Makes two stores on the emulated path and prices their stages.
    ///
    /// # Errors
    /// A VM that cannot be built (no memory), or stores that are not a miss and a hit.
    pub fn new(machine: &Machine) -> Result<Self, String> {
        let [miss, hit] = two_stores(CacheDesign::KERNEL)?;
        let [_, off] = two_stores(CacheDesign::OFF)?;
        if (miss.1, hit.1) != (false, true) {
            return Err("the emulated path's two stores are not a miss and a hit".to_owned());
        }
        let prices = Prices::new(machine);
        let ns = |set: StageSet| prices.attempt(set).ns();
        let (hit, miss, off) = (hit.0, miss.0, off.0);
        Ok(Self { hit, miss, off, hit_ns: ns(hit), miss_ns: ns(miss), off_ns: ns(off) })
    }

    /// Mean ns of an access when `hits` of `accesses` hit.
    #[must_use]
    pub fn mean_ns(&self, entries: usize, hits: u64, accesses: u64) -> f64 {
        if entries == 0 {
            return self.off_ns;
        }
        let missed = accesses.saturating_sub(hits) as f64;
        (hits as f64 * self.hit_ns + missed * self.miss_ns) / accesses.max(1) as f64
    }

    /// How often each stage was gone through, in path order.
    #[must_use]
    pub fn stage_counts(&self, entries: usize, hits: u64, accesses: u64) -> Vec<(Stage, u64)> {
        let (miss, hits) = if entries == 0 { (self.off, 0) } else { (self.miss, hits) };
        let missed = accesses.saturating_sub(hits);
        let count = |stage| {
            let of_hits = if self.hit.contains(stage) { hits } else { 0 };
            of_hits + if miss.contains(stage) { missed } else { 0 }
        };
        Stage::ALL.iter().map(|stage| (*stage, count(*stage))).filter(|(_, count)| *count > 0).collect()
    }
}

fn two_stores(design: CacheDesign) -> Result<[(StageSet, bool); 2], String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let vm = Vm::new(VmConfig::default()).map_err(|error| failed(&error))?;
    let mut vcpu = Vcpu::new(&vm, VcpuConfig { cache: design, ..VcpuConfig::default() });
    let guest = Guest::default();
    let doorbell = EffectiveAddr(0xd000_0800_8000_0010);
    vcpu.slb.slbmte(guest.slb_entry(0, doorbell)).map_err(|error| failed(&error))?;
    let device = GuestPhysAddr(0x2000_0000_0010);
    guest.map(&vm, doorbell, device, PageUse::DEVICE).map_err(|error| failed(&error))?;
    let store = Touch::new(Direction::Store, Size::Halfword).map_err(|error| failed(&error))?;
    let mut one = || {
        let record = store.perform(&vm, &mut vcpu, doorbell, 1);
        let set = *record.stages.attempts().first().ok_or("an access without an attempt")?;
        Ok::<_, String>((set, record.cache == CacheUse::Hit))
    };
    Ok([one()?, one()?])
}

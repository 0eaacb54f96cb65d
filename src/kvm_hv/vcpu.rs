//! One vCPU: registers, SLB, MMIO HPTE cache, and the fault state kept between the two handlers.

use std::sync::Arc;

use arc_swap::ArcSwap;
use arc_swap::cache::Cache;

use crate::addr::{EffectiveAddr, PteIndex};
use crate::book3s::insn::{Access as InsnAccess, Decoded, Endian};
use crate::book3s::msr::{MSR_DR, MSR_IR, MSR_LE, MSR_PR, MSR_SF};
use crate::book3s::slb::{SLB_VSID_KP, SLB_VSID_KS};
use crate::book3s::{Hpte, Slb, Vsr};
use crate::io::IoReader;

use super::cache::{CacheDesign, MmioCache};
use super::classify::Classifier;
use super::outcome::MissClass;
use super::pieces::Pieces;
use super::vm::{View, Vm};

/// What a vCPU starts with.
#[derive(Clone, Copy, Debug)]
pub struct VcpuConfig {
    /// Its MMIO HPTE cache.
    pub cache: CacheDesign,
    /// Data byte order: MSR\[LE\].
    pub endian: Endian,
    /// Tell misses apart by class. Costs a shadow cache search an access.
    pub classify: bool,
    /// For the random policy.
    pub seed: u64,
}

impl Default for VcpuConfig {
    fn default() -> Self {
        Self { cache: CacheDesign::KERNEL, endian: Endian::Little, classify: true, seed: 0 }
    }
}

/// What the early handler saved for the full one (`pgfault_addr`, `pgfault_index`, `pgfault_hpte`, `pgfault_cache`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct FaultState {
    pub ea: EffectiveAddr,
    pub index: PteIndex,
    pub hpte: Hpte,
    pub guest_r: u64,
    /// Slot of the cache entry that served the early handler.
    pub cached: Option<usize>,
}

/// An instruction that waits for user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pending {
    /// An integer load.
    Load { access: InsnAccess, endian: Endian },
    /// Pieces of a floating-point or vector access, the first of them at user space.
    Pieces(Pieces),
}

/// One vCPU of a [`Vm`]. It keeps a snapshot of memslots, table and buses and looks for a newer one at each access.
pub struct Vcpu {
    /// General purpose registers.
    pub gpr: [u64; 32],
    /// Program counter.
    pub pc: u64,
    /// Machine state register.
    pub msr: u64,
    /// Authority mask register: what each storage key forbids.
    pub amr: u64,
    /// Segments.
    pub slb: Slb,
    pub(super) view: Cache<Arc<ArcSwap<View>>, Arc<View>>,
    pub(super) io: IoReader,
    pub(super) decoded: Decoded,
    pub(super) cache: MmioCache,
    pub(super) classifier: Option<Box<Classifier>>,
    pub(super) fault: FaultState,
    pub(super) miss_class: Option<MissClass>,
    /// Direction of the last MMIO emulated (`vcpu->mmio_is_write`).
    pub(super) mmio_is_write: bool,
    pub(super) pending: Option<Pending>,
    /// Vector-scalar registers: FPR n is doubleword 0 of VSR n, VR n is VSR 32 + n.
    pub vsr: Box<[Vsr; 64]>,
}

impl Vcpu {
    /// A vCPU of `vm`: 64-bit, relocation on, supervisor state, no floating-point or vector facility (as Linux runs its
    /// kernel), empty SLB, AMR 0, all registers 0.
    #[must_use]
    pub fn new(vm: &Vm, config: VcpuConfig) -> Self {
        let little = match config.endian {
            Endian::Big => 0,
            Endian::Little => MSR_LE,
        };
        let classifies = config.classify && !config.cache.is_off();
        Self {
            gpr: [0; 32],
            pc: 0,
            msr: MSR_SF | MSR_IR | MSR_DR | little,
            amr: 0,
            slb: Slb::default(),
            view: Cache::new(Arc::clone(&vm.view)),
            io: vm.io().reader(),
            decoded: Decoded::new(0),
            cache: MmioCache::new(config.cache, vm.behaviour().empty_entry, config.seed),
            classifier: classifies.then(|| Box::new(Classifier::new(config.cache, config.seed))),
            fault: FaultState::default(),
            miss_class: None,
            mmio_is_write: false,
            pending: None,
            vsr: Box::new([Vsr::default(); 64]),
        }
    }

    /// Its MMIO HPTE cache.
    #[must_use]
    pub const fn cache(&self) -> &MmioCache {
        &self.cache
    }

    /// Data byte order.
    #[inline]
    #[must_use]
    pub const fn endian(&self) -> Endian {
        if self.msr & MSR_LE != 0 { Endian::Little } else { Endian::Big }
    }

    /// Whether Ks or Kp of `slb_v`, whichever the state picks, is on.
    #[inline]
    pub(super) const fn storage_key(&self, slb_v: u64) -> bool {
        let key = if self.msr & MSR_PR != 0 { SLB_VSID_KP } else { SLB_VSID_KS };
        slb_v & key != 0
    }
}

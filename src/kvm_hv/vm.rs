//! The VM: what all vCPUs share (`struct kvm_arch` and `struct kvm`).

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::addr::{GenerationOnNewHpt, Gfn, GuestPhysAddr, KernelBehaviour, KeyOnMemslotDelete};
use crate::io::{HostPage, IoSpace};

use super::hpt::{Hpt, HptError};
use super::lock::{bump_generation, read_generation};
use super::memslot::{DirtyLog, Memslot, MemslotError, Memslots};
use super::resize::ResizeError;

/// Why a VM could not be made or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VmError {
    /// The table.
    #[error(transparent)]
    Hpt(#[from] HptError),
    /// A memslot.
    #[error(transparent)]
    Memslot(#[from] MemslotError),
    /// Host page size is neither 4 KiB nor 64 KiB.
    #[error("host page shift {shift} is not one of a POWER host: 12 (4 KiB) or 16 (64 KiB)")]
    PageShift {
        /// What was asked.
        shift: u32,
    },
}

/// What a VM is made of.
#[derive(Clone, Copy, Debug)]
pub struct VmConfig {
    /// HPT order, 18 to 46.
    pub hpt_order: u32,
    /// Host page shift: 16 as POWER distributions ship it, or 12.
    pub page_shift: u32,
    /// The kernel.
    pub behaviour: KernelBehaviour,
}

impl Default for VmConfig {
    fn default() -> Self {
        Self { hpt_order: 18, page_shift: 16, behaviour: KernelBehaviour::default() }
    }
}

/// What vCPUs read without a lock: replaced as a whole, as under the kernel's SRCU.
#[derive(Debug)]
pub(super) struct View {
    pub hpt: Arc<Hpt>,
    pub memslots: Memslots,
}

/// One VM.
#[derive(Debug)]
pub struct Vm {
    pub(super) view: Arc<ArcSwap<View>>,
    /// `kvm->slots_lock`: one change of memslots or table at a time.
    slots_lock: Mutex<()>,
    /// Generation of MMIO HPTEs (`kvm->arch.mmio_update`).
    mmio_update: AtomicU64,
    /// Invalidations finished (`mmu_invalidate_seq`).
    mmu_seq: AtomicU64,
    /// Invalidations in progress (`mmu_invalidate_in_progress`).
    mmu_in_progress: AtomicU32,
    /// First frame above every memslot: a device there is no RAM, which one load tells.
    ram_end: AtomicU64,
    io: IoSpace,
    behaviour: KernelBehaviour,
    page_shift: u32,
}

impl Vm {
    /// A VM with an empty table, no memslot and empty buses.
    ///
    /// # Errors
    /// Order or page shift out of range, or no memory for the table.
    pub fn new(config: VmConfig) -> Result<Self, VmError> {
        let ring = match config.page_shift {
            12 => HostPage::Kib4,
            16 => HostPage::Kib64,
            shift => return Err(VmError::PageShift { shift }),
        };
        let view = View { hpt: Arc::new(Hpt::new(config.hpt_order)?), memslots: Memslots::default() };
        Ok(Self {
            view: Arc::new(ArcSwap::from_pointee(view)),
            slots_lock: Mutex::new(()),
            mmio_update: AtomicU64::new(0),
            mmu_seq: AtomicU64::new(0),
            mmu_in_progress: AtomicU32::new(0),
            ram_end: AtomicU64::new(0),
            io: IoSpace::new(ring, config.behaviour),
            behaviour: config.behaviour,
            page_shift: config.page_shift,
        })
    }

    /// Its I/O buses.
    #[must_use]
    pub const fn io(&self) -> &IoSpace {
        &self.io
    }

    /// The kernel's switches.
    #[must_use]
    pub const fn behaviour(&self) -> &KernelBehaviour {
        &self.behaviour
    }

    /// Host page shift.
    #[must_use]
    pub const fn page_shift(&self) -> u32 {
        self.page_shift
    }

    /// The table as it is now.
    #[must_use]
    pub fn hpt(&self) -> Arc<Hpt> {
        Arc::clone(&self.view.load().hpt)
    }

    /// The memslots as they are now.
    #[must_use]
    pub fn memslots(&self) -> Memslots {
        self.view.load().memslots.clone()
    }

    /// Generation of MMIO HPTEs (`mmio_update`).
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u64 {
        read_generation(&self.mmio_update)
    }

    /// `atomic64_inc(&kvm->arch.mmio_update)`.
    #[inline]
    pub(super) fn bump_generation(&self) {
        bump_generation(&self.mmio_update);
    }

    #[inline]
    pub(super) fn mmu_seq(&self) -> u64 {
        self.mmu_seq.load(Ordering::Acquire)
    }

    /// Whether an invalidation began or ended since `seq` was read (`mmu_invalidate_retry`).
    #[inline]
    pub(super) fn invalidated_since(&self, seq: u64) -> bool {
        self.mmu_in_progress.load(Ordering::Acquire) != 0 || self.mmu_seq() != seq
    }

    /// Whether a memslot can back `gfn`: false is certain, true is not.
    #[inline]
    pub(super) fn may_be_ram(&self, gfn: Gfn) -> bool {
        gfn.0 < self.ram_end.load(Ordering::Acquire)
    }

    /// Runs `unmap` between `mmu_notifier_invalidate_range_start` and `_end`.
    pub(super) fn invalidating<T>(&self, unmap: impl FnOnce() -> T) -> T {
        self.mmu_in_progress.fetch_add(1, Ordering::AcqRel);
        let result = unmap();
        self.mmu_seq.fetch_add(1, Ordering::AcqRel);
        self.mmu_in_progress.fetch_sub(1, Ordering::AcqRel);
        result
    }

    fn install(&self, memslots: Memslots) {
        let hpt = self.hpt();
        let end = memslots.iter().map(|slot| slot.base.0 + slot.pages).max().unwrap_or(0);
        self.ram_end.store(end, Ordering::Release);
        self.view.store(Arc::new(View { hpt, memslots }));
    }

    /// Creates memslot `id`, or moves it (same size, other base), or, for an identical one, changes nothing
    /// (`KVM_SET_USER_MEMORY_REGION`). A creation or a move bumps the generation. The dirty log stays as it is.
    ///
    /// # Errors
    /// Unaligned, wrapping, overlapping, or another size than the slot has.
    pub fn set_memslot(&self, id: u32, base: GuestPhysAddr, size: u64, backing_shift: u32) -> Result<(), MemslotError> {
        self.set_memory_region(id, base, size, backing_shift, None)
    }

    /// [`Self::set_memslot`] with the flags of the same call: whatever it changes, it bumps the generation once.
    ///
    /// # Errors
    /// As [`Self::set_memslot`].
    pub fn set_memory_region(
        &self,
        id: u32,
        base: GuestPhysAddr,
        size: u64,
        backing_shift: u32,
        dirty_log: Option<DirtyLog>,
    ) -> Result<(), MemslotError> {
        let _guard = self.slots_lock.lock();
        let page = 1 << self.page_shift;
        if size == 0 || (base.0 | size) & (page - 1) != 0 {
            return Err(MemslotError::Alignment { id, base, size, page });
        }
        if base.0.checked_add(size).is_none_or(|end| end > 1 << 60) {
            return Err(MemslotError::Wraps { id, base, size });
        }
        let (gfn, pages) = (base.gfn(self.page_shift), size >> self.page_shift);
        let memslots = self.memslots();
        let old = memslots.by_id(id);
        // What is wrong with the slot itself is told before what is in its way.
        if old.is_some_and(|old| old.pages != pages) {
            return Err(MemslotError::Resize { id });
        }
        if let Some(other) = memslots.overlapping(id, gfn, pages) {
            return Err(MemslotError::Overlap { id, other: other.id });
        }
        let slot = match old {
            Some(old) if old.base == gfn && dirty_log.is_none_or(|log| log == old.dirty_log) => return Ok(()),
            Some(old) if old.base == gfn => old.clone(),
            Some(old) => {
                // A move first makes the old place invisible, then unmaps it (KVM_MEMSLOT_INVALID).
                self.install(memslots.without(id));
                self.flush_memslot(old);
                Memslot { base: gfn, ..old.clone() }
            }
            None => Memslot::new(id, gfn, pages, backing_shift.max(self.page_shift), size)?,
        };
        let slot = match dirty_log {
            Some(log) if log != slot.dirty_log => slot.with_dirty_log(log),
            _ => slot,
        };
        self.install(memslots.with(slot));
        self.bump_generation();
        Ok(())
    }

    /// Deletes memslot `id`. Its mapped HPTEs become ABSENT; the generation stays (H6 follows).
    ///
    /// # Errors
    /// No such slot.
    pub fn delete_memslot(&self, id: u32) -> Result<(), MemslotError> {
        let _guard = self.slots_lock.lock();
        let memslots = self.memslots();
        let old = memslots.by_id(id).ok_or(MemslotError::Missing { id })?;
        self.install(memslots.without(id));
        self.flush_memslot(old);
        if self.behaviour.key_on_memslot_delete == KeyOnMemslotDelete::Mmio {
            self.mark_as_mmio(old);
        }
        Ok(())
    }

    /// Switches dirty logging of memslot `id`; a change bumps the generation.
    ///
    /// # Errors
    /// No such slot.
    pub fn set_dirty_log(&self, id: u32, dirty_log: DirtyLog) -> Result<(), MemslotError> {
        let _guard = self.slots_lock.lock();
        let memslots = self.memslots();
        let old = memslots.by_id(id).ok_or(MemslotError::Missing { id })?;
        if old.dirty_log != dirty_log {
            self.install(memslots.with(old.with_dirty_log(dirty_log)));
            self.bump_generation();
        }
        Ok(())
    }

    /// Installs an empty HPT (`kvmppc_alloc_reset_hpt`). The same order clears the table in place and leaves the
    /// generation alone; another order sets it to 0 (H0), or bumps it by switch.
    ///
    /// # Errors
    /// Order out of range or no memory: the old table stays.
    pub fn install_hpt(&self, order: u32) -> Result<(), HptError> {
        let _guard = self.slots_lock.lock();
        let old = self.view.load_full();
        let fresh = Hpt::new(order)?;
        for slot in old.memslots.iter() {
            slot.arch.rmap.iter().for_each(|rmap| rmap.store(0, Ordering::Release));
        }
        let renewed = old.hpt.order() != order;
        self.view.store(Arc::new(View { hpt: Arc::new(fresh), memslots: old.memslots.clone() }));
        self.generation_on_new_hpt(renewed);
        Ok(())
    }

    /// What `kvmppc_set_hpt` does to the generation; a table that was only emptied (not `renewed`) never gets there.
    fn generation_on_new_hpt(&self, renewed: bool) {
        match self.behaviour.generation_on_new_hpt {
            GenerationOnNewHpt::Bumped => self.bump_generation(),
            GenerationOnNewHpt::Reset if renewed => self.mmio_update.store(0, Ordering::Release),
            GenerationOnNewHpt::Reset => {}
        }
    }

    /// Resizes the table (KVM_PPC_RESIZE_HPT_PREPARE and _COMMIT): every VALID entry is unmapped, bolted ones move to
    /// the new table, the others are gone; the generation is set to 0, whatever the order (by switch, bumped).
    ///
    /// # Errors
    /// Order or memory: nothing has changed. Two bolted entries for one place of a smaller table: the old table stays,
    /// but what came before the second of them is unmapped.
    pub fn resize_hpt(&self, order: u32) -> Result<(), ResizeError> {
        let _guard = self.slots_lock.lock();
        let old = self.view.load_full();
        let fresh = Hpt::new(order)?;
        self.rehash(&old.hpt, &old.memslots, &fresh)?;
        self.view.store(Arc::new(View { hpt: Arc::new(fresh), memslots: old.memslots.clone() }));
        self.generation_on_new_hpt(true);
        Ok(())
    }

    /// Frames of the memslot behind `gpa`, if there is one: base, count and slot number.
    #[must_use]
    pub fn memslot_at(&self, gpa: GuestPhysAddr) -> Option<(Gfn, u64, u32)> {
        let view = self.view.load();
        view.memslots.find(gpa.gfn(self.page_shift)).map(|slot| (slot.base, slot.pages, slot.id))
    }
}

impl Clone for Vm {
    /// A VM of its own with the same state: nothing is shared.
    fn clone(&self) -> Self {
        let view = self.view.load_full();
        let copy = View { hpt: Arc::new(Hpt::clone(&view.hpt)), memslots: view.memslots.deep_clone() };
        Self {
            view: Arc::new(ArcSwap::from_pointee(copy)),
            slots_lock: Mutex::new(()),
            mmio_update: AtomicU64::new(self.generation()),
            mmu_seq: AtomicU64::new(self.mmu_seq()),
            mmu_in_progress: AtomicU32::new(self.mmu_in_progress.load(Ordering::Acquire)),
            ram_end: AtomicU64::new(self.ram_end.load(Ordering::Acquire)),
            io: self.io.clone(),
            behaviour: self.behaviour,
            page_shift: self.page_shift,
        }
    }
}

impl PartialEq for Vm {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.view.load_full(), other.view.load_full());
        self.generation() == other.generation()
            && self.behaviour == other.behaviour
            && self.page_shift == other.page_shift
            && a.memslots == b.memslots
            && a.hpt == b.hpt
            && self.io == other.io
    }
}

impl Eq for Vm {}

impl Hash for Vm {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let view = self.view.load_full();
        self.generation().hash(state);
        self.behaviour.hash(state);
        view.memslots.hash(state);
        view.hpt.hash(state);
        self.io.hash(state);
    }
}

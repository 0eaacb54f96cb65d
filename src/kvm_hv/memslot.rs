//! Memslots: which guest physical addresses are RAM (`struct kvm_memory_slot`, `kvm_set_memory_region`).

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::addr::{Errno, Gfn, GuestPhysAddr, index};

/// Host real address of slot 0's first page; each slot's RAM starts at its own multiple, far from MMIO.
const HOST_RAM_STRIDE: u64 = 1 << 44;

/// Why a memslot change was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemslotError {
    /// Address or size is not a multiple of the host page (EINVAL).
    #[error("memslot {id}: base {base} and size {size:#x} must be multiples of the host page size {page:#x} (EINVAL)")]
    Alignment {
        /// Slot number.
        id: u32,
        /// Base asked for.
        base: GuestPhysAddr,
        /// Size asked for.
        size: u64,
        /// Host page size in bytes.
        page: u64,
    },
    /// Base + size is beyond 2^60, the RPN field's reach (EINVAL).
    #[error("memslot {id}: base {base} with size {size:#x} does not fit below 2^60 (EINVAL)")]
    Wraps {
        /// Slot number.
        id: u32,
        /// Base asked for.
        base: GuestPhysAddr,
        /// Size asked for.
        size: u64,
    },
    /// Another slot has part of the range (EEXIST).
    #[error("memslot {id}: its range overlaps memslot {other} (EEXIST)")]
    Overlap {
        /// Slot number.
        id: u32,
        /// The slot in the way.
        other: u32,
    },
    /// A slot cannot change its size or its read-only flag in place (EINVAL).
    #[error("memslot {id}: delete it before giving it another size (EINVAL)")]
    Resize {
        /// Slot number.
        id: u32,
    },
    /// Deleting a slot that does not exist (EINVAL).
    #[error("memslot {id} does not exist (EINVAL)")]
    Missing {
        /// Slot number.
        id: u32,
    },
    /// More RAM than this host can keep reverse maps for (ENOMEM).
    #[error("memslot {id}: {size:#x} bytes of RAM need more reverse map than this host gives (ENOMEM)")]
    Memory {
        /// Slot number.
        id: u32,
        /// Size asked for.
        size: u64,
    },
}

impl MemslotError {
    /// What the kernel answers.
    #[must_use]
    pub const fn code(&self) -> Errno {
        match self {
            Self::Overlap { .. } => Errno::Exists,
            Self::Memory { .. } => Errno::NoMemory,
            Self::Alignment { .. } | Self::Wraps { .. } | Self::Resize { .. } | Self::Missing { .. } => Errno::Invalid,
        }
    }
}

/// Whether writes to the slot are recorded (`KVM_MEM_LOG_DIRTY_PAGES`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DirtyLog {
    /// Not recorded.
    #[default]
    Off,
    /// Recorded, one bit a host page.
    On,
}

/// State of one host page behind guest RAM, which is private anonymous memory: not there.
pub(super) const HOST_ABSENT: u8 = 0;
/// There, and writable.
pub(super) const HOST_PRESENT: u8 = 1;
/// Brought in by a read: the system's page of zeroes, which nobody may write.
pub(super) const HOST_ZERO: u8 = 2;

/// Per-page state of a slot that outlives flag changes (`struct kvm_arch_memory_slot`).
#[derive(Debug)]
pub struct SlotPages {
    /// Reverse-map word of each page.
    pub rmap: Box<[AtomicU64]>,
    /// Whether the host has the page in memory.
    pub host: Box<[AtomicU8]>,
}

/// One memslot.
#[derive(Clone, Debug)]
pub struct Memslot {
    /// Slot number.
    pub id: u32,
    /// First frame.
    pub base: Gfn,
    /// Frames.
    pub pages: u64,
    /// Flags.
    pub dirty_log: DirtyLog,
    /// log2 of the size of the host pages behind it, 16 MiB (24) for RAM on huge pages, else the host's page shift.
    pub backing_shift: u32,
    pub(super) arch: Arc<SlotPages>,
    pub(super) dirty: Option<Arc<[AtomicU64]>>,
}

impl Memslot {
    pub(super) fn new(id: u32, base: Gfn, pages: u64, backing_shift: u32, size: u64) -> Result<Self, MemslotError> {
        if pages > super::host_memory_limit() / 16 {
            return Err(MemslotError::Memory { id, size });
        }
        let arch = SlotPages {
            rmap: (0..pages).map(|_| AtomicU64::new(0)).collect(),
            host: (0..pages).map(|_| AtomicU8::new(HOST_PRESENT)).collect(),
        };
        Ok(Self { id, base, pages, dirty_log: DirtyLog::Off, backing_shift, arch: Arc::new(arch), dirty: None })
    }

    /// Whether `gfn` lies in it.
    #[inline]
    #[must_use]
    pub const fn contains(&self, gfn: Gfn) -> bool {
        gfn.0 >= self.base.0 && gfn.0 - self.base.0 < self.pages
    }

    /// Reverse-map word of `gfn`, or `None` outside the slot.
    #[must_use]
    pub fn rmap(&self, gfn: Gfn) -> Option<&AtomicU64> {
        self.arch.rmap.get(index(gfn.0.checked_sub(self.base.0)?))
    }

    /// Whether the host has `gfn`'s page in memory.
    #[must_use]
    pub fn is_present(&self, gfn: Gfn) -> bool {
        self.host_state(gfn).is_some_and(|state| state.load(Ordering::Acquire) != HOST_ABSENT)
    }

    /// Whether the host may write `gfn`'s page as it is: it is in memory, and not the page of zeroes.
    pub(super) fn is_host_writable(&self, gfn: Gfn) -> bool {
        self.host_state(gfn).is_some_and(|state| state.load(Ordering::Acquire) == HOST_PRESENT)
    }

    /// What a host read of `gfn`'s page leaves: a small page that was not there is the page of zeroes then, a huge one a
    /// page of its own. Returns whether the host may write it.
    pub(super) fn host_read(&self, gfn: Gfn, page_shift: u32) -> bool {
        let Some(state) = self.host_state(gfn) else { return false };
        let brought = if self.backing_shift > page_shift { HOST_PRESENT } else { HOST_ZERO };
        // Lost: somebody else brought it in.
        let _ = state.compare_exchange(HOST_ABSENT, brought, Ordering::AcqRel, Ordering::Acquire);
        state.load(Ordering::Acquire) == HOST_PRESENT
    }

    pub(super) fn host_state(&self, gfn: Gfn) -> Option<&AtomicU8> {
        self.arch.host.get(index(gfn.0.checked_sub(self.base.0)?))
    }

    /// Host real address of `gpa`: each slot's RAM is one contiguous piece.
    #[must_use]
    pub const fn host_real(&self, gpa: GuestPhysAddr, page_shift: u32) -> u64 {
        let offset = gpa.0 - (self.base.0 << page_shift);
        ((self.id as u64 + 1) % 64) * HOST_RAM_STRIDE + offset
    }

    /// Whether base and length are multiples of a page of `bytes` (`slot_is_aligned`).
    #[must_use]
    pub const fn is_aligned(&self, bytes: u64, page_shift: u32) -> bool {
        ((self.base.0 << page_shift) | (self.pages << page_shift)) & (bytes - 1) == 0
    }

    /// Marks `bytes` from `gfn` dirty, if the log is on (`kvmppc_update_dirty_map`).
    pub fn mark_dirty(&self, gfn: Gfn, bytes: u64, page_shift: u32) {
        let Some(bitmap) = &self.dirty else { return };
        let pages = (bytes >> page_shift).max(1);
        let first = gfn.0.saturating_sub(self.base.0);
        for page in first..(first + pages).min(self.pages) {
            bitmap[index(page / 64)].fetch_or(1 << (page % 64), Ordering::AcqRel);
        }
    }

    /// The dirty frames so far, cleared by reading.
    #[must_use]
    pub fn take_dirty(&self) -> Vec<Gfn> {
        let mut dirty = Vec::new();
        for (word, bits) in self.dirty.iter().flat_map(|bitmap| bitmap.iter().enumerate()) {
            let bits = bits.swap(0, Ordering::AcqRel);
            dirty.extend(
                (0..64).filter(|bit| bits >> bit & 1 != 0).map(|bit| Gfn(self.base.0 + word as u64 * 64 + bit)),
            );
        }
        dirty
    }

    fn state(&self) -> impl Iterator<Item = (u64, u8)> + '_ {
        let pages = self.arch.rmap.iter().zip(&self.arch.host);
        pages.map(|(rmap, host)| (rmap.load(Ordering::Relaxed), host.load(Ordering::Relaxed)))
    }

    fn dirty_words(&self) -> Vec<u64> {
        self.dirty.iter().flat_map(|words| words.iter()).map(|word| word.load(Ordering::Relaxed)).collect()
    }

    /// A slot with per-page state of its own, for a cloned VM.
    #[must_use]
    pub(super) fn deep_clone(&self) -> Self {
        let arch = SlotPages {
            rmap: self.state().map(|(rmap, _)| AtomicU64::new(rmap)).collect(),
            host: self.state().map(|(_, host)| AtomicU8::new(host)).collect(),
        };
        let dirty = self.dirty.as_ref().map(|_| self.dirty_words().into_iter().map(AtomicU64::new).collect());
        Self { arch: Arc::new(arch), dirty, ..self.clone() }
    }

    pub(super) fn with_dirty_log(&self, dirty_log: DirtyLog) -> Self {
        let words = self.pages.div_ceil(64);
        let dirty = (dirty_log == DirtyLog::On).then(|| (0..words).map(|_| AtomicU64::new(0)).collect());
        Self { dirty_log, dirty, ..self.clone() }
    }
}

impl PartialEq for Memslot {
    fn eq(&self, other: &Self) -> bool {
        (self.id, self.base, self.pages, self.dirty_log, self.backing_shift)
            == (other.id, other.base, other.pages, other.dirty_log, other.backing_shift)
            && self.state().eq(other.state())
            && self.dirty_words() == other.dirty_words()
    }
}

impl Eq for Memslot {}

impl Hash for Memslot {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.id, self.base, self.pages, self.dirty_log, self.backing_shift).hash(hasher);
        self.state().for_each(|page| page.hash(hasher));
        self.dirty_words().hash(hasher);
    }
}

/// All memslots of a VM, sorted by base; one immutable snapshot (`struct kvm_memslots`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memslots {
    slots: Vec<Memslot>,
}

impl Memslots {
    /// The slot that holds `gfn` (`gfn_to_memslot`).
    #[inline]
    #[must_use]
    pub fn find(&self, gfn: Gfn) -> Option<&Memslot> {
        // Devices mostly lie above all RAM: one look at the last slot tells.
        let last = self.slots.last()?;
        if gfn >= last.base {
            return last.contains(gfn).then_some(last);
        }
        let after = self.slots.partition_point(|slot| slot.base <= gfn);
        self.slots[..after].last().filter(|slot| slot.contains(gfn))
    }

    /// The slot numbered `id`.
    #[must_use]
    pub fn by_id(&self, id: u32) -> Option<&Memslot> {
        self.slots.iter().find(|slot| slot.id == id)
    }

    /// All slots, by base.
    pub fn iter(&self) -> impl Iterator<Item = &Memslot> {
        self.slots.iter()
    }

    pub(super) fn overlapping(&self, id: u32, base: Gfn, pages: u64) -> Option<&Memslot> {
        self.slots
            .iter()
            .find(|slot| slot.id != id && slot.base.0 < base.0 + pages && base.0 < slot.base.0 + slot.pages)
    }

    pub(super) fn without(&self, id: u32) -> Self {
        Self { slots: self.slots.iter().filter(|slot| slot.id != id).cloned().collect() }
    }

    pub(super) fn with(&self, slot: Memslot) -> Self {
        let mut new = self.without(slot.id);
        let at = new.slots.partition_point(|other| other.base < slot.base);
        new.slots.insert(at, slot);
        new
    }

    pub(super) fn deep_clone(&self) -> Self {
        Self { slots: self.slots.iter().map(Memslot::deep_clone).collect() }
    }
}

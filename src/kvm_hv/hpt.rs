//! The hashed page table and its reverse-map array (`struct kvm_hpt_info`).

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::addr::{EffectiveAddr, Errno, PteIndex, index};
use crate::book3s::hash::PTEG_ENTRIES;
use crate::book3s::hpte::{HPTE_V_ABSENT, HPTE_V_HVLOCK, HPTE_V_VALID};
use crate::book3s::{HashKey, Hpte, PageSizes};

use super::lock::{lock_hpte, read_v, unlock_hpte};

/// Smallest HPT order (`PPC_MIN_HPT_ORDER`): 256 KiB.
pub const MIN_ORDER: u32 = 18;
/// Largest HPT order (`PPC_MAX_HPT_ORDER`): 64 TiB.
pub const MAX_ORDER: u32 = 46;

/// Why a table cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HptError {
    /// Order outside 18 to 46.
    #[error("HPT order {order} is out of range: {MIN_ORDER} (256 KiB) to {MAX_ORDER} (64 TiB)")]
    Order {
        /// What was asked.
        order: u32,
    },
    /// The host does not have the memory.
    #[error(
        "an HPT of order {order} needs {bytes} bytes with its reverse-map array, more than this host gives: take a smaller order"
    )]
    Memory {
        /// What was asked.
        order: u32,
        /// Bytes of table and reverse-map array.
        bytes: u128,
    },
}

impl HptError {
    /// What the kernel answers.
    #[must_use]
    pub const fn code(&self) -> Errno {
        match self {
            Self::Order { .. } => Errno::Invalid,
            Self::Memory { .. } => Errno::NoMemory,
        }
    }
}

/// One element of the reverse-map array (`struct revmap_entry`).
#[derive(Debug, Default)]
#[repr(C)]
pub struct Revmap {
    /// The guest's own second doubleword; written under HVLOCK of its HPTE.
    pub guest_rpte: AtomicU64,
    /// Next HPTE that maps the same page; written under the page's rmap lock.
    pub forw: AtomicU32,
    /// Previous HPTE that maps the same page; written under the page's rmap lock.
    pub back: AtomicU32,
}

/// One HPTE in memory: two big-endian doublewords.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Slot {
    /// First doubleword, holds HVLOCK.
    pub v: AtomicU64,
    /// Second doubleword.
    pub r: AtomicU64,
}

impl Slot {
    /// Second doubleword in host order.
    #[inline]
    #[must_use]
    pub fn read_r(&self) -> u64 {
        u64::from_be(self.r.load(Ordering::Acquire))
    }

    /// Writes the second doubleword; the caller holds HVLOCK.
    #[inline]
    pub fn write_r(&self, r: u64) {
        self.r.store(r.to_be(), Ordering::Release);
    }
}

/// What the locked search found: the entry is still locked.
#[derive(Debug)]
pub struct Locked<'a> {
    /// Where.
    pub index: PteIndex,
    /// The slot; unlock it with [`Locked::unlock`].
    pub slot: &'a Slot,
    /// Both doublewords, HVLOCK off.
    pub hpte: Hpte,
    /// The guest's own second doubleword.
    pub guest_r: u64,
    /// Whether it was in the secondary group.
    pub secondary: bool,
}

impl Locked<'_> {
    /// Lets HVLOCK go, the entry unchanged.
    #[inline]
    pub fn unlock(self) {
        unlock_hpte(&self.slot.v, self.hpte.v);
    }
}

/// HPT and reverse-map array of one order.
#[derive(Debug)]
pub struct Hpt {
    order: u32,
    slots: Box<[Slot]>,
    rev: Box<[Revmap]>,
    /// One bit a group: a VALID entry was ever put into it. An access whose groups never had one need not be
    /// searched for by hardware. Bits are set before the entry is, and stay.
    ever_valid: Box<[AtomicU64]>,
    /// Whether any of those bits is set.
    any_valid: AtomicBool,
}

fn try_table<T: Default>(entries: usize) -> Result<Box<[T]>, std::collections::TryReserveError> {
    let mut table = Vec::new();
    table.try_reserve_exact(entries)?;
    table.resize_with(entries, T::default);
    Ok(table.into_boxed_slice())
}

impl Hpt {
    /// An empty table of `1 << order` bytes.
    ///
    /// # Errors
    /// `order` is outside 18 to 46, or the memory is not to be had.
    pub fn new(order: u32) -> Result<Self, HptError> {
        if !(MIN_ORDER..=MAX_ORDER).contains(&order) {
            return Err(HptError::Order { order });
        }
        let npte = 1_u64 << (order - 4);
        let memory = |_| HptError::Memory { order, bytes: u128::from(npte) * 32 };
        // Refuse before touching memory what no host will back: resize_with writes every page.
        if u128::from(npte) * 32 > u128::from(super::host_memory_limit()) {
            return Err(memory(()));
        }
        let slots = try_table(index(npte)).map_err(|_| memory(()))?;
        let rev = try_table(index(npte)).map_err(|_| memory(()))?;
        let groups = npte / PTEG_ENTRIES;
        let ever_valid = try_table(index(groups.div_ceil(64))).map_err(|_| memory(()))?;
        Ok(Self { order, slots, rev, ever_valid, any_valid: AtomicBool::new(false) })
    }

    /// log2 of the table's size in bytes.
    #[must_use]
    pub const fn order(&self) -> u32 {
        self.order
    }

    /// Number of HPTEs, `1 << (order - 4)` (`kvmppc_hpt_npte`).
    #[must_use]
    pub const fn npte(&self) -> u64 {
        1 << (self.order - 4)
    }

    /// Mask that turns a hash into a group number (`kvmppc_hpt_mask`).
    #[must_use]
    pub const fn group_mask(&self) -> u64 {
        (1 << (self.order - 7)) - 1
    }

    /// The slot of `index`, or `None` beyond the table.
    #[inline]
    #[must_use]
    pub fn slot(&self, pte_index: PteIndex) -> Option<&Slot> {
        self.slots.get(index(pte_index.0))
    }

    /// The reverse-map element of `index`, or `None` beyond the table.
    #[inline]
    #[must_use]
    pub fn rev(&self, pte_index: PteIndex) -> Option<&Revmap> {
        self.rev.get(index(pte_index.0))
    }

    /// Both at once: what every hypercall starts with.
    #[inline]
    #[must_use]
    pub fn entry(&self, pte_index: PteIndex) -> Option<(&Slot, &Revmap)> {
        Some((self.slot(pte_index)?, self.rev(pte_index)?))
    }

    pub(super) fn rev_array(&self) -> &[Revmap] {
        &self.rev
    }

    /// The group that begins at `first`, which [`Self::group_index`] gave: inside the table.
    #[inline]
    fn group(&self, first: PteIndex) -> &[Slot; index(PTEG_ENTRIES)] {
        self.slots[index(first.0)..].first_chunk().expect("a group index lies eight entries before the table's end")
    }

    /// First index of the primary or the secondary group of `key`.
    #[must_use]
    pub const fn group_index(&self, key: &HashKey, secondary: bool) -> PteIndex {
        let hash = if secondary { !key.hash } else { key.hash };
        PteIndex((hash & self.group_mask()) * PTEG_ENTRIES)
    }

    /// Searches primary, then secondary group for an entry with a bit of `accept` (VALID, ABSENT) set that
    /// `key` matches, and locks it (`kvmppc_hv_find_lock_hpte`).
    #[inline(always)]
    #[must_use]
    pub fn find_lock(&self, key: &HashKey, accept: u64) -> Option<Locked<'_>> {
        let mut value = key.value;
        for secondary in [false, true] {
            let base = self.group_index(key, secondary);
            for (i, slot) in self.group(base).iter().enumerate() {
                // Racy read first, then again under the lock with the base page size.
                let v = read_v(&slot.v);
                if v & accept == 0 || v & key.mask != value {
                    continue;
                }
                let v = lock_hpte(&slot.v);
                let r = slot.read_r();
                let same_base = PageSizes::of_hpte(v, r).is_some_and(|sizes| sizes.base.shift() == key.base_shift);
                if v & accept != 0 && v & key.mask == value && same_base {
                    let at = index(base.0) + i;
                    let guest_r = self.rev[at].guest_rpte.load(Ordering::Relaxed);
                    return Some(Locked { index: PteIndex(at as u64), slot, hpte: Hpte { v, r }, guest_r, secondary });
                }
                unlock_hpte(&slot.v, v);
            }
            value |= crate::book3s::hpte::HPTE_V_SECONDARY;
        }
        None
    }

    /// To be called before an entry of this index becomes VALID.
    pub(super) fn will_be_valid(&self, at: PteIndex) {
        let group = at.0 / PTEG_ENTRIES;
        if let Some(word) = self.ever_valid.get(index(group / 64)) {
            word.fetch_or(1 << (group % 64), Ordering::Release);
            self.any_valid.store(true, Ordering::Release);
        }
    }

    /// Whether a search for this address may find a VALID entry: if not, none was ever in its two groups.
    #[inline]
    #[must_use]
    pub(super) fn may_find_valid(&self, ea: EffectiveAddr, slb_v: u64) -> bool {
        if !self.any_valid.load(Ordering::Relaxed) {
            return false;
        }
        let hash = HashKey::hash(ea, slb_v);
        let had_valid = |hash: u64| {
            let group = hash & self.group_mask();
            self.ever_valid[index(group / 64)].load(Ordering::Relaxed) >> (group % 64) & 1 != 0
        };
        had_valid(hash) || had_valid(!hash)
    }

    /// What hardware finds: a VALID entry that `key` matches, by plain reads (Power ISA 2.07 Book III-S, 5.7.7.3).
    #[inline]
    #[must_use]
    pub fn find_valid(&self, key: &HashKey) -> Option<(PteIndex, Hpte)> {
        let mask = key.mask | HPTE_V_VALID;
        let mask_in_memory = mask.to_be();
        for secondary in [false, true] {
            let base = self.group_index(key, secondary);
            let h = if secondary { crate::book3s::hpte::HPTE_V_SECONDARY } else { 0 };
            let value = key.value | HPTE_V_VALID | h;
            let value_in_memory = value.to_be();
            for (i, slot) in self.group(base).iter().enumerate() {
                if slot.v.load(Ordering::Relaxed) & mask_in_memory == value_in_memory {
                    let hpte = Hpte { v: read_v(&slot.v) & !HPTE_V_HVLOCK, r: slot.read_r() };
                    let same_base =
                        PageSizes::of_hpte(hpte.v, hpte.r).is_some_and(|s| s.base.shift() == key.base_shift);
                    if hpte.v & mask == value && same_base {
                        return Some((PteIndex(base.0 + i as u64), hpte));
                    }
                }
            }
        }
        None
    }

    /// Both doublewords and the guest's second one, by plain reads, HVLOCK off; `None` beyond the table.
    #[must_use]
    pub fn peek(&self, pte_index: PteIndex) -> Option<(Hpte, u64)> {
        let (slot, rev) = self.entry(pte_index)?;
        let v = read_v(&slot.v) & !HPTE_V_HVLOCK;
        Some((Hpte { v, r: slot.read_r() }, rev.guest_rpte.load(Ordering::Acquire)))
    }

    /// Every entry in use (VALID or ABSENT), in index order.
    pub fn used(&self) -> impl Iterator<Item = (PteIndex, Hpte, u64)> + '_ {
        (0..self.npte()).filter_map(|i| {
            let (hpte, guest_r) = self.peek(PteIndex(i))?;
            (hpte.v & (HPTE_V_VALID | HPTE_V_ABSENT) != 0).then_some((PteIndex(i), hpte, guest_r))
        })
    }

    fn words(&self) -> impl Iterator<Item = [u64; 4]> + '_ {
        self.slots.iter().zip(&self.rev).map(|(slot, rev)| {
            let links = u64::from(rev.forw.load(Ordering::Relaxed)) << 32 | u64::from(rev.back.load(Ordering::Relaxed));
            let relaxed = Ordering::Relaxed;
            [slot.v.load(relaxed), slot.r.load(relaxed), rev.guest_rpte.load(relaxed), links]
        })
    }
}

impl Clone for Hpt {
    fn clone(&self) -> Self {
        let copy = |word: &AtomicU64| AtomicU64::new(word.load(Ordering::Acquire));
        let link = |word: &AtomicU32| AtomicU32::new(word.load(Ordering::Acquire));
        let slots = self.slots.iter().map(|slot| Slot { v: copy(&slot.v), r: copy(&slot.r) }).collect();
        let rev = self
            .rev
            .iter()
            .map(|rev| Revmap { guest_rpte: copy(&rev.guest_rpte), forw: link(&rev.forw), back: link(&rev.back) })
            .collect();
        let ever_valid = self.ever_valid.iter().map(copy).collect();
        let any_valid = AtomicBool::new(self.any_valid.load(Ordering::Relaxed));
        Self { order: self.order, slots, rev, ever_valid, any_valid }
    }
}

impl PartialEq for Hpt {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order && self.words().eq(other.words())
    }
}

impl Eq for Hpt {}

impl Hash for Hpt {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.order.hash(state);
        for words in self.words() {
            words.hash(state);
        }
    }
}

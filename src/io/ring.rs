//! The coalesced ring: one page shared by the kernel side (producers) and the VMM (one consumer).
//!
//! Layout (`struct kvm_coalesced_mmio_ring`): `first`, `last` (u32 each), then entries of 24 bytes
//! {`phys_addr` u64, `len` u32, `pio` u32, `data` 8 bytes}. Every word is an atomic and no value read from
//! the page is trusted: the other side can make this side lose entries or report an error, nothing else
//! (CVE-2019-14821 was an unchecked `last` on the producer's side).

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::addr::CoalescedRoom;

/// Words of an entry: address; length and pio flag; data.
const ENTRY_WORDS: usize = 3;

/// Host page size, which decides how many entries the ring has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostPage {
    /// 4 KiB: 170 slots.
    Kib4,
    /// 16 KiB: 682 slots.
    Kib16,
    /// 64 KiB, usual on POWER: 2730 slots.
    Kib64,
}

impl HostPage {
    /// Size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Kib4 => 4 << 10,
            Self::Kib16 => 16 << 10,
            Self::Kib64 => 64 << 10,
        }
    }

    /// Slots in the ring (`KVM_COALESCED_MMIO_MAX`); one of them always stays free.
    #[must_use]
    pub const fn ring_slots(self) -> u32 {
        (self.bytes() - 8) / 24
    }
}

/// A write that waited in the ring (`struct kvm_coalesced_mmio`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Guest physical address or port.
    pub addr: u64,
    /// 1 for port I/O, 0 for MMIO.
    pub pio: u32,
    len: u8,
    data: [u8; 8],
}

impl Entry {
    /// The bytes written, 0 to 8. Only these are fresh in the page; the rest of `data` is not shown.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data[..usize::from(self.len)]
    }
}

/// The ring has no room for a write, which therefore passes on to the next device or exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the coalesced ring has no room")]
pub struct RingFull;

/// The shared page holds what no correct other side writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RingError {
    /// An index that is outside the ring.
    #[error("coalesced ring: `{which}` is {value}, outside the ring; it must be below {slots}")]
    Index {
        /// `first` or `last`.
        which: &'static str,
        /// What the page holds.
        value: u32,
        /// Slots in the ring.
        slots: u32,
    },
    /// An entry longer than its data field.
    #[error("coalesced ring: entry {slot} has length {len}; an entry holds at most 8 bytes")]
    Length {
        /// Where.
        slot: u32,
        /// What the page holds.
        len: u32,
    },
}

/// The ring. Producers (vCPUs) call [`Self::push`], one consumer calls [`Self::drain`].
#[derive(Debug)]
pub struct Ring {
    page: HostPage,
    room: CoalescedRoom,
    first: AtomicU32,
    last: AtomicU32,
    words: Box<[AtomicU64]>,
    /// Serialises producers, as `kvm->ring_lock` does. Innermost: nothing is locked under it.
    ring_lock: Mutex<()>,
    draining: AtomicBool,
}

impl Ring {
    /// An empty ring of one host page.
    #[must_use]
    pub fn new(page: HostPage, room: CoalescedRoom) -> Self {
        let words = (0..page.ring_slots() as usize * ENTRY_WORDS).map(|_| AtomicU64::new(0)).collect();
        let (first, last) = (AtomicU32::new(0), AtomicU32::new(0));
        Self { page, room, first, last, words, ring_lock: Mutex::new(()), draining: AtomicBool::new(false) }
    }

    /// Host page size the ring was made for.
    #[must_use]
    pub const fn page(&self) -> HostPage {
        self.page
    }

    /// How room is counted.
    #[must_use]
    pub const fn room(&self) -> CoalescedRoom {
        self.room
    }

    /// Slots, one of which always stays free.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.page.ring_slots()
    }

    /// Index of the oldest entry, as the page holds it.
    #[must_use]
    pub fn first(&self) -> u32 {
        self.first.load(Ordering::Acquire)
    }

    /// Index of the next free slot, as the page holds it.
    #[must_use]
    pub fn last(&self) -> u32 {
        self.last.load(Ordering::Acquire)
    }

    /// Writes `first` as the consumer's side of the page may, with any value.
    pub fn write_first(&self, value: u32) {
        self.first.store(value, Ordering::Release);
    }

    /// Writes `last` as the other side of the page may, with any value.
    pub fn write_last(&self, value: u32) {
        self.last.store(value, Ordering::Release);
    }

    /// Writes one word of the entries as the other side of the page may; words outside are ignored.
    pub fn write_word(&self, word: usize, value: u64) {
        if let Some(place) = self.words.get(word) {
            place.store(value, Ordering::Relaxed);
        }
    }

    /// Stores a write of `data` (at most 8 bytes) at `addr` (`coalesced_mmio_write`).
    ///
    /// # Errors
    /// [`RingFull`] if there is no room, or if the page's `last` is outside the ring: nothing is stored then.
    #[inline]
    pub fn push(&self, addr: u64, pio: u32, data: &[u8]) -> Result<(), RingFull> {
        let Ok(len @ 0..=8) = u32::try_from(data.len()) else { return Err(RingFull) };
        let value = super::ioeventfd::value_of(data);
        let producer = self.ring_lock.lock();
        let last = self.last.load(Ordering::Relaxed);
        if !self.has_room(last) {
            return Err(RingFull);
        }
        let at = last as usize * ENTRY_WORDS;
        let Some([address, kind, bytes]) = self.words.get(at..at + ENTRY_WORDS) else { return Err(RingFull) };
        address.store(addr, Ordering::Relaxed);
        kind.store(u64::from(len) | u64::from(pio) << 32, Ordering::Relaxed);
        // The kernel copies `len` bytes and leaves the rest of the slot as it was.
        let stale = bytes.load(Ordering::Relaxed) & !fresh_mask(len);
        bytes.store(value | stale, Ordering::Relaxed);
        self.last.store(self.following(last), Ordering::Release);
        drop(producer);
        Ok(())
    }

    /// `coalesced_mmio_has_room`, and the check that `last` is inside.
    #[inline]
    fn has_room(&self, last: u32) -> bool {
        if last >= self.slots() {
            return false;
        }
        let first = self.first.load(Ordering::Acquire);
        match self.room {
            CoalescedRoom::Fixed => self.following(last) != first,
            CoalescedRoom::Legacy => first.wrapping_sub(last).wrapping_sub(1) % self.slots() != 0,
        }
    }

    /// `(index + 1) % N` for an index inside the ring.
    #[inline]
    const fn following(&self, index: u32) -> u32 {
        if index + 1 == self.slots() { 0 } else { index + 1 }
    }

    /// Hands every waiting entry to `take`, oldest first, and returns how many there were.
    ///
    /// There is one consumer: a drain begun inside `take`, or by another thread meanwhile, does nothing and
    /// returns 0, so that no entry is seen twice or out of order. At most [`Self::slots`] entries are taken, so
    /// a producer cannot hold the consumer for ever.
    ///
    /// # Errors
    /// [`RingError`] if the page holds an index outside the ring or an entry longer than 8 bytes. Entries
    /// before it have been taken; nothing outside the ring was read.
    pub fn drain(&self, mut take: impl FnMut(Entry)) -> Result<u32, RingError> {
        if self.first.load(Ordering::Relaxed) == self.last.load(Ordering::Acquire) && self.first() < self.slots() {
            return Ok(0);
        }
        if self.draining.swap(true, Ordering::Acquire) {
            return Ok(0);
        }
        let _end = EndOfDrain(&self.draining);
        for taken in 0..self.slots() {
            let (first, last) = self.checked_indices()?;
            if first == last {
                return Ok(taken);
            }
            let entry = self.entry(first)?;
            // Freed before it is handed over: a slot is the producers' again as soon as it was copied.
            self.first.store(self.following(first), Ordering::Release);
            take(entry);
        }
        Ok(self.slots())
    }

    fn checked_indices(&self) -> Result<(u32, u32), RingError> {
        let (first, last, slots) = (self.first(), self.last(), self.slots());
        for (which, value) in [("first", first), ("last", last)] {
            if value >= slots {
                return Err(RingError::Index { which, value, slots });
            }
        }
        Ok((first, last))
    }

    fn entry(&self, slot: u32) -> Result<Entry, RingError> {
        let at = slot as usize * ENTRY_WORDS;
        let word = |offset| self.words.get(at + offset).map_or(0, |word: &AtomicU64| word.load(Ordering::Relaxed));
        let kind = word(1);
        let [len, pio] = [kind & 0xffff_ffff, kind >> 32].map(|half| u32::try_from(half).unwrap_or(u32::MAX));
        let Ok(short @ 0..=8) = u8::try_from(len) else { return Err(RingError::Length { slot, len }) };
        let data = (word(2) & fresh_mask(len)).to_le_bytes();
        Ok(Entry { addr: word(0), pio, len: short, data })
    }

    /// The waiting entries, oldest first, without taking them.
    ///
    /// # Errors
    /// As [`Self::drain`].
    pub fn waiting(&self) -> Result<Vec<Entry>, RingError> {
        let (mut slot, last) = self.checked_indices()?;
        let mut entries = Vec::new();
        while slot != last {
            entries.push(self.entry(slot)?);
            slot = self.following(slot);
        }
        Ok(entries)
    }
}

/// A ring of its own with the same contents.
impl Clone for Ring {
    fn clone(&self) -> Self {
        let copy = Self::new(self.page, self.room);
        let _producer = self.ring_lock.lock();
        copy.write_first(self.first());
        copy.write_last(self.last());
        for (to, from) in copy.words.iter().zip(&self.words) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        copy
    }
}

/// Ends a drain even if the caller's closure panics.
struct EndOfDrain<'a>(&'a AtomicBool);

impl Drop for EndOfDrain<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The bits of the data word that `len` (0 to 8) bytes cover.
#[inline]
const fn fresh_mask(len: u32) -> u64 {
    match len {
        0 => 0,
        1..8 => (1 << (8 * len)) - 1,
        _ => u64::MAX,
    }
}

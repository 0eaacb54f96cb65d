//! The shared page itself, and the steps of either side on its words.
//!
//! Generic over the atomics, so that a model checker can drive the same steps on a few slots.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::addr::CoalescedRoom;

use super::{Entry, RingError, RingFull};

/// Words of an entry: address; length and pio flag; data.
const ENTRY_WORDS: usize = 3;

/// A word that both sides of the page load and store, and neither locks.
pub trait SharedWord {
    /// What it holds.
    type Value;

    /// Loads it.
    fn load(&self, order: Ordering) -> Self::Value;

    /// Stores it.
    fn store(&self, value: Self::Value, order: Ordering);
}

/// A [`SharedWord`] that a page of one's own can be made of.
pub trait OwnWord: SharedWord {
    /// A word with that value.
    fn new(value: Self::Value) -> Self;
}

/// A word that is somewhere else: in a page mapped from the kernel.
impl<T: SharedWord> SharedWord for &T {
    type Value = T::Value;

    #[inline]
    fn load(&self, order: Ordering) -> T::Value {
        T::load(self, order)
    }

    #[inline]
    fn store(&self, value: T::Value, order: Ordering) {
        T::store(self, value, order);
    }
}

macro_rules! shared_word {
    ($atomic:ty, $value:ty) => {
        impl SharedWord for $atomic {
            type Value = $value;

            #[inline]
            fn load(&self, order: Ordering) -> $value {
                self.load(order)
            }

            #[inline]
            fn store(&self, value: $value, order: Ordering) {
                self.store(value, order);
            }
        }

        impl OwnWord for $atomic {
            #[inline]
            fn new(value: $value) -> Self {
                Self::new(value)
            }
        }
    };
}

shared_word!(AtomicU32, u32);
shared_word!(AtomicU64, u64);

/// `first`, `last` and the entries (`struct kvm_coalesced_mmio_ring`). `I` are the indices' words, `W` the entries'.
///
/// It locks nothing: one producer at a time may call [`Self::store`] and one consumer [`Self::take`], each beside the
/// other. [`Ring`](super::Ring) sees to that. Whatever the other side writes, no step goes outside the page.
#[derive(Debug)]
pub struct RingPage<I = AtomicU32, W = AtomicU64> {
    room: CoalescedRoom,
    slots: u32,
    first: I,
    last: I,
    words: Box<[W]>,
}

impl<I: OwnWord<Value = u32>, W: OwnWord<Value = u64>> RingPage<I, W> {
    /// An empty ring of `slots` entries, at least 2.
    #[must_use]
    pub fn new(slots: u32, room: CoalescedRoom) -> Self {
        let slots = slots.max(2);
        let words = (0..slots as usize * ENTRY_WORDS).map(|_| W::new(0)).collect();
        Self { room, slots, first: I::new(0), last: I::new(0), words }
    }
}

impl<I: SharedWord<Value = u32>, W: SharedWord<Value = u64>> RingPage<I, W> {
    /// A ring in words that are already there, with what they hold; as many slots as there are three words each.
    #[must_use]
    pub fn over(first: I, last: I, words: Box<[W]>, room: CoalescedRoom) -> Self {
        let slots = u32::try_from(words.len() / ENTRY_WORDS).unwrap_or(u32::MAX);
        Self { room, slots, first, last, words }
    }

    /// How room is counted.
    #[must_use]
    pub const fn room(&self) -> CoalescedRoom {
        self.room
    }

    /// Slots, one of which always stays free.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Index of the oldest entry, as the page holds it.
    #[inline]
    #[must_use]
    pub fn first(&self) -> u32 {
        self.first.load(Ordering::Acquire)
    }

    /// Index of the next free slot, as the page holds it.
    #[inline]
    #[must_use]
    pub fn last(&self) -> u32 {
        self.last.load(Ordering::Acquire)
    }

    /// Writes `first`, with any value.
    pub fn write_first(&self, value: u32) {
        self.first.store(value, Ordering::Release);
    }

    /// Writes `last`, with any value.
    pub fn write_last(&self, value: u32) {
        self.last.store(value, Ordering::Release);
    }

    /// One word of the entries: 3 words an entry, address, then `pio << 32 | len`, then data. `None` is outside.
    #[must_use]
    pub fn word(&self, word: usize) -> Option<&W> {
        self.words.get(word)
    }

    /// The producer's step (`coalesced_mmio_write`): stores a write of `data`, at most 8 bytes, at `addr`.
    ///
    /// # Errors
    /// [`RingFull`] if there is no room, or if the page's `last` is outside the ring: nothing is stored then.
    #[inline]
    pub fn store(&self, addr: u64, pio: u32, data: &[u8]) -> Result<(), RingFull> {
        let Ok(len @ 0..=8) = u32::try_from(data.len()) else { return Err(RingFull) };
        // Only producers move `last`, one at a time.
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
        bytes.store(crate::io::ioeventfd::value_of(data) | stale, Ordering::Relaxed);
        // The kernel's smp_wmb: who sees `last` sees the entry.
        self.last.store(self.following(last), Ordering::Release);
        Ok(())
    }

    /// `coalesced_mmio_has_room`, and the check that `last` is inside.
    #[inline]
    fn has_room(&self, last: u32) -> bool {
        if last >= self.slots {
            return false;
        }
        let first = self.first();
        match self.room {
            CoalescedRoom::Fixed => self.following(last) != first,
            CoalescedRoom::Legacy => first.wrapping_sub(last).wrapping_sub(1) % self.slots != 0,
        }
    }

    /// `(index + 1) % N` for an index inside the ring.
    #[inline]
    const fn following(&self, index: u32) -> u32 {
        if index + 1 == self.slots { 0 } else { index + 1 }
    }

    /// The consumer's step: takes the oldest entry, if one waits.
    ///
    /// # Errors
    /// [`RingError`] if the page holds an index outside the ring or an entry longer than 8 bytes; nothing outside
    /// the ring was read and `first` has not moved.
    #[inline]
    pub fn take(&self) -> Result<Option<Entry>, RingError> {
        let (first, last) = self.checked_indices()?;
        if first == last {
            return Ok(None);
        }
        let entry = self.entry(first)?;
        // A slot is the producers' again as soon as it was copied.
        self.first.store(self.following(first), Ordering::Release);
        Ok(Some(entry))
    }

    #[inline]
    fn checked_indices(&self) -> Result<(u32, u32), RingError> {
        let (first, last, slots) = (self.first(), self.last(), self.slots);
        for (which, value) in [("first", first), ("last", last)] {
            if value >= slots {
                return Err(RingError::Index { which, value, slots });
            }
        }
        Ok((first, last))
    }

    #[inline]
    fn entry(&self, slot: u32) -> Result<Entry, RingError> {
        let at = slot as usize * ENTRY_WORDS;
        let word = |offset| self.words.get(at + offset).map_or(0, |word: &W| word.load(Ordering::Relaxed));
        let kind = word(1);
        let [len, pio] = [kind & 0xffff_ffff, kind >> 32].map(|half| u32::try_from(half).unwrap_or(u32::MAX));
        let Ok(short @ 0..=8) = u8::try_from(len) else { return Err(RingError::Length { slot, len }) };
        let data = (word(2) & fresh_mask(len)).to_le_bytes();
        Ok(Entry { addr: word(0), pio, len: short, data })
    }

    /// The waiting entries, oldest first, without taking them.
    ///
    /// # Errors
    /// As [`Self::take`].
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

/// A page of its own with the same contents; its producers must be held off meanwhile.
impl<I: OwnWord<Value = u32>, W: OwnWord<Value = u64>> Clone for RingPage<I, W> {
    fn clone(&self) -> Self {
        let words = self.words.iter().map(|word| W::new(word.load(Ordering::Relaxed))).collect();
        let (first, last) = (I::new(self.first()), I::new(self.last()));
        Self { room: self.room, slots: self.slots, first, last, words }
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

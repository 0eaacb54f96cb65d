//! The coalesced ring: one page shared by the kernel side (producers) and the VMM (one consumer).
//!
//! Layout (`struct kvm_coalesced_mmio_ring`): `first`, `last` (u32 each), then entries of 24 bytes
//! {`phys_addr` u64, `len` u32, `pio` u32, `data` 8 bytes}. Every word is an atomic and no value read from
//! the page is trusted: the other side can make this side lose entries or report an error, nothing else
//! (CVE-2019-14821 was an unchecked `last` on the producer's side).

mod lock;
mod page;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::addr::CoalescedRoom;

use lock::RingLock;
pub use page::{OwnWord, RingPage, SharedWord};

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

/// The ring. Producers (vCPUs) call [`Self::push`], one consumer calls [`Self::drain`]. A real kernel's ring is one whose
/// words are in the page that the kernel shares; nobody but the kernel may push there.
#[derive(Debug)]
pub struct Ring<I = AtomicU32, W = AtomicU64> {
    host_page: HostPage,
    shared: RingPage<I, W>,
    /// Serialises producers, as `kvm->ring_lock` does. Innermost: nothing is locked under it.
    ring_lock: RingLock,
    draining: AtomicBool,
}

impl Ring {
    /// An empty ring of one host page.
    #[must_use]
    pub fn new(page: HostPage, room: CoalescedRoom) -> Self {
        Self::over(page, RingPage::new(page.ring_slots(), room))
    }
}

impl<I: SharedWord<Value = u32>, W: SharedWord<Value = u64>> Ring<I, W> {
    /// The ring in that shared page, with what it holds.
    #[must_use]
    pub const fn over(host_page: HostPage, shared: RingPage<I, W>) -> Self {
        Self { host_page, shared, ring_lock: RingLock::new(), draining: AtomicBool::new(false) }
    }

    /// Host page size the ring was made for.
    #[must_use]
    pub const fn page(&self) -> HostPage {
        self.host_page
    }

    /// How room is counted.
    #[must_use]
    pub const fn room(&self) -> CoalescedRoom {
        self.shared.room()
    }

    /// Slots, one of which always stays free.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.shared.slots()
    }

    /// Index of the oldest entry, as the page holds it.
    #[must_use]
    pub fn first(&self) -> u32 {
        self.shared.first()
    }

    /// Index of the next free slot, as the page holds it.
    #[must_use]
    pub fn last(&self) -> u32 {
        self.shared.last()
    }

    /// Writes `first` as the consumer's side of the page may, with any value.
    pub fn write_first(&self, value: u32) {
        self.shared.write_first(value);
    }

    /// Writes `last` as the other side of the page may, with any value.
    pub fn write_last(&self, value: u32) {
        self.shared.write_last(value);
    }

    /// Writes one word of the entries as the other side of the page may; words outside are ignored.
    pub fn write_word(&self, word: usize, value: u64) {
        if let Some(place) = self.shared.word(word) {
            place.store(value, Ordering::Relaxed);
        }
    }

    /// Reads one word of the entries, as [`RingPage::word`] numbers them; `None` is outside.
    #[must_use]
    pub fn read_word(&self, word: usize) -> Option<u64> {
        self.shared.word(word).map(|place| place.load(Ordering::Relaxed))
    }

    /// Stores a write of `data` (at most 8 bytes) at `addr` (`coalesced_mmio_write`).
    ///
    /// # Errors
    /// [`RingFull`] if there is no room, or if the page's `last` is outside the ring: nothing is stored then.
    #[inline]
    pub fn push(&self, addr: u64, pio: u32, data: &[u8]) -> Result<(), RingFull> {
        let _producer = self.ring_lock.lock();
        self.shared.store(addr, pio, data)
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
        let first = self.first();
        if first == self.last() && first < self.slots() {
            return Ok(0);
        }
        if self.draining.swap(true, Ordering::Acquire) {
            return Ok(0);
        }
        let _end = EndOfDrain(&self.draining);
        for taken in 0..self.slots() {
            let Some(entry) = self.shared.take()? else { return Ok(taken) };
            take(entry);
        }
        Ok(self.slots())
    }

    /// The waiting entries, oldest first, without taking them.
    ///
    /// # Errors
    /// As [`Self::drain`].
    pub fn waiting(&self) -> Result<Vec<Entry>, RingError> {
        self.shared.waiting()
    }
}

/// The consumer's side of a ring, wherever its words are.
pub trait RingConsumer {
    /// [`Ring::drain`].
    ///
    /// # Errors
    /// As there.
    fn drain_into(&self, take: &mut dyn FnMut(Entry)) -> Result<u32, RingError>;
}

impl<I: SharedWord<Value = u32>, W: SharedWord<Value = u64>> RingConsumer for Ring<I, W> {
    fn drain_into(&self, take: &mut dyn FnMut(Entry)) -> Result<u32, RingError> {
        self.drain(take)
    }
}

/// A ring of its own with the same contents.
impl Clone for Ring {
    fn clone(&self) -> Self {
        let _producer = self.ring_lock.lock();
        Self::over(self.host_page, self.shared.clone())
    }
}

/// Ends a drain even if the caller's closure panics.
struct EndOfDrain<'a>(&'a AtomicBool);

impl Drop for EndOfDrain<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

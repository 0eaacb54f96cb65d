//! A split virtqueue in guest memory (virtio 1.2, 2.7), both sides of it.

mod device;
mod driver;
mod rings;

pub use device::{DeviceQueue, Notifications, Received};
pub use driver::{DriverQueue, Segment, Used};

use crate::addr::GuestPhysAddr;

/// Bytes of one descriptor: addr u64, len u32, flags u16, next u16 (virtio 1.2, 2.7.5).
const DESCRIPTOR_BYTES: u32 = 16;
/// Flags and index before a ring's entries (virtio 1.2, 2.7.6 and 2.7.8).
const RING_HEADER_BYTES: u32 = 4;
/// Bytes of one used entry: id u32, len u32 (virtio 1.2, 2.7.8).
const USED_ENTRY_BYTES: u32 = 8;
/// `used_event` or `avail_event` after a ring's entries; reserved, though not negotiated.
const RING_EVENT_BYTES: u32 = 2;

/// Where a queue's three parts lie: descriptor table, available ring and used ring, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueLayout {
    base: GuestPhysAddr,
    size: u16,
    /// Offsets of the rings, and where the used one ends: kept, since every access needs one of them.
    avail: u32,
    used: u32,
    end: u32,
}

impl QueueLayout {
    /// A queue of `size` descriptors from `base` on.
    ///
    /// # Errors
    /// `size` is no power of two up to 32768, or `base` is not a multiple of 16 (virtio 1.2, 2.7), or the queue would
    /// wrap around.
    pub const fn new(base: GuestPhysAddr, size: u16) -> Result<Self, QueueError> {
        let avail = DESCRIPTOR_BYTES * size as u32;
        let used = (avail + RING_HEADER_BYTES + 2 * size as u32 + RING_EVENT_BYTES).next_multiple_of(4);
        let end = used + RING_HEADER_BYTES + USED_ENTRY_BYTES * size as u32 + RING_EVENT_BYTES;
        let layout = Self { base, size, avail, used, end };
        if !size.is_power_of_two() || base.0 % 16 != 0 || base.0.checked_add(layout.bytes()).is_none() {
            return Err(QueueError::Layout { base: base.0, size });
        }
        Ok(layout)
    }

    /// Descriptors in the table, and entries in each ring.
    #[must_use]
    pub const fn size(&self) -> u16 {
        self.size
    }

    /// Guest physical address of the descriptor table.
    #[must_use]
    pub const fn desc_table(&self) -> GuestPhysAddr {
        self.base
    }

    /// Guest physical address of the available ring.
    #[must_use]
    pub const fn avail_ring(&self) -> GuestPhysAddr {
        GuestPhysAddr(self.base.0 + self.avail_offset() as u64)
    }

    /// Guest physical address of the used ring.
    #[must_use]
    pub const fn used_ring(&self) -> GuestPhysAddr {
        GuestPhysAddr(self.base.0 + self.used_offset() as u64)
    }

    /// Bytes of all three parts.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.end as u64
    }

    /// Offset of descriptor `index` from the base.
    const fn descriptor(&self, index: u16) -> u32 {
        DESCRIPTOR_BYTES * index as u32
    }

    /// Offset of `avail.idx`.
    const fn avail_index(&self) -> u32 {
        self.avail_offset() + 2
    }

    /// Offset of the available entry that index `at` names.
    const fn avail_entry(&self, at: u16) -> u32 {
        self.avail_offset() + RING_HEADER_BYTES + 2 * (at & (self.size - 1)) as u32
    }

    /// Offset of `used.idx`.
    const fn used_index(&self) -> u32 {
        self.used_offset() + 2
    }

    /// Offset of the used entry that index `at` names.
    const fn used_entry(&self, at: u16) -> u32 {
        self.used_offset() + RING_HEADER_BYTES + USED_ENTRY_BYTES * (at & (self.size - 1)) as u32
    }

    const fn avail_offset(&self) -> u32 {
        self.avail
    }

    const fn used_offset(&self) -> u32 {
        self.used
    }
}

/// What a queue can fail with. Everything but the first two is the other side's doing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// Not a queue.
    #[error(
        "a queue of {size} descriptors at {base:#x}; size must be a power of two up to 32768, the address a multiple of 16, the end below 2^64"
    )]
    Layout {
        /// First address.
        base: u64,
        /// Descriptors.
        size: u16,
    },
    /// Outside guest memory, or across two regions of it.
    #[error("{what}: {bytes} bytes at {addr:#x} are not in one piece of guest memory")]
    Memory {
        /// What was looked for.
        what: &'static str,
        /// Where.
        addr: u64,
        /// How much.
        bytes: u64,
    },
    /// No room for another chain: reap first.
    #[error("the queue has {free} descriptors left, {needed} are needed; reap used buffers first")]
    Full {
        /// Descriptors needed.
        needed: usize,
        /// Descriptors left.
        free: u16,
    },
    /// A chain that must not be made available (virtio 1.2, 2.7.4.2).
    #[error("a chain needs at least one segment, readable ones before writable ones, below 2^32 bytes in all")]
    Chain,
    /// The driver's `avail.idx` runs ahead of what the ring can hold.
    #[error("available index {avail} is more than {size} past {next}")]
    AvailIndex {
        /// The index in memory.
        avail: u16,
        /// Where the device is.
        next: u16,
        /// Queue size.
        size: u16,
    },
    /// The driver made a descriptor available that does not exist.
    #[error("available head {head} in a queue of {size} descriptors")]
    Head {
        /// The head in memory.
        head: u16,
        /// Queue size.
        size: u16,
    },
    /// The device's `used.idx` runs ahead of what was made available.
    #[error("used index {used} is past {next} by more than the {outstanding} chains outstanding")]
    UsedIndex {
        /// The index in memory.
        used: u16,
        /// Where the driver is.
        next: u16,
        /// Chains the device has.
        outstanding: u16,
    },
    /// The device returned a chain it does not have.
    #[error("used entry names chain {id}, which is not outstanding")]
    UsedId {
        /// The id in memory.
        id: u32,
    },
    /// The device claims to have written more than the chain holds.
    #[error("used entry of chain {id} has length {len}; the chain has {writable} writable bytes")]
    UsedLength {
        /// The chain.
        id: u32,
        /// The length in memory.
        len: u32,
        /// What it can be at most.
        writable: u32,
    },
}

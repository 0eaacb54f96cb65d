//! The words of a queue in guest memory, as the driver reads and writes them, and a chain's header as the device does.
//!
//! A request makes about twenty of these accesses, each a bounds check and one move: all are inlined, always.

use std::sync::atomic::Ordering;

use virtio_bindings::virtio_ring::{VRING_DESC_F_NEXT, VRING_DESC_F_WRITE};
use vm_memory::{Bytes, VolatileSlice};

use super::driver::Segment;
use super::{QueueError, QueueLayout};
use crate::addr::GuestPhysAddr;
use crate::device::GuestRam;

/// A flag of `virtio_ring.h` as the 16 bits it has in memory.
#[expect(clippy::cast_possible_truncation, reason = "a flag that does not fit stops the build")]
pub(super) const fn flag(value: u32) -> u16 {
    assert!(value <= u16::MAX as u32);
    value as u16
}

const NEXT: u16 = flag(VRING_DESC_F_NEXT);
const WRITE: u16 = flag(VRING_DESC_F_WRITE);

/// The queue's three parts, found once per operation.
pub(super) struct Rings<'m> {
    all: VolatileSlice<'m>,
    layout: QueueLayout,
}

impl<'m> Rings<'m> {
    #[inline(always)]
    pub fn of(ram: &'m GuestRam, layout: QueueLayout) -> Result<Self, QueueError> {
        Ok(Self { all: ram.slice("queue", layout.desc_table(), layout.bytes())?, layout })
    }

    /// Writes the words of a descriptor that differ from what was `written` last.
    #[inline(always)]
    pub fn write_descriptor(
        &self,
        written: &mut [u64; 2],
        index: u16,
        segment: &Segment,
        next: Option<u16>,
    ) -> Result<(), QueueError> {
        let mut flags = if segment.writable { WRITE } else { 0 };
        if next.is_some() {
            flags |= NEXT;
        }
        let second = u64::from(segment.len) | u64::from(flags) << 32 | u64::from(next.unwrap_or(0)) << 48;
        let offset = self.layout.descriptor(index);
        let old = std::mem::replace(written, [segment.addr.0, second]);
        if old[0] != segment.addr.0 {
            self.store(offset, segment.addr.0, Ordering::Relaxed)?;
        }
        if old[1] != second {
            self.store(offset + 8, second, Ordering::Relaxed)?;
        }
        Ok(())
    }

    #[inline(always)]
    pub fn store<T: LittleEndian>(&self, offset: u32, value: T, order: Ordering) -> Result<(), QueueError> {
        self.all.store(value.to_little_endian(), offset as usize, order).map_err(|_| missing(self.layout))
    }

    #[inline(always)]
    pub fn load<T: LittleEndian>(&self, offset: u32, order: Ordering) -> Result<T, QueueError> {
        let raw: T = self.all.load(offset as usize, order).map_err(|_| missing(self.layout))?;
        Ok(raw.to_little_endian())
    }
}

/// Ring fields are little-endian (virtio 1.2, 1.4); the conversion is its own inverse.
pub(super) trait LittleEndian: vm_memory::AtomicAccess {
    fn to_little_endian(self) -> Self;
}

macro_rules! little_endian {
    ($($type:ty),+) => {
        $(impl LittleEndian for $type {
            #[inline]
            fn to_little_endian(self) -> Self {
                self.to_le()
            }
        })+
    };
}

little_endian!(u16, u32, u64);

#[cold]
pub(super) const fn missing(layout: QueueLayout) -> QueueError {
    QueueError::Memory { what: "queue", addr: layout.desc_table().0, bytes: layout.bytes() }
}

/// Bytes at the beginning of a chain that a device looks at: a block request's header.
pub(super) const HEADER: usize = 16;

/// Reads the header where one descriptor holds all of it; `false` if that is not in guest memory.
#[inline(always)]
pub(super) fn read_header(ram: &GuestRam, addr: GuestPhysAddr, header: &mut [u8; HEADER]) -> bool {
    let Ok(slice) = ram.slice("chain", addr, HEADER as u64) else { return false };
    // Two words where they are aligned, as every driver has them.
    match (slice.load::<u64>(0, Ordering::Relaxed), slice.load::<u64>(8, Ordering::Relaxed)) {
        (Ok(first), Ok(second)) => {
            header[..8].copy_from_slice(&first.to_ne_bytes());
            header[8..].copy_from_slice(&second.to_ne_bytes());
            true
        }
        _ => slice.read_slice(header, 0).is_ok(),
    }
}

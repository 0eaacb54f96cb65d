//! Guest memory: one mapping, at one guest physical address.

use std::iter::FusedIterator;
use std::sync::atomic::Ordering;

use vm_memory::guest_memory::GuestMemorySliceIterator;
use vm_memory::{
    GuestAddress, GuestMemory, GuestMemoryError, GuestMemoryMmap, MmapRegion, Permissions, VolatileMemory,
    VolatileSlice,
};

use super::QueueError;
use crate::addr::{GuestPhysAddr, index};

/// Guest memory in one piece, as both sides of a queue see it.
///
/// It is read and written through [`vm_memory::Bytes`]. Unlike `GuestMemoryMmap` it has one region, so an access
/// needs a bounds check and no search; a virtqueue makes about twenty accesses a request.
#[derive(Debug)]
pub struct GuestRam {
    base: u64,
    mapping: MmapRegion,
    sides: Sides,
}

/// Where the two sides of a queue run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sides {
    /// On threads of their own: what one side stores must be visible before it looks at the other's flag, which takes a
    /// barrier (virtio 1.2, 2.7.13.4.1).
    Threads,
    /// In turn on one thread, as in the simulator: the order of the program is the order of all.
    OneThread,
}

impl GuestRam {
    /// `bytes` of zeros at `base`.
    ///
    /// # Errors
    /// The host cannot map that much, or the memory would wrap around.
    pub fn new(base: GuestPhysAddr, bytes: u64, sides: Sides) -> Result<Self, QueueError> {
        let refused = QueueError::Memory { what: "guest memory", addr: base.0, bytes };
        if base.0.checked_add(bytes).is_none() {
            return Err(refused);
        }
        let mapping = MmapRegion::new(index(bytes)).map_err(|_| refused)?;
        Ok(Self { base: base.0, mapping, sides })
    }

    /// How an index is stored, and the other side's flag loaded, so that one of both sides sees the other's: the
    /// index goes out once more in the order of sequential consistency, half as dear as a fence on x86.
    #[inline]
    pub(super) const fn handshake(&self) -> Option<Ordering> {
        match self.sides {
            Sides::Threads => Some(Ordering::SeqCst),
            Sides::OneThread => None,
        }
    }

    /// `bytes` at `addr`, if all of them are in this memory.
    #[inline(always)]
    pub(super) fn slice(
        &self,
        what: &'static str,
        addr: GuestPhysAddr,
        bytes: u64,
    ) -> Result<VolatileSlice<'_>, QueueError> {
        self.piece(addr.0, index(bytes)).ok_or(QueueError::Memory { what, addr: addr.0, bytes })
    }

    #[inline(always)]
    fn piece(&self, addr: u64, bytes: usize) -> Option<VolatileSlice<'_>> {
        self.mapping.get_slice(index(addr.checked_sub(self.base)?), bytes).ok()
    }
}

impl GuestMemory for GuestRam {
    type PhysicalMemory = GuestMemoryMmap;
    type Bitmap = ();

    #[inline]
    fn check_range(&self, addr: GuestAddress, count: usize, _access: Permissions) -> bool {
        self.piece(addr.0, count).is_some()
    }

    #[inline]
    fn get_slices<'a>(
        &'a self,
        addr: GuestAddress,
        count: usize,
        _access: Permissions,
    ) -> Result<impl GuestMemorySliceIterator<'a, ()>, GuestMemoryError> {
        let piece = self.piece(addr.0, count).ok_or(GuestMemoryError::InvalidGuestAddress(addr))?;
        Ok(OnePiece((count > 0).then_some(piece)))
    }
}

struct OnePiece<'a>(Option<VolatileSlice<'a>>);

impl<'a> Iterator for OnePiece<'a> {
    type Item = Result<VolatileSlice<'a>, GuestMemoryError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl FusedIterator for OnePiece<'_> {}

impl<'a> GuestMemorySliceIterator<'a, ()> for OnePiece<'a> {}

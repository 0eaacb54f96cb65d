//! The driver's side of a queue: what a guest kernel's virtio_ring does.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use virtio_bindings::virtio_ring::{VRING_AVAIL_F_NO_INTERRUPT, VRING_USED_F_NO_NOTIFY};
use vm_memory::Bytes;

use super::rings::{Rings, flag, missing};
use super::{Notifications, QueueError, QueueLayout};
use crate::addr::GuestPhysAddr;
use crate::device::GuestRam;

/// In `avail.flags` (virtio 1.2, 2.7.6).
pub(super) const NO_INTERRUPT: u16 = flag(VRING_AVAIL_F_NO_INTERRUPT);
/// In `used.flags` (virtio 1.2, 2.7.8).
const NO_NOTIFY: u16 = flag(VRING_USED_F_NO_NOTIFY);

/// A buffer, or a part of one, in guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// First address.
    pub addr: GuestPhysAddr,
    /// Bytes.
    pub len: u32,
    /// Whether the device writes it (else it reads it).
    pub writable: bool,
}

/// A chain the device has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Used {
    /// The token given with it.
    pub token: u32,
    /// Its first descriptor.
    pub head: u16,
    /// Bytes the device says it wrote, no more than the chain's writable bytes.
    pub len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    token: u32,
    tail: u16,
    descriptors: u16,
    writable: u32,
}

/// The driver's side of a split virtqueue.
///
/// Links and lengths are kept here and only written to guest memory, never read back: of the device's side
/// nothing is believed but `used.flags`, `used.idx` and the used entries, and these are checked.
#[derive(Debug)]
pub struct DriverQueue {
    ram: Arc<GuestRam>,
    layout: QueueLayout,
    /// The two words of each descriptor as last written, so that only changes are.
    written: Box<[[u64; 2]]>,
    /// Next descriptor, of the free list or of a chain.
    next: Box<[u16]>,
    outstanding: Box<[Option<Outstanding>]>,
    free_head: u16,
    free: u16,
    chains: u16,
    avail_idx: u16,
    used_idx: u16,
    unkicked: bool,
}

impl DriverQueue {
    /// Takes the queue over and clears it.
    ///
    /// # Errors
    /// The layout is not in one piece of `ram`.
    pub fn new(ram: Arc<GuestRam>, layout: QueueLayout) -> Result<Self, QueueError> {
        let bytes = layout.bytes();
        let all = ram.slice("queue", layout.desc_table(), bytes)?;
        let zeros = [0; 64];
        for offset in (0..all.len()).step_by(zeros.len()) {
            let part = zeros.len().min(all.len() - offset);
            all.write_slice(&zeros[..part], offset).map_err(|_| missing(layout))?;
        }
        let size = usize::from(layout.size());
        Ok(Self {
            layout,
            written: vec![[0; 2]; size].into(),
            next: (1..=layout.size()).collect(),
            outstanding: vec![None; size].into(),
            free_head: 0,
            free: layout.size(),
            chains: 0,
            avail_idx: 0,
            used_idx: 0,
            unkicked: false,
            ram,
        })
    }

    /// Where the queue lies.
    #[must_use]
    pub const fn layout(&self) -> QueueLayout {
        self.layout
    }

    /// The memory it lies in.
    #[must_use]
    pub const fn ram(&self) -> &Arc<GuestRam> {
        &self.ram
    }

    /// Descriptors that [`Self::add`] can still use.
    #[must_use]
    pub const fn free(&self) -> u16 {
        self.free
    }

    /// Chains the device has and has not returned.
    #[must_use]
    pub const fn outstanding(&self) -> u16 {
        self.chains
    }

    /// The head that the next [`Self::add`] will return, if there is a free descriptor.
    #[must_use]
    pub const fn next_head(&self) -> Option<u16> {
        if self.free == 0 { None } else { Some(self.free_head) }
    }

    /// Makes a chain available to the device (`virtqueue_add_split`; virtio 1.2, 2.7.13) and returns its head. `token` comes
    /// back with the used chain.
    ///
    /// # Errors
    /// [`QueueError::Full`] if there are too few descriptors, [`QueueError::Chain`] if the chain is not one.
    #[inline(always)]
    pub fn add(&mut self, chain: &[Segment], token: u32) -> Result<u16, QueueError> {
        let descriptors = match u16::try_from(chain.len()) {
            Ok(0) => return Err(QueueError::Chain),
            Ok(needed) if needed <= self.free => needed,
            _ => return Err(QueueError::Full { needed: chain.len(), free: self.free }),
        };
        let writable = writable_bytes(chain)?;
        let rings = Rings::of(&self.ram, self.layout)?;
        let head = self.free_head;
        let mut tail = head;
        for (i, segment) in chain.iter().enumerate() {
            if i > 0 {
                tail = self.next[usize::from(tail)];
            }
            let more = i + 1 < chain.len();
            let next = if more { self.next[usize::from(tail)] } else { 0 };
            rings.write_descriptor(&mut self.written[usize::from(tail)], tail, segment, more.then_some(next))?;
        }
        self.free_head = self.next[usize::from(tail)];
        self.free -= descriptors;
        self.chains += 1;
        self.outstanding[usize::from(head)] = Some(Outstanding { token, tail, descriptors, writable });

        rings.store(self.layout.avail_entry(self.avail_idx), head, Ordering::Relaxed)?;
        self.avail_idx = self.avail_idx.wrapping_add(1);
        rings.store(self.layout.avail_index(), self.avail_idx, Ordering::Release)?;
        self.unkicked = true;
        Ok(head)
    }

    /// Whether the device wants to be notified of what was added since the last call
    /// (`virtqueue_kick_prepare_split`; virtio 1.2, 2.7.13.4).
    ///
    /// # Errors
    /// None that a queue made by [`Self::new`] can show.
    #[inline]
    pub fn needs_kick(&mut self) -> Result<bool, QueueError> {
        if !std::mem::take(&mut self.unkicked) {
            return Ok(false);
        }
        // The index must be visible before the flag is read, or both sides may wait for each other.
        let rings = Rings::of(&self.ram, self.layout)?;
        if let Some(order) = self.ram.handshake() {
            rings.store(self.layout.avail_index(), self.avail_idx, order)?;
        }
        let flags: u16 = rings.load(self.layout.used_offset(), Ordering::SeqCst)?;
        Ok(flags & NO_NOTIFY == 0)
    }

    /// The next chain the device has returned, if there is one (`virtqueue_get_buf_ctx_split`).
    ///
    /// # Errors
    /// The used ring names a chain that the device does not have, or more bytes than it holds. The entry is
    /// skipped, except that an impossible index stays an error until the device mends it.
    #[inline(always)]
    pub fn pop_used(&mut self) -> Result<Option<Used>, QueueError> {
        let rings = Rings::of(&self.ram, self.layout)?;
        let used: u16 = rings.load(self.layout.used_index(), Ordering::Acquire)?;
        let waiting = used.wrapping_sub(self.used_idx);
        if waiting == 0 {
            return Ok(None);
        }
        if waiting > self.chains {
            return Err(QueueError::UsedIndex { used, next: self.used_idx, outstanding: self.chains });
        }
        let entry = self.layout.used_entry(self.used_idx);
        let id: u32 = rings.load(entry, Ordering::Relaxed)?;
        let len: u32 = rings.load(entry + 4, Ordering::Relaxed)?;
        self.used_idx = self.used_idx.wrapping_add(1);
        let head = u16::try_from(id).map_err(|_| QueueError::UsedId { id })?;
        let place = self.outstanding.get_mut(usize::from(head)).ok_or(QueueError::UsedId { id })?;
        let chain = place.take().ok_or(QueueError::UsedId { id })?;
        // Back to the front, so that the next request writes the same descriptors again.
        self.next[usize::from(chain.tail)] = self.free_head;
        self.free_head = head;
        self.free += chain.descriptors;
        self.chains -= 1;
        if len > chain.writable {
            return Err(QueueError::UsedLength { id, len, writable: chain.writable });
        }
        Ok(Some(Used { token: chain.token, head, len }))
    }

    /// Asks the device for interrupts, or not to send any (`virtqueue_enable_cb`, `virtqueue_disable_cb`; virtio
    /// 1.2, 2.7.7). Returns whether used chains wait already.
    ///
    /// # Errors
    /// None that a queue made by [`Self::new`] can show.
    pub fn set_interrupts(&mut self, wanted: Notifications) -> Result<bool, QueueError> {
        let flags = match wanted {
            Notifications::Enabled => 0,
            Notifications::Disabled => NO_INTERRUPT,
        };
        let rings = Rings::of(&self.ram, self.layout)?;
        rings.store(self.layout.avail_offset(), flags, Ordering::Relaxed)?;
        fence(Ordering::SeqCst);
        let used: u16 = rings.load(self.layout.used_index(), Ordering::Acquire)?;
        Ok(used != self.used_idx)
    }
}

fn writable_bytes(chain: &[Segment]) -> Result<u32, QueueError> {
    let (mut all, mut writable) = (0u32, 0u32);
    for segment in chain {
        if !segment.writable && writable > 0 {
            return Err(QueueError::Chain);
        }
        all = all.checked_add(segment.len).ok_or(QueueError::Chain)?;
        writable += if segment.writable { segment.len } else { 0 };
    }
    Ok(writable)
}

//! The device's side of a queue, over `virtio-queue`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Address, Bytes, GuestAddress};

use super::driver::NO_INTERRUPT;
use super::rings::{HEADER, Rings, read_header};
use super::{QueueError, QueueLayout};
use crate::addr::GuestPhysAddr;
use crate::device::GuestRam;

/// Whether one side of a queue wants to hear from the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notifications {
    /// It does.
    Enabled,
    /// It polls.
    Disabled,
}

/// A chain the driver has made available, as far as a device wants to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Received {
    /// First descriptor; below the queue's size.
    pub head: u16,
    /// The first 16 readable bytes, however the driver framed them (virtio 1.2, 2.7.4); zeros after
    /// `readable` bytes.
    pub header: [u8; HEADER],
    /// Bytes the device may read.
    pub readable: u32,
    /// Bytes the device may write.
    pub writable: u32,
    /// The first writable part: its address and length.
    pub first_writable: Option<(GuestPhysAddr, u32)>,
    /// The last writable byte, where virtio-blk has its status.
    pub last_writable: Option<GuestPhysAddr>,
    /// Whether the chain ends properly, has readable parts before writable ones, and its first 16 readable
    /// bytes are in guest memory.
    pub well_formed: bool,
}

/// The device's side of a split virtqueue. Everything it reads is the driver's and is checked.
#[derive(Debug)]
pub struct DeviceQueue {
    ram: Arc<GuestRam>,
    layout: QueueLayout,
    queue: Queue,
}

impl DeviceQueue {
    /// The device's side of the queue at `layout`.
    ///
    /// # Errors
    /// The layout is not in one piece of `ram`.
    pub fn new(ram: Arc<GuestRam>, layout: QueueLayout) -> Result<Self, QueueError> {
        let (base, size) = (layout.desc_table().0, layout.size());
        ram.slice("queue", layout.desc_table(), layout.bytes())?;
        let refused = |_| QueueError::Layout { base, size };
        let mut queue = Queue::new(size).map_err(refused)?;
        queue.try_set_desc_table_address(GuestAddress(base)).map_err(refused)?;
        queue.try_set_avail_ring_address(GuestAddress(layout.avail_ring().0)).map_err(refused)?;
        queue.try_set_used_ring_address(GuestAddress(layout.used_ring().0)).map_err(refused)?;
        queue.set_ready(true);
        Ok(Self { ram, layout, queue })
    }

    /// The memory it lies in.
    #[must_use]
    pub const fn ram(&self) -> &Arc<GuestRam> {
        &self.ram
    }

    /// The next chain, if the driver has made one available.
    ///
    /// # Errors
    /// The available index is impossible (until the driver mends it), or a head names no descriptor (that one
    /// is skipped). A chain that is wrong inside is not an error here: see [`Received::well_formed`].
    pub fn pop(&mut self) -> Result<Option<Received>, QueueError> {
        let mut received = Received::EMPTY;
        Ok(self.pop_into(&mut received)?.then_some(received))
    }

    /// As [`Self::pop`], into a place that stays: a copy of what was just written in pieces waits for each of them.
    /// Whether there was a chain.
    #[inline]
    pub(in crate::device) fn pop_into(&mut self, received: &mut Received) -> Result<bool, QueueError> {
        let size = self.layout.size();
        let next = self.queue.next_avail();
        // Mostly there is nothing: that is told by a look at the index.
        let rings = Rings::of(&self.ram, self.layout)?;
        if rings.load::<u16>(self.layout.avail_index(), Ordering::Acquire)? == next {
            return Ok(false);
        }
        let chain = match self.queue.iter(&*self.ram) {
            Ok(mut available) => available.next(),
            Err(_) => {
                let avail = self.queue.avail_idx(&*self.ram, Ordering::Relaxed).map_or(0, |index| index.0);
                return Err(QueueError::AvailIndex { avail, next, size });
            }
        };
        let Some(chain) = chain else { return Ok(false) };
        let head = chain.head_index();
        if head >= size {
            return Err(QueueError::Head { head, size });
        }
        received.fill(&self.ram, head, chain);
        Ok(true)
    }

    /// Returns a chain to the driver with `written` bytes written (virtio 1.2, 2.7.8), and says whether the driver
    /// wants an interrupt for it.
    ///
    /// # Errors
    /// [`QueueError::Head`] if `head` did not come from [`Self::pop`].
    pub fn complete(&mut self, head: u16, written: u32) -> Result<bool, QueueError> {
        let size = self.layout.size();
        self.queue.add_used(&*self.ram, head, written).map_err(|_| QueueError::Head { head, size })?;
        // As for the driver's kick: the index first, then the other side's flag.
        let rings = Rings::of(&self.ram, self.layout)?;
        if let Some(order) = self.ram.handshake() {
            rings.store(self.layout.used_index(), self.queue.next_used(), order)?;
        }
        let flags: u16 = rings.load(self.layout.avail_offset(), Ordering::SeqCst)?;
        Ok(flags & NO_INTERRUPT == 0)
    }

    /// Asks the driver for notifications, or not to send any (virtio 1.2, 2.7.10). Returns whether chains are
    /// available already: with notifications just enabled the device must look again then.
    ///
    /// # Errors
    /// None that a queue made by [`Self::new`] can show.
    pub fn set_notifications(&mut self, wanted: Notifications) -> Result<bool, QueueError> {
        let changed = match wanted {
            Notifications::Enabled => self.queue.enable_notification(&*self.ram),
            Notifications::Disabled => self.queue.disable_notification(&*self.ram).and_then(|()| {
                let avail = self.queue.avail_idx(&*self.ram, Ordering::Acquire)?;
                Ok(avail.0 != self.queue.next_avail())
            }),
        };
        changed.map_err(|_| self.missing())
    }

    const fn missing(&self) -> QueueError {
        QueueError::Memory { what: "queue", addr: self.layout.desc_table().0, bytes: self.layout.bytes() }
    }
}

impl Received {
    /// No chain.
    pub(in crate::device) const EMPTY: Self = Self {
        head: 0,
        header: [0; HEADER],
        readable: 0,
        writable: 0,
        first_writable: None,
        last_writable: None,
        well_formed: true,
    };

    #[inline(never)]
    fn fill(&mut self, ram: &GuestRam, head: u16, chain: impl Iterator<Item = virtio_queue::desc::split::Descriptor>) {
        *self = Self { head, ..Self::EMPTY };
        // The iterator ends early where a link leads outside the table: then the last descriptor still has one.
        let mut link_left = true;
        for descriptor in chain {
            let (addr, len) = (descriptor.addr(), descriptor.len());
            link_left = descriptor.has_next();
            if descriptor.is_write_only() {
                self.writable += len; // The iterator keeps the sum of all below 2^32.
                if len > 0 {
                    self.first_writable.get_or_insert((GuestPhysAddr(addr.raw_value()), len));
                    self.last_writable = addr.raw_value().checked_add(u64::from(len) - 1).map(GuestPhysAddr);
                }
            } else {
                self.well_formed &= self.writable == 0;
                self.read_header(ram, addr, len);
                self.readable += len;
            }
        }
        self.well_formed &= !link_left;
    }

    /// Reads what of the header this descriptor holds.
    #[inline(always)]
    fn read_header(&mut self, ram: &GuestRam, addr: GuestAddress, len: u32) {
        let have = self.header.len().min(self.readable as usize);
        let wanted = (self.header.len() - have).min(len as usize);
        if wanted == HEADER {
            self.well_formed &= read_header(ram, GuestPhysAddr(addr.raw_value()), &mut self.header);
        } else if wanted > 0 {
            let part = &mut self.header[have..have + wanted];
            self.well_formed &= ram.read_slice(part, addr).is_ok();
        }
    }
}

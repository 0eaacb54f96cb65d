//! The device's side of a queue: what QEMU's and vhost's virtqueue code does.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use virtio_bindings::virtio_ring::{VRING_AVAIL_F_NO_INTERRUPT, VRING_USED_F_NO_NOTIFY};

use super::rings::{HEADER, Rings, flag, read_header, read_part};
use super::{QueueError, QueueLayout};
use crate::addr::GuestPhysAddr;
use crate::device::GuestRam;

/// In `avail.flags` (virtio 1.2, 2.7.6).
const NO_INTERRUPT: u16 = flag(VRING_AVAIL_F_NO_INTERRUPT);
/// In `used.flags` (virtio 1.2, 2.7.8).
const NO_NOTIFY: u16 = flag(VRING_USED_F_NO_NOTIFY);

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
    /// Whether the chain ends properly, has readable parts before writable ones, no indirect part (that feature is not
    /// offered), and its first 16 readable bytes are in guest memory.
    pub well_formed: bool,
}

/// The device's side of a split virtqueue. Everything it reads is the driver's and is checked.
#[derive(Debug)]
pub struct DeviceQueue {
    ram: Arc<GuestRam>,
    layout: QueueLayout,
    /// Index of the next available entry.
    next_avail: u16,
    /// Index of the next used entry.
    next_used: u16,
}

impl DeviceQueue {
    /// The device's side of the queue at `layout`.
    ///
    /// # Errors
    /// The layout is not in one piece of `ram`.
    pub fn new(ram: Arc<GuestRam>, layout: QueueLayout) -> Result<Self, QueueError> {
        ram.slice("queue", layout.desc_table(), layout.bytes())?;
        Ok(Self { ram, layout, next_avail: 0, next_used: 0 })
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
    #[inline(always)]
    pub fn pop(&mut self) -> Result<Option<Received>, QueueError> {
        let size = self.layout.size();
        let next = self.next_avail;
        let rings = Rings::of(&self.ram, self.layout)?;
        let avail: u16 = rings.load(self.layout.avail_index(), Ordering::Acquire)?;
        match avail.wrapping_sub(next) {
            0 => return Ok(None),
            waiting if waiting > size => return Err(QueueError::AvailIndex { avail, next, size }),
            _ => {}
        }
        let head = rings.load(self.layout.avail_entry(next), Ordering::Relaxed)?;
        self.next_avail = next.wrapping_add(1);
        if head >= size {
            return Err(QueueError::Head { head, size });
        }
        receive(&self.ram, &rings, size, head).map(Some)
    }

    /// Returns a chain to the driver with `written` bytes written (virtio 1.2, 2.7.8), and says whether the driver
    /// wants an interrupt for it.
    ///
    /// # Errors
    /// [`QueueError::Head`] if `head` did not come from [`Self::pop`].
    #[inline]
    pub fn complete(&mut self, head: u16, written: u32) -> Result<bool, QueueError> {
        let size = self.layout.size();
        if head >= size {
            return Err(QueueError::Head { head, size });
        }
        let rings = Rings::of(&self.ram, self.layout)?;
        let entry = self.layout.used_entry(self.next_used);
        rings.store(entry, u32::from(head), Ordering::Relaxed)?;
        rings.store(entry + 4, written, Ordering::Relaxed)?;
        self.next_used = self.next_used.wrapping_add(1);
        rings.store(self.layout.used_index(), self.next_used, Ordering::Release)?;
        // As for the driver's kick: the index first, then the other side's flag.
        fence(Ordering::SeqCst);
        let flags: u16 = rings.load(self.layout.avail_offset(), Ordering::Relaxed)?;
        Ok(flags & NO_INTERRUPT == 0)
    }

    /// Asks the driver for notifications, or not to send any (virtio 1.2, 2.7.10). Returns whether chains are
    /// available already: with notifications just enabled the device must look again then.
    ///
    /// # Errors
    /// None that a queue made by [`Self::new`] can show.
    pub fn set_notifications(&mut self, wanted: Notifications) -> Result<bool, QueueError> {
        let flags = match wanted {
            Notifications::Enabled => 0,
            Notifications::Disabled => NO_NOTIFY,
        };
        let rings = Rings::of(&self.ram, self.layout)?;
        rings.store(self.layout.used_offset(), flags, Ordering::Relaxed)?;
        // The flag must be visible before the index is read, or a chain added meanwhile would not be noticed.
        fence(Ordering::SeqCst);
        let avail: u16 = rings.load(self.layout.avail_index(), Ordering::Acquire)?;
        Ok(avail != self.next_avail)
    }
}

/// Walks the chain that begins with `head`.
#[inline(always)]
fn receive(ram: &GuestRam, rings: &Rings<'_>, size: u16, head: u16) -> Result<Received, QueueError> {
    let (mut header, mut readable, mut writable) = ([0; HEADER], 0_u32, 0_u32);
    let (mut first, mut last) = (None, (0_u64, 0_u32));
    let mut well_formed = true;
    let mut next = Some(head);
    // A chain longer than the table has a loop.
    for _ in 0..size {
        let Some(index) = next.filter(|index| *index < size) else { break };
        let descriptor = rings.read_descriptor(index)?;
        let (addr, len) = (descriptor.addr, descriptor.len);
        if descriptor.is_indirect() || len > u32::MAX - readable - writable {
            break;
        }
        next = descriptor.next();
        if descriptor.is_writable() {
            if len > 0 {
                first = first.or(Some((GuestPhysAddr(addr), len)));
                last = (addr, len);
            }
            writable += len;
        } else {
            let in_place = if readable == 0 && len as usize >= HEADER {
                read_header(ram, GuestPhysAddr(addr), &mut header)
            } else {
                read_part(ram, GuestPhysAddr(addr), len, readable, &mut header)
            };
            well_formed &= in_place && writable == 0;
            readable += len;
        }
    }
    Ok(Received {
        head,
        header,
        readable,
        writable,
        first_writable: first,
        last_writable: first.and(last.0.checked_add(u64::from(last.1.saturating_sub(1)))).map(GuestPhysAddr),
        // Where the walk ended early, the last link is still there.
        well_formed: well_formed && next.is_none(),
    })
}

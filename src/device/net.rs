//! virtio-net (virtio 1.2, 5.1): a driver with one queue pair, and a device that answers every frame with one.

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress};

use super::{DeviceQueue, DriverQueue, GuestRam, Notifications, QueueError, QueueLayout, Received, Segment};
use crate::addr::GuestPhysAddr;

/// `struct virtio_net_hdr_v1`, in front of every frame (virtio 1.2, 5.1.6).
pub const NET_HEADER_BYTES: u32 = 12;
/// The header of a received frame in one buffer: all zeros but `num_buffers` = 1 (virtio 1.2, 5.1.6.4).
const RX_HEADER: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];

/// One of the two queues, by its index in the device (virtio 1.2, 5.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NetQueue {
    /// `receiveq1`, index 0.
    Rx,
    /// `transmitq1`, index 1.
    Tx,
}

impl NetQueue {
    /// The queue index, which a notification carries.
    #[must_use]
    pub const fn index(self) -> u16 {
        match self {
            Self::Rx => 0,
            Self::Tx => 1,
        }
    }
}

/// What a network driver or device can fail with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// The queue.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// A frame that cannot be sent.
    #[error("a frame of {len} bytes; it must have 1 to {max}")]
    Length {
        /// How long it is, header not counted.
        len: u32,
        /// The longest.
        max: u32,
    },
    /// A received buffer without room for what it must contain.
    #[error("the device returned a receive buffer with {len} bytes, which is no frame")]
    Short {
        /// Bytes the device says it wrote.
        len: u32,
    },
}

/// Where a network driver keeps its queues and buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NetLayout {
    rx: QueueLayout,
    tx: QueueLayout,
    buffers: GuestPhysAddr,
    buffer_bytes: u32,
}

impl NetLayout {
    /// Two queues of `size` descriptors from `base` on, followed by a buffer for frames of up to `max_frame` bytes
    /// (header not counted) for each descriptor.
    ///
    /// # Errors
    /// As [`QueueLayout::new`], or the whole would wrap around.
    pub fn new(base: GuestPhysAddr, size: u16, max_frame: u32) -> Result<Self, QueueError> {
        let rx = QueueLayout::new(base, size)?;
        let wraps = || QueueError::Layout { base: base.0, size };
        let tx_base = (base.0 + rx.bytes()).checked_next_multiple_of(64).ok_or_else(wraps)?;
        let tx = QueueLayout::new(GuestPhysAddr(tx_base), size)?;
        let buffers = (tx_base + tx.bytes()).checked_next_multiple_of(64).ok_or_else(wraps)?;
        let buffer_bytes = max_frame
            .checked_add(NET_HEADER_BYTES)
            .and_then(|bytes| bytes.checked_next_multiple_of(64))
            .ok_or_else(wraps)?;
        buffers.checked_add(2 * u64::from(size) * u64::from(buffer_bytes)).ok_or_else(wraps)?;
        Ok(Self { rx, tx, buffers: GuestPhysAddr(buffers), buffer_bytes })
    }

    /// One of the queues.
    #[must_use]
    pub const fn queue(&self, queue: NetQueue) -> QueueLayout {
        match queue {
            NetQueue::Rx => self.rx,
            NetQueue::Tx => self.tx,
        }
    }

    /// Bytes of guest memory from the base on.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.buffers.0 - self.rx.desc_table().0 + 2 * self.rx.size() as u64 * self.buffer_bytes as u64
    }

    /// Longest frame, header not counted.
    #[must_use]
    pub const fn max_frame(&self) -> u32 {
        self.buffer_bytes - NET_HEADER_BYTES
    }

    const fn buffer(&self, queue: NetQueue, head: u16) -> GuestPhysAddr {
        let index = queue.index() as u64 * self.rx.size() as u64 + head as u64;
        GuestPhysAddr(self.buffers.0 + index * self.buffer_bytes as u64)
    }
}

/// A frame that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NetReceived {
    /// The token its buffer was posted with.
    pub token: u32,
    /// Its length, header not counted.
    pub bytes: u32,
}

/// The guest's driver.
#[derive(Debug)]
pub struct NetDriver {
    rx: DriverQueue,
    tx: DriverQueue,
    layout: NetLayout,
}

impl NetDriver {
    /// A driver with its queues and buffers at `layout`, no receive buffer posted.
    ///
    /// # Errors
    /// The layout is not in one piece of `ram`.
    pub fn new(ram: Arc<GuestRam>, layout: NetLayout) -> Result<Self, QueueError> {
        let all = ram.slice("network queues and buffers", layout.rx.desc_table(), layout.bytes())?;
        // Offloads are not negotiated, so every transmit header is zeros, once and for all (virtio 1.2, 5.1.6.2).
        for head in 0..layout.tx.size() {
            let at = layout.buffer(NetQueue::Tx, head).0 - layout.rx.desc_table().0;
            let header = [0; NET_HEADER_BYTES as usize];
            all.write_slice(&header, crate::addr::index(at)).map_err(|_| QueueError::Chain)?;
        }
        Ok(Self { rx: DriverQueue::new(Arc::clone(&ram), layout.rx)?, tx: DriverQueue::new(ram, layout.tx)?, layout })
    }

    /// One of the queues.
    #[must_use]
    pub const fn queue(&self, queue: NetQueue) -> &DriverQueue {
        match queue {
            NetQueue::Rx => &self.rx,
            NetQueue::Tx => &self.tx,
        }
    }

    /// Posts an empty receive buffer (Linux `try_fill_recv`).
    ///
    /// # Errors
    /// [`QueueError::Full`].
    #[inline]
    pub fn post_rx(&mut self, token: u32) -> Result<u16, NetError> {
        let head = self.rx.next_head().ok_or(QueueError::Full { needed: 1, free: 0 })?;
        let addr = self.layout.buffer(NetQueue::Rx, head);
        Ok(self.rx.add(&[Segment { addr, len: self.layout.buffer_bytes, writable: true }], token)?)
    }

    /// Sends a frame of `len` bytes, header not counted (Linux `xmit_skb`).
    ///
    /// # Errors
    /// [`QueueError::Full`], or a length no frame can have.
    #[inline]
    pub fn send(&mut self, len: u32, token: u32) -> Result<u16, NetError> {
        let max = self.layout.max_frame();
        if len == 0 || len > max {
            return Err(NetError::Length { len, max });
        }
        let head = self.tx.next_head().ok_or(QueueError::Full { needed: 1, free: 0 })?;
        let addr = self.layout.buffer(NetQueue::Tx, head);
        Ok(self.tx.add(&[Segment { addr, len: NET_HEADER_BYTES + len, writable: false }], token)?)
    }

    /// Whether the device wants a notification for what was added to that queue since the last call.
    ///
    /// # Errors
    /// As [`DriverQueue::needs_kick`].
    #[inline]
    pub fn needs_kick(&mut self, queue: NetQueue) -> Result<bool, NetError> {
        Ok(self.queue_mut(queue).needs_kick()?)
    }

    /// The token of the next frame whose sending is done, if there is one (Linux `free_old_xmit`).
    ///
    /// # Errors
    /// As [`DriverQueue::pop_used`].
    #[inline]
    pub fn reap_tx(&mut self) -> Result<Option<u32>, NetError> {
        Ok(self.tx.pop_used()?.map(|used| used.token))
    }

    /// The next frame that arrived, if there is one (Linux `virtnet_receive`).
    ///
    /// # Errors
    /// As [`DriverQueue::pop_used`], or the buffer came back without a frame.
    #[inline]
    pub fn receive(&mut self) -> Result<Option<NetReceived>, NetError> {
        let Some(used) = self.rx.pop_used()? else { return Ok(None) };
        match used.len.checked_sub(NET_HEADER_BYTES) {
            Some(bytes @ 1..) => Ok(Some(NetReceived { token: used.token, bytes })),
            _ => Err(NetError::Short { len: used.len }),
        }
    }

    /// As [`DriverQueue::set_interrupts`].
    ///
    /// # Errors
    /// As there.
    pub fn set_interrupts(&mut self, queue: NetQueue, wanted: Notifications) -> Result<bool, NetError> {
        Ok(self.queue_mut(queue).set_interrupts(wanted)?)
    }

    const fn queue_mut(&mut self, queue: NetQueue) -> &mut DriverQueue {
        match queue {
            NetQueue::Rx => &mut self.rx,
            NetQueue::Tx => &mut self.tx,
        }
    }
}

/// A frame the device has taken for sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NetWork {
    /// Its chain on the transmit queue.
    pub head: u16,
    /// Bytes of the frame, header not counted; 0 if the chain holds no frame.
    pub bytes: u32,
}

/// What became of the answer to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// It is in a receive buffer.
    Delivered {
        /// Whether an interrupt is due on the receive queue.
        interrupt: bool,
    },
    /// The driver had posted no buffer.
    NoBuffer,
    /// The buffer was too small, not writable or did not begin with room for a whole header; it went back empty.
    BadBuffer {
        /// Whether an interrupt is due on the receive queue.
        interrupt: bool,
    },
    /// There was no frame to answer.
    NoFrame,
}

/// What a completed frame leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NetDone {
    /// Whether an interrupt is due on the transmit queue.
    pub tx_interrupt: bool,
    /// The answer.
    pub reply: Reply,
}

/// A network device whose peer answers every frame with one of a fixed length, as netperf's request/response
/// tests do. Headers are written, payloads are not: they are priced, not carried.
#[derive(Debug)]
pub struct NetEcho {
    rx: DeviceQueue,
    tx: DeviceQueue,
    reply_bytes: u32,
}

impl NetEcho {
    /// A device on the queues at `layout` whose answers have `reply_bytes` bytes, header not counted.
    ///
    /// # Errors
    /// As [`DeviceQueue::new`], or an answer fits into no buffer of the layout ([`NetError::Length`]).
    pub fn new(ram: Arc<GuestRam>, layout: NetLayout, reply_bytes: u32) -> Result<Self, NetError> {
        let max = layout.max_frame();
        if reply_bytes == 0 || reply_bytes > max {
            return Err(NetError::Length { len: reply_bytes, max });
        }
        let (rx, tx) = (DeviceQueue::new(Arc::clone(&ram), layout.rx)?, DeviceQueue::new(ram, layout.tx)?);
        Ok(Self { rx, tx, reply_bytes })
    }

    /// Takes the next frame for sending, if there is one.
    ///
    /// # Errors
    /// As [`DeviceQueue::pop`].
    #[inline]
    pub fn pop(&mut self) -> Result<Option<NetWork>, NetError> {
        let Some(Received { head, readable, well_formed, .. }) = self.tx.pop()? else { return Ok(None) };
        let bytes = if well_formed { readable.saturating_sub(NET_HEADER_BYTES) } else { 0 };
        Ok(Some(NetWork { head, bytes }))
    }

    /// Returns the sent frame's chain to the driver and puts the answer into a receive buffer.
    ///
    /// # Errors
    /// As [`DeviceQueue::complete`] and, for the receive queue, [`DeviceQueue::pop`].
    #[inline]
    pub fn complete(&mut self, work: NetWork) -> Result<NetDone, NetError> {
        let tx_interrupt = self.tx.complete(work.head, 0)?;
        let reply = if work.bytes == 0 { Reply::NoFrame } else { self.deliver()? };
        Ok(NetDone { tx_interrupt, reply })
    }

    /// As [`DeviceQueue::set_notifications`].
    ///
    /// # Errors
    /// As there.
    pub fn set_notifications(&mut self, queue: NetQueue, wanted: Notifications) -> Result<bool, NetError> {
        let side = match queue {
            NetQueue::Rx => &mut self.rx,
            NetQueue::Tx => &mut self.tx,
        };
        Ok(side.set_notifications(wanted)?)
    }

    #[inline]
    fn deliver(&mut self) -> Result<Reply, NetError> {
        let Some(buffer) = self.rx.pop()? else { return Ok(Reply::NoBuffer) };
        let bytes = NET_HEADER_BYTES + self.reply_bytes;
        let fits = buffer.well_formed && buffer.readable == 0 && buffer.writable >= bytes;
        let written = match buffer.first_writable {
            // A driver may cut the header in two (virtio 1.2, 2.7.4). None does, so such a buffer is refused.
            Some((at, NET_HEADER_BYTES..)) if fits => self.rx.ram().write_slice(&RX_HEADER, GuestAddress(at.0)).is_ok(),
            _ => false,
        };
        let interrupt = self.rx.complete(buffer.head, if written { bytes } else { 0 })?;
        Ok(if written { Reply::Delivered { interrupt } } else { Reply::BadBuffer { interrupt } })
    }
}

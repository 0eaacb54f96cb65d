//! virtio-blk (virtio 1.2, 5.2): the driver's requests, and a device that completes them without touching data.

use std::sync::Arc;

use vm_memory::Bytes;

use super::{DeviceQueue, DriverQueue, GuestRam, Notifications, QueueError, QueueLayout, Received, Segment};
use crate::addr::GuestPhysAddr;

/// Bytes of a sector, in every virtio-blk request whatever the device's block size (virtio 1.2, 5.2.4).
pub const SECTOR_BYTES: u32 = 512;

/// `struct virtio_blk_req` before the data: type u32, reserved u32, sector u64 (virtio 1.2, 5.2.6).
const HEADER_BYTES: u32 = 16;
/// Header, status byte and padding of one request in the driver's memory.
const REQUEST_BYTES: u64 = 32;
/// Where the status byte lies in it.
const STATUS_OFFSET: u32 = HEADER_BYTES;
/// What the driver puts into the status byte so that a device which writes none is found out.
const STATUS_PENDING: u8 = 0xff;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlkKind {
    /// `VIRTIO_BLK_T_IN`: the device writes the data.
    Read,
    /// `VIRTIO_BLK_T_OUT`: the device reads the data.
    Write,
    /// `VIRTIO_BLK_T_FLUSH`: no data.
    Flush,
}

impl BlkKind {
    const fn code(self) -> u32 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Flush => 4,
        }
    }

    const fn from_code(code: u32) -> Option<Self> {
        match code {
            0 => Some(Self::Read),
            1 => Some(Self::Write),
            4 => Some(Self::Flush),
            _ => None,
        }
    }
}

/// How a request ended (virtio 1.2, 5.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlkStatus {
    /// `VIRTIO_BLK_S_OK`.
    Ok,
    /// `VIRTIO_BLK_S_IOERR`.
    IoError,
    /// `VIRTIO_BLK_S_UNSUPP`.
    Unsupported,
    /// A value the specification does not know, or none was written.
    Unknown(u8),
}

impl BlkStatus {
    const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::IoError => 1,
            Self::Unsupported => 2,
            Self::Unknown(code) => code,
        }
    }

    const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Ok,
            1 => Self::IoError,
            2 => Self::Unsupported,
            other => Self::Unknown(other),
        }
    }
}

/// What a block driver or device can fail with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlkError {
    /// The queue.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// A length that cannot be requested.
    #[error("{kind:?} of {len} bytes; a flush has none, reads and writes have a multiple of 512 up to {max}")]
    Length {
        /// What was asked for.
        kind: BlkKind,
        /// How much.
        len: u32,
        /// Most bytes of a request.
        max: u32,
    },
}

/// Where a block driver keeps its queue, request headers, status bytes and data buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlkLayout {
    queue: QueueLayout,
    requests: GuestPhysAddr,
    data: GuestPhysAddr,
    max_bytes: u32,
}

impl BlkLayout {
    /// A queue of `size` descriptors at `base`, followed by headers and by buffers of `max_bytes` (rounded up to
    /// sectors), one of each per descriptor.
    ///
    /// # Errors
    /// As [`QueueLayout::new`], or the whole would wrap around.
    pub fn new(base: GuestPhysAddr, size: u16, max_bytes: u32) -> Result<Self, QueueError> {
        let queue = QueueLayout::new(base, size)?;
        let wraps = QueueError::Layout { base: base.0, size };
        let max_bytes = max_bytes.checked_next_multiple_of(SECTOR_BYTES).ok_or_else(|| wraps.clone())?;
        let requests = (base.0 + queue.bytes()).checked_next_multiple_of(REQUEST_BYTES);
        let data = requests
            .and_then(|requests| requests.checked_add(REQUEST_BYTES * u64::from(size)))
            .and_then(|end| end.checked_next_multiple_of(4096));
        let (Some(requests), Some(data)) = (requests, data) else { return Err(wraps) };
        if data.checked_add(u64::from(size) * u64::from(max_bytes)).is_none() {
            return Err(wraps);
        }
        Ok(Self { queue, requests: GuestPhysAddr(requests), data: GuestPhysAddr(data), max_bytes })
    }

    /// The queue.
    #[must_use]
    pub const fn queue(&self) -> QueueLayout {
        self.queue
    }

    /// Bytes of guest memory from the base on.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.data.0 - self.queue.desc_table().0 + self.queue.size() as u64 * self.max_bytes as u64
    }

    /// Header and status of the request whose chain begins with descriptor `head`.
    const fn request(&self, head: u16) -> GuestPhysAddr {
        GuestPhysAddr(self.requests.0 + REQUEST_BYTES * head as u64)
    }

    const fn buffer(&self, head: u16) -> GuestPhysAddr {
        GuestPhysAddr(self.data.0 + head as u64 * self.max_bytes as u64)
    }
}

/// A request that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlkDone {
    /// The token it was submitted with.
    pub token: u32,
    /// How it ended.
    pub status: BlkStatus,
    /// Bytes the device says it wrote, status included.
    pub len: u32,
}

/// The guest's driver.
#[derive(Debug)]
pub struct BlkDriver {
    queue: DriverQueue,
    layout: BlkLayout,
}

impl BlkDriver {
    /// A driver with its queue and buffers at `layout`.
    ///
    /// # Errors
    /// The layout is not in one piece of `ram`.
    pub fn new(ram: Arc<GuestRam>, layout: BlkLayout) -> Result<Self, QueueError> {
        ram.slice("block requests and data", layout.queue.desc_table(), layout.bytes())?;
        Ok(Self { queue: DriverQueue::new(ram, layout.queue)?, layout })
    }

    /// The queue.
    #[must_use]
    pub const fn queue(&self) -> &DriverQueue {
        &self.queue
    }

    /// Makes a request available to the device and returns its head (Linux `virtio_queue_rq`). `sector` is in
    /// units of 512 bytes, `len` in bytes.
    ///
    /// # Errors
    /// [`QueueError::Full`], or a length no request can have.
    #[inline]
    pub fn submit(&mut self, kind: BlkKind, sector: u64, len: u32, token: u32) -> Result<u16, BlkError> {
        let max = self.layout.max_bytes;
        let fits = match kind {
            BlkKind::Flush => len == 0,
            BlkKind::Read | BlkKind::Write => len > 0 && len % SECTOR_BYTES == 0 && len <= max,
        };
        if !fits {
            return Err(BlkError::Length { kind, len, max });
        }
        let head = self.queue.next_head().ok_or(QueueError::Full { needed: 3, free: 0 })?;
        let at = self.layout.request(head);
        let header = Segment { addr: at, len: HEADER_BYTES, writable: false };
        let data = Segment { addr: self.layout.buffer(head), len, writable: kind == BlkKind::Read };
        let status = Segment { addr: GuestPhysAddr(at.0 + u64::from(STATUS_OFFSET)), len: 1, writable: true };
        let with_data = [header, data, status];
        let without = [header, status];
        let chain = if len > 0 { &with_data[..] } else { &without[..] };
        if chain.len() > usize::from(self.queue.free()) {
            return Err(QueueError::Full { needed: chain.len(), free: self.queue.free() }.into());
        }
        self.write_request(at, kind, sector)?;
        Ok(self.queue.add(chain, token)?)
    }

    /// Whether the device wants a notification for what was submitted since the last call.
    ///
    /// # Errors
    /// As [`DriverQueue::needs_kick`].
    #[inline]
    pub fn needs_kick(&mut self) -> Result<bool, BlkError> {
        Ok(self.queue.needs_kick()?)
    }

    /// The next request that came back, if there is one (Linux `virtblk_done`).
    ///
    /// # Errors
    /// As [`DriverQueue::pop_used`].
    #[inline]
    pub fn reap(&mut self) -> Result<Option<BlkDone>, BlkError> {
        let Some(used) = self.queue.pop_used()? else { return Ok(None) };
        let at = self.layout.request(used.head);
        let request = self.queue.ram().slice("block request", at, REQUEST_BYTES)?;
        let status: u8 =
            request.load(STATUS_OFFSET as usize, std::sync::atomic::Ordering::Relaxed).map_err(|_| missing(at))?;
        Ok(Some(BlkDone { token: used.token, status: BlkStatus::from_code(status), len: used.len }))
    }

    /// As [`DriverQueue::set_interrupts`].
    ///
    /// # Errors
    /// As there.
    pub fn set_interrupts(&mut self, wanted: Notifications) -> Result<bool, BlkError> {
        Ok(self.queue.set_interrupts(wanted)?)
    }

    #[inline]
    fn write_request(&self, at: GuestPhysAddr, kind: BlkKind, sector: u64) -> Result<(), QueueError> {
        use std::sync::atomic::Ordering::Relaxed;
        let request = self.queue.ram().slice("block request", at, REQUEST_BYTES)?;
        request
            .store(u64::from(kind.code()).to_le(), 0, Relaxed)
            .and_then(|()| request.store(sector.to_le(), 8, Relaxed))
            .and_then(|()| request.store(STATUS_PENDING, STATUS_OFFSET as usize, Relaxed))
            .map_err(|_| missing(at))
    }
}

#[cold]
const fn missing(at: GuestPhysAddr) -> QueueError {
    QueueError::Memory { what: "block request", addr: at.0, bytes: REQUEST_BYTES }
}

/// A request the device has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlkWork {
    /// Its chain.
    pub head: u16,
    /// What it asks for; `None` if the device does not know its type.
    pub kind: Option<BlkKind>,
    /// First sector.
    pub sector: u64,
    /// Data bytes to read or write.
    pub bytes: u32,
    /// How it will end.
    pub status: BlkStatus,
    /// Bytes of the chain the device writes, status included.
    written: u32,
    status_at: Option<GuestPhysAddr>,
}

/// A block device that completes every valid request without touching its data, as Linux's `null_blk` does.
#[derive(Debug)]
pub struct NullBlock {
    queue: DeviceQueue,
    sectors: u64,
    received: Received,
}

impl NullBlock {
    /// A device of `sectors` times 512 bytes on the queue at `layout`.
    ///
    /// # Errors
    /// As [`DeviceQueue::new`].
    pub fn new(ram: Arc<GuestRam>, layout: QueueLayout, sectors: u64) -> Result<Self, QueueError> {
        Ok(Self { queue: DeviceQueue::new(ram, layout)?, sectors, received: Received::EMPTY })
    }

    /// Takes the next request, if one is available. An invalid one is taken too: its status says so.
    ///
    /// # Errors
    /// As [`DeviceQueue::pop`].
    #[inline(always)]
    pub fn pop(&mut self) -> Result<Option<BlkWork>, BlkError> {
        Ok(self.queue.pop_into(&mut self.received)?.then(|| self.examine()))
    }

    /// Writes the status, returns the chain to the driver and says whether an interrupt is due.
    ///
    /// # Errors
    /// As [`DeviceQueue::complete`].
    #[inline]
    pub fn complete(&mut self, work: BlkWork) -> Result<bool, BlkError> {
        // Where there is no place for a status, none can be reported.
        let written = match work.status_at {
            Some(at) if self.write_status(at, work.status) => work.written,
            _ => 0,
        };
        Ok(self.queue.complete(work.head, written)?)
    }

    /// As [`DeviceQueue::set_notifications`].
    ///
    /// # Errors
    /// As there.
    pub fn set_notifications(&mut self, wanted: Notifications) -> Result<bool, BlkError> {
        Ok(self.queue.set_notifications(wanted)?)
    }

    #[inline]
    fn write_status(&self, at: GuestPhysAddr, status: BlkStatus) -> bool {
        let place = self.queue.ram().slice("block status", at, 1);
        place.is_ok_and(|place| place.store(status.code(), 0, std::sync::atomic::Ordering::Relaxed).is_ok())
    }

    /// What the chain received asks for.
    #[inline(always)]
    fn examine(&self) -> BlkWork {
        let received = &self.received;
        let [a, b, c, d, _, _, _, _, sector @ ..] = received.header;
        let (kind, sector) = (BlkKind::from_code(u32::from_le_bytes([a, b, c, d])), u64::from_le_bytes(sector));
        let data_out = received.readable.checked_sub(HEADER_BYTES);
        let data_in = received.writable.checked_sub(1);
        let bytes = match (kind, data_out, data_in) {
            (Some(BlkKind::Read), Some(0), Some(bytes)) | (Some(BlkKind::Write), Some(bytes), Some(0)) => Some(bytes),
            (Some(BlkKind::Flush), Some(0), Some(0)) => Some(0),
            _ => None,
        };
        let status = match (kind, bytes) {
            _ if !received.well_formed || data_out.is_none() || data_in.is_none() => BlkStatus::IoError,
            (None, _) => BlkStatus::Unsupported,
            (Some(_), Some(bytes)) if self.contains(sector, bytes) => BlkStatus::Ok,
            _ => BlkStatus::IoError,
        };
        // On success a read's data counts as written, as if it had been zeros.
        let written = if status == BlkStatus::Ok { received.writable } else { 1 };
        BlkWork {
            head: received.head,
            kind,
            sector,
            bytes: bytes.unwrap_or(0),
            status,
            written,
            status_at: received.last_writable,
        }
    }

    #[inline]
    fn contains(&self, sector: u64, bytes: u32) -> bool {
        let end = sector.checked_add(u64::from(bytes / SECTOR_BYTES));
        bytes % SECTOR_BYTES == 0 && end.is_some_and(|end| end <= self.sectors)
    }
}

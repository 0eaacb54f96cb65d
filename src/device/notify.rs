//! Where the guest writes to notify a virtio device: the doorbells, and how many pages they take.
//!
//! This is what the number of MMIO HPTEs a workload needs depends on (commit a56ee9f8f01c): with legacy
//! virtio all devices' doorbells share one 64 KiB page, with virtio 1.0 each device has a page of its own.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::addr::GuestPhysAddr;

/// First address of the first PHB's I/O window on QEMU's pseries machine, 64 KiB long: 32 TiB, above any
/// guest RAM (`spapr_phb_placement`, `SPAPR_PCI_BASE`).
const IO_WINDOW: u64 = 0x2000_0000_0000;
/// Its length (`SPAPR_PCI_IO_WIN_SIZE`).
const IO_WINDOW_BYTES: u64 = 64 << 10;
/// First address of the same PHB's 64-bit MMIO window, 1 TiB long (`SPAPR_PCI_MEM64_WIN_SIZE`).
const MMIO64_WINDOW: u64 = 0x2100_0000_0000;
/// Its length.
const MMIO64_WINDOW_BYTES: u64 = 1 << 40;

/// I/O BAR of a legacy device, rounded up to a power of two as PCI asks (virtio 1.2, 4.1.4.10).
const LEGACY_BAR_BYTES: u64 = 64;
/// Queue Notify in it (virtio 1.2, 4.1.4.10; `VIRTIO_PCI_QUEUE_NOTIFY`).
const LEGACY_QUEUE_NOTIFY: u64 = 16;

/// Distance of two modern devices' BARs: a POWER guest's page, since BARs are placed page by page.
const MODERN_STRIDE: u64 = 64 << 10;
/// Notification structure in the BAR (QEMU's `virtio_pci_realize`: common, ISR, device, notify at 4 KiB each).
const MODERN_NOTIFY: u64 = 0x3000;
/// `notify_off_multiplier` (virtio 1.2, 4.1.4.4; QEMU's `QEMU_VIRTIO_PCI_QUEUE_MEM_MULT` without page-per-vq).
const MODERN_MULTIPLIER: u64 = 4;
/// Queues whose doorbells fit into the 4 KiB notification structure.
const MODERN_QUEUES: u16 = 1024;

/// Where devices' doorbells lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NotifyLayout {
    /// virtio 0.9 over PCI: 64 bytes of I/O registers per device, up to 1,024 devices in one 64 KiB page. The
    /// value written says which queue.
    Legacy,
    /// virtio 1.0 over PCI: a 64 KiB page per device; the address says which queue, and the value repeats it.
    #[default]
    Modern,
}

/// One notification: a store of `value` (`len` bytes, little-endian) at `gpa`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Doorbell {
    /// Where.
    pub gpa: GuestPhysAddr,
    /// Bytes, always 2.
    pub len: u8,
    /// Queue index.
    pub value: u16,
}

/// A doorbell that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotifyError {
    /// The window is full.
    #[error("{devices} devices do not fit into the {layout} layout; it has room for {max}")]
    TooManyDevices {
        /// The layout.
        layout: NotifyLayout,
        /// How many would be needed.
        devices: u64,
        /// How many fit.
        max: u64,
    },
    /// The notification structure is full.
    #[error("queue {queue} has no doorbell in the {layout} layout; a device has {max} queues at most")]
    TooManyQueues {
        /// The layout.
        layout: NotifyLayout,
        /// The queue asked for.
        queue: u16,
        /// How many there can be.
        max: u16,
    },
    /// Not a page size.
    #[error("a page of {bytes} bytes; page sizes are powers of two from 4096 up")]
    PageBytes {
        /// What was given.
        bytes: u64,
    },
    /// Not a layout.
    #[error("`{name}` is no notification layout; there are legacy and modern")]
    UnknownLayout {
        /// What was given.
        name: String,
    },
}

impl NotifyLayout {
    /// Every layout.
    pub const ALL: [Self; 2] = [Self::Legacy, Self::Modern];

    /// The name used on the command line and in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }

    /// Devices that fit: 1,024 legacy, 2^24 modern.
    #[must_use]
    pub const fn max_devices(self) -> u64 {
        match self {
            Self::Legacy => IO_WINDOW_BYTES / LEGACY_BAR_BYTES,
            Self::Modern => MMIO64_WINDOW_BYTES / MODERN_STRIDE,
        }
    }

    /// The store that notifies `device` (from 0) of new buffers in `queue`.
    ///
    /// # Errors
    /// The device or the queue does not fit.
    pub fn doorbell(self, device: u32, queue: u16) -> Result<Doorbell, NotifyError> {
        self.check_devices(u64::from(device) + 1)?;
        let gpa = match self {
            Self::Legacy => IO_WINDOW + u64::from(device) * LEGACY_BAR_BYTES + LEGACY_QUEUE_NOTIFY,
            Self::Modern if queue < MODERN_QUEUES => {
                let bar = MMIO64_WINDOW + u64::from(device) * MODERN_STRIDE;
                bar + MODERN_NOTIFY + u64::from(queue) * MODERN_MULTIPLIER
            }
            Self::Modern => return Err(NotifyError::TooManyQueues { layout: self, queue, max: MODERN_QUEUES }),
        };
        Ok(Doorbell { gpa: GuestPhysAddr(gpa), len: 2, value: queue })
    }

    /// The device and queue that a store of `value` at `gpa` notifies; `None` if no doorbell is there.
    #[must_use]
    pub fn decode(self, gpa: GuestPhysAddr, value: u16) -> Option<(u32, u16)> {
        let (window, bytes, stride) = match self {
            Self::Legacy => (IO_WINDOW, IO_WINDOW_BYTES, LEGACY_BAR_BYTES),
            Self::Modern => (MMIO64_WINDOW, MMIO64_WINDOW_BYTES, MODERN_STRIDE),
        };
        let offset = gpa.0.checked_sub(window).filter(|offset| *offset < bytes)?;
        let (device, register) = (u32::try_from(offset / stride).ok()?, offset % stride);
        match self {
            Self::Legacy => (register == LEGACY_QUEUE_NOTIFY).then_some((device, value)),
            Self::Modern => {
                let notify = register.checked_sub(MODERN_NOTIFY)?;
                let queue = u16::try_from(notify / MODERN_MULTIPLIER).ok()?;
                (notify % MODERN_MULTIPLIER == 0 && queue < MODERN_QUEUES).then_some((device, queue))
            }
        }
    }

    /// The pages of `page_bytes` that hold the doorbells of devices 0 to `devices - 1`, each once, ascending:
    /// as many MMIO HPTEs does the guest need.
    ///
    /// # Errors
    /// The devices do not fit, or `page_bytes` is no page size.
    pub fn pages(self, devices: u32, page_bytes: u64) -> Result<Vec<GuestPhysAddr>, NotifyError> {
        self.check_devices(u64::from(devices))?;
        if page_bytes < 4096 || !page_bytes.is_power_of_two() {
            return Err(NotifyError::PageBytes { bytes: page_bytes });
        }
        let mut pages: Vec<GuestPhysAddr> = Vec::new();
        for device in 0..devices {
            // A device's doorbells lie within 4 KiB, so its first one names its page.
            let page = GuestPhysAddr(self.doorbell(device, 0)?.gpa.0 & !(page_bytes - 1));
            if pages.last() != Some(&page) {
                pages.push(page);
            }
        }
        Ok(pages)
    }

    const fn check_devices(self, devices: u64) -> Result<(), NotifyError> {
        let max = self.max_devices();
        if devices > max {
            return Err(NotifyError::TooManyDevices { layout: self, devices, max });
        }
        Ok(())
    }
}

impl fmt::Display for NotifyLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for NotifyLayout {
    type Err = NotifyError;

    fn from_str(name: &str) -> Result<Self, NotifyError> {
        Self::ALL
            .into_iter()
            .find(|layout| layout.name() == name)
            .ok_or_else(|| NotifyError::UnknownLayout { name: name.to_owned() })
    }
}

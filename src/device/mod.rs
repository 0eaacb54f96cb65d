//! Devices of the simulated VM: virtio notification and queues, a null block device, a network echo; an RTC, an ACPI PM
//! timer and a PCI host bridge; and [`UserSpace`], which finds the device for an exit and drains the coalesced ring before.
//!
//! Queues are split virtqueues (virtio 1.2, 2.7) in real guest memory (`vm-memory`), so a simulated request
//! does the work of a real one: every word of the rings is written by one side and read by the other. The
//! device side is `virtio-queue`'s; the driver side, which guests bring with them, is here. Each device works in two steps, so that an engine can let
//! virtual time pass between them:
//!
//! ```text
//! driver.submit -> driver.needs_kick -> [notification] -> device.pop -> [service time]
//!               -> device.complete -> [interrupt if due] -> driver.reap
//! ```
//!
//! Nothing allocates after construction. Rings and requests are the other side's: whatever they hold, the
//! outcome is an error or a failed request, never a panic.

mod blk;
mod net;
mod notify;
mod pci_host;
mod pm_timer;
mod queue;
mod ram;
mod rtc;
mod user_space;

pub use blk::{BlkDone, BlkDriver, BlkError, BlkKind, BlkLayout, BlkStatus, BlkWork, NullBlock, SECTOR_BYTES};
pub use net::{
    NET_HEADER_BYTES, NetDone, NetDriver, NetEcho, NetError, NetLayout, NetQueue, NetReceived, NetWork, Reply,
};
pub use notify::{Doorbell, NotifyError, NotifyLayout};
pub use pci_host::{PCI_HOST_PORTS, PciHost};
pub use pm_timer::{PM_TIMER_PORT, PmTimer};
pub use queue::{DeviceQueue, DriverQueue, Notifications, QueueError, QueueLayout, Received, Segment, Used};
pub use ram::{GuestRam, Sides};
pub use rtc::{RTC_INDEX_PORT, Rtc};
pub use user_space::UserSpace;

//! The devices of a mixed guest: what is written is counted, what is read is always the same.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::addr::GuestPhysAddr;
use crate::device::{PciHost, UserSpace};
use crate::io::DeviceModel;
use crate::io::pci::{Attachment, EcamWindow, HostBridge, PciBus, PciError};

use super::{IN_BYTE, KINDS, MixedKind};

/// What user space's devices saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Writes by kind, those out of the ring too.
    pub writes: [u64; KINDS],
    /// The first write that carried another value than its kind's.
    pub wrong: Option<(MixedKind, u64)>,
}

/// The device of one kind of write.
struct Counter(MixedKind, Arc<Mutex<Seen>>);

impl DeviceModel for Counter {
    fn read(&mut self, _: u64, data: &mut [u8]) {
        data.fill(0);
    }

    fn write(&mut self, _: u64, data: &[u8]) {
        let mut seen = self.1.lock();
        seen.writes[self.0 as usize] += 1;
        let value = data.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        if value != u64::from(self.0.value()) {
            seen.wrong.get_or_insert((self.0, value));
        }
    }
}

/// What INs read.
struct Constant;

impl DeviceModel for Constant {
    fn read(&mut self, _: u64, data: &mut [u8]) {
        data.fill(IN_BYTE);
    }

    fn write(&mut self, _: u64, _: &[u8]) {}
}

/// The PCI host of one of the two segments, its ECAM window from `base` on.
///
/// # Errors
/// `base` is no multiple of 256 MiB.
pub fn pci_host(base: GuestPhysAddr) -> Result<PciHost, PciError> {
    let bus = PciBus::with_virtio(1, Attachment::IntegratedEndpoint)?;
    Ok(PciHost::new(HostBridge::new(EcamWindow::new(base)?, bus)))
}

/// Puts all but the PCI hosts behind exits and the ring.
pub fn attach(user: &UserSpace) -> Arc<Mutex<Seen>> {
    let seen = Arc::new(Mutex::new(Seen::default()));
    for kind in MixedKind::ALL {
        if let Some((bus, addr, len)) = kind.counted() {
            user.attach(bus, addr, len, Box::new(Counter(*kind, Arc::clone(&seen))));
        }
    }
    let (bus, addr, len) = MixedKind::read_device();
    user.attach(bus, addr, len, Box::new(Constant));
    seen
}

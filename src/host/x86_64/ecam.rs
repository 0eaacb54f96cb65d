//! PCI configuration space as real guests reach it: ports and window behind exits, a read-only memslot over the window.

use std::sync::Arc;

use crate::addr::{GuestPhysAddr, Port};
use crate::device::{PCI_HOST_PORTS, PciHost, UserSpace};
use crate::io::pci::{Bdf, CONFIG_ADDRESS, CONFIG_SPACE_BYTES, ConfigWrite, ECAM_BYTES};
use crate::io::{DeviceModel, IoBus};

use super::HostError;
use crate::host::Mapping;

/// Bytes of bus 0 in the window: 256 functions.
const BUS_BYTES: u64 = CONFIG_SPACE_BYTES as u64 * 256;

/// A host bridge with memory behind the window's bus 0 that shows what the functions' registers hold, for a read-only memslot
/// ([`Vm::add_read_only`](super::Vm::add_read_only)). Accesses to other buses exit.
///
/// The bridge is the one truth. What the guest writes through the bridge shows in the memory before the guest goes on; whoever
/// changes registers behind its back ([`PciHost::bridge`]) calls [`Self::publish`] then.
#[derive(Clone, Debug)]
pub struct EcamMemory {
    host: PciHost,
    memory: Arc<Mapping>,
}

impl EcamMemory {
    /// The memory, showing the bridge's functions as they are; all ones where there is none.
    ///
    /// # Errors
    /// The system has no memory.
    pub fn new(host: PciHost) -> Result<Self, HostError> {
        let memory = Mapping::anonymous(crate::addr::index(BUS_BYTES)).map_err(|e| HostError::call("mmap", e))?;
        let ecam = Self { host, memory: Arc::new(memory) };
        for devfn in 0..=u8::MAX {
            ecam.publish(Bdf::from_bits(devfn.into()))?;
        }
        Ok(ecam)
    }

    /// The bridge.
    #[must_use]
    pub const fn host(&self) -> &PciHost {
        &self.host
    }

    /// The memory for the slot, from the window's first address on.
    #[must_use]
    pub const fn memory(&self) -> &Arc<Mapping> {
        &self.memory
    }

    /// Shows a function's registers as they are now. A guest that reads meanwhile sees some as before.
    ///
    /// # Errors
    /// None for a function of bus 0; the others are not shown.
    pub fn publish(&self, bdf: Bdf) -> Result<(), HostError> {
        let bridge = self.host.bridge();
        let absent = [0xff; CONFIG_SPACE_BYTES as usize];
        let image = bridge.bus().function(bdf).map_or(&absent, |function| function.image());
        Ok(self.memory.write(u64::from(bdf.bits()) * u64::from(CONFIG_SPACE_BYTES), image)?)
    }

    /// Puts the bridge behind its ports and its window.
    pub fn attach(&self, user: &UserSpace) {
        let base = self.host.bridge().window().base();
        user.attach(IoBus::Pio, u64::from(CONFIG_ADDRESS.0), PCI_HOST_PORTS, Box::new(Ports(self.clone())));
        user.attach(IoBus::Mmio, base.0, ECAM_BYTES, Box::new(Window(self.clone())));
    }

    fn wrote(&self, write: ConfigWrite) {
        if let ConfigWrite::Written(bdf, _) = write {
            // Only bus 0 is shown.
            let _ = self.publish(bdf);
        }
    }
}

struct Ports(EcamMemory);

impl DeviceModel for Ports {
    fn read(&mut self, addr: u64, data: &mut [u8]) {
        if let Ok(port) = u16::try_from(addr) {
            self.0.host.bridge().port_read(Port(port), data);
        }
    }

    fn write(&mut self, addr: u64, data: &[u8]) {
        if let Ok(port) = u16::try_from(addr) {
            let write = self.0.host.bridge().port_write(Port(port), data);
            self.0.wrote(write);
        }
    }
}

struct Window(EcamMemory);

impl DeviceModel for Window {
    fn read(&mut self, addr: u64, data: &mut [u8]) {
        self.0.host.bridge().mmio_read(GuestPhysAddr(addr), data);
    }

    fn write(&mut self, addr: u64, data: &[u8]) {
        let write = self.0.host.bridge().mmio_write(GuestPhysAddr(addr), data);
        self.0.wrote(write);
    }
}

//! The PCI host bridge as a VMM has it: one bridge behind ports and window, its pages behind a read-only memslot too.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::addr::{GuestPhysAddr, Port};
use crate::io::pci::{CONFIG_ADDRESS, ECAM_BYTES, HostBridge};
use crate::io::{DeviceModel, IoBus};
use crate::kvm_x86::{Platform, ReadOnlyMemory};

use super::UserSpace;

/// Ports of the bridge: 0xcf8 to 0xcff.
pub const PCI_HOST_PORTS: u64 = 8;

/// A host bridge that user space's devices and a memslot share. Copies are of the same bridge.
#[derive(Clone, Debug)]
pub struct PciHost {
    bridge: Arc<Mutex<HostBridge>>,
}

impl PciHost {
    /// Takes a bridge in.
    #[must_use]
    pub fn new(bridge: HostBridge) -> Self {
        Self { bridge: Arc::new(Mutex::new(bridge)) }
    }

    /// The bridge, for devices that change their registers.
    pub fn bridge(&self) -> MutexGuard<'_, HostBridge> {
        self.bridge.lock()
    }

    /// Puts the bridge behind its ports and its ECAM window. What asks for a reset resets nothing here.
    pub fn attach(&self, user: &UserSpace) {
        let base = self.bridge.lock().window().base();
        user.attach(IoBus::Pio, u64::from(CONFIG_ADDRESS.0), PCI_HOST_PORTS, Box::new(Ports(self.clone())));
        user.attach(IoBus::Mmio, base.0, ECAM_BYTES, Box::new(Window(self.clone())));
    }

    /// Backs the ECAM window by a read-only memslot: loads no longer come to the bridge, stores do.
    pub fn map_read_only(&self, platform: &mut Platform) {
        let base = self.bridge.lock().window().base();
        platform.add_read_only(base, ECAM_BYTES, Arc::new(Memory { host: self.clone(), base }));
    }
}

struct Ports(PciHost);

impl DeviceModel for Ports {
    fn read(&mut self, addr: u64, data: &mut [u8]) {
        if let Ok(port) = u16::try_from(addr) {
            self.0.bridge.lock().port_read(Port(port), data);
        }
    }

    fn write(&mut self, addr: u64, data: &[u8]) {
        if let Ok(port) = u16::try_from(addr) {
            self.0.bridge.lock().port_write(Port(port), data);
        }
    }
}

struct Window(PciHost);

impl DeviceModel for Window {
    fn read(&mut self, addr: u64, data: &mut [u8]) {
        self.0.bridge.lock().mmio_read(GuestPhysAddr(addr), data);
    }

    fn write(&mut self, addr: u64, data: &[u8]) {
        self.0.bridge.lock().mmio_write(GuestPhysAddr(addr), data);
    }
}

struct Memory {
    host: PciHost,
    base: GuestPhysAddr,
}

impl ReadOnlyMemory for Memory {
    fn read(&self, offset: u64, data: &mut [u8]) {
        self.host.bridge.lock().memory_read(GuestPhysAddr(self.base.0 + offset), data);
    }
}

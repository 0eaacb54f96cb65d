//! What a VM's vCPUs share beside the buses: devices in the kernel, read-only memslots.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::addr::GuestPhysAddr;
use crate::io::{DeviceModel, IoBus};

/// Memory behind a read-only memslot (KVM_MEM_READONLY): guests read it like any memory, what they write exits.
///
/// Whoever owns it may change it at any time; the next read shows it.
pub trait ReadOnlyMemory: Send + Sync {
    /// Reads at `offset` from the slot's start; it lies inside the slot.
    fn read(&self, offset: u64, data: &mut [u8]);
}

#[derive(Clone)]
struct Slot {
    base: u64,
    len: u64,
    memory: Arc<dyn ReadOnlyMemory>,
}

#[derive(Clone)]
struct KernelDevice {
    bus: IoBus,
    base: u64,
    len: u64,
    model: Arc<Mutex<dyn DeviceModel>>,
}

/// Whether an access to an address without memory asks KVM_FAST_MMIO_BUS before its instruction is decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FastMmio {
    /// It does: Intel's VMX (`handle_ept_misconfig`).
    #[default]
    BeforeDecoding,
    /// It does not: AMD's SVM, and KVMs with shadow page tables. A length-0 ioeventfd is found on KVM_MMIO_BUS, by writes.
    Never,
}

/// Devices in the kernel and read-only memslots of a VM.
///
/// Devices in the kernel are asked before the buses of [`crate::io`], as the local APIC is. KVM's PIT and PIC sit on the
/// PIO bus itself; it makes no difference unless an ioeventfd or a zone lies over them.
#[derive(Clone, Default)]
pub struct Platform {
    devices: Vec<KernelDevice>,
    slots: Vec<Slot>,
    fast_mmio: FastMmio,
}

impl Platform {
    /// Says whether the fast MMIO bus is asked before decoding.
    pub const fn set_fast_mmio(&mut self, fast_mmio: FastMmio) {
        self.fast_mmio = fast_mmio;
    }

    pub(super) const fn fast_mmio(&self) -> FastMmio {
        self.fast_mmio
    }

    /// Adds a device in the kernel for `len` ports or addresses from `base` on. Of several the first added takes an access.
    pub fn add_device(&mut self, bus: IoBus, base: u64, len: u64, model: Arc<Mutex<dyn DeviceModel>>) {
        self.devices.push(KernelDevice { bus, base, len, model });
    }

    /// Adds a read-only memslot of `len` bytes from `base` on.
    pub fn add_read_only(&mut self, base: GuestPhysAddr, len: u64, memory: Arc<dyn ReadOnlyMemory>) {
        self.slots.push(Slot { base: base.0, len, memory });
    }

    pub(super) fn device(&self, bus: IoBus, addr: u64, bytes: usize) -> Option<&Mutex<dyn DeviceModel>> {
        let found =
            self.devices.iter().find(|device| device.bus == bus && covers(device.base, device.len, addr, bytes));
        found.map(|device| &*device.model)
    }

    /// Reads from the slot that holds all of the bytes, if one does.
    pub(super) fn read_memory(&self, gpa: u64, data: &mut [u8]) -> bool {
        let found = self.slots.iter().find(|slot| covers(slot.base, slot.len, gpa, data.len()));
        if let Some(slot) = found {
            slot.memory.read(gpa - slot.base, data);
        }
        found.is_some()
    }

    /// Whether a read-only slot holds this address.
    pub(super) fn is_memory(&self, gpa: u64) -> bool {
        self.slots.iter().any(|slot| covers(slot.base, slot.len, gpa, 1))
    }
}

/// Whether `bytes` at `addr` lie within `len` bytes at `base`; what wraps around lies nowhere.
fn covers(base: u64, len: u64, addr: u64, bytes: usize) -> bool {
    let inside = addr.checked_sub(base).and_then(|offset| offset.checked_add(bytes as u64));
    inside.is_some_and(|end| end <= len)
}

impl std::fmt::Debug for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let devices: Vec<_> = self.devices.iter().map(|device| (device.bus, device.base, device.len)).collect();
        let slots: Vec<_> = self.slots.iter().map(|slot| (slot.base, slot.len)).collect();
        f.debug_struct("Platform").field("devices", &devices).field("read_only", &slots).finish()
    }
}

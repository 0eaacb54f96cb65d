//! User space's side of an exit: first the coalesced ring, then the device.

use parking_lot::Mutex;

use crate::io::{DeviceModel, IoBus, RingConsumer, RingError};
use crate::kvm_x86::{Direction, Target, UserExit};

struct Attached {
    bus: IoBus,
    base: u64,
    len: u64,
    model: Box<dyn DeviceModel>,
}

/// The devices of a VMM, and the one consumer of the coalesced ring.
///
/// Shared by vCPU threads: one lock, held while a device works, as QEMU's big lock is. Before an exit is handled the ring is
/// drained, so that devices see writes in program order. A device whose handler asks for a drain gets none: the ring is
/// emptied before the next exit anyway, and a second drain inside the first would hand newer writes to devices before older
/// ones. A handler must not call [`Self::handle`]: it would wait for its own lock.
#[derive(Default)]
pub struct UserSpace {
    devices: Mutex<Vec<Attached>>,
}

impl UserSpace {
    /// No device.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a device behind `len` ports or addresses from `base` on. An access goes to the first attached that holds all of it.
    pub fn attach(&self, bus: IoBus, base: u64, len: u64, model: Box<dyn DeviceModel>) {
        self.devices.lock().push(Attached { bus, base, len, model });
    }

    /// Handles an exit: drains `ring` if there is one, then performs the access, element by element. For a read all of `data` is
    /// filled, with ones where no device answers. Returns how many writes came out of the ring.
    ///
    /// # Errors
    /// The ring holds what no kernel writes; devices have had what came before it, and the access was not performed.
    pub fn handle(&self, ring: Option<&dyn RingConsumer>, exit: &UserExit, data: &mut [u8]) -> Result<u32, RingError> {
        let mut devices = self.devices.lock();
        let drained = drain(&mut devices, ring)?;
        let (bus, addr) = match exit.target {
            Target::Port(port) => (IoBus::Pio, u64::from(port.0)),
            Target::Mmio(gpa) => (IoBus::Mmio, gpa.0),
        };
        for element in data.chunks_mut(usize::from(exit.size).max(1)) {
            match exit.direction {
                Direction::Read => read(&mut devices, bus, addr, element),
                Direction::Write => write(&mut devices, bus, addr, element),
            }
        }
        Ok(drained)
    }

    /// Drains the ring without an exit, as a VMM's timer or poller does. Returns how many writes came out. While a device
    /// works, be it on this thread or another, there is nothing to do: returns 0.
    ///
    /// # Errors
    /// As [`Self::handle`].
    pub fn drain(&self, ring: Option<&dyn RingConsumer>) -> Result<u32, RingError> {
        match self.devices.try_lock() {
            Some(mut devices) => drain(&mut devices, ring),
            None => Ok(0),
        }
    }
}

fn drain(devices: &mut [Attached], ring: Option<&dyn RingConsumer>) -> Result<u32, RingError> {
    let Some(ring) = ring else { return Ok(0) };
    ring.drain_into(&mut |entry| {
        let bus = if entry.pio == 1 { IoBus::Pio } else { IoBus::Mmio };
        write(devices, bus, entry.addr, entry.data());
    })
}

fn find(devices: &mut [Attached], bus: IoBus, addr: u64, bytes: usize) -> Option<&mut Attached> {
    devices.iter_mut().find(|device| {
        let end = addr.checked_sub(device.base).and_then(|offset| offset.checked_add(bytes as u64));
        device.bus == bus && end.is_some_and(|end| end <= device.len)
    })
}

/// A read that no device holds whole goes byte by byte.
fn read(devices: &mut [Attached], bus: IoBus, addr: u64, data: &mut [u8]) {
    data.fill(0xff);
    if let Some(device) = find(devices, bus, addr, data.len()) {
        device.model.read(addr, data);
    } else if data.len() > 1 {
        for (i, byte) in data.iter_mut().enumerate() {
            read(devices, bus, addr.wrapping_add(i as u64), std::slice::from_mut(byte));
        }
    }
}

/// A write that no device holds whole goes byte by byte; what none holds is dropped.
fn write(devices: &mut [Attached], bus: IoBus, addr: u64, data: &[u8]) {
    if let Some(device) = find(devices, bus, addr, data.len()) {
        device.model.write(addr, data);
    } else if data.len() > 1 {
        for (i, byte) in data.iter().enumerate() {
            write(devices, bus, addr.wrapping_add(i as u64), std::slice::from_ref(byte));
        }
    }
}

impl std::fmt::Debug for UserSpace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let devices = self.devices.lock();
        let devices: Vec<_> = devices.iter().map(|device| (device.bus, device.base, device.len)).collect();
        f.debug_struct("UserSpace").field("devices", &devices).finish()
    }
}

//! What a device does with the accesses that reach it, in the kernel or in user space.

use std::sync::Arc;

use parking_lot::Mutex;

/// A device behind ports or guest physical addresses.
///
/// Accesses have 1, 2, 4 or 8 bytes, little-endian, and whatever values the guest likes: no access may panic.
pub trait DeviceModel: Send {
    /// A read at `addr` (a port number or a guest physical address). `data` comes filled with ones, as a bus reads where
    /// nobody answers; what the device leaves alone stays so.
    fn read(&mut self, addr: u64, data: &mut [u8]);

    /// A write of `data` at `addr`.
    fn write(&mut self, addr: u64, data: &[u8]);
}

/// A device that others hold too: whoever tells it the time, a test that looks at it.
impl<T: DeviceModel + ?Sized> DeviceModel for Arc<Mutex<T>> {
    fn read(&mut self, addr: u64, data: &mut [u8]) {
        self.lock().read(addr, data);
    }

    fn write(&mut self, addr: u64, data: &[u8]) {
        self.lock().write(addr, data);
    }
}

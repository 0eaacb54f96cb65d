//! A vCPU's side of the buses.

use std::sync::Arc;

use arc_swap::ArcSwap;
use arc_swap::cache::Cache;

use super::bus::{Bus, BusRange, Device};
use super::space::Buses;
use super::{CoalescedZone, EventfdId, Ioeventfd, RingFull};

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BusWrite {
    /// An ioeventfd took it and was signalled.
    Eventfd(EventfdId),
    /// It waits in the coalesced ring.
    Coalesced,
    /// No device took it: it exits to user space (`KVM_EXIT_MMIO` or `KVM_EXIT_IO`).
    Unhandled {
        /// Whether a coalesced zone refused it only because the ring had no room.
        ring_full: bool,
    },
}

/// What became of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BusRead {
    /// It exits to user space. Neither ioeventfds nor coalesced zones have a read operation, so every read
    /// ends here: a read never coalesces and never signals.
    Unhandled,
}

/// Performs one vCPU's accesses. Each access works on the bus contents published last; it takes no lock but
/// the ring's, when it stores.
pub struct IoReader {
    cache: Cache<Arc<ArcSwap<Buses>>, Arc<Buses>>,
}

impl IoReader {
    pub(super) fn new(buses: Arc<ArcSwap<Buses>>) -> Self {
        Self { cache: Cache::new(buses) }
    }

    /// A store offered to `KVM_FAST_MMIO_BUS` with its address alone, as POWER does before it fetches the
    /// instruction (`kvmppc_hv_emulate_mmio`). `Some` names the length-0 ioeventfd that was signalled.
    #[inline]
    pub fn fast_mmio_write(&mut self, gpa: u64) -> Option<EventfdId> {
        let buses = self.cache.load();
        if buses.fast_mmio.devices().is_empty() {
            return None;
        }
        match write(&buses.fast_mmio, buses, gpa, &[]) {
            BusWrite::Eventfd(fd) => Some(fd),
            BusWrite::Coalesced | BusWrite::Unhandled { .. } => None,
        }
    }

    /// A store of 1 to 8 bytes at `gpa`, in the byte order in which a little-endian host's `kvm_run` holds it
    /// (`kvm_io_bus_write` on `KVM_MMIO_BUS`). Wider accesses are never coalesced.
    #[inline]
    pub fn mmio_write(&mut self, gpa: u64, data: &[u8]) -> BusWrite {
        let buses = self.cache.load();
        write(&buses.mmio, buses, gpa, data)
    }

    /// A load of `len` bytes (`kvm_io_bus_read` on `KVM_MMIO_BUS`).
    #[inline]
    pub const fn mmio_read(&mut self, gpa: u64, len: u32) -> BusRead {
        let _ = (gpa, len);
        BusRead::Unhandled
    }

    /// An x86 `OUT` (`kvm_io_bus_write` on `KVM_PIO_BUS`).
    #[inline]
    pub fn pio_write(&mut self, port: u16, data: &[u8]) -> BusWrite {
        let buses = self.cache.load();
        write(&buses.pio, buses, u64::from(port), data)
    }

    /// An x86 `IN` (`kvm_io_bus_read` on `KVM_PIO_BUS`).
    #[inline]
    pub const fn pio_read(&mut self, port: u16, len: u32) -> BusRead {
        let _ = (port, len);
        BusRead::Unhandled
    }
}

impl std::fmt::Debug for IoReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IoReader").finish_non_exhaustive()
    }
}

/// `__kvm_io_bus_write`: ask each matching device until one takes the write.
#[inline]
fn write(bus: &Bus, buses: &Buses, addr: u64, data: &[u8]) -> BusWrite {
    let access = BusRange::new(addr, u32::try_from(data.len()).unwrap_or(u32::MAX));
    let Some(first) = bus.first(access) else { return BusWrite::Unhandled { ring_full: false } };
    // The first device mostly takes the write: that much is worth having inline.
    let ring_full = match bus.devices().get(first) {
        Some(Device::Ioeventfd(fd)) => match signal(fd, buses, addr, data) {
            Some(signalled) => return signalled,
            None => false,
        },
        Some(Device::Zone(zone)) => match coalesce(zone, buses, access, data) {
            Zoned::Stored => return BusWrite::Coalesced,
            refused => refused == Zoned::RingFull,
        },
        None => false,
    };
    ask_after(first, ring_full, bus, buses, access, data)
}

/// The devices behind one that refused; `ring_full` says whether that was for want of room.
#[inline(never)]
fn ask_after(refused: usize, mut ring_full: bool, bus: &Bus, buses: &Buses, access: BusRange, data: &[u8]) -> BusWrite {
    let mut last = refused;
    while let Some(index) = bus.after(last, access) {
        match &bus.devices()[index] {
            Device::Ioeventfd(fd) => {
                if let Some(signalled) = signal(fd, buses, access.addr, data) {
                    return signalled;
                }
            }
            Device::Zone(zone) => match coalesce(zone, buses, access, data) {
                Zoned::Stored => return BusWrite::Coalesced,
                refused => ring_full |= refused == Zoned::RingFull,
            },
        }
        last = index;
    }
    BusWrite::Unhandled { ring_full }
}

/// What a zone did with a write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zoned {
    Stored,
    RingFull,
    /// The write is not wholly inside, or longer than an entry.
    Outside,
}

/// `coalesced_mmio_write`. A call of its own, which leaves the way of an ioeventfd short.
#[inline(never)]
fn coalesce(zone: &CoalescedZone, buses: &Buses, access: BusRange, data: &[u8]) -> Zoned {
    // An entry has 8 bytes; KVM splits wider accesses before they come here.
    if data.len() > 8 || !zone.contains(access.addr, access.bytes()) {
        return Zoned::Outside;
    }
    match buses.ring.push(access.addr, zone.pio, data) {
        Ok(()) => Zoned::Stored,
        Err(RingFull) => Zoned::RingFull,
    }
}

#[inline]
fn signal(fd: &Ioeventfd, buses: &Buses, addr: u64, data: &[u8]) -> Option<BusWrite> {
    if !fd.matches(addr, data) {
        return None;
    }
    buses.eventfds.get(fd.fd.0 as usize)?.signal();
    Some(BusWrite::Eventfd(fd.fd))
}

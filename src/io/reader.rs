//! A vCPU's side of the buses.

use std::sync::Arc;

use arc_swap::ArcSwap;
use arc_swap::cache::Cache;

use super::bus::{Bus, BusRange, Device};
use super::eventfd::Seat;
use super::ioeventfd::value_of;
use super::space::Buses;
use super::{EventfdId, RingFull};

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
    seat: Seat,
}

/// One access under way: all its bus look-ups see the same contents, as under one SRCU read lock.
#[derive(Debug)]
pub struct IoAccess<'a> {
    buses: &'a Buses,
    seat: &'a mut Seat,
}

impl IoReader {
    pub(super) fn new(buses: Arc<ArcSwap<Buses>>, seat: Seat) -> Self {
        Self { cache: Cache::new(buses), seat }
    }

    /// Begins an access, on the bus contents published last.
    #[inline]
    pub fn begin(&mut self) -> IoAccess<'_> {
        IoAccess { buses: self.cache.load(), seat: &mut self.seat }
    }

    /// [`IoAccess::fast_mmio_write`] as an access of its own.
    #[inline]
    pub fn fast_mmio_write(&mut self, gpa: u64) -> Option<EventfdId> {
        self.begin().fast_mmio_write(gpa)
    }

    /// [`IoAccess::mmio_write`] as an access of its own.
    #[inline]
    pub fn mmio_write(&mut self, gpa: u64, data: &[u8]) -> BusWrite {
        self.begin().mmio_write(gpa, data)
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
        let mut access = self.begin();
        let buses = access.buses;
        access.write(&buses.pio, u64::from(port), data)
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

impl IoAccess<'_> {
    /// A store offered to `KVM_FAST_MMIO_BUS` with its address alone, as POWER does before it fetches the
    /// instruction (`kvmppc_hv_emulate_mmio`). `Some` names the length-0 ioeventfd that was signalled.
    #[inline]
    pub fn fast_mmio_write(&mut self, gpa: u64) -> Option<EventfdId> {
        let bus = &self.buses.fast_mmio;
        if bus.devices().is_empty() {
            return None;
        }
        match self.write(bus, gpa, &[]) {
            BusWrite::Eventfd(fd) => Some(fd),
            BusWrite::Coalesced | BusWrite::Unhandled { .. } => None,
        }
    }

    /// A store of 1 to 8 bytes at `gpa`, in the byte order in which a little-endian host's `kvm_run` holds it
    /// (`kvm_io_bus_write` on `KVM_MMIO_BUS`). Wider accesses are never coalesced.
    #[inline]
    pub fn mmio_write(&mut self, gpa: u64, data: &[u8]) -> BusWrite {
        self.write(&self.buses.mmio, gpa, data)
    }

    /// `__kvm_io_bus_write`: ask each matching device until one takes the write.
    // Nearly every doorbell is a write that the index knows: that much is worth having inline.
    #[inline(always)]
    fn write(&mut self, bus: &Bus, addr: u64, data: &[u8]) -> BusWrite {
        let access = BusRange::new(addr, u32::try_from(data.len()).unwrap_or(u32::MAX));
        let first = bus.remembered(access);
        match first.and_then(|first| first.signals.map(|fd| (fd, first.datamatch))) {
            Some((fd, datamatch)) if datamatch.is_none_or(|wanted| wanted == value_of(data)) => self.signal(fd),
            _ => self.ask(first.map(|first| first.at), bus, access, data),
        }
    }

    /// Asks the device at `first` and those behind it; without it, the search says which is first.
    #[inline(never)]
    fn ask(&mut self, first: Option<usize>, bus: &Bus, access: BusRange, data: &[u8]) -> BusWrite {
        let (mut ring_full, mut asked) = (false, first.or_else(|| bus.search(access)));
        while let Some(index) = asked {
            match &bus.devices()[index] {
                Device::Ioeventfd(fd) if fd.matches(access.addr, data) => return self.signal(fd.fd),
                Device::Ioeventfd(_) => {}
                // An entry has 8 bytes; KVM splits wider accesses before they come here.
                Device::Zone(zone) if data.len() <= 8 && zone.contains(access.addr, access.bytes()) => {
                    match self.buses.ring.push(access.addr, zone.pio, data) {
                        Ok(()) => return BusWrite::Coalesced,
                        Err(RingFull) => ring_full = true,
                    }
                }
                Device::Zone(_) => {}
            }
            asked = bus.after(index, access);
        }
        BusWrite::Unhandled { ring_full }
    }

    /// Every ioeventfd on a bus names an eventfd of the same contents: `IoSpace::assign` sees to it.
    #[inline]
    fn signal(&mut self, fd: EventfdId) -> BusWrite {
        if let Some(eventfd) = self.buses.eventfds.get(fd.0 as usize) {
            eventfd.signal_from(self.seat);
        }
        BusWrite::Eventfd(fd)
    }
}

//! The I/O address space of one VM: who may change the buses, and how a change is published.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::bus::{Bus, Device};
use super::eventfd::Seat;
use super::reader::IoReader;
use super::{CoalescedZone, Entry, Eventfd, EventfdId, HostPage, IoBus, IoError, Ioeventfd, Ring, RingError};
use crate::addr::{CoalescedRoom, KernelBehaviour, ZoneLookup};

/// What an access sees: one immutable snapshot of all buses (the kernel keeps each bus under SRCU).
#[derive(Clone, Debug)]
pub(super) struct Buses {
    pub(super) mmio: Bus,
    pub(super) pio: Bus,
    pub(super) fast_mmio: Bus,
    /// Index is the [`EventfdId`].
    pub(super) eventfds: Arc<[Arc<Eventfd>]>,
    pub(super) ring: Arc<Ring>,
}

impl Buses {
    const fn bus(&self, bus: IoBus) -> &Bus {
        match bus {
            IoBus::Mmio => &self.mmio,
            IoBus::Pio => &self.pio,
        }
    }

    const fn bus_mut(&mut self, bus: IoBus) -> &mut Bus {
        match bus {
            IoBus::Mmio => &mut self.mmio,
            IoBus::Pio => &mut self.pio,
        }
    }
}

/// The I/O buses of one VM, shared by its vCPU threads.
///
/// Lock order: `slots_lock`, then the ring's own lock. Accesses take neither, except that a coalesced write
/// takes the ring's. A removed device may still take an access that began before the removal; the first
/// access an [`IoReader`] begins afterwards does not see it.
///
/// Two spaces are equal, and hash alike, when their [`IoState`]s are.
#[derive(Debug)]
pub struct IoSpace {
    buses: Arc<ArcSwap<Buses>>,
    ring: Arc<Ring>,
    /// Every eventfd created, under the lock that serialises all changes (`kvm->slots_lock`).
    slots_lock: Mutex<Vec<Arc<Eventfd>>>,
    /// Readers handed out.
    readers: AtomicUsize,
}

impl IoSpace {
    /// Empty buses and ring for a host with pages of the given size. Of `behaviour`, `coalesced_room` and
    /// `zone_lookup` count.
    #[must_use]
    pub fn new(page: HostPage, behaviour: KernelBehaviour) -> Self {
        let bus = Bus::new(behaviour.zone_lookup);
        let ring = Arc::new(Ring::new(page, behaviour.coalesced_room));
        let eventfds = Arc::new([]);
        let buses = Buses { mmio: bus.clone(), pio: bus.clone(), fast_mmio: bus, eventfds, ring: Arc::clone(&ring) };
        Self {
            buses: Arc::new(ArcSwap::from_pointee(buses)),
            ring,
            slots_lock: Mutex::default(),
            readers: AtomicUsize::new(0),
        }
    }

    /// What a vCPU performs its accesses with.
    #[must_use]
    pub fn reader(&self) -> IoReader {
        IoReader::new(Arc::clone(&self.buses), Seat::new(self.readers.fetch_add(1, Ordering::Relaxed)))
    }

    /// The coalesced ring.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// A new eventfd, not yet assigned to any address.
    ///
    /// # Panics
    /// After 2^32 eventfds.
    pub fn create_eventfd(&self) -> Arc<Eventfd> {
        let mut eventfds = self.slots_lock.lock();
        let id = u32::try_from(eventfds.len()).expect("fewer than 2^32 eventfds");
        let eventfd = Arc::new(Eventfd::new(EventfdId(id), 0));
        eventfds.push(Arc::clone(&eventfd));
        eventfd
    }

    /// The eventfd of that id, if this VM created one.
    #[must_use]
    pub fn eventfd(&self, id: EventfdId) -> Option<Arc<Eventfd>> {
        self.slots_lock.lock().get(id.0 as usize).cloned()
    }

    /// `KVM_IOEVENTFD` (`kvm_assign_ioeventfd`): writes that match now signal the eventfd instead of exiting.
    ///
    /// # Errors
    /// Length, datamatch or range not valid (EINVAL), no such eventfd (EBADF), a write could match another
    /// one too (EEXIST), or the bus is full of other devices (ENOSPC). Nothing has changed then.
    pub fn assign(&self, ioeventfd: Ioeventfd) -> Result<(), IoError> {
        ioeventfd.check()?;
        let eventfds = self.slots_lock.lock();
        if eventfds.len() <= ioeventfd.fd.0 as usize {
            return Err(IoError::BadEventfd { fd: ioeventfd.fd });
        }
        let old = self.buses.load();
        let bus = old.bus(ioeventfd.bus);
        for device in bus.devices() {
            if let Device::Ioeventfd(other) = device {
                if ioeventfd.collides_with(other) {
                    return Err(IoError::Collision { addr: other.addr, len: ioeventfd.len, other: other.len });
                }
            }
        }
        let changed = bus.with(Device::Ioeventfd(ioeventfd))?;
        let mut new = Buses::clone(&old);
        if ioeventfd.len == 0 && ioeventfd.bus == IoBus::Mmio {
            new.fast_mmio = old.fast_mmio.with(Device::Ioeventfd(ioeventfd))?;
        }
        *new.bus_mut(ioeventfd.bus) = changed;
        if new.eventfds.len() <= ioeventfd.fd.0 as usize {
            new.eventfds = eventfds.as_slice().into();
        }
        self.buses.store(Arc::new(new));
        Ok(())
    }

    /// `KVM_IOEVENTFD` with `KVM_IOEVENTFD_FLAG_DEASSIGN` (`kvm_deassign_ioeventfd`).
    ///
    /// # Errors
    /// ENOENT unless bus, eventfd, address, length and datamatch are all those of the assign; the ioeventfd
    /// stays armed then.
    pub fn deassign(&self, ioeventfd: Ioeventfd) -> Result<(), IoError> {
        let _slots = self.slots_lock.lock();
        let old = self.buses.load();
        let device = Device::Ioeventfd(ioeventfd);
        if !old.bus(ioeventfd.bus).devices().contains(&device) {
            let Ioeventfd { fd, addr, len, .. } = ioeventfd;
            return Err(IoError::NoSuchIoeventfd { fd, addr, len });
        }
        let mut new = Buses::clone(&old);
        *new.bus_mut(ioeventfd.bus) = old.bus(ioeventfd.bus).retaining(|other| *other != device);
        new.fast_mmio = old.fast_mmio.retaining(|other| *other != device);
        self.buses.store(Arc::new(new));
        Ok(())
    }

    /// `KVM_REGISTER_COALESCED_MMIO`: writes wholly inside the zone now wait in the ring while it has room.
    ///
    /// Zones may overlap, and the same zone may be registered many times; each counts as a device.
    ///
    /// # Errors
    /// `pio` not 0 or 1, or the zone wraps around (EINVAL); the bus is full (ENOSPC).
    pub fn register_zone(&self, zone: CoalescedZone) -> Result<(), IoError> {
        let bus = zone.check()?;
        let _slots = self.slots_lock.lock();
        let old = self.buses.load();
        let mut new = Buses::clone(&old);
        *new.bus_mut(bus) = old.bus(bus).with(Device::Zone(zone))?;
        self.buses.store(Arc::new(new));
        Ok(())
    }

    /// `KVM_UNREGISTER_COALESCED_MMIO`: removes **every** zone on that bus which contains the requested range.
    /// A request larger than a zone leaves it alone. Returns how many were removed; the ioctl returns 0
    /// in every case.
    ///
    /// # Errors
    /// `pio` not 0 or 1 (EINVAL).
    pub fn unregister_zone(&self, request: CoalescedZone) -> Result<usize, IoError> {
        let bus = request.bus()?;
        let _slots = self.slots_lock.lock();
        let old = self.buses.load();
        let before = old.bus(bus);
        let after = before.retaining(|device| match device {
            Device::Zone(zone) => !zone.contains(request.addr, request.size),
            Device::Ioeventfd(_) => true,
        });
        let removed = before.devices().len() - after.devices().len();
        if removed > 0 {
            let mut new = Buses::clone(&old);
            *new.bus_mut(bus) = after;
            self.buses.store(Arc::new(new));
        }
        Ok(removed)
    }

    /// The devices on a bus, in the order of the kernel's array.
    #[must_use]
    pub fn devices(&self, bus: IoBus) -> Vec<Device> {
        self.buses.load().bus(bus).devices().to_vec()
    }

    /// Everything that decides what later accesses do, as plain data.
    #[must_use]
    pub fn state(&self) -> IoState {
        let eventfds = self.slots_lock.lock();
        let buses = self.buses.load();
        IoState {
            zone_lookup: buses.mmio.lookup(),
            coalesced_room: self.ring.room(),
            mmio: buses.mmio.devices().to_vec(),
            pio: buses.pio.devices().to_vec(),
            fast_mmio: buses.fast_mmio.devices().to_vec(),
            counts: eventfds.iter().map(|eventfd| eventfd.count()).collect(),
            first: self.ring.first(),
            last: self.ring.last(),
            slots: self.ring.slots(),
            waiting: self.ring.waiting(),
        }
    }
}

/// A VM of its own with the same devices, counts and ring entries: nothing is shared with the original.
impl Clone for IoSpace {
    fn clone(&self) -> Self {
        let eventfds = self.slots_lock.lock();
        let mut buses = Buses::clone(&self.buses.load());
        let own: Vec<_> = eventfds.iter().map(|fd| Arc::new(Eventfd::new(fd.id(), fd.count()))).collect();
        buses.eventfds = own.as_slice().into();
        buses.ring = Arc::new(Ring::clone(&self.ring));
        let ring = Arc::clone(&buses.ring);
        Self {
            buses: Arc::new(ArcSwap::from_pointee(buses)),
            ring,
            slots_lock: Mutex::new(own),
            readers: AtomicUsize::new(0),
        }
    }
}

impl PartialEq for IoSpace {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.state() == other.state()
    }
}

impl Eq for IoSpace {}

impl Hash for IoSpace {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.state().hash(hasher);
    }
}

/// The state of an [`IoSpace`] by content: devices in array order, eventfd counts, ring indices and waiting
/// entries (their fresh bytes only).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IoState {
    /// Which of several devices for an access are found.
    pub zone_lookup: ZoneLookup,
    /// How the ring's room is counted.
    pub coalesced_room: CoalescedRoom,
    /// Devices on the MMIO bus.
    pub mmio: Vec<Device>,
    /// Devices on the PIO bus.
    pub pio: Vec<Device>,
    /// Length-0 ioeventfds on the fast MMIO bus.
    pub fast_mmio: Vec<Device>,
    /// Count of each eventfd, by id.
    pub counts: Vec<u64>,
    /// The ring's `first`.
    pub first: u32,
    /// The ring's `last`.
    pub last: u32,
    /// The ring's size in slots.
    pub slots: u32,
    /// The waiting entries, or what the shared page holds that it should not.
    pub waiting: Result<Vec<Entry>, RingError>,
}

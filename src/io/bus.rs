//! One bus: an array of ranges and KVM's own way of finding the devices for an access.
//!
//! The kernel keeps the ranges "sorted" by a comparison that calls two ranges equal when one contains the
//! other. That is no order once ranges nest, so which devices a binary search can reach depends on the
//! order of registration (hazards H1 and H2). Everything here follows `virt/kvm/kvm_main.c` and
//! `include/linux/bsearch.h` step by step, because another correct search would find other devices.

use std::cmp::Ordering;
use std::sync::OnceLock;

use super::index::{ExactIndex, First};
use super::{CoalescedZone, IoError, Ioeventfd};
use crate::addr::ZoneLookup;

/// Most devices on one bus, ioeventfds not counted (`NR_IOBUS_DEVS`).
pub const MAX_BUS_DEVICES: usize = 1000;

/// A device on a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Device {
    /// Signals an eventfd (`ioeventfd_ops`).
    Ioeventfd(Ioeventfd),
    /// Stores the write in the ring (`coalesced_mmio_ops`).
    Zone(CoalescedZone),
}

impl Device {
    fn range(&self) -> BusRange {
        match self {
            Self::Ioeventfd(fd) => BusRange::new(fd.addr, fd.len),
            Self::Zone(zone) => BusRange::new(zone.addr, zone.size),
        }
    }
}

/// `struct kvm_io_range`: an address and a length, of a device or of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct BusRange {
    pub(super) addr: u64,
    pub(super) len: u64,
}

impl BusRange {
    /// The kernel holds the length in a signed `int`: 2 GiB and more become negative, and reach no access.
    #[inline]
    pub(super) fn new(addr: u64, len: u32) -> Self {
        Self { addr, len: i64::from(len as i32) as u64 }
    }

    /// The length as the bus search has it, for an access.
    #[inline]
    pub(super) fn bytes(&self) -> u32 {
        u32::try_from(self.len).unwrap_or(u32::MAX)
    }

    /// `kvm_io_bus_cmp(self, device)`: equal means that `device` contains `self`, or, if the device's length
    /// is 0, that it has the same address.
    #[inline]
    fn compare(&self, device: &Self) -> Ordering {
        if self.addr < device.addr {
            return Ordering::Less;
        }
        let (mut here, mut there) = (self.addr, device.addr);
        if device.len != 0 {
            here = here.wrapping_add(self.len);
            there = there.wrapping_add(device.len);
        }
        if here > there { Ordering::Greater } else { Ordering::Equal }
    }
}

/// `struct kvm_io_bus`: immutable once published, so that readers need no lock.
#[derive(Debug)]
pub(super) struct Bus {
    lookup: ZoneLookup,
    ioeventfds: usize,
    ranges: Vec<BusRange>,
    devices: Vec<Device>,
    /// Made by the first access that needs it; a bus under construction is copied once per device.
    index: OnceLock<ExactIndex>,
}

impl Clone for Bus {
    fn clone(&self) -> Self {
        let (ranges, devices) = (self.ranges.clone(), self.devices.clone());
        Self { ranges, devices, index: OnceLock::new(), ..*self }
    }
}

impl Bus {
    pub(super) const fn new(lookup: ZoneLookup) -> Self {
        Self { lookup, ioeventfds: 0, ranges: Vec::new(), devices: Vec::new(), index: OnceLock::new() }
    }

    /// How devices are found.
    pub(super) const fn lookup(&self) -> ZoneLookup {
        self.lookup
    }

    /// The devices in array order.
    pub(super) fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// A copy with `device` added (`kvm_io_bus_register_dev`).
    pub(super) fn with(&self, device: Device) -> Result<Self, IoError> {
        let counted = self.devices.len() - self.ioeventfds;
        if counted >= MAX_BUS_DEVICES {
            return Err(IoError::BusFull { devices: counted });
        }
        let range = device.range();
        let at = match self.lookup {
            ZoneLookup::SortedContainment => self
                .ranges
                .iter()
                .position(|other| other.compare(&range) == Ordering::Greater)
                .unwrap_or(self.ranges.len()),
            ZoneLookup::AllMatching => self.ranges.len(),
        };
        let mut bus = self.clone();
        bus.ranges.insert(at, range);
        bus.devices.insert(at, device);
        bus.ioeventfds += usize::from(matches!(device, Device::Ioeventfd(_)));
        Ok(bus)
    }

    /// A copy with the devices for which `keep` holds (`kvm_io_bus_unregister_dev` for each other one).
    pub(super) fn retaining(&self, keep: impl Fn(&Device) -> bool) -> Self {
        let mut bus = Self::new(self.lookup);
        for device in self.devices.iter().filter(|device| keep(device)) {
            bus.ranges.push(device.range());
            bus.devices.push(*device);
            bus.ioeventfds += usize::from(matches!(device, Device::Ioeventfd(_)));
        }
        bus
    }

    /// The first device for an access that has exactly the address and length of an ioeventfd, remembered.
    #[inline(always)]
    pub(super) fn remembered(&self, access: BusRange) -> Option<&First> {
        if self.ioeventfds == 0 {
            return None;
        }
        self.index.get_or_init(|| ExactIndex::new(self)).get(access)
    }

    /// `kvm_io_bus_get_first_dev`: any device that compares equal, then back to the first of its neighbours
    /// that do. With [`ZoneLookup::AllMatching`] the first of all.
    #[inline]
    pub(super) fn search(&self, access: BusRange) -> Option<usize> {
        if self.lookup == ZoneLookup::AllMatching {
            return self.scan(access, 0);
        }
        let (mut base, mut left) = (0, self.ranges.len());
        while left > 0 {
            let pivot = base + (left >> 1);
            match access.compare(&self.ranges[pivot]) {
                Ordering::Equal => {
                    let before = self.ranges[..pivot].iter().rev();
                    let equal = before.take_while(|range| access.compare(range) == Ordering::Equal).count();
                    return Some(pivot - equal);
                }
                Ordering::Greater => {
                    base = pivot + 1;
                    left -= 1;
                }
                Ordering::Less => {}
            }
            left >>= 1;
        }
        None
    }

    /// The device asked after the one at `index` refused (`__kvm_io_bus_write`).
    #[inline]
    pub(super) fn after(&self, index: usize, access: BusRange) -> Option<usize> {
        match self.lookup {
            ZoneLookup::SortedContainment => {
                let neighbour = self.ranges.get(index + 1)?;
                (access.compare(neighbour) == Ordering::Equal).then_some(index + 1)
            }
            ZoneLookup::AllMatching => self.scan(access, index + 1),
        }
    }

    fn scan(&self, access: BusRange, from: usize) -> Option<usize> {
        let found = self.ranges[from..].iter().position(|range| access.compare(range) == Ordering::Equal)?;
        Some(from + found)
    }
}

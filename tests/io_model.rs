//! Random registrations and hostile rings against models written the slow, obvious way.

use hvmmio::addr::{CoalescedRoom, KernelBehaviour, ZoneLookup};
use hvmmio::io::{BusWrite, CoalescedZone, Device, HostPage, IoBus, IoSpace, Ioeventfd, Ring};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Change {
    Zone(CoalescedZone),
    Unregister(CoalescedZone),
    Assign(u64, u32),
    Deassign(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let zone = (0..96u64, 0..64u32).prop_map(|(addr, size)| CoalescedZone { addr, size, pio: 0 });
    let len = prop::sample::select(vec![0u32, 1, 2, 4, 8]);
    prop_oneof![
        4 => zone.clone().prop_map(Change::Zone),
        1 => zone.prop_map(Change::Unregister),
        4 => (0..96u64, len).prop_map(|(addr, len)| Change::Assign(addr, len)),
        1 => any::<prop::sample::Index>().prop_map(|index| Change::Deassign(index.index(64))),
    ]
}

fn bounds(device: &Device) -> (u64, u64) {
    match device {
        Device::Ioeventfd(fd) => (fd.addr, u64::from(fd.len)),
        Device::Zone(zone) => (zone.addr, u64::from(zone.size)),
    }
}

/// Whether `device` takes the write; says nothing of whether the bus reaches it.
fn takes(device: &Device, addr: u64, len: u64) -> bool {
    let (start, size) = bounds(device);
    match device {
        Device::Ioeventfd(_) => start == addr && (size == 0 || size == len),
        Device::Zone(_) => start <= addr && addr + len <= start + size,
    }
}

fn apply(io: &IoSpace, changes: &[Change]) -> Vec<Device> {
    let mut order: Vec<Device> = Vec::new();
    for change in changes {
        match *change {
            Change::Zone(zone) => {
                io.register_zone(zone).unwrap();
                order.push(Device::Zone(zone));
            }
            Change::Unregister(request) => {
                let (start, end) = (request.addr, request.addr + u64::from(request.size));
                let before = order.len();
                order.retain(|device| match device {
                    Device::Zone(zone) => !(zone.addr <= start && end <= zone.addr + u64::from(zone.size)),
                    Device::Ioeventfd(_) => true,
                });
                assert_eq!(io.unregister_zone(request), Ok(before - order.len()));
            }
            Change::Assign(addr, len) => {
                let fd = io.create_eventfd().id();
                let new = Ioeventfd { bus: IoBus::Mmio, addr, len, datamatch: None, fd };
                let collides = order.iter().any(|device| match device {
                    Device::Ioeventfd(other) => other.addr == addr && (other.len == len || other.len == 0 || len == 0),
                    Device::Zone(_) => false,
                });
                assert_eq!(io.assign(new).is_err(), collides);
                if !collides {
                    order.push(Device::Ioeventfd(new));
                }
            }
            Change::Deassign(index) => {
                if let Some(Device::Ioeventfd(fd)) = order.get(index).copied() {
                    io.deassign(fd).unwrap();
                    order.remove(index);
                }
            }
        }
    }
    order
}

fn outcome(device: Option<&Device>) -> BusWrite {
    match device {
        Some(Device::Ioeventfd(fd)) => BusWrite::Eventfd(fd.fd),
        Some(Device::Zone(_)) => BusWrite::Coalesced,
        None => BusWrite::Unhandled { ring_full: false },
    }
}

/// Where a range lies to another that contains it (0), or is below or above (-1, 1): the kernel's rule.
fn side((addr, len): (u64, u64), (other, other_len): (u64, u64)) -> i8 {
    match other_len {
        _ if addr < other => -1,
        0 if addr > other => 1,
        0 => 0,
        _ => i8::from(addr + len > other + other_len),
    }
}

/// The kernel's array after these registrations, by the rule of `kvm_io_bus_register_dev`.
fn kernel_array(order: &[Device]) -> Vec<Device> {
    let mut array: Vec<Device> = Vec::new();
    for device in order {
        let before = array.iter().take_while(|other| side(bounds(other), bounds(device)) <= 0).count();
        array.insert(before, *device);
    }
    array
}

/// Which device takes a write, by the rules of `kvm_io_bus_get_first_dev` and `__kvm_io_bus_write`.
fn kernel_write(array: &[Device], addr: u64, len: u64) -> BusWrite {
    // The kernel keeps a base and a count; they are this half-open interval.
    fn search(array: &[Device], from: usize, to: usize, access: (u64, u64)) -> Option<usize> {
        if from == to {
            return None;
        }
        let middle = from + (to - from) / 2;
        match side(access, bounds(&array[middle])) {
            0 => Some(middle),
            1.. => search(array, middle + 1, to, access),
            _ => search(array, from, middle, access),
        }
    }
    let Some(found) = search(array, 0, array.len(), (addr, len)) else { return outcome(None) };
    let equal = |device: &&Device| side((addr, len), bounds(device)) == 0;
    let first = found - array[..found].iter().rev().take_while(equal).count();
    outcome(array[first..].iter().take_while(equal).find(|device| takes(device, addr, len)))
}

proptest! {
    #[test]
    fn sorted_containment_is_the_kernels_array_and_search(
        changes in prop::collection::vec(change(), 0..60),
    ) {
        let io = IoSpace::new(HostPage::Kib4, KernelBehaviour::default());
        // A removal leaves the others where they are, so the model knows the array of registrations alone.
        let changes: Vec<_> =
            changes.into_iter().filter(|change| matches!(change, Change::Zone(_) | Change::Assign(..))).collect();
        let array = kernel_array(&apply(&io, &changes));
        prop_assert_eq!(io.devices(IoBus::Mmio), array.clone());
        let mut vcpu = io.reader();
        for addr in 0..170 {
            for len in [1usize, 2, 4, 8] {
                let reached = vcpu.mmio_write(addr, &[0; 8][..len]);
                prop_assert_eq!(reached, kernel_write(&array, addr, len as u64), "{} bytes at {:#x}", len, addr);
                io.ring().drain(|_| ()).unwrap();
            }
        }
    }

    #[test]
    fn all_matching_reaches_the_first_registered_device_that_takes_the_write(
        changes in prop::collection::vec(change(), 0..40),
    ) {
        let behaviour = KernelBehaviour { zone_lookup: ZoneLookup::AllMatching, ..KernelBehaviour::default() };
        let io = IoSpace::new(HostPage::Kib4, behaviour);
        let order = apply(&io, &changes);
        prop_assert_eq!(io.devices(IoBus::Mmio), order.clone());
        let mut vcpu = io.reader();
        for addr in 0..170 {
            for len in [1usize, 2, 4, 8] {
                let expected = order.iter().find(|device| takes(device, addr, len as u64));
                prop_assert_eq!(vcpu.mmio_write(addr, &[0; 8][..len]), outcome(expected));
                io.ring().drain(|_| ()).unwrap();
            }
        }
    }

    #[test]
    fn sorted_containment_asks_only_devices_that_contain_the_write_and_finds_all_if_none_nest(
        changes in prop::collection::vec(change(), 0..40),
    ) {
        let io = IoSpace::new(HostPage::Kib4, KernelBehaviour::default());
        let order = apply(&io, &changes);
        prop_assert_eq!(io.devices(IoBus::Mmio).len(), order.len());
        let disjoint = order.iter().enumerate().all(|(i, a)| order[..i].iter().all(|b| {
            let ((a, a_len), (b, b_len)) = (bounds(a), bounds(b));
            // A length-0 device that another ends at counts as overlapping: see the test below.
            let apart = |end: u64, next: u64, next_len: u64| end < next || (end == next && next_len > 0);
            apart(a + a_len.max(1), b, b_len) || apart(b + b_len.max(1), a, a_len)
        }));
        let mut vcpu = io.reader();
        for addr in 0..170 {
            for len in [1usize, 2, 4, 8] {
                let reached = vcpu.mmio_write(addr, &[0; 8][..len]);
                io.ring().drain(|_| ()).unwrap();
                let mut possible = order.iter().filter(|device| takes(device, addr, len as u64));
                if disjoint {
                    prop_assert_eq!(reached, outcome(possible.next()));
                } else if reached != outcome(None) {
                    prop_assert!(possible.any(|device| outcome(Some(device)) == reached));
                }
            }
        }
        // The fast bus has one device per address at most, so it never misses.
        for device in &order {
            if let Device::Ioeventfd(fd) = device {
                let found = vcpu.fast_mmio_write(fd.addr);
                prop_assert_eq!(found, (fd.len == 0).then_some(fd.fd));
            }
        }
    }

    #[test]
    fn a_hostile_shared_page_costs_entries_or_an_error_and_nothing_else(
        page in prop::sample::select(vec![HostPage::Kib4, HostPage::Kib16, HostPage::Kib64]),
        room in prop::sample::select(vec![CoalescedRoom::Fixed, CoalescedRoom::Legacy]),
        scribbles in prop::collection::vec((0..4u8, prop_oneof![any::<u64>(), 0..3000u64]), 0..60),
    ) {
        let ring = Ring::new(page, room);
        for (what, value) in scribbles {
            let low = u32::try_from(value & 0xffff_ffff).unwrap();
            match what {
                0 => ring.write_first(low),
                1 => ring.write_last(low),
                2 => ring.write_word(usize::try_from(value % 9000).unwrap(), value),
                _ => {
                    let last = ring.last();
                    let stored = ring.push(value, 1, &value.to_le_bytes()[..(low % 9) as usize]).is_ok();
                    prop_assert!(!stored || last < ring.slots());
                    prop_assert_eq!(ring.last(), if stored { (last + 1) % ring.slots() } else { last });
                }
            }
            let waiting = ring.waiting();
            let inside = ring.first() < ring.slots() && ring.last() < ring.slots();
            prop_assert!(inside || waiting.is_err());
            if value % 3 == 0 {
                let mut entries = 0;
                let drained = ring.drain(|_| entries += 1);
                prop_assert!(entries < ring.slots());
                match (waiting, drained) {
                    (Ok(waiting), drained) => prop_assert_eq!(drained.map(|n| n as usize), Ok(waiting.len())),
                    (Err(_), drained) => prop_assert!(drained.is_err()),
                }
            }
        }
    }
}

/// The array's compare takes a device that ends where a length-0 one begins for equal to it, so the order of
/// registration stays, and the search for the length-0 one's address turns away from it. By the kernel's source; only
/// `KVM_FAST_MMIO_BUS`, which POWER asks first, still finds it.
#[test]
fn a_length_0_eventfd_registered_before_a_device_that_ends_at_it_is_not_reached() {
    for (earlier, later, reached) in [((48, 0), (47, 1), false), ((47, 1), (48, 0), true)] {
        let io = IoSpace::new(HostPage::Kib4, KernelBehaviour::default());
        for (addr, len) in [earlier, later] {
            let fd = io.create_eventfd().id();
            io.assign(Ioeventfd { bus: IoBus::Mmio, addr, len, datamatch: None, fd }).unwrap();
        }
        let mut vcpu = io.reader();
        let found = vcpu.mmio_write(48, &[0; 4]);
        assert_eq!(matches!(found, BusWrite::Eventfd(_)), reached, "{found:?}");
        assert!(vcpu.fast_mmio_write(48).is_some());
    }
}

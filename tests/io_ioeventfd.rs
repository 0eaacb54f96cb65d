//! The project's cases for ioeventfd, each test named after its case.

use hvmmio::addr::{GuestPhysAddr, KernelBehaviour, ZoneLookup};
use hvmmio::device::NotifyLayout;
use hvmmio::io::{BusWrite, CoalescedZone, EventfdId, HostPage, IoBus, IoError, IoSpace, Ioeventfd};

const EXIT: BusWrite = BusWrite::Unhandled { ring_full: false };

fn space() -> IoSpace {
    IoSpace::new(HostPage::Kib4, KernelBehaviour::default())
}

fn mmio(addr: u64, size: u32) -> CoalescedZone {
    CoalescedZone { addr, size, pio: 0 }
}

fn eventfd(addr: u64, len: u32, datamatch: Option<u64>, fd: EventfdId) -> Ioeventfd {
    Ioeventfd { bus: IoBus::Mmio, addr, len, datamatch, fd }
}

#[test]
fn evfd_length_must_match_exactly_unless_it_is_zero() {
    let io = space();
    let [two, any] = [(); 2].map(|()| io.create_eventfd());
    io.assign(eventfd(0x1000, 2, None, two.id())).unwrap();
    io.assign(eventfd(0x2000, 0, None, any.id())).unwrap();
    let mut vcpu = io.reader();
    assert_eq!(vcpu.mmio_write(0x1000, &[0; 4]), EXIT);
    assert_eq!(vcpu.mmio_write(0x1001, &[0; 1]), EXIT);
    assert_eq!(two.count(), 0);
    assert_eq!(vcpu.mmio_write(0x1000, &[0; 2]), BusWrite::Eventfd(two.id()));
    for len in [1, 2, 4, 8] {
        assert_eq!(vcpu.mmio_write(0x2000, &[0; 8][..len]), BusWrite::Eventfd(any.id()));
    }
    assert_eq!(vcpu.fast_mmio_write(0x2000), Some(any.id()));
    assert_eq!(vcpu.fast_mmio_write(0x2001), None);
    assert_eq!(vcpu.fast_mmio_write(0x1000), None);
    assert_eq!((two.count(), any.take(), any.count()), (1, 5, 0));
    assert_eq!(io.assign(eventfd(0x3000, 3, None, two.id())), Err(IoError::EventfdLength { len: 3 }));
    let refused = io.assign(eventfd(0x3000, 0, Some(1), two.id()));
    assert_eq!(refused, Err(IoError::DatamatchWithoutLength { addr: 0x3000 }));
    assert_eq!(io.assign(eventfd(u64::MAX, 1, None, two.id())).unwrap_err().errno(), "EINVAL");
    assert_eq!(io.assign(eventfd(0x3000, 1, None, EventfdId(9))).unwrap_err().errno(), "EBADF");
}

#[test]
fn evfd_length_a_doorbell_written_too_wide_exits_and_its_device_is_found_there() {
    for layout in NotifyLayout::ALL {
        let io = space();
        let fd = io.create_eventfd();
        let doorbell = layout.doorbell(3, 1).unwrap();
        io.assign(eventfd(doorbell.gpa.0, 2, None, fd.id())).unwrap();
        assert_eq!(io.reader().mmio_write(doorbell.gpa.0, &u32::from(doorbell.value).to_le_bytes()), EXIT);
        // What the VMM has of the exit is address and value: enough to kick the device itself.
        assert_eq!(layout.decode(GuestPhysAddr(doorbell.gpa.0), doorbell.value), Some((3, 1)));
        assert_eq!(fd.count(), 0);
    }
}

#[test]
fn evfd_collide_is_refused_where_one_write_could_match_both() {
    let data = |value| Some(value);
    for (there, new, fine) in [
        ((4, None), (4, None), false),
        ((4, data(1)), (4, data(2)), true),
        ((4, data(1)), (4, data(1)), false),
        ((4, data(1)), (4, None), false),
        ((4, None), (4, data(1)), false),
        ((4, None), (2, None), true),
        ((0, None), (4, data(1)), false),
        ((4, data(1)), (0, None), false),
        ((0, None), (0, None), false),
    ] {
        let io = space();
        let fds = [(); 2].map(|()| io.create_eventfd().id());
        io.assign(eventfd(0x1000, there.0, there.1, fds[0])).unwrap();
        let before = io.state();
        match io.assign(eventfd(0x1000, new.0, new.1, fds[1])) {
            Ok(()) => assert!(fine, "{there:?} {new:?}"),
            Err(refused) => {
                assert_eq!((refused.errno(), fine), ("EEXIST", false), "{there:?} {new:?}");
                assert_eq!(io.state(), before);
            }
        }
        io.assign(eventfd(0x1008, new.0, new.1, fds[1])).unwrap();
        io.assign(Ioeventfd { bus: IoBus::Pio, ..eventfd(0x1000, new.0, new.1, fds[1]) }).unwrap();
    }
}

#[test]
fn evfd_deassign_must_name_everything_as_assigned() {
    let io = space();
    let [fd, other] = [(); 2].map(|()| io.create_eventfd().id());
    let armed = eventfd(0x1000, 4, Some(7), fd);
    io.assign(armed).unwrap();
    let mut vcpu = io.reader();
    for wrong in [
        eventfd(0x1000, 4, Some(7), other),
        eventfd(0x1000, 2, Some(7), fd),
        eventfd(0x1000, 4, None, fd),
        eventfd(0x1000, 4, Some(8), fd),
        eventfd(0x1004, 4, Some(7), fd),
        Ioeventfd { bus: IoBus::Pio, ..armed },
    ] {
        assert_eq!(io.deassign(wrong).unwrap_err().errno(), "ENOENT");
        assert_eq!(vcpu.mmio_write(0x1000, &[7, 0, 0, 0]), BusWrite::Eventfd(fd));
    }
    io.deassign(armed).unwrap();
    assert_eq!(vcpu.mmio_write(0x1000, &[7, 0, 0, 0]), EXIT);
    assert_eq!(io.deassign(armed).unwrap_err().errno(), "ENOENT");

    let any = eventfd(0x2000, 0, None, fd);
    io.assign(any).unwrap();
    io.deassign(any).unwrap();
    assert_eq!((vcpu.fast_mmio_write(0x2000), vcpu.mmio_write(0x2000, &[1])), (None, EXIT));
}

#[test]
fn evfd_under_zone_is_taken_by_whoever_the_order_of_registration_says() {
    // The eventfd compares equal to the zone whatever the order, so it goes after the zone, or before it if
    // it was there first.
    for (zone_first, taken) in [(true, BusWrite::Coalesced), (false, BusWrite::Eventfd(EventfdId(0)))] {
        for lookup in [ZoneLookup::SortedContainment, ZoneLookup::AllMatching] {
            let io =
                IoSpace::new(HostPage::Kib4, KernelBehaviour { zone_lookup: lookup, ..KernelBehaviour::default() });
            let fd = io.create_eventfd().id();
            if zone_first {
                io.register_zone(mmio(0x1000, 0x1000)).unwrap();
            }
            io.assign(eventfd(0x1100, 4, None, fd)).unwrap();
            if !zone_first {
                io.register_zone(mmio(0x1000, 0x1000)).unwrap();
            }
            assert_eq!(io.reader().mmio_write(0x1100, &[0; 4]), taken, "zone first: {zone_first}, {lookup:?}");
        }
    }
}

//! The I/O space beyond the listed cases: clones, concurrent changes, and corners of rings and eventfds.

use hvmmio::addr::{CoalescedRoom, KernelBehaviour};
use hvmmio::io::{BusWrite, CoalescedZone, EventfdId, HostPage, IoBus, IoReader, IoSpace, Ioeventfd, Ring, RingError};

const FULL: BusWrite = BusWrite::Unhandled { ring_full: true };
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

fn absorbs(vcpu: &mut IoReader, addr: u64) -> bool {
    vcpu.mmio_write(addr, &[0; 4]) == BusWrite::Coalesced
}

#[test]
fn ring_hostile_length_is_an_error() {
    let ring = Ring::new(HostPage::Kib4, CoalescedRoom::Fixed);
    ring.push(0x1000, 0, &[1]).unwrap();
    ring.write_word(1, 9);
    assert_eq!(ring.drain(|_| panic!("read")), Err(RingError::Length { slot: 0, len: 9 }));
}

#[test]
fn only_len_bytes_of_an_entry_are_fresh() {
    let ring = Ring::new(HostPage::Kib4, CoalescedRoom::Fixed);
    for round in 0..2u64 {
        ring.write_first(0);
        ring.write_last(0);
        let long = [0xee; 8];
        ring.push(0x1000, 0, if round == 0 { &long } else { &[1, 2] }).unwrap();
    }
    assert_eq!(ring.waiting().unwrap()[0].data(), [1, 2]);
}

#[test]
fn evfd_datamatch_is_compared_over_the_bytes_written() {
    let io = space();
    let fds: Vec<_> = (0..3).map(|_| io.create_eventfd().id()).collect();
    for (queue, fd) in (0..2).zip(&fds) {
        io.assign(eventfd(0x1000, 2, Some(queue), *fd)).unwrap();
    }
    io.assign(eventfd(0x2000, 2, Some(0x1_0001), fds[2])).unwrap();
    let mut vcpu = io.reader();
    assert_eq!(vcpu.mmio_write(0x1000, &[1, 0]), BusWrite::Eventfd(fds[1]));
    assert_eq!(vcpu.mmio_write(0x1000, &[0, 0]), BusWrite::Eventfd(fds[0]));
    assert_eq!(vcpu.mmio_write(0x1000, &[2, 0]), EXIT);
    assert_eq!(vcpu.mmio_write(0x2000, &[1, 0]), EXIT, "a datamatch wider than the write never matches");
}

#[test]
fn a_full_zone_passes_the_write_on_to_an_eventfd_beneath() {
    let io = space();
    let fd = io.create_eventfd().id();
    io.register_zone(mmio(0x1000, 0x1000)).unwrap();
    io.assign(eventfd(0x1100, 4, None, fd)).unwrap();
    let mut vcpu = io.reader();
    io.ring().write_last(u32::MAX);
    assert_eq!(vcpu.mmio_write(0x1100, &[0; 4]), BusWrite::Eventfd(fd));
    assert_eq!(vcpu.mmio_write(0x1080, &[0; 4]), FULL);
    // Above the eventfd the search goes right of the zone and never asks it (H1, H2).
    io.ring().write_last(0);
    assert!(absorbs(&mut vcpu, 0x1080));
    assert!(!absorbs(&mut vcpu, 0x1200));
}

#[test]
fn a_clone_shares_nothing_and_is_equal_until_one_of_them_changes() {
    let io = space();
    let fd = io.create_eventfd();
    io.register_zone(mmio(0x1000, 0x100)).unwrap();
    io.assign(eventfd(0x2000, 4, None, fd.id())).unwrap();
    assert!(absorbs(&mut io.reader(), 0x1000));
    assert_eq!(io.reader().mmio_write(0x2000, &[0; 4]), BusWrite::Eventfd(fd.id()));

    let copy = io.clone();
    assert_eq!(copy, io);
    assert_eq!(hash(&copy), hash(&io));
    assert_eq!(copy.reader().mmio_write(0x2000, &[0; 4]), BusWrite::Eventfd(fd.id()));
    assert_eq!((fd.count(), copy.eventfd(fd.id()).unwrap().count()), (1, 2));
    assert_ne!(copy, io);
    fd.signal();
    assert_eq!(copy, io);
    assert!(absorbs(&mut copy.reader(), 0x1000));
    assert_ne!(copy, io);
    assert_eq!((io.ring().drain(|_| ()), copy.ring().drain(|_| ())), (Ok(1), Ok(2)));
}

#[test]
fn vcpus_go_on_signalling_while_other_devices_come_and_go() {
    const WRITES: u64 = 50_000;
    let io = space();
    let [steady, passing] = [(); 2].map(|()| io.create_eventfd());
    io.assign(eventfd(0x1000, 4, None, steady.id())).unwrap();
    std::thread::scope(|threads| {
        let vcpus: Vec<_> = (0..2)
            .map(|_| {
                let mut vcpu = io.reader();
                let hit = BusWrite::Eventfd(steady.id());
                threads.spawn(move || (0..WRITES).for_each(|_| assert_eq!(vcpu.mmio_write(0x1000, &[0; 4]), hit)))
            })
            .collect();
        while !vcpus.iter().all(|vcpu| vcpu.is_finished()) {
            let visitor = eventfd(0x800, 2, None, passing.id());
            io.assign(visitor).unwrap();
            io.register_zone(mmio(0x2000, 0x100)).unwrap();
            assert_eq!(io.reader().mmio_write(0x800, &[0; 2]), BusWrite::Eventfd(passing.id()));
            io.deassign(visitor).unwrap();
            assert_eq!(io.unregister_zone(mmio(0x2000, 0x100)), Ok(1));
            assert_eq!(io.reader().mmio_write(0x800, &[0; 2]), EXIT);
        }
    });
    assert_eq!(steady.take(), 2 * WRITES);
}

fn hash(io: &IoSpace) -> u64 {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    BuildHasherDefault::<DefaultHasher>::default().hash_one(io)
}

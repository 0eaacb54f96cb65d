//! The project's cases for the coalesced ring, each test named after its case.

use hvmmio::addr::{CoalescedRoom, KernelBehaviour, ZoneLookup};
use hvmmio::io::{
    BusRead, BusWrite, CoalescedZone, HostPage, IoBus, IoError, IoReader, IoSpace, Ioeventfd, MAX_BUS_DEVICES, Ring,
    RingError,
};

const PAGES: [(HostPage, u32); 3] = [(HostPage::Kib4, 170), (HostPage::Kib16, 682), (HostPage::Kib64, 2730)];
const FULL: BusWrite = BusWrite::Unhandled { ring_full: true };
const EXIT: BusWrite = BusWrite::Unhandled { ring_full: false };

fn kernel(room: CoalescedRoom) -> KernelBehaviour {
    KernelBehaviour { coalesced_room: room, ..KernelBehaviour::default() }
}

fn space() -> IoSpace {
    IoSpace::new(HostPage::Kib4, KernelBehaviour::default())
}

fn mmio(addr: u64, size: u32) -> CoalescedZone {
    CoalescedZone { addr, size, pio: 0 }
}

fn absorbs(vcpu: &mut IoReader, addr: u64) -> bool {
    vcpu.mmio_write(addr, &[0; 4]) == BusWrite::Coalesced
}

/// Pushes from an empty ring at `start` until one is refused.
fn absorbed_from(page: HostPage, room: CoalescedRoom, start: u32) -> u32 {
    let ring = Ring::new(page, room);
    ring.write_first(start);
    ring.write_last(start);
    (0..).take_while(|_| ring.push(0, 0, &[1]).is_ok()).count().try_into().unwrap()
}

#[test]
fn ring_room_fixed_absorbs_all_but_one_slot_from_every_start() {
    for (page, slots) in PAGES {
        for start in 0..slots {
            assert_eq!(absorbed_from(page, CoalescedRoom::Fixed, start), slots - 1, "{page:?} from {start}");
        }
    }
}

#[test]
fn ring_room_legacy_loses_room_where_the_u32_difference_wraps() {
    let expected = |page, start| match page {
        HostPage::Kib4 if start <= 84 => 85,
        HostPage::Kib4 => 169,
        HostPage::Kib16 if start <= 678 => 3,
        HostPage::Kib16 => 681,
        HostPage::Kib64 if start <= 2474 => 255,
        HostPage::Kib64 => 2729,
    };
    for (page, slots) in PAGES {
        for start in 0..slots {
            let absorbed = absorbed_from(page, CoalescedRoom::Legacy, start);
            assert_eq!(absorbed, expected(page, start), "{page:?} from {start}");
        }
    }
}

/// What `coalesced_io_test` of the kernel's own self-tests registers and writes: 8 bytes of MMIO, 4 bytes of a port.
struct SelfTest {
    io: IoSpace,
    vcpu: IoReader,
    slots: u32,
}

const MMIO: CoalescedZone = CoalescedZone { addr: 4 << 30, size: 8, pio: 0 };
const PIO: CoalescedZone = CoalescedZone { addr: 0x80, size: 8, pio: 1 };

impl SelfTest {
    fn new(page: HostPage, slots: u32) -> Self {
        let io = IoSpace::new(page, kernel(CoalescedRoom::Fixed));
        let vcpu = io.reader();
        Self { io, vcpu, slots }
    }

    fn start_at(&self, start: u32) {
        self.io.ring().write_first(start);
        self.io.ring().write_last(start);
    }

    fn mmio(&mut self, i: u32) -> BusWrite {
        self.vcpu.mmio_write(MMIO.addr, &(MMIO.addr + u64::from(i)).to_le_bytes())
    }

    fn pio(&mut self, i: u32) -> BusWrite {
        self.vcpu.pio_write(0x80, &(0x80 + i).to_le_bytes())
    }

    /// Fills the ring from `start` with MMIO and PIO writes in turn, and checks that the next write, on `bus`, exits
    /// whole, that nothing else touches the ring, and that every entry is as it was written.
    fn fills_from(&mut self, start: u32, bus: IoBus) {
        self.start_at(start);
        for i in 0..self.slots - 1 {
            let absorbed = if i % 2 == 0 { self.mmio(i) } else { self.pio(i) };
            assert_eq!(absorbed, BusWrite::Coalesced, "write {i} from {start}");
        }
        let full = (self.io.ring().first(), self.io.ring().last());
        assert_eq!((full.0, (full.1 + 1) % self.slots), (start, start));
        let refused = match bus {
            IoBus::Mmio => self.mmio(self.slots - 1),
            IoBus::Pio => self.pio(self.slots - 1),
        };
        assert_eq!(refused, FULL);
        assert_eq!(self.vcpu.mmio_read(MMIO.addr, 8), BusRead::Unhandled);
        assert_eq!(self.vcpu.pio_read(0x80, 4), BusRead::Unhandled);
        assert_eq!(self.vcpu.pio_write(0xcfc, &[0; 4]), EXIT);
        assert_eq!((self.io.ring().first(), self.io.ring().last()), full);
        let mut i = 0u32;
        let drained = self.io.ring().drain(|entry| {
            if i % 2 == 0 {
                let data = (MMIO.addr + u64::from(i)).to_le_bytes();
                assert_eq!((entry.addr, entry.pio, entry.data()), (MMIO.addr, 0, &data[..]));
            } else {
                assert_eq!((entry.addr, entry.pio, entry.data()), (0x80, 1, &(0x80 + i).to_le_bytes()[..]));
            }
            i += 1;
        });
        assert_eq!((drained, i), (Ok(self.slots - 1), self.slots - 1));
    }
}

#[test]
fn ring_mixed_the_kernels_own_check_list_passes_from_every_start() {
    for (page, slots) in PAGES {
        let mut test = SelfTest::new(page, slots);
        for start in 0..slots {
            test.io.register_zone(MMIO).unwrap();
            test.io.register_zone(PIO).unwrap();
            test.fills_from(start, IoBus::Mmio);
            test.fills_from(start, IoBus::Pio);

            // Another port, and a read, exit at once with room in the ring, and leave it as it is.
            test.start_at(start);
            assert_eq!(test.vcpu.pio_write(0x90, &[1; 4]), EXIT);
            assert_eq!(test.vcpu.pio_read(0x80, 4), BusRead::Unhandled);
            assert_eq!(test.vcpu.mmio_read(MMIO.addr, 8), BusRead::Unhandled);
            assert_eq!((test.io.ring().first(), test.io.ring().last()), (start, start));

            assert_eq!(test.io.unregister_zone(MMIO), Ok(1));
            assert_eq!((test.mmio(0), test.pio(0)), (EXIT, BusWrite::Coalesced));
            assert_eq!(test.io.unregister_zone(PIO), Ok(1));
            test.start_at(start);
            assert_eq!((test.mmio(0), test.pio(0)), (EXIT, EXIT));
            assert_eq!((test.io.ring().first(), test.io.ring().last()), (start, start));
        }
    }
}

#[test]
fn ring_hostile_last_stores_nothing_and_counts_as_no_room() {
    for (page, slots) in PAGES {
        for room in [CoalescedRoom::Fixed, CoalescedRoom::Legacy] {
            for last in [slots, slots + 1, u32::MAX] {
                let io = IoSpace::new(page, kernel(room));
                io.register_zone(mmio(0x1000, 8)).unwrap();
                io.ring().write_last(last);
                assert_eq!(io.reader().mmio_write(0x1000, &[1; 8]), FULL);
                assert_eq!(io.ring().last(), last);
                io.ring().write_last(0);
                assert_eq!(io.ring().drain(|_| panic!("stored")), Ok(0));
                let wrong = RingError::Index { which: "last", value: last, slots };
                io.ring().write_last(last);
                assert_eq!(io.ring().drain(|_| panic!("read")), Err(wrong));
            }
        }
    }
}

#[test]
fn ring_hostile_first_is_an_error_and_nothing_is_read() {
    for (page, slots) in PAGES {
        for first in [slots, u32::MAX] {
            let ring = Ring::new(page, CoalescedRoom::Fixed);
            ring.write_first(first);
            let wrong = RingError::Index { which: "first", value: first, slots };
            assert_eq!(ring.drain(|_| panic!("read")), Err(wrong.clone()));
            // Equal to `last` or not, it is outside.
            ring.write_last(first);
            assert_eq!(ring.drain(|_| panic!("read")), Err(wrong));
        }
    }
}

#[test]
fn zone_unregister_removes_every_zone_that_contains_the_request() {
    let io = space();
    let mut vcpu = io.reader();
    io.register_zone(mmio(0x1000, 0x100)).unwrap();
    assert_eq!(io.unregister_zone(mmio(0, 0x10000)), Ok(0));
    assert!(absorbs(&mut vcpu, 0x1080));
    assert_eq!(io.unregister_zone(CoalescedZone { addr: 0x1000, size: 0x10, pio: 1 }), Ok(0));
    assert!(absorbs(&mut vcpu, 0x1080));
    assert_eq!(io.unregister_zone(mmio(0x1000, 0x10)), Ok(1));
    assert!(!absorbs(&mut vcpu, 0x1080));

    io.register_zone(mmio(0x1000, 0x100)).unwrap();
    io.register_zone(mmio(0x1010, 0x10)).unwrap();
    assert_eq!(io.unregister_zone(mmio(0x1014, 4)), Ok(2));
    assert_eq!(io.devices(IoBus::Mmio), []);

    let pio = CoalescedZone { addr: 0x1000, size: 4, pio: 2 };
    for refused in [io.register_zone(pio).unwrap_err(), io.unregister_zone(pio).unwrap_err()] {
        assert_eq!(refused.errno(), "EINVAL");
        assert!(refused.to_string().contains("pio = 2"), "{refused}");
    }
    assert_eq!(io.unregister_zone(mmio(0x9000, 4)), Ok(0));
    assert_eq!(io.register_zone(mmio(u64::MAX - 1, 4)).unwrap_err().errno(), "EINVAL");
}

#[test]
fn zone_leak_ends_at_the_1001st_device() {
    let io = space();
    // Three pieces registered, one covering range removed: the ioctl says 0 and removes nothing.
    let mut registered = 0;
    let refused = (0..1200).find_map(|_| {
        for piece in 0..3 {
            if let Err(refused) = io.register_zone(mmio(0x1000 + piece * 0x100, 0x100)) {
                return Some(refused);
            }
            registered += 1;
        }
        assert_eq!(io.unregister_zone(mmio(0x1000, 0x300)), Ok(0));
        None
    });
    assert_eq!(refused, Some(IoError::BusFull { devices: MAX_BUS_DEVICES }));
    assert_eq!((registered, refused.unwrap().errno()), (1000, "ENOSPC"));

    // ioeventfds do not count, but none fits once the bus is full.
    let fd = io.create_eventfd().id();
    let ioeventfd = Ioeventfd { bus: IoBus::Mmio, addr: 0x9000, len: 4, datamatch: None, fd };
    assert_eq!(io.assign(ioeventfd).unwrap_err().errno(), "ENOSPC");

    let mirrored = space();
    for _ in 0..1200 {
        for piece in 0..3 {
            mirrored.register_zone(mmio(0x1000 + piece * 0x100, 0x100)).unwrap();
        }
        for piece in 0..3 {
            assert_eq!(mirrored.unregister_zone(mmio(0x1000 + piece * 0x100, 0x100)), Ok(1));
        }
    }
    assert_eq!(mirrored.devices(IoBus::Mmio), []);
}

#[test]
fn zone_nested_order_decides_whether_the_outer_zone_is_reached() {
    let (outer, inner) = (mmio(0x1000, 0x1000), mmio(0x1100, 4));
    for (zones, lookup, reached) in [
        ([outer, inner], ZoneLookup::SortedContainment, false),
        ([inner, outer], ZoneLookup::SortedContainment, true),
        ([outer, inner], ZoneLookup::AllMatching, true),
        ([inner, outer], ZoneLookup::AllMatching, true),
    ] {
        let io = IoSpace::new(HostPage::Kib4, KernelBehaviour { zone_lookup: lookup, ..KernelBehaviour::default() });
        for zone in zones {
            io.register_zone(zone).unwrap();
        }
        let mut vcpu = io.reader();
        assert_eq!(absorbs(&mut vcpu, 0x1800), reached, "{zones:?} {lookup:?}");
        assert!(absorbs(&mut vcpu, 0x1100));
    }
}

#[test]
fn zone_straddle_exits_whole() {
    let io = space();
    io.register_zone(mmio(0x1000, 0x100)).unwrap();
    let mut vcpu = io.reader();
    assert_eq!(vcpu.mmio_write(0x10fc, &[1; 8]), EXIT);
    assert_eq!(io.ring().waiting(), Ok(vec![]));
    assert_eq!(vcpu.mmio_write(0x10f8, &[1; 8]), BusWrite::Coalesced);
    assert_eq!(vcpu.mmio_write(0x1000, &[1; 16]), EXIT);
}

#[test]
fn drain_nested_neither_recurses_nor_reorders() {
    let io = space();
    io.register_zone(mmio(0x1000, 0x100)).unwrap();
    let mut vcpu = io.reader();
    for offset in [0, 4, 8] {
        assert!(absorbs(&mut vcpu, 0x1000 + offset));
    }
    let mut seen = Vec::new();
    let drained = io.ring().drain(|entry| {
        assert_eq!(io.ring().drain(|_| panic!("recursion")), Ok(0));
        seen.push(entry.addr);
    });
    assert_eq!((drained, seen), (Ok(3), vec![0x1000, 0x1004, 0x1008]));
    assert_eq!(io.ring().drain(|_| panic!("empty")), Ok(0));
}

#[test]
fn ring_two_vcpus_share_one_ring_and_each_keeps_its_order() {
    const EACH: u32 = 20_000;
    let io = space();
    io.register_zone(mmio(0x1000, 0x100)).unwrap();
    let mut next = [0u32; 2];
    std::thread::scope(|threads| {
        for vcpu in 0..2u32 {
            let mut reader = io.reader();
            threads.spawn(move || {
                for i in 0..EACH {
                    while reader.mmio_write(0x1000 + 8 * u64::from(vcpu), &i.to_le_bytes()) == FULL {
                        std::thread::yield_now();
                    }
                }
            });
        }
        while next != [EACH; 2] {
            let drained = io.ring().drain(|entry| {
                let vcpu = usize::try_from((entry.addr - 0x1000) / 8).unwrap();
                assert_eq!(entry.data(), next[vcpu].to_le_bytes());
                next[vcpu] += 1;
            });
            if drained.unwrap() == 0 {
                std::thread::yield_now();
            }
        }
    });
}

#[test]
fn ring_two_vcpus_and_an_idle_vms_single_entry_stays_until_somebody_drains() {
    let io = space();
    io.register_zone(mmio(0x1000, 0x100)).unwrap();
    let [mut first, mut second] = [(); 2].map(|()| io.reader());
    assert!(absorbs(&mut first, 0x1008));
    // Nothing but a drain takes it: not a read, not an exit by itself, not the other vCPU's write, not a removal.
    assert_eq!(second.mmio_read(0x1008, 4), BusRead::Unhandled);
    assert_eq!(second.mmio_write(0x9000, &[0; 4]), EXIT);
    assert!(absorbs(&mut second, 0x1010));
    assert_eq!(io.unregister_zone(mmio(0x1000, 0x100)), Ok(1));
    let mut seen = Vec::new();
    assert_eq!(io.ring().drain(|entry| seen.push(entry.addr)), Ok(2));
    assert_eq!(seen, [0x1008, 0x1010]);
}

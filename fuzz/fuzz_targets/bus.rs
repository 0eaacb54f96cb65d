//! Registrations and removals in any order, then writes: each one is taken by a device that matches it, or exits.

#![no_main]

use hvmmio::addr::{CoalescedRoom, KernelBehaviour, ZoneLookup};
use hvmmio::io::{BusWrite, CoalescedZone, Device, EventfdId, HostPage, IoBus, IoSpace, Ioeventfd, MAX_BUS_DEVICES};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

/// Mostly small, so that devices and writes meet; now and then anything.
#[derive(Clone, Copy, Debug, Arbitrary)]
enum Number {
    Small(u8),
    Any(u64),
}

impl Number {
    fn wide(self) -> u64 {
        match self {
            Self::Small(value) => u64::from(value % 64),
            Self::Any(value) => value,
        }
    }

    fn narrow(self) -> u32 {
        // Every u32 is reached.
        (self.wide() & 0xffff_ffff) as u32
    }
}

#[derive(Debug, Arbitrary)]
struct RawEventfd {
    pio: bool,
    addr: Number,
    len: u8,
    datamatch: Option<Number>,
    fd: u8,
}

#[derive(Debug, Arbitrary)]
enum Step {
    Zone { addr: Number, size: Number, pio: u8, times: u16 },
    Unregister { addr: Number, size: Number, pio: u8 },
    Eventfd,
    Assign(RawEventfd),
    Deassign(RawEventfd),
    Write { pio: bool, addr: Number, data: [u8; 16], len: u8 },
    FastWrite { addr: Number },
    Drain,
}

#[derive(Debug, Arbitrary)]
struct Input {
    legacy: bool,
    all_matching: bool,
    steps: Vec<Step>,
}

fuzz_target!(|input: Input| {
    let behaviour = KernelBehaviour {
        coalesced_room: if input.legacy { CoalescedRoom::Legacy } else { CoalescedRoom::Fixed },
        zone_lookup: if input.all_matching { ZoneLookup::AllMatching } else { ZoneLookup::SortedContainment },
        ..KernelBehaviour::default()
    };
    let io = IoSpace::new(HostPage::Kib4, behaviour);
    io.create_eventfd();
    for step in &input.steps {
        perform(&io, step);
    }
});

fn zone(addr: Number, size: Number, pio: u8) -> CoalescedZone {
    CoalescedZone { addr: addr.wide(), size: size.narrow(), pio: u32::from(pio % 3) }
}

fn eventfd(raw: &RawEventfd) -> Ioeventfd {
    Ioeventfd {
        bus: if raw.pio { IoBus::Pio } else { IoBus::Mmio },
        addr: raw.addr.wide(),
        len: u32::from(raw.len % 10),
        datamatch: raw.datamatch.map(Number::wide),
        fd: EventfdId(u32::from(raw.fd % 8)),
    }
}

fn zones(io: &IoSpace, bus: IoBus) -> usize {
    io.devices(bus).iter().filter(|device| matches!(device, Device::Zone(_))).count()
}

fn perform(io: &IoSpace, step: &Step) {
    match step {
        Step::Zone { addr, size, pio, times } => {
            let zone = zone(*addr, *size, *pio);
            for _ in 0..times % 400 {
                let (before, taken) = (io.state(), io.register_zone(zone));
                match (taken, zone.bus()) {
                    (Ok(()), Ok(bus)) => assert!(zones(io, bus) <= MAX_BUS_DEVICES),
                    (Ok(()), Err(refused)) => panic!("taken in spite of {refused}"),
                    (Err(_), _) => return assert_eq!(io.state(), before),
                }
            }
        }
        Step::Unregister { addr, size, pio } => {
            let request = zone(*addr, *size, *pio);
            let Ok(bus) = request.bus() else { return assert!(io.unregister_zone(request).is_err()) };
            let before = io.devices(bus).len();
            let removed = io.unregister_zone(request).unwrap();
            let left = io.devices(bus);
            assert_eq!(left.len() + removed, before);
            let covers =
                |device: &Device| matches!(device, Device::Zone(zone) if zone.contains(request.addr, request.size));
            assert!(!left.iter().any(covers));
        }
        Step::Eventfd => drop(io.create_eventfd()),
        Step::Assign(raw) => {
            let (before, wanted) = (io.state(), eventfd(raw));
            if io.assign(wanted).is_err() {
                return assert_eq!(io.state(), before);
            }
            assert_eq!(io.devices(wanted.bus).len(), devices(&before, wanted.bus) + 1);
            assert_eq!(io.assign(wanted).unwrap_err().errno(), "EEXIST", "the same again collides with it");
        }
        Step::Deassign(raw) => {
            let wanted = eventfd(raw);
            let armed = io.devices(wanted.bus).contains(&Device::Ioeventfd(wanted));
            assert_eq!(io.deassign(wanted).is_ok(), armed);
        }
        Step::Write { pio, addr, data, len } => {
            let data = &data[..usize::from(len % 17)];
            let mut vcpu = io.reader();
            if *pio {
                let port = (addr.wide() & 0xffff) as u16;
                check(io, IoBus::Pio, u64::from(port), data, || vcpu.pio_write(port, data));
            } else {
                check(io, IoBus::Mmio, addr.wide(), data, || vcpu.mmio_write(addr.wide(), data));
            }
        }
        Step::FastWrite { addr } => {
            let found = io.reader().fast_mmio_write(addr.wide());
            let there = io.state().fast_mmio.into_iter().find_map(|device| match device {
                Device::Ioeventfd(fd) if fd.addr == addr.wide() => Some(fd.fd),
                _ => None,
            });
            assert_eq!(found, there);
        }
        Step::Drain => drop(io.ring().drain(|_| ()).unwrap()),
    }
}

fn devices(state: &hvmmio::io::IoState, bus: IoBus) -> usize {
    match bus {
        IoBus::Mmio => state.mmio.len(),
        IoBus::Pio => state.pio.len(),
    }
}

/// Whoever took the write is on the bus and matches it; nobody else noticed.
fn check(io: &IoSpace, bus: IoBus, addr: u64, data: &[u8], write: impl FnOnce() -> BusWrite) {
    let before = io.state();
    let outcome = write();
    let after = io.state();
    let on_bus = io.devices(bus);
    let signalled: Vec<_> =
        (0..).zip(before.counts.iter().zip(&after.counts)).filter(|(_, (old, new))| old != new).collect();
    let waiting = (before.waiting.unwrap(), after.waiting.unwrap());
    match outcome {
        BusWrite::Eventfd(fd) => {
            let takes = |device: &Device| match device {
                Device::Ioeventfd(other) => {
                    other.fd == fd && other.addr == addr && [0, data.len()].contains(&(other.len as usize))
                }
                Device::Zone(_) => false,
            };
            assert!(on_bus.iter().any(takes));
            assert!(matches!(signalled[..], [(id, (old, new))] if id == fd.0 && *new == old + 1));
            assert_eq!(waiting.0, waiting.1);
        }
        BusWrite::Coalesced => {
            let len = u32::try_from(data.len()).unwrap();
            let takes = |device: &Device| matches!(device, Device::Zone(zone) if zone.contains(addr, len));
            assert!(on_bus.iter().any(takes) && signalled.is_empty());
            let (stored, older) = waiting.1.split_last().unwrap();
            assert_eq!((older, stored.addr, stored.data()), (&waiting.0[..], addr, data));
            assert_eq!(stored.pio, u32::from(bus == IoBus::Pio));
        }
        BusWrite::Unhandled { .. } => assert_eq!((signalled.len(), waiting.0), (0, waiting.1)),
    }
}

//! The ring against a hostile or a slow other side: every write is in it once, whole, or it exits.

use hvmmio::addr::{CoalescedRoom, KernelBehaviour, ZoneLookup};
use hvmmio::io::{BusWrite, CoalescedZone, Entry, HostPage, IoReader, IoSpace, Ring, RingError};
use proptest::prelude::*;

const PAGES: [HostPage; 3] = [HostPage::Kib4, HostPage::Kib16, HostPage::Kib64];
const ROOMS: [CoalescedRoom; 2] = [CoalescedRoom::Fixed, CoalescedRoom::Legacy];

/// What the other side or the guest does next.
#[derive(Clone, Debug)]
enum Step {
    First(u32),
    Last(u32),
    Word(usize, u64),
    Register(CoalescedZone),
    Unregister(CoalescedZone),
    Mmio(u64, Vec<u8>),
    Pio(u16, Vec<u8>),
    Drain,
}

/// Inside every ring, about its end, or anything.
fn index() -> impl Strategy<Value = u32> {
    prop_oneof![0..170u32, 168..172u32, 680..684u32, 2728..2732u32, any::<u32>(), Just(u32::MAX)]
}

/// Small addresses, so that writes meet zones, and both ends of the address space.
fn addr() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..64u64, 1 => u64::MAX - 16..=u64::MAX]
}

fn zone() -> impl Strategy<Value = CoalescedZone> {
    let size = prop_oneof![8 => 0..64u32, 1 => any::<u32>()];
    (addr(), size, prop_oneof![Just(0), Just(1), Just(2)]).prop_map(|(addr, size, pio)| CoalescedZone {
        addr,
        size,
        pio,
    })
}

fn step() -> impl Strategy<Value = Step> {
    // Lengths that no guest store has are part of it; an entry holds 8 bytes.
    let data = || prop::collection::vec(any::<u8>(), 0..12);
    prop_oneof![
        1 => index().prop_map(Step::First),
        1 => index().prop_map(Step::Last),
        1 => (0..9000usize, any::<u64>()).prop_map(|(word, value)| Step::Word(word, value)),
        2 => zone().prop_map(Step::Register),
        1 => zone().prop_map(Step::Unregister),
        6 => (addr(), data()).prop_map(|(addr, data)| Step::Mmio(addr, data)),
        3 => (0..64u16, data()).prop_map(|(port, data)| Step::Pio(port, data)),
        1 => Just(Step::Drain),
    ]
}

/// Everything the page holds.
fn page(ring: &Ring) -> (u32, u32, Vec<u64>) {
    let words = (0..).map_while(|word| ring.read_word(word)).collect();
    (ring.first(), ring.last(), words)
}

/// The bytes of a slot, as the consumer's documented layout has them.
fn slot(words: &[u64], slot: u32) -> (u64, u32, u32, [u8; 8]) {
    let at = slot as usize * 3;
    let (len, pio) = (words[at + 1] & 0xffff_ffff, words[at + 1] >> 32);
    (words[at], len.try_into().unwrap(), pio.try_into().unwrap(), words[at + 2].to_le_bytes())
}

/// One write: it is in the slot that `last` named and nowhere else, or the page is as it was and the write exits.
fn check_write(io: &IoSpace, addr: u64, pio: u32, data: &[u8], write: impl FnOnce() -> BusWrite) {
    let (first, last, before) = page(io.ring());
    let slots = io.ring().slots();
    let outcome = write();
    let (first_after, last_after, after) = page(io.ring());
    assert_eq!(first_after, first, "only the consumer moves `first`");
    match outcome {
        BusWrite::Coalesced => {
            assert!(last < slots && data.len() <= 8);
            assert_eq!(last_after, (last + 1) % slots);
            let (stored, len, kind, bytes) = slot(&after, last);
            assert_eq!((stored, len as usize, kind), (addr, data.len(), pio));
            assert_eq!(&bytes[..data.len()], data);
            assert_eq!(bytes[data.len()..], slot(&before, last).3[data.len()..], "only `len` bytes are fresh");
            let others = (0..slots).filter(|other| *other != last);
            for other in others {
                assert_eq!(slot(&after, other), slot(&before, other), "slot {other}");
            }
        }
        BusWrite::Unhandled { .. } => assert_eq!((last_after, after), (last, before), "an exit leaves the page alone"),
        BusWrite::Eventfd(fd) => panic!("nobody registered {fd}"),
    }
}

fn perform(io: &IoSpace, vcpu: &mut IoReader, step: &Step) {
    match step {
        Step::First(value) => io.ring().write_first(*value),
        Step::Last(value) => io.ring().write_last(*value),
        Step::Word(word, value) => io.ring().write_word(*word, *value),
        // Refused or not, registered or not: what follows must hold.
        Step::Register(zone) => drop(io.register_zone(*zone)),
        Step::Unregister(zone) => drop(io.unregister_zone(*zone)),
        Step::Mmio(addr, data) => check_write(io, *addr, 0, data, || vcpu.mmio_write(*addr, data)),
        Step::Pio(port, data) => check_write(io, u64::from(*port), 1, data, || vcpu.pio_write(*port, data)),
        Step::Drain => {
            let (first, last, slots) = (io.ring().first(), io.ring().last(), io.ring().slots());
            let waiting = io.ring().waiting();
            let mut seen = Vec::new();
            let drained = io.ring().drain(|entry| seen.push(entry));
            match (waiting, drained) {
                (Ok(waiting), drained) => {
                    assert_eq!(drained, Ok(u32::try_from(waiting.len()).unwrap()));
                    assert_eq!((seen, io.ring().first()), (waiting, last));
                }
                (Err(RingError::Index { which, value, .. }), drained) => {
                    assert!(drained.is_err() && seen.is_empty() && value >= slots);
                    assert_eq!(if which == "first" { first } else { last }, value);
                }
                (Err(RingError::Length { slot, .. }), drained) => {
                    assert_eq!(drained, io.ring().waiting().map(|_| 0), "it stands before the entry it cannot read");
                    assert_eq!(io.ring().first(), slot);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn ring_hostile_first_and_last_never_lose_a_write_without_an_exit(
        page in prop::sample::select(&PAGES[..]),
        coalesced_room in prop::sample::select(&ROOMS[..]),
        zone_lookup in prop::sample::select(vec![ZoneLookup::SortedContainment, ZoneLookup::AllMatching]),
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let behaviour = KernelBehaviour { coalesced_room, zone_lookup, ..KernelBehaviour::default() };
        let io = IoSpace::new(page, behaviour);
        for zone in [CoalescedZone { addr: 0, size: 48, pio: 0 }, CoalescedZone { addr: 0, size: 32, pio: 1 }] {
            io.register_zone(zone).unwrap();
        }
        let mut vcpu = io.reader();
        for step in &steps {
            perform(&io, &mut vcpu, step);
        }
    }

    /// Producer and consumer that behave, the consumer taking as much as it likes each time: what was absorbed is drained
    /// once, in order.
    #[test]
    fn what_was_absorbed_is_drained_once_in_order_whatever_the_consumers_pace(
        page in prop::sample::select(&PAGES[..2]),
        start in 0..170u32,
        paces in prop::collection::vec((1..200u32, 1..200u32), 1..12),
    ) {
        let ring = Ring::new(page, CoalescedRoom::Fixed);
        ring.write_first(start);
        ring.write_last(start);
        let (mut absorbed, mut seen, mut number) = (Vec::new(), Vec::new(), 0u64);
        for (writes, takes) in paces {
            for _ in 0..writes {
                number += 1;
                if ring.push(number, 0, &number.to_le_bytes()).is_ok() {
                    absorbed.push(number);
                }
            }
            take(&ring, takes, &mut seen);
            prop_assert_eq!(ring.waiting().unwrap().len(), absorbed.len() - seen.len());
        }
        take(&ring, u32::MAX, &mut seen);
        prop_assert_eq!(seen, absorbed);
    }
}

/// Takes up to `count` entries as a consumer on the other side of the page does it: by reading and moving `first`.
fn take(ring: &Ring, count: u32, seen: &mut Vec<u64>) {
    let waiting = ring.waiting().unwrap();
    let taken = waiting.iter().take(count as usize);
    seen.extend(taken.map(|entry| {
        assert_eq!(entry.data(), entry.addr.to_le_bytes());
        entry.addr
    }));
    let moved = u32::try_from(waiting.len()).unwrap().min(count);
    ring.write_first((ring.first() + moved) % ring.slots());
}

/// Where the legacy rule is worse than early: with `first` at 0 a full ring does not look full, and the next write makes
/// it look empty. A consumer that always drains whole never comes there; one that takes an entry at a time does. By the
/// kernel's source, not observed.
#[test]
fn the_legacy_room_rule_loses_a_whole_ring_when_the_consumer_stops_at_slot_0() {
    for page in PAGES {
        for (room, refused) in [(CoalescedRoom::Legacy, false), (CoalescedRoom::Fixed, true)] {
            let ring = Ring::new(page, room);
            let slots = ring.slots();
            let write = |number: u32| ring.push(u64::from(number), 0, &[1; 2]);
            ring.write_first(slots - 1);
            ring.write_last(slots - 1);
            for number in 0..slots - 1 {
                assert_eq!(write(number), Ok(()), "{page:?} {room:?}");
            }
            assert!(write(slots).is_err(), "first = N - 1, last = N - 2: both rules call it full");
            // The consumer takes one, the guest writes one: full again, but with `first` at 0.
            let mut seen = Vec::new();
            take_one(&ring, &mut seen);
            assert_eq!((ring.first(), write(slots - 1)), (0, Ok(())));
            assert_eq!(ring.waiting().unwrap().len(), slots as usize - 1);
            assert_eq!(write(slots).is_err(), refused, "{page:?} {room:?}");
            let waiting = ring.waiting().unwrap().len();
            assert_eq!(waiting, if refused { slots as usize - 1 } else { 0 }, "{page:?} {room:?}");
        }
    }
}

fn take_one(ring: &Ring, seen: &mut Vec<Entry>) {
    seen.push(ring.waiting().unwrap()[0]);
    ring.write_first((ring.first() + 1) % ring.slots());
}

/// Four vCPUs against one consumer: no write is lost, none is seen twice, each vCPU's own order is kept.
#[test]
fn producers_on_threads_lose_nothing_and_keep_each_their_own_order() {
    const VCPUS: u64 = 4;
    const EACH: u64 = 20_000;
    for room in ROOMS {
        let io = IoSpace::new(HostPage::Kib4, KernelBehaviour { coalesced_room: room, ..KernelBehaviour::default() });
        io.register_zone(CoalescedZone { addr: 0x1000, size: 0x1000, pio: 0 }).unwrap();
        io.register_zone(CoalescedZone { addr: 0x80, size: 8, pio: 1 }).unwrap();
        // What each vCPU had absorbed, and what had to exit.
        let (mut seen, absorbed) = std::thread::scope(|threads| {
            let vcpus: Vec<_> = (0..VCPUS)
                .map(|vcpu| {
                    let mut reader = io.reader();
                    threads.spawn(move || {
                        let write = |number: &u64| {
                            let data = (vcpu << 32 | number).to_le_bytes();
                            let outcome = match number % 2 {
                                0 => reader.mmio_write(0x1000 + 8 * vcpu, &data),
                                _ => reader.pio_write(0x80, &data),
                            };
                            assert!(matches!(outcome, BusWrite::Coalesced | BusWrite::Unhandled { ring_full: true }));
                            if outcome != BusWrite::Coalesced {
                                std::thread::yield_now();
                            }
                            outcome == BusWrite::Coalesced
                        };
                        (0..EACH).filter(write).collect::<Vec<_>>()
                    })
                })
                .collect();
            let mut seen = vec![Vec::new(); usize::try_from(VCPUS).unwrap()];
            while !vcpus.iter().all(|vcpu| vcpu.is_finished()) {
                drain(&io, &mut seen);
            }
            (seen, vcpus.into_iter().map(|vcpu| vcpu.join().unwrap()).collect::<Vec<_>>())
        });
        drain(&io, &mut seen);
        if room == CoalescedRoom::Fixed {
            assert_eq!(seen, absorbed);
        }
        assert!(absorbed.iter().all(|numbers| !numbers.is_empty()));
        // Legacy can lose a ring's worth (see above), but invents and reorders nothing.
        for numbers in &seen {
            assert!(numbers.is_sorted_by(|a, b| a < b));
        }
    }
}

fn drain(io: &IoSpace, seen: &mut [Vec<u64>]) {
    let drained = io.ring().drain(|entry| {
        let value = u64::from_le_bytes(entry.data().try_into().unwrap());
        let (vcpu, number) = (value >> 32, value & 0xffff_ffff);
        let expected = if number % 2 == 0 { (0x1000 + 8 * vcpu, 0) } else { (0x80, 1) };
        assert_eq!((entry.addr, entry.pio), expected);
        seen[usize::try_from(vcpu).unwrap()].push(number);
    });
    if drained.unwrap() == 0 {
        std::thread::yield_now();
    }
}

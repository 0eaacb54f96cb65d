//! A coalesced ring whose other side writes anything: every write is in the ring once, whole, or is refused and leaves the
//! page alone; a drain gives what waits or an error.

#![no_main]

use hvmmio::addr::CoalescedRoom;
use hvmmio::io::{Entry, HostPage, Ring, RingError};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
enum Page {
    Kib4,
    Kib16,
    Kib64,
}

#[derive(Debug, Arbitrary)]
enum Step {
    First(u32),
    Last(u32),
    /// Indices inside the ring, which a fuzzer would not often draw.
    Inside(u16, u16),
    Word(u16, u64),
    Push {
        addr: u64,
        pio: u32,
        data: [u8; 12],
        len: u8,
    },
    Drain,
    /// The consumer takes one entry by moving `first`, as it may on its side of the page.
    TakeOne,
}

#[derive(Debug, Arbitrary)]
struct Input {
    page: Page,
    legacy: bool,
    steps: Vec<Step>,
}

fuzz_target!(|input: Input| {
    let page = match input.page {
        Page::Kib4 => HostPage::Kib4,
        Page::Kib16 => HostPage::Kib16,
        Page::Kib64 => HostPage::Kib64,
    };
    let room = if input.legacy { CoalescedRoom::Legacy } else { CoalescedRoom::Fixed };
    let ring = Ring::new(page, room);
    for step in input.steps {
        perform(&ring, step);
    }
});

fn perform(ring: &Ring, step: Step) {
    let slots = ring.slots();
    match step {
        Step::First(value) => ring.write_first(value),
        Step::Last(value) => ring.write_last(value),
        Step::Inside(first, last) => {
            ring.write_first(u32::from(first) % slots);
            ring.write_last(u32::from(last) % slots);
        }
        Step::Word(word, value) => ring.write_word(usize::from(word), value),
        Step::Push { addr, pio, data, len } => push(ring, addr, pio, &data[..usize::from(len) % 13]),
        Step::Drain => drain(ring),
        Step::TakeOne => {
            if ring.waiting().is_ok_and(|waiting| !waiting.is_empty()) {
                ring.write_first((ring.first() + 1) % slots);
            }
        }
    }
}

fn push(ring: &Ring, addr: u64, pio: u32, data: &[u8]) {
    let (first, last, slots) = (ring.first(), ring.last(), ring.slots());
    let waiting = ring.waiting();
    if ring.push(addr, pio, data).is_err() {
        assert_eq!((ring.first(), ring.last(), ring.waiting()), (first, last, waiting));
        return;
    }
    assert!(last < slots && data.len() <= 8);
    assert_eq!((ring.first(), ring.last()), (first, (last + 1) % slots));
    let Ok(mut expected) = waiting else { return };
    // The one state in which the legacy rule takes a full ring for one with room, and makes it look empty.
    if expected.len() + 1 == slots as usize {
        assert_eq!((ring.room(), first, last), (CoalescedRoom::Legacy, 0, slots - 1));
        return assert_eq!(ring.waiting(), Ok(Vec::new()));
    }
    let after = ring.waiting().unwrap();
    let stored: &Entry = after.last().unwrap();
    assert_eq!((stored.addr, stored.pio, stored.data()), (addr, pio, data));
    expected.push(*stored);
    assert_eq!(after, expected);
}

fn drain(ring: &Ring) {
    let (waiting, last) = (ring.waiting(), ring.last());
    let mut seen = Vec::new();
    let drained = ring.drain(|entry| seen.push(entry));
    match waiting {
        Ok(waiting) => {
            assert_eq!(drained, Ok(u32::try_from(waiting.len()).unwrap()));
            assert_eq!((seen, ring.first()), (waiting, last));
        }
        Err(wrong @ RingError::Index { .. }) => assert_eq!((drained, seen.len()), (Err(wrong), 0)),
        Err(wrong @ RingError::Length { slot, .. }) => assert_eq!((drained, ring.first()), (Err(wrong), slot)),
    }
}

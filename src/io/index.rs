//! What the bus search finds for the accesses that ioeventfds wait for, remembered.
//!
//! A binary search over a thousand doorbells mispredicts most of its ten branches. Nearly every write to a
//! doorbell has exactly the address and length of an ioeventfd, so for these the search is done once and its
//! answer kept. The answer is the search's own: which device is found does not change.

use super::EventfdId;
use super::bus::{Bus, BusRange, Device};

/// An open-addressed table from an ioeventfd's own range to the device that the search finds first for it.
#[derive(Debug)]
pub(super) struct ExactIndex {
    slots: Box<[Option<Slot>]>,
    shift: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    range: BusRange,
    first: First,
}

/// Who is asked first.
#[derive(Clone, Copy, Debug)]
pub(super) struct First {
    /// The device's place in the array.
    pub(super) at: usize,
    /// What it signals, if it is an ioeventfd of exactly this range.
    pub(super) signals: Option<EventfdId>,
    /// The data that it then waits for, if not any.
    pub(super) datamatch: Option<u64>,
}

impl First {
    fn new(bus: &Bus, at: usize, range: BusRange) -> Self {
        match bus.devices().get(at) {
            Some(Device::Ioeventfd(fd)) if BusRange::new(fd.addr, fd.len) == range => {
                Self { at, signals: Some(fd.fd), datamatch: fd.datamatch }
            }
            _ => Self { at, signals: None, datamatch: None },
        }
    }
}

impl ExactIndex {
    #[cold]
    pub(super) fn new(bus: &Bus) -> Self {
        // At most half full, so that probes are short and always meet an empty slot.
        let size = (2 * bus.devices().len()).next_power_of_two().max(2);
        let mut index = Self { slots: vec![None; size].into(), shift: 64 - size.trailing_zeros() };
        for device in bus.devices() {
            let Device::Ioeventfd(fd) = device else { continue };
            let range = BusRange::new(fd.addr, fd.len);
            if let (None, Some(first)) = (index.get(range), bus.search(range)) {
                let at = index.probe(range);
                index.slots[at] = Some(Slot { range, first: First::new(bus, first, range) });
            }
        }
        index
    }

    #[inline]
    pub(super) fn get(&self, access: BusRange) -> Option<&First> {
        self.slots[self.probe(access)].as_ref().map(|slot| &slot.first)
    }

    /// The slot that holds `range`, or the empty one where it would go.
    #[inline]
    fn probe(&self, range: BusRange) -> usize {
        // Fibonacci hashing: doorbells differ in a few middle bits, the product's top bits in all of them.
        let hash = (range.addr ^ range.len << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift;
        let mut at = crate::addr::index(hash);
        while self.slots[at].is_some_and(|slot| slot.range != range) {
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }
}

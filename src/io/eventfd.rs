//! The counter behind an ioeventfd (`fs/eventfd.c`).
//!
//! A locked increment costs as much as a cache search and both bus look-ups together. So each vCPU counts in a cell of its
//! own, by a plain load and store, and whoever reads the counter adds the cells up.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Identity of an [`Eventfd`] within its VM, in order of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventfdId(pub u32);

impl fmt::Display for EventfdId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "eventfd {}", self.0)
    }
}

/// Readers of an I/O space that have a cell of their own in each eventfd: with the two other words, a cache line.
const SEATS: usize = 6;

/// The right to count in one cell of every eventfd of a VM. Not `Clone`: nobody else may have the same.
#[derive(Debug)]
pub(super) struct Seat(usize);

impl Seat {
    /// The seat of the `number`th reader that the VM hands out. Those that come late share one cell, which is counted
    /// up by a locked increment.
    pub(super) const fn new(number: usize) -> Self {
        Self(number)
    }
}

/// A counter that a guest write increments and a device worker takes (`struct eventfd_ctx`).
///
/// The counter says how often it was signalled since it was last taken, nothing about the data written.
#[derive(Debug)]
#[repr(align(64))]
pub struct Eventfd {
    /// Written by one reader each.
    own: [AtomicU64; SEATS],
    /// Written by everyone else.
    shared: AtomicU64,
    /// Signals taken so far: the counter is all the others less this.
    taken: AtomicU64,
    id: EventfdId,
}

impl Eventfd {
    pub(super) fn new(id: EventfdId, count: u64) -> Self {
        Self { own: Default::default(), shared: AtomicU64::new(count), taken: AtomicU64::new(0), id }
    }

    /// Which eventfd this is.
    #[must_use]
    pub const fn id(&self) -> EventfdId {
        self.id
    }

    /// Adds one (`eventfd_signal`). Whoever takes the count sees what the signaller wrote before.
    #[inline]
    pub fn signal(&self) {
        self.shared.fetch_add(1, Ordering::Release);
    }

    /// The same for the reader that sits at `seat`.
    #[inline]
    pub(super) fn signal_from(&self, seat: &mut Seat) {
        match self.own.get(seat.0) {
            // Nobody else writes this cell, so nothing can come between the load and the store.
            Some(own) => own.store(own.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release),
            None => self.signal(),
        }
    }

    /// Signals since it was made.
    fn signalled(&self) -> u64 {
        let own = self.own.iter().map(|cell| cell.load(Ordering::Acquire));
        own.fold(self.shared.load(Ordering::Acquire), u64::wrapping_add)
    }

    /// Signals since the last [`Self::take`].
    #[must_use]
    pub fn count(&self) -> u64 {
        // What was taken first: it never overtakes what is signalled.
        let taken = self.taken.load(Ordering::Acquire);
        self.signalled().wrapping_sub(taken)
    }

    /// Reads the count and sets it to 0, as reading an eventfd does. No signal is taken twice, and none is lost.
    #[must_use]
    pub fn take(&self) -> u64 {
        let mut taken = self.taken.load(Ordering::Acquire);
        loop {
            let all = self.signalled();
            match self.taken.compare_exchange(taken, all, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return all.wrapping_sub(taken),
                Err(now) => taken = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taking_an_eventfd_leaves_it_at_zero() {
        let fd = Eventfd::new(EventfdId(7), 0);
        fd.signal();
        fd.signal();
        assert_eq!((fd.take(), fd.count(), fd.id()), (2, 0, EventfdId(7)));
    }

    #[test]
    fn the_counter_is_the_sum_over_all_who_signal_it() {
        let fd = Eventfd::new(EventfdId(0), 5);
        let mut seats: Vec<_> = (0..SEATS + 3).map(Seat::new).collect();
        for seat in &mut seats {
            fd.signal_from(seat);
        }
        assert_eq!(fd.count(), 5 + SEATS as u64 + 3);
        assert_eq!((fd.take(), fd.take()), (5 + SEATS as u64 + 3, 0));
    }

    #[test]
    fn signals_from_many_threads_are_taken_once_each() {
        const EACH: u64 = 20_000;
        let fd = Eventfd::new(EventfdId(0), 0);
        let threads = SEATS + 2;
        let taken: u64 = std::thread::scope(|scope| {
            let signallers: Vec<_> = (0..threads)
                .map(|number| {
                    let fd = &fd;
                    scope.spawn(move || {
                        let mut seat = Seat::new(number);
                        (0..EACH).for_each(|_| fd.signal_from(&mut seat));
                    })
                })
                .collect();
            let takers: Vec<_> = (0..2).map(|_| scope.spawn(|| (0..1000).map(|_| fd.take()).sum::<u64>())).collect();
            signallers.into_iter().for_each(|thread| thread.join().unwrap());
            takers.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(taken + fd.take(), EACH * threads as u64);
    }
}

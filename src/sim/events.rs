//! What is to happen, in the order of virtual time; at one time, in the order it was scheduled.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::machine::SimTime;

/// One event: its time, its place among those of that time, what it is.
#[derive(Clone, Copy, Debug)]
struct Scheduled<E> {
    at: SimTime,
    sequence: u64,
    event: E,
}

impl<E> PartialEq for Scheduled<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Scheduled<E> {}

impl<E> PartialOrd for Scheduled<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Scheduled<E> {
    /// The earlier is the greater: [`BinaryHeap`] gives the greatest first.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

/// Pending events. The earliest stands outside the heap: with one request in flight the heap stays empty.
#[derive(Debug)]
pub(super) struct Events<E> {
    /// Earlier than all of `rest`, or scheduled before those of its time.
    first: Option<Scheduled<E>>,
    rest: BinaryHeap<Scheduled<E>>,
    sequence: u64,
}

impl<E: Copy> Default for Events<E> {
    fn default() -> Self {
        Self { first: None, rest: BinaryHeap::new(), sequence: 0 }
    }
}

impl<E: Copy> Events<E> {
    #[inline(always)]
    pub fn push(&mut self, at: SimTime, event: E) {
        self.sequence += 1;
        let new = Scheduled { at, sequence: self.sequence, event };
        if self.is_empty() {
            self.first = Some(new);
        } else {
            self.push_among(new);
        }
    }

    #[inline(never)]
    fn push_among(&mut self, new: Scheduled<E>) {
        // At equal times the one that is there already goes first.
        if self.earliest().is_none_or(|earliest| new.at < earliest) {
            if let Some(second) = self.first.replace(new) {
                self.rest.push(second);
            }
        } else {
            self.rest.push(new);
        }
    }

    #[inline]
    pub fn pop(&mut self) -> Option<(SimTime, E)> {
        let next = self.first.take().or_else(|| self.rest.pop())?;
        Some((next.at, next.event))
    }

    /// When the next event is.
    #[inline]
    pub fn earliest(&self) -> Option<SimTime> {
        self.first.as_ref().or_else(|| self.rest.peek()).map(|next| next.at)
    }

    pub fn is_empty(&self) -> bool {
        self.first.is_none() && self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_at_one_time_as_they_were_scheduled() {
        let mut events = Events::default();
        let times = [5, 3, 3, 9, 1, 3, 5, 1];
        for (i, time) in times.into_iter().enumerate() {
            events.push(SimTime(time), i);
            if i == 3 {
                assert_eq!(events.pop(), Some((SimTime(3), 1)));
            }
        }
        let order: Vec<_> = std::iter::from_fn(|| events.pop()).map(|(_, event)| event).collect();
        assert_eq!(order, [4, 7, 2, 5, 0, 6, 3]);
        assert!(events.is_empty() && events.earliest().is_none());
    }
}

//! What is to happen, in the order of virtual time; at one time, in the order it was scheduled.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::machine::SimTime;

/// One event: its time, its place among those of that time, what it is.
#[derive(Clone, Copy, Debug)]
struct Scheduled<E> {
    at: SimTime,
    sequence: i64,
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
    first: Option<(SimTime, E)>,
    rest: BinaryHeap<Scheduled<E>>,
    /// Counts the events that went into `rest` at once, up from 0.
    behind: i64,
    /// Counts those that were first for a while, down from 0: they go before all others of their time, and the one
    /// that was first last goes before all.
    ahead: i64,
}

impl<E: Copy> Default for Events<E> {
    fn default() -> Self {
        Self { first: None, rest: BinaryHeap::new(), behind: 0, ahead: 0 }
    }
}

impl<E: Copy> Events<E> {
    #[inline(always)]
    pub fn push(&mut self, at: SimTime, event: E) {
        if self.is_empty() {
            self.first = Some((at, event));
        } else {
            self.push_among(at, event);
        }
    }

    #[inline(never)]
    fn push_among(&mut self, at: SimTime, event: E) {
        // At equal times the one that is there already goes first.
        if self.earliest().is_some_and(|earliest| at >= earliest) {
            self.behind += 1;
            self.rest.push(Scheduled { at, sequence: self.behind, event });
        } else if let Some((at, event)) = self.first.replace((at, event)) {
            self.ahead -= 1;
            self.rest.push(Scheduled { at, sequence: self.ahead, event });
        }
    }

    #[inline]
    pub fn pop(&mut self) -> Option<(SimTime, E)> {
        match self.first.take() {
            Some(first) => Some(first),
            None => self.rest.pop().map(|next| (next.at, next.event)),
        }
    }

    /// When the next event is.
    #[inline]
    pub fn earliest(&self) -> Option<SimTime> {
        match &self.first {
            Some((at, _)) => Some(*at),
            None => self.rest.peek().map(|next| next.at),
        }
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

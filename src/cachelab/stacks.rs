//! All sizes at once, in one pass: LRU and the optimum.
//!
//! Both are stack policies: what a cache of n entries holds, one of n + 1 holds too. So each access has one number, the
//! smallest size that hits.
//!
//! **LRU** (Mattson 1970): the times of last use, newest first, are the stack. A key last used at t is found by every
//! cache larger than the number of times above t.
//!
//! **The optimum** needs no look into the future to be *counted*. A key used at s and again at t hits if some slot can
//! keep it from s to t. Slots keep keys as machines do jobs: the kept stretches (s, t) are jobs with equal worth, a
//! miss passes through a slot for a moment, and the most jobs get done if, as each job ends, it is taken whenever a
//! machine is free since s, on the machine that became free last. A cache of n is then n times "free since", the
//! largest always the last access. These sets are nested in n, so one list holds them all: the first n of `free` are
//! the slots of a cache of n, and what a slot of the smaller cache gave up is what moves on to the larger.

use super::Tag;
use super::simulator::Design;
use crate::addr::index;

/// By size: how many accesses hit in a cache of that size but in none smaller. Index 0 is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Depths {
    first_hit_at: Vec<u64>,
}

impl Depths {
    fn new(most: usize) -> Self {
        Self { first_hit_at: vec![0; most + 1] }
    }

    /// Hits of a cache of `entries`.
    #[must_use]
    pub fn hits(&self, entries: usize) -> u64 {
        self.first_hit_at.iter().take(entries + 1).sum()
    }
}

/// When each key was used last.
#[derive(Debug, Default)]
struct LastUse {
    /// By number: generation and time; time 0 is never.
    by_number: Vec<(u32, u64)>,
}

impl LastUse {
    /// The last use, 0 for none in this generation; `now` becomes it.
    #[inline]
    fn replace(&mut self, tag: Tag, now: u64) -> u64 {
        let number = index(u64::from(tag.number()));
        if number >= self.by_number.len() {
            self.by_number.resize((number + 1).next_power_of_two(), (0, 0));
        }
        let (generation, last) = std::mem::replace(&mut self.by_number[number], (tag.generation(), now));
        if generation == tag.generation() { last } else { 0 }
    }
}

/// LRU's stack, times newest first.
#[derive(Debug)]
struct Lru {
    times: Vec<u64>,
    most: usize,
}

impl Lru {
    /// The smallest size that hits, 0 for none up to `most`.
    #[inline]
    fn access(&mut self, last: u64, now: u64) -> usize {
        let full = self.times.len() == self.most;
        let found = if last == 0 || full && last < self.times[self.most - 1] {
            None
        } else if self.most <= LINEAR {
            self.times.iter().position(|time| *time == last)
        } else {
            self.times.binary_search_by(|time| last.cmp(time)).ok()
        };
        let end = match found {
            Some(at) => at,
            None if full => self.most - 1,
            None => {
                self.times.push(0);
                self.times.len() - 1
            }
        };
        self.times.copy_within(..end, 1);
        self.times[0] = now;
        found.map_or(0, |at| at + 1)
    }
}

/// Up to this depth comparing in order is quicker than halving.
const LINEAR: usize = 64;

/// The optimum's slots: since when each is free.
#[derive(Debug)]
struct Optimum {
    free: Vec<u64>,
    most: usize,
}

impl Optimum {
    fn new(most: usize) -> Self {
        // Free since before the first access.
        Self { free: vec![0; most], most }
    }

    /// The smallest size that hits, 0 for none up to `most`.
    #[inline]
    fn access(&mut self, last: u64, now: u64) -> usize {
        let mut given_up = std::mem::replace(&mut self.free[0], now);
        if last == 0 {
            return 0;
        }
        let mut first_hit = if given_up <= last { 1 } else { 0 };
        let mut at = 1;
        if first_hit == 0 {
            // Sizes that miss keep their slots: the first that was free at the last use is the first that hits.
            let Some(free) = self.free[1..].iter().position(|free| *free <= last) else { return 0 };
            at = free + 1;
            first_hit = at + 1;
            std::mem::swap(&mut given_up, &mut self.free[at]);
            at += 1;
        }
        // Larger caches took the slot freed last; what the smaller gave up they hold instead.
        for free in &mut self.free[at..self.most] {
            let swap = given_up < *free && *free <= last;
            let held = *free;
            *free = if swap { given_up } else { held };
            given_up = if swap { held } else { given_up };
        }
        first_hit
    }
}

/// LRU and the optimum at every size up to a greatest.
#[derive(Debug)]
pub struct Stacks {
    last: LastUse,
    lru: Option<(Lru, Depths)>,
    optimum: Option<(Optimum, Depths)>,
    now: u64,
}

impl Stacks {
    /// Sizes 1 to `most` (at least 1) of what is wanted.
    #[must_use]
    pub fn new(most: usize, lru: bool, optimum: bool) -> Self {
        let most = most.max(1);
        Self {
            last: LastUse::default(),
            lru: lru.then(|| (Lru { times: Vec::with_capacity(most), most }, Depths::new(most))),
            optimum: optimum.then(|| (Optimum::new(most), Depths::new(most))),
            now: 0,
        }
    }

    /// Runs tags.
    pub fn run(&mut self, tags: &[Tag]) {
        for tag in tags {
            self.now += 1;
            let last = self.last.replace(*tag, self.now);
            if let Some((lru, depths)) = &mut self.lru {
                let size = lru.access(last, self.now);
                depths.first_hit_at[size] += u64::from(size > 0);
            }
            if let Some((optimum, depths)) = &mut self.optimum {
                let size = optimum.access(last, self.now);
                depths.first_hit_at[size] += u64::from(size > 0);
            }
        }
    }

    /// LRU's hits, if it was wanted.
    #[must_use]
    pub fn lru(&self) -> Option<&Depths> {
        self.lru.as_ref().map(|(_, depths)| depths)
    }

    /// The optimum's hits, if it was wanted.
    #[must_use]
    pub fn optimum(&self) -> Option<&Depths> {
        self.optimum.as_ref().map(|(_, depths)| depths)
    }
}

/// The optimum at one size. Takes [`Tag`]s.
pub(super) struct OptimumOfOne {
    last: LastUse,
    optimum: Optimum,
    now: u64,
}

impl OptimumOfOne {
    pub(super) fn new(entries: usize) -> Self {
        Self { last: LastUse::default(), optimum: Optimum::new(entries), now: 0 }
    }
}

impl Design for OptimumOfOne {
    #[inline]
    fn access(&mut self, key: u64) -> bool {
        self.now += 1;
        let last = self.last.replace(Tag(key), self.now);
        self.optimum.access(last, self.now) > 0
    }
}

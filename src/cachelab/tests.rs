//! Against slow obvious models, exactly.

use proptest::prelude::*;

use super::*;
use crate::addr::{EffectiveAddr, EmptyEntry};
use crate::kvm_hv::cache::{CacheEntry, page_mask};
use crate::kvm_hv::{CacheDesign, MmioCache, PolicyKind};

/// Belady by the book: on a miss with a full cache, evict what is used again last or never.
fn belady(keys: &[u64], entries: usize) -> Vec<bool> {
    let mut held: Vec<u64> = Vec::new();
    let next = |key: u64, from: usize| keys[from..].iter().position(|other| *other == key).unwrap_or(usize::MAX);
    let access = |(now, key): (usize, &u64)| {
        if held.contains(key) {
            return true;
        }
        if held.len() == entries {
            let victim = (0..entries).max_by_key(|at| next(held[*at], now)).unwrap();
            held.remove(victim);
        }
        held.push(*key);
        false
    };
    keys.iter().enumerate().map(access).collect()
}

/// FIFO and LRU by the book: a queue, newest at the end.
fn queue(keys: &[u64], entries: usize, renew: bool) -> Vec<bool> {
    let mut held: Vec<u64> = Vec::new();
    let access = |key: &u64| {
        let found = held.iter().position(|other| other == key);
        if let Some(at) = found {
            if renew {
                let key = held.remove(at);
                held.push(key);
            }
            return true;
        }
        if held.len() == entries {
            held.remove(0);
        }
        held.push(*key);
        false
    };
    keys.iter().map(access).collect()
}

/// CLOCK by the book: a queue with marks; a marked head goes to the end.
fn clock(keys: &[u64], entries: usize) -> Vec<bool> {
    let mut held: Vec<(u64, bool)> = Vec::new();
    let access = |key: &u64| {
        if let Some((_, mark)) = held.iter_mut().find(|(other, _)| other == key) {
            *mark = true;
            return true;
        }
        while held.len() == entries {
            let (head, mark) = held.remove(0);
            if mark {
                held.push((head, false));
            }
        }
        held.push((*key, false));
        false
    };
    keys.iter().map(access).collect()
}

/// SIEVE by the book (NSDI 2024, algorithm 1): a list, newest at the end, a hand that moves from old to new.
fn sieve(keys: &[u64], entries: usize) -> Vec<bool> {
    let mut held: Vec<(u64, bool)> = Vec::new();
    let mut hand = 0;
    let access = |key: &u64| {
        if let Some((_, visited)) = held.iter_mut().find(|(other, _)| other == key) {
            *visited = true;
            return true;
        }
        if held.len() == entries {
            if hand >= held.len() {
                hand = 0;
            }
            while std::mem::take(&mut held[hand].1) {
                hand = (hand + 1) % held.len();
            }
            held.remove(hand);
        }
        held.push((*key, false));
        // The newest is where a hand past the end would be: it goes back to the oldest.
        if hand == held.len() - 1 {
            hand = usize::MAX;
        }
        false
    };
    keys.iter().map(access).collect()
}

fn run(policy: LabPolicy, entries: usize, keys: &[u64]) -> Vec<bool> {
    let mut simulator = simulator(policy, entries as u64, 7).unwrap();
    keys.iter().map(|key| simulator.access(*key)).collect()
}

/// The lab's cache design in the emulated path.
fn emulated(policy: PolicyKind, entries: usize, keys: &[u64]) -> Vec<bool> {
    let mut cache = MmioCache::new(CacheDesign::new(entries as u64, policy).unwrap(), EmptyEntry::Invalid, 7);
    let access = |key: &u64| {
        let ea = EffectiveAddr(key << 16);
        let hit = cache.search(ea, 0, 0).is_some();
        if !hit {
            cache.fill(CacheEntry { ea, page_mask: page_mask(0), ..CacheEntry::default() });
        }
        hit
    };
    keys.iter().map(access).collect()
}

fn keys(distinct: u64) -> impl Strategy<Value = Vec<u64>> {
    // Half of them from few keys: reuse at short distances too.
    proptest::collection::vec(prop_oneof![0..distinct, 0..distinct.min(4)], 0..300)
}

fn count(hits: &[bool]) -> u64 {
    hits.iter().filter(|hit| **hit).count() as u64
}

proptest! {
    #[test]
    fn fifo_lru_clock_and_sieve_do_what_the_books_say(keys in keys(24), entries in 1_usize..20) {
        use PolicyKind::{Clock, Lru, RoundRobin, Sieve};
        prop_assert_eq!(run(LabPolicy::Cache(RoundRobin), entries, &keys), queue(&keys, entries, false));
        prop_assert_eq!(run(LabPolicy::Cache(Lru), entries, &keys), queue(&keys, entries, true));
        prop_assert_eq!(run(LabPolicy::Cache(Clock), entries, &keys), clock(&keys, entries));
        prop_assert_eq!(run(LabPolicy::Cache(Sieve), entries, &keys), sieve(&keys, entries));
    }

    #[test]
    fn every_policy_does_what_the_emulated_path_does(keys in keys(100), entries in 1_usize..90) {
        for policy in PolicyKind::ALL {
            prop_assert_eq!(run(LabPolicy::Cache(policy), entries, &keys), emulated(policy, entries, &keys), "{}", policy);
        }
    }

    #[test]
    fn the_optimum_of_every_size_is_beladys_in_one_pass_without_the_future(keys in keys(16)) {
        let tags: Vec<_> = keys.iter().map(|key| Tag(*key)).collect();
        let mut stacks = Stacks::new(18, true, true);
        stacks.run(&tags);
        for entries in 1..=18 {
            prop_assert_eq!(stacks.optimum().unwrap().hits(entries), count(&belady(&keys, entries)), "{}", entries);
            prop_assert_eq!(stacks.lru().unwrap().hits(entries), count(&queue(&keys, entries, true)), "{}", entries);
            prop_assert_eq!(count(&run(LabPolicy::Optimum, entries, &keys)), count(&belady(&keys, entries)));
        }
    }

    #[test]
    fn deep_stacks_count_as_shallow_ones_do(keys in keys(200)) {
        let tags: Vec<_> = keys.iter().map(|key| Tag(*key)).collect();
        let (mut deep, mut shallow) = (Stacks::new(300, true, true), Stacks::new(60, true, true));
        deep.run(&tags);
        shallow.run(&tags);
        for entries in 1..=60 {
            prop_assert_eq!(deep.lru().unwrap().hits(entries), shallow.lru().unwrap().hits(entries));
            prop_assert_eq!(deep.optimum().unwrap().hits(entries), shallow.optimum().unwrap().hits(entries));
        }
        prop_assert_eq!(deep.lru().unwrap().hits(250), count(&queue(&keys, 250, true)));
    }

    #[test]
    fn round_robin_of_all_sizes_is_counted_by_its_misses_alone(
        keys in keys(24),
        generations in proptest::collection::vec(0_u32..3, 300),
    ) {
        let mut generations: Vec<_> = generations;
        generations.sort_unstable();
        let tags: Vec<_> = keys.iter().zip(&generations).map(|(key, at)| Tag::new(u32::try_from(*key).unwrap(), *at)).collect();
        let sizes: Vec<u32> = (1..=20).collect();
        let mut fifo = FifoSizes::new(&sizes);
        // In pieces: nothing may depend on where they end.
        for piece in tags.chunks(7) {
            fifo.run(piece).unwrap();
        }
        let raw: Vec<_> = tags.iter().map(|tag| tag.0).collect();
        for (size, hits) in sizes.iter().zip(fifo.hits()) {
            prop_assert_eq!(hits, count(&queue(&raw, *size as usize, false)), "{}", size);
        }
    }

    #[test]
    fn counting_and_listing_misses_agree_with_single_accesses(keys in keys(24), entries in 1_u64..12) {
        for policy in LabPolicy::ALL {
            let hits = run(policy, usize::try_from(entries).unwrap(), &keys);
            let mut counted = simulator(policy, entries, 7).unwrap();
            let mut listed = simulator(policy, entries, 7).unwrap();
            let (mut total, mut missed) = (0, Vec::new());
            for piece in keys.chunks(11) {
                total += counted.count(piece);
                listed.misses(piece, &mut missed);
            }
            let expected: Vec<_> = keys.iter().zip(&hits).filter(|(_, hit)| !**hit).map(|(key, _)| *key).collect();
            prop_assert_eq!((total, missed), (count(&hits), expected), "{}", policy);
        }
    }
}

#[test]
fn a_size_beyond_1024_is_refused_and_none_always_misses() {
    for policy in LabPolicy::ALL {
        assert!(matches!(simulator(policy, 1025, 0), Err(LabError::Size(_))));
        assert_eq!(run(policy, 0, &[1, 1, 1]), [false; 3]);
        assert_eq!(run(policy, 1024, &[1, 1, 1]), [false, true, true]);
    }
}

//! Each policy against a slow, obvious model, and what the slots promise.

use std::collections::VecDeque;

use super::*;
use crate::addr::Vsid;
use crate::book3s::slb::SegmentSize;
use crate::book3s::{PageSize, SlbEntry};

fn slb_v() -> u64 {
    SlbEntry::new(0, EffectiveAddr(0), SegmentSize::T1, Vsid(0x77), PageSize::K64).vsid
}

fn cache(entries: u64, policy: PolicyKind) -> MmioCache {
    MmioCache::new(CacheDesign::new(entries, policy).unwrap(), EmptyEntry::Invalid, 1)
}

fn entry(page: u64) -> CacheEntry {
    CacheEntry {
        ea: EffectiveAddr(page << 16),
        slb_v: slb_v(),
        page_mask: page_mask(slb_v()),
        generation: 1,
        ..CacheEntry::default()
    }
}

/// Whether page `page` hit; fills on a miss.
fn access(cache: &mut MmioCache, page: u64) -> bool {
    let hit = cache.search(EffectiveAddr(page << 16 | 0x40), slb_v(), 1).is_some();
    if !hit {
        cache.fill(entry(page));
    }
    hit
}

/// The obvious model: pages in eviction order, front first out.
enum Model {
    Fifo(VecDeque<u64>),
    Lru(VecDeque<u64>),
    /// (page, visited) from oldest to newest, and the hand's position.
    Sieve(Vec<(u64, bool)>, Option<usize>),
    /// Ring of (page, referenced), and the hand.
    Clock(Vec<(u64, bool)>, usize),
}

impl Model {
    fn access(&mut self, page: u64, size: usize) -> bool {
        match self {
            Self::Fifo(queue) => {
                let hit = queue.contains(&page);
                if !hit {
                    queue.push_back(page);
                    if queue.len() > size {
                        queue.pop_front();
                    }
                }
                hit
            }
            Self::Lru(queue) => {
                let at = queue.iter().position(|p| *p == page);
                if let Some(at) = at {
                    queue.remove(at);
                } else if queue.len() == size {
                    queue.pop_front();
                }
                queue.push_back(page);
                at.is_some()
            }
            Self::Sieve(list, hand) => {
                if let Some(found) = list.iter_mut().find(|(p, _)| *p == page) {
                    found.1 = true;
                    return true;
                }
                if list.len() == size {
                    let mut at = hand.unwrap_or(0);
                    while list[at].1 {
                        list[at].1 = false;
                        at = (at + 1) % list.len();
                    }
                    list.remove(at);
                    *hand = (at < list.len()).then_some(at);
                }
                list.push((page, false));
                false
            }
            Self::Clock(ring, hand) => {
                if let Some(found) = ring.iter_mut().find(|(p, _)| *p == page) {
                    found.1 = true;
                    return true;
                }
                if ring.len() < size {
                    ring.push((page, false));
                    return false;
                }
                while std::mem::take(&mut ring[*hand].1) {
                    *hand = (*hand + 1) % size;
                }
                ring[*hand] = (page, false);
                *hand = (*hand + 1) % size;
                false
            }
        }
    }
}

fn agree(policy: PolicyKind, model: fn() -> Model) {
    for entries in [1, 2, 3, 4, 5, 8, 16, 63, 64, 65, 128] {
        let mut cache = cache(entries, policy);
        let mut model = model();
        let mut random = 12345_u64;
        for step in 0..4000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Skewed: the minimum of two draws.
            let pages = entries * 2 + 1;
            let page = ((random >> 33) % pages).min((random >> 13) % pages);
            let size = usize::try_from(entries).unwrap();
            assert_eq!(access(&mut cache, page), model.access(page, size), "{policy} {entries} step {step}");
        }
    }
}

#[test]
fn round_robin_is_first_in_first_out_at_every_size() {
    agree(PolicyKind::RoundRobin, || Model::Fifo(VecDeque::new()));
}

#[test]
fn lru_evicts_the_least_recently_used_at_every_size() {
    agree(PolicyKind::Lru, || Model::Lru(VecDeque::new()));
}

#[test]
fn sieve_keeps_insertion_order_and_its_hand_skips_visited_entries_once() {
    agree(PolicyKind::Sieve, || Model::Sieve(Vec::new(), None));
}

#[test]
fn clock_gives_a_referenced_slot_a_second_chance() {
    agree(PolicyKind::Clock, || Model::Clock(Vec::new(), 0));
}

#[test]
fn random_is_the_same_for_the_same_seed_and_fills_free_slots_first() {
    let run = |seed| {
        let mut cache = MmioCache::new(CacheDesign::new(8, PolicyKind::Random).unwrap(), EmptyEntry::Invalid, seed);
        assert!((0..8).all(|page| !access(&mut cache, page)) && (0..8).all(|page| access(&mut cache, page)));
        (0..500).map(|i| access(&mut cache, i % 13)).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn an_entry_serves_only_its_own_page_segment_and_generation() {
    for policy in PolicyKind::ALL {
        for entries in [4, 16, 64] {
            let mut cache = cache(entries, policy);
            cache.fill(entry(5));
            let ea = EffectiveAddr(5 << 16 | 0xffff);
            assert!(cache.search(ea, slb_v(), 1).is_some());
            assert!(cache.search(EffectiveAddr(6 << 16), slb_v(), 1).is_none());
            assert!(cache.search(ea, slb_v() | 0x800, 1).is_none());
            assert!(cache.search(ea, slb_v(), 2).is_none());
        }
    }
}

#[test]
fn zero_cache_zero_generation() {
    for entries in [4, 16, 64] {
        let design = CacheDesign::new(entries, PolicyKind::RoundRobin).unwrap();
        let mut zeroed = MmioCache::new(design, EmptyEntry::ZeroMatches, 0);
        assert!(zeroed.search(EffectiveAddr(0), 0, 0).is_some(), "H5: EA 0 with slb_v 0 hits falsely");
        assert!(zeroed.search(EffectiveAddr(1), 0, 0).is_none(), "an unfilled entry's page shift is 0");
        let mut fixed = MmioCache::new(design, EmptyEntry::Invalid, 0);
        assert!(fixed.search(EffectiveAddr(0), 0, 0).is_none());
    }
}

#[test]
fn a_cache_that_is_off_never_hits_and_a_size_out_of_range_is_refused_in_words() {
    for policy in PolicyKind::ALL {
        let mut off = cache(0, policy);
        assert!(!access(&mut off, 1) && !access(&mut off, 1));
    }
    for entries in [1025, 1 << 63] {
        let error = CacheDesign::new(entries, PolicyKind::Lru).unwrap_err().to_string();
        assert!(error.contains(&entries.to_string()) && error.contains("0 (off) to 1024"));
    }
}

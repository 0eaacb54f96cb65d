//! Hit rates that libCacheSim gave on 20 M independent draws of a Zipf with alpha 1.0. The draws here are others, and fewer: the standard error
//! of a rate from 3 M draws is 0.03 points.

use hvmmio::cachelab::{FifoSizes, LabPolicy, Stacks, Tag, simulator};
use hvmmio::kvm_hv::PolicyKind::{Clock, Lru, RoundRobin, Sieve};
use hvmmio::trace::synthetic::Zipf;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

const DRAWS: usize = 3_000_000;

fn draws(objects: u32) -> Vec<Tag> {
    let (zipf, mut rng) = (Zipf::new(objects, 1.0), Xoshiro256PlusPlus::seed_from_u64(9));
    (0..DRAWS).map(|_| Tag::new(zipf.draw(rng.next_u64()), 0)).collect()
}

fn percent(hits: u64) -> f64 {
    hits as f64 / DRAWS as f64 * 100.0
}

#[test]
fn fifo_lru_clock_and_sieve_hit_as_often_as_libcachesim_says() {
    let known = [
        (64, 4, [(RoundRobin, 22.61), (Lru, 24.65), (Clock, 25.78), (Sieve, 33.38)]),
        (100_000, 1024, [(RoundRobin, 46.72), (Lru, 50.85), (Clock, 51.99), (Sieve, 60.88)]),
    ];
    for (objects, entries, rates) in known {
        let tags = draws(objects);
        let keys: Vec<_> = tags.iter().map(|tag| tag.0).collect();
        for (policy, rate) in rates {
            let ours = percent(simulator(LabPolicy::Cache(policy), entries, 0).unwrap().count(&keys));
            assert!((ours - rate).abs() < 0.15, "{policy} {entries} of {objects}: {ours:.2} %, libCacheSim {rate} %");
        }
        let size = usize::try_from(entries).unwrap();
        let mut stacks = Stacks::new(size, true, true);
        stacks.run(&tags);
        let lru = percent(stacks.lru().unwrap().hits(size));
        assert!((lru - rates[1].1).abs() < 0.15, "LRU by stack distance, {entries}: {lru:.2} %");
        assert!(percent(stacks.optimum().unwrap().hits(size)) > rates[3].1);
        let mut fifo = FifoSizes::new(&[u32::try_from(entries).unwrap()]);
        fifo.run(&tags).unwrap();
        let fifo = percent(fifo.hits()[0]);
        assert!((fifo - rates[0].1).abs() < 0.15, "round-robin by counters, {entries}: {fifo:.2} %");
    }
}

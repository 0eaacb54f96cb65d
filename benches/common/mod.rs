//! What every bench file has beside its cases: a loop whose time says how fast this machine is right now.

use std::hint::black_box;

use criterion::BenchmarkGroup;
use criterion::measurement::WallTime;

/// 16 dependent loads that hit the L1 data cache: 16 times the load-to-use latency. A case's time divided by
/// this one's can be compared between machines and between a quiet and a busy one.
pub fn reference(group: &mut BenchmarkGroup<WallTime>) {
    // Each element names the next; the step of 7 visits all 16 before it repeats.
    let next: [usize; 16] = std::array::from_fn(|i| (i + 7) % 16);
    group.bench_function("reference: 16 dependent L1 loads", |bencher| {
        // Carried on from one iteration to the next, or the processor would overlap them.
        let mut at = 0;
        bencher.iter(|| {
            let next = black_box(&next);
            for _ in 0..16 {
                at = next[at & 15];
            }
            at
        });
    });
}

//! What every bench file shares: a loop whose time is known from the processor's manual, to set a figure against.

use criterion::BenchmarkGroup;
use criterion::measurement::WallTime;
use std::hint::black_box;

/// Loads in one run of the reference loop.
const LOADS: usize = 16;

/// Times 16 loads that each wait for the one before and all hit the L1 data cache: about 16 times the load-to-use
/// latency (4 or 5 cycles on current x86-64 cores). A figure divided by this one travels between machines better than
/// nanoseconds do.
pub fn reference(group: &mut BenchmarkGroup<'_, WallTime>) {
    // A cycle through 16 words, two cache lines: each word holds the index of the next.
    let mut next = [0_usize; LOADS];
    for (index, word) in next.iter_mut().enumerate() {
        *word = (index + 5) % LOADS;
    }
    let next = black_box(next);
    group.bench_function("reference/16_dependent_l1_loads", |bencher| {
        bencher.iter(|| {
            let mut index = black_box(0);
            for _ in 0..LOADS {
                index = next[index & (LOADS - 1)];
            }
            index
        });
    });
}

//! What every bench file shares: a loop whose time is known from the processor's manual, to set a figure against.

use criterion::BenchmarkGroup;
use criterion::measurement::WallTime;
use std::hint::black_box;

/// Loads in one run of the reference loop.
const LOADS: usize = 16;

/// Times 16 loads that each wait for the one before and all hit the L1 data cache: 16 times the load-to-use latency (4
/// or 5 cycles on current x86-64 cores). A figure divided by this one travels between machines better than nanoseconds
/// do.
pub fn reference(group: &mut BenchmarkGroup<'_, WallTime>) {
    // One cycle through 256 bytes, four cache lines. The index is a byte: no bounds check stands in the chain.
    let next: [u8; 256] = black_box(std::array::from_fn(|index| u8::try_from((index + 77) % 256).unwrap_or(0)));
    // Kept from run to run: runs that each began anew would overlap, and the chain would seem several times as fast.
    let mut index = 0_u8;
    group.bench_function("reference/16_dependent_l1_loads", |bencher| {
        bencher.iter(|| {
            for _ in 0..LOADS {
                index = next[usize::from(index)];
            }
            index
        });
    });
}

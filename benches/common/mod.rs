//! What every bench file measures first: a fixed piece of work that a figure can be divided by.

use std::hint::black_box;

use criterion::BenchmarkGroup;
use criterion::measurement::WallTime;

/// Adds `reference`: 16 loads from the L1 cache, each of which needs the result of the one before.
pub fn reference(group: &mut BenchmarkGroup<'_, WallTime>) {
    // A ring of 64 places that visits one cache line after another.
    let next: Vec<usize> = (0..64).map(|at| (at + 8 + usize::from(at >= 56)) % 64).collect();
    // Carried from one iteration to the next, so that they cannot overlap.
    let mut at = 0;
    group.bench_function("reference", |b| {
        b.iter(|| {
            let next = black_box(next.as_slice());
            at = (0..16).fold(at, |at, _| next[at]);
            at
        });
    });
}

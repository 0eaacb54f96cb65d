//! The MMIO path, piece by piece.

mod common;

use criterion::{Criterion, criterion_group, criterion_main};

fn path(c: &mut Criterion) {
    let mut group = c.benchmark_group("path");
    common::reference(&mut group);
    group.finish();
}

criterion_group!(benches, path);
criterion_main!(benches);

//! Decoder and value helpers: a common store in its three forms, a vector store, a word that is none; the direction
//! bit; a mix of 64 words; the bytes of a store.
//!
//! `cargo bench --bench decode`

#![allow(missing_docs)] // criterion_group! makes an undocumented public function

mod common;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hvmmio::book3s::insn::{Endian, Insn, decode, is_store_by_bit, store_bytes};
use std::hint::black_box;

/// stw 3,16(4); stwx 3,4,5; std 3,16(4); stvx 3,4,5; nop.
const WORDS: [(&str, u32); 5] = [
    ("stw", 0x9064_0010),
    ("stwx", 0x7c64_292e),
    ("std", 0xf864_0010),
    ("stvx", 0x7c64_29ce),
    ("nop_none", 0x6000_0000),
];

/// sthbrx 3,4,5: reversed, so that no step of the value is idle.
const STHBRX: u32 = 0x7c64_2f2c;

fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    common::reference(&mut group);
    for (name, word) in WORDS {
        group.bench_function(name, |bencher| bencher.iter(|| decode(black_box(word))));
    }
    group.bench_function("is_store_by_bit", |bencher| bencher.iter(|| is_store_by_bit(black_box(WORDS[1].1))));

    let Some(Insn::Access(sthbrx)) = decode(STHBRX) else { unreachable!("sthbrx is an integer store") };
    group.bench_function("store_bytes", |bencher| {
        bencher.iter(|| store_bytes(black_box(0x1234_5678), black_box(&sthbrx), Endian::Little));
    });

    let mix: Vec<u32> = WORDS.iter().map(|(_, word)| *word).chain([STHBRX]).cycle().take(64).collect();
    group.throughput(Throughput::Elements(64));
    group.bench_function("mix_of_64", |bencher| {
        bencher.iter(|| black_box(&mix).iter().filter_map(|word| decode(*word)).filter(|i| i.name().len() > 3).count());
    });
    group.finish();
}

criterion_group!(decoder, benches);
criterion_main!(decoder);

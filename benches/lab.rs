//! The cache lab's speed, reading the file included: 20 M independent draws of a Zipf as oracleGeneral (480 MB), warm page cache.
//!
//! `cargo bench --bench lab` prints one line a case: the best and the median of five runs, beside a bare loop over the same file that
//! reads and looks up and does nothing else. Cases: 4-entry round-robin, counts only and with why-missed; 1,024 entries of each
//! policy; twelve designs in one sweep; import of ftrace text. Not criterion: a run takes a tenth of a second and up, and its
//! rate is what is asked for. `LAB_REQUESTS=2000000` makes it shorter.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use hvmmio::cachelab::{KeyDesign, LabPolicy, ReplayConfig, SweepConfig, replay, sweep};
use hvmmio::kvm_hv::PolicyKind;
use hvmmio::machine::Machine;
use hvmmio::trace::Recording;
use hvmmio::trace::oracle_general::{RECORD, write_record};
use hvmmio::trace::synthetic::Zipf;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

const RUNS: usize = 5;

/// A file of draws; kept between runs of the bench.
fn zipf(pages: u32, count: u64) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("zipf-{pages}-{count}.oracleGeneral"));
    if std::fs::metadata(&path).is_ok_and(|meta| meta.len() == count * RECORD as u64) {
        return path;
    }
    let zipf = Zipf::new(pages, 1.0);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(20);
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&path).expect("a file in target/tmp"));
    for _ in 0..count {
        write_record(&mut out, 0, u64::from(zipf.draw(rng.next_u64())), 1, -1).expect("room for the trace");
    }
    out.flush().expect("room for the trace");
    path
}

/// Reads in pieces, compares with four keys, shifts on a miss.
fn bare_loop(path: &Path) -> u64 {
    let mut file = File::open(path).expect("the trace");
    let mut buffer = vec![0; RECORD << 14];
    let (mut held, mut hits) = ([u64::MAX; 4], 0);
    loop {
        let count = file.read(&mut buffer).expect("the trace");
        if count == 0 {
            return hits;
        }
        for record in buffer[..count].chunks_exact(RECORD) {
            let key = u64::from_le_bytes(record[4..12].try_into().expect("8 bytes"));
            if held.contains(&key) {
                hits += 1;
            } else {
                held = [key, held[0], held[1], held[2]];
            }
        }
    }
}

/// Seconds of five runs, sorted.
fn time(mut run: impl FnMut() -> f64) -> ([f64; RUNS], f64) {
    let mut told = 0.0;
    let mut times = [0.0; RUNS];
    for time in &mut times {
        let start = Instant::now();
        told = run();
        *time = start.elapsed().as_secs_f64();
    }
    times.sort_by(f64::total_cmp);
    (times, told)
}

fn line(name: &str, count: f64, unit: &str, (times, told): ([f64; RUNS], f64)) -> f64 {
    let best = count / times[0] / 1e6;
    let median = count / times[RUNS / 2] / 1e6;
    println!("{name:<46} best {best:>8.1}  median {median:>8.1} M {unit}/s   {told:>7.3} %");
    best
}

fn rate(path: &Path, policy: LabPolicy, entries: u64, counts_only: bool) -> f64 {
    let config = ReplayConfig {
        policy,
        entries,
        key: KeyDesign::default(),
        counts_only,
        seed: 1,
        devices: Vec::new(),
        machine: Machine::built_in("power8-2016").expect("a shipped model"),
    };
    let mut recording = Recording::open(path).expect("the trace");
    let run = replay(&mut recording, &config, &AtomicBool::new(false)).expect("a replay");
    run.hit_rate.unwrap_or(0.0) * 100.0
}

fn swept(path: &Path) -> f64 {
    let config = SweepConfig {
        entries: vec![1, 2, 4, 8, 16, 32],
        policies: vec![LabPolicy::Cache(PolicyKind::RoundRobin), LabPolicy::Cache(PolicyKind::Lru)],
        key: KeyDesign::default(),
        seed: 1,
        machine: Machine::built_in("power8-2016").expect("a shipped model"),
    };
    let mut recording = Recording::open(path).expect("the trace");
    let sweep = sweep(&mut recording, &config, &AtomicBool::new(false), &mut |_| {}).expect("a sweep");
    sweep.rows.last().map_or(0.0, |row| row.hit_rate * 100.0)
}

/// A real recording, again and again.
fn text() -> PathBuf {
    let mut text = Vec::new();
    let recording = File::open("tests/data/traces/power9-churn.ftrace.txt.gz").expect("a recording");
    flate2::read::GzDecoder::new(recording).read_to_end(&mut text).expect("a whole recording");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("churn-64.ftrace.txt");
    let mut out = BufWriter::new(File::create(&path).expect("a file in target/tmp"));
    for _ in 0..64 {
        out.write_all(&text).expect("room for the recording");
    }
    out.flush().expect("room for the recording");
    path
}

fn import(path: &Path) -> f64 {
    let mut recording = Recording::open(path).expect("the recording");
    let mut accesses = 0;
    while let Some(item) = recording.next_item().expect("a whole recording") {
        accesses += u64::from(matches!(item, hvmmio::trace::Item::Access(_)));
    }
    accesses as f64
}

fn main() {
    // `cargo test --benches` asks for a list of tests: there are none.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let count = std::env::var("LAB_REQUESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000_000_u64);
    let requests = count as f64;
    let (small, large) = (zipf(64, count), zipf(100_000, count));
    println!("{count} requests; hit rates in percent");
    let bare =
        line("bare loop, 4 keys, Zipf-64", requests, "requests", time(|| bare_loop(&small) as f64 / requests * 100.0));
    let fifo = LabPolicy::Cache(PolicyKind::RoundRobin);
    let ours = line("round-robin 4, Zipf-64, counts only", requests, "requests", time(|| rate(&small, fifo, 4, true)));
    println!("  as a share of the bare loop: {:.2}", ours / bare);
    line("round-robin 4, Zipf-64, why missed", requests, "requests", time(|| rate(&small, fifo, 4, false)));
    for policy in LabPolicy::ALL.into_iter().filter(|policy| *policy != LabPolicy::Optimum) {
        let name = format!("{policy} 4, Zipf-64, counts only");
        line(&name, requests, "requests", time(|| rate(&small, policy, 4, true)));
        let name = format!("{policy} 1,024, Zipf-100k, counts only");
        line(&name, requests, "requests", time(|| rate(&large, policy, 1024, true)));
    }
    for (name, path) in [("Zipf-64", &small), ("Zipf-100k", &large)] {
        let (times, told) = time(|| swept(path));
        println!(
            "12 designs, {name:<34} best {:>8.3}  median {:>8.3} s            {told:>7.3} %",
            times[0],
            times[RUNS / 2]
        );
    }
    let path = text();
    let bytes = std::fs::metadata(&path).map_or(0, |meta| meta.len());
    let (times, accesses) = time(|| import(&path));
    println!(
        "import of ftrace text                          best {:>8.1}  median {:>8.1} MB/s   {accesses} accesses",
        bytes as f64 / times[0] / 1e6,
        bytes as f64 / times[RUNS / 2] / 1e6
    );
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM is not told here"));
}

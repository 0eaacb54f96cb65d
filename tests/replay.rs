//! Replays of real recordings, and the sums that other simulators gave.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use hvmmio::addr::Preset;
use hvmmio::cachelab::{
    DeviceRange, EmulateConfig, KeyDesign, KeyKind, LabPolicy, ReplayConfig, Sweep, SweepConfig, emulate, replay, sweep,
};
use hvmmio::kvm_hv::{CacheDesign, PolicyKind};
use hvmmio::machine::Machine;
use hvmmio::sim::RunResult;
use hvmmio::trace::Recording;
use hvmmio::trace::oracle_general::write_record;

const FIFO: LabPolicy = LabPolicy::Cache(PolicyKind::RoundRobin);

fn real(name: &str) -> PathBuf {
    format!("tests/data/traces/power9-{name}.ftrace.txt.gz").into()
}

fn config(policy: LabPolicy, entries: u64) -> ReplayConfig {
    ReplayConfig {
        policy,
        entries,
        key: KeyDesign::default(),
        counts_only: false,
        seed: 1,
        devices: Vec::new(),
        machine: Machine::built_in("power8-2016").unwrap(),
    }
}

fn run(path: &Path, config: &ReplayConfig) -> RunResult {
    let mut recording = Recording::open(path).unwrap();
    replay(&mut recording, config, &AtomicBool::new(false)).unwrap()
}

fn swept(path: &Path, entries: impl IntoIterator<Item = u64>, key: KeyDesign) -> Sweep {
    let config = SweepConfig {
        entries: entries.into_iter().collect(),
        policies: LabPolicy::ALL.to_vec(),
        key,
        seed: 1,
        machine: Machine::built_in("power8-2016").unwrap(),
    };
    let mut recording = Recording::open(path).unwrap();
    sweep(&mut recording, &config, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

fn class(run: &RunResult, name: &str) -> u64 {
    run.misses.iter().find(|miss| miss.class == name).unwrap().count
}

/// A file of keys, named as oracleGeneral is.
fn oracle_general(keys: impl IntoIterator<Item = u64>) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".oracleGeneral").tempfile().unwrap();
    let mut out = BufWriter::new(file.as_file());
    for key in keys {
        write_record(&mut out, 0, key, 1, -1).unwrap();
    }
    out.flush().unwrap();
    drop(out);
    file
}

#[test]
fn replay_with_four_round_robin_entries_equals_the_kernel_on_every_access() {
    for (name, accesses, hits) in [("hot", 1188, 843), ("cyclic5", 300, 0), ("churn", 1124, 629)] {
        let run = run(&real(name), &config(FIFO, 4));
        let observed = run.recorded.as_ref().unwrap().observed.clone().unwrap();
        assert_eq!((run.accesses, run.hits), (accesses, hits), "{name}");
        assert_eq!((observed.hits, observed.misses), (hits, accesses - hits), "{name}");
        assert_eq!((observed.agreeing, observed.first_disagreement), (accesses, None), "{name}");
    }
}

#[test]
fn another_size_or_key_disagrees_with_the_kernel_and_the_first_difference_is_told() {
    for (entries, kind) in [(3, KeyKind::Kernel), (5, KeyKind::Kernel), (4, KeyKind::Page), (4, KeyKind::PerHpte)] {
        let config = ReplayConfig { key: KeyDesign { kind, ..KeyDesign::default() }, ..config(FIFO, entries) };
        let run = run(&real("churn"), &config);
        let observed = run.recorded.unwrap().observed.unwrap();
        assert!(observed.agreeing < 1124, "{entries} {kind:?}");
        assert!(observed.first_disagreement.is_some());
    }
}

#[test]
fn misses_are_told_apart_by_what_would_have_avoided_them() {
    let churn = run(&real("churn"), &config(FIFO, 4));
    assert_eq!(churn.misses.iter().map(|miss| miss.count).sum::<u64>(), 495);
    assert!(class(&churn, "generation") > 0 && class(&churn, "capacity") > 0 && class(&churn, "cold") == 8);
    let cyclic = run(&real("cyclic5"), &config(FIFO, 4));
    assert_eq!((class(&cyclic, "cold"), class(&cyclic, "capacity")), (5, 295));
    let five = run(&real("cyclic5"), &config(FIFO, 5));
    assert_eq!((five.hits, class(&five, "capacity")), (295, 0));
}

#[test]
fn without_invalidation_churn_hits_at_least_as_often_as_with_it_and_per_hpte_lies_between() {
    let hits = |kind| {
        let key = KeyDesign { kind, ..KeyDesign::default() };
        run(&real("churn"), &ReplayConfig { key, ..config(FIFO, 64) }).hits
    };
    let [kernel, per_hpte, page] = [KeyKind::Kernel, KeyKind::PerHpte, KeyKind::Page].map(hits);
    assert!(kernel < per_hpte && per_hpte < page, "{kernel} {per_hpte} {page}");
}

#[test]
fn sets_by_page_are_caches_of_their_own_and_must_divide_the_entries() {
    let sets = |sets| ReplayConfig { key: KeyDesign { sets, ..KeyDesign::default() }, ..config(FIFO, 8) };
    let whole = run(&real("hot"), &sets(1));
    let split = run(&real("hot"), &sets(8));
    assert_ne!(whole.hits, split.hits);
    let mut recording = Recording::open(&real("hot")).unwrap();
    let error = replay(&mut recording, &sets(3), &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(error.contains("8 entries cannot be spread over 3 sets"), "{error}");
}

#[test]
fn devices_pages_and_time_each_add_up_to_all_accesses() {
    let devices = vec![
        DeviceRange { name: "first".to_owned(), first: 0x1_0000_0000, last: 0x1_0000_0fff },
        DeviceRange { name: "unused".to_owned(), first: 0, last: 0xff },
    ];
    let run = run(&real("churn"), &ReplayConfig { devices, ..config(FIFO, 4) });
    let recorded = run.recorded.unwrap();
    assert_eq!(recorded.distinct_pages, 8);
    assert_eq!(recorded.pages.iter().map(|row| row.accesses).sum::<u64>(), 1124);
    assert_eq!(recorded.pages.iter().map(|row| row.hits).sum::<u64>(), run.hits);
    assert_eq!(recorded.over_time.iter().map(|row| row.accesses).sum::<u64>(), 1124);
    assert_eq!(recorded.devices.iter().map(|row| row.accesses).sum::<u64>(), 1124);
    assert_eq!(
        recorded.devices[0].accesses,
        recorded.pages.iter().find(|row| row.gpa >> 12 == 0x10_0000).unwrap().accesses
    );
    assert_eq!(recorded.devices[1].accesses, 0);
}

#[test]
fn a_sweep_says_of_each_design_what_a_replay_of_it_says() {
    for name in ["hot", "churn", "cyclic5"] {
        let sweep = swept(&real(name), 0..=20, KeyDesign::default());
        assert_eq!(sweep.rows.len(), 6 * 21);
        for row in &sweep.rows {
            let alone = run(&real(name), &config(row.policy, row.entries));
            assert_eq!((row.hits, row.ns_per_access), (alone.hits, alone.ns_per_access), "{name} {row:?}");
        }
    }
}

#[test]
fn a_sweep_of_cyclic5_recommends_five_entries_and_says_what_they_save() {
    let sweep = swept(&real("cyclic5"), 0..=16, KeyDesign::default());
    let advice = sweep.advice.unwrap();
    assert_eq!((advice.policy, advice.entries), (Some("round-robin"), 5));
    assert!(
        advice.sentence.contains("98.33 %") && advice.sentence.contains("over the kernel's cache"),
        "{}",
        advice.sentence
    );
    assert!(advice.saves_over_kernel_ns.unwrap() > 100.0);
}

#[test]
fn keys_of_oracle_general_are_compared_whole_and_read_the_same_both_ways() {
    let keys: Vec<_> = (0..5000_u64).map(|i| (i * i % 97) << 40 | 0xabc).collect();
    let file = oracle_general(keys.iter().copied());
    let told = run(file.path(), &config(FIFO, 4));
    let counted = run(file.path(), &ReplayConfig { counts_only: true, ..config(FIFO, 4) });
    assert_eq!((told.accesses, told.hits), (5000, counted.hits));
    assert_eq!(told.misses.iter().map(|miss| miss.count).sum::<u64>(), 5000 - told.hits);
    assert_eq!(class(&told, "cold"), keys.iter().collect::<std::collections::HashSet<_>>().len() as u64);
    // The optimum and sets go item by item.
    let items = run(
        file.path(),
        &ReplayConfig { key: KeyDesign { sets: 1, kind: KeyKind::Page, shared: true }, ..config(FIFO, 4) },
    );
    assert_eq!(items.hits, told.hits);
    assert!(run(file.path(), &config(LabPolicy::Optimum, 4)).hits >= told.hits);
}

#[test]
fn a_file_that_ends_within_a_record_or_holds_none_is_refused_with_the_offset() {
    let file = oracle_general(0..10);
    file.as_file().set_len(24 * 9 + 5).unwrap();
    let error = |path: &Path| {
        let mut recording = Recording::open(path).unwrap();
        replay(&mut recording, &config(FIFO, 4), &AtomicBool::new(false)).unwrap_err().to_string()
    };
    assert!(error(file.path()).contains("byte 216: ends within a record: 5 of 24"), "{}", error(file.path()));
    file.as_file().set_len(0).unwrap();
    assert!(error(file.path()).contains("empty"));
    let file = tempfile::Builder::new().suffix(".oracleGeneral").tempfile().unwrap();
    std::fs::write(file.path(), [0xfe; 48]).unwrap();
    assert!(error(file.path()).contains("byte 0: next_access_vtime"), "{}", error(file.path()));
}

#[test]
fn an_interrupted_sweep_keeps_every_design_on_the_same_beginning() {
    let file = oracle_general((0..200_000).map(|i| i % 7));
    let config = SweepConfig {
        entries: vec![4, 8],
        policies: LabPolicy::ALL.to_vec(),
        key: KeyDesign::default(),
        seed: 1,
        machine: Machine::built_in("power8-2016").unwrap(),
    };
    let mut recording = Recording::open(file.path()).unwrap();
    let sweep = sweep(&mut recording, &config, &AtomicBool::new(true), &mut |_| {}).unwrap();
    assert!(sweep.interrupted && sweep.accesses > 0 && sweep.accesses < 200_000);
    assert!(sweep.rows.iter().filter(|row| row.entries == 8).all(|row| row.hits == sweep.accesses - 7));
    assert!(sweep.notes.iter().any(|note| note.starts_with("interrupted after")));
}

#[test]
fn misses_only_give_no_hit_rate() {
    use std::io::Read as _;
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(real("hot")).unwrap()).read_to_string(&mut text).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let without: String =
        text.lines().filter(|line| !line.contains("hv_mmio")).map(|line| format!("{line}\n")).collect();
    std::fs::write(file.path(), without).unwrap();
    let run = run(file.path(), &config(FIFO, 4));
    assert_eq!((run.accesses, run.hit_rate), (345, None));
    assert!(run.notes[0].contains("hits are invisible"));
    assert!(swept(file.path(), [4], KeyDesign::default()).advice.is_none());
}

#[test]
fn a_recording_through_the_whole_emulated_path_equals_the_kernel_and_the_cache_alone() {
    for name in ["hot", "cyclic5", "churn"] {
        let config = EmulateConfig {
            cache: CacheDesign::KERNEL,
            preset: Preset::default(),
            behaviour: Preset::default().behaviour(),
            seed: 1,
            machine: Machine::built_in("power8-2016").unwrap(),
        };
        let mut recording = Recording::open(&real(name)).unwrap();
        let whole = emulate(&mut recording, &config, &AtomicBool::new(false)).unwrap();
        let alone = run(&real(name), &self::config(FIFO, 4));
        let observed = whole.recorded.as_ref().unwrap().observed.clone().unwrap();
        assert_eq!((observed.agreeing, observed.first_disagreement), (whole.accesses, None), "{name}");
        assert_eq!((whole.hits, &whole.misses), (alone.hits, &alone.misses), "{name}");
        assert_eq!(whole.outcomes.exits, whole.accesses);
        // The cache alone prices each access as a store; only stores ask the fast bus.
        let others = |run: &RunResult| {
            let other = run.stages.iter().filter(|row| row.stage != "fast-bus");
            other.map(|row| (row.stage, row.count)).collect::<Vec<_>>()
        };
        assert_eq!(others(&whole), others(&alone), "{name}");
    }
}

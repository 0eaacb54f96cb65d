//! Hazards as steps: what each leads to, beside its control, and the switch that mends it.

use hvmmio::addr::KernelBehaviour;
use hvmmio::proof::compare_steps::{Hazard, Seen, Watched, hazards, sequence_steps, watch, watch_simulated};
use hvmmio::sim::{SimSteps, StepsConfig};
use hvmmio::workload::sequence::Sequence;

fn with(switch: &str) -> StepsConfig {
    let mut behaviour = KernelBehaviour::default();
    behaviour.set(switch).unwrap();
    StepsConfig { behaviour, ..StepsConfig::default() }
}

fn hazard(id: &str) -> Hazard {
    hazards().unwrap().into_iter().find(|hazard| hazard.id == id).unwrap()
}

fn words(config: &StepsConfig, watched: &Watched) -> Vec<&'static str> {
    watch_simulated(config, watched).unwrap().rows.iter().map(|row| row.simulated).collect()
}

const KERNEL: fn() -> StepsConfig = StepsConfig::default;

/// The hazard is there, and gone with the switch; the control is the same with and without it.
fn mended_by(id: &str, switch: &str, there: &[&str], mended: &[&str]) {
    let Hazard { stream, control, .. } = hazard(id);
    assert_eq!(words(&KERNEL(), &stream), there, "{id}");
    assert_eq!(words(&with(switch), &stream), mended, "{id} with {switch}");
    assert_eq!(words(&KERNEL(), &control), words(&with(switch), &control), "{id}, control");
}

const R: &str = "reflected";

#[test]
fn h0a_an_entry_cached_before_the_new_table_hits_when_the_generation_is_the_same_again() {
    let there = ["miss", "hit", R, R, R, R, "hit", R];
    mended_by("H0a", "generation_on_new_hpt=bumped", &there, &["miss", "hit", R, R, R, R, R, R]);
}

#[test]
fn h0b_an_entry_cached_before_the_table_was_emptied_hits_until_a_bump() {
    mended_by("H0b", "generation_on_new_hpt=bumped", &["miss", "hit", "hit", "hit", R], &["miss", "hit", R, R, R]);
}

#[test]
fn h3_ram_goes_to_the_emulator_after_a_page_out_until_a_bump() {
    let there = ["miss", "hit", "ram", "hit", "hit", "hit", "ram", "ram"];
    let mended = ["miss", "hit", "ram", "ram", "ram", "ram", "ram", "ram"];
    mended_by("H3", "fill_when_memslot_backed=no", &there, &mended);
}

#[test]
fn h3_copy_on_write_sends_ram_to_the_emulator_too() {
    let there = ["miss", "ram", "hit", "hit", "ram", "ram"];
    mended_by("H3, copy on write", "fill_when_memslot_backed=no", &there, &["miss", "ram", "ram", "ram", "ram", "ram"]);
}

#[test]
fn h4_a_protection_fault_on_ram_evicts_a_useful_entry() {
    let Hazard { stream, control, .. } = hazard("H4, eviction");
    assert_eq!(words(&KERNEL(), &stream)[7..], ["hit", "hit", "hit", "miss"]);
    assert_eq!(words(&KERNEL(), &control)[7..], ["hit"; 4]);
    assert_eq!(words(&with("fill_on_protection_fault=no"), &stream)[7..], ["hit"; 4]);
}

#[test]
fn h4_a_valid_doubleword_in_the_cache_is_retried_for_ever() {
    let there = ["ram", "ram", "retries", "retries", "ram", "ram"];
    mended_by("H4, spin", "fill_on_protection_fault=no", &there, &["ram"; 6]);
}

#[test]
fn h6_pages_of_a_deleted_memslot_take_the_slow_form_until_they_are_entered_again() {
    let mut there = vec!["ram"];
    there.extend(["miss"; 6]);
    there.extend(["hit"; 2]);
    let mended = ["ram", "miss", "hit", "hit", "hit", "hit", "miss", "hit", "hit"];
    mended_by("H6", "key_on_memslot_delete=mmio", &there, &mended);
}

#[test]
fn h7_a_load_that_counts_as_a_store_is_retried_for_ever() {
    mended_by("H7", "direction_rule=decoded", &["miss", "retries", "hit"], &["miss", "hit", "hit"]);
}

#[test]
fn h8_a_load_through_a_reserved_pp_value_is_retried_for_ever() {
    mended_by("H8", "reserved_pp=reflect", &["retries", R], &[R, R]);
}

#[test]
fn a_hazard_compared_with_another_kernel_is_different_where_that_kernel_is() {
    let Hazard { stream, control, .. } = hazard("H0b");
    let compared = |watched: &Watched| -> Seen {
        let mut other = SimSteps::new(&with("generation_on_new_hpt=bumped")).unwrap();
        watch(&mut other, &KERNEL(), watched).unwrap()
    };
    let seen = compared(&stream);
    let equal: Vec<_> = seen.rows.iter().map(|row| row.equal.unwrap()).collect();
    assert_eq!((seen.equal(), equal), (Some(false), vec![true, true, false, false, true]));
    assert_eq!(compared(&control).equal(), Some(true));
}

#[test]
fn recorded_sequences_are_as_recorded_when_they_are_steps() {
    for name in ["churn", "cyclic5", "edge", "hot", "uniform16"] {
        let path = format!("{}/tests/data/oracle/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        let watched = sequence_steps(&Sequence::read(path.as_ref()).unwrap()).unwrap();
        let seen = watch_simulated(&KERNEL(), &watched).unwrap();
        let judged = seen.rows.iter().filter(|row| row.expected.is_some()).count();
        assert!(judged >= 300 && seen.as_expected(), "{name}: {judged}");
    }
}

#[test]
fn hazards_written_down_as_sequences_are_as_they_say_when_they_are_steps() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/sequences")).unwrap() {
        let path = entry.unwrap().path();
        let watched = sequence_steps(&Sequence::read(&path).unwrap()).unwrap();
        let seen = watch_simulated(&KERNEL(), &watched).unwrap();
        let wrong: Vec<_> = seen.rows.iter().filter(|row| row.as_expected() == Some(false)).collect();
        assert!(wrong.is_empty(), "{}: {wrong:#?}", path.display());
    }
}

#[test]
fn more_memslots_than_a_stream_has_are_told_by_line() {
    let text: String = (0..40).map(|page| format!("memslot-create m{page}\n")).collect();
    let error = sequence_steps(&Sequence::parse("many.txt", &text).unwrap()).unwrap_err();
    assert!(error.to_string().starts_with("many.txt, line 31: memslots over more than 30"), "{error}");
}

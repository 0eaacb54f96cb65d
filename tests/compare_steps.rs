//! Streams of steps, compared: the simulator with itself, and with one that is not the same.

use std::collections::BTreeMap;

use hvmmio::addr::KernelBehaviour;
use hvmmio::kvm_hv::memslot::DirtyLog;
use hvmmio::kvm_hv::{CacheDesign, PolicyKind};
use hvmmio::proof::compare_steps::{StepCounts, StepStream, StepsCompared, compare_steps};
use hvmmio::sim::{SimSteps, StepsConfig};
use hvmmio::workload::steps::{Answer, End, GuestOp, HcallMode, Lookup, Step, StepExecutor, VmmOp};
use proptest::prelude::*;

fn compared(real: &StepsConfig, stream: &StepStream) -> StepsCompared {
    compare_steps(&mut || SimSteps::new(real), &StepsConfig::default(), stream).unwrap()
}

fn with(switch: &str) -> StepsConfig {
    let mut behaviour = KernelBehaviour::default();
    behaviour.set(switch).unwrap();
    StepsConfig { behaviour, ..StepsConfig::default() }
}

/// Seeds until a difference is found.
fn first_difference(real: &StepsConfig) -> Option<(u64, StepsCompared)> {
    (1..=40).find_map(|seed| {
        let found = compared(real, &StepStream::draw(seed, 400, HcallMode::Virtual).unwrap());
        found.difference.is_some().then_some((seed, found))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_simulator_is_equal_to_itself_over_any_drawn_stream(seed in any::<u64>()) {
        let stream = StepStream::draw(seed, 300, HcallMode::Virtual).unwrap();
        let found = compared(&StepsConfig::default(), &stream);
        prop_assert!(found.counts.accesses >= 300);
        prop_assert!(found.difference.is_none(), "{}", found.difference.unwrap());
    }
}

#[test]
fn a_stream_is_its_seed() {
    assert_eq!(
        StepStream::draw(7, 200, HcallMode::Virtual).unwrap(),
        StepStream::draw(7, 200, HcallMode::Virtual).unwrap()
    );
    assert_ne!(
        StepStream::draw(7, 200, HcallMode::Virtual).unwrap().steps,
        StepStream::draw(8, 200, HcallMode::Virtual).unwrap().steps
    );
}

/// Steps that switch a memslot's dirty log on.
fn dirty_logs(stream: &StepStream) -> usize {
    let on = |step: &&Step| matches!(step, Step::Vmm(VmmOp::SetMemslot { dirty_log: DirtyLog::On, .. }));
    stream.steps.iter().filter(on).count()
}

#[test]
fn streams_for_a_kernel_that_takes_hypercalls_in_real_mode_have_no_dirty_log_and_are_equal_too() {
    let mut logs = 0;
    for seed in 1..=20 {
        let stream = StepStream::draw(seed, 400, HcallMode::Real).unwrap();
        assert_eq!(dirty_logs(&stream), 0, "seed {seed}");
        let found = compared(&StepsConfig::default(), &stream);
        assert!(found.difference.is_none(), "{}", found.difference.unwrap());
        logs += dirty_logs(&StepStream::draw(seed, 400, HcallMode::Virtual).unwrap());
    }
    assert!(logs > 10, "{logs} in the others");
}

#[test]
fn a_kernel_with_another_cache_is_found_out_at_an_access_that_hits_here_and_misses_there() {
    for entries in [0, 3, 5, 8] {
        let cache = CacheDesign::new(entries, PolicyKind::RoundRobin).unwrap();
        let real = StepsConfig { cache, ..StepsConfig::default() };
        let (_, found) = first_difference(&real).unwrap_or_else(|| panic!("{entries} entries are not noticed"));
        let difference = found.difference.unwrap();
        let text = difference.to_string();
        assert!(text.contains(", hit") && text.contains(", miss"), "{text}");
        assert_eq!((difference.cache.len(), difference.what), (4, "the answer"));
        assert!(difference.simulated.entry.is_some() && difference.simulated.entry == difference.real.entry, "{text}");
    }
    let cache = CacheDesign::new(4, PolicyKind::Lru).unwrap();
    assert!(first_difference(&StepsConfig { cache, ..StepsConfig::default() }).is_some(), "LRU is not noticed");
}

#[test]
fn a_kernel_with_another_switch_is_found_out() {
    for switch in [
        "key_on_page_out=kept",
        "generation_on_new_hpt=bumped",
        "fill_when_memslot_backed=no",
        "fill_on_protection_fault=no",
        "key_on_memslot_delete=mmio",
    ] {
        let (seed, found) = first_difference(&with(switch)).unwrap_or_else(|| panic!("{switch} is not noticed"));
        let difference = found.difference.unwrap();
        assert_eq!(difference.stream, format!("seed {seed}"), "{switch}");
        assert!(!difference.before.is_empty(), "{switch}: {difference}");
    }
}

#[test]
fn a_difference_in_the_table_alone_is_found_at_the_end() {
    // An entry that only one side's VMM restores.
    let stream = StepStream::draw(3, 50, HcallMode::Virtual).unwrap();
    struct Forgetful(SimSteps);
    impl StepExecutor for Forgetful {
        type Error = <SimSteps as StepExecutor>::Error;
        fn perform(&mut self, steps: &[Step]) -> Result<Vec<Answer>, Self::Error> {
            self.0.perform(steps)
        }
        fn table(&mut self) -> Result<Vec<(hvmmio::addr::PteIndex, hvmmio::book3s::Hpte)>, Self::Error> {
            let mut table = self.0.table()?;
            table.remove(table.len() / 2);
            Ok(table)
        }
        fn eventfds(&mut self) -> Result<Vec<u64>, Self::Error> {
            self.0.eventfds()
        }
    }
    let config = StepsConfig::default();
    let found = compare_steps(&mut || SimSteps::new(&config).map(Forgetful), &config, &stream).unwrap();
    let difference = found.difference.unwrap();
    assert_eq!((difference.what, difference.step), ("the table", stream.steps.len()));
    assert!(difference.simulated.entry.is_some() && difference.real.entry.is_none());
}

/// What twenty streams of a thousand accesses are made of.
#[test]
fn drawn_streams_have_of_everything_enough() {
    let mut counts = StepCounts::default();
    let (mut kinds, mut misses, mut longest) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, u64>::new(), 0);
    for seed in 1..=20 {
        let stream = StepStream::draw(seed, 1000, HcallMode::Virtual).unwrap();
        let mut sim = SimSteps::new(&StepsConfig::default()).unwrap();
        let mut batch = 0;
        for step in &stream.steps {
            let kind = match step {
                Step::Vmm(op) => {
                    batch = 0;
                    format!("{op:?}").split([' ', '{']).next().unwrap().to_owned()
                }
                Step::Guest(op) => {
                    batch += 1;
                    longest = longest.max(batch);
                    match op {
                        GuestOp::Access(_) => "Access".to_owned(),
                        GuestOp::Hcall { number, .. } => format!("hcall {number:#x}"),
                        other => format!("{other:?}").split([' ', '{']).next().unwrap().to_owned(),
                    }
                }
            };
            let answer = sim.perform(std::slice::from_ref(step)).unwrap()[0];
            let refused = match answer {
                Answer::Hcall { code, .. } => code != 0,
                Answer::Vmm { errno } => errno != 0,
                Answer::Access(_) | Answer::Done => false,
            };
            *kinds.entry(kind + if refused { " refused" } else { "" }).or_default() += 1;
            if let Answer::Access(seen) = answer {
                let what = match (seen.end, seen.lookup) {
                    (End::Interrupt { vector, dsisr, .. }, _) => format!("interrupt {vector:#x} {dsisr:#x}"),
                    (End::Completed, Lookup::Miss) => format!("{:?}", sim.last().unwrap().1.cache),
                    (end, lookup) => format!("{end:?} {lookup:?}"),
                };
                *misses.entry(what).or_default() += 1;
            }
        }
        counts.add(&compared(&StepsConfig::default(), &stream).counts);
    }
    let told = format!("{counts:#?}\n{kinds:#?}\n{misses:#?}\nlongest batch {longest}");
    assert!(counts.accesses >= 20_000 && counts.hypercalls >= 4_000 && counts.streams == 20, "{told}");
    for many in [counts.hits, counts.misses, counts.ram, counts.interrupts] {
        assert!(many > 1500, "{told}");
    }
    assert!(counts.hypercalls_refused > 200 && counts.vmm > 500 && counts.vmm_refused > 20, "{told}");
    assert!(counts.signals > 20 && counts.entries > 5000, "{told}");
    for class in ["NeverCacheable", "Cold", "Segment", "Generation", "Capacity"] {
        let class = misses.get(&format!("Miss(Some({class}))")).copied().unwrap_or(0);
        assert!(class >= 20, "{told}");
    }
    for needed in ["AllocateHtab", "ResizeHpt", "WriteHtab", "PageOut", "PageIn", "DeleteMemslot", "Mtamr", "Slbie"] {
        assert!(kinds.get(needed).copied().unwrap_or(0) >= 5, "{needed}: {told}");
    }
}

#[test]
fn a_stream_of_the_runtime_alone_leaves_its_entries_in_the_table() {
    let script = hvmmio::workload::script::Script::new(18).unwrap();
    let mut sim = SimSteps::new(&StepsConfig::default()).unwrap();
    let answers = sim.perform(script.steps()).unwrap();
    assert!(!answers.is_empty() && sim.vm().generation() == 0);
    // 256 pages of 64 KiB of the VRMA, and the stub's.
    assert_eq!(sim.table().unwrap().len(), 257);
    assert_eq!(sim.perform(&[Step::Vmm(VmmOp::ResizeHpt { order: 19 })]).unwrap(), [Answer::Vmm { errno: 0 }]);
    assert_eq!(sim.table().unwrap().len(), 257);
}

//! What the MMIO HPTE cache does for doorbells: layouts, numbers of devices, removals, key 31.

mod sim_common;

use hvmmio::device::NotifyLayout;
use hvmmio::kvm_hv::{CacheDesign, PolicyKind};
use hvmmio::sim::{Notify, Scenario, Workload};
use sim_common::{doorbells, misses, reads, run, with};

const LENGTH_2: Notify = Notify::Ioeventfd { length: 2 };

#[test]
fn in_turn_over_up_to_four_modern_devices_only_the_first_doorbell_of_each_misses() {
    for devices in 1..=4 {
        let result = run(&doorbells(NotifyLayout::Modern, devices, 1000));
        assert_eq!((result.hits, misses(&result, "cold")), (1000 - devices, devices), "{devices} devices");
    }
}

#[test]
fn in_turn_over_five_modern_devices_and_more_no_doorbell_hits() {
    for devices in [5, 6, 17, 300] {
        let result = run(&doorbells(NotifyLayout::Modern, devices, 1000));
        assert_eq!((result.hits, misses(&result, "cold")), (0, devices), "{devices} devices");
        assert_eq!(misses(&result, "capacity"), 1000 - devices);
    }
}

#[test]
fn a_cache_as_large_as_the_devices_are_many_hits_again() {
    let mut scenario = doorbells(NotifyLayout::Modern, 17, 1000);
    scenario.cache = CacheDesign::new(17, PolicyKind::RoundRobin).unwrap();
    assert_eq!(run(&scenario).hits, 1000 - 17);
}

#[test]
fn a_fio_job_over_four_modern_devices_hits_and_over_five_never_does() {
    for devices in 1..=6 {
        let scenario = with(reads("iodepth=1\nnumber_ios=600"), NotifyLayout::Modern, LENGTH_2, 1, devices);
        let result = run(&scenario);
        assert_eq!(result.accesses, 600);
        assert_eq!(result.hits, if devices <= 4 { 600 - devices } else { 0 }, "{devices} devices");
    }
}

#[test]
fn legacy_doorbells_share_a_page_and_hit_however_many_devices_there_are() {
    for devices in [1, 4, 5, 64, 1024] {
        let result = run(&doorbells(NotifyLayout::Legacy, devices, 3000));
        assert_eq!((result.hits, misses(&result, "cold")), (2999, 1), "{devices} devices");
        let job = with(reads("iodepth=1\nnumber_ios=2000"), NotifyLayout::Legacy, LENGTH_2, 1, devices);
        assert_eq!(run(&job).hits, 1999, "{devices} devices");
    }
}

#[test]
fn each_vcpu_fills_its_own_cache() {
    for vcpus in [2, 7] {
        let mut scenario = doorbells(NotifyLayout::Modern, 4, 500);
        scenario.set_vcpus(vcpus).unwrap();
        let result = run(&scenario);
        assert_eq!((result.accesses, misses(&result, "cold")), (500 * vcpus, 4 * vcpus));
        assert_eq!(result.hits, 496 * vcpus);
    }
}

#[test]
fn removing_a_doorbell_page_makes_the_next_doorbell_of_every_page_a_generation_miss() {
    let mut scenario = doorbells(NotifyLayout::Modern, 4, 1000);
    let Workload::Doorbells(stream) = &mut scenario.workload else { panic!("doorbells") };
    stream.remove_every = 100;
    let result = run(&scenario);
    // The last removal comes behind the last doorbell; each of the nine before it costs all four pages their entries.
    assert_eq!((misses(&result, "cold"), misses(&result, "generation")), (4, 4 * 9));
    assert_eq!(result.hits, 1000 - 4 - 36);
    assert_eq!(misses(&result, "capacity"), 0);
}

#[test]
fn ram_that_keeps_key_31_on_page_out_is_taken_for_mmio_and_told_with_its_address() {
    let mut scenario = Scenario::load("key31-page-out").unwrap();
    let cleared = run(&scenario);
    assert_eq!((cleared.ram_as_mmio, cleared.mmio_accesses), (None, 0));
    assert_eq!(cleared.outcomes.ram, 3);
    scenario.behaviour.set("key_on_page_out=kept").unwrap();
    let kept = run(&scenario);
    let told = kept.ram_as_mmio.unwrap();
    assert!(told.count >= 1, "{told:?}");
    assert_eq!(kept.switches, [("key_on_page_out", "kept")]);
    assert!(kept.accesses > kept.outcomes.ram);
    println!("{} accesses to RAM at {:#x} were taken for MMIO", told.count, told.first_gpa);
}

//! What a simulation keeps resident. A process of its own: the greatest size of others must not count.

use hvmmio::sim::{self, Scenario};

/// Greatest resident size of this process so far, KiB; `None` where the system does not tell.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

mod skip;

#[test]
fn one_vcpu_with_an_order_18_table_stays_within_32_mib() {
    let scenario = Scenario::load("fio-null-blk").unwrap();
    assert_eq!((scenario.vcpus, scenario.hpt_order), (1, 18));
    let run = sim::run(&scenario, &mut |_| {}).unwrap();
    assert!(run.accesses > 300_000);
    match peak_kib() {
        Some(peak) => assert!(peak <= 32 << 10, "{peak} KiB"),
        None => skip::skipped("/proc/self/status does not tell the resident size"),
    }
}

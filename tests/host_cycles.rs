//! VMs that come and go leave nothing behind. Alone in its process, so that every descriptor and thread is its own.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod host_common;
#[path = "host_common/programs.rs"]
mod programs;

use std::fs;
use std::time::Duration;

use host_common::kvm;
use hvmmio::device::UserSpace;
use hvmmio::host::x86_64::{Deadline, EXIT_PORT, HostError, MMIO, System};
use hvmmio::io::CoalescedZone;
use programs::{guest, limit};

/// Descriptors, threads, mappings.
fn held() -> [usize; 3] {
    let count = |of: &str| fs::read_dir(of).unwrap().count();
    [count("/proc/self/fd"), count("/proc/self/task"), fs::read_to_string("/proc/self/maps").unwrap().lines().count()]
}

fn cycle(system: &System, number: u32) {
    // One guest in ten has to be stopped.
    let stuck = number % 10 == 0;
    let (vm, mut vcpu) = guest(system, |asm| {
        let here = asm.label();
        if stuck {
            asm.jump_back(here);
        }
    });
    vm.register_zone(CoalescedZone { addr: MMIO, size: 4096, pio: 0 }).unwrap();
    let ring = vcpu.ring().unwrap();
    let deadline = if stuck { Deadline::after(Duration::from_millis(1)).unwrap() } else { limit() };
    let end = vcpu.run_until(EXIT_PORT, &UserSpace::new(), Some(&*ring), &deadline);
    assert!(matches!((&end, stuck), (Ok(0), false) | (Err(HostError::TimeLimit { .. }), true)), "{end:?}");
}

#[test]
fn a_thousand_vms_leave_no_descriptor_thread_or_mapping_behind() {
    let Some(system) = kvm() else { return };
    (0..20).for_each(|number| cycle(&system, number));
    let before = held();
    (0..1000).for_each(|number| cycle(&system, number));
    let [descriptors, threads, mappings] = held();
    assert_eq!([descriptors, threads], before[..2]);
    // The allocator may have mapped more of its own.
    assert!(mappings <= before[2] + 8, "{mappings} mappings after {before:?}");
}

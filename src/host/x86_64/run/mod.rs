//! Scenarios on this machine's real KVM: the simulator's record, with times that were measured.
//!
//! | workload | how it runs |
//! |---|---|
//! | OUT or IN stream, doorbells, raw configuration reads | a loop in the guest, in batches that end with an OUT |
//! | RTC tick | a loop in the guest; virtual time goes on where the guest would HLT (`rtc`) |
//! | mix of all | accesses written out in blocks, each timed in the guest (`mixed`) |
//! | PCI scan | the scan's driver on this side, one access at a time performed by the guest (`server`) |
//!
//! A batch's time is real time around KVM_RUN and the VMM's handling of exits, less that of an empty batch. An access's time is
//! the median over batches; the loop around it (0.3 ns) is in it.

mod bench;
mod clock;
mod doorbells;
mod mixed;
mod pci;
mod pio;
mod result;
mod rig;
mod rtc;
mod server;
mod vmm;

use std::time::Instant;

use crate::sim::{Notify, RunResult, Scenario, Workload};
use crate::workload::pci_config::PciTask;

use super::{HostError, System};
use result::Told;

pub use bench::{Bench, DeviceCosts, Piece, device_costs};
pub use clock::thread_time;
pub use rig::Pace;

/// Data that are not what they must be.
fn wrong<T>(what: impl Into<String>) -> Result<T, HostError> {
    Err(HostError::Wrong(what.into()))
}

/// The runs that `hvmmio host run` sets side by side: one a port mode, configuration method or way of notification.
#[must_use]
pub fn variants(scenario: &Scenario) -> Vec<Scenario> {
    if !matches!(scenario.workload, Workload::Doorbells(_)) {
        return scenario.variants(crate::sim::Baseline::Without);
    }
    // Doorbells are of the same width in each, so that they compare.
    let (length, poll_ns) = match scenario.notify {
        Notify::Ioeventfd { length } if length > 0 => (length, 0),
        Notify::Coalesced { poll_ns } => (2, poll_ns),
        Notify::Ioeventfd { .. } | Notify::Exit => (2, 0),
    };
    let ways =
        [Notify::Exit, Notify::Ioeventfd { length }, Notify::Ioeventfd { length: 0 }, Notify::Coalesced { poll_ns }];
    ways.into_iter().map(|notify| Scenario { notify, ..scenario.clone() }).collect()
}

/// Runs a scenario's workload on real KVM. Its machine model and cache mean nothing here.
///
/// # Errors
/// KVM refuses, the guest goes wrong or takes too long, or its data are not what they must be. Workloads of requests (fio,
/// netperf) and sequences do not run here.
pub fn run(
    system: &System,
    scenario: &Scenario,
    pace: Pace,
    progress: &mut dyn FnMut(f64),
) -> Result<RunResult, HostError> {
    let start = Instant::now();
    let told = match &scenario.workload {
        Workload::Pio(stream) => {
            let (mut rig, pio) = pio::Pio::new(system, stream, scenario.mode, scenario.vcpus)?;
            let mut told = Told::streamed(&mut rig, &pio, stream.count, pace, start, progress)?;
            pio.verdict()?;
            told.eventfd = rig.eventfds.iter().map(super::HostEventfd::take).sum::<Result<_, _>>()?;
            let elements = u64::from(stream.string) * told.units();
            pio.all_seen(elements, told.eventfd)?;
            told.unit = "port accesses/s";
            told.bytes = pio::moved(stream.width, stream.string);
            if stream.gap_ns > 0 {
                told.notes.push("gap_ns is left out: the guest makes its accesses without a pause".to_owned());
            }
            if scenario.mode == crate::workload::ports::PortMode::InKernel {
                told.notes.push("in-kernel: an ioeventfd at the port stands for the device in the kernel".to_owned());
            }
            told
        }
        Workload::Doorbells(spec) => {
            let (mut rig, ring) = doorbells::Ring::new(system, scenario, *spec)?;
            let mut told = Told::streamed(&mut rig, &ring, spec.count, pace, start, progress)?;
            told.eventfd = ring.verdict(&rig, &told.each_units())?;
            told.unit = "doorbells/s";
            told.mmio = told.units();
            if spec.gap_ns > 0 || spec.remove_every > 0 {
                told.notes.push("gap_ns and remove_every are left out: the guest rings without a pause".to_owned());
            }
            told
        }
        Workload::Rtc(tick) => {
            let (mut rig, ticks) = rtc::Ticks::new(system, *tick, scenario.mode)?;
            let count = tick.duration_ns.saturating_mul(tick.rate_hz.into()) / 1_000_000_000;
            let mut told = Told::streamed(&mut rig, &ticks, count, pace, start, progress)?;
            ticks.verdict()?;
            told.leave_out(rtc::WAIT_PORT);
            (told.unit, told.per_unit) = ("ticks handled/s", ticks.accesses());
            told.notes.push(
                "virtual time: the RTC's next edge comes as soon as the guest waits for it (an OUT in place of HLT, which is \
                 not in the figures)"
                    .to_owned(),
            );
            told
        }
        Workload::Pci(config) => {
            let (mut rig, pci) = pci::Pci::new(system, config, scenario.devices)?;
            match config.task {
                PciTask::Scan => {
                    let frame_ns = rig.frame_ns()?;
                    let before = start.elapsed();
                    let (mut ran, stats) = pci.scan(&mut rig, pace)?;
                    ran.first += before;
                    let mut told = Told::new(frame_ns, vec![ran], start);
                    told.unit = "machine accesses/s";
                    told.set_config(stats);
                    told.notes.push(
                        "counts are of one scan; a batch is a scan; an access is timed in the guest by its time stamp counter"
                            .to_owned(),
                    );
                    told
                }
                PciTask::RawReads { register, count } => {
                    let reads = pci.raw_reads(register)?;
                    let mut told = Told::streamed(&mut rig, &reads, count, pace, start, progress)?;
                    told.set_config(pci.raw_stats(&reads, told.units(), &told.counts));
                    (told.unit, told.per_unit) = ("config reads/s", reads.accesses());
                    told
                }
            }
        }
        Workload::Mixed(spec) => {
            let (mut rig, mixed) = mixed::Mixed::new(system, spec, scenario.seed, scenario.vcpus)?;
            let mut told = Told::streamed(&mut rig, &mixed, spec.count, pace, start, progress)?;
            let units = told.each_units();
            told.eventfd = mixed.verdict(&rig, &units)?;
            told.kinds = mixed.kinds(&units);
            (told.mmio, told.ram) = mixed.addresses(&units);
            told.unit = "accesses/s";
            told.notes.push(
                "a kind's time is taken in the guest by its time stamp counter; one look at it is in the time per access"
                    .to_owned(),
            );
            told
        }
        Workload::Fio(_) | Workload::Netperf(_) | Workload::Sequence(_) => {
            let what = format!(
                "a {} workload does not run on real KVM: pio, rtc, pci, doorbells and mixed do",
                scenario.workload.kind()
            );
            return Err(HostError::Unsupported(what));
        }
    };
    Ok(told.collect(scenario))
}

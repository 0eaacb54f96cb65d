//! The event engine in virtual time, and what runs on it: fio jobs, netperf tests, bare doorbells; and the x86 executor.
//!
//! Deterministic: the same scenario and seed give the same result on any host.

mod backend;
mod blk;
mod coalesced;
mod doorbells;
mod engine;
mod events;
mod latencies;
mod net;
mod recorded;
mod result;
pub mod scenario;
mod sequence;
mod setup;
mod stats;
mod steps;
mod x86;

use std::sync::Arc;

use crate::addr::{EffectiveAddr, GuestPhysAddr};
use crate::book3s::SlbError;
use crate::book3s::insn::EncodeError;
use crate::device::{BlkError, GuestRam, NetError, NotifyError, QueueError, Sides};
use crate::io::pci::{PciError, Unreachable};
use crate::io::{IoError, RingError};
use crate::kvm_hv::{HcallError, Outcome, VmError};
use crate::machine::{Kind, Prices, SimTime};
use crate::workload::sequence::SequenceError;

pub use coalesced::DrainDelay;
pub use recorded::{DeviceRow, Disagreement, ObservedCounts, PageRow, Recorded, TimeRow, VcpuRow};
pub use result::{
    AroundRow, ExitCount, JobResult, KindStat, Latency, Measured, Metric, MissCount, PathShare, RamAsMmio, RunResult,
    StageRow,
};
pub use scenario::{Baseline, Doorbells, Notify, Pattern, Scenario, ScenarioError, Workload};
pub use stats::Outcomes;
pub use steps::{SimSteps, StepError, StepsConfig};
pub use x86::{ConfigStats, ExitStat, NOISE_ROW, event, perf_window, stages_of};

use engine::{Core, Load};
use setup::Setup;

/// Why a run ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The VM could not be built.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// A doorbell page could not be entered or removed.
    #[error("the guest's hypercall on a doorbell page failed: {0}")]
    Hcall(#[from] HcallError),
    /// An ioeventfd or zone could not be registered.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The coalesced ring is corrupt.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A doorbell layout that has no such device.
    #[error(transparent)]
    Notify(#[from] NotifyError),
    /// A segment register write.
    #[error(transparent)]
    Slb(#[from] SlbError),
    /// An instruction that could not be formed.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A virtqueue.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The block driver or device.
    #[error(transparent)]
    Blk(#[from] BlkError),
    /// The network driver or device.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A block request came back with an error.
    #[error("a block request at byte {offset:#x} of device {device} came back with {status:?}")]
    Request {
        /// Device.
        device: u32,
        /// Where.
        offset: u64,
        /// How it ended.
        status: crate::device::BlkStatus,
    },
    /// The queues and buffers do not fit into what one guest may have here.
    #[error(
        "queues and buffers need {bytes} bytes of guest RAM, more than {most}: fewer devices, a smaller bs or iodepth"
    )]
    Ram {
        /// Needed.
        bytes: u64,
        /// Most.
        most: u64,
    },
    /// The sequence.
    #[error(transparent)]
    Sequence(#[from] SequenceError),
    /// Latencies cannot be kept.
    #[error("the latency histogram was refused: {0}")]
    Histogram(String),
    /// The peer's answer did not arrive.
    #[error("device {device}: a frame's answer ended as {reply:?}")]
    Reply {
        /// Device.
        device: u32,
        /// How.
        reply: crate::device::Reply,
    },
    /// No such doorbell.
    #[error("device {device} queue {queue} has no doorbell: it is not part of the scenario")]
    NoDoorbell {
        /// Device.
        device: u32,
        /// Queue.
        queue: u16,
    },
    /// A doorbell store did not end as a notification.
    #[error("the doorbell store of device {device} at EA {ea} ended as {outcome:?}: no back end was told")]
    Doorbell {
        /// Where.
        ea: EffectiveAddr,
        /// Device.
        device: u32,
        /// How it ended.
        outcome: Outcome,
    },
    /// A workload of another kind of machine.
    #[error("a {workload} workload does not run on a machine of kind {kind}")]
    Misfit {
        /// Workload.
        workload: &'static str,
        /// The machine model's kind.
        kind: &'static str,
    },
    /// The RTC's interrupt came without its flags.
    #[error("the RTC's interrupt handler found register C at {flags:#x}, without interrupt and periodic flag")]
    NoTick {
        /// Register C.
        flags: u64,
    },
    /// The functions cannot be put on the bus.
    #[error(transparent)]
    Pci(#[from] PciError),
    /// The register is out of the method's reach.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    /// Configuration accesses that did not give what is on the bus.
    #[error("PCI configuration accesses did not give what is on the bus: {what}")]
    NotAsConfigured {
        /// What differs.
        what: String,
    },
    /// The ring holds a write that no doorbell is at.
    #[error("the coalesced ring holds a write at {addr:#x}, where no doorbell is, or one that nobody wrote")]
    StrayRingEntry {
        /// Where.
        addr: u64,
    },
    /// Events go on, but time does not.
    #[error(
        "virtual time stands still at {} ns: does the machine model price everything on the workload's way at 0?",
        at.ns()
    )]
    StandsStill {
        /// When.
        at: SimTime,
    },
    /// Beyond what [`SimTime`] holds.
    #[error(
        "virtual time has run out: a run reaches 213 days at most; shorten runtime, thinktime or startdelay, or raise the rate"
    )]
    EndOfTime,
    /// Nothing is left to happen, but threads have not ended.
    #[error("nothing happens any more at {} ns of virtual time, but the guest still waits", at.ns())]
    Stalled {
        /// When.
        at: SimTime,
    },
}

impl From<crate::kvm_hv::memslot::MemslotError> for SimError {
    fn from(error: crate::kvm_hv::memslot::MemslotError) -> Self {
        Self::Vm(error.into())
    }
}

/// Most guest RAM that queues and buffers may take. It is mapped, not touched.
const MAX_RAM: u64 = 64 << 30;

/// Runs a scenario. `progress` is given the share done, 0 to 1, now and then.
///
/// # Errors
/// The scenario cannot be built or ends before its time; what a sequence meets is part of its result instead.
pub fn run(scenario: &Scenario, progress: &mut dyn FnMut(f64)) -> Result<RunResult, SimError> {
    if scenario.machine.kind == Kind::X86 {
        return x86::run(scenario, progress);
    }
    match &scenario.workload {
        Workload::Pio(_) | Workload::Rtc(_) | Workload::Pci(_) | Workload::Mixed(_) => {
            Err(SimError::Misfit { workload: scenario.workload.kind(), kind: scenario.machine.kind.name() })
        }
        Workload::Sequence(list) => sequence::run(scenario, list),
        Workload::Fio(plan) => {
            let layout = blk::Layout::new(scenario, plan)?;
            drive(scenario, layout.ram_bytes(), |core| blk::Blk::new(core, scenario, plan, &layout), progress)
        }
        Workload::Netperf(test) => {
            let ram = net::ram_bytes(scenario, test)?;
            drive(scenario, ram, |core| net::Net::new(core, scenario, *test), progress)
        }
        Workload::Doorbells(stream) => {
            drive(scenario, 0, |core| Ok(doorbells::Stream::new(core, scenario, *stream)), progress)
        }
    }
}

/// What a workload tells after a run, beside the sums.
trait Finish {
    fn metric(&self, end: SimTime) -> Metric;
    fn jobs(&self) -> Vec<JobResult>;
    fn notes(&self) -> Vec<String>;
}

fn drive<L: Load + Finish>(
    scenario: &Scenario,
    ram_bytes: u64,
    make: impl FnOnce(&mut Core) -> Result<L, SimError>,
    progress: &mut dyn FnMut(f64),
) -> Result<RunResult, SimError> {
    // A whole number of host pages, and at least one.
    let ram_bytes = ram_bytes.max(1).next_multiple_of(1 << 16);
    if ram_bytes > MAX_RAM {
        return Err(SimError::Ram { bytes: ram_bytes, most: MAX_RAM });
    }
    let (vm, vcpus, setup) = Setup::build(scenario, ram_bytes)?;
    let ram = GuestRam::new(GuestPhysAddr(0), ram_bytes, Sides::OneThread)?;
    let mut core = Core::new(vm, vcpus, Prices::new(&scenario.machine), setup, Arc::new(ram))?;
    let mut load = make(&mut core)?;
    core.run(&mut load, progress)?;
    Ok(RunResult::collect(scenario, &core, load.metric(core.now), load.jobs(), load.notes()))
}

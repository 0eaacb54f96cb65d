//! The x86 executor: one vCPU in virtual time, its exits handled by user space as a VMM does.
//!
//! A workload is a function that lets a [`Guest`] perform instructions and time pass, and reads its sums at the end. A new one
//! adds a file here and a line in [`run`].

mod exits;
mod mixed;
mod noise;
mod pci;
mod pio;
mod result;
mod rtc;
mod stats;

use std::sync::Arc;

use crate::addr::KernelBehaviour;
use crate::device::UserSpace;
use crate::io::{CoalescedZone, HostPage, IoSpace};
use crate::kvm_x86::{End, Handled, Instruction, Pending, Platform, Stage, StageCounts, Vcpu};
use crate::machine::{Machine, SimTime, X86Extra, X86Prices};
use crate::workload::ports::PortMode;

use super::SimError;
use super::result::{JobResult, KindStat, Metric, RunResult};
use super::scenario::{Scenario, Workload};

pub use exits::{ExitStat, event, perf_window};
use noise::HostNoise;
pub use pci::ConfigStats;
pub use result::NOISE_ROW;
use stats::Spent;
pub(super) use stats::X86Stats;

/// What a workload tells after a run, beside the sums.
struct Told {
    metric: Metric,
    jobs: Vec<JobResult>,
    notes: Vec<String>,
    /// What configuration accesses took, where the workload makes any.
    config: Option<ConfigStats>,
    /// Accesses by kind, where the workload has several.
    kinds: Vec<KindStat>,
}

/// Runs an x86 scenario in its [`PortMode`] or by its configuration method.
pub(super) fn run(scenario: &Scenario, progress: &mut dyn FnMut(f64)) -> Result<RunResult, SimError> {
    let (guest, told) = match &scenario.workload {
        Workload::Pio(stream) => pio::run(scenario, stream, progress)?,
        Workload::Rtc(tick) => rtc::run(scenario, *tick, progress)?,
        Workload::Pci(config) => pci::run(scenario, config, progress)?,
        Workload::Mixed(spec) => mixed::run(scenario, spec, progress)?,
        Workload::Fio(_) | Workload::Netperf(_) | Workload::Doorbells(_) | Workload::Sequence(_) => {
            return Err(SimError::Misfit { workload: scenario.workload.kind(), kind: scenario.machine.kind.name() });
        }
    };
    Ok(result::collect(scenario, &guest.stats, guest.now, told))
}

/// Whether the vCPU just came out of idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caches {
    /// It did not.
    Warm,
    /// It did: its exits take [`crate::machine::Noise::cold`] times as long.
    Cold,
}

/// A guest with one vCPU and its VMM.
struct Guest {
    io: IoSpace,
    vcpu: Vcpu,
    user: UserSpace,
    mode: PortMode,
    prices: X86Prices,
    noise: HostNoise,
    caches: Caches,
    now: SimTime,
    stats: X86Stats,
}

impl Guest {
    /// A guest whose VMM has no devices yet.
    fn new(machine: &Machine, mode: PortMode, behaviour: KernelBehaviour, platform: Platform, seed: u64) -> Self {
        let io = IoSpace::new(HostPage::Kib4, behaviour);
        Self {
            vcpu: Vcpu::new(&io, Arc::new(platform)),
            io,
            user: UserSpace::new(),
            mode,
            prices: X86Prices::new(machine),
            noise: HostNoise::new(machine, seed),
            caches: Caches::Warm,
            now: SimTime::default(),
            stats: X86Stats::default(),
        }
    }

    /// In mode `coalesced`, lets writes to these ports wait in the ring.
    fn coalesce(&self, port: u16, ports: u32) -> Result<(), SimError> {
        if self.mode == PortMode::Coalesced {
            self.io.register_zone(CoalescedZone { addr: u64::from(port), size: ports, pio: 1 })?;
        }
        Ok(())
    }

    /// The guest performs an instruction, which takes its time. Returns it with what it read.
    fn perform(&mut self, insn: Instruction) -> Result<Pending, SimError> {
        let mut pending = Pending::new(insn);
        let (mut exit_stages, mut handled) = (StageCounts::default(), Handled::default());
        let mut user_exits = 0;
        loop {
            let run = self.vcpu.run(&mut pending);
            exit_stages.merge(&run.stages);
            stats::add_handled(&mut handled, &run.handled);
            match run.end {
                End::Exit(exit) => {
                    user_exits += 1;
                    self.stats.outcomes.ring_full += u64::from(exit.ring_full);
                    let drained = self.user.handle(Some(self.io.ring()), &exit, self.vcpu.exit_data())?;
                    self.user_stages(&mut exit_stages, exit.count, drained);
                }
                End::Reentered | End::Done => {
                    self.spend(&pending, &exit_stages);
                    exit_stages = StageCounts::default();
                    if run.end == End::Done {
                        self.stats.add_access(&pending, &handled, user_exits);
                        return Ok(pending);
                    }
                }
            }
        }
    }

    /// What user space does at an exit of `elements`, having taken `drained` writes out of the ring.
    fn user_stages(&self, stages: &mut StageCounts, elements: u32, drained: u32) {
        stages.add(Stage::Drain);
        stages.add_times(Stage::DrainedWrite, drained);
        stages.add_times(Stage::UserDevice, elements);
        if self.mode == PortMode::RegsEveryExit {
            stages.add(Stage::GetRegs);
            stages.add(Stage::SetRegs);
        }
    }

    /// Time goes on by one VM exit: its stages, and what the host adds.
    fn spend(&mut self, pending: &Pending, stages: &StageCounts) {
        let cold = self.noise.factor(self.caches);
        let window = exits::window(pending, stages);
        let timed = noise::scaled(self.prices.sum(&window), cold);
        let excess = self.noise.draw(timed);
        let all = noise::scaled(self.prices.sum(stages), cold) + excess;
        self.now += all;
        let spent = Spent { stages: *stages, cold, excess, timed: timed + excess, all };
        self.stats.add_exit(pending, &spent, &self.prices);
    }

    /// Time goes on by a cost around the path.
    fn around(&mut self, extra: X86Extra) {
        self.now += self.prices.around(extra);
    }
}

/// The stages of an access in a mode, over the whole of it, where user space has no ring entries waiting: what the fit of a
/// machine model solves for.
///
/// # Errors
/// The VM cannot be built.
pub fn stages_of(machine: &Machine, mode: PortMode, insn: Instruction) -> Result<StageCounts, SimError> {
    let mut platform = Platform::default();
    let target = Pending::new(insn.clone()).target();
    if let (PortMode::InKernel, crate::kvm_x86::Target::Port(port)) = (mode, target) {
        platform = pio::in_kernel(port);
    }
    let mut guest = Guest::new(machine, mode, KernelBehaviour::default(), platform, 0);
    if let crate::kvm_x86::Target::Port(port) = target {
        guest.coalesce(port.0, 4)?;
    }
    guest.perform(insn)?;
    Ok(guest.stats.stages())
}

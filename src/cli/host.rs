//! `hvmmio host probe` and `hvmmio host run`.

use clap::Subcommand;

use crate::sim::{Scenario, Workload};
use crate::workload::pci_config::PciMethod;
use crate::workload::ports::PortMode;

use super::args::{GuestArgs, OutputArgs};
use super::{CliError, Done};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Tell what this machine's KVM is, what it can do, and what it does, by experiment
    Probe(ProbeArgs),
    /// Run a scenario on this machine's KVM, in each of its ways: pio, rtc, pci and doorbells workloads
    Run(RunArgs),
}

#[derive(Debug, clap::Args)]
struct ProbeArgs {
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// A built-in scenario (see `hvmmio list`) or a scenario file (.toml)
    scenario: String,
    /// Most accesses of a vCPU in a way; a scan is run whole
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    accesses: u64,
    /// Most seconds that a run may take; a guest that is not done by then is an error
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    time_limit: u64,
    /// How often each way is run, by turns; the round in the middle is told
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    #[command(flatten)]
    guest: GuestArgs,
    /// How port accesses are handled: regs-every-exit, regs-when-needed, in-kernel or coalesced; may be given again
    #[arg(long, value_name = "MODE")]
    mode: Vec<PortMode>,
    /// How configuration space is reached, [pci]: type1, type1-coalesced, type1-ecam, ecam or ecam-read-only; may be given again
    #[arg(long, value_name = "METHOD")]
    method: Vec<PciMethod>,
    #[command(flatten)]
    output: OutputArgs,
}

impl RunArgs {
    /// Flags that mean nothing for the workload are refused rather than ignored.
    fn scenario(&self) -> Result<Scenario, CliError> {
        let mut scenario = Scenario::load(&self.scenario)?;
        let (bells, pci) =
            (matches!(scenario.workload, Workload::Doorbells(_)), matches!(scenario.workload, Workload::Pci(_)));
        let flags = [
            ("--vcpus", self.guest.vcpus.is_some(), bells),
            ("--devices", self.guest.devices.is_some(), bells || pci),
            ("--layout", self.guest.layout.is_some(), bells),
            ("--mode", !self.mode.is_empty(), !bells && !pci),
            ("--method", !self.method.is_empty(), pci),
        ];
        if let Some((flag, ..)) = flags.iter().find(|(_, given, known)| *given && !*known) {
            let (name, workload) = (&scenario.name, scenario.workload.kind());
            return Err(CliError::Input(format!("{flag} means nothing for {name}: a {workload} workload on a host")));
        }
        self.guest.apply(&mut scenario)?;
        if !self.mode.is_empty() {
            scenario.modes.clone_from(&self.mode);
        }
        if let (Workload::Pci(config), false) = (&mut scenario.workload, self.method.is_empty()) {
            config.methods.clone_from(&self.method);
        }
        Ok(scenario)
    }
}

/// Does it.
pub(super) fn run(args: &Args) -> Result<Done, CliError> {
    match &args.verb {
        Verb::Probe(args) => here::probe(args),
        Verb::Run(args) => here::run(args, &args.scenario()?),
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod here {
    use std::time::{Duration, Instant};

    use crate::cli::{CliError, Done, output};
    use crate::host::x86_64::{self, HostError, Limits, System, probe as probe_host};
    use crate::report::HostRunReport;
    use crate::sim::Scenario;

    pub(super) fn probe(args: &super::ProbeArgs) -> Result<Done, CliError> {
        let found = System::open().and_then(|system| probe_host(&system)).map_err(CliError::failed)?;
        output::write(&found, &args.output)?;
        Ok(Done::Well)
    }

    pub(super) fn run(args: &super::RunArgs, scenario: &Scenario) -> Result<Done, CliError> {
        let limits =
            Limits { accesses: args.accesses, time: Duration::from_secs(args.time_limit), rounds: args.rounds };
        let runs = x86_64::run(scenario, limits, Instant::now()).map_err(|error| match error {
            // What the scenario asks for: its fault, not the run's.
            HostError::Unsupported(_) => CliError::input(error),
            error => CliError::failed(error),
        })?;
        output::write(&HostRunReport { runs }, &args.output)?;
        Ok(Done::Well)
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod here {
    use crate::cli::{CliError, Done};
    use crate::host::NO_HOST_SIDE;
    use crate::sim::Scenario;

    pub(super) fn probe(_: &super::ProbeArgs) -> Result<Done, CliError> {
        Err(CliError::failed(NO_HOST_SIDE))
    }

    pub(super) fn run(_: &super::RunArgs, _: &Scenario) -> Result<Done, CliError> {
        Err(CliError::failed(NO_HOST_SIDE))
    }
}

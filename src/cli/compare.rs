//! `hvmmio compare`.

use super::args::OutputArgs;
use super::{CliError, Done};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// x86_64: a scenario (see `hvmmio list`), compared in each of its modes; ppc64: a file of operations (see `hvmmio
    /// sequence`); drawn streams if not given
    scenario: Option<String>,
    /// ppc64: what the kernel's hazards lead to, each beside a control without its decisive step
    #[arg(long, conflicts_with_all = ["scenario", "streams", "accesses", "seed", "threads"])]
    hazards: bool,
    /// Drawn streams, of seeds from --seed on
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    streams: u64,
    /// Accesses of a stream, and the most of a scenario in a mode [default: 5000; 1000 on ppc64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    accesses: Option<u64>,
    /// Seed of the first stream
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Streams at a time; as many as there are processors if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Change a switch of the simulated kernel after those that the probe of this host set; may be given again
    #[arg(long, value_name = "SWITCH=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Why there are no hazards to compare elsewhere.
#[cfg(not(target_arch = "powerpc64"))]
const NEEDS_PPC64: &str = "--hazards needs a ppc64 host with kvm-hv: they are of the Book3S HV MMIO path; what the simulator says of \
                           them, on any host: hvmmio sequence --hazards";

/// Compares.
pub(super) fn run(args: &Args) -> Result<Done, CliError> {
    here::run(args)
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod here {
    use std::thread::available_parallelism;

    use parking_lot::Mutex;

    use super::{Args, NEEDS_PPC64};
    use crate::addr::KernelBehaviour;
    use crate::cli::progress::Progress;
    use crate::cli::{CliError, Done, output};
    use crate::host::x86_64::{System, probe};
    use crate::kvm_x86::FastMmio;
    use crate::proof::compare::{compare, compare_streams, stream_of};
    use crate::report::{CompareReport, ComparedPart};
    use crate::sim::{Baseline, Scenario};

    /// Accesses of a stream if not given.
    const ACCESSES: u64 = 5000;

    type Kernel = (KernelBehaviour, FastMmio);

    pub(super) fn run(args: &Args) -> Result<Done, CliError> {
        if args.hazards {
            return Err(CliError::failed(NEEDS_PPC64));
        }
        let scenario = args.scenario.as_deref().map(Scenario::load).transpose()?;
        let system = System::open().map_err(CliError::failed)?;
        let probe = probe(&system).map_err(CliError::failed)?;
        let mut behaviour = probe.behaviour();
        for setting in &args.set {
            behaviour.set(setting).map_err(CliError::input)?;
        }
        let kernel = (behaviour, probe.fast_mmio.unwrap_or_default());
        let parts = match &scenario {
            Some(scenario) => of_scenario(&system, kernel, scenario, args.accesses.unwrap_or(ACCESSES))?,
            None => vec![drawn(&system, kernel, args)?],
        };
        let equal = parts.iter().all(|part| part.compared.difference.is_none());
        let report = CompareReport::new(&probe.kernel, kernel, parts);
        output::write(&report, &args.output)?;
        Ok(if equal { Done::Well } else { Done::Failed })
    }

    fn drawn(system: &System, kernel: Kernel, args: &Args) -> Result<ComparedPart, CliError> {
        let threads = args.threads.map_or_else(|| available_parallelism().map_or(1, usize::from), usize::from);
        let progress = Mutex::new(Progress::new("compare"));
        let accesses = args.accesses.unwrap_or(ACCESSES);
        let what = (args.seed, args.streams, accesses);
        let compared = compare_streams(system, kernel, what, threads, &|share| progress.lock().at(share));
        drop(progress);
        let name = format!("streams of {accesses} accesses, seeds from {}", args.seed);
        Ok(ComparedPart { name, compared: compared.map_err(CliError::failed)? })
    }

    fn of_scenario(
        system: &System,
        kernel: Kernel,
        scenario: &Scenario,
        most: u64,
    ) -> Result<Vec<ComparedPart>, CliError> {
        let mut parts = Vec::new();
        for variant in &scenario.variants(Baseline::Without) {
            let Some(stream) = stream_of(variant, most) else { continue };
            let compared = compare(system, kernel, &stream).map_err(CliError::failed)?;
            parts.push(ComparedPart { name: format!("{}, {}", scenario.name, variant.way()), compared });
        }
        if parts.is_empty() {
            let what = format!(
                "{}: nothing to compare on a host; scenarios of port I/O, RTC ticks, mixes and PCI scans by exits can be",
                scenario.name
            );
            return Err(CliError::Input(what));
        }
        Ok(parts)
    }
}

#[cfg(all(target_os = "linux", target_arch = "powerpc64", target_endian = "little"))]
#[path = "compare_ppc64.rs"]
mod here;

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", all(target_arch = "powerpc64", target_endian = "little"))
)))]
mod here {
    use crate::cli::{CliError, Done};
    use crate::host::NO_HOST_SIDE;

    pub(super) fn run(_: &super::Args) -> Result<Done, CliError> {
        Err(CliError::failed(NO_HOST_SIDE))
    }
}

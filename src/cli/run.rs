//! `hvmmio run SCENARIO`.

use crate::machine::Kind;
use crate::report::RunReport;
use crate::sim::{self, Baseline, Scenario, Workload};

use super::args::{CacheArgs, GuestArgs, KernelArgs, OutputArgs, WayArgs};
use super::progress::Progress;
use super::{CliError, Done, output};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A built-in scenario (see `hvmmio list`), a scenario file (.toml) or a fio job file (.fio)
    scenario: String,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    guest: GuestArgs,
    #[command(flatten)]
    kernel: KernelArgs,
    /// Run what was asked for only, not also without a cache (coalesced doorbells: by exit and by ioeventfd)
    #[arg(long)]
    no_baseline: bool,
    #[command(flatten)]
    ways: WayArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl Args {
    /// Flags that mean nothing for the scenario's workload and kind of machine are refused rather than ignored.
    fn check_kind(&self, scenario: &Scenario) -> Result<(), CliError> {
        let kind = scenario.machine.kind;
        let power = kind == Kind::Book3sHv;
        let [pci, mixed] =
            [matches!(scenario.workload, Workload::Pci(_)), matches!(scenario.workload, Workload::Mixed(_))];
        // Flag, whether it was given, whether the scenario knows it.
        let flags = [
            ("--entries", self.cache.entries.is_some(), power),
            ("--policy", self.cache.policy.is_some(), power),
            ("--no-baseline", self.no_baseline, power),
            ("--vcpus", self.guest.vcpus.is_some(), power),
            ("--devices", self.guest.devices.is_some(), power || pci),
            ("--layout", self.guest.layout.is_some(), power),
            ("--mode", !self.ways.mode.is_empty(), !power && !pci && !mixed),
            ("--method", !self.ways.method.is_empty(), pci),
        ];
        match flags.iter().find(|(_, given, known)| *given && !*known) {
            Some((flag, ..)) => {
                let (name, workload) = (&scenario.name, scenario.workload.kind());
                let what = format!(
                    "{flag} means nothing for {name}: a {workload} workload on a machine of kind {}",
                    kind.name()
                );
                Err(CliError::Input(what))
            }
            None => Ok(()),
        }
    }
}

/// Runs it.
pub(super) fn run(args: &Args) -> Result<Done, CliError> {
    let mut scenario = Scenario::load(&args.scenario)?;
    args.check_kind(&scenario)?;
    scenario.cache = args.cache.apply(scenario.cache)?;
    args.guest.apply(&mut scenario)?;
    args.kernel.apply(&mut scenario.preset, &mut scenario.behaviour)?;
    if let (Workload::Pci(config), [first, ..]) = (&mut scenario.workload, &args.ways.method[..]) {
        (config.method, config.methods) = (*first, args.ways.method.clone());
    }
    if !args.ways.mode.is_empty() {
        scenario.modes.clone_from(&args.ways.mode);
    }

    let variants = scenario.variants(if args.no_baseline { Baseline::Without } else { Baseline::With });
    let mut progress = Progress::new(&scenario.name);
    let count = variants.len() as f64;
    let mut runs = Vec::new();
    for (done, variant) in variants.iter().enumerate() {
        runs.push(sim::run(variant, &mut |share| progress.at((done as f64 + share) / count))?);
    }
    drop(progress);
    let failed = runs.iter().any(|run| run.failure.is_some());
    output::write(&RunReport { runs }, &args.output)?;
    Ok(if failed { Done::Failed } else { Done::Well })
}

//! `hvmmio run SCENARIO`.

use std::path::Path;

use crate::addr::Preset;
use crate::cachelab::{EmulateConfig, emulate};
use crate::kvm_hv::CacheDesign;
use crate::machine::{Kind, Machine};
use crate::report::RunReport;
use crate::sim::{self, Baseline, Scenario, Workload};
use crate::trace::Recording;

use super::args::{CacheArgs, GuestArgs, KernelArgs, OutputArgs, WayArgs};
use super::progress::Progress;
use super::{CliError, Done, output, stop};

/// Model that prices a recording: the one of POWER.
const DEFAULT_MACHINE: &str = "power8-2016";

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A built-in scenario (see `hvmmio list`), a scenario file (.toml), a fio job file (.fio) or a recording (any other file)
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

/// Whether it names a recording: a file that is there and is neither a scenario nor a fio job.
fn is_recording(name: &str) -> bool {
    let path = Path::new(name);
    let other = path.extension().is_some_and(|ending| ending == "toml" || ending == "fio");
    let built_in = sim::scenario::BUILT_IN.iter().any(|(known, _)| *known == name);
    !other && !built_in && path.is_file()
}

/// Runs a recording through the emulated path, without the cache and with it.
fn run_recording(args: &Args) -> Result<Done, CliError> {
    let guest = &args.guest;
    let flags = [
        ("--vcpus", guest.vcpus.is_some()),
        ("--devices", guest.devices.is_some()),
        ("--layout", guest.layout.is_some()),
        ("--mode", !args.ways.mode.is_empty()),
        ("--method", !args.ways.method.is_empty()),
    ];
    if let Some((flag, _)) = flags.iter().find(|(_, given)| *given) {
        let what = format!("{flag} means nothing for {}: a recording says that itself", args.scenario);
        return Err(CliError::Input(what));
    }
    let (mut preset, cache) = (Preset::default(), args.cache.apply(CacheDesign::KERNEL)?);
    let mut behaviour = preset.behaviour();
    args.kernel.apply(&mut preset, &mut behaviour)?;
    let machine = Machine::built_in(DEFAULT_MACHINE).ok_or_else(|| CliError::failed("no machine model"))?;
    let mut designs = vec![cache];
    if !args.no_baseline && !cache.is_off() {
        designs.insert(0, CacheDesign::OFF);
    }
    let stop = stop::flag()?;
    let mut runs = Vec::new();
    let mut interrupted = false;
    for cache in designs {
        let seed = guest.seed.unwrap_or(0);
        let config = EmulateConfig { cache, preset, behaviour, seed, machine: machine.clone() };
        let mut recording = Recording::open(Path::new(&args.scenario))?;
        let run = emulate(&mut recording, &config, &stop)?;
        interrupted |= run.recorded.as_ref().is_some_and(|recorded| recorded.interrupted);
        runs.push(run);
    }
    output::write(&RunReport { runs }, &args.output)?;
    Ok(if interrupted { Done::Interrupted } else { Done::Well })
}

/// Runs it.
pub(super) fn run(args: &Args) -> Result<Done, CliError> {
    if is_recording(&args.scenario) {
        return run_recording(args);
    }
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

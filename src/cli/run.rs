//! `hvmmio run SCENARIO`.

use crate::report::RunReport;
use crate::sim::{self, Baseline, Scenario};

use super::args::{CacheArgs, GuestArgs, KernelArgs, OutputArgs};
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
    output: OutputArgs,
}

/// Runs it.
pub(super) fn run(args: &Args) -> Result<Done, CliError> {
    let mut scenario = Scenario::load(&args.scenario)?;
    scenario.cache = args.cache.apply(scenario.cache)?;
    args.guest.apply(&mut scenario)?;
    args.kernel.apply(&mut scenario.preset, &mut scenario.behaviour)?;

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

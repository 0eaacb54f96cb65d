//! `hvmmio run SCENARIO`.

use crate::kvm_hv::CacheDesign;
use crate::report::RunReport;
use crate::sim::{self, Scenario, Workload};

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
    /// Run the design asked for only, not also without a cache
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

    // A sequence's labels are those of the cache it was recorded with: without one they would all disagree.
    let baseline = !args.no_baseline && !scenario.cache.is_off() && !matches!(scenario.workload, Workload::Sequence(_));
    let mut designs = vec![scenario.cache];
    if baseline {
        designs.insert(0, CacheDesign::OFF);
    }
    let mut progress = Progress::new(&scenario.name);
    let count = designs.len() as f64;
    let mut runs = Vec::new();
    for (done, design) in designs.into_iter().enumerate() {
        scenario.cache = design;
        runs.push(sim::run(&scenario, &mut |share| progress.at((done as f64 + share) / count))?);
    }
    drop(progress);
    let failed = runs.iter().any(|run| run.failure.is_some());
    output::write(&RunReport { runs }, &args.output)?;
    Ok(if failed { Done::Failed } else { Done::Well })
}

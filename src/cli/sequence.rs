//! `hvmmio sequence FILE...`.

use std::path::PathBuf;

use crate::addr::Preset;
use crate::kvm_hv::CacheDesign;
use crate::report::{SequencesReport, WatchReport};
use crate::sim::StepsConfig;
use crate::workload::guest::Guest;
use crate::workload::sequence::{Sequence, SequenceConfig, run as run_sequence};

use super::args::{CacheArgs, KernelArgs, OutputArgs};
use super::{CliError, Done, output};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files of operations, one a line, with what a real kernel did (hit, miss) beside them
    #[arg(required_unless_present = "hazards", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What the kernel's hazards lead to, each beside a control without its decisive step (see `hvmmio compare --hazards`)
    #[arg(long, conflicts_with = "files")]
    hazards: bool,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    kernel: KernelArgs,
    /// Seed of the random policy
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs every file and compares with its labels.
pub(super) fn run(args: &Args) -> Result<Done, CliError> {
    let mut preset = Preset::default();
    let mut behaviour = preset.behaviour();
    args.kernel.apply(&mut preset, &mut behaviour)?;
    let cache = args.cache.apply(CacheDesign::KERNEL)?;
    if args.hazards {
        return hazards(args, preset, &StepsConfig { cache, behaviour, ..StepsConfig::default() });
    }
    let config = SequenceConfig { cache, behaviour, guest: Guest::default(), seed: args.seed };
    let read = args.files.iter().map(|file| Sequence::read(file)).collect::<Result<Vec<_>, _>>()?;
    let sequences = read.iter().map(|list| run_sequence(list, &config)).collect::<Result<Vec<_>, _>>()?;
    let report = SequencesReport { sequences };
    output::write(&report, &args.output)?;
    Ok(if report.agrees() { Done::Well } else { Done::Failed })
}

fn hazards(args: &Args, kernel: Preset, config: &StepsConfig) -> Result<Done, CliError> {
    let streams = super::steps::watched_hazards(|watched| {
        crate::proof::compare_steps::watch_simulated(config, watched).map_err(CliError::failed)
    })?;
    let switches = config.behaviour.differences(&kernel.behaviour());
    output::write(&WatchReport { real: None, kernel, switches, streams }, &args.output)?;
    Ok(Done::Well)
}

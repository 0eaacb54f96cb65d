//! `hvmmio compare` on POWER: streams of steps, a person's sequence, or the hazards.

use std::path::Path;

use super::Args;
use crate::addr::Preset;
use crate::cli::progress::Progress;
use crate::cli::steps::watched_hazards;
use crate::cli::{CliError, Done, output};
use crate::host::ppc64::{HashGuest, System, Tracing};
use crate::host::{HostError, release};
use crate::proof::compare_steps::{StepStream, StepsCompared, Watched, compare_steps, sequence_steps, watch};
use crate::report::{CompareStepsReport, ComparedStreams, WatchReport, WatchedStream};
use crate::sim::StepsConfig;
use crate::workload::sequence::Sequence;
use crate::workload::steps::HcallMode;

/// Accesses of a stream if not given: fewer than on x86_64, since an emulated host is slow.
const ACCESSES: u64 = 1000;

pub(super) fn run(args: &Args) -> Result<Done, CliError> {
    // What runs here, as near as a preset comes.
    let kernel = Preset::of_release(&release()).unwrap_or_default();
    let mut behaviour = kernel.behaviour();
    for setting in &args.set {
        behaviour.set(setting).map_err(CliError::input)?;
    }
    let config = StepsConfig { behaviour, ..StepsConfig::default() };
    let sequence = args.scenario.as_deref().map(|file| Sequence::read(Path::new(file))).transpose()?;
    let watched = sequence.as_ref().map(sequence_steps).transpose().map_err(CliError::input)?;
    let system = System::open().map_err(CliError::failed)?;
    let mut make = || HashGuest::new(&system, config.hpt_order, Tracing::On);
    // Once, so that a missing trace is told before anything runs.
    let first = make().map_err(CliError::failed)?;
    let (note, hcalls) = (first.note().map(str::to_owned), first.hcall_mode());
    // Its place in the trace goes to the next.
    drop(first);
    if let Some(note) = note {
        eprintln!("note: {note}");
    }
    if args.hazards || watched.is_some() {
        let look = |watched: &Watched| {
            let mut guest = make().map_err(CliError::failed)?;
            watch(&mut guest, &config, watched).map_err(CliError::failed)
        };
        let streams = match &watched {
            Some(watched) => {
                let about = "the file's operations, as the real kernel takes them".to_owned();
                vec![WatchedStream { about, seen: look(watched)? }]
            }
            None => watched_hazards(look)?,
        };
        let switches = behaviour.differences(&kernel.behaviour());
        let report = WatchReport { real: Some(release()), kernel, switches, streams };
        output::write(&report, &args.output)?;
        return Ok(if report.well() { Done::Well } else { Done::Failed });
    }
    let compared = drawn(&mut make, &config, hcalls, args)?;
    let accesses = args.accesses.unwrap_or(ACCESSES);
    let name = format!("streams of {accesses} accesses, seeds from {}", args.seed);
    let report = CompareStepsReport::new(&release(), kernel, &behaviour, vec![ComparedStreams { name, compared }]);
    output::write(&report, &args.output)?;
    Ok(if report.equal() { Done::Well } else { Done::Failed })
}

fn drawn(
    make: &mut dyn FnMut() -> Result<HashGuest, HostError>,
    config: &StepsConfig,
    hcalls: HcallMode,
    args: &Args,
) -> Result<StepsCompared, CliError> {
    let accesses = args.accesses.unwrap_or(ACCESSES);
    let mut progress = Progress::new("compare");
    let mut all = StepsCompared::default();
    for number in 0..args.streams {
        let stream = StepStream::draw(args.seed.wrapping_add(number), accesses, hcalls).map_err(CliError::failed)?;
        let compared = compare_steps(make, config, &stream).map_err(CliError::failed)?;
        all.counts.add(&compared.counts);
        progress.at((number + 1) as f64 / args.streams as f64);
        if compared.difference.is_some() {
            all.difference = compared.difference;
            break;
        }
    }
    Ok(all)
}

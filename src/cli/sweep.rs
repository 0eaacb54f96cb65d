//! `hvmmio sweep TRACE`.

use std::path::PathBuf;

use crate::cachelab::{LabPolicy, SweepConfig, sweep};
use crate::report::{SweepReport, curves};

use super::args::{OutputArgs, RecordingArgs};
use super::{CliError, Done, output, stop};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    recording: RecordingArgs,
    /// Sizes, each 0 (off) to 1024: ranges and numbers, for example 0..64 (both ends included) or 1,2,4,8..16
    #[arg(long, value_name = "SIZES", default_value = "0..64")]
    entries: String,
    /// Policies: all, or names with commas: round-robin, lru, clock, sieve, random, optimum
    #[arg(long, value_name = "POLICIES", default_value = "all")]
    policy: String,
    /// Also draw the miss ratio against the entries, a curve a policy, into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Sizes of `1,2,4..8`.
fn sizes(text: &str) -> Result<Vec<u64>, CliError> {
    let refused = |what: &str| {
        CliError::Input(format!(
            "--entries {text}: `{what}` is no size and no range of sizes: for example 0..64 or 1,2,4"
        ))
    };
    let number = |what: &str| what.trim().parse::<u64>().map_err(|_| refused(what));
    let mut sizes = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => sizes.push(number(part)?),
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last.strip_prefix('=').unwrap_or(last))?);
                // Beyond 1024 each size is refused anyway; a range to 2^64 is not spelled out for that.
                if first > last || last > 1 << 16 {
                    return Err(refused(part));
                }
                sizes.extend(first..=last);
            }
        }
    }
    Ok(sizes)
}

fn policies(text: &str) -> Result<Vec<LabPolicy>, CliError> {
    if text.eq_ignore_ascii_case("all") {
        return Ok(LabPolicy::ALL.to_vec());
    }
    let mut policies = Vec::new();
    for name in text.split(',') {
        let policy = name.trim().parse().map_err(CliError::input)?;
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    }
    Ok(policies)
}

/// Sweeps.
pub(super) fn run(args: &Args) -> Result<Done, CliError> {
    let config = SweepConfig {
        entries: sizes(&args.entries)?,
        policies: policies(&args.policy)?,
        key: args.recording.key(1),
        seed: args.recording.seed,
        machine: args.recording.machine()?,
    };
    let stop = stop::flag()?;
    let mut recording = args.recording.open()?;
    let result = sweep(&mut recording, &config, &stop, &mut |_| {})?;
    if let Some(path) = &args.svg {
        output::write_file(path, &curves(&result).map_err(CliError::failed)?)?;
    }
    let interrupted = result.interrupted;
    output::write(&SweepReport(result), &args.output)?;
    Ok(if interrupted { Done::Interrupted } else { Done::Well })
}

//! `hvmmio replay TRACE`.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::cachelab::{DeviceRange, LabPolicy, ReplayConfig, replay};
use crate::machine::{parse_toml, read_text};
use crate::report::RunReport;

use super::args::{OutputArgs, RecordingArgs};
use super::{CliError, Done, output, stop};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    recording: RecordingArgs,
    /// Entries of each cache, 0 (off) to 1024
    #[arg(long, value_name = "N", default_value_t = 4, allow_negative_numbers = true)]
    entries: u64,
    /// Replacement policy: round-robin (fifo), lru, clock, sieve, random or optimum (Belady's, which no cache can have)
    #[arg(long, value_name = "POLICY", default_value = "round-robin")]
    policy: LabPolicy,
    /// Sets among which pages are spread by their low bits; a divisor of the entries
    #[arg(long, value_name = "N", default_value_t = 1)]
    sets: u32,
    /// Count hits only: not why accesses missed, nor where or when
    #[arg(long)]
    counts_only: bool,
    /// Tell devices apart by the ranges in this file: [[device]] name = "...", first = 0x..., last = 0x... (guest physical)
    #[arg(long, value_name = "FILE")]
    devices: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceFile {
    device: Vec<DeviceEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceEntry {
    name: String,
    first: u64,
    last: u64,
}

fn devices(path: &Path) -> Result<Vec<DeviceRange>, CliError> {
    let text = read_text(path, "[[device]] tables: name, first, last").map_err(CliError::input)?;
    let file: DeviceFile = parse_toml(&path.display().to_string(), &text).map_err(CliError::input)?;
    if let Some(wrong) = file.device.iter().find(|device| device.last < device.first) {
        let (path, name, first, last) = (path.display(), &wrong.name, wrong.first, wrong.last);
        let what = format!("{path}: device {name}: last = {last:#x} lies below first = {first:#x}");
        return Err(CliError::Input(what));
    }
    let range = |DeviceEntry { name, first, last }| DeviceRange { name, first, last };
    Ok(file.device.into_iter().map(range).collect())
}

/// Replays.
pub(super) fn run(args: &Args) -> Result<Done, CliError> {
    let config = ReplayConfig {
        policy: args.policy,
        entries: args.entries,
        key: args.recording.key(args.sets),
        counts_only: args.counts_only,
        seed: args.recording.seed,
        devices: args.devices.as_deref().map_or_else(|| Ok(Vec::new()), devices)?,
        machine: args.recording.machine()?,
    };
    let stop = stop::flag()?;
    let mut recording = args.recording.open()?;
    let run = replay(&mut recording, &config, &stop)?;
    let interrupted = run.recorded.as_ref().is_some_and(|recorded| recorded.interrupted);
    output::write(&RunReport { runs: vec![run] }, &args.output)?;
    Ok(if interrupted { Done::Interrupted } else { Done::Well })
}

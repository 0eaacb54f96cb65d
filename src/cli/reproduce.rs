//! `hvmmio reproduce [NAME]`.

use std::path::PathBuf;

use crate::machine::Machine;
use crate::proof::{Benchmark, Comparison, OnHost, reproduce};
use crate::report::ReproduceReport;

use super::args::OutputArgs;
use super::progress::Progress;
use super::{CliError, Done, output};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// fio, netperf, coalesced-pio, pio-latency or pci-config, with its details; all in one table if not given
    #[arg(value_name = "NAME")]
    benchmark: Option<Benchmark>,
    /// Machine model to simulate with, a built-in name or a .toml file; without a NAME, the benchmarks that this model is of
    #[arg(long, value_name = "MODEL")]
    machine: Option<String>,
    /// Also measure on this machine's real KVM what it can of them, in this run
    #[arg(long)]
    host: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// A machine model by name or file.
fn machine(name: &str) -> Result<Machine, CliError> {
    match Machine::built_in(name) {
        Some(machine) => Ok(machine),
        None => Machine::read(&PathBuf::from(name)).map_err(CliError::input),
    }
}

/// What is asked for: benchmarks, each with its machine model.
fn chosen(args: &Args) -> Result<Vec<(Benchmark, Machine)>, CliError> {
    let Some(name) = &args.machine else {
        let benchmarks = args.benchmark.map_or_else(|| Benchmark::ALL.to_vec(), |benchmark| vec![benchmark]);
        return benchmarks.into_iter().map(|benchmark| Ok((benchmark, machine(benchmark.machine())?))).collect();
    };
    let model = machine(name)?;
    let benchmarks = args.benchmark.map_or_else(|| Benchmark::of(&model), |benchmark| vec![benchmark]);
    if benchmarks.is_empty() {
        let what = format!("machine {name} has no [fit] that says which published figures it is of: name a benchmark");
        return Err(CliError::Input(what));
    }
    Ok(benchmarks.into_iter().map(|benchmark| (benchmark, model.clone())).collect())
}

/// Reproduces.
pub(super) fn run(args: &Args) -> Result<Done, CliError> {
    let mut comparisons = Vec::new();
    for (benchmark, machine) in chosen(args)? {
        let mut progress = Progress::new(benchmark.name());
        comparisons.push(reproduce(benchmark, &machine, &mut |share| progress.at(share))?);
    }
    let host = if args.host { Some(measured(&comparisons)?) } else { None };
    output::write(&ReproduceReport { comparisons, host }, &args.output)?;
    Ok(Done::Well)
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn measured(comparisons: &[Comparison]) -> Result<OnHost, CliError> {
    let system = crate::host::x86_64::System::open().map_err(CliError::failed)?;
    let mut progress = Progress::new("this host");
    let host = crate::proof::on_host::measure(&system, comparisons, &mut |share| progress.at(share));
    let host = host.map_err(CliError::failed)?;
    if host.ratios.is_empty() {
        return Err(CliError::input(
            "--host: of these benchmarks nothing runs on x86; coalesced-pio, pio-latency and pci-config do",
        ));
    }
    Ok(host)
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn measured(_: &[Comparison]) -> Result<OnHost, CliError> {
    Err(CliError::failed(crate::host::NO_HOST_SIDE))
}

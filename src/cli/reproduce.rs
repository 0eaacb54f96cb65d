//! `hvmmio reproduce [fio|netperf]`.

use std::path::PathBuf;

use crate::machine::Machine;
use crate::proof::{Benchmark, reproduce};
use crate::report::ReproduceReport;

use super::args::OutputArgs;
use super::progress::Progress;
use super::{CliError, Done, output};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// fio or netperf; both if not given
    benchmark: Option<Benchmark>,
    /// Machine model to simulate with, a built-in name or a .toml file
    #[arg(long, value_name = "MODEL", default_value = "power8-2016")]
    machine: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// A machine model by name or file.
pub(super) fn machine(name: &str) -> Result<Machine, CliError> {
    match Machine::built_in(name) {
        Some(machine) => Ok(machine),
        None => Machine::read(&PathBuf::from(name)).map_err(CliError::input),
    }
}

/// Reproduces.
pub(super) fn run(args: &Args) -> Result<Done, CliError> {
    let machine = machine(&args.machine)?;
    let benchmarks = args.benchmark.map_or_else(|| Benchmark::ALL.to_vec(), |benchmark| vec![benchmark]);
    let mut comparisons = Vec::new();
    for benchmark in benchmarks {
        let mut progress = Progress::new(benchmark.name());
        comparisons.push(reproduce(benchmark, &machine, &mut |share| progress.at(share))?);
    }
    output::write(&ReproduceReport { comparisons }, &args.output)?;
    Ok(Done::Well)
}

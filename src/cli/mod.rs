//! The command line: one file per verb.
//!
//! Exit codes: 0 done; 1 the run failed or a comparison differed; 2 bad usage or input.

mod args;
mod calibrate;
mod compare;
mod error;
mod host;
mod host_run;
mod list;
mod output;
mod progress;
mod replay;
mod reproduce;
mod run;
mod sequence;
mod steps;
mod stop;
mod sweep;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use error::CliError;

/// Simulator of the PowerPC Book3S HV MMIO fast path: what the per-vCPU MMIO HPTE cache does for a workload.
#[derive(Debug, Parser)]
#[command(name = "hvmmio", version, about, max_term_width = 110, after_help = AFTER)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

const AFTER: &str = "Start with `hvmmio reproduce`: every published figure next to the simulated one.\n\
                     Exit codes: 0 done, 1 the run failed or a comparison differed, 2 bad usage or input, 130 interrupted.";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a scenario: without a cache and with the one asked for; on x86 in each port mode
    Run(run::Args),
    /// Real KVM on this machine
    Host(host::Args),
    /// The simulator against this machine's KVM, access by access
    Compare(compare::Args),
    /// List scenarios, machine models, kernels, policies and switches
    List(list::Args),
    /// Simulate the published benchmarks and set the figures side by side
    Reproduce(reproduce::Args),
    /// Run sequences of operations through the whole path and compare with their labels
    Sequence(sequence::Args),
    /// Replay a recording on the cache alone: what hit, what missed and why
    Replay(replay::Args),
    /// Many sizes and policies over a recording: miss-ratio curves, the optimum, a recommendation
    Sweep(sweep::Args),
    /// Convert, make up and record traces
    Trace(trace::Args),
    /// Derive what the published rows allow to derive of a machine model
    Calibrate(calibrate::Args),
}

/// How a verb ended when nothing went wrong with running it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    /// All is well.
    Well,
    /// It ran, and what it found is a failure: labels that disagree, an access that retries for ever.
    Failed,
    /// Ctrl-C ended it early; what was done by then was told.
    Interrupted,
}

/// Parses the command line, runs the verb, returns the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed pipe while help is printed is nobody's failure.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let done = match &cli.verb {
        Verb::Run(args) => run::run(args),
        Verb::Host(args) => host::run(args),
        Verb::Compare(args) => compare::run(args),
        Verb::List(args) => list::run(args),
        Verb::Reproduce(args) => reproduce::run(args),
        Verb::Sequence(args) => sequence::run(args),
        Verb::Replay(args) => replay::run(args),
        Verb::Sweep(args) => sweep::run(args),
        Verb::Trace(args) => trace::run(args),
        Verb::Calibrate(args) => calibrate::run(args),
    };
    match done {
        Ok(Done::Well) => ExitCode::SUCCESS,
        Ok(Done::Failed) => ExitCode::from(1),
        Ok(Done::Interrupted) => ExitCode::from(130),
        Err(error) => error.report(),
    }
}

//! `hvmmio list`.

use crate::report;

use super::args::OutputArgs;
use super::{CliError, Done, output};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    output: OutputArgs,
}

/// Lists everything with a name.
pub(super) fn run(args: &Args) -> Result<Done, CliError> {
    output::write(&report::list(), &args.output)?;
    Ok(Done::Well)
}

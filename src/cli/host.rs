//! `hvmmio host`: its verbs.

use clap::Subcommand;

use super::args::OutputArgs;
use super::{CliError, Done, host_run};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Tell what this machine's KVM is, what it can do, and what it does, by experiment
    Probe(ProbeArgs),
    /// Run a scenario's workload on this machine's real KVM and measure it
    Run(host_run::Args),
}

#[derive(Debug, clap::Args)]
struct ProbeArgs {
    #[command(flatten)]
    output: OutputArgs,
}

/// Does it.
pub(super) fn run(args: &Args) -> Result<Done, CliError> {
    match &args.verb {
        Verb::Probe(args) => here::probe(args),
        Verb::Run(args) => host_run::run(args),
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod here {
    use crate::cli::{CliError, Done, output};
    use crate::host::x86_64::{System, probe as probe_host};

    pub(super) fn probe(args: &super::ProbeArgs) -> Result<Done, CliError> {
        let found = System::open().and_then(|system| probe_host(&system)).map_err(CliError::failed)?;
        output::write(&found, &args.output)?;
        Ok(Done::Well)
    }
}

#[cfg(all(target_os = "linux", target_arch = "powerpc64", target_endian = "little"))]
mod here {
    use crate::cli::{CliError, Done, output};
    use crate::host::ppc64::{System, probe as probe_host};

    pub(super) fn probe(args: &super::ProbeArgs) -> Result<Done, CliError> {
        let found = System::open().and_then(|system| probe_host(&system)).map_err(CliError::failed)?;
        output::write(&found, &args.output)?;
        Ok(if found.hash_guest.is_ok() { Done::Well } else { Done::Failed })
    }
}

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", all(target_arch = "powerpc64", target_endian = "little"))
)))]
mod here {
    use crate::cli::{CliError, Done};
    use crate::host::NO_HOST_SIDE;

    pub(super) fn probe(_: &super::ProbeArgs) -> Result<Done, CliError> {
        Err(CliError::failed(NO_HOST_SIDE))
    }
}

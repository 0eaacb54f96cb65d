//! What ends a verb, as a person reads it, and its exit code.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use miette::{Diagnostic, MietteHandlerOpts, Report};

use crate::cachelab::LabFailure;
use crate::proof::{FitError, ReproduceError};
use crate::sim::{ScenarioError, SimError};
use crate::trace::TraceError;
use crate::workload::sequence::SequenceError;

/// A width that no message reaches.
const UNWRAPPED: usize = 1 << 20;

/// An error of the command line.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum CliError {
    /// Bad usage or input.
    #[error("{0}")]
    Input(String),
    /// The run failed.
    #[error("{0}")]
    Failed(String),
}

impl CliError {
    /// Prints it and gives its exit code.
    pub fn report(self) -> ExitCode {
        let code = match self {
            Self::Input(_) => 2,
            Self::Failed(_) => 1,
        };
        // Wrapped for a person at a terminal, in one piece for whatever reads it elsewhere.
        if !std::io::stderr().is_terminal() {
            let handler = |_: &_| Box::new(MietteHandlerOpts::new().width(UNWRAPPED).build()) as _;
            // It was not set before: this is the only place.
            let _ = miette::set_hook(Box::new(handler));
        }
        eprint!("{:?}", Report::new(self));
        ExitCode::from(code)
    }

    pub fn input(error: impl std::fmt::Display) -> Self {
        Self::Input(error.to_string())
    }

    pub fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<ScenarioError> for CliError {
    fn from(error: ScenarioError) -> Self {
        Self::input(error)
    }
}

impl From<SimError> for CliError {
    fn from(error: SimError) -> Self {
        match error {
            // What the scenario asks for cannot be built: that is its fault, not the run's.
            SimError::Vm(_)
            | SimError::Io(_)
            | SimError::Notify(_)
            | SimError::Queue(_)
            | SimError::Ram { .. }
            | SimError::Pci(_)
            | SimError::Unreachable(_)
            | SimError::Misfit { .. } => Self::input(error),
            error => Self::failed(error),
        }
    }
}

impl From<ReproduceError> for CliError {
    fn from(error: ReproduceError) -> Self {
        match &error {
            ReproduceError::Sim(cause) if matches!(**cause, SimError::Misfit { .. }) => Self::input(error),
            _ => Self::failed(error),
        }
    }
}

impl From<FitError> for CliError {
    fn from(error: FitError) -> Self {
        match error {
            FitError::File(_) | FitError::NoFit { .. } | FitError::Negative { .. } => Self::input(error),
            FitError::Run(_) => Self::failed(error),
        }
    }
}

impl From<SequenceError> for CliError {
    fn from(error: SequenceError) -> Self {
        Self::input(error)
    }
}

impl From<LabFailure> for CliError {
    fn from(error: LabFailure) -> Self {
        match error {
            LabFailure::Cost(_) => Self::failed(error),
            error => Self::input(error),
        }
    }
}

impl From<TraceError> for CliError {
    fn from(error: TraceError) -> Self {
        match error {
            TraceError::Write { .. } => Self::failed(error),
            error => Self::input(error),
        }
    }
}

//! The command line: one file per verb.

use std::process::ExitCode;

/// Parses the command line, runs the verb, returns the exit code.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}

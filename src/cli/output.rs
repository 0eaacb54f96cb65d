//! Writing a report: to standard output, or to a file that appears whole or not at all.

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use crate::report::Report;

use super::CliError;
use super::args::OutputArgs;

/// Renders a report and writes it where it was asked for.
pub(super) fn write(report: &impl Report, args: &OutputArgs) -> Result<(), CliError> {
    let text = report.render(args.format).map_err(CliError::failed)?;
    match &args.output {
        Some(path) => write_file(path, &text),
        None => print(&text),
    }
}

/// Prints, and takes a reader that has seen enough (a closed pipe) as no error.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    let text = if out.is_terminal() { bold(text) } else { text.to_owned() };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::Failed(format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// `**bold**` as a terminal shows it, in as many columns. A marker without its pair stays.
fn bold(text: &str) -> String {
    let line = |line: &str| {
        let parts: Vec<_> = line.split("**").collect();
        if parts.len() % 2 == 0 {
            return line.to_owned();
        }
        let part = |(place, part): (usize, &&str)| {
            if place % 2 == 1 { format!("  \x1b[1m{part}\x1b[0m  ") } else { (*part).to_owned() }
        };
        parts.iter().enumerate().map(part).collect()
    };
    text.split_inclusive('\n').map(line).collect()
}

/// Writes a file by way of a new one beside it.
pub(super) fn write_file(path: &Path, text: &str) -> Result<(), CliError> {
    let refused = |error: io::Error| CliError::Input(format!("{}: cannot be written: {error}", path.display()));
    let name = path.file_name().ok_or_else(|| refused(io::Error::other("it names no file")))?;
    let mut beside = name.to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = path.with_file_name(beside);
    let written = fs::File::create_new(&beside)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        // Nothing half-written is left behind; that it may not be there is fine.
        let _ = fs::remove_file(&beside);
        refused(error)
    })
}

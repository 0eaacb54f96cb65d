//! `hvmmio calibrate`.

use std::path::PathBuf;

use crate::machine::{self, Kind, Machine, read_text};
use crate::proof::{calibrate, calibrate_x86};
use crate::report::{CalibrationReport, Format, Report as _, X86CalibrationReport};

use super::{CliError, Done, output};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Machine model to fit, a built-in name or a .toml file with a [fit] table
    #[arg(long, value_name = "MODEL", default_value = "power8-2016")]
    machine: String,
    /// How the report is written: table, json or csv
    #[arg(long, default_value_t)]
    format: Format,
    /// Write the fitted machine model to this file; it appears whole or not at all
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Fits.
pub(super) fn run(args: &Args) -> Result<Done, CliError> {
    let built_in = machine::BUILT_IN.iter().find(|(name, _)| *name == args.machine);
    let (file, text) = match built_in {
        Some((name, text)) => (format!("models/machines/{name}.toml"), (*text).to_owned()),
        None => {
            let text = read_text(&PathBuf::from(&args.machine), "a machine model").map_err(CliError::input)?;
            (args.machine.clone(), text)
        }
    };
    let kind = Machine::parse(&file, &text).map_err(CliError::input)?.kind;
    let (fitted, report) = match kind {
        Kind::Book3sHv => {
            let calibration = calibrate(&file, &text)?;
            (calibration.text.clone(), CalibrationReport { calibration }.render(args.format))
        }
        Kind::X86 => {
            let calibration = calibrate_x86(&file, &text)?;
            (calibration.text.clone(), X86CalibrationReport { calibration }.render(args.format))
        }
    };
    if let Some(path) = &args.output {
        output::write_file(path, &fitted)?;
    }
    output::print(&report.map_err(CliError::failed)?)?;
    Ok(Done::Well)
}

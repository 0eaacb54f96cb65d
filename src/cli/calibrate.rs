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
    /// Measure this machine's real KVM instead, and make a model of it
    #[arg(long, conflicts_with = "machine")]
    host: bool,
    /// How the report is written: table, json or csv
    #[arg(long, default_value_t)]
    format: Format,
    /// Write the fitted machine model to this file; it appears whole or not at all
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Fits.
pub(super) fn run(args: &Args) -> Result<Done, CliError> {
    if args.host {
        return here::measure(args);
    }
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

/// The model's name where its file does not give one.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", all(target_arch = "powerpc64", target_endian = "little"))))]
const THIS_HOST: &str = "this-host";

/// Fits a model to this host, called as its file is, and writes it and the report.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", all(target_arch = "powerpc64", target_endian = "little"))))]
fn measured<M: crate::report::Report>(
    args: &Args,
    fit: impl FnOnce(&str, &mut dyn FnMut(f64)) -> Result<M, CliError>,
    text: fn(&M) -> &str,
) -> Result<Done, CliError> {
    let stem = args.output.as_ref().and_then(|path| path.file_stem()?.to_str());
    let mut progress = super::progress::Progress::new("this host");
    let model = fit(stem.unwrap_or(THIS_HOST), &mut |share| progress.at(share))?;
    drop(progress);
    if let Some(path) = &args.output {
        output::write_file(path, text(&model))?;
    }
    output::print(&model.render(args.format).map_err(CliError::failed)?)?;
    Ok(Done::Well)
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod here {
    use super::super::{CliError, Done};
    use super::{Args, measured};
    use crate::host::x86_64::System;
    use crate::proof::host_fit::fit_host;

    pub(super) fn measure(args: &Args) -> Result<Done, CliError> {
        let system = System::open().map_err(CliError::failed)?;
        measured(
            args,
            |name, progress| fit_host(&system, name, progress).map_err(CliError::failed),
            |model| &model.text,
        )
    }
}

#[cfg(all(target_os = "linux", target_arch = "powerpc64", target_endian = "little"))]
mod here {
    use super::super::{CliError, Done};
    use super::{Args, measured};
    use crate::host::ppc64::System;
    use crate::proof::store_fit::fit_stores;

    pub(super) fn measure(args: &Args) -> Result<Done, CliError> {
        let system = System::open().map_err(CliError::failed)?;
        measured(
            args,
            |name, progress| fit_stores(&system, name, progress).map_err(CliError::failed),
            |model| &model.text,
        )
    }
}

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", all(target_arch = "powerpc64", target_endian = "little"))
)))]
mod here {
    use super::super::{CliError, Done};
    use crate::host::NO_HOST_SIDE;

    pub(super) fn measure(_: &super::Args) -> Result<Done, CliError> {
        Err(CliError::failed(NO_HOST_SIDE))
    }
}

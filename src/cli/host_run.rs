//! `hvmmio host run SCENARIO`.

use super::args::{OutputArgs, WayArgs};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A built-in scenario (see `hvmmio list`) or a scenario file (.toml); its machine model and cache mean nothing here
    scenario: String,
    /// vCPUs, each a thread, 1 to 64; [pio], [doorbells] and [mixed]
    #[arg(long, value_name = "N")]
    vcpus: Option<u64>,
    /// Virtio devices; [pci]: virtio functions, 1 to 248
    #[arg(long, value_name = "N")]
    devices: Option<u64>,
    /// Make so many accesses, in place of the scenario's own count: of each vCPU, to the end; [pio], [doorbells], [mixed], raw reads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Stop each run after so many seconds, whatever the scenario's count; 0 goes to the end
    #[arg(long, value_name = "S", default_value_t = 1.0, conflicts_with = "count")]
    seconds: f64,
    #[command(flatten)]
    ways: WayArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod here {
    use std::time::Duration;

    use super::Args;
    use crate::cli::progress::Progress;
    use crate::cli::{CliError, Done, output};
    use crate::host::x86_64::run::{Pace, run as run_on_host, variants};
    use crate::host::x86_64::{HostError, System};
    use crate::report::RunReport;
    use crate::sim::{Scenario, Workload};
    use crate::workload::pci_config::PciTask;

    impl Args {
        fn pace(&self) -> Result<Pace, CliError> {
            if self.count.is_some() {
                return Ok(Pace::Whole);
            }
            match Duration::try_from_secs_f64(self.seconds) {
                Ok(Duration::ZERO) => Ok(Pace::Whole),
                Ok(time) => Ok(Pace::Within(time)),
                Err(_) => Err(CliError::Input(format!("--seconds {}: 0 or more", self.seconds))),
            }
        }

        fn apply(&self, scenario: &mut Scenario) -> Result<(), CliError> {
            let unknown = |flag: &str, scenario: &Scenario| {
                let what =
                    format!("{flag} means nothing for {}: a {} workload", scenario.name, scenario.workload.kind());
                Err(CliError::Input(what))
            };
            if let Some(devices) = self.devices {
                if !matches!(scenario.workload, Workload::Pci(_) | Workload::Doorbells(_)) {
                    return unknown("--devices", scenario);
                }
                scenario.set_devices(devices)?;
            }
            if let Some(vcpus) = self.vcpus {
                if !matches!(scenario.workload, Workload::Pio(_) | Workload::Doorbells(_) | Workload::Mixed(_)) {
                    return unknown("--vcpus", scenario);
                }
                scenario.set_vcpus(vcpus)?;
            }
            if let Some(asked) = self.count {
                match &mut scenario.workload {
                    Workload::Pio(stream) => stream.count = asked,
                    Workload::Doorbells(spec) => spec.count = asked,
                    Workload::Mixed(spec) => spec.count = asked,
                    Workload::Pci(config) => match &mut config.task {
                        PciTask::RawReads { count, .. } => *count = asked,
                        PciTask::Scan => return unknown("--count", scenario),
                    },
                    _ => return unknown("--count", scenario),
                }
            }
            if !self.ways.method.is_empty() {
                let Workload::Pci(config) = &mut scenario.workload else { return unknown("--method", scenario) };
                config.methods.clone_from(&self.ways.method);
            }
            if !self.ways.mode.is_empty() {
                if !matches!(scenario.workload, Workload::Pio(_) | Workload::Rtc(_)) {
                    return unknown("--mode", scenario);
                }
                scenario.modes.clone_from(&self.ways.mode);
            }
            Ok(())
        }
    }

    /// Runs it.
    pub(in crate::cli) fn run(args: &Args) -> Result<Done, CliError> {
        let mut scenario = Scenario::load(&args.scenario)?;
        args.apply(&mut scenario)?;
        let pace = args.pace()?;
        let system = System::open().map_err(CliError::failed)?;
        let variants = variants(&scenario);
        let mut progress = Progress::new(&scenario.name);
        let count = variants.len() as f64;
        let mut runs = Vec::new();
        for (done, variant) in variants.iter().enumerate() {
            let ran = run_on_host(&system, variant, pace, &mut |share| progress.at((done as f64 + share) / count));
            runs.push(ran.map_err(|error| match error {
                HostError::Unsupported(_) => CliError::input(error),
                error => CliError::Failed(format!("{}: {error}", variant.way())),
            })?);
        }
        drop(progress);
        output::write(&RunReport { runs }, &args.output)?;
        Ok(Done::Well)
    }
}

#[cfg(all(target_os = "linux", target_arch = "powerpc64", target_endian = "little"))]
#[path = "host_run_ppc64.rs"]
mod here;

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", all(target_arch = "powerpc64", target_endian = "little"))
)))]
mod here {
    use crate::cli::{CliError, Done};
    use crate::host::NO_HOST_SIDE;

    pub(in crate::cli) fn run(_: &super::Args) -> Result<Done, CliError> {
        Err(CliError::failed(NO_HOST_SIDE))
    }
}

pub(super) use here::run;

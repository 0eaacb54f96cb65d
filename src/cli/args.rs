//! Flags that mean the same in every verb.

use std::path::PathBuf;

use crate::addr::{KernelBehaviour, Preset};
use crate::cachelab::{KeyDesign, KeyKind};
use crate::device::NotifyLayout;
use crate::kvm_hv::{CacheDesign, PolicyKind};
use crate::machine::{Kind, Machine};
use crate::report::Format;
use crate::sim::Scenario;
use crate::trace::{Recording, TraceFormat};
use crate::workload::pci_config::PciMethod;
use crate::workload::ports::PortMode;

use super::CliError;

/// Where and how the report goes.
#[derive(Debug, clap::Args)]
pub(super) struct OutputArgs {
    /// How the report is written: table, json or csv
    #[arg(long, default_value_t)]
    pub format: Format,
    /// Write the report to this file instead of standard output; it appears whole or not at all
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// The kernel that is emulated.
#[derive(Debug, clap::Args)]
pub(super) struct KernelArgs {
    /// Kernel preset: linux-6.1 or linux-6.12
    #[arg(long, value_name = "PRESET")]
    pub kernel: Option<Preset>,
    /// Change a named switch of the kernel, for example key_on_page_out=kept; may be given again
    #[arg(long, value_name = "SWITCH=VALUE")]
    pub set: Vec<String>,
}

impl KernelArgs {
    /// Applies them to a preset and its switches.
    pub fn apply(&self, preset: &mut Preset, behaviour: &mut KernelBehaviour) -> Result<(), CliError> {
        if let Some(kernel) = self.kernel {
            *preset = kernel;
            *behaviour = kernel.behaviour();
        }
        for setting in &self.set {
            behaviour.set(setting).map_err(CliError::input)?;
        }
        Ok(())
    }
}

/// The cache.
#[derive(Debug, clap::Args)]
pub(super) struct CacheArgs {
    /// Entries of the per-vCPU MMIO HPTE cache, 0 (off) to 1024
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub entries: Option<u64>,
    /// Replacement policy: round-robin, lru, clock, sieve or random
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<PolicyKind>,
}

impl CacheArgs {
    /// `design` with what was asked for.
    pub fn apply(&self, design: CacheDesign) -> Result<CacheDesign, CliError> {
        let entries = self.entries.unwrap_or(design.entries() as u64);
        CacheDesign::new(entries, self.policy.unwrap_or(design.policy())).map_err(CliError::input)
    }
}

/// What a recording's cache compares, and how the recording is read.
#[derive(Debug, clap::Args)]
pub(super) struct RecordingArgs {
    /// A recording: ftrace, trace-cmd or perf script text, .hvt, csv with named columns, oracleGeneral; also as .gz or .zst
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// The recording's form, where it cannot be told from the file: ftrace, hvt, csv or oracle-general
    #[arg(long, value_name = "FORM")]
    pub from: Option<TraceFormat>,
    /// What the cache compares: kernel (page, segment, generation), page (no invalidation) or per-hpte (removing an HPTE makes
    /// its own entries old only)
    #[arg(long, value_name = "KEY", default_value = "kernel")]
    pub key: KeyKind,
    /// One cache for all vCPUs of a VM instead of one each
    #[arg(long)]
    pub shared: bool,
    /// Machine model that prices hits and misses, a built-in name or a .toml file
    #[arg(long, value_name = "MODEL", default_value = "power8-2016")]
    pub machine: String,
    /// Seed of the random policy
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

impl RecordingArgs {
    /// Opens the recording.
    pub fn open(&self) -> Result<Recording, CliError> {
        Ok(Recording::open_as(&self.trace, self.from)?)
    }

    /// The machine model; one of POWER's path.
    pub fn machine(&self) -> Result<Machine, CliError> {
        let machine = match Machine::built_in(&self.machine) {
            Some(machine) => machine,
            None => Machine::read(&PathBuf::from(&self.machine)).map_err(CliError::input)?,
        };
        if machine.kind != Kind::Book3sHv {
            let what = format!(
                "machine {} is of kind {}: the MMIO HPTE cache is priced by one of kind book3s-hv",
                machine.name,
                machine.kind.name()
            );
            return Err(CliError::Input(what));
        }
        Ok(machine)
    }

    /// The key.
    pub const fn key(&self, sets: u32) -> KeyDesign {
        KeyDesign { kind: self.key, shared: self.shared, sets }
    }
}

/// In which ways an x86 workload runs.
#[derive(Debug, clap::Args)]
pub(super) struct WayArgs {
    /// How port accesses are handled, x86: regs-every-exit, regs-when-needed, in-kernel or coalesced; may be given again
    #[arg(long, value_name = "MODE")]
    pub mode: Vec<PortMode>,
    /// How configuration space is reached, [pci]: type1, type1-coalesced, type1-ecam, ecam or ecam-read-only; may be given again
    #[arg(long, value_name = "METHOD")]
    pub method: Vec<PciMethod>,
}

/// The guest.
#[derive(Debug, clap::Args)]
pub(super) struct GuestArgs {
    /// vCPUs, 1 to 1024
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub vcpus: Option<u64>,
    /// Virtio devices, 1 to 1024; [pci]: virtio functions, 1 to 248
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub devices: Option<u64>,
    /// Doorbell layout: legacy (devices share an HPTE) or modern (an HPTE each)
    #[arg(long, value_name = "LAYOUT")]
    pub layout: Option<NotifyLayout>,
    /// Seed of everything drawn
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<u64>,
}

impl GuestArgs {
    /// Applies them to a scenario.
    pub fn apply(&self, scenario: &mut Scenario) -> Result<(), CliError> {
        if let Some(vcpus) = self.vcpus {
            scenario.set_vcpus(vcpus)?;
        }
        if let Some(devices) = self.devices {
            scenario.set_devices(devices)?;
        }
        scenario.layout = self.layout.unwrap_or(scenario.layout);
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        Ok(())
    }
}

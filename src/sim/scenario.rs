//! Scenarios: a machine, a guest, a cache design and a workload in one TOML file.

mod file;
mod file_x86;

use std::path::Path;

use serde::Deserialize;

use crate::addr::{KernelBehaviour, Preset, SwitchError};
use crate::device::NotifyLayout;
use crate::io::pci::MAX_VIRTIO_FUNCTIONS;
use crate::kvm_hv::{CacheDesign, CacheError};
use crate::machine::{FileError, Kind, Machine, read_text};
use crate::workload::fio::{FioError, JobFile, Plan};
use crate::workload::mixed::Mixed;
use crate::workload::netperf::{NetperfError, TcpRr};
use crate::workload::pci_config::PciConfig;
use crate::workload::ports::{PioStream, PortMode};
use crate::workload::rtc_tick::RtcTick;
use crate::workload::sequence::{Sequence, SequenceError};

/// Most vCPUs and devices that a scenario may have.
pub const MAX_VCPUS: u64 = 1024;
/// Devices that share a vCPU's doorbell page in the legacy layout, and the most a scenario may have.
pub const MAX_DEVICES: u64 = 1024;

/// Scenarios shipped with the crate: name and text.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("fio-null-blk", include_str!("../../models/scenarios/fio-null-blk.toml")),
    ("fio-coalesced", include_str!("../../models/scenarios/fio-coalesced.toml")),
    ("netperf-tcp-rr", include_str!("../../models/scenarios/netperf-tcp-rr.toml")),
    ("doorbells", include_str!("../../models/scenarios/doorbells.toml")),
    ("doorbells-coalesced", include_str!("../../models/scenarios/doorbells-coalesced.toml")),
    ("key31-page-out", include_str!("../../models/scenarios/key31-page-out.toml")),
    ("pio-timeline", include_str!("../../models/scenarios/pio-timeline.toml")),
    ("rtc-tick", include_str!("../../models/scenarios/rtc-tick.toml")),
    ("pci-scan", include_str!("../../models/scenarios/pci-scan.toml")),
    ("pci-raw-read", include_str!("../../models/scenarios/pci-raw-read.toml")),
    ("mixed", include_str!("../../models/scenarios/mixed.toml")),
    ("pci-boot", include_str!("../../models/scenarios/pci-boot.toml")),
];

/// Workload files shipped with the crate, which scenarios name: file name and text.
pub const BUILT_IN_WORKLOADS: &[(&str, &str)] = &[
    ("fio-null-blk.fio", include_str!("../../models/workloads/fio-null-blk.fio")),
    ("key31-page-out.txt", include_str!("../../models/workloads/key31-page-out.txt")),
];

/// Why a scenario was refused.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The scenario or machine file itself.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its fio job file.
    #[error(transparent)]
    Fio(#[from] FioError),
    /// Its netperf test.
    #[error(transparent)]
    Netperf(#[from] NetperfError),
    /// Its sequence file.
    #[error(transparent)]
    Sequence(#[from] SequenceError),
    /// A cache design out of range.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A switch or preset that is none.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// No built-in scenario and no file of that name.
    #[error("`{name}` is neither a built-in scenario ({known}) nor a .toml or .fio file")]
    Unknown {
        /// What was given.
        name: String,
        /// The built-in names.
        known: String,
    },
    /// A count out of range.
    #[error("{what} = {value} is out of range: {least} to {most}")]
    Range {
        /// Which.
        what: &'static str,
        /// What was given.
        value: u64,
        /// Least.
        least: u64,
        /// Most.
        most: u64,
    },
}

/// How doorbells leave the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notify {
    /// An ioeventfd of this length: 0 (any length, on KVM_FAST_MMIO_BUS too), 1, 2, 4 or 8 bytes.
    Ioeventfd {
        /// Length in bytes.
        length: u32,
    },
    /// An exit to user space each time.
    Exit,
    /// A coalesced zone over the doorbells, drained at exits and by a VMM thread that polls.
    Coalesced {
        /// Time between two polls, ns.
        poll_ns: u64,
    },
}

impl Notify {
    /// In words.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Ioeventfd { length } => format!("ioeventfd of length {length}"),
            Self::Exit => "exit to user space".to_owned(),
            Self::Coalesced { poll_ns } => format!("coalesced zone, polled every {} us", *poll_ns as f64 / 1000.0),
        }
    }
}

/// In which order a vCPU's doorbells go over the devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// In turn.
    #[default]
    RoundRobin,
    /// Drawn alike.
    Uniform,
}

/// A bare stream of doorbells, no queue behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doorbells {
    /// Doorbells of each vCPU.
    pub count: u64,
    /// Order.
    #[serde(default)]
    pub pattern: Pattern,
    /// Guest time between two, ns.
    #[serde(default)]
    pub gap_ns: u64,
    /// After so many doorbells the guest removes and re-enters a doorbell page's HPTE; 0 is never.
    #[serde(default)]
    pub remove_every: u64,
}

/// What runs in the guest.
#[derive(Clone, Debug)]
pub enum Workload {
    /// The jobs of a fio job file.
    Fio(Box<Plan>),
    /// A netperf request/response test.
    Netperf(TcpRr),
    /// A stream of doorbells.
    Doorbells(Doorbells),
    /// A sequence of operations.
    Sequence(Sequence),
    /// A stream of port accesses, x86.
    Pio(PioStream),
    /// The RTC as system tick, x86.
    Rtc(RtcTick),
    /// PCI configuration, x86.
    Pci(PciConfig),
    /// Every way of an access at once, x86.
    Mixed(Mixed),
}

impl Workload {
    /// Its kind in a word or two.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Fio(_) => "fio",
            Self::Netperf(_) => "netperf TCP_RR",
            Self::Doorbells(_) => "doorbells",
            Self::Sequence(_) => "sequence",
            Self::Pio(_) => "pio",
            Self::Rtc(_) => "rtc",
            Self::Pci(_) => "pci",
            Self::Mixed(_) => "mixed",
        }
    }

    /// The kind of machine it runs on.
    #[must_use]
    pub const fn machine_kind(&self) -> Kind {
        match self {
            Self::Fio(_) | Self::Netperf(_) | Self::Doorbells(_) | Self::Sequence(_) => Kind::Book3sHv,
            Self::Pio(_) | Self::Rtc(_) | Self::Pci(_) | Self::Mixed(_) => Kind::X86,
        }
    }
}

/// Whether a run is set beside others that tell what it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Baseline {
    /// It is.
    With,
    /// It runs alone.
    Without,
}

/// A scenario, checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name.
    pub name: String,
    /// What it shows, in a sentence.
    pub description: String,
    /// Costs.
    pub machine: Machine,
    /// Kernel preset.
    pub preset: Preset,
    /// Its switches, those changed included.
    pub behaviour: KernelBehaviour,
    /// The vCPUs' cache.
    pub cache: CacheDesign,
    /// vCPUs, 1 to 1024.
    pub vcpus: u32,
    /// Devices, 1 to 1024; of a PCI workload its virtio functions, 1 to 248.
    pub devices: u32,
    /// Doorbell layout.
    pub layout: NotifyLayout,
    /// HPT order, 18 to 46.
    pub hpt_order: u32,
    /// How doorbells leave the guest.
    pub notify: Notify,
    /// How port accesses are handled in a run, x86.
    pub mode: PortMode,
    /// The modes that `hvmmio run` compares, x86.
    pub modes: Vec<PortMode>,
    /// What runs.
    pub workload: Workload,
    /// Seed of everything drawn.
    pub seed: u64,
}

impl Scenario {
    /// A built-in scenario by name, a `.toml` scenario file, or a `.fio` job file (run as `fio-null-blk` is).
    ///
    /// # Errors
    /// Whatever is wrong, with file and line.
    pub fn load(name: &str) -> Result<Self, ScenarioError> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Self::parse(&format!("models/scenarios/{name}.toml"), text, None);
        }
        let path = Path::new(name);
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("toml") => {
                let text = read_text(path, "a scenario: name, description, machine and a workload table")?;
                Self::parse(name, &text, Some(path.parent().unwrap_or_else(|| Path::new(""))))
            }
            Some("fio") => {
                let plan = JobFile::read(path)?.plan()?;
                let mut scenario = Self::load("fio-null-blk")?;
                name.clone_into(&mut scenario.name);
                scenario.description = format!("the fio job file {name} on null block devices");
                scenario.workload = Workload::Fio(Box::new(plan));
                Ok(scenario)
            }
            _ => {
                let known = BUILT_IN.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
                Err(ScenarioError::Unknown { name: name.to_owned(), known })
            }
        }
    }

    /// The runs that `hvmmio run` sets side by side. On x86 one a port mode or configuration method. On POWER this scenario's own
    /// last: before it the same without a cache, or, if its doorbells are coalesced, the two ways that a stock kernel has
    /// instead: the exit and an ioeventfd as long as the store.
    #[must_use]
    pub fn variants(&self, baseline: Baseline) -> Vec<Self> {
        if let Workload::Pci(config) = &self.workload {
            let by = |method: &_| Workload::Pci(PciConfig { method: *method, ..config.clone() });
            return config.methods.iter().map(|method| Self { workload: by(method), ..self.clone() }).collect();
        }
        if self.workload.machine_kind() == Kind::X86 {
            return self.modes.iter().map(|mode| Self { mode: *mode, ..self.clone() }).collect();
        }
        let notified = |notify| Self { notify, ..self.clone() };
        let mut before = match (baseline, &self.workload, self.notify) {
            // A sequence's labels are those of the cache it was recorded with: without one they would all disagree.
            (Baseline::Without, ..) | (_, Workload::Sequence(_), _) => Vec::new(),
            (_, _, Notify::Coalesced { .. }) => vec![notified(Notify::Exit), notified(Notify::Ioeventfd { length: 2 })],
            _ if self.cache.is_off() => Vec::new(),
            _ => vec![Self { cache: CacheDesign::OFF, ..self.clone() }],
        };
        before.push(self.clone());
        before
    }

    /// How accesses are made and handled in a run, x86: the configuration method of a PCI workload, else the port
    /// mode; a mixed workload has every way at once.
    #[must_use]
    pub const fn way(&self) -> &'static str {
        match &self.workload {
            Workload::Pci(config) => config.method.name(),
            Workload::Mixed(_) => "mixed",
            _ => self.mode.name(),
        }
    }

    /// Sets the number of vCPUs.
    ///
    /// # Errors
    /// 0, or more than 1024.
    pub fn set_vcpus(&mut self, vcpus: u64) -> Result<(), ScenarioError> {
        self.vcpus = in_range("vcpus", vcpus, MAX_VCPUS)?;
        Ok(())
    }

    /// Sets the number of devices.
    ///
    /// # Errors
    /// 0, or more than 1024 (of a PCI workload, 248: [`MAX_VIRTIO_FUNCTIONS`]).
    pub fn set_devices(&mut self, devices: u64) -> Result<(), ScenarioError> {
        let most = match self.workload {
            Workload::Pci(_) => u64::from(MAX_VIRTIO_FUNCTIONS),
            _ => MAX_DEVICES,
        };
        self.devices = in_range("devices", devices, most)?;
        Ok(())
    }
}

fn in_range(what: &'static str, value: u64, most: u64) -> Result<u32, ScenarioError> {
    let fits = u32::try_from(value).ok().filter(|_| (1..=most).contains(&value));
    fits.ok_or(ScenarioError::Range { what, value, least: 1, most })
}

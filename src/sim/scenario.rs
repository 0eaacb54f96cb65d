//! Scenarios: a machine, a guest, a cache design and a workload in one TOML file.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::addr::{KernelBehaviour, Preset, SwitchError};
use crate::device::NotifyLayout;
use crate::kvm_hv::{CacheDesign, CacheError, PolicyKind};
use crate::machine::{FileError, Machine, parse_toml, read_text};
use crate::workload::fio::{FioError, JobFile, Plan};
use crate::workload::netperf::{NetperfError, TcpRr};
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
    ("key31-page-out", include_str!("../../models/scenarios/key31-page-out.toml")),
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
        }
    }
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
    /// Devices, 1 to 1024.
    pub devices: u32,
    /// Doorbell layout.
    pub layout: NotifyLayout,
    /// HPT order, 18 to 46.
    pub hpt_order: u32,
    /// How doorbells leave the guest.
    pub notify: Notify,
    /// What runs.
    pub workload: Workload,
    /// Seed of everything drawn.
    pub seed: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScenario {
    name: String,
    description: String,
    machine: String,
    #[serde(default)]
    kernel: Preset,
    #[serde(default)]
    set: Vec<String>,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    cache: RawCache,
    #[serde(default)]
    guest: RawGuest,
    #[serde(default)]
    notify: RawNotify,
    fio: Option<RawJob>,
    netperf: Option<RawNetperf>,
    doorbells: Option<Doorbells>,
    sequence: Option<RawSequence>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawCache {
    entries: u64,
    policy: PolicyKind,
}

impl Default for RawCache {
    fn default() -> Self {
        Self { entries: 4, policy: PolicyKind::RoundRobin }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawGuest {
    vcpus: u64,
    devices: u64,
    layout: NotifyLayout,
    hpt_order: u32,
}

impl Default for RawGuest {
    fn default() -> Self {
        Self { vcpus: 1, devices: 1, layout: NotifyLayout::Legacy, hpt_order: 18 }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum RawNotifyKind {
    #[default]
    Ioeventfd,
    Exit,
    Coalesced,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct RawNotify {
    kind: RawNotifyKind,
    length: Option<u32>,
    poll_us: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawJob {
    job: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSequence {
    file: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNetperf {
    test: String,
    #[serde(default = "one")]
    request: u64,
    #[serde(default = "one")]
    response: u64,
    #[serde(default = "ten")]
    duration_s: f64,
}

const fn one() -> u64 {
    1
}

const fn ten() -> f64 {
    10.0
}

/// A file that a scenario names: shipped text, or a path beside the scenario's own file.
enum Named<'a> {
    BuiltIn(&'a str, &'static str),
    Path(PathBuf),
}

fn named<'a>(name: &'a str, folder: Option<&Path>) -> Named<'a> {
    let path = folder.map_or_else(|| PathBuf::from(name), |folder| folder.join(name));
    let built_in = BUILT_IN_WORKLOADS.iter().find(|(known, _)| *known == name);
    match built_in {
        // A file of one's own goes before a shipped one of the same name.
        Some((_, text)) if folder.is_none() || !path.exists() => Named::BuiltIn(name, text),
        _ => Named::Path(path),
    }
}

/// The environment, which fio job files may name in `${...}`.
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
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

    /// Parses a scenario. Files it names are shipped ones or lie relative to `folder`.
    ///
    /// # Errors
    /// Whatever is wrong, with file and line.
    pub fn parse(file: &str, text: &str, folder: Option<&Path>) -> Result<Self, ScenarioError> {
        let raw: RawScenario = parse_toml(file, text)?;
        let at = |key: &str, what: String| ScenarioError::File(FileError::at_key(file, text, key, what));
        let machine = match Machine::built_in(&raw.machine) {
            Some(machine) => machine,
            None if raw.machine.ends_with(".toml") => {
                Machine::read(&folder.unwrap_or_else(|| Path::new("")).join(&raw.machine))?
            }
            None => {
                let what = format!("machine `{}` is neither built in (power8-2016) nor a .toml file", raw.machine);
                return Err(at("machine", what));
            }
        };
        let mut behaviour = raw.kernel.behaviour();
        for setting in &raw.set {
            behaviour.set(setting).map_err(|error| at("set", error.to_string()))?;
        }
        let cache = CacheDesign::new(raw.cache.entries, raw.cache.policy).map_err(|e| at("entries", e.to_string()))?;
        let notify = raw.notify.check().map_err(|(key, what)| at(key, what))?;
        let workload = match (raw.fio, raw.netperf, raw.doorbells, raw.sequence) {
            (Some(fio), None, None, None) => {
                let job = match named(&fio.job, folder) {
                    Named::BuiltIn(name, text) => JobFile::parse(name, text, &environment)?,
                    Named::Path(path) => JobFile::read(&path)?,
                };
                Workload::Fio(Box::new(job.plan()?))
            }
            (None, Some(net), None, None) => Workload::Netperf(
                TcpRr::by_name(&net.test, net.request, net.response, net.duration_s)
                    .map_err(|error| at("netperf", error.to_string()))?,
            ),
            (None, None, Some(doorbells), None) => {
                if doorbells.count == 0 || doorbells.count > 1 << 40 {
                    return Err(at("count", format!("count = {}: 1 to 2^40", doorbells.count)));
                }
                Workload::Doorbells(doorbells)
            }
            (None, None, None, Some(sequence)) => Workload::Sequence(match named(&sequence.file, folder) {
                Named::BuiltIn(name, text) => Sequence::parse(name, text)?,
                Named::Path(path) => Sequence::read(&path)?,
            }),
            _ => {
                let what = "a scenario has exactly one workload table: [fio], [netperf], [doorbells] or [sequence]";
                return Err(at("name", what.to_owned()));
            }
        };
        let mut scenario = Self {
            name: raw.name,
            description: raw.description,
            machine,
            preset: raw.kernel,
            behaviour,
            cache,
            vcpus: 1,
            devices: 1,
            layout: raw.guest.layout,
            hpt_order: raw.guest.hpt_order,
            notify,
            workload,
            seed: raw.seed,
        };
        scenario.set_vcpus(raw.guest.vcpus).map_err(|error| at("vcpus", error.to_string()))?;
        scenario.set_devices(raw.guest.devices).map_err(|error| at("devices", error.to_string()))?;
        if !(18..=46).contains(&scenario.hpt_order) {
            return Err(at("hpt_order", format!("hpt_order = {}: 18 to 46", scenario.hpt_order)));
        }
        Ok(scenario)
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
    /// 0, or more than 1024.
    pub fn set_devices(&mut self, devices: u64) -> Result<(), ScenarioError> {
        self.devices = in_range("devices", devices, MAX_DEVICES)?;
        Ok(())
    }
}

fn in_range(what: &'static str, value: u64, most: u64) -> Result<u32, ScenarioError> {
    let fits = u32::try_from(value).ok().filter(|_| (1..=most).contains(&value));
    fits.ok_or(ScenarioError::Range { what, value, least: 1, most })
}

impl RawNotify {
    fn check(&self) -> Result<Notify, (&'static str, String)> {
        if self.length.is_some() && !matches!(self.kind, RawNotifyKind::Ioeventfd) {
            return Err(("length", "length goes with kind = \"ioeventfd\" only".to_owned()));
        }
        if self.poll_us.is_some() && !matches!(self.kind, RawNotifyKind::Coalesced) {
            return Err(("poll_us", "poll_us goes with kind = \"coalesced\" only".to_owned()));
        }
        match self.kind {
            RawNotifyKind::Ioeventfd => match self.length.unwrap_or(0) {
                length @ (0 | 1 | 2 | 4 | 8) => Ok(Notify::Ioeventfd { length }),
                length => Err(("length", format!("length = {length}: an ioeventfd has 0, 1, 2, 4 or 8 bytes"))),
            },
            RawNotifyKind::Exit => Ok(Notify::Exit),
            RawNotifyKind::Coalesced => match self.poll_us.unwrap_or(50) {
                poll_us @ 1..=1_000_000 => Ok(Notify::Coalesced { poll_ns: poll_us * 1000 }),
                poll_us => Err(("poll_us", format!("poll_us = {poll_us}: 1 to 1000000 microseconds"))),
            },
        }
    }
}

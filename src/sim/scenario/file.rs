//! Scenario files: their tables and keys, and what may stand in them.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::addr::Preset;
use crate::device::NotifyLayout;
use crate::kvm_hv::{CacheDesign, PolicyKind};
use crate::machine::{FileError, Kind, Machine, built_in_names, parse_toml};
use crate::workload::fio::JobFile;
use crate::workload::netperf::TcpRr;
use crate::workload::ports::PortMode;
use crate::workload::sequence::Sequence;

use super::file_x86::{RawMixed, RawPci, RawPio, RawRtc};
use super::{BUILT_IN_WORKLOADS, Doorbells, Notify, Scenario, ScenarioError, Workload};

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
    cache: Option<RawCache>,
    guest: Option<RawGuest>,
    notify: Option<RawNotify>,
    fio: Option<RawJob>,
    netperf: Option<RawNetperf>,
    doorbells: Option<Doorbells>,
    sequence: Option<RawSequence>,
    pio: Option<RawPio>,
    rtc: Option<RawRtc>,
    pci: Option<RawPci>,
    mixed: Option<RawMixed>,
}

/// The one workload table of a scenario.
enum RawWorkload {
    Fio(RawJob),
    Netperf(RawNetperf),
    Doorbells(Doorbells),
    Sequence(RawSequence),
    Pio(RawPio),
    Rtc(RawRtc),
    Pci(RawPci),
    Mixed(RawMixed),
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
                let known = built_in_names();
                let what = format!("machine `{}` is neither built in ({known}) nor a .toml file", raw.machine);
                return Err(at("machine", what));
            }
        };
        let mut behaviour = raw.kernel.behaviour();
        for setting in &raw.set {
            behaviour.set(setting).map_err(|error| at("set", error.to_string()))?;
        }
        if machine.kind == Kind::X86 {
            let tables =
                [("cache", raw.cache.is_some()), ("guest", raw.guest.is_some()), ("notify", raw.notify.is_some())];
            if let Some((table, _)) = tables.iter().find(|(_, given)| *given) {
                let what = format!("[{table}] goes with a machine of kind book3s-hv; {} is of kind x86", machine.name);
                return Err(at(table, what));
            }
        }
        let (raw_cache, raw_guest) = (raw.cache.unwrap_or_default(), raw.guest.unwrap_or_default());
        let cache = CacheDesign::new(raw_cache.entries, raw_cache.policy).map_err(|e| at("entries", e.to_string()))?;
        let notify = raw.notify.unwrap_or_default().check().map_err(|(key, what)| at(key, what))?;
        let (mut modes, mut devices) = (Vec::new(), raw_guest.devices);
        let tables = [
            raw.fio.map(RawWorkload::Fio),
            raw.netperf.map(RawWorkload::Netperf),
            raw.doorbells.map(RawWorkload::Doorbells),
            raw.sequence.map(RawWorkload::Sequence),
            raw.pio.map(RawWorkload::Pio),
            raw.rtc.map(RawWorkload::Rtc),
            raw.pci.map(RawWorkload::Pci),
            raw.mixed.map(RawWorkload::Mixed),
        ];
        let mut tables = tables.into_iter().flatten();
        let (Some(only), None) = (tables.next(), tables.next()) else {
            let what = "a scenario has exactly one workload table: [fio], [netperf], [doorbells] or [sequence]; on x86 [pio], [rtc], [pci] or [mixed]";
            return Err(at("name", what.to_owned()));
        };
        let (table, workload) = match only {
            RawWorkload::Fio(fio) => {
                let job = match named(&fio.job, folder) {
                    Named::BuiltIn(name, text) => JobFile::parse(name, text, &environment)?,
                    Named::Path(path) => JobFile::read(&path)?,
                };
                ("fio", Workload::Fio(Box::new(job.plan()?)))
            }
            RawWorkload::Netperf(net) => {
                let test = TcpRr::by_name(&net.test, net.request, net.response, net.duration_s);
                ("netperf", Workload::Netperf(test.map_err(|error| at("netperf", error.to_string()))?))
            }
            RawWorkload::Doorbells(doorbells) => {
                if doorbells.count == 0 || doorbells.count > 1 << 40 {
                    return Err(at("count", format!("count = {}: 1 to 2^40", doorbells.count)));
                }
                ("doorbells", Workload::Doorbells(doorbells))
            }
            RawWorkload::Sequence(sequence) => {
                let sequence = match named(&sequence.file, folder) {
                    Named::BuiltIn(name, text) => Sequence::parse(name, text)?,
                    Named::Path(path) => Sequence::read(&path)?,
                };
                ("sequence", Workload::Sequence(sequence))
            }
            RawWorkload::Pio(pio) => {
                let (stream, asked) = pio.check().map_err(|(key, what)| at(key, what))?;
                modes = asked;
                ("pio", Workload::Pio(stream))
            }
            RawWorkload::Rtc(rtc) => {
                let (tick, asked) = rtc.check().map_err(|(key, what)| at(key, what))?;
                modes = asked;
                ("rtc", Workload::Rtc(tick))
            }
            RawWorkload::Pci(pci) => {
                devices = pci.devices();
                ("pci", Workload::Pci(pci.check().map_err(|(key, what)| at(key, what))?))
            }
            RawWorkload::Mixed(mixed) => {
                modes = vec![PortMode::RegsWhenNeeded];
                ("mixed", Workload::Mixed(mixed.check().map_err(|(key, what)| at(key, what))?))
            }
        };
        let (needs, has) = (workload.machine_kind(), machine.kind);
        if needs != has {
            let what = format!(
                "[{table}] needs a machine of kind {}; {} is of kind {}",
                needs.name(),
                machine.name,
                has.name()
            );
            return Err(at(table, what));
        }
        let mut scenario = Self {
            name: raw.name,
            description: raw.description,
            machine,
            preset: raw.kernel,
            behaviour,
            cache,
            vcpus: 1,
            devices: 1,
            layout: raw_guest.layout,
            hpt_order: raw_guest.hpt_order,
            notify,
            mode: modes.first().copied().unwrap_or(PortMode::RegsWhenNeeded),
            modes,
            workload,
            seed: raw.seed,
        };
        scenario.set_vcpus(raw_guest.vcpus).map_err(|error| at("vcpus", error.to_string()))?;
        scenario.set_devices(devices).map_err(|error| at("devices", error.to_string()))?;
        if !(18..=46).contains(&scenario.hpt_order) {
            return Err(at("hpt_order", format!("hpt_order = {}: 18 to 46", scenario.hpt_order)));
        }
        Ok(scenario)
    }
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

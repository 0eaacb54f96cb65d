//! Workload tables of x86 scenarios.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::addr::Port;
use crate::device::Rtc;
use crate::io::pci::{Attachment, ReadOnlySlots, Register, Width};
use crate::kvm_x86::PortWidth;
use crate::workload::mixed::Mixed;
use crate::workload::pci_config::{PciConfig, PciMethod, PciTask};
use crate::workload::ports::{PioStream, PortDirection, PortMode};
use crate::workload::rtc_tick::RtcTick;

/// A key and what is wrong with it.
type Wrong = (&'static str, String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPio {
    port: u64,
    #[serde(default)]
    direction: PortDirection,
    #[serde(default = "one")]
    size: u64,
    count: u64,
    #[serde(default = "one")]
    string: u64,
    #[serde(default)]
    gap_ns: u64,
    #[serde(default = "all_modes")]
    modes: Vec<PortMode>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRtc {
    rate_hz: u32,
    duration_s: f64,
    #[serde(default)]
    pm_timer_reads: u32,
    #[serde(default = "without_and_with")]
    modes: Vec<PortMode>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum RawTask {
    Scan,
    RawRead,
}

#[derive(Clone, Copy, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum RawAttachment {
    Conventional,
    #[default]
    Express,
}

#[derive(Clone, Copy, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum RawSlots {
    Absent,
    #[default]
    Present,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPci {
    task: RawTask,
    #[serde(default = "one")]
    devices: u64,
    #[serde(default)]
    attachment: RawAttachment,
    #[serde(default)]
    read_only_slots: RawSlots,
    register: Option<u16>,
    reads: Option<u64>,
    #[serde(default = "all_methods")]
    methods: Vec<PciMethod>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMixed {
    count: u64,
    #[serde(default)]
    weights: BTreeMap<String, u32>,
}

const fn one() -> u64 {
    1
}

fn all_methods() -> Vec<PciMethod> {
    PciMethod::ALL.to_vec()
}

fn all_modes() -> Vec<PortMode> {
    PortMode::ALL.to_vec()
}

fn without_and_with() -> Vec<PortMode> {
    vec![PortMode::RegsWhenNeeded, PortMode::Coalesced]
}

/// Most port accesses of a stream.
const MAX_COUNT: u64 = 1 << 40;
/// Most elements of a string instruction.
const MAX_STRING: u64 = 1 << 20;
/// Most reads of the PM timer at a tick.
const MAX_READS: u32 = 1000;
/// Reads of the published benchmark.
const RAW_READS: u64 = 100_000;

/// A list of modes or methods, which must not be empty.
fn some<T>(key: &'static str, list: Vec<T>) -> Result<Vec<T>, Wrong> {
    if list.is_empty() { Err((key, format!("{key} is empty: name at least one"))) } else { Ok(list) }
}

fn within(key: &'static str, value: u64, least: u64, most: u64) -> Result<u64, Wrong> {
    if (least..=most).contains(&value) { Ok(value) } else { Err((key, format!("{key} = {value}: {least} to {most}"))) }
}

impl RawPio {
    pub(super) fn check(self) -> Result<(PioStream, Vec<PortMode>), Wrong> {
        let Some(width) = PortWidth::of_bytes(self.size) else {
            return Err(("size", format!("size = {}: 1, 2 or 4 bytes", self.size)));
        };
        let last = 0x1_0000 - width.bytes() as u64;
        let port = u16::try_from(within("port", self.port, 0, last)?).unwrap_or(u16::MAX);
        let string = u32::try_from(within("string", self.string, 1, MAX_STRING)?).unwrap_or(1);
        let count = within("count", self.count, 1, MAX_COUNT)?;
        let gap_ns = within("gap_ns", self.gap_ns, 0, 1_000_000_000)?;
        let stream = PioStream { port: Port(port), direction: self.direction, width, count, string, gap_ns };
        Ok((stream, some("modes", self.modes)?))
    }
}

impl RawMixed {
    pub(super) fn check(self) -> Result<Mixed, Wrong> {
        let count = within("count", self.count, 1, MAX_COUNT)?;
        Mixed::new(count, &self.weights).map_err(|what| ("weights", what))
    }
}

impl RawRtc {
    pub(super) fn check(self) -> Result<(RtcTick, Vec<PortMode>), Wrong> {
        if Rtc::rate_select(self.rate_hz).is_none() {
            let what = format!("rate_hz = {}: a power of two from 2 to 8192", self.rate_hz);
            return Err(("rate_hz", what));
        }
        if !(self.duration_s > 0.0 && self.duration_s <= 86_400.0) {
            return Err(("duration_s", format!("duration_s = {}: more than 0, at most 86400 s", self.duration_s)));
        }
        let pm_timer_reads = u64::from(self.pm_timer_reads);
        within("pm_timer_reads", pm_timer_reads, 0, u64::from(MAX_READS))?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 86,400 s in ns fit u64")]
        let duration_ns = (self.duration_s * 1e9).ceil() as u64;
        let tick = RtcTick { rate_hz: self.rate_hz, duration_ns, pm_timer_reads: self.pm_timer_reads };
        Ok((tick, some("modes", self.modes)?))
    }
}

impl RawPci {
    /// Virtio functions; the scenario checks their number.
    pub(super) const fn devices(&self) -> u64 {
        self.devices
    }

    pub(super) fn check(self) -> Result<PciConfig, Wrong> {
        let task = match self.task {
            RawTask::Scan => {
                let beside = [("register", self.register.is_some()), ("reads", self.reads.is_some())];
                if let Some((key, _)) = beside.into_iter().find(|(_, given)| *given) {
                    return Err((key, format!("{key} goes with task = \"raw-read\" only")));
                }
                PciTask::Scan
            }
            RawTask::RawRead => {
                let count = within("reads", self.reads.unwrap_or(RAW_READS), 1, MAX_COUNT)?;
                let register = Register::new(self.register.unwrap_or(0), Width::Dword);
                PciTask::RawReads { register: register.map_err(|error| ("register", error.to_string()))?, count }
            }
        };
        let attachment = match self.attachment {
            RawAttachment::Conventional => Attachment::Conventional,
            RawAttachment::Express => Attachment::IntegratedEndpoint,
        };
        let slots = match self.read_only_slots {
            RawSlots::Absent => ReadOnlySlots::Absent,
            RawSlots::Present => ReadOnlySlots::Present,
        };
        let methods = some("methods", self.methods)?;
        Ok(PciConfig { task, attachment, slots, method: methods[0], methods })
    }
}

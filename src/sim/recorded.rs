//! What a recording tells beside a run of it: observed hits, and where and when accesses went.

use serde::Serialize;

use crate::trace::Facts;

/// What the recording itself says the cache did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ObservedCounts {
    /// Accesses it calls hits.
    pub hits: u64,
    /// Accesses it calls misses.
    pub misses: u64,
    /// Of both, those that the simulation calls the same.
    pub agreeing: u64,
    /// The first that it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_disagreement: Option<Disagreement>,
}

/// An access of which recording and simulation differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Disagreement {
    /// Which access, from 1.
    pub access: u64,
    /// When, ns of the recording's clock.
    pub at_ns: u64,
    /// vCPU.
    pub vcpu: u32,
    /// Effective address.
    pub ea: u64,
    /// What the recording says.
    pub observed: &'static str,
    /// What the simulation says.
    pub simulated: &'static str,
}

/// One vCPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VcpuRow {
    /// Its number in the recording.
    pub vcpu: u32,
    /// Accesses.
    pub accesses: u64,
    /// Simulated hits.
    pub hits: u64,
}

/// One page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageRow {
    /// First effective address.
    pub ea: u64,
    /// A guest physical address in it that was accessed.
    pub gpa: u64,
    /// Accesses.
    pub accesses: u64,
    /// Simulated hits.
    pub hits: u64,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceRow {
    /// Its name in the ranges given.
    pub device: String,
    /// Accesses.
    pub accesses: u64,
    /// Simulated hits.
    pub hits: u64,
}

/// One stretch of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimeRow {
    /// Its beginning, ns of the recording's clock; where there is no clock, the number of accesses before it.
    pub from: u64,
    /// Accesses.
    pub accesses: u64,
    /// Simulated hits.
    pub hits: u64,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Recorded {
    /// The file.
    pub file: String,
    /// Its form.
    pub format: &'static str,
    /// The key the cache compares, in words.
    pub key: String,
    /// What was simulated, or only counted.
    pub counts_only: bool,
    /// Whether it was interrupted: what is told is of what was read by then.
    pub interrupted: bool,
    /// What the recording says, if it says anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<ObservedCounts>,
    /// Per vCPU.
    pub vcpus: Vec<VcpuRow>,
    /// Distinct pages.
    pub distinct_pages: u64,
    /// The pages with most accesses, most first, up to 64.
    pub pages: Vec<PageRow>,
    /// Devices, if ranges were given.
    pub devices: Vec<DeviceRow>,
    /// Over time, up to 64 stretches.
    pub over_time: Vec<TimeRow>,
    /// ns that those stretches last; accesses where there is no clock.
    pub stretch: u64,
    /// What was read.
    pub facts: Facts,
}

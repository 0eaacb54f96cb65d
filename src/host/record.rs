//! What a run on a host gives: the fields of [`crate::sim::RunResult`] that a real kernel can tell, by the same names.

use serde::Serialize;

use crate::sim::{Metric, Outcomes};

/// A scenario's run on this machine's KVM, in one of its ways. Every time and rate is measured, on this host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostRun {
    /// Scenario.
    pub scenario: String,
    /// What it shows.
    pub description: String,
    /// Workload's kind.
    pub workload: &'static str,
    /// What sets this run apart from those beside it: port mode, configuration method, how doorbells leave the guest.
    pub variant: String,
    /// The running kernel's release.
    pub kernel: String,
    /// vCPUs, each a thread.
    pub vcpus: u32,
    /// Devices, or virtio functions.
    pub devices: u32,
    /// Doorbell layout; empty for other workloads.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub layout: &'static str,
    /// The guest's time from its first instruction to its last, exits and user space's work in it, s.
    pub measured_s: f64,
    /// In the first round: from the start of the run, opening /dev/kvm included, to the guest's first exit, s.
    pub first_exit_s: f64,
    /// The benchmark's own figure.
    pub metric: Metric,
    /// Guest accesses of all vCPUs; elements of a string count.
    pub accesses: u64,
    /// How accesses ended. `ring_full` is not told by a real kernel and stays 0.
    pub outcomes: Outcomes,
    /// Mean time of an access on its vCPU, ns.
    pub ns_per_access: f64,
    /// Rounds, the ways by turns; the times above are those of the round in the middle by time per access.
    pub rounds: u32,
    /// Least and greatest time of an access in a round, ns.
    pub ns_range: [f64; 2],
    /// Virtio functions and host bridge that a scan found; 0 where nothing is scanned.
    pub functions: usize,
    /// Values that the guest read, each equal to what the simulated device gives.
    pub values_checked: u64,
    /// Remarks: what was ignored, what was made simpler.
    pub notes: Vec<String>,
}

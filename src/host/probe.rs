//! What a host can do, as data: what [`probe`](super::x86_64::probe) found.

use serde::Serialize;

use crate::addr::{CoalescedRoom, KernelBehaviour, ZoneLookup};
use crate::kvm_x86::FastMmio;

/// A capability that matters here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// Its name in `linux/kvm.h`.
    pub name: &'static str,
    /// What KVM_CHECK_EXTENSION gives; 0 is absent.
    pub value: u32,
    /// What it enables.
    pub enables: &'static str,
}

/// How guest code at CPL 3 runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Execution {
    /// By the processor.
    Native,
    /// By an interpreter in the hypervisor, hundreds of times slower.
    Interpreted,
}

/// The coalesced ring, by experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RingFound {
    /// Pages from `kvm_run` to the ring (KVM_CAP_COALESCED_MMIO).
    pub page: u32,
    /// Slots of the ring's page.
    pub slots: u32,
    /// Writes that it took from a start index, index first.
    pub absorbed: Vec<(u32, u32)>,
    /// How room is counted; none if what it took agrees with neither rule.
    pub room: Option<&'static str>,
}

/// Something that a host can run, or cannot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ability {
    /// What.
    pub what: &'static str,
    /// What is missing for it; none if it runs.
    pub missing: Option<&'static str>,
}

/// What a host's KVM is and does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Probe {
    /// KVM_GET_API_VERSION.
    pub api_version: i32,
    /// The running kernel's release.
    pub kernel: String,
    /// KVM's modules, as far as sysfs tells: kvm_intel, kvm_amd, kvm_pvm.
    pub modules: Vec<String>,
    /// The capabilities that matter.
    pub capabilities: Vec<Capability>,
    /// The coalesced ring; none without the capability.
    pub ring: Option<RingFound>,
    /// Whether overlapping devices hide each other (hazards H1 and H2), by experiment: the value of switch `zone_lookup`.
    pub zone_lookup: Option<&'static str>,
    /// Whether the fast MMIO bus is asked before an instruction is decoded, by experiment.
    pub fast_mmio: Option<FastMmio>,
    /// How guest code at CPL 3 runs.
    pub execution: Execution,
    /// An empty loop's turn, ns, measured.
    pub loop_ns: f64,
    /// An OUT to user space and back, ns, measured: the mean of a short run.
    pub exit_ns: f64,
    /// What it can run.
    pub abilities: Vec<Ability>,
}

impl Probe {
    /// The kernel to simulate for this host: Linux 6.12's switches, and those that were found by experiment as found.
    #[must_use]
    pub fn behaviour(&self) -> KernelBehaviour {
        let room = self.ring.as_ref().and_then(|ring| ring.room);
        let mut behaviour = KernelBehaviour::default();
        for value in [CoalescedRoom::Fixed, CoalescedRoom::Legacy] {
            if room == Some(value.name()) {
                behaviour.coalesced_room = value;
            }
        }
        for value in [ZoneLookup::SortedContainment, ZoneLookup::AllMatching] {
            if self.zone_lookup == Some(value.name()) {
                behaviour.zone_lookup = value;
            }
        }
        behaviour
    }
}

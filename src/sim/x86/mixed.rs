//! Every way of an access at once.

use crate::kvm_x86::Platform;
use crate::machine::X86Extra;
use crate::sim::SimError;
use crate::sim::result::{JobResult, KindStat, Metric, per_second};
use crate::sim::scenario::Scenario;
use crate::workload::mixed::{self, ECAM_EXITS, ECAM_READ_ONLY, KINDS, Mixed, SIGNALLED, ioeventfds, zones};

use super::{Guest, Told};

/// Accesses between two reports of progress.
const REPORT_EVERY: u64 = 1 << 14;

/// The guest with its devices: two PCI segments, one of them with a read-only memslot over its window.
fn guest(scenario: &Scenario) -> Result<Guest, SimError> {
    let (exits, read_only) = (mixed::pci_host(ECAM_EXITS)?, mixed::pci_host(ECAM_READ_ONLY)?);
    let mut platform = Platform::default();
    read_only.map_read_only(&mut platform);
    let guest = Guest::new(&scenario.machine, scenario.mode, scenario.behaviour, platform, scenario.seed);
    exits.attach(&guest.user);
    read_only.attach(&guest.user);
    for zone in zones() {
        guest.io.register_zone(zone)?;
    }
    for ioeventfd in ioeventfds(SIGNALLED.map(|_| guest.io.create_eventfd().id())) {
        guest.io.assign(ioeventfd)?;
    }
    Ok(guest)
}

pub(super) fn run(scenario: &Scenario, spec: &Mixed, progress: &mut dyn FnMut(f64)) -> Result<(Guest, Told), SimError> {
    let mut guest = guest(scenario)?;
    mixed::attach(&guest.user);
    let block = spec.block(scenario.seed, 0);
    let mut times = [0.0; KINDS];
    for (i, kind) in (0..spec.count).zip(block.iter().cycle()) {
        let before = guest.now;
        guest.perform(kind.instruction())?;
        if kind.is_config_exit() {
            guest.around(X86Extra::PciConfig);
        }
        times[*kind as usize] += (guest.now - before).ns();
        if i % REPORT_EVERY == 0 {
            progress(i as f64 / spec.count as f64);
        }
    }
    let counts = mixed::counts(&block, 0, spec.count);
    let ns = |kind: usize| times[kind] / counts[kind].max(1) as f64;
    let kinds = KindStat::all(counts, std::array::from_fn(ns));
    let job = JobResult {
        name: "vcpu0".to_owned(),
        completed: spec.count,
        per_second: per_second(spec.count, guest.now),
        bytes_per_second: 0.0,
        latency_ns: Default::default(),
    };
    let metric = Metric { unit: "accesses/s", value: job.per_second };
    Ok((guest, Told { metric, jobs: vec![job], notes: Vec::new(), config: None, kinds }))
}

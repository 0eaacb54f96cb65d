//! Ratios measured on this machine's real KVM: ways of an access in turns, batch by batch, so that whatever else the machine
//! does meets all alike.

use crate::host::x86_64::run::Bench;
use crate::host::x86_64::{HostError, System};
use crate::sim::{Scenario, ScenarioError, Workload};
use crate::workload::pci_config::{PciConfig, PciMethod};
use crate::workload::ports::PortMode;

use super::comparison::Comparison;
use super::ratios::{MeasuredRatio, MeasuredTime, OnHost, Ratio};
use super::spread::spread;

/// Rounds: with 3 ms a batch about two seconds.
const ROUNDS: usize = 101;

/// Why a host could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum OnHostError {
    /// KVM or the guest.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A shipped scenario.
    #[error(transparent)]
    Scenario(Box<ScenarioError>),
}

impl From<ScenarioError> for OnHostError {
    fn from(error: ScenarioError) -> Self {
        Self::Scenario(Box::new(error))
    }
}

/// What takes turns.
const WAYS: [(&str, &str, Way); 6] = [
    ("OUT, registers got and set at every exit", "pio-timeline", Way::Port(PortMode::RegsEveryExit)),
    ("OUT to user space", "pio-timeline", Way::Port(PortMode::RegsWhenNeeded)),
    ("OUT coalesced", "pio-timeline", Way::Port(PortMode::Coalesced)),
    ("config read by 0xcf8 and 0xcfc", "pci-raw-read", Way::Config(PciMethod::Type1)),
    ("config read by exiting ECAM", "pci-raw-read", Way::Config(PciMethod::Ecam)),
    ("config read by read-only ECAM", "pci-raw-read", Way::Config(PciMethod::EcamReadOnly)),
];

/// How an access is made or handled.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    Port(PortMode),
    Config(PciMethod),
}

/// A shipped scenario in that way.
pub(super) fn scenario(name: &str, way: Way) -> Result<Scenario, OnHostError> {
    let mut scenario = Scenario::load(name)?;
    match (way, &mut scenario.workload) {
        (Way::Config(method), Workload::Pci(config)) => *config = PciConfig { method, ..config.clone() },
        (Way::Port(mode), _) => scenario.mode = mode,
        (Way::Config(_), _) => {}
    }
    Ok(scenario)
}

/// Places in [`WAYS`] of a ratio's two sides.
const fn sides(ratio: Ratio) -> [usize; 2] {
    match ratio {
        Ratio::CoalescedIndex | Ratio::CoalescedLatch => [1, 2],
        Ratio::Registers => [0, 1],
        Ratio::ReadOnly => [4, 5],
        Ratio::Ports => [3, 4],
    }
}

/// Measures the ratios that belong to these benchmarks.
///
/// # Errors
/// KVM refuses, or a guest goes wrong.
pub fn measure(
    system: &System,
    comparisons: &[Comparison],
    progress: &mut dyn FnMut(f64),
) -> Result<OnHost, OnHostError> {
    let asked: Vec<_> = Ratio::ALL.into_iter().filter_map(|ratio| Some((ratio, ratio.beside(comparisons)?))).collect();
    let needed = |way: usize| asked.iter().any(|(ratio, _)| sides(*ratio).contains(&way));
    let mut benches = Vec::new();
    for (place, (_, name, way)) in WAYS.into_iter().enumerate() {
        let bench = if needed(place) { Some(Bench::new(system, &scenario(name, way)?)?) } else { None };
        benches.push((bench, Vec::with_capacity(ROUNDS)));
    }
    for round in 0..ROUNDS {
        for (bench, times) in &mut benches {
            if let Some(bench) = bench {
                times.push(bench.measure()?);
            }
        }
        progress((round + 1) as f64 / ROUNDS as f64);
    }
    let times: Vec<_> = benches.into_iter().map(|(_, times)| times).collect();
    let ratios = asked.into_iter().map(|(ratio, [published, simulated])| {
        let [over, under] = sides(ratio).map(|side| &times[side]);
        let (measured, quartiles) = spread(over.iter().zip(under).map(|(over, under)| over / under).collect());
        let (least, most) = ratio.expected();
        let as_expected = measured >= least && most.is_none_or(|most| measured <= most);
        MeasuredRatio { ratio, published, simulated, measured, quartiles, as_expected }
    });
    let ratios = ratios.collect();
    let time = |((label, ..), times): (&(&'static str, _, _), &Vec<f64>)| {
        let (ns, quartiles) = spread(times.clone());
        (!times.is_empty()).then_some(MeasuredTime { label, ns, quartiles })
    };
    let times = WAYS.iter().zip(&times).filter_map(time).collect();
    Ok(OnHost { ratios, times, rounds: ROUNDS })
}

//! A POWER host's machine model from timed stores, and what it says of mixes of pages that the fit has not seen.
//!
//! The fit sees round robin over 1 to 4 pages, all hits, and over 5 to 16, all misses, in three ways out of the guest. A mix is
//! predicted by its hits in the simulator, store by store.

use serde::Serialize;

use crate::addr::{EffectiveAddr, GuestPhysAddr};
use crate::book3s::insn::{Direction, Size};
use crate::host::ppc64::{StoreBench, StoreCost, System, Way, timebase};
use crate::host::{HostError, release};
use crate::kvm_hv::{CacheUse, HcallError, Vcpu, VcpuConfig, Vm, VmConfig};
use crate::machine::{self, FileError, Fit, Machine};
use crate::sim::{self, Notify, Scenario, ScenarioError, SimError, Workload};
use crate::trace::synthetic::Zipf;
use crate::workload::guest::{Guest, PageUse, Touch};

use super::calibrate::{FittedCost, rounded, with_cost};
use super::rng::Rng;
use super::spread::spread;

/// Pages that stores go to.
const PAGES: u32 = 16;
/// Round robin over so many pages hits, but for the first turn.
const HITS: [u32; 4] = [1, 2, 3, 4];
/// Over so many it always misses.
const MISSES: [u32; 4] = [5, 6, 8, 16];
/// Stores of a round of what the fit sees, of a mix, and before each.
const STORES: u32 = 1000;
const MIX_STORES: u32 = 4000;
const WARM: u32 = 64;
const ROUNDS: u32 = 5;
/// Seed of the mixes.
const SEED: u64 = 1;
/// The model whose other costs, and whose split of the slow form, are taken over.
const TEMPLATE: &str = "power8-2016";
/// Doorbells of a simulation that prices a way.
const SIMULATED: u64 = 100_000;

/// Why no model came out.
#[derive(Debug, thiserror::Error)]
pub enum StoreFitError {
    /// Measuring.
    #[error(transparent)]
    Host(Box<HostError>),
    /// The template or what became of it.
    #[error(transparent)]
    File(#[from] FileError),
    /// A simulation's scenario.
    #[error(transparent)]
    Scenario(Box<ScenarioError>),
    /// A simulation.
    #[error(transparent)]
    Sim(Box<SimError>),
    /// A mix's simulation.
    #[error("simulating a mix: {0}")]
    Mix(String),
    /// A cost would be negative.
    #[error("stage {stage} would cost {ns:.1} ns: this host is faster than the template's other costs allow")]
    Negative {
        /// Which.
        stage: String,
        /// What the fit gives.
        ns: f64,
    },
    /// The time base's frequency is not known.
    #[error("/proc/cpuinfo has no line `timebase : <Hz>`, without which ticks are no times")]
    Timebase,
}

impl From<ScenarioError> for StoreFitError {
    fn from(error: ScenarioError) -> Self {
        Self::Scenario(Box::new(error))
    }
}

impl From<HostError> for StoreFitError {
    fn from(error: HostError) -> Self {
        Self::Host(Box::new(error))
    }
}

impl From<SimError> for StoreFitError {
    fn from(error: SimError) -> Self {
        Self::Sim(Box::new(error))
    }
}

/// What the fit rests on: a way's hits and misses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FittedWay {
    /// The way out of the guest.
    pub way: Way,
    /// Ticks of a hit, the median over 1 to 4 pages.
    pub hit: f64,
    /// Ticks of a miss, the median over 5 to 16 pages.
    pub miss: f64,
}

/// A mix that the fit has not seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mix {
    /// Which.
    pub name: String,
    /// The way out of the guest.
    pub way: Way,
    /// Share of hits, 0 to 1, in the simulator.
    pub hit_rate: f64,
    /// Ticks a store by the fit.
    pub predicted: f64,
    /// Ticks a store measured.
    pub measured: StoreCost,
    /// Predicted less measured, in percent of miss less hit.
    pub error_percent: f64,
}

/// What came of a fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoreModel {
    /// The running kernel's release.
    pub kernel: String,
    /// Time base, Hz.
    pub timebase: u64,
    /// What the fit rests on.
    pub fitted: Vec<FittedWay>,
    /// Every cost that was set.
    pub costs: Vec<FittedCost>,
    /// What it predicts.
    pub held_out: Vec<Mix>,
    /// The model's file.
    #[serde(skip)]
    pub text: String,
}

/// Stores of the mixes: a hot set that takes nine of ten, of 3 to 6 pages, and Zipf's law over all.
fn mixes() -> Vec<(String, Vec<u32>)> {
    let mut rng = Rng::new(SEED);
    let mut drawn = Vec::new();
    for hot in 3..=6 {
        let mut page = || if rng.one_in(10) { hot + rng.small(PAGES - hot) } else { rng.small(hot) };
        let pages = (0..MIX_STORES).map(|_| page()).collect();
        drawn.push((format!("hot set of {hot}: 9 of 10 stores, {PAGES} pages in all"), pages));
    }
    let zipf = Zipf::new(PAGES, 1.0);
    let pages = (0..MIX_STORES).map(|_| zipf.draw(rng.bits())).collect();
    drawn.push((format!("Zipf over {PAGES} pages"), pages));
    drawn
}

/// Share of hits of stores to pages in the simulator, the first of them made before the count begins as on the host.
fn hit_rate(pages: &[u32]) -> Result<f64, StoreFitError> {
    let words = |error: &dyn std::fmt::Display| StoreFitError::Mix(error.to_string());
    let vm = Vm::new(VmConfig::default()).map_err(|error| words(&error))?;
    let mut vcpu = Vcpu::new(&vm, VcpuConfig::default());
    let guest = Guest::default();
    let at = |page: u32| EffectiveAddr(0xd000_0800_8000_0000 + u64::from(page) * guest.sizes.actual.bytes());
    vcpu.slb.slbmte(guest.slb_entry(0, at(0))).map_err(|error| words(&error))?;
    for page in 0..PAGES {
        let gpa = GuestPhysAddr(0x2000_0000_0000 + u64::from(page) * guest.sizes.actual.bytes());
        let mapped: Result<_, HcallError> = guest.map(&vm, at(page), gpa, PageUse::DEVICE);
        mapped.map_err(|error| words(&format!("{error:?}")))?;
    }
    let store = Touch::new(Direction::Store, Size::Word).map_err(|error| words(&error))?;
    let mut hit = |page: &u32| store.perform(&vm, &mut vcpu, at(*page), 0).cache == CacheUse::Hit;
    for page in &pages[..WARM as usize] {
        hit(page);
    }
    Ok(pages.iter().filter(|page| hit(page)).count() as f64 / pages.len() as f64)
}

/// A model under way: the template with costs set.
struct Fitter {
    machine: Machine,
    costs: Vec<FittedCost>,
}

impl Fitter {
    /// Time of a doorbell in the simulator, ns.
    fn simulated(&self, way: Way, devices: u64) -> Result<f64, StoreFitError> {
        let mut scenario = Scenario::load("doorbells")?;
        scenario.machine = self.machine.clone();
        scenario.set_devices(devices)?;
        scenario.notify = match way {
            Way::Exit => Notify::Exit,
            Way::IoeventfdAnyLength => Notify::Ioeventfd { length: 0 },
            Way::IoeventfdLength4 => Notify::Ioeventfd { length: 4 },
        };
        if let Workload::Doorbells(spec) = &mut scenario.workload {
            spec.count = SIMULATED;
        }
        Ok(sim::run(&scenario, &mut |_| {})?.ns_per_access)
    }

    /// Adds to a stage's cost.
    fn add(&mut self, stage: &str, ns: f64) -> Result<(), StoreFitError> {
        let Some(cost) = self.machine.stage.get_mut(stage) else { return Ok(()) };
        let now = rounded(cost.ns + ns);
        if now < 0.0 {
            return Err(StoreFitError::Negative { stage: stage.to_owned(), ns: now });
        }
        self.costs.push(FittedCost { table: "stage", name: stage.to_owned(), was_ns: cost.ns, ns: now });
        cost.ns = now;
        Ok(())
    }
}

/// Measures this host's stores and makes a model of them, called `name`.
///
/// # Errors
/// KVM refuses, a guest goes wrong, or no model comes out.
pub fn fit_stores(system: &System, name: &str, progress: &mut dyn FnMut(f64)) -> Result<StoreModel, StoreFitError> {
    let timebase = timebase().ok_or(StoreFitError::Timebase)?;
    let mut bench = StoreBench::new(system, PAGES)?;
    let mixes = mixes();
    let steps = (Way::ALL.len() * (HITS.len() + MISSES.len() + mixes.len())) as f64;
    let mut done = 0.0;
    let mut time = |way, pages: &[u32]| -> Result<StoreCost, HostError> {
        progress(done / steps);
        done += 1.0;
        bench.time(way, pages, WARM.into(), ROUNDS)
    };
    let (mut fitted, mut held_out) = (Vec::new(), Vec::new());
    for way in Way::ALL {
        let mut level = |over: [u32; 4]| {
            let ticks = over.map(|pages| Ok(time(way, &StoreBench::round_robin(pages, STORES))?.ticks));
            Ok::<_, HostError>(spread(ticks.into_iter().collect::<Result<_, HostError>>()?).0)
        };
        let of = FittedWay { way, hit: level(HITS)?, miss: level(MISSES)? };
        for (name, pages) in &mixes {
            let (hit_rate, measured) = (hit_rate(pages)?, time(way, pages)?);
            let predicted = of.hit * hit_rate + of.miss * (1.0 - hit_rate);
            let error_percent = (predicted - measured.ticks) / (of.miss - of.hit) * 100.0;
            held_out.push(Mix { name: name.clone(), way, hit_rate, predicted, measured, error_percent });
        }
        fitted.push(of);
    }
    let (costs, text) = model(name, &fitted, 1e9 / timebase as f64)?;
    Ok(StoreModel { kernel: release(), timebase, fitted, costs, held_out, text })
}

/// The template with the costs that make the simulator's doorbells take what this host's took.
fn model(name: &str, fitted: &[FittedWay], ns: f64) -> Result<(Vec<FittedCost>, String), StoreFitError> {
    let template = machine::BUILT_IN.iter().find(|(name, _)| *name == TEMPLATE).map_or("", |(_, text)| text);
    let machine = Machine::parse(TEMPLATE, template)?;
    let shares = match &machine.fit {
        Some(Fit::Book3sHv(fit)) => fit.shares.clone(),
        _ => return Err(StoreFitError::Mix(format!("{TEMPLATE} has no [fit.shares]"))),
    };
    let mut fitter = Fitter { machine, costs: Vec::new() };
    let of = |way| fitted.iter().find(|of| of.way == way).map_or((0.0, 0.0), |of| (of.hit * ns, of.miss * ns));
    // Each difference of two measured times goes to the stages that make it: a miss less a hit to the slow form's, ...
    let (hit, miss) = of(Way::IoeventfdAnyLength);
    let (one, five) = (fitter.simulated(Way::IoeventfdAnyLength, 1)?, fitter.simulated(Way::IoeventfdAnyLength, 5)?);
    let more = (miss - hit) - (five - one);
    for (stage, share) in &shares {
        fitter.add(stage, more * share)?;
    }
    // ... a hit to the ways between guest and host, by halves, decoding to the eventfd that needs it, user space to the exit.
    let rest = hit - fitter.simulated(Way::IoeventfdAnyLength, 1)?;
    fitter.add("host-entry", rest / 2.0)?;
    fitter.add("guest-entry", rest / 2.0)?;
    let rest = of(Way::IoeventfdLength4).0 - fitter.simulated(Way::IoeventfdLength4, 1)?;
    fitter.add("decode", rest)?;
    let rest = of(Way::Exit).0 - fitter.simulated(Way::Exit, 1)?;
    fitter.add("user-exit", rest)?;
    let mut text = fitter.costs.iter().fold(template.to_owned(), |text, cost| with_cost(&text, cost));
    for (key, value) in
        [("name", name.to_owned()), ("description", format!("hvmmio calibrate --host, kernel {}", release()))]
    {
        let line = text.lines().find(|line| line.starts_with(&format!("{key} = "))).unwrap_or_default().to_owned();
        text = text.replacen(&line, &format!("{key} = {value:?}"), 1);
    }
    Machine::parse(name, &text)?;
    Ok((fitter.costs, text))
}

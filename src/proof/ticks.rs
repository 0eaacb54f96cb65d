//! Ticks a store on real Book3S HV: what a hit and a miss cost by the measured table of pages and ways, and what the simulator
//! says from that of mixes which the fit has not seen.

use serde::Serialize;

use crate::addr::{EffectiveAddr, GuestPhysAddr, index};
use crate::book3s::insn::{Direction, EncodeError, Size};
use crate::kvm_hv::{CacheDesign, CacheUse, HcallError, Vcpu, VcpuConfig, Vm, VmConfig, VmError};
use crate::workload::guest::{Guest, PageUse, Touch};

use super::rng::Rng;

/// Pages used round robin that the fit sees.
pub const FITTED_PAGES: [u16; 8] = [1, 2, 3, 4, 5, 6, 8, 16];
/// Most pages of a list.
pub const MAX_PAGES: u16 = 16;

/// How a store ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreWay {
    /// KVM_EXIT_MMIO.
    UserExit,
    /// An ioeventfd of length 0: taken before the instruction is decoded.
    EventfdAny,
    /// An ioeventfd of length 4.
    EventfdWord,
}

impl StoreWay {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::UserExit, Self::EventfdAny, Self::EventfdWord];

    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UserExit => "exit",
            Self::EventfdAny => "ioeventfd, length 0",
            Self::EventfdWord => "ioeventfd, length 4",
        }
    }
}

/// Measures stores on a real kernel, in one tight batch.
pub trait TickMeter {
    /// Why it could not.
    type Error: std::error::Error;

    /// Time base ticks a store, the mean over `list`: the pages, 0 to 15, that the stores go to in order, each ending in
    /// `way`. The list was performed once before, so that nothing is cold.
    ///
    /// # Errors
    /// The kernel or the guest fails.
    fn ticks_per_store(&mut self, way: StoreWay, list: &[u16]) -> Result<f64, Self::Error>;
}

/// Why no figures came out.
#[derive(Debug, thiserror::Error)]
pub enum TickError<E: std::error::Error> {
    /// The meter.
    #[error(transparent)]
    Meter(E),
    /// The simulator.
    #[error(transparent)]
    Simulated(#[from] ShareError),
    /// Rows that do not tell hit and miss apart.
    #[error(transparent)]
    Fit(#[from] TickFitError),
}

/// Why a list has no share of hits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// The VM.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// A page could not be entered.
    #[error("page {page} of a list: {source}")]
    Enter {
        /// Which.
        page: u16,
        /// How.
        source: HcallError,
    },
    /// The store.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// Nothing to do, or a page that there is not.
    #[error("a list names pages 0 to {}, at least one of them", MAX_PAGES - 1)]
    List,
}

/// Why a fit is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TickFitError {
    /// All rows of a way have the same share of hits.
    #[error("{}: all rows have the same share of hits, so that hit and miss cannot be told apart", .way.name())]
    Undetermined {
        /// Which.
        way: StoreWay,
    },
}

/// A measured row, and the share of hits that the simulator gives it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TickRow {
    /// Pages, round robin.
    pub pages: u16,
    /// How its stores end.
    pub way: StoreWay,
    /// Share of hits, 0 to 1, simulated.
    pub hits: f64,
    /// Ticks a store, measured.
    pub ticks: f64,
}

/// What a hit and a miss cost, by least squares over the rows of a way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TickCosts {
    /// The way.
    pub way: StoreWay,
    /// Ticks of a hit, fitted.
    pub hit: f64,
    /// Ticks of a miss, fitted.
    pub miss: f64,
    /// The greatest distance of a row from the fit, ticks.
    pub greatest_rest: f64,
}

impl TickCosts {
    /// Ticks a store at a share of hits.
    #[must_use]
    pub fn at(&self, hits: f64) -> f64 {
        self.miss - hits * (self.miss - self.hit)
    }
}

/// A mix that the fit has not seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MixRow {
    /// What it is.
    pub mix: String,
    /// How its stores end.
    pub way: StoreWay,
    /// Share of hits, simulated.
    pub hits: f64,
    /// Ticks a store, predicted.
    pub predicted: f64,
    /// Ticks a store, measured.
    pub measured: f64,
    /// Their distance, in percent of what a miss costs beyond a hit.
    pub error_percent: f64,
}

/// Rows that the fit saw, what it gives, and mixes that it has not seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TickModel {
    /// Measured, used in the fit.
    pub rows: Vec<TickRow>,
    /// Fitted.
    pub costs: Vec<TickCosts>,
    /// Predicted and measured.
    pub mixes: Vec<MixRow>,
}

/// A list of pages that stores go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// What it is.
    pub name: String,
    /// Pages, 0 to 15.
    pub list: Vec<u16>,
}

/// Pages one after another, `length` stores.
#[must_use]
pub fn round_robin(pages: u16, length: usize) -> Vec<u16> {
    (0..pages).cycle().take(length).collect()
}

/// What is held out: hot sets of 3 to 6 pages, one store in ten to any of 16, and Zipf's law over 16.
#[must_use]
pub fn mixes(seed: u64, length: usize) -> Vec<Mix> {
    let mut rng = Rng::new(seed);
    let mut all = Vec::new();
    for hot in 3..=6 {
        let mut page = || {
            let of = if rng.one_in(10) { u64::from(MAX_PAGES) } else { hot };
            u16::try_from(rng.below(of)).unwrap_or(0)
        };
        let list = (0..length).map(|_| page()).collect();
        all.push(Mix { name: format!("{hot} hot pages of {MAX_PAGES}"), list });
    }
    // Weight 1/n of the n-th page, in steps of the least common multiple's size.
    let weights: Vec<u64> = (1..=u64::from(MAX_PAGES)).map(|n| 720_720 / n).collect();
    let sum: u64 = weights.iter().sum();
    let mut page = || {
        let mut at = rng.below(sum);
        let found = weights.iter().position(|weight| {
            let here = at < *weight;
            at = at.saturating_sub(*weight);
            here
        });
        u16::try_from(found.unwrap_or(0)).unwrap_or(0)
    };
    let list = (0..length).map(|_| page()).collect();
    all.push(Mix { name: format!("Zipf over {MAX_PAGES}"), list });
    all
}

/// The share of hits among the stores of `list`, performed by the whole simulated path after it was performed once.
///
/// # Errors
/// An empty list, or one that names a page beyond the sixteenth.
pub fn share_of_hits(design: CacheDesign, list: &[u16]) -> Result<f64, ShareError> {
    const EA: u64 = 0x0200_0000_0000;
    const GPA: u64 = 0x2000_0000_0000;
    const PAGE: u64 = 1 << 16;
    if list.is_empty() || list.iter().any(|page| *page >= MAX_PAGES) {
        return Err(ShareError::List);
    }
    let (vm, guest) = (Vm::new(VmConfig::default())?, Guest::default());
    let mut vcpu = Vcpu::new(&vm, VcpuConfig { cache: design, classify: false, ..VcpuConfig::default() });
    let ea = |page: u16| EffectiveAddr(EA + u64::from(page) * PAGE);
    // Slot 1 is one of the SLB's.
    let loaded = vcpu.slb.slbmte(guest.slb_entry(1, ea(0)));
    debug_assert!(loaded.is_ok());
    for page in 0..MAX_PAGES {
        let gpa = GuestPhysAddr(GPA + u64::from(page) * PAGE);
        guest.map(&vm, ea(page), gpa, PageUse::DEVICE).map_err(|source| ShareError::Enter { page, source })?;
    }
    let store = Touch::new(Direction::Store, Size::Word)?;
    let mut pass = || {
        let hit = |page: &&u16| store.perform(&vm, &mut vcpu, ea(**page), 1).cache == CacheUse::Hit;
        list.iter().filter(hit).count()
    };
    pass();
    Ok(pass() as f64 / list.len() as f64)
}

/// Costs of a hit and a miss, a way at a time.
///
/// # Errors
/// Rows of a way that all have the same share of hits.
pub fn fit(rows: &[TickRow]) -> Result<Vec<TickCosts>, TickFitError> {
    let ways = StoreWay::ALL.into_iter().filter(|way| rows.iter().any(|row| row.way == *way));
    ways.map(|way| fit_way(way, rows)).collect()
}

fn fit_way(way: StoreWay, rows: &[TickRow]) -> Result<TickCosts, TickFitError> {
    let rows: Vec<_> = rows.iter().filter(|row| row.way == way).collect();
    let mean = |of: fn(&TickRow) -> f64| rows.iter().map(|row| of(row)).sum::<f64>() / rows.len() as f64;
    let (hits, ticks) = (mean(|row| row.hits), mean(|row| row.ticks));
    let spread: f64 = rows.iter().map(|row| (row.hits - hits).powi(2)).sum();
    if spread == 0.0 {
        return Err(TickFitError::Undetermined { way });
    }
    let slope = rows.iter().map(|row| (row.hits - hits) * (row.ticks - ticks)).sum::<f64>() / spread;
    let miss = ticks - slope * hits;
    let mut costs = TickCosts { way, hit: miss + slope, miss, greatest_rest: 0.0 };
    let rest = rows.iter().map(|row| (row.ticks - costs.at(row.hits)).abs());
    costs.greatest_rest = rest.fold(0.0, f64::max);
    Ok(costs)
}

/// Measures the table of pages and ways, fits, then predicts and measures the mixes; `length` stores a list.
///
/// # Errors
/// The meter fails, or its rows do not tell hit from miss.
pub fn calibrate_ticks<M: TickMeter>(
    meter: &mut M,
    design: CacheDesign,
    (seed, length): (u64, usize),
) -> Result<TickModel, TickError<M::Error>> {
    let mut rows = Vec::new();
    for pages in FITTED_PAGES {
        // Whole rounds, so that the second pass begins where the first ended.
        let list = round_robin(pages, length.div_ceil(index(pages.into())) * index(pages.into()));
        let hits = share_of_hits(design, &list)?;
        for way in StoreWay::ALL {
            let ticks = meter.ticks_per_store(way, &list).map_err(TickError::Meter)?;
            rows.push(TickRow { pages, way, hits, ticks });
        }
    }
    let costs = fit(&rows)?;
    let mut seen = Vec::new();
    for mix in mixes(seed, length) {
        let hits = share_of_hits(design, &mix.list)?;
        for costs in &costs {
            let (predicted, way) = (costs.at(hits), costs.way);
            let measured = meter.ticks_per_store(way, &mix.list).map_err(TickError::Meter)?;
            let error_percent = (predicted - measured) / (costs.miss - costs.hit) * 100.0;
            seen.push(MixRow { mix: mix.name.clone(), way, hits, predicted, measured, error_percent });
        }
    }
    Ok(TickModel { rows, costs, mixes: seen })
}

#[cfg(test)]
mod tests;

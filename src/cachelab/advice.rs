//! What to make of a sweep, in a sentence with figures.

use serde::Serialize;

use super::LabPolicy;
use super::cost::AccessCost;
use super::sweep::SweepRow;
use crate::kvm_hv::{KERNEL_ENTRIES, PolicyKind};

/// Share of all accesses by which a hit rate may fall short of the best.
const WITHIN: f64 = 0.01;

/// The smallest cache that comes close to the best possible one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Best hit rate that any design of the sweep could have: the optimum's at its largest size, or, if the optimum was not
    /// swept, the best of what was.
    pub best_rate: f64,
    /// Entries at which it is had.
    pub best_entries: u64,
    /// The recommended policy; none if no cache of the sweep comes within 1 % of the best.
    pub policy: Option<&'static str>,
    /// Its entries.
    pub entries: u64,
    /// Its hit rate.
    pub hit_rate: f64,
    /// ns that it saves an access over the kernel's cache; none if that was not swept. Negative if it costs.
    pub saves_over_kernel_ns: Option<f64>,
    /// ns that it saves an access over no cache.
    pub saves_over_none_ns: f64,
    /// All of it as a sentence.
    pub sentence: String,
}

/// Simplest first: of two that are as small, the simpler is recommended.
fn simplicity(policy: LabPolicy) -> usize {
    use PolicyKind::{Clock, Lru, Random, RoundRobin, Sieve};
    let order = [RoundRobin, Random, Clock, Sieve, Lru].map(LabPolicy::Cache);
    order.iter().position(|other| *other == policy).unwrap_or(order.len())
}

impl Advice {
    pub(super) fn of(rows: &[SweepRow], accesses: u64, cost: &AccessCost) -> Option<Self> {
        if accesses == 0 {
            return None;
        }
        let real = || rows.iter().filter(|row| row.policy != LabPolicy::Optimum);
        let optimum = rows.iter().filter(|row| row.policy == LabPolicy::Optimum);
        let better = |a: &&SweepRow, b: &&SweepRow| a.hits.cmp(&b.hits).then(b.entries.cmp(&a.entries));
        let bound = optimum.max_by(better);
        let best = bound.or_else(|| real().max_by(better))?;
        let close = real().filter(|row| row.hit_rate >= best.hit_rate - WITHIN);
        let chosen = close.min_by(|a, b| {
            let (a, b) = ((a.entries, simplicity(a.policy)), (b.entries, simplicity(b.policy)));
            a.cmp(&b)
        });
        let is_kernel = |row: &&SweepRow| {
            row.policy == LabPolicy::Cache(PolicyKind::RoundRobin) && row.entries == KERNEL_ENTRIES as u64
        };
        let kernel = real().find(is_kernel);
        let told = chosen.or_else(|| real().max_by(better))?;
        let saves_over_kernel_ns = kernel.map(|kernel| kernel.ns_per_access - told.ns_per_access);
        let saves_over_none_ns = cost.off_ns - told.ns_per_access;
        let what = match bound {
            Some(_) => format!("the optimum's best, {:.2} % at {} entries", best.hit_rate * 100.0, best.entries),
            None => format!("the best of this sweep, {:.2} % at {} entries", best.hit_rate * 100.0, best.entries),
        };
        let entries = |row: &SweepRow| match row.entries {
            0 => "no cache".to_owned(),
            1 => format!("1 entry, {}", row.policy),
            n => format!("{n} entries, {}", row.policy),
        };
        let mut sentence = match chosen {
            Some(row) => format!(
                "The smallest cache within 1 % of {what}, is {}: {:.2} % hits",
                entries(row),
                row.hit_rate * 100.0
            ),
            None => format!(
                "No cache of this sweep comes within 1 % of {what}; the nearest is {}: {:.2} % hits",
                entries(told),
                told.hit_rate * 100.0
            ),
        };
        match (kernel, saves_over_kernel_ns) {
            (Some(kernel), _) if kernel == told => sentence += ", the kernel's own",
            (Some(kernel), Some(ns)) => {
                let verb = if ns < 0.0 { "costs" } else { "saves" };
                let (rate, ns) = (kernel.hit_rate * 100.0, ns.abs());
                sentence += &format!("; it {verb} {ns:.1} ns an access over the kernel's cache ({rate:.2} %)");
            }
            _ => {}
        }
        sentence += &format!(", and saves {saves_over_none_ns:.1} ns an access over no cache, by the machine model.");
        Some(Self {
            best_rate: best.hit_rate,
            best_entries: best.entries,
            policy: chosen.map(|row| row.policy.name()),
            entries: told.entries,
            hit_rate: told.hit_rate,
            saves_over_kernel_ns,
            saves_over_none_ns,
            sentence,
        })
    }
}

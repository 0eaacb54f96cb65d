//! Coalesced doorbells beside the ways a stock kernel has: what they save a doorbell, and how late the back end is told.

use crate::sim::{DrainDelay, RunResult};

use super::csv::Row;
use super::grouped;

/// A line of the overview: its name, and its cell for a run beside the run that was asked for.
type Line = (&'static str, fn(&RunResult, &RunResult) -> String);

/// Lines that stay empty unless doorbells were coalesced.
pub(super) const LINES: [Line; 11] = [
    ("device model behind the exit", |run, asked| {
        let shown = asked.drain_delay_ns.is_some() && run.user_device_ns > 0.0;
        if shown { format!("{:.1}", run.user_device_ns) } else { String::new() }
    }),
    ("  vCPU time saved by coalescing", |run, asked| beside(run, asked, vcpu_ns(run) - vcpu_ns(asked))),
    ("back end told after, mean ns", |run, asked| {
        asked.drain_delay_ns.and(run.told_ns).map_or_else(String::new, |ns| format!("{ns:.1}"))
    }),
    ("  later by coalescing", |run, asked| match (run.told_ns, asked.told_ns) {
        (Some(at_once), Some(coalesced)) => beside(run, asked, coalesced - at_once),
        _ => String::new(),
    }),
    ("from write to drain, ns: mean", |run, _| delay(run, |delay| format!("{:.1}", delay.mean))),
    ("  p50", |run, _| delay(run, |delay| grouped(delay.p50))),
    ("  p90", |run, _| delay(run, |delay| grouped(delay.p90))),
    ("  p99", |run, _| delay(run, |delay| grouped(delay.p99))),
    ("  p99.9", |run, _| delay(run, |delay| grouped(delay.p99_9))),
    ("  longest", |run, _| delay(run, |delay| format!("{:.1}", delay.max))),
    ("  never: in the ring at the end", |run, _| delay(run, |delay| grouped(delay.waiting))),
];

/// What an access costs its vCPU, ns.
fn vcpu_ns(run: &RunResult) -> f64 {
    run.ns_per_access + run.user_device_ns
}

/// A difference between a run and the coalesced one; nothing for that one itself.
fn beside(run: &RunResult, asked: &RunResult, difference: f64) -> String {
    let compared = asked.drain_delay_ns.is_some() && run.drain_delay_ns.is_none();
    if compared { format!("{difference:.1}") } else { String::new() }
}

fn delay(run: &RunResult, cell: impl Fn(DrainDelay) -> String) -> String {
    run.drain_delay_ns.map_or_else(String::new, cell)
}

/// The same as CSV rows.
pub(super) fn rows(run: &RunResult, subject: &str, rows: &mut Vec<Row>) {
    if run.user_device_ns > 0.0 {
        rows.push(Row::new(subject, "device model behind the exit", run.user_device_ns, "ns", ""));
    }
    if let Some(ns) = run.told_ns {
        rows.push(Row::new(subject, "back end told after, mean", ns, "ns", ""));
    }
    let Some(delay) = run.drain_delay_ns else { return };
    let DrainDelay { drained, waiting, mean, min, p50, p90, p99, p99_9, max } = delay;
    rows.push(Row::new(subject, "coalesced and drained", drained, "", ""));
    rows.push(Row::new(subject, "coalesced, in the ring at the end", waiting, "", ""));
    let quantiles = [("p50", p50), ("p90", p90), ("p99", p99), ("p99.9", p99_9)].map(|(name, ns)| (name, ns as f64));
    for (name, ns) in [("mean", mean), ("shortest", min)].into_iter().chain(quantiles).chain([("longest", max)]) {
        rows.push(Row::new(subject, &format!("write to drain, {name}"), ns, "ns", ""));
    }
}

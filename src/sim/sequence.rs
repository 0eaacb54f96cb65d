//! A sequence of operations as a workload: its accesses priced, its labels compared.

use crate::machine::Prices;
use crate::workload::guest::Guest;
use crate::workload::sequence::{self, Sequence, SequenceConfig};

use super::SimError;
use super::result::RunResult;
use super::scenario::Scenario;
use super::stats::Stats;

pub(super) fn run(scenario: &Scenario, sequence: &Sequence) -> Result<RunResult, SimError> {
    let config = SequenceConfig {
        cache: scenario.cache,
        behaviour: scenario.behaviour,
        guest: Guest::default(),
        seed: scenario.seed,
    };
    let prices = Prices::new(&scenario.machine);
    let mut stats = Stats::default();
    let report = sequence::run(sequence, &config)?;
    for (ea, record) in report.steps.iter().filter_map(|step| step.record) {
        stats.add(ea, &record, &prices);
    }
    let mut result = RunResult::of_stats(scenario, &stats);
    result.virtual_s = stats.path_time.seconds();
    result.failure = match (&report.first_disagreement, stats.stuck) {
        (Some(first), _) => Some(first.describe()),
        (None, Some((reason, ea))) => Some(format!("the access at EA {ea} retries for ever: {}", reason.describe())),
        (None, None) => None,
    };
    Ok(result)
}

//! When a job starts, and how fast it may go.

use super::distribution;
use super::effective::Effective;
use super::error::FioError;
use super::job::{LatencyProfile, ThinkAfter};
use super::jobfile::Setting;
use super::value::Value;

/// Delay before a job starts, ns.
pub(super) fn start_delay(effective: &Effective<'_>) -> Result<u64, FioError> {
    if let Some(Setting { value: Value::Numbers(numbers), .. }) = effective.setting("startdelay") {
        if let [Some(low), Some(high), ..] = numbers.as_slice() {
            if low != high {
                return Err(
                    effective.not_modelled("startdelay", "a delay drawn from a range is not modelled; write one time")
                );
            }
        }
    }
    effective.time("startdelay")
}

pub(super) type Rates = [Option<u64>; 2];

pub(super) fn rates(effective: &Effective<'_>) -> Result<(Rates, Rates), FioError> {
    let rate = |name: &str| -> Result<Rates, FioError> {
        let mut rates = [None, None];
        for (direction, number) in effective.pair(name).into_iter().enumerate() {
            let Some(number) = number.filter(|number| *number != 0) else { continue };
            rates[direction] = Some(u64::try_from(number).ok().filter(|rate| *rate < 1 << 50).ok_or_else(|| {
                effective.impossible(
                    name,
                    format!("{number} per second is no rate"),
                    "write a rate as 10m or 500".to_owned(),
                )
            })?);
        }
        Ok(rates)
    };
    let (bps, iops) = (rate("rate")?, rate("rate_iops")?);
    if bps.iter().any(Option::is_some) && iops.iter().any(Option::is_some) {
        return Err(effective.impossible(
            "rate_iops",
            "fio takes either rate or rate_iops".to_owned(),
            "leave one of them out".to_owned(),
        ));
    }
    Ok((bps, iops))
}

pub(super) fn think_after(effective: &Effective<'_>) -> Result<ThinkAfter, FioError> {
    let count = effective.count("thinktime_blocks", 1, 1, u32::MAX)?;
    Ok(match effective.word("thinktime_blocks_type") {
        Some("issue") => ThinkAfter::Issues(count),
        _ => ThinkAfter::Completions(count),
    })
}

pub(super) fn latency(effective: &Effective<'_>) -> Result<Option<LatencyProfile>, FioError> {
    let target_ns = effective.time("latency_target")?;
    if target_ns == 0 {
        return Ok(None);
    }
    let percentile = distribution::millionths(effective.float("latency_percentile").unwrap_or(100.0));
    Ok(Some(LatencyProfile {
        target_ns,
        window_ns: effective.time("latency_window")?,
        percentile: u64::try_from(percentile).unwrap_or(0),
    }))
}

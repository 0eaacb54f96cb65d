//! fio 3.33 options: when requests are issued, how often a job runs, and when it ends.
//!
//! One row per option, from `fio --cmdhelp` and `fio --enghelp`.

#[allow(clippy::wildcard_imports, reason = "a table: every name is a word of the table")]
use super::row::*;

/// The rows.
pub(super) static ROWS: &[OptionRow] = &[
    row("description", &[], TEXT, Ignored),
    row("name", &[], TEXT, Modelled),
    row("wait_for", &[], TEXT, Refused("waiting for a named job is not modelled (stonewall is)")),
    row("loops", &[], INT, Modelled),
    row("numjobs", &[], INT, Modelled),
    row("startdelay", &[], Kind::Time(Unit::Secs), Modelled),
    row("runtime", &["timeout"], Kind::Time(Unit::Secs), Modelled),
    row("time_based", &[], Kind::Set, Modelled),
    row("ramp_time", &[], Kind::Time(Unit::Secs), Modelled),
    row("clocksource", &[], Kind::Choice(&["gettimeofday", "clock_gettime", "cpu"]), Ignored),
    row("thinktime", &[], Kind::Int { min: 0, max: 4294967295, unit: Unit::Micros }, Modelled),
    row("thinktime_spin", &[], Kind::Int { min: 0, max: 4294967295, unit: Unit::Micros }, Modelled),
    row("thinktime_blocks", &[], INT, Modelled),
    row("thinktime_blocks_type", &[], Kind::Choice(&["complete", "issue"]), Modelled),
    row(
        "thinktime_iotime",
        &[],
        Kind::Int { min: 0, max: 4294967295, unit: Unit::Secs },
        Refused("thinktime governed by elapsed I/O time is not modelled"),
    ),
    row("rate", &[], Kind::Long { min: 0, unit: Unit::Bytes }, Modelled),
    row("rate_min", &["ratemin"], Kind::Long { min: 0, unit: Unit::Bytes }, Ignored),
    row("rate_iops", &[], INT, Modelled),
    row("rate_iops_min", &[], INT, Ignored),
    row("rate_process", &[], Kind::Choice(&["linear", "poisson"]), Modelled),
    row("rate_cycle", &["ratecycle"], INT, Ignored),
    row("rate_ignore_thinktime", &[], Kind::Bool, Modelled),
    row("max_latency", &[], Kind::Long { min: 0, unit: Unit::Micros }, Ignored),
    row("latency_target", &[], Kind::Time(Unit::Micros), Modelled),
    row("latency_window", &[], Kind::Time(Unit::Micros), Modelled),
    row("latency_percentile", &[], floats(1, 100), Modelled),
    row("latency_run", &[], Kind::Bool, Modelled),
    row("exitall", &[], Kind::Set, Refused("ending all jobs when one ends is not modelled")),
    row("exit_what", &[], Kind::Choice(&["group", "stonewall", "all"]), Ignored),
    row("exitall_on_error", &[], Kind::Set, Ignored),
    row("stonewall", &["wait_for_previous"], Kind::Set, Modelled),
    row("new_group", &[], Kind::Set, Ignored),
    row("thread", &[], Kind::Set, Ignored),
    row("gtod_reduce", &[], Kind::Bool, Ignored),
    row("gtod_cpu", &[], INT, Ignored),
    row("profile", &[], TEXT, Refused("built-in profiles are not modelled")),
    row("flow_id", &[], INT, Ignored),
    row("flow", &[], int(0, 1000), Refused("flow control between jobs is not modelled")),
    row("flow_watermark", &[], Kind::SoftDeprecated, Ignored),
    row("flow_sleep", &[], INT, Ignored),
    row(
        "steadystate",
        &["ss"],
        Kind::Choice(&["iops", "iops_slope", "bw", "bw_slope"]),
        Refused("ending a job at a steady state is not modelled"),
    ),
    row(
        "steadystate_duration",
        &["ss_dur"],
        Kind::Time(Unit::Secs),
        Refused("ending a job at a steady state is not modelled"),
    ),
    row("steadystate_ramp_time", &["ss_ramp"], Kind::Time(Unit::Secs), Ignored),
];

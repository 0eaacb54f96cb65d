//! Remarks on a planned job: what is taken for what, and what was made simpler than in fio.

use std::collections::BTreeSet;

use super::effective::Effective;
use super::extent::Extent;
use super::job::{Distribution, Engine, FioJob};
use super::jobfile::Note;
use super::value::Value;

/// The remarks on a job.
pub(super) fn describe(
    effective: &Effective<'_>,
    job: &FioJob,
    extent: &Extent,
    iodepth: u32,
    notes: &mut BTreeSet<Note>,
) {
    let mut note = |option: &str, text: String| {
        notes.insert(Note { line: effective.line(option), text });
    };
    if job.engine == Engine::Null {
        note(
            "ioengine",
            "fio's null engine does no I/O in the kernel; here its requests go to the null block device".to_owned(),
        );
    }
    if iodepth > job.depth {
        note("iodepth", format!("iodepth={iodepth} with a synchronous engine: one request is in flight"));
    }
    if !job.direct && job.engine != Engine::Null {
        note("direct", "buffered I/O: the page cache is not modelled, every request reaches the device".to_owned());
    }
    if let Some(bytes) = extent.assumed_device {
        note("size", format!("size is left to the device; a device of {bytes} bytes is assumed"));
    }
    if job.random_percent != [0, 0] && !job.norandommap && job.distribution == Distribution::Uniform {
        note(
            "norandommap",
            "fio takes every block once before it takes one again; here offsets are drawn independently".to_owned(),
        );
    }
    if job.latency.is_some() {
        note(
            "latency_target",
            "the search for a depth is planned but not simulated: the job runs at its iodepth".to_owned(),
        );
    }
    if let Some(setting) = effective.setting("randrepeat").filter(|setting| setting.value == Value::Flag(false)) {
        notes.insert(Note {
            line: setting.line,
            text: "randrepeat=0: the simulated job draws the same numbers every time all the same".to_owned(),
        });
    }
    if effective.word("io_submit_mode") == Some("offload") {
        notes.insert(Note {
            line: effective.line("io_submit_mode"),
            text: "requests are issued by the job itself, not by a helper thread".to_owned(),
        });
    }
    if effective.all("filename").count() > 1 {
        notes.insert(Note {
            line: effective.line("filename"),
            text: format!("fio adds the files of all filename lines together: {}", extent.filename),
        });
    }
}

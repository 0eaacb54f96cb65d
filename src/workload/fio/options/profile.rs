//! fio 3.33 options: those of its built-in profiles act and tiobench.
//!
//! fio takes them in any job file and does nothing with them there: two of its own examples say `threads=2`.

#[allow(clippy::wildcard_imports, reason = "a table: every name is a word of the table")]
use super::row::*;

/// The rows.
pub(super) static ROWS: &[OptionRow] = &[
    row("device-names", &[], TEXT, Ignored),
    row("load", &[], INT, Ignored),
    row("test-duration", &[], Kind::Time(Unit::Micros), Ignored),
    row("threads-per-queue", &[], INT, Ignored),
    row("read-req-num-512-blocks", &[], INT, Ignored),
    row("large-block-op-kbytes", &[], INT, Ignored),
    row("prep", &[], Kind::Set, Ignored),
    row("block", &[], INT, Ignored),
    row("numruns", &[], INT, Ignored),
    row("dir", &[], TEXT, Ignored),
    row("threads", &[], INT, Ignored),
];

//! fio job files: read the way fio 3.33 reads them, and turned into jobs a simulator can run.
//!
//! Two stages. [`JobFile::read`] takes what `fio --parse-only` takes without a complaint and refuses the
//! rest; [`JobFile::plan`] turns the sections into [`FioJob`]s, lists the options that shape no request
//! ([`Plan::ignored`]), and refuses what would make the result wrong if it were left out, by name.
//! [`Requests`] then draws a job's requests and [`Pacer`] tells when each may be issued.
//!
//! | file | holds |
//! |---|---|
//! | `lines` | bytes to sections of option lines; `include` |
//! | `substitute`, `expression` | `${VAR}`, `$pagesize`, arithmetic |
//! | `options` | the table of fio's options; `engines`, that of its engines |
//! | `number`, `value`, `checks` | values, read by kind |
//! | `jobfile` | the first stage |
//! | `effective`, `blocks`, `extent`, `distribution`, `timing`, `notes`, `plan` | the second |
//! | `requests`, `pacer` | running a job |
//!
//! # Where this differs from fio
//!
//! - A file without a job, a missing include and a file that is not UTF-8 are errors; `fio --parse-only`
//!   exits with 0 for the first two.
//! - fio takes an option with several parts if any part is good, though it complains about the others:
//!   `iodepth=-1` leaves the depth as it was, exit code 0. Here a complaint is an error.
//! - `(4*1k)` is worked out; fio does so only when built with its expression parser (Debian's is not).
//! - Options of engines that a fio build lacks are known here.
//! - Next to a keyword fio has `bc` work a sum out, for which an unknown word is 0; here it is an error.
//! - Checks that ask the host (does a directory exist, is a CPU there) are left out, as with `--parse-only`.
//! - `$pagesize`, `$mb_memory` and `$ncpus` are those of a small POWER guest, so that a plan is the same on
//!   every host.

mod blocks;
mod checks;
mod distribution;
mod effective;
pub mod engines;
mod error;
mod expression;
mod extent;
mod job;
mod jobfile;
mod lines;
mod math;
mod nearest;
mod notes;
mod number;
pub mod options;
mod pacer;
mod plan;
mod requests;
mod substitute;
mod timing;
mod value;

#[cfg(test)]
mod tests;

pub use error::FioError;
pub use job::{
    Batch, BlockSize, Direction, Distribution, Engine, FileOrder, FioJob, IgnoredOption, LatencyProfile, Plan,
    PlanOptions, Sequence, Then, ThinkAfter, Zone,
};
pub use jobfile::{JobFile, Note, Section, SectionKind, Setting};
pub use pacer::Pacer;
pub use requests::{Request, Requests};
pub use value::Value;

//! The table of fio 3.33's options.

mod content;
mod engine;
mod file;
mod process;
mod profile;
mod request;
mod row;
mod time;

pub use row::{Class, Kind, OptionRow, Unit};

use super::nearest::nearest;

const GROUPS: [&[OptionRow]; 7] =
    [request::ROWS, file::ROWS, time::ROWS, content::ROWS, process::ROWS, profile::ROWS, engine::ROWS];

/// Every option, those of engines last.
pub fn all() -> impl Iterator<Item = &'static OptionRow> {
    GROUPS.into_iter().flatten()
}

/// The option of that name that a job with this engine has: one of every job first, then the engine's own.
#[must_use]
pub fn find(name: &str, engine: &str) -> Option<&'static OptionRow> {
    find_common(name).or_else(|| all().find(|row| row.engines.contains(&engine) && row.is_called(name)))
}

/// The option of that name that every job has.
#[must_use]
pub fn find_common(name: &str) -> Option<&'static OptionRow> {
    all().find(|row| row.engines.is_empty() && row.is_called(name))
}

/// The engines that have an option of that name; empty when no engine has one.
#[must_use]
pub fn engines_with(name: &str) -> Vec<&'static str> {
    all().filter(|row| row.is_called(name)).flat_map(|row| row.engines.iter().copied()).collect()
}

/// The option whose name is nearest to a mistyped one, if any is near enough to be meant.
#[must_use]
pub fn suggest(name: &str) -> Option<&'static str> {
    nearest(name, all().flat_map(|row| row.aliases.iter().copied().chain([row.name])))
}

/// Whether the option belongs to a built-in profile, and so does nothing in a job file.
pub(super) fn is_of_profile(row: &OptionRow) -> bool {
    profile::ROWS.iter().any(|of_profile| of_profile.name == row.name)
}

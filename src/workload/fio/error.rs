//! What can be wrong with a fio job file.

use std::path::PathBuf;

/// Why a job file could not be read or planned. Every variant says where, what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FioError {
    /// The file, or one it includes, cannot be read.
    #[error("{}: cannot be read: {reason}", file.display())]
    Unreadable {
        /// The file that cannot be read.
        file: PathBuf,
        /// The operating system's words.
        reason: String,
    },
    /// The file is not UTF-8 text.
    #[error("{}:{line}: not UTF-8 text; a fio job file is lines of text", file.display())]
    NotText {
        /// The file.
        file: PathBuf,
        /// First line that is not text, from 1.
        line: u32,
    },
    /// The file has no section that is a job.
    #[error("{}: no job in this file; a job is a section [name], other than [global], with options below it", file.display())]
    NoJob {
        /// The file.
        file: PathBuf,
    },
    /// A line stands where none can.
    #[error("{}:{line}: `{text}` {problem}; {right}", file.display())]
    Misplaced {
        /// The file.
        file: PathBuf,
        /// Its line, from 1.
        line: u32,
        /// The line's text.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
        /// What would be right.
        right: String,
    },
    /// No option of fio has that name, or none of the job's engine.
    #[error("{}:{line}: fio has no option `{option}` here; {right}", file.display())]
    UnknownOption {
        /// The file.
        file: PathBuf,
        /// Its line, from 1.
        line: u32,
        /// The name that was given.
        option: String,
        /// The nearest name that exists, if one is near.
        suggestion: Option<&'static str>,
        /// What would be right.
        right: String,
    },
    /// The option exists, the value is not one of its values.
    #[error("{}:{line}: `{value}` is no value of {option}; {right}", file.display())]
    BadValue {
        /// The file.
        file: PathBuf,
        /// Its line, from 1.
        line: u32,
        /// The option.
        option: String,
        /// The value that was given.
        value: String,
        /// What would be right.
        right: String,
    },
    /// Well-formed for fio, but no simulated job can do it.
    #[error("{}:{line}: job `{section}`: {option}: {problem}; {right}", file.display())]
    Impossible {
        /// The file.
        file: PathBuf,
        /// The section.
        section: Box<str>,
        /// The line of the option, from 1.
        line: u32,
        /// The option.
        option: Box<str>,
        /// What is wrong.
        problem: String,
        /// What would be right.
        right: String,
    },
    /// An option or engine of fio that the simulator does not model, and may not ignore.
    #[error("{}:{line}: job `{section}` uses {what}, which is not modelled: {why}", file.display())]
    NotModelled {
        /// The file.
        file: PathBuf,
        /// The section.
        section: Box<str>,
        /// The line of the option, from 1.
        line: u32,
        /// The option or engine, as written: `ioengine=net`, `fsync=1`.
        what: String,
        /// Why ignoring it would make the result wrong.
        why: String,
    },
}

impl FioError {
    /// The line, from 1, where one line is to blame.
    #[must_use]
    pub const fn line(&self) -> Option<u32> {
        match self {
            Self::Unreadable { .. } | Self::NoJob { .. } => None,
            Self::NotText { line, .. }
            | Self::Misplaced { line, .. }
            | Self::UnknownOption { line, .. }
            | Self::BadValue { line, .. }
            | Self::Impossible { line, .. }
            | Self::NotModelled { line, .. } => Some(*line),
        }
    }

    /// The file.
    #[must_use]
    pub const fn file(&self) -> &PathBuf {
        match self {
            Self::Unreadable { file, .. }
            | Self::NoJob { file }
            | Self::NotText { file, .. }
            | Self::Misplaced { file, .. }
            | Self::UnknownOption { file, .. }
            | Self::BadValue { file, .. }
            | Self::Impossible { file, .. }
            | Self::NotModelled { file, .. } => file,
        }
    }
}

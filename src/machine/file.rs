//! Reading files that people edit: every error says file, line, what is wrong and what would be right.

use std::path::Path;

use serde::de::DeserializeOwned;

/// Why a machine model or scenario file was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("{file}: cannot be read: {why}")]
    Unreadable {
        /// The file.
        file: String,
        /// The system's words.
        why: String,
    },
    /// Not UTF-8.
    #[error("{file}:{line}: not UTF-8 text (byte {offset})")]
    NotUtf8 {
        /// The file.
        file: String,
        /// Line of the first bad byte, from 1.
        line: usize,
        /// Its offset.
        offset: usize,
    },
    /// Nothing in it.
    #[error("{file}: empty; it should hold {expected}")]
    Empty {
        /// The file.
        file: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// Not what its format asks for.
    #[error("{file}:{line}: {what}")]
    Invalid {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong and what would be right.
        what: String,
    },
}

impl FileError {
    /// An [`FileError::Invalid`] at the line of `key` in `text`, or line 1 if it does not stand there.
    #[must_use]
    pub fn at_key(file: &str, text: &str, key: &str, what: String) -> Self {
        let starts = |line: &str| {
            let rest = line.trim_start().strip_prefix(key);
            rest.is_some_and(|rest| rest.trim_start().starts_with(['=', '.']))
                || line.trim().trim_matches(['[', ']']).split('.').next_back() == Some(key)
        };
        let line = text.lines().position(starts).map_or(1, |at| at + 1);
        Self::Invalid { file: file.to_owned(), line, what }
    }
}

/// Largest file that is read: far above any model, far below what would hurt.
const MAX_BYTES: u64 = 16 << 20;

/// The text of a file.
///
/// # Errors
/// Missing, unreadable, larger than 16 MiB, not UTF-8, or empty; `expected` says what it should hold.
pub fn read_text(path: &Path, expected: &'static str) -> Result<String, FileError> {
    let file = path.display().to_string();
    let unreadable = |why: String| FileError::Unreadable { file: file.clone(), why };
    let meta = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    if meta.is_dir() {
        return Err(unreadable("it is a folder".to_owned()));
    }
    if meta.len() > MAX_BYTES {
        return Err(unreadable(format!("{} bytes is more than {MAX_BYTES}", meta.len())));
    }
    let bytes = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1;
        FileError::NotUtf8 { file: file.clone(), line, offset }
    })?;
    if text.trim().is_empty() {
        return Err(FileError::Empty { file, expected });
    }
    Ok(text)
}

/// Parses TOML into `T`; unknown keys, wrong types and missing keys are told with their line.
///
/// # Errors
/// [`FileError::Invalid`].
pub fn parse_toml<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, FileError> {
    toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let line = text.get(..offset).unwrap_or(text).matches('\n').count() + 1;
        FileError::Invalid { file: file.to_owned(), line, what: error.message().to_owned() }
    })
}

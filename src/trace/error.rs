//! Why a recording was refused.

/// An error names the file, the place and what would be right. Offsets count from 0, lines from 1; in a compressed file
/// they are those of what is compressed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It cannot be opened or read.
    #[error("{file}: cannot be read at byte {offset}: {source}")]
    Read {
        /// The file.
        file: String,
        /// Where.
        offset: u64,
        /// The system's words, or the decompressor's.
        source: std::io::Error,
    },
    /// A line of text that is damaged.
    #[error("{file}:{line}: byte {offset}: {what}")]
    Line {
        /// The file.
        file: String,
        /// Line.
        line: u64,
        /// Offset of the line's first byte.
        offset: u64,
        /// What is wrong and what would be right.
        what: String,
    },
    /// Bytes of a binary form that are damaged or missing.
    #[error("{file}: byte {offset}: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// Where.
        offset: u64,
        /// What is wrong and what would be right.
        what: String,
    },
    /// Nothing that this crate reads.
    #[error("{file}: {what}")]
    Foreign {
        /// The file.
        file: String,
        /// What it is not, and what is read.
        what: String,
    },
    /// It cannot be written.
    #[error("{file}: cannot be written: {source}")]
    Write {
        /// The file.
        file: String,
        /// The system's words.
        source: std::io::Error,
    },
}

//! What can be wrong with a sequence file, or stop a run of it.

use crate::kvm_hv::{HcallError, VmError};

use super::{Op, PAGES};

/// What is wrong with one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// No such operation.
    #[error(
        "`{text}` is no operation: pN, lN or xN with a page number, or store, load, enter, remove, bulk-remove, protect, read, clear-ref, clear-mod, page-out, page-in, memslot-create, memslot-delete, dirty-log, new-hpt, reset-hpt"
    )]
    UnknownOp {
        /// The word.
        text: String,
    },
    /// A word after the operation that is neither its argument nor a label.
    #[error("`{text}` is no label: hit, miss, ram, reflected, retries, or - for none")]
    UnknownLabel {
        /// The word.
        text: String,
    },
    /// A page number beyond the last.
    #[error("page {text} is out of range: 0 to {}", PAGES - 1)]
    PageOutOfRange {
        /// The number as written.
        text: String,
    },
    /// An argument that is not what the operation takes.
    #[error("{op} takes {wanted}, not `{text}`")]
    Argument {
        /// The operation.
        op: &'static str,
        /// What it takes.
        wanted: &'static str,
        /// What the line has.
        text: String,
    },
    /// An argument that is not there.
    #[error("{op} needs {wanted} after it")]
    MissingArgument {
        /// The operation.
        op: &'static str,
        /// What it takes.
        wanted: &'static str,
    },
}

/// Why there is no sequence, or no report of one.
#[derive(Debug, thiserror::Error)]
pub enum SequenceError {
    /// The file could not be read.
    #[error("{name}: cannot be read: {source}")]
    Read {
        /// The file.
        name: String,
        /// What the host says.
        source: std::io::Error,
    },
    /// Not text.
    #[error("{name}:{line}: not UTF-8; a sequence is plain text, one operation a line, for example `p3 hit`")]
    NotUtf8 {
        /// The file.
        name: String,
        /// First line that is not, from 1.
        line: usize,
    },
    /// No operation in it.
    #[error("{name}: no operation in it; write one a line, for example `p3 hit`")]
    Empty {
        /// The file.
        name: String,
    },
    /// A line that says nothing.
    #[error("{name}:{line}: {problem}")]
    Line {
        /// The file.
        name: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        problem: LineError,
    },
    /// The VM could not be made as the operation needs it.
    #[error("{name}:{line}: {op}: {source}")]
    Vm {
        /// The file.
        name: String,
        /// Line, from 1.
        line: usize,
        /// The operation.
        op: Op,
        /// Why.
        source: VmError,
    },
    /// The VM could not be made at all.
    #[error("{name}: {source}")]
    Setup {
        /// The file.
        name: String,
        /// Why.
        source: VmError,
    },
    /// A page that the guest could not enter before the first operation.
    #[error(
        "{name}: the guest cannot enter page {page}: {source}; fewer pages, or pages of another size, would fit the table"
    )]
    Enter {
        /// The file.
        name: String,
        /// The page, as sequences spell it.
        page: String,
        /// What H_ENTER says.
        source: HcallError,
    },
    /// Pages of such sizes have no HPTE encoding.
    #[error("{name}: no HPTE encodes a page of the guest's sizes (base {base_shift}, actual {actual_shift} bits)")]
    PageSizes {
        /// The file.
        name: String,
        /// log2 of the base size.
        base_shift: u32,
        /// log2 of the actual size.
        actual_shift: u32,
    },
}

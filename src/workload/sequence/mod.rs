//! Access sequences: what a guest, its hypervisor and its VMM do, one operation a line, and what is expected of it.
//!
//! A line is an operation, then, if wanted, a label; `#` starts a comment. Pages are `mN` (MMIO page N) and `rN` (RAM
//! page N), N from 0 to 1023; every page is one guest page of its own. MMIO pages are entered before the first
//! operation, a RAM page at the guest's first use of it.
//!
//! | operation | what happens |
//! |---|---|
//! | `pN`, `lN` | short for `store mN`, `load mN` |
//! | `xN` | `remove mN`, then `enter mN` |
//! | `store P`, `load P` | the guest's `stw`, `lwz` |
//! | `enter P`, `enter P key K` | H_ENTER with storage key K, 0 to 31 (0 if not given) |
//! | `remove P`, `bulk-remove P ..` | H_REMOVE; H_BULK_REMOVE of one to four pages in one call |
//! | `protect P ro`, `protect P rw` | H_PROTECT, the key kept |
//! | `read P`, `clear-ref P`, `clear-mod P` | H_READ, H_CLEAR_REF, H_CLEAR_MOD |
//! | `page-out P`, `page-in P` | the host takes the page out of memory, or brings it back without mapping it |
//! | `memslot-create mN`, `memslot-delete mN` | the VMM puts RAM over MMIO page N, takes it away |
//! | `dirty-log on`, `dirty-log off` | dirty logging of the memslot behind the RAM pages |
//! | `new-hpt ORDER`, `reset-hpt` | an empty table of another order; the table emptied, order kept |
//!
//! | label | the access was |
//! |---|---|
//! | `hit`, `miss` | emulated as MMIO, from a cached entry or by the slow form |
//! | `ram` | served by hardware |
//! | `reflected` | answered with an interrupt |
//! | `retries` | found to retry for ever |
//! | `-`, or none | not judged |

mod error;
mod parse;
mod report;
mod run;

use std::fmt;

pub use error::{LineError, SequenceError};
pub use report::{CachedPage, Counts, Disagreement, RamAsMmio, Seen, SequenceReport, Step};
pub use run::{SequenceConfig, run};

use serde::Serialize;

/// Pages of each kind that a sequence may name: 0 to `PAGES - 1`.
pub const PAGES: u16 = 1024;

/// A guest page that a sequence names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Page {
    /// Emulated MMIO unless a memslot was put over it, 0 to 1023.
    Mmio(u16),
    /// RAM, 0 to 1023.
    Ram(u16),
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mmio(page) => write!(f, "m{page}"),
            Self::Ram(page) => write!(f, "r{page}"),
        }
    }
}

/// What H_PROTECT is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protection {
    /// PP 11: everybody reads, nobody writes.
    ReadOnly,
    /// PP 00: the supervisor reads and writes.
    ReadWrite,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A store of 4 bytes.
    Store(Page),
    /// A load of 4 bytes, completed with data if it exits.
    Load(Page),
    /// H_REMOVE, then H_ENTER, of an MMIO page.
    Reenter(u16),
    /// H_ENTER with a storage key, 0 to 31.
    Enter(Page, u8),
    /// H_REMOVE.
    Remove(Page),
    /// H_BULK_REMOVE of one to four pages.
    BulkRemove(Vec<Page>),
    /// H_PROTECT.
    Protect(Page, Protection),
    /// H_READ.
    Read(Page),
    /// H_CLEAR_REF.
    ClearRef(Page),
    /// H_CLEAR_MOD.
    ClearMod(Page),
    /// The host takes the page out of memory.
    PageOut(Page),
    /// The host brings it back, unmapped.
    PageIn(Page),
    /// A memslot is created over an MMIO page.
    MemslotCreate(u16),
    /// That memslot is deleted.
    MemslotDelete(u16),
    /// Dirty logging of the RAM memslot: on or off.
    DirtyLog(crate::kvm_hv::memslot::DirtyLog),
    /// An empty HPT of this order.
    NewHpt(u32),
    /// An empty HPT of the order it has.
    ResetHpt,
}

impl Op {
    /// The pages it names. Dirty logging is of the memslot behind RAM page 0.
    #[must_use]
    pub fn pages(&self) -> Vec<Page> {
        match self {
            Self::Store(page)
            | Self::Load(page)
            | Self::Enter(page, _)
            | Self::Remove(page)
            | Self::Protect(page, _)
            | Self::Read(page)
            | Self::ClearRef(page)
            | Self::ClearMod(page)
            | Self::PageOut(page)
            | Self::PageIn(page) => vec![*page],
            Self::Reenter(page) | Self::MemslotCreate(page) | Self::MemslotDelete(page) => vec![Page::Mmio(*page)],
            Self::BulkRemove(pages) => pages.clone(),
            Self::DirtyLog(_) => vec![Page::Ram(0)],
            Self::NewHpt(_) | Self::ResetHpt => Vec::new(),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::kvm_hv::memslot::DirtyLog;
        match self {
            Self::Store(Page::Mmio(page)) => write!(f, "p{page}"),
            Self::Load(Page::Mmio(page)) => write!(f, "l{page}"),
            Self::Reenter(page) => write!(f, "x{page}"),
            Self::Store(page) => write!(f, "store {page}"),
            Self::Load(page) => write!(f, "load {page}"),
            Self::Enter(page, 0) => write!(f, "enter {page}"),
            Self::Enter(page, key) => write!(f, "enter {page} key {key}"),
            Self::Remove(page) => write!(f, "remove {page}"),
            Self::BulkRemove(pages) => {
                f.write_str("bulk-remove")?;
                pages.iter().try_for_each(|page| write!(f, " {page}"))
            }
            Self::Protect(page, Protection::ReadOnly) => write!(f, "protect {page} ro"),
            Self::Protect(page, Protection::ReadWrite) => write!(f, "protect {page} rw"),
            Self::Read(page) => write!(f, "read {page}"),
            Self::ClearRef(page) => write!(f, "clear-ref {page}"),
            Self::ClearMod(page) => write!(f, "clear-mod {page}"),
            Self::PageOut(page) => write!(f, "page-out {page}"),
            Self::PageIn(page) => write!(f, "page-in {page}"),
            Self::MemslotCreate(page) => write!(f, "memslot-create m{page}"),
            Self::MemslotDelete(page) => write!(f, "memslot-delete m{page}"),
            Self::DirtyLog(DirtyLog::On) => f.write_str("dirty-log on"),
            Self::DirtyLog(DirtyLog::Off) => f.write_str("dirty-log off"),
            Self::NewHpt(order) => write!(f, "new-hpt {order}"),
            Self::ResetHpt => f.write_str("reset-hpt"),
        }
    }
}

/// What a line says of its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Label {
    /// From a cached entry.
    Hit,
    /// By the slow form.
    Miss,
    /// Served by hardware.
    Ram,
    /// Answered with an interrupt.
    Reflected,
    /// Found to retry for ever.
    Retries,
}

impl Label {
    /// Every label.
    pub const ALL: [Self; 5] = [Self::Hit, Self::Miss, Self::Ram, Self::Reflected, Self::Retries];

    /// As files spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Ram => "ram",
            Self::Reflected => "reflected",
            Self::Retries => "retries",
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One operation, where it stands and what is expected of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SequenceLine {
    /// Line in the file, from 1.
    pub line: usize,
    /// The operation.
    pub op: Op,
    /// What is expected, if anything is.
    pub label: Option<Label>,
}

/// A parsed sequence: at least one operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sequence {
    name: String,
    lines: Vec<SequenceLine>,
}

impl Sequence {
    /// What it is called: the file it came from.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its operations, in order.
    #[must_use]
    pub fn lines(&self) -> &[SequenceLine] {
        &self.lines
    }
}

//! What a run of a sequence found, as plain data.

use std::fmt::Write as _;

use serde::Serialize;

use crate::addr::{EffectiveAddr, GuestPhysAddr};
use crate::kvm_hv::cache::CacheEntry;
use crate::kvm_hv::{CacheUse, Outcome, Record};

use super::Label;

/// What became of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// Emulated as MMIO from a cached entry.
    Hit,
    /// Emulated as MMIO by the slow form.
    Miss,
    /// Served by hardware from RAM.
    Ram,
    /// Answered with an interrupt.
    Reflected,
    /// Found to retry for ever.
    Retries,
    /// No access: done.
    Done,
    /// No access: refused, the detail says by what code.
    Refused,
}

impl Seen {
    /// Whether a label means this.
    #[must_use]
    pub const fn is(self, label: Label) -> bool {
        matches!(
            (self, label),
            (Self::Hit, Label::Hit)
                | (Self::Miss, Label::Miss)
                | (Self::Ram, Label::Ram)
                | (Self::Reflected, Label::Reflected)
                | (Self::Retries, Label::Retries)
        )
    }

    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Ram => "ram",
            Self::Reflected => "reflected",
            Self::Retries => "retries",
            Self::Done => "done",
            Self::Refused => "refused",
        }
    }
}

/// One operation of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Step {
    /// Line in the file, from 1.
    pub line: usize,
    /// The operation, as files spell it.
    pub op: String,
    /// What the file expects, if anything.
    pub expected: Option<Label>,
    /// What was seen.
    pub seen: Seen,
    /// Why: the class of a miss, the reason of a retry, the code of a refusal.
    pub detail: Option<&'static str>,
    /// Guest physical address of an access that was emulated or served as RAM.
    pub gpa: Option<u64>,
    /// Emulated as MMIO at an address that a memslot backs.
    pub ram_as_mmio: bool,
    /// An access's EA and record.
    #[serde(skip)]
    pub record: Option<(EffectiveAddr, Record)>,
}

impl Step {
    /// Whether the operation did what its label says; `None` without a label.
    #[must_use]
    pub fn agrees(&self) -> Option<bool> {
        self.expected.map(|label| self.seen.is(label))
    }
}

/// How many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Counts {
    /// Operations.
    pub operations: u64,
    /// Of them, those with a label.
    pub labelled: u64,
    /// Of them, those that did what it says.
    pub agreeing: u64,
    /// Accesses served from the cache.
    pub hits: u64,
    /// Accesses emulated by the slow form.
    pub misses: u64,
}

/// A cache entry, as far as it decides what it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CachedPage {
    /// Effective address of the fault that filled it.
    pub ea: u64,
    /// Index of the HPTE.
    pub index: u64,
    /// Generation it is tagged with.
    pub generation: u64,
}

impl From<&CacheEntry> for CachedPage {
    fn from(entry: &CacheEntry) -> Self {
        Self { ea: entry.ea.0, index: entry.index.0, generation: entry.generation }
    }
}

/// The first operation that did not do what its label says.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Disagreement {
    /// The operation.
    pub step: Step,
    /// The VM's generation just before it.
    pub generation: u64,
    /// The cache just before it, by slot. Entries never filled have EA 0.
    pub cache: Vec<CachedPage>,
}

/// Accesses to RAM that were emulated as MMIO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct RamAsMmio {
    /// How many.
    pub count: u64,
    /// Guest physical address of the first.
    pub first_gpa: Option<u64>,
    /// Its line, from 1.
    pub first_line: Option<usize>,
}

/// What a run of a sequence found.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct SequenceReport {
    /// The sequence's name.
    pub name: String,
    /// The cache, in words.
    pub cache: String,
    /// Switches that differ from linux-6.12, and their values.
    pub switches: Vec<(&'static str, &'static str)>,
    /// How many.
    pub counts: Counts,
    /// Where it first went another way than the labels say.
    pub first_disagreement: Option<Disagreement>,
    /// RAM that was taken for MMIO.
    pub ram_as_mmio: RamAsMmio,
    /// The VM's generation at the end.
    pub generation: u64,
    /// Every operation.
    pub steps: Vec<Step>,
}

impl SequenceReport {
    /// Whether every labelled operation did what its label says.
    #[must_use]
    pub const fn agrees(&self) -> bool {
        self.counts.labelled == self.counts.agreeing
    }

    pub(super) fn add(&mut self, step: Step) {
        let counts = &mut self.counts;
        counts.operations += 1;
        counts.labelled += u64::from(step.expected.is_some());
        counts.agreeing += u64::from(step.agrees() == Some(true));
        counts.hits += u64::from(step.seen == Seen::Hit);
        counts.misses += u64::from(step.seen == Seen::Miss);
        if step.ram_as_mmio {
            self.ram_as_mmio.count += 1;
            self.ram_as_mmio.first_gpa = self.ram_as_mmio.first_gpa.or(step.gpa);
            self.ram_as_mmio.first_line.get_or_insert(step.line);
        }
        self.steps.push(step);
    }
}

impl Disagreement {
    /// In words, with the cache's state: several lines.
    #[must_use]
    pub fn describe(&self) -> String {
        let Step { line, op, expected, seen, detail, .. } = &self.step;
        let expected = expected.map_or("nothing", Label::name);
        let detail = detail.map(|detail| format!(" ({detail})")).unwrap_or_default();
        let mut text = format!("line {line}: `{op}` was a {}{detail}, expected {expected}\n", seen.name());
        // Writing to a String cannot fail.
        let _ = writeln!(text, "before it the VM's generation was {}; the cache held", self.generation);
        for (slot, entry) in self.cache.iter().enumerate() {
            let CachedPage { ea, index, generation } = entry;
            let served = if *generation == self.generation { "" } else { ", which serves nothing now" };
            let _ = writeln!(text, "  slot {slot}: EA {ea:#x}, HPTE {index:#x}, generation {generation}{served}");
        }
        text
    }
}

/// What an access was, and why.
pub(super) fn seen(record: &Record) -> (Seen, Option<&'static str>, Option<GuestPhysAddr>) {
    let gpa = record.outcome.mmio_gpa();
    match (record.outcome, record.cache) {
        (Outcome::Ram { gpa }, _) => (Seen::Ram, None, Some(gpa)),
        (Outcome::RetriesForever(reason), _) => (Seen::Retries, Some(reason.describe()), None),
        (Outcome::Reflected(_), _) => (Seen::Reflected, None, None),
        (_, CacheUse::Hit) => (Seen::Hit, None, gpa),
        (_, CacheUse::Miss(class)) => (Seen::Miss, class.map(crate::kvm_hv::MissClass::name), gpa),
        (_, CacheUse::None) => (Seen::Done, None, gpa),
    }
}

//! Comma-separated values with named columns.
//!
//! `ea` or `gpa` must be there; `event` (access, generation, lost; default access), `at` (ns), `vcpu`, `vm`, `segment`,
//! `page_shift` (default 16), `direction` (load, store; default store), `len` and `observed` (hit, miss, empty) may be. Numbers
//! are decimal or hexadecimal with `0x`. Other columns are refused, since a misspelt one would be missed silently.

use std::io::Read;

use super::{Access, Facts, HitsKnown, Item, Observed, TraceError, VcpuFacts};
use crate::addr::{EffectiveAddr, GuestPhysAddr};
use crate::book3s::insn::Direction;

pub(super) const COLUMNS: [&str; 11] =
    ["event", "at", "vcpu", "vm", "ea", "gpa", "segment", "page_shift", "direction", "len", "observed"];
/// Where no column tells: what Linux guests use for device pages.
const DEFAULT_SHIFT: u64 = 16;
/// vCPUs whose facts are told.
const MOST_VCPUS: u32 = 1 << 16;

/// Whether a line names columns, `ea` or `gpa` among them.
pub(super) fn is_header(line: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(line) else { return false };
    text.trim().split(',').any(|name| matches!(name.trim(), "ea" | "gpa"))
}

/// Reads records.
pub(super) struct CsvReader<R> {
    file: String,
    records: ::csv::StringRecordsIntoIter<R>,
    /// By column of [`COLUMNS`]: its place in a record.
    places: [Option<usize>; COLUMNS.len()],
    facts: Facts,
}

impl<R: Read> CsvReader<R> {
    pub(super) fn new(file: &str, input: R) -> Result<Self, TraceError> {
        let mut reader = ::csv::ReaderBuilder::new().trim(::csv::Trim::All).from_reader(input);
        let header = reader.headers().map_err(|error| wrong(file, &error))?;
        let refused = |what: String| TraceError::Line { file: file.to_owned(), line: 1, offset: 0, what };
        let mut places = [None; COLUMNS.len()];
        for (place, name) in header.iter().enumerate() {
            let column = COLUMNS.iter().position(|column| *column == name);
            let column =
                column.ok_or_else(|| refused(format!("no column is named `{name}`: {}", COLUMNS.join(", "))))?;
            if places[column].replace(place).is_some() {
                return Err(refused(format!("column `{name}` stands there twice")));
            }
        }
        if places[4].is_none() && places[5].is_none() {
            return Err(refused("neither a column `ea` nor a column `gpa`".to_owned()));
        }
        Ok(Self { file: file.to_owned(), records: reader.into_records(), places, facts: Facts::default() })
    }

    pub(super) const fn facts(&self) -> &Facts {
        &self.facts
    }

    pub(super) fn next_item(&mut self) -> Result<Option<Item>, TraceError> {
        let Some(record) = self.records.next() else { return Ok(None) };
        let record = record.map_err(|error| wrong(&self.file, &error))?;
        self.facts.records += 1;
        let position = record.position().map_or((0, 0), |position| (position.line(), position.byte()));
        let refused = |what: String| {
            let (line, offset) = position;
            TraceError::Line { file: self.file.clone(), line, offset, what }
        };
        let text = |column: usize| self.places[column].and_then(|place| record.get(place)).unwrap_or("");
        let number = |column: usize, missing: u64, most: u64| {
            let text = text(column);
            if text.is_empty() {
                return Ok(missing);
            }
            let value = match text.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => text.parse(),
            };
            let known = value.ok().filter(|value| *value <= most);
            known.ok_or_else(|| refused(format!("{} `{text}` is no number from 0 to {most}", COLUMNS[column])))
        };
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let at = number(1, 0, u64::MAX)?;
        let vm = narrow(number(3, 0, u64::from(MOST_VCPUS) - 1)?);
        match text(0) {
            "" | "access" => {}
            "generation" => {
                self.facts.generation_moves += 1;
                let page = if text(4).is_empty() { None } else { Some(EffectiveAddr(number(4, 0, u64::MAX)?)) };
                return Ok(Some(Item::Generation { at, vm, page }));
            }
            "lost" => {
                let events = number(9, 0, u64::MAX)?;
                self.facts.losses += 1;
                self.facts.lost_events = self.facts.lost_events.saturating_add(events);
                return Ok(Some(Item::Lost { events }));
            }
            other => return Err(refused(format!("event `{other}`: access, generation or lost"))),
        }
        if text(4).is_empty() && text(5).is_empty() {
            return Err(refused("an access without ea and gpa".to_owned()));
        }
        let (ea, gpa) = (number(4, 0, u64::MAX)?, number(5, 0, u64::MAX)?);
        let direction = match text(8) {
            "" | "store" => Direction::Store,
            "load" => Direction::Load,
            other => return Err(refused(format!("direction `{other}`: load or store"))),
        };
        let observed = match text(10) {
            "" => Observed::Unknown,
            "hit" => Observed::Hit,
            "miss" => Observed::Miss,
            other => return Err(refused(format!("observed `{other}`: hit, miss or nothing"))),
        };
        let vcpu = narrow(number(2, 0, u64::from(MOST_VCPUS) - 1)?);
        let byte = |value: u64| u8::try_from(value).unwrap_or(u8::MAX);
        let access = Access {
            at,
            vcpu,
            vm,
            ea: EffectiveAddr(if text(4).is_empty() { gpa } else { ea }),
            gpa: GuestPhysAddr(if text(5).is_empty() { ea } else { gpa }),
            segment: number(6, 0, u64::MAX)?,
            page_shift: byte(number(7, DEFAULT_SHIFT, 63)?),
            direction,
            len: byte(number(9, 0, 255)?),
            observed,
        };
        if observed != Observed::Unknown {
            self.facts.hits = HitsKnown::Yes;
        }
        self.facts.accesses += 1;
        while self.facts.vcpus.len() <= crate::addr::index(u64::from(vcpu)) {
            self.facts.vcpus.push(VcpuFacts { vcpu: None, pid: None, vm });
        }
        Ok(Some(Item::Access(access)))
    }
}

fn wrong(file: &str, error: &::csv::Error) -> TraceError {
    let (line, offset) = error.position().map_or((1, 0), |position| (position.line(), position.byte()));
    TraceError::Line { file: file.to_owned(), line, offset, what: error.to_string() }
}

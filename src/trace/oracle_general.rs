//! libCacheSim's oracleGeneral: 24-byte records, little-endian, nothing around them.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | `clock_time`, seconds |
//! | 4..12 | `obj_id` |
//! | 12..16 | `obj_size`, bytes |
//! | 16..24 | `next_access_vtime`: number of the record that next has this object, -1 or 2^63 - 1 for none |

use std::io::{Read, Write};

use super::{Access, Facts, Item, Observed, TraceError, VcpuFacts};
use crate::addr::{EffectiveAddr, GuestPhysAddr};
use crate::book3s::insn::Direction;

/// Bytes of a record.
pub const RECORD: usize = 24;
/// Records read at once: 384 KiB, above what buffered readers copy for themselves.
const AT_ONCE: usize = 16 << 10;
/// Keys given at once: they stay in the first-level cache.
const PIECE: usize = 1 << 10;

/// Reads records. An object is a key that is compared as a whole; there are no vCPUs, no segments and no hits in it.
#[derive(Debug)]
pub struct OracleGeneral<R> {
    file: String,
    input: R,
    buffer: Box<[u8]>,
    at: usize,
    len: usize,
    /// Offset of the buffer's first byte.
    offset: u64,
    facts: Facts,
}

impl<R: Read> OracleGeneral<R> {
    /// A reader; `file` is what errors call it.
    pub fn new(file: &str, input: R) -> Self {
        let facts = Facts { vcpus: vec![VcpuFacts::default()], ..Facts::default() };
        let buffer = vec![0; RECORD * AT_ONCE].into_boxed_slice();
        Self { file: file.to_owned(), input, buffer, at: 0, len: 0, offset: 0, facts }
    }

    /// What was read so far.
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Puts the next keys (at least one, at most 1024) into `keys`; none at the end.
    ///
    /// # Errors
    /// What cannot be read, a file that ends within a record, a record that points backwards.
    pub fn next_keys(&mut self, keys: &mut Vec<u64>) -> Result<bool, TraceError> {
        keys.clear();
        if !self.fill()? {
            return Ok(false);
        }
        let end = self.len.min(self.at + PIECE * RECORD);
        let mut least = i64::MAX;
        keys.extend(self.buffer[self.at..end].chunks_exact(RECORD).map(|record| {
            least = least.min(next_access(record));
            object(record)
        }));
        if least < -1 {
            return Err(self.bad_record(end));
        }
        self.at = end;
        self.facts.accesses += keys.len() as u64;
        self.facts.records = self.facts.accesses;
        Ok(true)
    }

    /// The next item, `None` at the end.
    ///
    /// # Errors
    /// As [`Self::next_keys`].
    pub fn next_item(&mut self) -> Result<Option<Item>, TraceError> {
        if !self.fill()? {
            return Ok(None);
        }
        let record = &self.buffer[self.at..self.at + RECORD];
        if next_access(record) < -1 {
            return Err(self.bad_record(self.at + RECORD));
        }
        let (seconds, key) = (clock(record), object(record));
        self.at += RECORD;
        self.facts.accesses += 1;
        self.facts.records = self.facts.accesses;
        Ok(Some(Item::Access(Access {
            at: u64::from(seconds) * 1_000_000_000,
            vcpu: 0,
            vm: 0,
            ea: EffectiveAddr(key),
            gpa: GuestPhysAddr(key),
            segment: 0,
            page_shift: 0,
            direction: Direction::Store,
            len: 0,
            observed: Observed::Unknown,
        })))
    }

    /// Makes sure that a record is there; `false` at the end.
    fn fill(&mut self) -> Result<bool, TraceError> {
        if self.at < self.len {
            return Ok(true);
        }
        self.offset += self.len as u64;
        (self.at, self.len) = (0, 0);
        while self.len < self.buffer.len() {
            match self.input.read(&mut self.buffer[self.len..]) {
                Ok(0) => break,
                Ok(count) => self.len += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => {
                    let offset = self.offset + self.len as u64;
                    return Err(TraceError::Read { file: self.file.clone(), offset, source });
                }
            }
        }
        let whole = self.len - self.len % RECORD;
        if whole < self.len {
            let offset = self.offset + whole as u64;
            let what = format!("ends within a record: {} of {RECORD} bytes are there", self.len - whole);
            return Err(TraceError::Damaged { file: self.file.clone(), offset, what });
        }
        if self.len == 0 && self.offset == 0 {
            let what = "empty: oracleGeneral is records of 24 bytes".to_owned();
            return Err(TraceError::Foreign { file: self.file.clone(), what });
        }
        Ok(self.len > 0)
    }

    fn bad_record(&self, end: usize) -> TraceError {
        let bad = |record: &[u8]| next_access(record) < -1;
        let at = self.buffer[self.at..end].chunks_exact(RECORD).position(bad).unwrap_or(0);
        let offset = self.offset + (self.at + at * RECORD) as u64;
        let what = "next_access_vtime is below -1: no record of oracleGeneral".to_owned();
        TraceError::Damaged { file: self.file.clone(), offset, what }
    }
}

fn clock(record: &[u8]) -> u32 {
    u32::from_le_bytes(record[0..4].try_into().unwrap_or_default())
}

#[inline(always)]
fn object(record: &[u8]) -> u64 {
    u64::from_le_bytes(record[4..12].try_into().unwrap_or_default())
}

#[inline(always)]
fn next_access(record: &[u8]) -> i64 {
    i64::from_le_bytes(record[16..24].try_into().unwrap_or_default())
}

/// Writes one record. `next` is -1 where it is not known.
///
/// # Errors
/// The system's.
pub fn write_record(out: &mut impl Write, seconds: u32, key: u64, size: u32, next: i64) -> std::io::Result<()> {
    let mut record = [0; RECORD];
    record[0..4].copy_from_slice(&seconds.to_le_bytes());
    record[4..12].copy_from_slice(&key.to_le_bytes());
    record[12..16].copy_from_slice(&size.to_le_bytes());
    record[16..24].copy_from_slice(&next.to_le_bytes());
    out.write_all(&record)
}

//! Reading `.hvt`.

use std::io::{Read, Seek, SeekFrom};

use super::varint::{take, take_difference};
use super::{
    ACCESS, BLOCK, BLOCK_ITEMS, Before, BlockPlace, END, FOOTER, Footer, GENERATION, HEAD, ITEM_BYTES, KIND, LOST,
    MAGIC, MOST_FOOTER, OBSERVED_SHIFT, SAME, STORE_OR_PAGE, VERSION,
};
use crate::addr::{EffectiveAddr, GuestPhysAddr, index};
use crate::book3s::insn::Direction;
use crate::trace::{Access, Facts, Item, Observed, TraceError};

/// Bytes of the trailer.
const TRAILER: i64 = 16;

/// Reads items block by block.
pub struct Reader<R> {
    file: String,
    input: R,
    offset: u64,
    raw: Vec<u8>,
    at: usize,
    /// Items left in the block.
    left: u32,
    /// Offset of the block, for errors within it.
    block: u64,
    next_number: u64,
    before: Before,
    facts: Facts,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Begins; `file` is what errors call it.
    ///
    /// # Errors
    /// What is no `.hvt`, or of a version that is not read.
    pub fn new(file: &str, input: R) -> Result<Self, TraceError> {
        let mut reader = Self {
            file: file.to_owned(),
            input,
            offset: 0,
            raw: Vec::new(),
            at: 0,
            left: 0,
            block: 0,
            next_number: 0,
            before: Before::default(),
            facts: Facts::default(),
            ended: false,
        };
        let header = reader.bytes::<16>("the header")?;
        if !header.starts_with(MAGIC) {
            return Err(reader.damaged(0, "no .hvt: it does not begin with HVMMIOTR"));
        }
        if header[12..] != crc32fast::hash(&header[..12]).to_le_bytes() {
            return Err(reader.damaged(12, "the header's checksum is wrong"));
        }
        let version = number32(&header[8..]);
        if version != VERSION {
            return Err(reader.damaged(8, &format!("version {version}: this hvmmio reads version {VERSION}")));
        }
        Ok(reader)
    }

    /// What the footer tells; empty until the last item was read.
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The next item, `None` at the end.
    ///
    /// # Errors
    /// A truncated or damaged file, with the offset.
    pub fn next_item(&mut self) -> Result<Option<Item>, TraceError> {
        while self.left == 0 {
            if self.ended {
                return Ok(None);
            }
            self.next_part()?;
        }
        self.left -= 1;
        let mut bytes = &self.raw[self.at..];
        let whole = bytes.len();
        let item = decode(&mut bytes, &mut self.before);
        self.at += whole - bytes.len();
        match item {
            Some(item) if self.left > 0 || self.at == self.raw.len() => Ok(Some(item)),
            _ => Err(self.damaged(self.block, "the block's items are not what its head says")),
        }
    }

    fn next_part(&mut self) -> Result<(), TraceError> {
        let start = self.offset;
        let [kind] = self.bytes::<1>("a block or the footer")?;
        match kind {
            BLOCK => self.read_block(start),
            FOOTER => self.read_footer(start),
            _ => Err(self.damaged(start, "neither a block nor the footer begins here")),
        }
    }

    fn read_block(&mut self, start: u64) -> Result<(), TraceError> {
        let head = self.bytes::<HEAD>("a block's head")?;
        let crc = number32(&self.bytes::<4>("a block's checksum")?);
        let [items, raw, stored] = [number32(&head), number32(&head[4..]), number32(&head[8..])];
        let first = number64(&head[12..]);
        // Judged before any memory is taken: a damaged head must not ask for gigabytes.
        if items == 0 || items > BLOCK_ITEMS || raw > items * ITEM_BYTES || stored > raw.saturating_add(1 << 16) {
            return Err(self.damaged(start, "a block's head names sizes that no block has"));
        }
        let bytes = self.vector(u64::from(stored), "a block")?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head);
        hasher.update(&bytes);
        if hasher.finalize() != crc {
            return Err(self.damaged(start, "the block's checksum is wrong"));
        }
        let raw = index(u64::from(raw));
        let unpacked = zstd::bulk::decompress(&bytes, raw).ok().filter(|unpacked| unpacked.len() == raw);
        self.raw = unpacked.ok_or_else(|| self.damaged(start, "the block cannot be decompressed"))?;
        if first != self.next_number {
            return Err(self.damaged(start, "a block is missing before this one"));
        }
        self.next_number += u64::from(items);
        (self.at, self.left, self.block, self.before) = (0, items, start, Before::default());
        Ok(())
    }

    fn read_footer(&mut self, start: u64) -> Result<(), TraceError> {
        let footer = self.footer(start)?;
        let trailer = self.bytes::<16>("the trailer")?;
        if number64(&trailer) != start || trailer[8..] != *END {
            return Err(self.damaged(self.offset - 16, "the trailer does not fit the footer"));
        }
        if !matches!(self.input.read(&mut [0]), Ok(0)) {
            return Err(self.damaged(self.offset, "something follows the trailer"));
        }
        (self.facts, self.ended) = (footer.facts, true);
        Ok(())
    }

    /// A footer whose `F` was read.
    fn footer(&mut self, start: u64) -> Result<Footer, TraceError> {
        let stored = number32(&self.bytes::<4>("the footer's length")?);
        let crc = number32(&self.bytes::<4>("the footer's checksum")?);
        let bytes = self.vector(u64::from(stored), "the footer")?;
        if crc32fast::hash(&bytes) != crc {
            return Err(self.damaged(start, "the footer's checksum is wrong"));
        }
        let mut text = Vec::new();
        let unpacked =
            zstd::Decoder::new(&bytes[..]).and_then(|decoder| decoder.take(MOST_FOOTER).read_to_end(&mut text));
        let parsed = unpacked.ok().and_then(|_| serde_json::from_slice(&text).ok());
        parsed.ok_or_else(|| self.damaged(start, "the footer does not tell what a footer tells"))
    }

    fn bytes<const N: usize>(&mut self, what: &str) -> Result<[u8; N], TraceError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, what)?;
        Ok(bytes)
    }

    fn vector(&mut self, len: u64, what: &str) -> Result<Vec<u8>, TraceError> {
        let mut bytes = Vec::new();
        let read = (&mut self.input).take(len).read_to_end(&mut bytes);
        let count = read.map_err(|source| TraceError::Read { file: self.file.clone(), offset: self.offset, source })?;
        self.offset += count as u64;
        if (count as u64) < len {
            return Err(self.damaged(self.offset, &format!("the file ends within {what}")));
        }
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8], what: &str) -> Result<(), TraceError> {
        let mut done = 0;
        while done < bytes.len() {
            match self.input.read(&mut bytes[done..]) {
                Ok(0) => {
                    let offset = self.offset + done as u64;
                    return Err(self.damaged(offset, &format!("the file ends where {what} should be")));
                }
                Ok(count) => done += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(TraceError::Read { file: self.file.clone(), offset: self.offset, source });
                }
            }
        }
        self.offset += done as u64;
        Ok(())
    }

    fn damaged(&self, offset: u64, what: &str) -> TraceError {
        TraceError::Damaged { file: self.file.clone(), offset, what: what.to_owned() }
    }
}

impl<R: Read + Seek> Reader<R> {
    /// The blocks that the footer names.
    ///
    /// # Errors
    /// A file that cannot be sought in, or that has no footer.
    pub fn blocks(&mut self) -> Result<Vec<BlockPlace>, TraceError> {
        let back = self.offset;
        let end = self.seek(SeekFrom::End(-TRAILER))?;
        let trailer = self.bytes::<16>("the trailer")?;
        let start = number64(&trailer);
        if trailer[8..] != *END || start >= end {
            return Err(self.damaged(end, "no trailer: the file was cut"));
        }
        self.seek(SeekFrom::Start(start))?;
        if self.bytes::<1>("the footer")? != [FOOTER] {
            return Err(self.damaged(start, "the trailer names a place where no footer is"));
        }
        let footer = self.footer(start)?;
        self.seek(SeekFrom::Start(back))?;
        Ok(footer.blocks)
    }

    /// Goes on with the first item of a block.
    ///
    /// # Errors
    /// A file that cannot be sought in.
    pub fn go_to(&mut self, block: &BlockPlace) -> Result<(), TraceError> {
        self.seek(SeekFrom::Start(block.offset))?;
        (self.left, self.next_number, self.ended) = (0, block.first, false);
        Ok(())
    }

    fn seek(&mut self, to: SeekFrom) -> Result<u64, TraceError> {
        let (file, offset) = (&self.file, self.offset);
        let sought = self.input.seek(to);
        self.offset = sought.map_err(|source| TraceError::Read { file: file.clone(), offset, source })?;
        Ok(self.offset)
    }
}

fn number32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.get(..4).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default())
}

fn number64(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.get(..8).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default())
}

#[inline]
fn decode(bytes: &mut &[u8], before: &mut Before) -> Option<Item> {
    let (flags, rest) = bytes.split_first()?;
    *bytes = rest;
    let narrow32 = |value: u64| u32::try_from(value).ok();
    let narrow8 = |value: u64| u8::try_from(value).ok();
    match flags & KIND {
        ACCESS => {
            before.at = take_difference(bytes, before.at)?;
            before.ea = take_difference(bytes, before.ea)?;
            before.gpa = take_difference(bytes, before.gpa)?;
            if flags & SAME == 0 {
                let (vcpu, vm) = (narrow32(take(bytes)?)?, narrow32(take(bytes)?)?);
                let (segment, shift) = (take(bytes)?, narrow8(take(bytes)?)?);
                before.rest = (vcpu, vm, segment, shift, narrow8(take(bytes)?)?);
            }
            let (vcpu, vm, segment, page_shift, len) = before.rest;
            let observed = match flags >> OBSERVED_SHIFT & 3 {
                0 => Observed::Unknown,
                1 => Observed::Hit,
                2 => Observed::Miss,
                _ => return None,
            };
            let direction = if flags & STORE_OR_PAGE == 0 { Direction::Load } else { Direction::Store };
            let (at, ea, gpa) = (before.at, EffectiveAddr(before.ea), GuestPhysAddr(before.gpa));
            Some(Item::Access(Access { at, vcpu, vm, ea, gpa, segment, page_shift, direction, len, observed }))
        }
        GENERATION => {
            before.at = take_difference(bytes, before.at)?;
            let vm = narrow32(take(bytes)?)?;
            let page = if flags & STORE_OR_PAGE == 0 { None } else { Some(EffectiveAddr(take(bytes)?)) };
            Some(Item::Generation { at: before.at, vm, page })
        }
        LOST => Some(Item::Lost { events: take(bytes)? }),
        _ => None,
    }
}

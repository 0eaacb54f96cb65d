//! Writing `.hvt`.

use std::io::{self, Write};

use super::varint::{put, put_difference};
use super::{
    ACCESS, BLOCK, BLOCK_ITEMS, Before, BlockPlace, END, FOOTER, Footer, GENERATION, LOST, MAGIC, OBSERVED_SHIFT, SAME,
    STORE_OR_PAGE, VERSION,
};
use crate::book3s::insn::Direction;
use crate::trace::{Access, Facts, Item, Observed};

/// zstd's own default.
const LEVEL: i32 = 3;

/// Writes items; [`Self::finish`] makes it a whole file.
pub struct Writer<W> {
    out: W,
    offset: u64,
    raw: Vec<u8>,
    items: u32,
    first_at: u64,
    total: u64,
    before: Before,
    blocks: Vec<BlockPlace>,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// The system's.
    pub fn new(out: W) -> io::Result<Self> {
        let blocks = Vec::new();
        let before = Before::default();
        let mut writer = Self { out, offset: 0, raw: Vec::new(), items: 0, first_at: 0, total: 0, before, blocks };
        let mut header = MAGIC.to_vec();
        header.extend(VERSION.to_le_bytes());
        header.extend(crc32fast::hash(&header).to_le_bytes());
        writer.put(&header)?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.offset += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Adds an item.
    ///
    /// # Errors
    /// The system's.
    pub fn item(&mut self, item: &Item) -> io::Result<()> {
        if self.items == 0 {
            self.first_at = match item {
                Item::Access(Access { at, .. }) | Item::Generation { at, .. } => *at,
                Item::Lost { .. } => self.before.at,
            };
            self.before = Before::default();
        }
        match item {
            Item::Access(access) => self.access(access),
            Item::Generation { at, vm, page } => {
                self.raw.push(GENERATION | if page.is_some() { STORE_OR_PAGE } else { 0 });
                put_difference(&mut self.raw, self.before.at, *at);
                put(&mut self.raw, u64::from(*vm));
                if let Some(page) = page {
                    put(&mut self.raw, page.0);
                }
                self.before.at = *at;
            }
            Item::Lost { events } => {
                self.raw.push(LOST);
                put(&mut self.raw, *events);
            }
        }
        self.items += 1;
        if self.items == BLOCK_ITEMS { self.block() } else { Ok(()) }
    }

    fn access(&mut self, access: &Access) {
        let Access { at, vcpu, vm, ea, gpa, segment, page_shift, direction, len, observed } = *access;
        let rest = (vcpu, vm, segment, page_shift, len);
        let observed: u8 = match observed {
            Observed::Unknown => 0,
            Observed::Hit => 1,
            Observed::Miss => 2,
        };
        let store = if direction == Direction::Store { STORE_OR_PAGE } else { 0 };
        let same = rest == self.before.rest;
        self.raw.push(ACCESS | store | observed << OBSERVED_SHIFT | if same { SAME } else { 0 });
        for (from, to) in [(self.before.at, at), (self.before.ea, ea.0), (self.before.gpa, gpa.0)] {
            put_difference(&mut self.raw, from, to);
        }
        if !same {
            for value in [u64::from(vcpu), u64::from(vm), segment, u64::from(page_shift), u64::from(len)] {
                put(&mut self.raw, value);
            }
        }
        self.before = Before { at, ea: ea.0, gpa: gpa.0, rest };
    }

    fn block(&mut self) -> io::Result<()> {
        if self.items == 0 {
            return Ok(());
        }
        let stored = zstd::bulk::compress(&self.raw, LEVEL)?;
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(io::Error::other);
        let mut head = Vec::with_capacity(32);
        head.extend(self.items.to_le_bytes());
        head.extend(length(&self.raw)?.to_le_bytes());
        head.extend(length(&stored)?.to_le_bytes());
        head.extend(self.total.to_le_bytes());
        head.extend(self.first_at.to_le_bytes());
        let mut crc = crc32fast::Hasher::new();
        crc.update(&head);
        crc.update(&stored);
        self.blocks.push(BlockPlace { offset: self.offset, first: self.total, at: self.first_at });
        self.put(&[BLOCK])?;
        self.put(&head)?;
        self.put(&crc.finalize().to_le_bytes())?;
        self.put(&stored)?;
        self.total += u64::from(self.items);
        self.items = 0;
        self.raw.clear();
        Ok(())
    }

    /// Ends the file with what is known of the whole.
    ///
    /// # Errors
    /// The system's.
    pub fn finish(mut self, facts: &Facts) -> io::Result<W> {
        self.block()?;
        let blocks = std::mem::take(&mut self.blocks);
        let footer = serde_json::to_vec(&Footer { facts: facts.clone(), blocks })?;
        let stored = zstd::bulk::compress(&footer, LEVEL)?;
        let at = self.offset;
        self.put(&[FOOTER])?;
        self.put(&u32::try_from(stored.len()).map_err(io::Error::other)?.to_le_bytes())?;
        self.put(&crc32fast::hash(&stored).to_le_bytes())?;
        self.put(&stored)?;
        self.put(&at.to_le_bytes())?;
        self.put(END)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

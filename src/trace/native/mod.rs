//! The own binary form, `.hvt`: compact, versioned, checksummed, seekable.
//!
//! All numbers are little-endian. A file is a header, blocks, a footer, a trailer.
//!
//! | part | bytes |
//! |---|---|
//! | header | `HVMMIOTR`, version u32 (1), crc32 of these 12 bytes u32 |
//! | block | `B`, items u32, raw length u32, stored length u32, first item's number u64, its time u64, crc32 of this head and the stored bytes u32, then the stored bytes: zstd |
//! | footer | `F`, stored length u32, crc32 of the stored bytes u32, then the stored bytes: zstd of JSON `{facts, blocks: [{offset, first, at}]}` |
//! | trailer | offset of the footer u64, `HVMMIOEN` |
//!
//! A block holds at most 65,536 items and stands on its own. An item is a byte of flags and LEB128 numbers:
//!
//! | flags | item |
//! |---|---|
//! | `0b0000_0000` | access: bit 2 store, bits 3-4 observed (0 unknown, 1 hit, 2 miss), bit 5: vCPU, VM, segment, page shift and length are those of the access before; then time, EA and GPA as zigzag differences to the access before, and, without bit 5, vCPU, VM, segment, page shift, length |
//! | `0b0000_0001` | generation: bit 2: a page follows; then time (difference), VM, the page |
//! | `0b0000_0010` | lost: how many |

mod read;
mod varint;
mod write;

pub use read::Reader;
pub use write::Writer;

use serde::{Deserialize, Serialize};

use super::Facts;

/// First bytes of a file.
pub const MAGIC: &[u8; 8] = b"HVMMIOTR";
/// Last bytes of a file.
const END: &[u8; 8] = b"HVMMIOEN";
const VERSION: u32 = 1;
/// Items of a block.
const BLOCK_ITEMS: u32 = 1 << 16;
/// Bytes that an item takes at most, so that a block's claim can be judged before memory is taken.
const ITEM_BYTES: u32 = 80;
const BLOCK: u8 = b'B';
const FOOTER: u8 = b'F';
/// Bytes of a block's head after its `B`, without the checksum.
const HEAD: usize = 28;
/// Most bytes of a footer, stored or not.
const MOST_FOOTER: u64 = 1 << 30;

const KIND: u8 = 3;
const ACCESS: u8 = 0;
const GENERATION: u8 = 1;
const LOST: u8 = 2;
const STORE_OR_PAGE: u8 = 1 << 2;
const OBSERVED_SHIFT: u32 = 3;
const SAME: u8 = 1 << 5;

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockPlace {
    /// Offset of its `B`.
    pub offset: u64,
    /// Number of its first item, from 0.
    pub first: u64,
    /// Time of that item, ns.
    pub at: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Footer {
    facts: Facts,
    blocks: Vec<BlockPlace>,
}

/// What differences are taken to: zeros at a block's start.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    at: u64,
    ea: u64,
    gpa: u64,
    rest: (u32, u32, u64, u8, u8),
}

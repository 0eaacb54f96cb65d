//! Block sizes and alignment of a job.

use super::checks::{self, READ, WRITE};
use super::effective::Effective;
use super::error::FioError;
use super::job::BlockSize;
use super::plan::kb_base;
use super::value::Value;

/// A block device moves whole sectors.
pub(super) const SECTOR: u32 = 512;

/// fio reads `bs` in 64 bits; a virtio-blk request counts in 32.
const GREATEST: u32 = 1 << 30;

const DEFAULT: i64 = 4096;

/// The sizes of reads and writes: a split if there is one, else a range, else `bs`.
pub(super) fn sizes(effective: &Effective<'_>) -> Result<[BlockSize; 2], FioError> {
    let mut sizes = [BlockSize::Fixed(0), BlockSize::Fixed(0)];
    let plain = effective.pair("bs");
    let ranges = ranges(effective);
    let splits = match effective.setting("bssplit") {
        Some(setting) => checks::block_split(&setting.text, kb_base(effective))
            .map_err(|right| effective.impossible("bssplit", "cannot be read".to_owned(), right))?,
        None => [const { Vec::new() }; 3],
    };
    for direction in [READ, WRITE] {
        sizes[direction] = if !splits[direction].is_empty() {
            let shares = splits[direction]
                .iter()
                .filter(|share| share.percent > 0)
                .map(|share| Ok((block_bytes(effective, "bssplit", share.bytes)?, share.percent)))
                .collect::<Result<Vec<_>, FioError>>()?;
            if shares.is_empty() {
                return Err(effective.impossible(
                    "bssplit",
                    "no size has a share".to_owned(),
                    "give a size more than 0%".to_owned(),
                ));
            }
            BlockSize::Split(shares)
        } else if let Some((low, high)) = ranges[direction] {
            let low = block_bytes(effective, "bsrange", low)?;
            let high = block_bytes(effective, "bsrange", high)?;
            if low == high { BlockSize::Fixed(low) } else { BlockSize::Range { low, high } }
        } else {
            BlockSize::Fixed(block_bytes(effective, "bs", plain[direction].unwrap_or(DEFAULT))?)
        };
    }
    Ok(sizes)
}

fn ranges(effective: &Effective<'_>) -> [Option<(i64, i64)>; 2] {
    let mut pair = [None, None];
    for setting in effective.all("bsrange") {
        let Value::Ranges(ranges) = &setting.value else { continue };
        if let Some(first) = ranges.first().copied().flatten() {
            pair[READ] = Some(first);
        }
        match ranges.as_slice() {
            [Some(only)] => pair[WRITE] = Some(*only),
            [_, Some(second), ..] => pair[WRITE] = Some(*second),
            _ => {}
        }
    }
    pair
}

fn block_bytes(effective: &Effective<'_>, option: &str, bytes: i64) -> Result<u32, FioError> {
    let good = u32::try_from(bytes).ok().filter(|bytes| *bytes > 0 && *bytes <= GREATEST && bytes % SECTOR == 0);
    good.ok_or_else(|| {
        let mut right = "write whole sectors of 512 bytes, up to 1g".to_owned();
        if effective.text(option).starts_with(' ') {
            right.push_str("; leave no blank after the =: fio then passes over the unit");
        }
        effective.impossible(option, format!("a block device has no requests of {bytes} bytes"), right)
    })
}

/// What drawn offsets are multiples of: the smallest size, or `blockalign` in a random job.
pub(super) fn alignment(
    effective: &Effective<'_>,
    blocks: &[BlockSize; 2],
    random: bool,
) -> Result<[u32; 2], FioError> {
    let given = if random { effective.pair("ba") } else { [None, None] };
    let mut align = [0, 0];
    for direction in [READ, WRITE] {
        align[direction] = match given[direction] {
            Some(bytes) => block_bytes(effective, "ba", bytes)?,
            None => blocks[direction].smallest(),
        };
    }
    Ok(align)
}

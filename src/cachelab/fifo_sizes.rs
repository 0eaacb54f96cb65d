//! Round-robin at many sizes in one pass, without a search.
//!
//! A rotating index of n slots evicts a key after n more fills. So a cache of n entries holds a key exactly if fewer
//! than n misses came since the miss that filled it: one counter a size, and for each key the counters at its last fills.

use super::{LabError, Tag};
use crate::addr::index;

/// Most memory the table may take, MiB.
const LIMIT_MIB: u64 = 512;
/// Counters are set back before they could overflow.
const SET_BACK_AT: u32 = 1 << 31;

/// Round-robin caches of several sizes.
#[derive(Debug)]
pub struct FifoSizes {
    sizes: Vec<u32>,
    /// Misses of each size since it was set back, and `size + 1`: 0 is too long ago to count as filled.
    now: Vec<u32>,
    /// Misses of each size before it was set back.
    misses: Vec<u64>,
    /// By number and size: `now` at the last fill, 0 for never.
    filled: Vec<u32>,
    /// By number: the generation that this is of.
    generations: Vec<u32>,
    accesses: u64,
}

impl FifoSizes {
    /// Caches of these sizes, each 1 to 1024.
    #[must_use]
    pub fn new(sizes: &[u32]) -> Self {
        Self {
            sizes: sizes.to_vec(),
            now: sizes.iter().map(|size| size + 1).collect(),
            misses: vec![0; sizes.len()],
            filled: Vec::new(),
            generations: Vec::new(),
            accesses: 0,
        }
    }

    /// Runs tags.
    ///
    /// # Errors
    /// A table beyond 512 MiB.
    pub fn run(&mut self, tags: &[Tag]) -> Result<(), LabError> {
        let width = self.sizes.len();
        if width == 0 {
            return Ok(());
        }
        self.make_room(tags)?;
        // A piece adds at most its length to a counter.
        for piece in tags.chunks(1 << 20) {
            if self.now.iter().any(|now| *now >= SET_BACK_AT) {
                self.set_back();
            }
            self.accesses += piece.len() as u64;
            for tag in piece {
                let number = index(u64::from(tag.number()));
                let filled = &mut self.filled[number * width..][..width];
                if self.generations[number] != tag.generation() {
                    self.generations[number] = tag.generation();
                    filled.fill(0);
                }
                for ((filled, now), size) in filled.iter_mut().zip(&mut self.now).zip(&self.sizes) {
                    let miss = *now - *filled >= *size;
                    *now += u32::from(miss);
                    *filled = if miss { *now } else { *filled };
                }
            }
        }
        Ok(())
    }

    fn make_room(&mut self, tags: &[Tag]) -> Result<(), LabError> {
        let numbers = tags.iter().map(|tag| index(u64::from(tag.number())) + 1).max().unwrap_or(0);
        if numbers > self.generations.len() {
            let (keys, sizes) = (numbers as u64, self.sizes.len());
            let mib = (keys * (sizes as u64 + 1) * 4) >> 20;
            if mib > LIMIT_MIB {
                return Err(LabError::Memory { keys, sizes, mib, limit: LIMIT_MIB });
            }
            self.generations.resize(numbers, 0);
            self.filled.resize(numbers * sizes, 0);
        }
        Ok(())
    }

    /// Subtracts from all counters of a size what makes its own small; keys evicted long ago become "never".
    fn set_back(&mut self) {
        let width = self.sizes.len();
        for (i, size) in self.sizes.iter().enumerate() {
            let by = self.now[i] - (size + 1);
            self.misses[i] += u64::from(by);
            for filled in self.filled[i..].iter_mut().step_by(width) {
                *filled = filled.saturating_sub(by);
            }
            self.now[i] = size + 1;
        }
    }

    /// Hits of each size, in the order of [`Self::new`].
    #[must_use]
    pub fn hits(&self) -> Vec<u64> {
        let one = |((misses, now), size): ((&u64, &u32), &u32)| self.accesses - (misses + u64::from(now - (size + 1)));
        self.misses.iter().zip(&self.now).zip(&self.sizes).map(one).collect()
    }
}

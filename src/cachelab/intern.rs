//! Numbers for keys: dense, so that tables replace hashing.

use rustc_hash::FxHashMap;

use super::LabError;
use crate::addr::index;

/// A key as the lab compares it: a number from an [`Interner`] below, the generation above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Tag(
    /// Generation in the upper, number in the lower 32 bits.
    pub u64,
);

impl Tag {
    /// A number at a generation.
    #[inline]
    #[must_use]
    pub const fn new(number: u32, generation: u32) -> Self {
        Self((generation as u64) << 32 | number as u64)
    }

    /// The number.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is what is asked for")]
    pub const fn number(self) -> u32 {
        self.0 as u32
    }

    /// The generation.
    #[inline]
    #[must_use]
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Keys below this are numbered by a table.
const DIRECT: u64 = 1 << 22;
/// No number yet.
const NONE: u32 = u32::MAX;

/// Gives each key a number, from 0 in order of first sight.
#[derive(Debug, Default)]
pub struct Interner {
    direct: Vec<u32>,
    hashed: FxHashMap<u64, u32>,
    count: u32,
}

impl Interner {
    /// How many keys there are.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The number of a key.
    ///
    /// # Errors
    /// More than 2^32 - 1 distinct keys.
    #[inline]
    pub fn number(&mut self, key: u64) -> Result<u32, LabError> {
        if key < DIRECT {
            if let Some(number) = self.direct.get(index(key)).filter(|number| **number != NONE) {
                return Ok(*number);
            }
        }
        self.number_slow(key)
    }

    #[cold]
    fn first_sight(&mut self) -> Result<u32, LabError> {
        if self.count == NONE {
            return Err(LabError::TooManyKeys);
        }
        self.count += 1;
        Ok(self.count - 1)
    }

    #[inline(never)]
    fn number_slow(&mut self, key: u64) -> Result<u32, LabError> {
        if key >= DIRECT {
            if let Some(number) = self.hashed.get(&key) {
                return Ok(*number);
            }
            let number = self.first_sight()?;
            self.hashed.insert(key, number);
            return Ok(number);
        }
        let number = self.first_sight()?;
        let at = index(key);
        if self.direct.len() <= at {
            self.direct.resize((at + 1).next_power_of_two(), NONE);
        }
        self.direct[at] = number;
        Ok(number)
    }
}

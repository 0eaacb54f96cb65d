//! The last instruction decoded: a loop of stores has one word, and a word means the same every time.

use super::decode::{decode, is_store_by_bit};
use super::types::Insn;

/// A word and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decoded {
    word: u32,
    /// What [`decode`] makes of it.
    pub insn: Option<Insn>,
    /// What [`is_store_by_bit`] makes of it.
    pub store_by_bit: bool,
}

impl Decoded {
    /// Decodes a word.
    #[must_use]
    pub fn new(word: u32) -> Self {
        Self { word, insn: decode(word), store_by_bit: is_store_by_bit(word) }
    }

    /// Makes this the decoding of `word`, if it is not that already.
    #[inline]
    pub fn update(&mut self, word: u32) -> &Self {
        if self.word != word {
            *self = Self::new(word);
        }
        self
    }
}

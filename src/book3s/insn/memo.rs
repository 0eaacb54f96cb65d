//! The last instruction decoded: a loop of stores has one word, and a word means the same every time.

use super::decode::{decode, is_store_by_bit};
use super::prefixed::{decode_prefixed, is_store_by_suffix_bit};
use super::types::Insn;

/// An instruction's words and what they mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decoded {
    words: u64,
    /// What [`decode`] or [`decode_prefixed`] makes of it.
    pub insn: Option<Insn>,
    /// What [`is_store_by_bit`] or [`is_store_by_suffix_bit`] makes of it.
    pub store_by_bit: bool,
}

impl Decoded {
    /// Decodes an instruction: a word, or a prefix in the high half and its suffix in the low one. A prefix is never 0,
    /// so the two are told apart.
    #[must_use]
    pub fn new(words: u64) -> Self {
        let [prefix, word] = [(words >> 32) as u32, (words & 0xffff_ffff) as u32];
        if prefix == 0 {
            return Self { words, insn: decode(word), store_by_bit: is_store_by_bit(word) };
        }
        Self { words, insn: decode_prefixed(prefix, word), store_by_bit: is_store_by_suffix_bit(word) }
    }

    /// Makes this the decoding of `words`, if it is not that already.
    #[inline]
    pub fn update(&mut self, words: u64) -> &Self {
        if self.words != words {
            *self = Self::new(words);
        }
        self
    }
}

//! The per-vCPU cache of recently faulted MMIO HPTEs (`struct mmio_hpte_cache`), at any size and policy.
//!
//! The kernel's has four entries and a rotating index. Here entries are 0 (off) to 1024; up to four live inline,
//! more in one allocation made at creation. A policy is one file behind [`Policy`]: a new one is a new file and a
//! line in [`PolicyKind`].

pub(crate) mod clock;
mod lru;
pub(crate) mod random;
pub(crate) mod round_robin;
pub(crate) mod sieve;
mod slots;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::addr::{EffectiveAddr, EmptyEntry, PteIndex};
use crate::book3s::Hpte;
use crate::book3s::page_size::slb_base_shift;

use slots::Slots;

/// Entries of the kernel's cache (`MMIO_HPTE_CACHE_SIZE`).
pub const KERNEL_ENTRIES: usize = 4;
/// Most entries a design may have.
pub const MAX_ENTRIES: usize = 1024;

/// Decides which slot is filled next. Slots are 0 to `entries - 1`.
pub trait Policy {
    /// A search hit `slot`.
    fn hit(&mut self, slot: usize);
    /// The slot that the next fill takes; whatever it holds is evicted.
    fn place(&mut self) -> usize;
}

/// A replacement policy by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyKind {
    /// Rotating index, the kernel's: first in, first out.
    #[default]
    RoundRobin,
    /// Least recently used.
    Lru,
    /// CLOCK: second chance by a reference bit.
    Clock,
    /// SIEVE (NSDI 2024): FIFO order kept, visited bit, moving hand.
    Sieve,
    /// A slot drawn at random.
    Random,
}

impl PolicyKind {
    /// Every policy.
    pub const ALL: [Self; 5] = [Self::RoundRobin, Self::Lru, Self::Clock, Self::Sieve, Self::Random];

    /// Name used on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::Lru => "lru",
            Self::Clock => "clock",
            Self::Sieve => "sieve",
            Self::Random => "random",
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a cache design was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// Too many entries.
    #[error("a cache of {entries} entries is out of range: 0 (off) to {MAX_ENTRIES}")]
    Entries {
        /// What was asked.
        entries: u64,
    },
    /// No such policy.
    #[error("no replacement policy is named `{name}`: round-robin, lru, clock, sieve or random")]
    Policy {
        /// What was asked.
        name: String,
    },
}

impl FromStr for PolicyKind {
    type Err = CacheError;

    fn from_str(name: &str) -> Result<Self, CacheError> {
        let wanted = name.to_ascii_lowercase();
        let found = Self::ALL.into_iter().find(|policy| policy.name() == wanted);
        found.ok_or_else(|| CacheError::Policy { name: name.to_owned() })
    }
}

/// A size and a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheDesign {
    entries: usize,
    policy: PolicyKind,
}

impl CacheDesign {
    /// The kernel's: 4 entries, rotating index.
    pub const KERNEL: Self = Self { entries: KERNEL_ENTRIES, policy: PolicyKind::RoundRobin };
    /// No cache: the kernel before the 2016 series.
    pub const OFF: Self = Self { entries: 0, policy: PolicyKind::RoundRobin };

    /// A design of `entries` (0 to 1024) with `policy`.
    ///
    /// # Errors
    /// More than 1024 entries.
    pub fn new(entries: u64, policy: PolicyKind) -> Result<Self, CacheError> {
        let count = usize::try_from(entries).ok().filter(|count| *count <= MAX_ENTRIES);
        Ok(Self { entries: count.ok_or(CacheError::Entries { entries })?, policy })
    }

    /// Number of entries.
    #[must_use]
    pub const fn entries(&self) -> usize {
        self.entries
    }

    /// Replacement policy.
    #[must_use]
    pub const fn policy(&self) -> PolicyKind {
        self.policy
    }

    /// Whether there is a cache at all.
    #[must_use]
    pub const fn is_off(&self) -> bool {
        self.entries == 0
    }
}

impl fmt::Display for CacheDesign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.entries {
            0 => f.write_str("off"),
            1 => write!(f, "1 entry, {}", self.policy),
            n => write!(f, "{n} entries, {}", self.policy),
        }
    }
}

/// One entry (`struct mmio_hpte_cache_entry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheEntry {
    /// Faulting effective address (`eaddr`).
    pub ea: EffectiveAddr,
    /// Segment's VSID doubleword (`slb_v`).
    pub slb_v: u64,
    /// Where the HPTE is (`pte_index`).
    pub index: PteIndex,
    /// Host doublewords (`hpte_v`, `hpte_r`).
    pub hpte: Hpte,
    /// The guest's own second doubleword (`rpte`).
    pub guest_r: u64,
    /// Generation before the lookup (`mmio_update`).
    pub generation: u64,
    /// The EA's bits that are its page number: the segment's base page size (`slb_base_pshift`) as a mask, since a
    /// compare under a mask is quicker than one after two shifts.
    pub page_mask: u64,
}

impl Default for CacheEntry {
    /// An entry never filled: zeros. A page shift of 0 is a mask of ones.
    fn default() -> Self {
        Self {
            ea: EffectiveAddr(0),
            slb_v: 0,
            index: PteIndex(0),
            hpte: Hpte { v: 0, r: 0 },
            guest_r: 0,
            generation: 0,
            page_mask: u64::MAX,
        }
    }
}

/// [`CacheEntry::page_mask`] of the segment whose VSID doubleword is `slb_v`.
#[must_use]
pub const fn page_mask(slb_v: u64) -> u64 {
    u64::MAX << slb_base_shift(slb_v)
}

impl CacheEntry {
    /// Generation that no VM reaches: tags an unfilled entry that must not match.
    const NEVER: u64 = u64::MAX;

    /// Serves no fault.
    const NOTHING: Self = Self {
        ea: EffectiveAddr(0),
        slb_v: 0,
        index: PteIndex(0),
        hpte: Hpte { v: 0, r: 0 },
        guest_r: 0,
        generation: Self::NEVER,
        page_mask: u64::MAX,
    };

    /// Whether it serves a fault (`mmio_cache_search`): generation, page and slb_v equal.
    #[inline]
    #[must_use]
    pub const fn serves(&self, ea: EffectiveAddr, slb_v: u64, generation: u64) -> bool {
        let differing = (self.generation ^ generation) | (self.slb_v ^ slb_v) | (self.ea.0 ^ ea.0) & self.page_mask;
        differing == 0
    }

    /// Page number in the segment's base page size.
    #[must_use]
    pub const fn page(&self) -> u64 {
        self.ea.0 >> slb_base_shift(self.slb_v)
    }
}

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "one a vCPU; boxing would add an indirection to every search")]
enum PolicyState {
    RoundRobin(round_robin::RoundRobin),
    Lru(lru::Lru),
    Clock(clock::Clock),
    Sieve(sieve::Sieve),
    Random(random::Random),
}

impl PolicyState {
    // Apart from the search, so that the kernel's own policy, which does nothing on a hit, is not the last of a list.
    #[inline(never)]
    fn hit(&mut self, slot: usize) {
        match self {
            Self::RoundRobin(policy) => policy.hit(slot),
            Self::Lru(policy) => policy.hit(slot),
            Self::Clock(policy) => policy.hit(slot),
            Self::Sieve(policy) => policy.hit(slot),
            Self::Random(policy) => policy.hit(slot),
        }
    }
}

/// The cache of one vCPU.
#[derive(Clone, Debug)]
pub struct MmioCache {
    design: CacheDesign,
    slots: Slots,
    policy: PolicyState,
}

impl MmioCache {
    /// An empty cache. `seed` matters to the random policy only, `empty` says whether a zeroed entry can match (H5).
    #[must_use]
    pub fn new(design: CacheDesign, empty: EmptyEntry, seed: u64) -> Self {
        let unfilled = match empty {
            EmptyEntry::ZeroMatches => CacheEntry::default(),
            EmptyEntry::Invalid => CacheEntry::NOTHING,
        };
        let entries = design.entries;
        let policy = match design.policy {
            PolicyKind::RoundRobin => PolicyState::RoundRobin(round_robin::RoundRobin::new(entries)),
            PolicyKind::Lru => PolicyState::Lru(lru::Lru::new(entries)),
            PolicyKind::Clock => PolicyState::Clock(clock::Clock::new(entries)),
            PolicyKind::Sieve => PolicyState::Sieve(sieve::Sieve::new(entries)),
            PolicyKind::Random => PolicyState::Random(random::Random::new(entries, seed)),
        };
        Self { design, slots: Slots::new(entries, unfilled), policy }
    }

    /// Its design.
    #[must_use]
    pub const fn design(&self) -> CacheDesign {
        self.design
    }

    /// The slot that serves a fault, or `None` (`mmio_cache_search`). Tells the policy of a hit.
    #[inline(always)]
    pub fn search(&mut self, ea: EffectiveAddr, slb_v: u64, generation: u64) -> Option<usize> {
        self.search_entry(ea, slb_v, generation).map(|(slot, _)| slot)
    }

    /// As [`Self::search`], and the entry itself.
    #[inline(always)]
    pub(super) fn search_entry(
        &mut self,
        ea: EffectiveAddr,
        slb_v: u64,
        generation: u64,
    ) -> Option<(usize, &CacheEntry)> {
        let (slot, entry) = self.slots.find(ea, slb_v, generation)?;
        match &mut self.policy {
            PolicyState::RoundRobin(policy) => policy.hit(slot),
            policy => policy.hit(slot),
        }
        Some((slot, entry))
    }

    /// Fills the policy's next slot (`next_mmio_cache_entry`). Nothing where the cache is off.
    #[inline]
    pub fn fill(&mut self, entry: CacheEntry) {
        if self.design.is_off() {
            return;
        }
        let slot = match &mut self.policy {
            PolicyState::RoundRobin(policy) => policy.place(),
            PolicyState::Lru(policy) => policy.place(),
            PolicyState::Clock(policy) => policy.place(),
            PolicyState::Sieve(policy) => policy.place(),
            PolicyState::Random(policy) => policy.place(),
        };
        self.slots.put(slot, entry);
    }

    /// The entry in `slot`, or `None` beyond the cache.
    #[inline]
    #[must_use]
    pub fn entry(&self, slot: usize) -> Option<&CacheEntry> {
        self.slots.as_slice().get(slot)
    }

    /// All entries by slot, filled or not.
    #[must_use]
    pub fn entries(&self) -> &[CacheEntry] {
        self.slots.as_slice()
    }
}

#[cfg(test)]
mod tests;

//! What the cache compares, and what makes its entries old: the kernel's design, and others one could try.

use std::fmt;
use std::str::FromStr;

use rustc_hash::FxHashMap;

use super::{Interner, LabError, Tag};
use crate::addr::{EffectiveAddr, index};
use crate::trace::Access;

/// What makes a hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// Page, segment and generation: `mmio_cache_search`.
    #[default]
    Kernel,
    /// The page alone: no invalidation ever. What a cache could do if nothing moved.
    Page,
    /// Page and segment; removing an MMIO HPTE makes that page's entries old, not all.
    PerHpte,
}

impl KeyKind {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Kernel, Self::Page, Self::PerHpte];

    /// Name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Page => "page",
            Self::PerHpte => "per-hpte",
        }
    }
}

impl FromStr for KeyKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if let Some(kind) = Self::ALL.into_iter().find(|kind| kind.name() == name) {
            return Ok(kind);
        }
        Err(match name {
            "no-protection" => {
                "a recording does not tell Ks and Kp, so keys never differ by them: `kernel` is that already"
            }
            "per-memslot" => {
                "a recording does not tell memslot changes, so what a generation for each would save is not in it"
            }
            _ => "no key is named so",
        }
        .to_owned()
            + ": kernel, page or per-hpte")
    }
}

/// A cache's key and who shares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyDesign {
    /// What makes a hit.
    pub kind: KeyKind,
    /// One cache for all vCPUs of a VM instead of one each. Costs a lock or atomics on the path, which no model here prices.
    pub shared: bool,
    /// Sets among which pages are spread by their low bits; each has `entries / sets` entries. 1 for fully associative.
    pub sets: u32,
}

impl Default for KeyDesign {
    fn default() -> Self {
        Self { kind: KeyKind::Kernel, shared: false, sets: 1 }
    }
}

impl fmt::Display for KeyDesign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        if self.shared {
            f.write_str(", shared by VM")?;
        }
        if self.sets > 1 {
            write!(f, ", {} sets by page", self.sets)?;
        }
        Ok(())
    }
}

/// Most caches (vCPUs or VMs, times sets): a recording that names more threads is damaged.
pub(super) const MOST_LANES: usize = 1 << 16;

/// Gives each access its tag, and the cache that it goes to.
#[derive(Debug)]
pub(super) struct Tagger {
    design: KeyDesign,
    numbers: Interner,
    /// (page, segment and page shift) to a key of `numbers`.
    pages: FxHashMap<(u64, u64, u8), u32>,
    /// By number: first EA, page shift, own generation.
    known: Vec<(u64, u8, u32)>,
    /// By VM.
    generations: Vec<u32>,
}

impl Tagger {
    pub(super) fn new(design: KeyDesign) -> Self {
        let (numbers, pages) = (Interner::default(), FxHashMap::default());
        Self { design, numbers, pages, known: Vec::new(), generations: vec![0] }
    }

    /// Distinct (page, segment), or keys of a plain recording.
    pub(super) fn distinct(&self) -> u32 {
        self.numbers.count()
    }

    /// The tag of a plain recording's key.
    #[inline]
    pub(super) fn plain(&mut self, key: u64) -> Result<Tag, LabError> {
        self.numbers.number(key).map(|number| Tag::new(number, 0))
    }

    /// Which cache, its key, and the same key as if nothing had ever moved.
    #[inline]
    pub(super) fn access(&mut self, access: &Access) -> Result<(usize, Tag, Tag), LabError> {
        let segment = if self.design.kind == KeyKind::Page { 0 } else { access.segment };
        let place = (access.page(), segment, access.page_shift);
        let number = match self.pages.get(&place) {
            Some(number) => *number,
            None => {
                let number = self.numbers.number(self.pages.len() as u64)?;
                self.pages.insert(place, number);
                self.known.push((access.page() << (access.page_shift & 63), access.page_shift, 0));
                number
            }
        };
        let generation = match self.design.kind {
            KeyKind::Page => 0,
            KeyKind::Kernel => self.generations.get(index(u64::from(access.vm))).copied().unwrap_or(0),
            KeyKind::PerHpte => self.known[index(u64::from(number))].2,
        };
        let owner = if self.design.shared { access.vm } else { access.vcpu };
        let set = access.page() % u64::from(self.design.sets.max(1));
        let lane = index(u64::from(owner)) * index(u64::from(self.design.sets.max(1))) + index(set);
        Ok((lane, Tag::new(number, generation), Tag::new(number, 0)))
    }

    /// The generation of a VM moved, for this page if that is known.
    pub(super) fn moved(&mut self, vm: u32, page: Option<EffectiveAddr>) -> Result<(), LabError> {
        let next = |generation: &mut u32| {
            *generation = generation.checked_add(1).ok_or(LabError::TooManyMoves)?;
            Ok::<_, LabError>(())
        };
        let vm = index(u64::from(vm)).min(MOST_LANES);
        if self.generations.len() <= vm {
            self.generations.resize(vm + 1, 0);
        }
        next(&mut self.generations[vm])?;
        for (first, shift, generation) in &mut self.known {
            if page.is_none_or(|page| (page.0 ^ *first) >> (*shift & 63) == 0) {
                next(generation)?;
            }
        }
        Ok(())
    }
}

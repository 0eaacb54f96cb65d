//! Why an access missed: cold, segment, generation or capacity, the first that applies.

use rustc_hash::FxHashSet;

use super::{LabError, LabPolicy, Simulator, Tag, simulator};
use crate::addr::index;
use crate::kvm_hv::MissClass;
use crate::trace::Access;

/// What was ever in one cache, and a cache of the same design that no bump makes old.
pub(super) struct Why {
    shadow: Box<dyn Simulator>,
    seen: Vec<bool>,
    pages: FxHashSet<(u64, u8)>,
}

impl Why {
    pub(super) fn new(policy: LabPolicy, entries: u64, seed: u64) -> Result<Self, LabError> {
        Ok(Self { shadow: simulator(policy, entries, seed)?, seen: Vec::new(), pages: FxHashSet::default() })
    }

    /// An access and what the cache did; `ageless` is its key as if the generation had never moved.
    pub(super) fn access(&mut self, access: &Access, ageless: Tag, hit: bool) -> Option<MissClass> {
        let kept = self.shadow.access(ageless.0);
        if hit {
            return None;
        }
        let number = index(u64::from(ageless.number()));
        if number >= self.seen.len() {
            self.seen.resize((number + 1).next_power_of_two(), false);
        }
        let known_key = std::mem::replace(&mut self.seen[number], true);
        let known_page = !self.pages.insert((access.page(), access.page_shift));
        Some(match (known_page, known_key, kept) {
            (false, ..) => MissClass::Cold,
            (true, false, _) => MissClass::Segment,
            (true, true, true) => MissClass::Generation,
            (true, true, false) => MissClass::Capacity,
        })
    }
}

/// Keys of a plain recording that were seen before: what missed is cold or capacity.
#[derive(Default)]
pub(super) struct Seen {
    direct: Vec<u64>,
    hashed: FxHashSet<u64>,
}

/// Keys below this have a bit each: 4 MiB at most.
const DIRECT: u64 = 1 << 25;

impl Seen {
    /// How many of these keys come for the first time.
    #[inline]
    pub(super) fn cold(&mut self, missed: &[u64]) -> u64 {
        let mut cold = 0;
        for key in missed {
            if *key >= DIRECT {
                cold += u64::from(self.hashed.insert(*key));
                continue;
            }
            let (word, bit) = (index(*key / 64), 1 << (*key % 64));
            if word >= self.direct.len() {
                self.direct.resize((word + 1).next_power_of_two(), 0);
            }
            cold += u64::from(self.direct[word] & bit == 0);
            self.direct[word] |= bit;
        }
        cold
    }
}

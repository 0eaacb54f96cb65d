//! Any policy behind an index: the policies are those of [`crate::kvm_hv::cache`], the search is not.

use super::index::Index;
use super::simulator::Design;
use crate::kvm_hv::cache::Policy;

pub(super) struct Indexed<P> {
    policy: P,
    index: Index,
    /// Slots filled so far: every policy fills them in order before it evicts.
    filled: usize,
}

impl<P: Policy> Indexed<P> {
    pub(super) fn new(policy: P, entries: usize) -> Self {
        Self { policy, index: Index::new(entries), filled: 0 }
    }
}

impl<P: Policy + Send> Design for Indexed<P> {
    #[inline(always)]
    fn access(&mut self, key: u64) -> bool {
        if let Some(slot) = self.index.find(key) {
            self.policy.hit(slot);
            return true;
        }
        let slot = self.policy.place();
        if slot < self.filled {
            self.index.remove(slot);
        } else {
            self.filled = slot + 1;
        }
        self.index.insert(key, slot);
        false
    }
}

//! The stages of the MMIO path: what an access went through, for a machine model to price.

use std::fmt;

use crate::addr::named;

named! {
    /// One stage of the path, named after what the kernel (or hardware) does there, in the order an access meets them.
    pub enum Stage {
        /// Hardware translates through SLB and a VALID HPTE: plain RAM, no hypervisor.
        Ram = "ram",
        /// Hypervisor data storage interrupt: guest to real-mode handler (`kvmppc_hdsi`).
        GuestExit = "guest-exit",
        /// MMIO HPTE cache asked (`mmio_cache_search`).
        CacheSearch = "cache-search",
        /// Software search of the primary group (`kvmppc_hv_find_lock_hpte`).
        HptSearch = "hpt-search",
        /// Software search of the secondary group (`kvmppc_hv_find_lock_hpte`).
        HptSearchSecondary = "hpt-search-secondary",
        /// First HVLOCK taken, both doublewords and `guest_rpte` read, lock released.
        HpteLockFirst = "hpte-lock-first",
        /// PP, Ks/Kp, N, G and the storage key checked on the guest's doubleword.
        Permission = "permission",
        /// A cache entry filled (`next_mmio_cache_entry`).
        CacheFill = "cache-fill",
        /// Instruction word loaded by the early exit path (return value -2).
        InsnLoad = "insn-load",
        /// From real mode to the host kernel's exit handler (`kvmppc_handle_exit_hv`).
        HostEntry = "host-entry",
        /// Generation read again before a hit is trusted.
        GenerationRecheck = "generation-recheck",
        /// Second HVLOCK taken and the entry compared with what the early handler saw.
        HpteLockSecond = "hpte-lock-second",
        /// Memslots searched (`gfn_to_memslot`).
        MemslotSearch = "memslot-search",
        /// RAM page brought in and mapped VALID.
        PageIn = "page-in",
        /// KVM_FAST_MMIO_BUS asked (stores only).
        FastBus = "fast-bus",
        /// Instruction word checked and decoded, value formed (`kvmppc_emulate_loadstore`).
        Decode = "decode",
        /// KVM_MMIO_BUS searched (`kvm_io_bus_write`, `kvm_io_bus_read`).
        MmioBus = "mmio-bus",
        /// An eventfd signalled (`ioeventfd_write`).
        EventfdSignal = "eventfd-signal",
        /// A write put into the coalesced ring (`coalesced_mmio_write`).
        CoalescedWrite = "coalesced-write",
        /// Exit to user space and back (KVM_EXIT_MMIO), without the device model's own work.
        UserExit = "user-exit",
        /// Interrupt delivered to the guest instead of emulation.
        Reflect = "reflect",
        /// Back into the guest (`kvmppc_run_vcpu`, `__kvmppc_vcore_entry`).
        GuestEntry = "guest-entry",
    }
}

/// The stages of one attempt, each at most once.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StageSet(u32);

impl StageSet {
    /// No stage.
    pub const EMPTY: Self = Self(0);

    /// Adds one stage.
    #[inline]
    pub const fn add(&mut self, stage: Stage) {
        self.0 |= 1 << stage as u8;
    }

    /// Adds all stages of another set.
    #[inline]
    pub const fn merge(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// The set with one stage more.
    #[must_use]
    pub const fn with(mut self, stage: Stage) -> Self {
        self.add(stage);
        self
    }

    /// Whether it holds `stage`.
    #[must_use]
    pub const fn contains(self, stage: Stage) -> bool {
        self.0 & (1 << stage as u8) != 0
    }

    /// Its stages, in path order.
    pub fn iter(self) -> impl Iterator<Item = Stage> {
        Stage::ALL.iter().copied().filter(move |stage| self.contains(*stage))
    }
}

impl FromIterator<Stage> for StageSet {
    fn from_iter<I: IntoIterator<Item = Stage>>(stages: I) -> Self {
        stages.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Debug for StageSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Stage::name)).finish()
    }
}

/// Attempts whose stages a [`StageLog`] keeps one by one.
const KEPT: usize = 6;

/// The stages of one access: a set for each attempt (an access that is retried makes several).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StageLog {
    attempts: [StageSet; KEPT],
    len: u32,
}

impl Default for StageLog {
    fn default() -> Self {
        Self { attempts: [StageSet::EMPTY; KEPT], len: 0 }
    }
}

impl StageLog {
    /// The log of an access that needed one attempt.
    // Built as a whole: pieces stored one by one and then copied wider make the processor wait.
    #[inline]
    #[must_use]
    pub const fn of(attempt: StageSet) -> Self {
        let mut attempts = [StageSet::EMPTY; KEPT];
        attempts[0] = attempt;
        Self { attempts, len: 1 }
    }

    /// Adds the stages of a finished attempt. Beyond the sixth the last place is overwritten;
    /// [`Self::len`] still counts.
    #[inline]
    pub fn push(&mut self, attempt: StageSet) {
        let at = (self.len as usize).min(KEPT - 1);
        self.attempts[at] = attempt;
        self.len += 1;
    }

    /// Attempts made.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether no attempt was made.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The kept attempts, the last one last.
    #[must_use]
    pub fn attempts(&self) -> &[StageSet] {
        &self.attempts[..(self.len as usize).min(KEPT)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_gives_its_stages_back_in_path_order() {
        let set: StageSet = [Stage::GuestEntry, Stage::GuestExit, Stage::CacheSearch].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [Stage::GuestExit, Stage::CacheSearch, Stage::GuestEntry]);
        assert!(Stage::ALL.len() <= 32);
    }

    #[test]
    fn a_log_counts_attempts_beyond_those_it_keeps() {
        let mut log = StageLog::default();
        for _ in 0..10 {
            log.push(StageSet::EMPTY.with(Stage::Ram));
        }
        assert_eq!((log.len(), log.attempts().len()), (10, KEPT));
    }
}

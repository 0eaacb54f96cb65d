//! What can be replayed: the policies a cache can have, and the one that none can.

use std::fmt;
use std::str::FromStr;

use crate::kvm_hv::{CacheError, PolicyKind};

/// A policy of the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LabPolicy {
    /// One that a cache can have.
    Cache(PolicyKind),
    /// Belady's: evicts what is used again last. No cache can know that; it bounds every policy that fills on a miss.
    Optimum,
}

impl LabPolicy {
    /// Every one, the optimum last.
    pub const ALL: [Self; 6] = [
        Self::Cache(PolicyKind::RoundRobin),
        Self::Cache(PolicyKind::Lru),
        Self::Cache(PolicyKind::Clock),
        Self::Cache(PolicyKind::Sieve),
        Self::Cache(PolicyKind::Random),
        Self::Optimum,
    ];

    /// Name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cache(kind) => kind.name(),
            Self::Optimum => "optimum",
        }
    }
}

impl fmt::Display for LabPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LabPolicy {
    type Err = LabError;

    fn from_str(name: &str) -> Result<Self, LabError> {
        let wanted = name.to_ascii_lowercase();
        let wanted = if wanted == "fifo" { "round-robin" } else { &wanted };
        let found = Self::ALL.into_iter().find(|policy| policy.name() == wanted);
        found.ok_or_else(|| LabError::Policy { name: name.to_owned() })
    }
}

/// Why the lab refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabError {
    /// No such policy.
    #[error("no replacement policy is named `{name}`: round-robin (or fifo), lru, clock, sieve, random or optimum")]
    Policy {
        /// What was asked.
        name: String,
    },
    /// A size that no policy here does.
    #[error(transparent)]
    Size(#[from] CacheError),
    /// More distinct keys than can be numbered.
    #[error("more than {} distinct pages: the lab numbers them in 32 bits", u32::MAX)]
    TooManyKeys,
    /// The generation moved more often than it can be told apart.
    #[error("the generation moved more than {} times: the lab counts them in 32 bits", u32::MAX)]
    TooManyMoves,
    /// A table that would take too much memory.
    #[error(
        "{keys} distinct pages at {sizes} sizes of round-robin need {mib} MiB, more than {limit} MiB: ask for fewer \
         sizes, for example --entries 1,2,4,8,16,32"
    )]
    Memory {
        /// Distinct pages so far.
        keys: u64,
        /// Sizes.
        sizes: usize,
        /// What they need.
        mib: u64,
        /// What is allowed.
        limit: u64,
    },
}

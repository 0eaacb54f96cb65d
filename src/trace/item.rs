//! What a recording is made of.

use serde::Serialize;

use crate::addr::{EffectiveAddr, GuestPhysAddr};
use crate::book3s::insn::Direction;

/// What the recording says the MMIO HPTE cache did. Never mixed with what a simulation says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Observed {
    /// It does not tell.
    #[default]
    Unknown,
    /// Served from the cache.
    Hit,
    /// Slow form.
    Miss,
}

/// One MMIO access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// When, ns of the recording's clock; 0 where it has none.
    pub at: u64,
    /// vCPU, numbered from 0 in order of first access ([`super::Facts::vcpus`] tells their own numbers).
    pub vcpu: u32,
    /// VM, numbered from 0 likewise: vCPUs of one VM share a generation.
    pub vm: u32,
    /// Effective address; where a recording has none, the guest physical address.
    pub ea: EffectiveAddr,
    /// Guest physical address; where a recording has none, the effective address.
    pub gpa: GuestPhysAddr,
    /// What the recording tells of the segment's VSID doubleword (B, VSID, L, LP; never Ks, Kp, N, C), 0 for nothing.
    pub segment: u64,
    /// log2 of the page size by which the cache compares, 0 to 63; 0 for keys that are no addresses.
    pub page_shift: u8,
    /// Load or store.
    pub direction: Direction,
    /// Bytes, 0 where the recording does not tell.
    pub len: u8,
    /// What the recording says the cache did.
    pub observed: Observed,
}

impl Access {
    /// Page number, by the access's own page size.
    #[inline]
    #[must_use]
    pub const fn page(&self) -> u64 {
        self.ea.0 >> (self.page_shift & 63)
    }
}

/// One thing a recording tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Item {
    /// An MMIO access.
    Access(Access),
    /// The generation of a VM moved (`mmio_update`): an MMIO HPTE was removed or protected.
    Generation {
        /// When, ns.
        at: u64,
        /// Whose.
        vm: u32,
        /// Effective address of the page whose HPTE it was, if the recording tells.
        page: Option<EffectiveAddr>,
    },
    /// Events are missing from here: what the caches hold behind this point is not known.
    Lost {
        /// How many, 0 where the recording does not tell.
        events: u64,
    },
}

//! Addresses as newtypes, and [`KernelBehaviour`], the table of named switches.

mod behaviour;
mod errno;
mod named;
mod types;

pub use behaviour::{
    CoalescedRoom, DirectionRule, EmptyEntry, FillOnProtectionFault, FillWhenMemslotBacked, GenerationOnNewHpt,
    IssstoreOnFailure, KernelBehaviour, KeyOnMemslotDelete, KeyOnPageOut, Prefixed, Preset, ReservedPp, SwitchError,
    SwitchInfo, ZoneLookup, release_version,
};
pub use errno::Errno;
pub(crate) use named::named;
pub use types::{EffectiveAddr, Gfn, GuestPhysAddr, Port, PteIndex, Vsid, index};

//! A guest that does everything at once: every way of an access that KVM on x86 tells apart, drawn from a seed in given shares.

mod devices;

use std::collections::BTreeMap;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

use crate::addr::{GuestPhysAddr, Port, index, named};
use crate::io::{CoalescedZone, EventfdId, IoBus, Ioeventfd};
use crate::kvm_x86::{Instruction, PortWidth, Width};

pub use devices::{Seen, attach, pci_host};

named! {
    /// A way of an access.
    pub enum MixedKind {
        /// OUT to a device in user space.
        OutExit = "out-exit",
        /// OUT to a port in a coalesced zone.
        OutCoalesced = "out-coalesced",
        /// IN from a device in user space.
        In = "in",
        /// Doorbell handled in user space.
        DoorbellExit = "doorbell-exit",
        /// Doorbell with an ioeventfd as long as the store.
        DoorbellIoeventfd = "doorbell-ioeventfd",
        /// Doorbell with an ioeventfd of length 0.
        DoorbellAnyLength = "doorbell-ioeventfd-0",
        /// Doorbell in a coalesced zone.
        DoorbellCoalesced = "doorbell-coalesced",
        /// Configuration read from an ECAM window without memory.
        EcamRead = "ecam-read",
        /// Configuration read from a read-only memslot over an ECAM window.
        ReadOnlyRead = "ecam-read-only",
        /// Configuration write to it.
        ReadOnlyWrite = "ecam-read-only-write",
    }
}

/// Number of kinds.
pub const KINDS: usize = MixedKind::ALL.len();
/// The device behind exiting OUTs, 1 byte.
const OUT_EXIT: Port = Port(0x500);
/// The device behind coalesced OUTs, 4 ports.
const OUT_COALESCED: Port = Port(0x504);
/// The device behind INs, 4 ports.
const IN: Port = Port(0x508);
/// Doorbell pages, one a kind of doorbell.
const DOORBELLS: u64 = 0xd000_0000;
const PAGE: u32 = 4096;
/// ECAM window (of a PCI segment of its own) whose reads exit; 256 MiB from here.
pub const ECAM_EXITS: GuestPhysAddr = GuestPhysAddr(0xb000_0000);
/// ECAM window with a read-only memslot over it.
pub const ECAM_READ_ONLY: GuestPhysAddr = GuestPhysAddr(0xe000_0000);
/// What each byte of an IN reads.
pub const IN_BYTE: u8 = 0x5a;
/// Accesses drawn; then the same again.
pub const BLOCK: usize = 1024;

impl MixedKind {
    /// The instruction. Registers read and written are the host bridge's vendor and device ID, which no write changes; other
    /// writes carry [`Self::value`].
    #[must_use]
    pub fn instruction(self) -> Instruction {
        let value = self.value();
        let out = |port, width| Instruction::Out { port, width, value };
        match self {
            Self::OutExit => out(OUT_EXIT, PortWidth::Byte),
            Self::OutCoalesced => out(OUT_COALESCED, PortWidth::Dword),
            Self::In => Instruction::In { port: IN, width: PortWidth::Dword },
            Self::EcamRead => Instruction::Load { gpa: ECAM_EXITS, width: Width::Dword },
            Self::ReadOnlyRead => Instruction::Load { gpa: ECAM_READ_ONLY, width: Width::Dword },
            Self::ReadOnlyWrite => Instruction::Store { gpa: ECAM_READ_ONLY, width: Width::Dword, value: value.into() },
            Self::DoorbellExit | Self::DoorbellIoeventfd | Self::DoorbellAnyLength | Self::DoorbellCoalesced => {
                Instruction::Store { gpa: GuestPhysAddr(self.doorbell()), width: Width::Word, value: value.into() }
            }
        }
    }

    /// What an access of this kind writes: its place in the list, from 1.
    #[must_use]
    pub const fn value(self) -> u32 {
        self as u32 + 1
    }

    /// Bus and address of a device that only counts what is written, and how many bytes it has; none of the others.
    #[must_use]
    pub const fn counted(self) -> Option<(IoBus, u64, u64)> {
        match self {
            Self::OutExit => Some((IoBus::Pio, OUT_EXIT.0 as u64, 1)),
            Self::OutCoalesced => Some((IoBus::Pio, OUT_COALESCED.0 as u64, 4)),
            Self::DoorbellExit | Self::DoorbellIoeventfd | Self::DoorbellAnyLength | Self::DoorbellCoalesced => {
                Some((IoBus::Mmio, self.doorbell(), PAGE as u64))
            }
            Self::In | Self::EcamRead | Self::ReadOnlyRead | Self::ReadOnlyWrite => None,
        }
    }

    /// Bus and address of the device that INs read, and how many ports it has.
    #[must_use]
    pub const fn read_device() -> (IoBus, u64, u64) {
        (IoBus::Pio, IN.0 as u64, 4)
    }

    /// Whether the PCI host performs it, in user space.
    #[must_use]
    pub const fn is_config_exit(self) -> bool {
        matches!(self, Self::EcamRead | Self::ReadOnlyWrite)
    }

    const fn doorbell(self) -> u64 {
        DOORBELLS + (self as u64 - Self::DoorbellExit as u64) * PAGE as u64
    }
}

/// The zones that take the coalesced kinds.
#[must_use]
pub const fn zones() -> [CoalescedZone; 2] {
    [
        CoalescedZone { addr: OUT_COALESCED.0 as u64, size: 4, pio: 1 },
        CoalescedZone { addr: MixedKind::DoorbellCoalesced.doorbell(), size: PAGE, pio: 0 },
    ]
}

/// The kinds that an eventfd counts, and the lengths of their ioeventfds.
pub const SIGNALLED: [(MixedKind, u32); 2] = [(MixedKind::DoorbellIoeventfd, 2), (MixedKind::DoorbellAnyLength, 0)];

/// Their ioeventfds, on these eventfds.
#[must_use]
pub fn ioeventfds(fds: [EventfdId; 2]) -> [Ioeventfd; 2] {
    let of = |i: usize| {
        let (kind, len) = SIGNALLED[i];
        Ioeventfd { bus: IoBus::Mmio, addr: kind.doorbell(), len, datamatch: None, fd: fds[i] }
    };
    [of(0), of(1)]
}

/// The workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mixed {
    /// Accesses of a vCPU.
    pub count: u64,
    /// By kind, in the order of [`MixedKind::ALL`]: how likely the next access is of it, against the sum.
    pub weights: [u32; KINDS],
}

impl Mixed {
    /// Accesses of one kind only.
    #[must_use]
    pub fn only(kind: MixedKind, count: u64) -> Self {
        let mut weights = [0; KINDS];
        weights[kind as usize] = 1;
        Self { count, weights }
    }

    /// With weights by name; all alike if none are given.
    ///
    /// # Errors
    /// In words: a name that is no kind, a weight above 1,000,000, weights that are all 0.
    pub fn new(count: u64, named: &BTreeMap<String, u32>) -> Result<Self, String> {
        const MOST: u32 = 1_000_000;
        let mut weights = [u32::from(named.is_empty()); KINDS];
        for (name, weight) in named {
            let Some(kind) = MixedKind::ALL.iter().find(|kind| kind.name() == name) else {
                let known: Vec<_> = MixedKind::ALL.iter().map(|kind| kind.name()).collect();
                return Err(format!("no kind of access is named `{name}`: {}", known.join(", ")));
            };
            if *weight > MOST {
                return Err(format!("weight {name} = {weight}: 0 to {MOST}"));
            }
            weights[*kind as usize] = *weight;
        }
        if weights.iter().all(|weight| *weight == 0) {
            return Err("all weights are 0: give one kind more".to_owned());
        }
        Ok(Self { count, weights })
    }

    /// The accesses of a vCPU, [`BLOCK`] of them, which it repeats.
    #[must_use]
    pub fn block(&self, seed: u64, vcpu: u32) -> Vec<MixedKind> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_add(u64::from(vcpu)));
        let sum: u128 = self.weights.iter().map(|weight| u128::from(*weight)).sum();
        let mut drawn = || {
            let mut left = (u128::from(rng.next_u64()) * sum) >> 64;
            let kind = MixedKind::ALL.iter().find(|kind| {
                let weight = u128::from(self.weights[**kind as usize]);
                let here = left < weight;
                left = left.saturating_sub(weight);
                here
            });
            // One is found: what is left is below the sum.
            *kind.unwrap_or(&MixedKind::OutExit)
        };
        (0..BLOCK).map(|_| drawn()).collect()
    }
}

/// Accesses `from` to `from + count` of a vCPU by kind.
#[must_use]
pub fn counts(block: &[MixedKind], from: u64, count: u64) -> [u64; KINDS] {
    let mut counts = [0; KINDS];
    let length = block.len().max(1) as u64;
    for kind in block {
        counts[*kind as usize] += count / length;
    }
    for place in from..from + count % length {
        if let Some(kind) = block.get(index(place % length)) {
            counts[*kind as usize] += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_each_kind_in_its_share_and_repeats_by_seed_and_vcpu() {
        let weights = [("out-exit", 3), ("in", 1)].map(|(name, weight)| (name.to_owned(), weight));
        let mixed = Mixed::new(1, &BTreeMap::from(weights)).unwrap();
        let block = mixed.block(7, 0);
        let made = counts(&block, 0, BLOCK as u64);
        assert_eq!(made.iter().sum::<u64>(), BLOCK as u64);
        assert_eq!(made[MixedKind::OutExit as usize] + made[MixedKind::In as usize], BLOCK as u64);
        assert!((700..840).contains(&made[MixedKind::OutExit as usize]), "{made:?}");
        assert_eq!(block, mixed.block(7, 0));
        assert_ne!(block, mixed.block(7, 1));
        assert_ne!(block, mixed.block(8, 0));
    }

    #[test]
    fn counts_are_those_of_the_accesses_one_by_one() {
        let block = Mixed::new(1, &BTreeMap::new()).unwrap().block(1, 0);
        for (from, count) in [(0, 3), (1000, 100), (5000, 3 * BLOCK as u64 + 17)] {
            let mut one_by_one = [0; KINDS];
            (from..from + count).for_each(|at| one_by_one[block[index(at) % BLOCK] as usize] += 1);
            assert_eq!(counts(&block, from, count), one_by_one, "{count} from {from}");
        }
    }

    #[test]
    fn weights_that_mean_nothing_are_refused_in_words() {
        let one = |name: &str, weight| Mixed::new(1, &BTreeMap::from([(name.to_owned(), weight)])).unwrap_err();
        assert!(one("outs", 1).contains("out-exit"), "the known ones are named");
        assert!(one("in", 0).contains("all weights are 0"));
        assert!(one("in", 1_000_001).contains("1000000"));
    }
}

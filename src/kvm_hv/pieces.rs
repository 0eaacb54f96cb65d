//! Floating-point and vector accesses onto the bus, piece by piece, and what happens when user space has done its part
//! (`kvmppc_handle_vsx_store`, `kvmppc_handle_vmx_load` and their like; `kvm_arch_vcpu_ioctl_run`).

use crate::addr::{EffectiveAddr, GuestPhysAddr};
use crate::book3s::insn::{Direction, Endian, Facility, FacilityAccess, load_value};
use crate::io::{BusRead, BusWrite};

use super::outcome::{Handler, MmioExit};
use super::stage::{Stage, StageSet};
use super::vcpu::{Pending, Vcpu};

/// Where an access in pieces stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pieces {
    access: FacilityAccess,
    endian: Endian,
    /// Aligned down where the access ignores address bits.
    ea: u64,
    /// Of the piece that is next (`paddr_accessed`).
    gpa: GuestPhysAddr,
    /// Its number (`mmio_vsx_offset`, `mmio_vmx_offset`).
    piece: u8,
}

/// What [`Vcpu::complete`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Completion {
    /// No instruction waited for user space: the last exit was a store of one piece, or there was none.
    NothingWaits,
    /// The instruction is done; the guest goes on.
    Done,
    /// The next piece needs user space too.
    Exit(MmioExit),
}

/// How far pieces went.
pub(super) enum Progress {
    /// All done; who took the last one.
    Through(Handler),
    /// One of them needs user space.
    Exit(MmioExit),
    /// None was tried: MSR makes the facility unavailable.
    Unavailable(Facility),
}

impl Vcpu {
    /// Emulates a valid floating-point or vector access up to its first exit; and the stages that took.
    // Apart: the integer path has no room for it.
    #[inline(never)]
    pub(super) fn emulate_pieces(
        &mut self,
        access: &FacilityAccess,
        ea: EffectiveAddr,
        gpa: GuestPhysAddr,
        insn_bytes: u64,
    ) -> (Progress, StageSet) {
        let mut stages = StageSet::EMPTY;
        if self.msr & access.facility.msr_bit() == 0 {
            return (Progress::Unavailable(access.facility), stages);
        }
        let ignored = access.ignored_address_bits();
        let gpa = GuestPhysAddr(gpa.0 & !ignored);
        let pieces = Pieces { access: *access, endian: self.endian(), ea: ea.0 & !ignored, gpa, piece: 0 };
        self.mmio_is_write = access.direction == Direction::Store;
        let progress = self.go_on(pieces, &mut stages);
        if access.update {
            self.gpr[usize::from(access.ra & 31)] = ea.0;
        }
        self.pc = self.pc.wrapping_add(insn_bytes);
        (progress, stages)
    }

    /// User space has done the last exit: gives a load the bytes it answered, in address order (those past the exit's
    /// `len` are not looked at; for a store none are), and goes on with the instruction (`kvmppc_complete_mmio_load`,
    /// `kvmppc_emulate_mmio_vsx_loadstore`).
    ///
    /// Pieces that kernel-side devices take do not show. A new access forgets an instruction that was never completed.
    pub fn complete(&mut self, data: &[u8; 8]) -> Completion {
        match self.pending.take() {
            None => Completion::NothingWaits,
            Some(Pending::Load { access, endian }) => {
                self.gpr[usize::from(access.rt & 31)] = load_value(data, &access, endian);
                Completion::Done
            }
            Some(Pending::Pieces(mut pieces)) => {
                if pieces.access.direction == Direction::Load {
                    let Pieces { access, endian, ea, piece, .. } = pieces;
                    access.load_piece(&mut self.vsr[usize::from(access.vsr & 63)], piece, ea, endian, data);
                }
                pieces.advance();
                if pieces.piece == pieces.access.pieces() {
                    return Completion::Done;
                }
                match self.go_on(pieces, &mut StageSet::default()) {
                    Progress::Exit(exit) => Completion::Exit(exit),
                    Progress::Through(_) | Progress::Unavailable(_) => Completion::Done,
                }
            }
        }
    }

    /// [`Self::complete`] for a load of one piece, such as every integer load: whether it is done. If false, no load
    /// waited, or [`Self::complete`] should have been asked, since the next piece's exit is lost.
    pub fn complete_load(&mut self, data: &[u8; 8]) -> bool {
        self.complete(data) == Completion::Done
    }

    /// The pieces from `pieces.piece`, until one needs user space.
    fn go_on(&mut self, mut pieces: Pieces, stages: &mut StageSet) -> Progress {
        let Pieces { access, endian, ea, .. } = pieces;
        let len = access.piece_size() as u8;
        stages.add(Stage::MmioBus);
        loop {
            let Pieces { gpa, piece, .. } = pieces;
            let mut exit = MmioExit { gpa, direction: access.direction, len, data: [0; 8], ring_full: false };
            let taken = match access.direction {
                Direction::Load => {
                    let BusRead::Unhandled = self.io.mmio_read(gpa.0, u32::from(len));
                    None
                }
                Direction::Store => {
                    exit.data = access.store_piece(self.vsr[usize::from(access.vsr & 63)], piece, ea, endian);
                    match self.io.mmio_write(gpa.0, &exit.data[..usize::from(len)]) {
                        BusWrite::Eventfd(fd) => {
                            stages.add(Stage::EventfdSignal);
                            Some(Handler::Eventfd(fd))
                        }
                        BusWrite::Coalesced => {
                            stages.add(Stage::CoalescedWrite);
                            Some(Handler::Coalesced)
                        }
                        BusWrite::Unhandled { ring_full } => {
                            exit.ring_full = ring_full;
                            None
                        }
                    }
                }
            };
            let last = piece + 1 == access.pieces();
            let Some(handler) = taken else {
                stages.add(Stage::UserExit);
                let waits = access.direction == Direction::Load || !last;
                self.pending = waits.then_some(Pending::Pieces(pieces));
                return Progress::Exit(exit);
            };
            if last {
                return Progress::Through(handler);
            }
            pieces.advance();
        }
    }
}

impl Pieces {
    const fn advance(&mut self) {
        self.piece += 1;
        self.gpa = GuestPhysAddr(self.gpa.0.wrapping_add(self.access.piece_size() as u64));
    }
}

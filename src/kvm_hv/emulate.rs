//! MMIO emulation (`kvmppc_hv_emulate_mmio`, `kvmppc_emulate_loadstore`): integer loads and stores onto the bus; `pieces`
//! has those of other registers.

use crate::addr::{DirectionRule, GuestPhysAddr, IssstoreOnFailure};
use crate::book3s::insn::{Direction, Facility, Insn, store_bytes};
use crate::book3s::msr::{DSISR_BADACCESS, DSISR_ISSTORE};
use crate::io::{BusRead, BusWrite};

use super::access::Fetch;
use super::early::Fault;
use super::full::FullStep;
use super::outcome::{CacheUse, Handler, MmioExit, RetryReason};
use super::pieces::Progress;
use super::stage::{Stage, StageSet};
use super::vcpu::{Pending, Vcpu};
use super::vm::Vm;

impl Vcpu {
    #[inline(always)]
    pub(super) fn emulate(
        &mut self,
        vm: &Vm,
        fault: &Fault,
        gpa: GuestPhysAddr,
        insn: Fetch,
        cache: CacheUse,
        stages: &mut StageSet,
    ) -> FullStep {
        let is_store = fault.direction() == Direction::Store;
        let endian = self.endian();
        let mut io = self.io.begin();
        if is_store {
            stages.add(Stage::FastBus);
            if let Some(fd) = io.fast_mmio_write(gpa.0) {
                // Nothing is decoded: an update form's RA stays as it is. That the instruction is prefixed SRR1 says.
                stages.add(Stage::EventfdSignal);
                self.pc = self.pc.wrapping_add(insn.words(vm.behaviour().prefixed).map_or(4, |(_, bytes)| bytes));
                return FullStep::Done { handler: Handler::FastMmio(fd), gpa, cache };
            }
        }
        let Some((words, insn_bytes)) = insn.words(vm.behaviour().prefixed) else {
            return FullStep::Retry(RetryReason::FetchFailed);
        };
        stages.add(Stage::Decode);
        let decoded = self.decoded.update(words);
        let counts_as_store = match (vm.behaviour().direction_rule, &decoded.insn) {
            (DirectionRule::Decoded, Some(insn)) => insn.direction() == Direction::Store,
            _ => decoded.store_by_bit,
        };
        if counts_as_store != is_store {
            return FullStep::Retry(RetryReason::DirectionMismatch);
        }
        let access = match &decoded.insn {
            Some(Insn::Access(access)) if access.is_valid_form() => access,
            Some(Insn::CacheOp(_)) => {
                self.pc = self.pc.wrapping_add(4);
                return FullStep::Done { handler: Handler::NoOp, gpa, cache };
            }
            Some(Insn::Facility(access)) if access.is_valid_form() => {
                let access = *access;
                let (done, went) = self.emulate_pieces(&access, fault.ea, gpa, insn_bytes);
                stages.merge(went);
                // Built here, not there: as long as every step is built in sight, the caller's match on it costs nothing.
                return match done {
                    Progress::Through(handler) => {
                        let gpa = GuestPhysAddr(gpa.0 & !access.ignored_address_bits());
                        FullStep::Done { handler, gpa, cache }
                    }
                    // Field by field: copied whole, its padding would become part of what every other step carries.
                    Progress::Exit(MmioExit { gpa, direction, len, data, ring_full }) => {
                        FullStep::Exit { exit: MmioExit { gpa, direction, len, data, ring_full }, cache }
                    }
                    Progress::Unavailable(facility) => FullStep::Unavailable { facility, cache },
                };
            }
            _ => {
                return match self.fail(vm, is_store) {
                    Err(facility) => FullStep::Unavailable { facility, cache },
                    Ok(dsisr) => FullStep::Failed { dsisr, cache },
                };
            }
        };

        // A valid integer access: form the value, ask the bus, exit if nobody takes it.
        self.mmio_is_write = access.direction == Direction::Store;
        stages.add(Stage::MmioBus);
        let (mut data, mut ring_full) = ([0; 8], false);
        let handler = match access.direction {
            Direction::Store => {
                let bytes;
                (data, bytes) = store_bytes(self.gpr[usize::from(access.rt & 31)], access, endian);
                match io.mmio_write(gpa.0, &data[..bytes]) {
                    BusWrite::Eventfd(fd) => {
                        stages.add(Stage::EventfdSignal);
                        Some(Handler::Eventfd(fd))
                    }
                    BusWrite::Coalesced => {
                        stages.add(Stage::CoalescedWrite);
                        Some(Handler::Coalesced)
                    }
                    BusWrite::Unhandled { ring_full: full } => {
                        ring_full = full;
                        None
                    }
                }
            }
            Direction::Load => {
                let BusRead::Unhandled = self.io.mmio_read(gpa.0, access.size as u32);
                self.pending = Some(Pending::Load { access: *access, endian });
                None
            }
        };
        if access.update {
            self.gpr[usize::from(access.ra & 31)] = fault.ea.0;
        }
        self.pc = self.pc.wrapping_add(insn_bytes);
        match handler {
            Some(handler) => FullStep::Done { handler, gpa, cache },
            None => {
                stages.add(Stage::UserExit);
                let exit = MmioExit { gpa, direction: access.direction, len: access.size as u8, data, ring_full };
                FullStep::Exit { exit, cache }
            }
        }
    }

    /// EMULATE_FAIL: the guest gets a data storage interrupt with this DSISR, the PC stays; unless the instruction's
    /// facility is unavailable, which the kernel finds first.
    #[cold]
    fn fail(&mut self, vm: &Vm, is_store: bool) -> Result<u32, Facility> {
        let insn = self.decoded.insn;
        let facility = match insn {
            Some(Insn::Refused(refused)) => refused.why.facility(),
            _ => None,
        };
        if let Some(facility) = facility.filter(|facility| self.msr & facility.msr_bit() == 0) {
            return Err(facility);
        }
        let store = match vm.behaviour().issstore_on_failure {
            IssstoreOnFailure::Stale => self.mmio_is_write,
            IssstoreOnFailure::Exact => is_store,
            IssstoreOnFailure::Analysed => {
                // An invalid update form is "unknown", which is no store.
                let known = matches!(insn, Some(Insn::Refused(_)));
                self.mmio_is_write = known && insn.is_some_and(|insn| insn.direction() == Direction::Store);
                self.mmio_is_write
            }
        };
        Ok(DSISR_BADACCESS | if store { DSISR_ISSTORE } else { 0 })
    }
}

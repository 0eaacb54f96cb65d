//! Loads and stores to addresses without memory.

use crate::addr::GuestPhysAddr;
use crate::io::IoBus;

use super::exit::{Direction, End, Target, UserExit};
use super::platform::FastMmio;
use super::stage::Stage;
use super::vcpu::{Offer, PAGE, Pending, Phase, Progress, Run, Vcpu, taken};

/// Part of an MMIO access that waits for user space; an access that crosses a page has two parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Part {
    gpa: u64,
    offset: usize,
    len: usize,
    ring_full: bool,
}

impl Vcpu {
    fn offer_store(&mut self, progress: &mut Progress, gpa: u64, data: &[u8]) -> Offer {
        progress.stages.add(Stage::KernelIo);
        if let Some(device) = self.in_kernel(progress, IoBus::Mmio, gpa, data.len()) {
            device.lock().write(gpa, data);
            return Offer::Taken;
        }
        taken(progress, self.reader.mmio_write(gpa, data))
    }

    /// A load (`store` is none) or a store of `bytes` at `gpa`.
    pub(super) fn run_mmio(
        &mut self,
        pending: &mut Pending,
        gpa: GuestPhysAddr,
        bytes: usize,
        store: Option<[u8; 8]>,
    ) -> Run {
        let mut progress = Progress::default();
        let parts = parts(gpa.0, bytes);
        match pending.phase {
            Phase::Over => return progress.ends(End::Done),
            Phase::Guest => {
                if store.is_none() && self.load_from_memory(pending, &parts) {
                    progress.stages.add(Stage::MemoryRead);
                    progress.handled.memory += 1;
                    pending.phase = Phase::Over;
                    return progress.ends(End::Done);
                }
                progress.stages.add(Stage::VmExit);
                if !self.fast_mmio(&mut progress, &parts, store.is_none()) {
                    // A store faults at its first page; the emulator does the rest of it.
                    if store.is_some() && self.platform.is_memory(gpa.0) {
                        progress.stages.add(Stage::ReadOnlyFault);
                    }
                    self.emulate(&mut progress, pending, &parts, store);
                }
            }
            Phase::User { .. } => {
                progress.stages.add(Stage::UserEntry);
                let handled = pending.parts.iter_mut().find_map(Option::take);
                if let (Some(part), None) = (handled, store) {
                    pending.value[part.offset..part.offset + part.len].copy_from_slice(&self.data[..part.len]);
                }
            }
        }
        if let Some(part) = pending.parts.iter().flatten().next() {
            pending.phase = Phase::User { elements: 1 };
            return self.mmio_exit(progress, part, store);
        }
        if store.is_none() && matches!(pending.phase, Phase::User { .. }) {
            progress.stages.add(Stage::CompleteIo);
        }
        pending.phase = Phase::Over;
        progress.enter();
        progress.ends(End::Done)
    }

    /// The emulator offers each part to the kernel's devices and buses; what nobody there takes waits for user space.
    fn emulate(
        &mut self,
        progress: &mut Progress,
        pending: &mut Pending,
        parts: &[Option<Part>; 2],
        store: Option<[u8; 8]>,
    ) {
        progress.stages.add(Stage::EmulateInsn);
        for (waits, part) in pending.parts.iter_mut().zip(parts) {
            let Some(part) = *part else { continue };
            let range = part.offset..part.offset + part.len;
            let offer = match store {
                Some(value) => self.offer_store(progress, part.gpa, &value[range]),
                None => self.offer_load(progress, part.gpa, &mut pending.value[range]),
            };
            if let Offer::User { ring_full } = offer {
                *waits = Some(Part { ring_full, ..part });
            }
        }
    }

    /// KVM_EXIT_MMIO.
    fn mmio_exit(&mut self, mut progress: Progress, part: &Part, store: Option<[u8; 8]>) -> Run {
        progress.stages.add(Stage::UserExit);
        let direction = match store {
            Some(value) => {
                self.data[..part.len].copy_from_slice(&value[part.offset..part.offset + part.len]);
                Direction::Write
            }
            None => Direction::Read,
        };
        let target = Target::Mmio(GuestPhysAddr(part.gpa));
        #[expect(clippy::cast_possible_truncation, reason = "1 to 8")]
        let exit = UserExit { target, direction, size: part.len as u8, count: 1, ring_full: part.ring_full };
        self.exit_bytes = part.len;
        progress.ends(End::Exit(exit))
    }

    fn offer_load(&self, progress: &mut Progress, gpa: u64, data: &mut [u8]) -> Offer {
        if self.platform.read_memory(gpa, data) {
            return Offer::Taken;
        }
        progress.stages.add(Stage::KernelIo);
        if self.read_in_kernel(progress, IoBus::Mmio, gpa, data) {
            return Offer::Taken;
        }
        Offer::User { ring_full: false }
    }

    fn load_from_memory(&self, pending: &mut Pending, parts: &[Option<Part>; 2]) -> bool {
        let Pending { value, .. } = pending;
        parts.iter().flatten().all(|part| self.platform.read_memory(part.gpa, &mut value[part.offset..][..part.len]))
    }

    /// The fast MMIO bus knows the address only: neither width nor direction, so it takes loads too. A write into a read-only
    /// memslot is a violation, not a misconfiguration, and goes past it.
    fn fast_mmio(&mut self, progress: &mut Progress, parts: &[Option<Part>; 2], load: bool) -> bool {
        if self.platform.fast_mmio() == FastMmio::Never {
            return false;
        }
        let mut parts = parts.iter().flatten();
        // A load faults at the first page without memory, a store at the first page.
        let fault = parts.find(|part| !load || !self.platform.is_memory(part.gpa));
        let Some(fault) = fault.filter(|part| !self.platform.is_memory(part.gpa)) else { return false };
        progress.stages.add(Stage::FastMmio);
        if self.reader.fast_mmio_write(fault.gpa).is_none() {
            return false;
        }
        progress.stages.add(Stage::EventfdSignal);
        progress.handled.fast_mmio += 1;
        true
    }
}

/// An access split where it crosses a page, as `emulator_read_write` does. Addresses wrap at the end.
fn parts(gpa: u64, bytes: usize) -> [Option<Part>; 2] {
    let room = crate::addr::index(PAGE - gpa % PAGE);
    let part = |offset: usize, len| Part { gpa: gpa.wrapping_add(offset as u64), offset, len, ring_full: false };
    if bytes <= room { [Some(part(0, bytes)), None] } else { [Some(part(0, room)), Some(part(room, bytes - room))] }
}

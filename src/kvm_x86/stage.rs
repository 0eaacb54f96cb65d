//! The stages of an I/O exit on x86: what an access went through, for a machine model to price.

use std::fmt;

use crate::addr::named;

named! {
    /// One stage, named after what KVM (or hardware, or the VMM) does there, in the order an access meets them.
    pub enum Stage {
        /// A read served by a read-only memslot: plain memory, no exit.
        MemoryRead = "memory-read",
        /// VM exit: from the guest's instruction to KVM's exit handler, guest registers saved.
        VmExit = "vm-exit",
        /// KVM_FAST_MMIO_BUS asked before the instruction is decoded (`handle_ept_misconfig`).
        FastMmio = "fast-mmio",
        /// A store to a read-only memslot faults on memory that is there: the page-fault handler finds a slot that takes no write
        /// (`kvm_faultin_pfn`, KVM_PFN_ERR_RO_FAULT) and leaves the store to the emulator.
        ReadOnlyFault = "read-only-fault",
        /// The instruction fetched, decoded and emulated (`x86_emulate_instruction`): MMIO and string I/O; once an element.
        EmulateInsn = "emulate-insn",
        /// The bus searched, once an element (`kernel_pio`, `vcpu_mmio_write`; `handle_io` before it).
        KernelIo = "kernel-io",
        /// A device in the kernel did it (PIT, PIC, APIC).
        InKernelDevice = "in-kernel-device",
        /// An eventfd signalled (`ioeventfd_write`).
        EventfdSignal = "eventfd-signal",
        /// A write put into the coalesced ring (`coalesced_mmio_write`).
        RingStore = "ring-store",
        /// KVM_RUN returns to user space (KVM_EXIT_IO, KVM_EXIT_MMIO).
        UserExit = "user-exit",
        /// User space fetches the guest's registers (KVM_GET_REGS).
        GetRegs = "get-regs",
        /// User space looks into the coalesced ring, before it handles the exit.
        Drain = "drain",
        /// User space finds the device model for a write out of the ring and calls it: once a write.
        DrainedWrite = "drained-write",
        /// User space decodes the exit, finds the device model and calls it: once an element.
        UserDevice = "user-device",
        /// User space gives the guest's registers back (KVM_SET_REGS).
        SetRegs = "set-regs",
        /// User space calls KVM_RUN again.
        UserEntry = "user-entry",
        /// What was read is put where the instruction wants it (`complete_fast_pio_in`, `complete_emulated_pio`).
        CompleteIo = "complete-io",
        /// KVM makes ready to enter the guest (`vcpu_enter_guest` up to the tracepoint `kvm_entry`).
        PrepareEntry = "prepare-entry",
        /// VM entry: guest registers restored, back to the guest's next instruction.
        VmEntry = "vm-entry",
    }
}

/// How often each stage was gone through. String I/O and the ring repeat some of them within one exit.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct StageCounts([u32; Stage::ALL.len()]);

impl StageCounts {
    /// Counts one stage once more.
    #[inline]
    pub const fn add(&mut self, stage: Stage) {
        self.add_times(stage, 1);
    }

    /// Counts one stage `times` more, saturating.
    #[inline]
    pub const fn add_times(&mut self, stage: Stage, times: u32) {
        let count = &mut self.0[stage as usize];
        *count = count.saturating_add(times);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count = count.saturating_add(more);
        }
    }

    /// How often `stage` was gone through.
    #[inline]
    #[must_use]
    pub const fn of(&self, stage: Stage) -> u32 {
        self.0[stage as usize]
    }

    /// The stages gone through and how often, in path order.
    pub fn iter(&self) -> impl Iterator<Item = (Stage, u32)> + '_ {
        Stage::ALL.iter().map(|stage| (*stage, self.of(*stage))).filter(|(_, count)| *count > 0)
    }
}

impl FromIterator<Stage> for StageCounts {
    fn from_iter<I: IntoIterator<Item = Stage>>(stages: I) -> Self {
        let mut counts = Self::default();
        stages.into_iter().for_each(|stage| counts.add(stage));
        counts
    }
}

impl fmt::Debug for StageCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(stage, count)| (stage.name(), count))).finish()
    }
}

//! A vCPU: KVM_RUN, and its exits in the simulator's words.

use std::io;
use std::sync::Arc;

use kvm_bindings::{
    CpuId, KVM_EXIT_FAIL_ENTRY, KVM_EXIT_INTERNAL_ERROR, KVM_EXIT_IO, KVM_EXIT_MMIO, KVM_EXIT_SHUTDOWN, KVMIO, kvm_regs,
};
use kvm_ioctls::VcpuFd;
use std::os::fd::AsRawFd as _;
use vmm_sys_util::ioctl::ioctl;
use vmm_sys_util::ioctl_io_nr;

use crate::addr::Port;
use crate::device::UserSpace;
use crate::io::RingConsumer;
use crate::kvm_x86::{Target, UserExit};

use super::guest;
use super::run_pages::RunPages;
use super::{Deadline, HostError, MappedRing, Mapping, Place};

ioctl_io_nr!(KVM_RUN, KVMIO, 0x80);

/// Bytes of code that an error shows.
const SHOWN: usize = 8;

/// A vCPU. It runs on whichever thread holds it.
#[derive(Debug)]
pub struct Vcpu {
    fd: VcpuFd,
    run: RunPages,
    ram: Arc<Mapping>,
    ring_page: u32,
}

impl Vcpu {
    pub(super) fn new(
        fd: VcpuFd,
        run_size: usize,
        ram: Arc<Mapping>,
        ring_page: u32,
        cpuid: &CpuId,
        entry: u64,
    ) -> Result<Self, HostError> {
        fd.set_cpuid2(cpuid).map_err(|source| HostError::call("KVM_SET_CPUID2", source))?;
        let mut sregs = fd.get_sregs().map_err(|source| HostError::call("KVM_GET_SREGS", source))?;
        guest::long_mode(&mut sregs);
        fd.set_sregs(&sregs).map_err(|source| HostError::call("KVM_SET_SREGS", source))?;
        let pages = Mapping::shared(fd.as_raw_fd(), run_size);
        let pages = pages.map_err(|source| HostError::call("mmap of kvm_run", source))?;
        let vcpu = Self { fd, run: RunPages::new(pages)?, ram, ring_page };
        vcpu.enter_at(entry)?;
        Ok(vcpu)
    }

    /// Lets it start anew at an address, every register as at the first start.
    ///
    /// # Errors
    /// KVM refuses.
    pub fn enter_at(&self, at: u64) -> Result<(), HostError> {
        self.set_regs(&guest::entry(at))
    }

    /// The VM's coalesced ring. Map it once a VM: it has one consumer.
    ///
    /// # Errors
    /// The host has none.
    pub fn ring(&self) -> Result<MappedRing, HostError> {
        if self.ring_page == 0 {
            let enables = "lets writes wait in a ring instead of exiting";
            return Err(HostError::Capability { name: "KVM_CAP_COALESCED_MMIO", enables });
        }
        MappedRing::new(self.run.pages(), self.ring_page.into())
    }

    /// KVM_GET_REGS.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn regs(&self) -> Result<kvm_regs, HostError> {
        self.fd.get_regs().map_err(|source| HostError::call("KVM_GET_REGS", source))
    }

    /// KVM_SET_REGS.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_regs(&self, regs: &kvm_regs) -> Result<(), HostError> {
        self.fd.set_regs(regs).map_err(|source| HostError::call("KVM_SET_REGS", source))
    }

    /// Where it stands.
    #[must_use]
    pub fn place(&self) -> Place {
        let Ok(regs) = self.fd.get_regs() else { return Place::default() };
        let mut bytes = [0; SHOWN];
        let all_there = self.ram.read(regs.rip, &mut bytes).is_ok();
        Place { pc: Some(regs.rip), bytes: if all_there { bytes.to_vec() } else { Vec::new() } }
    }

    /// Runs the guest until it exits with something for a device ([`UserExit`], its `ring_full` unknown and so false).
    ///
    /// # Errors
    /// The time is up; or any other exit, by its name, with RIP and the bytes there.
    pub fn run(&mut self, deadline: &Deadline) -> Result<UserExit, HostError> {
        self.enter(deadline)?;
        match self.run.exit_reason() {
            KVM_EXIT_IO => self.run.port_exit(),
            KVM_EXIT_MMIO => self.run.mmio_exit(),
            reason => Err(self.ended(reason)),
        }
    }

    fn enter(&mut self, deadline: &Deadline) -> Result<(), HostError> {
        loop {
            // SAFETY: KVM_RUN takes no argument; what it writes are the guest's memory, which is never borrowed, and this
            // vCPU's pages, of which `&mut self` says that no data is borrowed.
            if unsafe { ioctl(&self.fd, KVM_RUN()) } >= 0 {
                return Ok(());
            }
            let source = io::Error::last_os_error();
            match source.raw_os_error() {
                // The deadline's signal, or some other.
                Some(libc::EINTR | libc::EAGAIN) => deadline.check(|| self.place())?,
                _ => return Err(HostError::Run { source, place: self.place() }),
            }
        }
    }

    fn ended(&self, reason: u32) -> HostError {
        let place = self.place();
        let (suberror, hardware) = self.run.failure();
        match reason {
            KVM_EXIT_SHUTDOWN => HostError::Shutdown { place },
            KVM_EXIT_INTERNAL_ERROR => HostError::InternalError { suberror, place },
            KVM_EXIT_FAIL_ENTRY => HostError::FailEntry { reason: hardware, place },
            reason => HostError::UnexpectedExit { reason, place },
        }
    }

    /// The data of the last exit: for a write what the guest wrote, for a read what the guest will get.
    pub fn exit_data(&mut self) -> &mut [u8] {
        self.run.exit_data()
    }

    /// Runs the guest to its end, an OUT to `port`, with `user` behind every other exit. Before an exit is handled, the end too,
    /// the ring is drained. Returns how many exits there were, the end not counted.
    ///
    /// # Errors
    /// As [`Self::run`]; or the ring holds what no kernel writes.
    pub fn run_until(
        &mut self,
        port: u16,
        user: &UserSpace,
        ring: Option<&dyn RingConsumer>,
        deadline: &Deadline,
    ) -> Result<u64, HostError> {
        let mut exits = 0;
        loop {
            let exit = self.run(deadline)?;
            if exit.target == Target::Port(Port(port)) {
                user.drain(ring)?;
                return Ok(exits);
            }
            user.handle(ring, &exit, self.exit_data())?;
            exits += 1;
            deadline.check(|| self.place())?;
        }
    }
}

//! A vCPU: KVM_RUN and its exits, registers.

use std::ffi::c_int;
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsRawFd as _, OwnedFd};

use crate::addr::GuestPhysAddr;
use crate::book3s::insn::Direction;
use crate::host::{HostError, Mapping, Place};
use crate::kvm_hv::H_FUNCTION;
use crate::workload::steps::{ExitSeen, answer_to_load};

use super::run_call::kvm_run;
use super::system::System;
use super::uapi::{self, kvm_run};
use super::{call, ioctl};

/// LPCR\[ILE\]: interrupts are taken in little-endian mode (Power ISA 2.07 Book III-S, 2.2).
const LPCR_ILE: u64 = 1 << 25;

/// Why KVM_RUN came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// KVM_EXIT_MMIO; a load is answered already.
    Mmio(ExitSeen),
    /// KVM_EXIT_PAPR_HCALL: its number.
    Hcall(u64),
    /// A signal came.
    Signal,
}

/// A vCPU with its shared page.
#[derive(Debug)]
pub(super) struct Vcpu {
    fd: OwnedFd,
    run: Mapping,
}

impl Vcpu {
    /// vCPU 0 of a VM, a PAPR guest whose interrupts are little-endian.
    pub fn new(system: &System, vm: &OwnedFd) -> Result<Self, HostError> {
        let fd = call::descriptor(vm, ioctl::KVM_CREATE_VCPU, 0).map_err(|e| HostError::call("KVM_CREATE_VCPU", e))?;
        let size = call::plain(&system.file, ioctl::KVM_GET_VCPU_MMAP_SIZE, 0);
        let size = size.map_err(|source| HostError::call("KVM_GET_VCPU_MMAP_SIZE", source))?;
        let run = Mapping::shared(fd.as_raw_fd(), size as usize);
        let vcpu = Self { run: run.map_err(|source| HostError::call("mmap of kvm_run", source))?, fd };
        let mut papr = uapi::kvm_enable_cap { cap: uapi::KVM_CAP_PPC_PAPR, flags: 0, args: [0; 4], pad: [0; 64] };
        // SAFETY: the number's structure, without addresses.
        let enabled = unsafe { call::with(&vcpu.fd, ioctl::KVM_ENABLE_CAP, &mut papr) };
        enabled.map_err(|source| HostError::call("KVM_ENABLE_CAP of KVM_CAP_PPC_PAPR", source))?;
        let lpcr = vcpu.lpcr()?;
        vcpu.one_reg(ioctl::KVM_SET_ONE_REG, lpcr | LPCR_ILE)?;
        if vcpu.lpcr()? & LPCR_ILE == 0 {
            return Err(HostError::Wrong(
                "the kernel did not take LPCR[ILE], which a little-endian guest needs".to_owned(),
            ));
        }
        Ok(vcpu)
    }

    fn lpcr(&self) -> Result<u64, HostError> {
        self.one_reg(ioctl::KVM_GET_ONE_REG, 0)
    }

    fn one_reg(&self, number: u64, mut value: u64) -> Result<u64, HostError> {
        let mut request = uapi::kvm_one_reg { id: uapi::KVM_REG_PPC_LPCR_64, addr: (&raw mut value) as u64 };
        // SAFETY: the number's structure; its address is that of a live variable of the eight bytes that the id says.
        let done = unsafe { call::with(&self.fd, number, &mut request) };
        done.map_err(|source| HostError::call("KVM_GET_ONE_REG or KVM_SET_ONE_REG of LPCR", source))?;
        Ok(value)
    }

    /// KVM_GET_REGS.
    pub fn regs(&self) -> Result<uapi::kvm_regs, HostError> {
        // SAFETY: integers alone; all zeroes are valid.
        let mut regs: uapi::kvm_regs = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: the number's structure, without addresses.
        unsafe { call::with(&self.fd, ioctl::KVM_GET_REGS, &mut regs) }
            .map_err(|e| HostError::call("KVM_GET_REGS", e))?;
        Ok(regs)
    }

    /// Goes on at an address with another MSR; other registers stay.
    pub fn go_to(&self, pc: u64, msr: u64) -> Result<(), HostError> {
        let mut regs = uapi::kvm_regs { pc, msr, ..self.regs()? };
        // SAFETY: as in `regs`.
        unsafe { call::with(&self.fd, ioctl::KVM_SET_REGS, &mut regs) }
            .map_err(|e| HostError::call("KVM_SET_REGS", e))?;
        Ok(())
    }

    /// Where it stands.
    pub fn place(&self) -> Place {
        Place { pc: self.regs().ok().map(|regs| regs.pc), bytes: Vec::new() }
    }

    fn u32_at(&self, offset: usize) -> Result<u32, HostError> {
        let mut bytes = [0; 4];
        self.run.read(offset as u64, &mut bytes)?;
        Ok(u32::from_ne_bytes(bytes))
    }

    fn u64_at(&self, offset: usize) -> Result<u64, HostError> {
        let mut bytes = [0; 8];
        self.run.read(offset as u64, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Runs the guest until it exits.
    pub fn run(&mut self) -> Result<Exit, HostError> {
        let fd: c_int = self.fd.as_raw_fd();
        // SAFETY: this vCPU's own descriptor; guest memory and `kvm_run` are only copied, never borrowed (`Mapping`).
        let returned = unsafe { kvm_run(fd) };
        if returned < 0 {
            let source = io::Error::from_raw_os_error(c_int::try_from(-returned).unwrap_or(libc::EIO));
            return match source.raw_os_error() {
                Some(libc::EINTR | libc::EAGAIN) => Ok(Exit::Signal),
                _ => Err(HostError::Run { source, place: self.place() }),
            };
        }
        match self.u32_at(offset_of!(kvm_run, exit_reason))? {
            uapi::KVM_EXIT_MMIO => self.mmio().map(Exit::Mmio),
            uapi::KVM_EXIT_PAPR_HCALL => self.hcall().map(Exit::Hcall),
            uapi::KVM_EXIT_FAIL_ENTRY => {
                let reason =
                    self.u64_at(offset_of!(kvm_run, __bindgen_anon_1.fail_entry.hardware_entry_failure_reason))?;
                Err(HostError::FailEntry { reason, place: self.place() })
            }
            uapi::KVM_EXIT_INTERNAL_ERROR => {
                let suberror = self.u32_at(offset_of!(kvm_run, __bindgen_anon_1.internal.suberror))?;
                Err(HostError::InternalError { suberror, place: self.place() })
            }
            reason => Err(HostError::UnexpectedExit { reason, place: self.place() }),
        }
    }

    fn mmio(&self) -> Result<ExitSeen, HostError> {
        let gpa = GuestPhysAddr(self.u64_at(offset_of!(kvm_run, __bindgen_anon_1.mmio.phys_addr))?);
        let raw = self.u32_at(offset_of!(kvm_run, __bindgen_anon_1.mmio.len))?;
        let Some(len) = u8::try_from(raw).ok().filter(|len| (1..=8).contains(len)) else {
            return Err(HostError::Nonsense { what: format!("an MMIO exit of {raw} bytes") });
        };
        let mut is_write = [0];
        self.run.read(offset_of!(kvm_run, __bindgen_anon_1.mmio.is_write) as u64, &mut is_write)?;
        let data_at = offset_of!(kvm_run, __bindgen_anon_1.mmio.data) as u64;
        let mut data = [0; 8];
        let used = &mut data[..usize::from(len)];
        let direction = if is_write == [0] {
            used.copy_from_slice(&answer_to_load(gpa)[..usize::from(len)]);
            self.run.write(data_at, used)?;
            Direction::Load
        } else {
            self.run.read(data_at, used)?;
            Direction::Store
        };
        Ok(ExitSeen { gpa, direction, len, data })
    }

    /// A hypercall that the kernel leaves to user space: answered with H_FUNCTION, its registers left alone.
    fn hcall(&self) -> Result<u64, HostError> {
        self.run.write(offset_of!(kvm_run, __bindgen_anon_1.papr_hcall.ret) as u64, &H_FUNCTION.to_ne_bytes())?;
        self.u64_at(offset_of!(kvm_run, __bindgen_anon_1.papr_hcall.nr))
    }
}

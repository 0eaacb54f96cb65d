//! /dev/kvm.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use crate::host::HostError;

use super::{call, ioctl, uapi};

/// The device.
const PATH: &str = "/dev/kvm";

/// This machine's KVM, opened.
#[derive(Debug)]
pub struct System {
    pub(super) file: File,
}

impl System {
    /// Opens /dev/kvm.
    ///
    /// # Errors
    /// It is missing, not permitted, or no KVM of API version 12.
    pub fn open() -> Result<Self, HostError> {
        Self::open_at(PATH)
    }

    /// Opens the device at another path.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_at(path: &str) -> Result<Self, HostError> {
        let file = File::options().read(true).write(true).open(path);
        let file = file.map_err(|source| HostError::not_opened(path, source))?;
        let version = call::plain(&file, ioctl::KVM_GET_API_VERSION, 0);
        let found = version.map_err(|source| HostError::Unusable { path: path.to_owned(), source })?;
        if found != uapi::KVM_API_VERSION {
            return Err(HostError::ApiVersion { found: found as i32 });
        }
        Ok(Self { file })
    }

    /// KVM_CHECK_EXTENSION by number, as in `linux/kvm.h`: 0 is absent.
    #[must_use]
    pub fn extension(&self, number: u32) -> u32 {
        call::plain(&self.file, ioctl::KVM_CHECK_EXTENSION, number.into()).unwrap_or(0)
    }

    /// KVM_CREATE_VM for Book3S HV, or PR.
    pub(super) fn create(&self, kind: u32) -> io::Result<OwnedFd> {
        call::descriptor(&self.file, ioctl::KVM_CREATE_VM, kind.into())
    }

    /// A Book3S HV VM that may have a hash guest.
    ///
    /// # Errors
    /// This KVM is PR alone, or has radix guests alone.
    pub(super) fn create_hash_vm(&self) -> Result<OwnedFd, HostError> {
        let vm = self.create(uapi::KVM_VM_PPC_HV).map_err(|source| match source.raw_os_error() {
            Some(libc::EINVAL) if self.create(uapi::KVM_VM_PPC_PR).is_ok() => HostError::Refused {
                what: "KVM_CREATE_VM for Book3S HV",
                source,
                cure: "this machine's KVM is PR alone: load kvm-hv on bare metal; PR guests have no MMIO HPTE cache",
            },
            Some(libc::EINVAL) => HostError::Refused {
                what: "KVM_CREATE_VM for Book3S HV",
                source,
                cure: "load kvm-hv (`modprobe kvm-hv`)",
            },
            _ => HostError::call("KVM_CREATE_VM", source),
        })?;
        let has = |capability: u32| call::plain(&vm, ioctl::KVM_CHECK_EXTENSION, capability.into()).unwrap_or(0) != 0;
        if has(uapi::KVM_CAP_PPC_MMU_RADIX) && !has(uapi::KVM_CAP_PPC_MMU_HASH_V3) {
            return Err(HostError::Capability {
                name: "KVM_CAP_PPC_MMU_HASH_V3",
                enables: "allows hash guests: this host has radix guests alone, and those have no HPT and no MMIO HPTE cache",
            });
        }
        Ok(vm)
    }
}

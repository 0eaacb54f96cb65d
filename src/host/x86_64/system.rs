//! /dev/kvm.

use std::ffi::CString;
use std::io;

use kvm_bindings::{CpuId, KVM_API_VERSION, KVM_MAX_CPUID_ENTRIES};
use kvm_ioctls::Kvm;

use super::HostError;

/// The device.
const PATH: &str = "/dev/kvm";

/// This machine's KVM, opened.
#[derive(Debug)]
pub struct System {
    pub(super) kvm: Kvm,
    /// What guests are told of the processor.
    pub(super) cpuid: CpuId,
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
        let opened = CString::new(path).map_err(io::Error::other).and_then(|name| Ok(Kvm::new_with_path(name)?));
        let kvm = opened.map_err(|source| HostError::not_opened(path, source))?;
        let found = kvm.get_api_version();
        if found == -1 {
            let source = io::Error::last_os_error();
            return Err(HostError::Unusable { path: path.to_owned(), source });
        }
        if u32::try_from(found) != Ok(KVM_API_VERSION) {
            return Err(HostError::ApiVersion { found });
        }
        let cpuid = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES);
        let cpuid = cpuid.map_err(|source| HostError::call("KVM_GET_SUPPORTED_CPUID", source))?;
        Ok(Self { kvm, cpuid })
    }

    /// KVM_CHECK_EXTENSION by number, as in `linux/kvm.h`: 0 is absent.
    #[must_use]
    pub fn extension(&self, number: u32) -> u32 {
        u32::try_from(self.kvm.check_extension_raw(number.into())).unwrap_or(0)
    }

    /// KVM_GET_API_VERSION.
    #[must_use]
    pub fn api_version(&self) -> i32 {
        self.kvm.get_api_version()
    }
}

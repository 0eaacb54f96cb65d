//! What can go wrong on the host side, in words that say where.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::io::RingError;

use super::OutOfRange;

/// What the architecture calls the address of the next instruction.
const PC: &str = if cfg!(target_arch = "x86_64") { "RIP" } else { "NIA" };

/// What would bring KVM to a machine without it.
const CURE: &str = if cfg!(target_arch = "x86_64") {
    "load kvm_intel or kvm_amd, or enable virtualization in firmware or in the VM around this one"
} else {
    "load kvm-hv (`modprobe kvm-hv`), which needs a bare-metal POWER8, POWER9 or POWER10"
};

/// Where a vCPU stood, and the code there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Address of the next instruction; none if the kernel would not tell.
    pub pc: Option<u64>,
    /// Up to 8 bytes there; none if it is outside the guest's memory.
    pub bytes: Vec<u8>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pc {
            Some(pc) => write!(f, "{PC} {pc:#x}, ")?,
            None => write!(f, "{PC} unknown, ")?,
        }
        if self.bytes.is_empty() {
            return f.write_str("no bytes of guest memory there");
        }
        f.write_str("bytes there")?;
        self.bytes.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
    }
}

/// An error of the host side.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// There is no /dev/kvm, or nothing behind it.
    #[error("{path} is not there ({source}): this machine has no KVM; {CURE}")]
    Missing {
        /// The device.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// It may not be opened.
    #[error("{path} may not be opened ({source}): be root, or join the group that owns it (often `kvm`)")]
    NotPermitted {
        /// The device.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// It cannot be opened for another reason, or is no KVM.
    #[error("{path} cannot be used: {source}")]
    Unusable {
        /// The device.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// KVM_GET_API_VERSION is not 12.
    #[error("KVM's API version is {found}, and 12 is the only one since Linux 2.6.22")]
    ApiVersion {
        /// What it is.
        found: i32,
    },
    /// A capability is absent.
    #[error("this host's KVM lacks {name}, which {enables}")]
    Capability {
        /// The capability.
        name: &'static str,
        /// What it enables.
        enables: &'static str,
    },
    /// A system call failed.
    #[error("{what} failed: {source}")]
    Call {
        /// Which.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A system call failed for a reason with a known cure.
    #[error("{what} failed: {source}: {cure}")]
    Refused {
        /// Which.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
        /// What to do.
        cure: &'static str,
    },
    /// The guest's memory or program does not fit.
    #[error("the guest's memory: {0}")]
    Memory(#[from] OutOfRange),
    /// The guest ran longer than it may.
    #[error("the guest ran for {limit:?} without an end, the limit: stopped at {place}")]
    TimeLimit {
        /// The limit.
        limit: Duration,
        /// Where it was.
        place: Place,
    },
    /// KVM_EXIT_SHUTDOWN.
    #[error("the guest took a triple fault (KVM_EXIT_SHUTDOWN) at {place}")]
    Shutdown {
        /// Where.
        place: Place,
    },
    /// KVM_EXIT_INTERNAL_ERROR.
    #[error("KVM could not go on (KVM_EXIT_INTERNAL_ERROR, suberror {suberror}{}) at {place}", emulation(*.suberror))]
    InternalError {
        /// KVM_INTERNAL_ERROR_*.
        suberror: u32,
        /// Where.
        place: Place,
    },
    /// KVM_EXIT_FAIL_ENTRY.
    #[error("the processor refused to enter the guest (KVM_EXIT_FAIL_ENTRY, hardware reason {reason:#x}) at {place}")]
    FailEntry {
        /// hardware_entry_failure_reason.
        reason: u64,
        /// Where.
        place: Place,
    },
    /// An exit for which there is no use here.
    #[error("exit reason {reason} is none that these guests have a use for, at {place}")]
    UnexpectedExit {
        /// `kvm_run.exit_reason`.
        reason: u32,
        /// Where.
        place: Place,
    },
    /// KVM_RUN itself failed.
    #[error("KVM_RUN failed: {source}, at {place}")]
    Run {
        /// What the kernel said.
        source: io::Error,
        /// Where.
        place: Place,
    },
    /// `kvm_run` says what no kernel writes.
    #[error("kvm_run makes no sense: {what}")]
    Nonsense {
        /// What.
        what: String,
    },
    /// The shared ring holds what no kernel writes.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A run's data are not what they must be.
    #[error("wrong data: {0}")]
    Wrong(String),
    /// What was asked for cannot be run on this host side.
    #[error("{0}")]
    Unsupported(String),
}

/// KVM_INTERNAL_ERROR_EMULATION has suberror 1.
const fn emulation(suberror: u32) -> &'static str {
    if suberror == 1 { ", an instruction that it cannot emulate" } else { "" }
}

impl HostError {
    /// KVM's device did not open.
    pub(in crate::host) fn not_opened(path: &str, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => Self::Missing { path, source },
            Some(libc::EACCES | libc::EPERM) => Self::NotPermitted { path, source },
            _ => Self::Unusable { path, source },
        }
    }

    /// A failed system call.
    pub(in crate::host) fn call(what: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Call { what, source: source.into() }
    }

    /// Whether it says that this machine, or this user, has no KVM to run on.
    #[must_use]
    pub const fn is_no_kvm(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::NotPermitted { .. } | Self::Unusable { .. })
    }
}

//! Eventfds of this process.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd, FromRawFd as _, RawFd};

use super::HostError;

/// An eventfd of this process.
#[derive(Debug)]
pub struct HostEventfd(File);

impl HostEventfd {
    /// A new one at 0.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new() -> Result<Self, HostError> {
        // SAFETY: no memory.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(HostError::call("eventfd", io::Error::last_os_error()));
        }
        // SAFETY: the call made it, and nobody else knows it.
        Ok(Self(unsafe { File::from_raw_fd(fd) }))
    }

    /// Takes the count, and leaves 0.
    ///
    /// # Errors
    /// What `read` says.
    pub fn take(&self) -> Result<u64, HostError> {
        let mut count = [0; 8];
        match (&self.0).read(&mut count) {
            // The kernel reads and writes eventfds by whole counts.
            Ok(_) => Ok(u64::from_ne_bytes(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(HostError::call("read of an eventfd", error)),
        }
    }
}

impl AsRawFd for HostEventfd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

//! The ioctls' home: every one is made here, with its structure's type tied to its number.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};

fn result(returned: c_int) -> io::Result<u32> {
    u32::try_from(returned).map_err(|_| io::Error::last_os_error())
}

/// An ioctl whose argument is a number.
pub(super) fn plain(fd: &impl AsRawFd, number: u64, argument: u64) -> io::Result<u32> {
    // SAFETY: by its direction (`ioctl::NONE`) such an ioctl touches no memory of this process.
    result(unsafe { libc::ioctl(fd.as_raw_fd(), number, argument) })
}

/// An ioctl that makes a descriptor.
pub(super) fn descriptor(fd: &impl AsRawFd, number: u64, argument: u64) -> io::Result<OwnedFd> {
    Ok(made(plain(fd, number, argument)?))
}

/// The descriptor that an ioctl has just made: what it returned.
pub(super) fn made(descriptor: u32) -> OwnedFd {
    // SAFETY: the caller has it from the kernel, and nobody else knows it. It came from an int that was not negative.
    unsafe { OwnedFd::from_raw_fd(descriptor as c_int) }
}

/// An ioctl that reads or writes a structure.
///
/// # Safety
/// `T` is the structure of `number` ([`super::ioctl`]), any bytes are valid in it, and addresses in it are what the ioctl's
/// documentation wants.
pub(super) unsafe fn with<T>(fd: &impl AsRawFd, number: u64, argument: &mut T) -> io::Result<u32> {
    // SAFETY: the caller's duties; the pointer is to a live, unshared structure.
    result(unsafe { libc::ioctl(fd.as_raw_fd(), number, std::ptr::from_mut(argument)) })
}

//! What the running system says of itself.

/// The running kernel's release; empty if procfs is not there.
#[must_use]
pub fn release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(|_| String::new(), |text| text.trim().to_owned())
}

/// Bytes of a page of this host.
///
/// # Errors
/// The system does not say.
#[cfg(any(test, target_arch = "powerpc64"))]
pub(in crate::host) fn page_size() -> std::io::Result<u64> {
    // SAFETY: no memory.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).map_err(|_| std::io::Error::last_os_error())
}

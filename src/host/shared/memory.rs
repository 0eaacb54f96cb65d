//! Memory that a guest or the kernel writes while this process looks at it.

use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Bytes outside a [`Mapping`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{len} bytes at offset {offset:#x} are outside a mapping of {size:#x} bytes")]
pub struct OutOfRange {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Bytes of the mapping.
    pub size: u64,
}

/// A mapping of this process, unmapped when dropped: a guest's memory, or pages that the kernel shares.
///
/// The other side may write at any time. So there is never a reference to its bytes, only copies by [`Self::read`] and
/// [`Self::write`], and atomics. What a copy shows of a write that happens meanwhile is any mix of old and new bytes.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and stays until the one owner drops it.
unsafe impl Send for Mapping {}
// SAFETY: through a shared reference there are copies by raw pointers and atomics only; both stand other threads' accesses
// (the copies as they stand the guest's, see above).
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed memory of its own, `len` bytes.
    ///
    /// # Errors
    /// The system has none.
    pub fn anonymous(len: usize) -> io::Result<Self> {
        Self::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1)
    }

    /// `len` bytes of a file from its start, shared.
    ///
    /// # Errors
    /// What `mmap` says.
    pub fn shared(file: RawFd, len: usize) -> io::Result<Self> {
        Self::map(len, libc::MAP_SHARED, file)
    }

    fn map(len: usize, flags: libc::c_int, file: RawFd) -> io::Result<Self> {
        // SAFETY: without MAP_FIXED the kernel chooses an unused place, so no memory of this process changes.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, file, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        match NonNull::new(start.cast()) {
            Some(start) => Ok(Self { start, len }),
            None => Err(io::Error::other("mmap gave address 0")),
        }
    }

    /// Keeps transparent huge pages away, so that one page can go alone.
    #[cfg(any(test, target_arch = "powerpc64"))]
    pub(in crate::host) fn keep_small_pages(&self) -> io::Result<()> {
        match self.advise(0, self.len, libc::MADV_NOHUGEPAGE) {
            // A kernel without them.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            done => done,
        }
    }

    /// Lets pages of an anonymous mapping go with what is in them: they come back as zeroes. Whole pages, all inside.
    #[cfg(any(test, target_arch = "powerpc64"))]
    pub(in crate::host) fn forget(&self, offset: u64, len: u64) -> io::Result<()> {
        self.advise(offset, crate::addr::index(len), libc::MADV_DONTNEED)
    }

    #[cfg(any(test, target_arch = "powerpc64"))]
    fn advise(&self, offset: u64, len: usize, advice: libc::c_int) -> io::Result<()> {
        let from = self.place(offset, len).map_err(io::Error::other)?;
        // SAFETY: `place` checked that the range is inside this mapping; that its bytes change is what a mapping's other side may
        // do at any time.
        match unsafe { libc::madvise(from.as_ptr().cast(), len, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes; mappings have some.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address that the kernel is told.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    fn place(&self, offset: u64, len: usize) -> Result<NonNull<u8>, OutOfRange> {
        let out = OutOfRange { offset, len: len as u64, size: self.len as u64 };
        let start = usize::try_from(offset).map_err(|_| out)?;
        if start.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(out);
        }
        // SAFETY: start <= self.len, so the place is inside the mapping or at its end.
        Ok(unsafe { self.start.add(start) })
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// They are not all inside.
    pub fn read(&self, offset: u64, data: &mut [u8]) -> Result<(), OutOfRange> {
        let from = self.place(offset, data.len())?;
        // SAFETY: `place` checked that all bytes are inside, the mapping lives as long as `self`, and `data`, a reference, is
        // none of its bytes.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), data.as_mut_ptr(), data.len()) };
        Ok(())
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// They would not all be inside; nothing was copied.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), OutOfRange> {
        let to = self.place(offset, data.len())?;
        // SAFETY: as in `read`; it is writable (PROT_WRITE).
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to.as_ptr(), data.len()) };
        Ok(())
    }

    /// A pointer to a `T`, valid while the mapping lives.
    ///
    /// # Errors
    /// Not all of it is inside, or it is not aligned.
    pub(in crate::host) fn pointer<T>(&self, offset: u64) -> Result<NonNull<T>, OutOfRange> {
        let place: NonNull<T> = self.place(offset, size_of::<T>())?.cast();
        if place.is_aligned() {
            Ok(place)
        } else {
            Err(OutOfRange { offset, len: size_of::<T>() as u64, size: self.len as u64 })
        }
    }

    /// Four bytes that both sides access at once.
    ///
    /// # Errors
    /// They are not inside, or not aligned.
    pub fn atomic_u32(&self, offset: u64) -> Result<&AtomicU32, OutOfRange> {
        // SAFETY: inside and aligned (`pointer`), alive as long as `self`, and every access of this process is atomic or, in
        // `read` and `write`, a copy whose result is taken for any mix.
        Ok(unsafe { self.pointer::<AtomicU32>(offset)?.as_ref() })
    }

    /// Eight bytes that both sides access at once.
    ///
    /// # Errors
    /// They are not inside, or not aligned.
    pub fn atomic_u64(&self, offset: u64) -> Result<&AtomicU64, OutOfRange> {
        // SAFETY: as in `atomic_u32`.
        Ok(unsafe { self.pointer::<AtomicU64>(offset)?.as_ref() })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mmap, and nothing borrows from it any more.
        let gone = unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert_eq!(gone, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_forgotten_comes_back_as_zeroes_and_its_neighbour_stays() {
        let map = Mapping::anonymous(2 << 16).unwrap();
        map.keep_small_pages().unwrap();
        map.write(0, &[1]).unwrap();
        map.write(1 << 16, &[2]).unwrap();
        map.forget(0, 1 << 16).unwrap();
        let (mut gone, mut kept) = ([9], [9]);
        map.read(0, &mut gone).unwrap();
        map.read(1 << 16, &mut kept).unwrap();
        assert_eq!((gone, kept), ([0], [2]));
    }

    #[test]
    fn nothing_outside_a_mapping_is_reached() {
        let map = Mapping::anonymous(4096).unwrap();
        map.write(4094, &[1, 2]).unwrap();
        let mut two = [0; 2];
        map.read(4094, &mut two).unwrap();
        assert_eq!(two, [1, 2]);
        let out = OutOfRange { offset: 4095, len: 2, size: 4096 };
        assert_eq!((map.write(4095, &[1, 2]), map.read(u64::MAX, &mut two).is_err()), (Err(out), true));
        assert!(map.forget(4096, 4096).is_err());
        assert!(map.atomic_u64(4092).is_err() && map.atomic_u64(4).is_err() && map.atomic_u32(4092).is_ok());
    }
}

//! The pages that the kernel shares for a vCPU: `struct kvm_run`, port I/O data, and the VM's coalesced ring.
//!
//! `kvm_run` is read directly: kvm-ioctls gives a REP INS or REP OUTS exit without its size and count.

use std::ptr::NonNull;
use std::sync::Arc;

use kvm_bindings::{KVM_EXIT_IO_OUT, kvm_run};

use crate::addr::{GuestPhysAddr, Port};
use crate::kvm_x86::{Direction, Target, UserExit};

use super::HostError;
use crate::host::Mapping;

/// Bytes of `kvm_run.mmio.data`.
const MMIO_DATA: usize = 8;

/// A vCPU's shared pages. The kernel writes them during KVM_RUN only, the ring apart.
#[derive(Debug)]
pub(super) struct RunPages {
    pages: Arc<Mapping>,
    run: NonNull<kvm_run>,
    /// Where the last exit's data is, and how many bytes.
    data: (NonNull<u8>, usize),
}

// SAFETY: the pointers go into the mapping, which is Send and lives as long as `pages`; they are used through `&mut self` or,
// for plain reads, `&self`, and the kernel writes what they point to during KVM_RUN only, which takes the vCPU by `&mut`.
unsafe impl Send for RunPages {}

impl RunPages {
    pub fn new(pages: Mapping) -> Result<Self, HostError> {
        let run = pages.pointer::<kvm_run>(0)?;
        Ok(Self { pages: Arc::new(pages), run, data: (run.cast(), 0) })
    }

    /// The pages, for the ring among them.
    pub const fn pages(&self) -> &Arc<Mapping> {
        &self.pages
    }

    pub fn exit_reason(&self) -> u32 {
        // SAFETY: `run` points into the living mapping, is aligned and whole inside (`Mapping::pointer`); any bytes are a
        // valid u32; the kernel does not write outside KVM_RUN.
        unsafe { (*self.run.as_ptr()).exit_reason }
    }

    /// `internal.suberror` and `fail_entry.hardware_entry_failure_reason`; each means something for its exit reason only.
    pub fn failure(&self) -> (u32, u64) {
        // SAFETY: as in `exit_reason`; every field of the union is plain integers, so any bytes are valid.
        unsafe {
            let exit = &raw const (*self.run.as_ptr()).__bindgen_anon_1;
            ((*exit).internal.suberror, (*exit).fail_entry.hardware_entry_failure_reason)
        }
    }

    /// KVM_EXIT_IO.
    pub fn port_exit(&mut self) -> Result<UserExit, HostError> {
        // SAFETY: as in `failure`.
        let io = unsafe { (*self.run.as_ptr()).__bindgen_anon_1.io };
        let bytes = usize::from(io.size).saturating_mul(io.count as usize);
        if !matches!(io.size, 1 | 2 | 4) || io.count == 0 {
            let what = format!("a port exit of {} elements of {} bytes", io.count, io.size);
            return Err(HostError::Nonsense { what });
        }
        self.find_data(io.data_offset, bytes)?;
        let direction = if u32::from(io.direction) == KVM_EXIT_IO_OUT { Direction::Write } else { Direction::Read };
        let target = Target::Port(Port(io.port));
        Ok(UserExit { target, direction, size: io.size, count: io.count, ring_full: false })
    }

    /// KVM_EXIT_MMIO.
    pub fn mmio_exit(&mut self) -> Result<UserExit, HostError> {
        // SAFETY: as in `failure`.
        let mmio = unsafe { (*self.run.as_ptr()).__bindgen_anon_1.mmio };
        let size = u8::try_from(mmio.len).ok().filter(|size| (1..=MMIO_DATA).contains(&usize::from(*size)));
        let Some(size) = size else {
            return Err(HostError::Nonsense { what: format!("an MMIO exit of {} bytes", mmio.len) });
        };
        // SAFETY: a field's address, computed inside the mapped structure; nothing is read.
        let data = unsafe { &raw const (*self.run.as_ptr()).__bindgen_anon_1.mmio.data };
        let offset = data as u64 - self.run.as_ptr() as u64;
        self.find_data(offset, usize::from(size))?;
        let direction = if mmio.is_write == 0 { Direction::Read } else { Direction::Write };
        let target = Target::Mmio(GuestPhysAddr(mmio.phys_addr));
        Ok(UserExit { target, direction, size, count: 1, ring_full: false })
    }

    fn find_data(&mut self, offset: u64, bytes: usize) -> Result<(), HostError> {
        // The last byte first: both ends must be inside.
        if let Some(last) = (bytes as u64).checked_sub(1) {
            self.pages.pointer::<u8>(offset.saturating_add(last))?;
        }
        self.data = (self.pages.pointer(offset)?, bytes);
        Ok(())
    }

    /// The data of the last exit.
    pub fn exit_data(&mut self) -> &mut [u8] {
        let (start, bytes) = self.data;
        // SAFETY: `find_data` checked both ends; the borrow of `self` keeps KVM_RUN away, outside of which the kernel writes
        // none of these bytes (the ring is on another page, and the kernel gives no data offset into it), and nothing else
        // in this process refers to them.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) }
    }
}

//! A VM: its table, memslots, ioeventfds.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::thread::sleep;
use std::time::Duration;

use crate::addr::{GuestPhysAddr, PteIndex, index, release_version};
use crate::book3s::Hpte;
use crate::host::shared::page_size;
use crate::host::{HostError, HostEventfd, Mapping, release};
use crate::kvm_hv::memslot::DirtyLog;
use crate::kvm_hv::number;
use crate::workload::steps::{Attach, HcallMode, RUNTIME_BYTES, RUNTIME_SLOT, VmmOp};

use super::system::System;
use super::{call, htab, ioctl, uapi};

/// Hypercalls that KVM leaves to user space unless they are enabled.
const ENABLED: [u64; 2] = [number::H_CLEAR_MOD, number::H_CLEAR_REF];
/// KVM_CAP_PPC_ENABLE_HCALL's second argument: handle it in the kernel.
const IN_KERNEL: u64 = 1;

#[derive(Debug)]
struct Slot {
    base: u64,
    memory: Mapping,
}

#[derive(Debug)]
struct Attached {
    gpa: u64,
    length: u32,
    datamatch: Option<u64>,
    eventfd: HostEventfd,
    /// What was taken from it so far.
    count: u64,
    gone: bool,
}

/// A VM with the runtime's memory. Dropped before the memory that its slots name.
#[derive(Debug)]
pub(super) struct Vm {
    pub fd: OwnedFd,
    /// The thread that made it.
    pub maker: i32,
    pub hcalls: HcallMode,
    slots: BTreeMap<u32, Slot>,
    attached: Vec<Attached>,
    page: u64,
}

impl Vm {
    pub fn new(system: &System, order: u32) -> Result<Self, HostError> {
        let fd = system.create_hash_vm()?;
        let page = page_size().map_err(|source| HostError::call("sysconf", source))?;
        // SAFETY: no memory.
        let maker = unsafe { libc::gettid() };
        let hash_v3 = call::plain(&fd, ioctl::KVM_CHECK_EXTENSION, uapi::KVM_CAP_PPC_MMU_HASH_V3.into()).unwrap_or(0);
        let hcalls = hcall_mode(hash_v3, &release());
        let mut vm = Self { fd, maker, hcalls, slots: BTreeMap::new(), attached: Vec::new(), page };
        for hcall in ENABLED {
            let args = [hcall, IN_KERNEL, 0, 0];
            let mut request =
                uapi::kvm_enable_cap { cap: uapi::KVM_CAP_PPC_ENABLE_HCALL, flags: 0, args, pad: [0; 64] };
            // SAFETY: the number's structure, without addresses.
            let enabled = unsafe { call::with(&vm.fd, ioctl::KVM_ENABLE_CAP, &mut request) };
            enabled.map_err(|source| HostError::call("KVM_ENABLE_CAP of KVM_CAP_PPC_ENABLE_HCALL", source))?;
        }
        vm.allocate(order).map_err(|source| match source.raw_os_error() {
            Some(libc::ENOMEM) => HostError::Refused {
                what: "KVM_PPC_ALLOCATE_HTAB",
                source,
                cure: "the host has no contiguous memory of that order: ask for a smaller one (at least 18), free memory, or \
                       boot with a larger kvm_cma_resv_ratio",
            },
            Some(libc::EINVAL) => {
                HostError::Refused { what: "KVM_PPC_ALLOCATE_HTAB", source, cure: "an HPT's order is 18 to 46" }
            }
            _ => HostError::call("KVM_PPC_ALLOCATE_HTAB", source),
        })?;
        let made = vm.set_slot(RUNTIME_SLOT, 0, RUNTIME_BYTES, DirtyLog::Off);
        made.map_err(|source| HostError::call("KVM_SET_USER_MEMORY_REGION of the runtime", source))?;
        Ok(vm)
    }

    /// The runtime's memory.
    pub fn runtime(&self) -> Result<&Mapping, HostError> {
        let slot = self.slots.get(&RUNTIME_SLOT).map(|slot| &slot.memory);
        slot.ok_or_else(|| HostError::Wrong("the runtime's memslot is gone".to_owned()))
    }

    /// Performs a step of the VMM: 0, or the kernel's errno.
    pub fn perform(&mut self, op: &VmmOp) -> Result<i32, HostError> {
        let done = match *op {
            VmmOp::SetMemslot { id: RUNTIME_SLOT, .. } | VmmOp::DeleteMemslot { id: RUNTIME_SLOT } => {
                return Err(HostError::Wrong(format!("memslot {RUNTIME_SLOT} is the runtime's: a stream has 1 to 31")));
            }
            VmmOp::SetMemslot { id, dirty_log: DirtyLog::On, .. } if self.hcalls == HcallMode::Real => {
                return Err(HostError::Unsupported(format!(
                    "the dirty log of memslot {id} is left off on this host: its kernel takes hypercalls in real mode (any \
                     before POWER9, and any before Linux 5.14), and the first H_REMOVE of a page that was stored to would \
                     stop the processor for good; leave the log off, or use a POWER9 or later"
                )));
            }
            VmmOp::SetMemslot { id, base, size, dirty_log } => self.set_slot(id, base.0, size, dirty_log),
            VmmOp::DeleteMemslot { id } => {
                // The kernel forgets it before the memory goes.
                self.region(id, 0, 0, 0, DirtyLog::Off).map(|()| drop(self.slots.remove(&id)))
            }
            VmmOp::PageOut { gpa } => self.page_out(gpa),
            VmmOp::PageIn { gpa } => self.touch(gpa),
            VmmOp::AllocateHtab { order } => self.allocate(order),
            VmmOp::ResizeHpt { order } => self.resize(order),
            VmmOp::WriteHtab { index, entry } => htab::write(&self.fd, index, entry),
            VmmOp::Ioeventfd { gpa, length, datamatch, attach } => self.ioeventfd(gpa, length, datamatch, attach)?,
        };
        match done {
            Ok(()) => Ok(0),
            Err(error) => error.raw_os_error().ok_or_else(|| HostError::call("a step of the VMM", error)),
        }
    }

    pub fn table(&self) -> Result<Vec<(PteIndex, Hpte)>, HostError> {
        htab::read(&self.fd)
    }

    /// Counts of the ioeventfds assigned so far.
    pub fn eventfds(&mut self) -> Result<Vec<u64>, HostError> {
        let take = |attached: &mut Attached| {
            attached.count += attached.eventfd.take()?;
            Ok(attached.count)
        };
        self.attached.iter_mut().map(take).collect()
    }

    fn region(&self, slot: u32, base: u64, size: u64, address: u64, dirty_log: DirtyLog) -> io::Result<()> {
        let flags = match dirty_log {
            DirtyLog::On => uapi::KVM_MEM_LOG_DIRTY_PAGES,
            DirtyLog::Off => 0,
        };
        let mut region = uapi::kvm_userspace_memory_region {
            slot,
            flags,
            guest_phys_addr: base,
            memory_size: size,
            userspace_addr: address,
        };
        // SAFETY: the number's structure; the address is that of a mapping with nothing else in it, which lives as long as the slot
        // does (`set_slot`), or of nothing for a slot that goes.
        unsafe { call::with(&self.fd, ioctl::KVM_SET_USER_MEMORY_REGION, &mut region) }.map(|_| ())
    }

    fn set_slot(&mut self, id: u32, base: u64, size: u64, dirty_log: DirtyLog) -> io::Result<()> {
        if let Some(slot) = self.slots.get(&id) {
            // Moved, or its log switched; another size the kernel refuses.
            self.region(id, base, size, slot.memory.address(), dirty_log)?;
        } else {
            let memory = Mapping::anonymous(index(size))?;
            memory.keep_small_pages()?;
            self.region(id, base, size, memory.address(), dirty_log)?;
            for page in (0..size).step_by(index(self.page)) {
                memory.write(page, &[0]).map_err(io::Error::other)?;
            }
            self.slots.insert(id, Slot { base, memory });
            return Ok(());
        }
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.base = base;
        }
        Ok(())
    }

    /// The slot's memory and the offset of `gpa` in it; ENOENT without.
    fn memory_at(&self, gpa: GuestPhysAddr) -> io::Result<(&Mapping, u64)> {
        let holds = |slot: &&Slot| gpa.0.checked_sub(slot.base).is_some_and(|offset| offset < slot.memory.len() as u64);
        let slot = self.slots.values().find(holds).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
        Ok((&slot.memory, gpa.0 - slot.base))
    }

    fn page_out(&self, gpa: GuestPhysAddr) -> io::Result<()> {
        let (memory, offset) = self.memory_at(gpa)?;
        memory.forget(offset & !(self.page - 1), self.page)
    }

    /// Reads a byte and writes it back: a page that a read alone brings in is the system's page of zeroes.
    fn touch(&self, gpa: GuestPhysAddr) -> io::Result<()> {
        let (memory, offset) = self.memory_at(gpa)?;
        let mut byte = [0];
        memory.read(offset, &mut byte).and_then(|()| memory.write(offset, &byte)).map_err(io::Error::other)
    }

    fn allocate(&self, order: u32) -> io::Result<()> {
        let mut order = order;
        let asked = order;
        // SAFETY: the number's structure, a word.
        unsafe { call::with(&self.fd, ioctl::KVM_PPC_ALLOCATE_HTAB, &mut order) }?;
        // The kernel may answer with a smaller table than it was asked for.
        if order == asked { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ENOMEM)) }
    }

    fn resize(&self, order: u32) -> io::Result<()> {
        let mut request = uapi::kvm_ppc_resize_hpt { flags: 0, shift: order, pad: 0 };
        loop {
            // SAFETY: the number's structure, without addresses.
            let wait_ms = unsafe { call::with(&self.fd, ioctl::KVM_PPC_RESIZE_HPT_PREPARE, &mut request) }?;
            if wait_ms == 0 {
                break;
            }
            sleep(Duration::from_millis(wait_ms.into()));
        }
        // SAFETY: as above.
        unsafe { call::with(&self.fd, ioctl::KVM_PPC_RESIZE_HPT_COMMIT, &mut request) }.map(|_| ())
    }

    fn ioeventfd(
        &mut self,
        gpa: GuestPhysAddr,
        length: u32,
        datamatch: Option<u64>,
        attach: Attach,
    ) -> Result<io::Result<()>, HostError> {
        let same = |a: &&mut Attached| !a.gone && (a.gpa, a.length, a.datamatch) == (gpa.0, length, datamatch);
        // One that was never assigned is asked for with a new eventfd, so that the kernel says what it says.
        let (new, known) = match attach {
            Attach::Assign => (Some(HostEventfd::new()?), None),
            Attach::Deassign => match self.attached.iter_mut().find(same) {
                Some(attached) => (None, Some(attached)),
                None => (Some(HostEventfd::new()?), None),
            },
        };
        let fd = new.as_ref().or(known.as_ref().map(|known| &known.eventfd)).map_or(-1, |eventfd| eventfd.as_raw_fd());
        let flags = u32::from(datamatch.is_some()) | if attach == Attach::Deassign { DEASSIGN } else { 0 };
        let datamatch_word = datamatch.unwrap_or(0);
        let mut request =
            uapi::kvm_ioeventfd { datamatch: datamatch_word, addr: gpa.0, len: length, fd, flags, pad: [0; 36] };
        // SAFETY: the number's structure, without addresses.
        if let Err(error) = unsafe { call::with(&self.fd, ioctl::KVM_IOEVENTFD, &mut request) } {
            return Ok(Err(error));
        }
        if let Some(known) = known {
            known.gone = true;
        } else if let (Attach::Assign, Some(eventfd)) = (attach, new) {
            self.attached.push(Attached { gpa: gpa.0, length, datamatch, eventfd, count: 0, gone: false });
        }
        Ok(Ok(()))
    }
}

/// KVM_IOEVENTFD_FLAG_DEASSIGN; datamatch is bit 0.
const DEASSIGN: u32 = 1 << 2;

/// By KVM_CAP_PPC_MMU_HASH_V3, which POWER9 and later have, and the kernel's release. Real mode where the release does not
/// say: that is the one with something to avoid.
fn hcall_mode(hash_v3: u32, release: &str) -> HcallMode {
    let moved = release_version(release).is_some_and(|version| version >= (5, 14));
    if hash_v3 != 0 && moved { HcallMode::Virtual } else { HcallMode::Real }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hypercalls_are_taken_in_virtual_mode_on_power9_from_linux_5_14_on_alone() {
        for (hash_v3, release, mode) in [
            (1, "6.1.0-50-powerpc64le", HcallMode::Virtual),
            (1, "5.14.0", HcallMode::Virtual),
            (1, "5.13.19", HcallMode::Real),
            (1, "", HcallMode::Real),
            (0, "6.1.0-50-powerpc64le", HcallMode::Real),
        ] {
            assert_eq!(hcall_mode(hash_v3, release), mode, "{hash_v3} {release}");
        }
    }
}

//! A VM: memory, read-only slots, ioeventfds and coalesced zones.

use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::{Arc, Mutex, PoisonError};

use kvm_bindings::{
    KVM_CAP_COALESCED_MMIO, KVM_CAP_READONLY_MEM, KVM_MEM_READONLY, KVMIO, kvm_coalesced_mmio_zone, kvm_ioeventfd,
    kvm_ioeventfd_flag_nr_datamatch, kvm_ioeventfd_flag_nr_deassign, kvm_ioeventfd_flag_nr_pio,
    kvm_userspace_memory_region,
};
use kvm_ioctls::VmFd;
use vmm_sys_util::ioctl::ioctl_with_ref;
use vmm_sys_util::ioctl_iow_nr;

use crate::io::{CoalescedZone, IoBus, Ioeventfd};

use super::guest::{self, RAM_BYTES};
use super::{HostError, HostEventfd, System, Vcpu};
use crate::host::Mapping;

ioctl_iow_nr!(KVM_REGISTER_COALESCED_MMIO, KVMIO, 0x67, kvm_coalesced_mmio_zone);
ioctl_iow_nr!(KVM_UNREGISTER_COALESCED_MMIO, KVMIO, 0x68, kvm_coalesced_mmio_zone);
ioctl_iow_nr!(KVM_IOEVENTFD, KVMIO, 0x79, kvm_ioeventfd);

/// Whether an ioeventfd comes or goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Assign,
    Deassign,
}

/// A VM with [`RAM_BYTES`] of memory. Its vCPUs hold it alive.
#[derive(Debug)]
pub struct Vm {
    fd: VmFd,
    ram: Arc<Mapping>,
    /// Memory behind further slots, by slot number less 1.
    slots: Mutex<Vec<Arc<Mapping>>>,
}

impl Vm {
    /// A VM whose memory has tables and descriptors, and no program yet.
    ///
    /// # Errors
    /// KVM or the system refuses.
    pub fn new(system: &System) -> Result<Self, HostError> {
        let fd = system.kvm.create_vm().map_err(|source| HostError::call("KVM_CREATE_VM", source))?;
        let ram =
            Mapping::anonymous(crate::addr::index(RAM_BYTES)).map_err(|source| HostError::call("mmap", source))?;
        guest::prepare(&ram)?;
        let vm = Self { fd, ram: Arc::new(ram), slots: Mutex::default() };
        vm.set_slot(0, 0, 0, &vm.ram)?;
        Ok(vm)
    }

    /// The guest's memory, from guest physical address 0.
    #[must_use]
    pub const fn ram(&self) -> &Arc<Mapping> {
        &self.ram
    }

    fn set_slot(&self, slot: u32, flags: u32, guest_phys_addr: u64, memory: &Mapping) -> Result<(), HostError> {
        let (memory_size, userspace_addr) = (memory.len() as u64, memory.address());
        let region = kvm_userspace_memory_region { slot, flags, guest_phys_addr, memory_size, userspace_addr };
        // SAFETY: the range is a mapping of this process with nothing else in it; this VM keeps it mapped until its own
        // descriptor is closed, and should a vCPU outlive that, KVM finds no memory there and says so.
        let set = unsafe { self.fd.set_user_memory_region(region) };
        set.map_err(|source| HostError::call("KVM_SET_USER_MEMORY_REGION", source))
    }

    /// Memory that the guest can read at `gpa` and not write (KVM_MEM_READONLY): a store exits.
    ///
    /// # Errors
    /// The host has no read-only slots, or the range is taken.
    pub fn add_read_only(&self, gpa: u64, memory: Arc<Mapping>) -> Result<(), HostError> {
        if self.extension(KVM_CAP_READONLY_MEM) == 0 {
            let enables = "lets guests read a device's registers as plain memory";
            return Err(HostError::Capability { name: "KVM_CAP_READONLY_MEM", enables });
        }
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = u32::try_from(slots.len() + 1).unwrap_or(u32::MAX);
        self.set_slot(slot, KVM_MEM_READONLY, gpa, &memory)?;
        slots.push(memory);
        Ok(())
    }

    /// KVM_CHECK_EXTENSION for this VM.
    #[must_use]
    pub fn extension(&self, number: u32) -> u32 {
        u32::try_from(self.fd.check_extension_raw(number.into())).unwrap_or(0)
    }

    /// A vCPU that will start at `entry`.
    ///
    /// # Errors
    /// KVM refuses.
    pub fn vcpu(&self, system: &System, id: u32, entry: u64) -> Result<Vcpu, HostError> {
        let fd = self.fd.create_vcpu(id.into()).map_err(|source| HostError::call("KVM_CREATE_VCPU", source))?;
        let ring_page = self.extension(KVM_CAP_COALESCED_MMIO);
        Vcpu::new(fd, self.fd.run_size(), Arc::clone(&self.ram), ring_page, &system.cpuid, entry)
    }

    /// Loads a program and returns the first address behind it.
    ///
    /// # Errors
    /// It does not fit.
    pub fn load(&self, at: u64, code: &[u8]) -> Result<u64, HostError> {
        Ok(guest::load(&self.ram, at, code)?)
    }

    /// KVM_IOEVENTFD: writes that match count `eventfd` up. What [`Ioeventfd::fd`] says does not matter here.
    ///
    /// # Errors
    /// The kernel's errno.
    pub fn assign(&self, ioeventfd: &Ioeventfd, eventfd: &HostEventfd) -> io::Result<()> {
        self.change(ioeventfd, eventfd, Change::Assign)
    }

    /// KVM_IOEVENTFD with the deassign flag.
    ///
    /// # Errors
    /// The kernel's errno.
    pub fn deassign(&self, ioeventfd: &Ioeventfd, eventfd: &HostEventfd) -> io::Result<()> {
        self.change(ioeventfd, eventfd, Change::Deassign)
    }

    fn change(&self, ioeventfd: &Ioeventfd, eventfd: &HostEventfd, change: Change) -> io::Result<()> {
        let mut flags = 0;
        let mut flag = |set: bool, number: u32| flags |= u32::from(set) << number;
        flag(ioeventfd.datamatch.is_some(), kvm_ioeventfd_flag_nr_datamatch);
        flag(ioeventfd.bus == IoBus::Pio, kvm_ioeventfd_flag_nr_pio);
        flag(change == Change::Deassign, kvm_ioeventfd_flag_nr_deassign);
        let request = kvm_ioeventfd {
            datamatch: ioeventfd.datamatch.unwrap_or(0),
            addr: ioeventfd.addr,
            len: ioeventfd.len,
            fd: eventfd.as_raw_fd(),
            flags,
            ..Default::default()
        };
        // SAFETY: the number's structure is the one given, a live variable which the kernel only reads.
        succeeded(unsafe { ioctl_with_ref(&self.fd, KVM_IOEVENTFD(), &request) })
    }

    /// KVM_REGISTER_COALESCED_MMIO.
    ///
    /// # Errors
    /// The kernel's errno.
    pub fn register_zone(&self, zone: CoalescedZone) -> io::Result<()> {
        // SAFETY: as in `change`.
        succeeded(unsafe { ioctl_with_ref(&self.fd, KVM_REGISTER_COALESCED_MMIO(), &raw_zone(zone)) })
    }

    /// KVM_UNREGISTER_COALESCED_MMIO.
    ///
    /// # Errors
    /// The kernel's errno.
    pub fn unregister_zone(&self, zone: CoalescedZone) -> io::Result<()> {
        // SAFETY: as in `change`.
        succeeded(unsafe { ioctl_with_ref(&self.fd, KVM_UNREGISTER_COALESCED_MMIO(), &raw_zone(zone)) })
    }
}

fn raw_zone(zone: CoalescedZone) -> kvm_coalesced_mmio_zone {
    let mut raw = kvm_coalesced_mmio_zone { addr: zone.addr, size: zone.size, ..Default::default() };
    raw.__bindgen_anon_1.pio = zone.pio;
    raw
}

fn succeeded(returned: libc::c_int) -> io::Result<()> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

//! What this machine's KVM is and can do for hash guests.

use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use serde::Serialize;

use crate::host::probe::{Ability, Capability};
use crate::host::shared::page_size;
use crate::host::{HostError, release};
use crate::workload::steps::{GuestOp, Step, StepExecutor as _};

use super::guest::{HashGuest, Tracing};
use super::system::System;
use super::{call, ioctl, uapi};

/// What the kernel says of processors and time base.
const CPUINFO: &str = "/proc/cpuinfo";
/// Order of the table that is tried.
const ORDER: u32 = 18;

const CAPABILITIES: &[(&str, u32, &str)] = &[
    ("KVM_CAP_PPC_PAPR", uapi::KVM_CAP_PPC_PAPR, "hypercalls for the guest: needed for everything"),
    ("KVM_CAP_PPC_ALLOC_HTAB", uapi::KVM_CAP_PPC_ALLOC_HTAB, "a hashed page table of a chosen order"),
    ("KVM_CAP_PPC_HTAB_FD", uapi::KVM_CAP_PPC_HTAB_FD, "reading the table back, and writing entries"),
    ("KVM_CAP_SPAPR_RESIZE_HPT", uapi::KVM_CAP_SPAPR_RESIZE_HPT, "resizing the table (hazard H0a)"),
    ("KVM_CAP_PPC_ENABLE_HCALL", uapi::KVM_CAP_PPC_ENABLE_HCALL, "H_CLEAR_REF and H_CLEAR_MOD in the kernel"),
    ("KVM_CAP_PPC_MMU_HASH_V3", uapi::KVM_CAP_PPC_MMU_HASH_V3, "hash guests on POWER9 and later"),
    ("KVM_CAP_PPC_MMU_RADIX", uapi::KVM_CAP_PPC_MMU_RADIX, "radix guests, which have no HPT and no MMIO HPTE cache"),
    ("KVM_CAP_IOEVENTFD", uapi::KVM_CAP_IOEVENTFD, "turns a write into an eventfd's count"),
    (
        "KVM_CAP_IOEVENTFD_ANY_LENGTH",
        uapi::KVM_CAP_IOEVENTFD_ANY_LENGTH,
        "ioeventfds of length 0, which take every width",
    ),
    (
        "KVM_CAP_COALESCED_MMIO",
        uapi::KVM_CAP_COALESCED_MMIO,
        "lets MMIO writes wait in a ring; only kernels with KVM PR have it",
    ),
    ("KVM_CAP_SYNC_MMU", uapi::KVM_CAP_SYNC_MMU, "pages that leave the process leave the guest"),
    ("KVM_CAP_NR_MEMSLOTS", uapi::KVM_CAP_NR_MEMSLOTS, "memslots of a VM"),
];

/// A base page size and the page sizes in its segments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentPages {
    /// log2 of the base page size.
    pub base_shift: u32,
    /// log2 of the actual page sizes.
    pub page_shifts: Vec<u32>,
}

/// What a POWER host's KVM is and does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PpcProbe {
    /// KVM_GET_API_VERSION.
    pub api_version: u32,
    /// The running kernel's release.
    pub kernel: String,
    /// The processor, by /proc/cpuinfo.
    pub processor: String,
    /// The host's own translation, by /proc/cpuinfo: Radix or Hash; a POWER8 says nothing, and has Hash.
    pub host_mmu: String,
    /// Bytes of a host page.
    pub page_size: u64,
    /// The kinds of VM that can be made: HV, PR.
    pub kinds: Vec<&'static str>,
    /// KVM's modules, as far as sysfs tells.
    pub modules: Vec<&'static str>,
    /// The capabilities that matter, of an HV VM if there are any.
    pub capabilities: Vec<Capability>,
    /// Page sizes of guests (KVM_PPC_GET_SMMU_INFO).
    pub pages: Vec<SegmentPages>,
    /// What registering a coalesced zone gives, and what follows.
    pub coalesced: String,
    /// Whether a hash guest ran; why not.
    pub hash_guest: Result<(), String>,
    /// Whether hits are told from misses; why not.
    pub tracing: Result<(), String>,
    /// What it can run.
    pub abilities: Vec<Ability>,
}

/// Looks at the host, and tries on it what no capability tells.
///
/// # Errors
/// What the system itself refuses; what KVM cannot do is in the answer.
pub fn probe(system: &System) -> Result<PpcProbe, HostError> {
    let kinds = [("HV", uapi::KVM_VM_PPC_HV), ("PR", uapi::KVM_VM_PPC_PR)];
    let vm = system.create(uapi::KVM_VM_PPC_HV).ok();
    let extension = |number: u32| match &vm {
        Some(vm) => call::plain(vm, ioctl::KVM_CHECK_EXTENSION, number.into()).unwrap_or(0),
        None => system.extension(number),
    };
    let ran = HashGuest::new(system, ORDER, Tracing::On).and_then(|mut guest| {
        guest.perform(&[Step::Guest(GuestOp::Mtamr { value: 0 })])?;
        Ok(guest)
    });
    let (hash_guest, tracing) = match ran {
        Ok(guest) => (Ok(()), guest.note().map_or(Ok(()), |note| Err(note.to_owned()))),
        Err(error) => (Err(error.to_string()), Err("no hash guest".to_owned())),
    };
    let has_guest = hash_guest.is_ok();
    let has_trace = tracing.is_ok();
    let cpuinfo = fs::read_to_string(CPUINFO).unwrap_or_default();
    let coalesced = coalesced(vm.as_ref(), extension(uapi::KVM_CAP_COALESCED_MMIO));
    Ok(PpcProbe {
        api_version: uapi::KVM_API_VERSION,
        kernel: release(),
        processor: field(&cpuinfo, "cpu").unwrap_or_default(),
        host_mmu: field(&cpuinfo, "MMU").unwrap_or_else(|| "Hash".to_owned()),
        page_size: page_size().map_err(|source| HostError::call("sysconf", source))?,
        kinds: kinds.into_iter().filter(|(_, kind)| system.create(*kind).is_ok()).map(|(name, _)| name).collect(),
        modules: ["kvm", "kvm_hv", "kvm_pr"]
            .into_iter()
            .filter(|name| Path::new("/sys/module").join(name).exists())
            .collect(),
        capabilities: CAPABILITIES
            .iter()
            .map(|(name, number, enables)| Capability { name, value: extension(*number), enables })
            .collect(),
        pages: vm.as_ref().map(pages).unwrap_or_default(),
        coalesced,
        hash_guest,
        tracing,
        abilities: abilities(has_guest, has_trace, extension),
    })
}

/// Frequency of the time base, Hz; none if the kernel does not say.
#[must_use]
pub fn timebase() -> Option<u64> {
    let cpuinfo = fs::read_to_string(CPUINFO).ok()?;
    field(&cpuinfo, "timebase")?.parse().ok().filter(|hz| *hz > 0)
}

fn field(cpuinfo: &str, name: &str) -> Option<String> {
    let value = |line: &str| {
        line.split_once(':').filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
    };
    cpuinfo.lines().find_map(value)
}

fn pages(vm: &OwnedFd) -> Vec<SegmentPages> {
    // SAFETY: integers alone; all zeroes are valid.
    let mut info: uapi::kvm_ppc_smmu_info = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the number's structure, without addresses.
    if unsafe { call::with(vm, ioctl::KVM_PPC_GET_SMMU_INFO, &mut info) }.is_err() {
        return Vec::new();
    }
    let used = info.sps.iter().filter(|segment| segment.page_shift != 0);
    used.map(|segment| {
        let shifts = segment.enc.iter().map(|page| page.page_shift).filter(|shift| *shift != 0);
        SegmentPages { base_shift: segment.page_shift, page_shifts: shifts.collect() }
    })
    .collect()
}

fn coalesced(vm: Option<&OwnedFd>, page: u32) -> String {
    let Some(vm) = vm else { return "not tried: no HV VM".to_owned() };
    let mut zone: uapi::kvm_coalesced_mmio_zone =
        // SAFETY: integers alone; all zeroes are valid.
        unsafe { MaybeUninit::zeroed().assume_init() };
    (zone.addr, zone.size) = (1 << 32, 4096);
    // SAFETY: the number's structure, without addresses.
    match unsafe { call::with(vm, ioctl::KVM_REGISTER_COALESCED_MMIO, &mut zone) } {
        Ok(_) => format!("a zone can be registered; the ring is page {page} of the vCPU"),
        Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => {
            "KVM_REGISTER_COALESCED_MMIO gives ENOTTY: a kernel without \
             CONFIG_KVM_MMIO; every store that no ioeventfd takes exits on its own"
                .to_owned()
        }
        Err(error) => format!("KVM_REGISTER_COALESCED_MMIO fails: {error}"),
    }
}

fn abilities(has_guest: bool, has_trace: bool, extension: impl Fn(u32) -> u32) -> Vec<Ability> {
    let guest = (has_guest, "a hash guest");
    let trace = (has_trace, "tracefs");
    let has = |number, name| (extension(number) != 0, name);
    let eventfd = has(uapi::KVM_CAP_IOEVENTFD, "KVM_CAP_IOEVENTFD");
    let any = has(uapi::KVM_CAP_IOEVENTFD_ANY_LENGTH, "KVM_CAP_IOEVENTFD_ANY_LENGTH");
    let coalesced = has(uapi::KVM_CAP_COALESCED_MMIO, "KVM_CAP_COALESCED_MMIO");
    let table = has(uapi::KVM_CAP_PPC_HTAB_FD, "KVM_CAP_PPC_HTAB_FD");
    let resize = has(uapi::KVM_CAP_SPAPR_RESIZE_HPT, "KVM_CAP_SPAPR_RESIZE_HPT");
    let ability = |what, needs: &[(bool, &'static str)]| Ability {
        what,
        missing: needs.iter().find(|(there, _)| !there).map(|(_, name)| *name),
    };
    vec![
        ability("accesses, hypercalls, memslots and paging of a hash guest", &[guest]),
        ability("hit or miss, access by access", &[guest, trace]),
        ability("doorbells to user space, by number of pages", &[guest]),
        ability("doorbells by ioeventfd of length 4 and 0", &[guest, eventfd, any]),
        ability("doorbells coalesced", &[guest, coalesced]),
        ability("the table read back, entry by entry", &[guest, table]),
        ability("a table that is resized", &[guest, resize]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpuinfo_line_is_found_by_its_whole_name() {
        let text = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n\nMMU\t\t: Radix\n";
        assert_eq!(field(text, "cpu").as_deref(), Some("POWER9, altivec supported"));
        assert_eq!(field(text, "MMU").as_deref(), Some("Radix"));
        assert_eq!(field(text, "cp"), None);
    }
}

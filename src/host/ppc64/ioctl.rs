//! Numbers of ioctls as powerpc forms them: 13 bits of size, and directions of its own (`asm/ioctl.h`).
//!
//! vmm-sys-util's macros use the generic layout on every architecture, which swaps read and write here.

use super::uapi;

/// Direction: no argument, or one that is no pointer.
const NONE: u32 = 1;
/// Direction: the kernel writes the argument.
const READ: u32 = 2;
/// Direction: the kernel reads it.
const WRITE: u32 = 4;

const fn number<T>(direction: u32, nr: u32) -> u64 {
    let size = size_of::<T>();
    assert!(size < 1 << 13, "the size has 13 bits");
    #[expect(clippy::cast_possible_truncation, reason = "below 1 << 13")]
    let size = size as u32;
    (direction << 29 | size << 16 | uapi::KVMIO << 8 | nr) as u64
}

macro_rules! numbers {
    ($($name:ident = $direction:expr, $nr:literal, $argument:ty;)*) => {
        $(pub(super) const $name: u64 = number::<$argument>($direction, $nr);)*
        /// All of them by name.
        #[cfg(test)]
        pub(super) const ALL: &[(&str, u64)] = &[$((stringify!($name), $name)),*];
    };
}

numbers! {
    KVM_GET_API_VERSION = NONE, 0x00, ();
    KVM_CREATE_VM = NONE, 0x01, ();
    KVM_CHECK_EXTENSION = NONE, 0x03, ();
    KVM_GET_VCPU_MMAP_SIZE = NONE, 0x04, ();
    KVM_CREATE_VCPU = NONE, 0x41, ();
    KVM_SET_USER_MEMORY_REGION = WRITE, 0x46, uapi::kvm_userspace_memory_region;
    KVM_REGISTER_COALESCED_MMIO = WRITE, 0x67, uapi::kvm_coalesced_mmio_zone;
    KVM_IOEVENTFD = WRITE, 0x79, uapi::kvm_ioeventfd;
    KVM_RUN = NONE, 0x80, ();
    KVM_GET_REGS = READ, 0x81, uapi::kvm_regs;
    KVM_SET_REGS = WRITE, 0x82, uapi::kvm_regs;
    KVM_ENABLE_CAP = WRITE, 0xa3, uapi::kvm_enable_cap;
    KVM_PPC_GET_SMMU_INFO = READ, 0xa6, uapi::kvm_ppc_smmu_info;
    KVM_PPC_ALLOCATE_HTAB = READ | WRITE, 0xa7, u32;
    KVM_PPC_GET_HTAB_FD = WRITE, 0xaa, uapi::kvm_get_htab_fd;
    KVM_GET_ONE_REG = WRITE, 0xab, uapi::kvm_one_reg;
    KVM_SET_ONE_REG = WRITE, 0xac, uapi::kvm_one_reg;
    KVM_PPC_RESIZE_HPT_PREPARE = READ, 0xad, uapi::kvm_ppc_resize_hpt;
    KVM_PPC_RESIZE_HPT_COMMIT = READ, 0xae, uapi::kvm_ppc_resize_hpt;
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::uapi::*;
    use super::*;

    /// What the C compiler says (`uapi.sh`).
    fn compiler(name: &str) -> u64 {
        let text = include_str!("uapi.c.txt");
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.unwrap_or_else(|| panic!("{name} is not in uapi.c.txt: run uapi.sh"))
    }

    #[test]
    fn every_ioctl_number_is_the_c_compilers() {
        for (name, number) in ALL {
            assert_eq!(*number, compiler(name), "{name}");
        }
        assert_eq!(KVM_REG_PPC_LPCR_64, compiler("KVM_REG_PPC_LPCR_64"));
    }

    #[cfg(target_arch = "powerpc64")]
    #[test]
    fn libc_forms_the_same_numbers() {
        assert_eq!(KVM_RUN, libc::_IO(KVMIO, 0x80));
        assert_eq!(KVM_IOEVENTFD, libc::_IOW::<kvm_ioeventfd>(KVMIO, 0x79));
        assert_eq!(KVM_GET_REGS, libc::_IOR::<kvm_regs>(KVMIO, 0x81));
        assert_eq!(KVM_PPC_ALLOCATE_HTAB, libc::_IOWR::<u32>(KVMIO, 0xa7));
    }

    macro_rules! size {
        ($($name:ident)*) => { $(assert_eq!(size_of::<$name>() as u64, compiler(concat!("sizeof ", stringify!($name))));)* };
    }

    macro_rules! offset {
        ($($name:ident: $($path:ident).+;)*) => { $(
            let text = concat!("offsetof ", stringify!($name), $(".", stringify!($path)),+).replace(".__bindgen_anon_1", "");
            assert_eq!(offset_of!($name, $($path).+) as u64, compiler(&text), "{text}");
        )* };
    }

    #[test]
    fn every_structure_lies_as_the_c_compiler_lays_it() {
        size!(kvm_run kvm_regs kvm_userspace_memory_region kvm_one_reg kvm_enable_cap kvm_ioeventfd kvm_coalesced_mmio_zone
            kvm_get_htab_fd kvm_get_htab_header kvm_ppc_resize_hpt kvm_ppc_smmu_info);
        offset! {
            kvm_run: exit_reason;
            kvm_run: __bindgen_anon_1.mmio.phys_addr;
            kvm_run: __bindgen_anon_1.mmio.data;
            kvm_run: __bindgen_anon_1.mmio.len;
            kvm_run: __bindgen_anon_1.mmio.is_write;
            kvm_run: __bindgen_anon_1.papr_hcall.nr;
            kvm_run: __bindgen_anon_1.papr_hcall.ret;
            kvm_run: __bindgen_anon_1.papr_hcall.args;
            kvm_run: __bindgen_anon_1.internal.suberror;
            kvm_run: __bindgen_anon_1.fail_entry.hardware_entry_failure_reason;
            kvm_regs: pc;
            kvm_regs: msr;
            kvm_regs: gpr;
            kvm_regs: sprg1;
            kvm_ioeventfd: datamatch;
            kvm_ioeventfd: addr;
            kvm_ioeventfd: len;
            kvm_ioeventfd: fd;
            kvm_ioeventfd: flags;
            kvm_get_htab_header: index;
            kvm_get_htab_header: n_valid;
            kvm_get_htab_header: n_invalid;
            kvm_ppc_smmu_info: sps;
        }
    }
}

#!/usr/bin/env bash
# Writes uapi.rs beside it: the part of the kernel's KVM interface that this room uses, as powerpc64le has it.
# Needs bindgen 0.72 (cargo install bindgen-cli --version '^0.72' --locked), libclang, and the headers of Debian's
# linux-libc-dev-ppc64el-cross (6.1.4).
# With an argument, writes uapi.c.txt too: what the C compiler (powerpc64le-linux-gnu-gcc) says of the same names.
set -euo pipefail
cd "$(dirname "$0")"
headers=${HEADERS:-/usr/powerpc64le-linux-gnu/include}

types='kvm_run|kvm_regs|kvm_userspace_memory_region|kvm_one_reg|kvm_enable_cap|kvm_ioeventfd|kvm_coalesced_mmio_zone'
types+='|kvm_get_htab_fd|kvm_get_htab_header|kvm_ppc_resize_hpt|kvm_ppc_mmuv3_cfg|kvm_ppc_smmu_info'
vars='KVMIO|KVM_API_VERSION|KVM_VM_PPC_(HV|PR)|KVM_EXIT_(MMIO|PAPR_HCALL|FAIL_ENTRY|INTERNAL_ERROR)|KVM_MEM_LOG_DIRTY_PAGES'
vars+='|KVM_GET_HTAB_(BOLTED_ONLY|WRITE)|KVM_REG_PPC_(LPCR_64|AMR)|KVM_PPC_NO_HASH|KVM_PPC_PAGE_SIZES_MAX_SZ'
vars+='|KVM_CAP_(COALESCED_MMIO|IOEVENTFD|IOEVENTFD_ANY_LENGTH|IMMEDIATE_EXIT|NR_MEMSLOTS|MAX_VCPUS|SYNC_MMU|ONE_REG)'
vars+='|KVM_CAP_(PPC_PAPR|PPC_ALLOC_HTAB|PPC_HTAB_FD|PPC_ENABLE_HCALL|PPC_MMU_RADIX|PPC_MMU_HASH_V3|PPC_GET_SMMU_INFO|SPAPR_RESIZE_HPT)'

echo '#include <linux/kvm.h>' > uapi.h
bindgen uapi.h --allowlist-type "$types" --allowlist-var "$vars" --no-layout-tests --no-doc-comments --merge-extern-blocks \
    --use-core --clang-macro-fallback --no-prepend-enum-name --rust-target 1.85 --rust-edition 2024 \
    --disable-header-comment --no-derive-debug --opaque-type 'kvm_(hyperv|xen)_exit' \
    --raw-line "// Written by uapi.sh from linux/kvm.h; do not edit." \
    -- --target=powerpc64le-linux-gnu -isystem "$headers" > uapi.rs
rm -f uapi.h .macro_eval.c

[ $# -gt 0 ] || exit 0
{
    echo '#include <stddef.h>'
    echo '#include <linux/kvm.h>'
    echo '#define VALUE(name, value) asm volatile("\n->" name " %0" : : "i"(value))'
    echo 'void values(void) {'
    for name in KVM_GET_API_VERSION KVM_CREATE_VM KVM_CHECK_EXTENSION KVM_GET_VCPU_MMAP_SIZE KVM_CREATE_VCPU \
        KVM_SET_USER_MEMORY_REGION KVM_REGISTER_COALESCED_MMIO KVM_UNREGISTER_COALESCED_MMIO KVM_IOEVENTFD KVM_RUN KVM_GET_REGS \
        KVM_SET_REGS KVM_ENABLE_CAP KVM_GET_ONE_REG KVM_SET_ONE_REG KVM_PPC_ALLOCATE_HTAB KVM_PPC_GET_HTAB_FD \
        KVM_PPC_RESIZE_HPT_PREPARE KVM_PPC_RESIZE_HPT_COMMIT KVM_PPC_CONFIGURE_V3_MMU KVM_PPC_GET_SMMU_INFO \
        KVM_REG_PPC_LPCR_64 KVM_REG_PPC_AMR; do
        echo "VALUE(\"$name\", $name);"
    done
    for name in kvm_run kvm_regs kvm_userspace_memory_region kvm_one_reg kvm_enable_cap kvm_ioeventfd kvm_coalesced_mmio_zone \
        kvm_get_htab_fd kvm_get_htab_header kvm_ppc_resize_hpt kvm_ppc_mmuv3_cfg kvm_ppc_smmu_info; do
        echo "VALUE(\"sizeof $name\", sizeof(struct $name));"
    done
    for field in kvm_run.immediate_exit kvm_run.exit_reason kvm_run.mmio.phys_addr kvm_run.mmio.data kvm_run.mmio.len \
        kvm_run.mmio.is_write kvm_run.papr_hcall.nr kvm_run.papr_hcall.ret kvm_run.papr_hcall.args kvm_run.internal.suberror \
        kvm_run.fail_entry.hardware_entry_failure_reason kvm_regs.pc kvm_regs.msr kvm_regs.gpr kvm_regs.sprg1 \
        kvm_ioeventfd.datamatch kvm_ioeventfd.addr kvm_ioeventfd.len kvm_ioeventfd.fd kvm_ioeventfd.flags \
        kvm_get_htab_header.index kvm_get_htab_header.n_valid kvm_get_htab_header.n_invalid kvm_ppc_smmu_info.sps; do
        echo "VALUE(\"offsetof $field\", offsetof(struct ${field%%.*}, ${field#*.}));"
    done
    echo '}'
} > uapi.c
{
    echo "# Written by uapi.sh: powerpc64le-linux-gnu-gcc's values."
    powerpc64le-linux-gnu-gcc -O0 -S -isystem "$headers" -o - uapi.c | sed -n 's/^->//p'
} > uapi.c.txt
rm uapi.c

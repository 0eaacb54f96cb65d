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

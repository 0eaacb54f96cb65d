//! The KVM_RUN system call, with the caller's registers safe.
//!
//! The kernel has been seen to come back from KVM_RUN with other values in the non-volatile floating-point and vector registers
//! than it was called with (41 of 21,985 calls; POWER9, Linux 6.1; on POWER8, POWER10 and 6.12 too), and compiled code keeps
//! values there across calls. Inline assembly that would name them as clobbered is not stable for POWER in Rust 1.85; so
//! the call is made by words of the crate's own encoders, which save f14 to f31 and v20 to v31 on the stack and restore them. Of
//! vs0 to vs31 only the halves that f14 to f31 are belong to the caller (ELFv2 ABI, 2.2.1). General registers, CR and LR come
//! back as the system call convention says; nothing else was seen.

use std::ffi::c_int;

use crate::book3s::insn::asm::{BLR, addi, bns, lfd, li, lis, lvx, neg, ori, sc, stdu, stfd, stvx};

use super::ioctl::KVM_RUN;

const F_FIRST: u8 = 14;
const V_FIRST: u8 = 20;
/// Where f14 is kept: behind the frame's header (ELFv2 ABI, 2.2.2) and what it wants aligned.
const F_AT: i16 = 32;
/// Where v20 is kept: behind 18 doubles, at a multiple of 16.
const V_AT: i16 = F_AT + 18 * 8;
/// Bytes of the frame, a multiple of 16: header, 18 doubles, 12 quadwords.
const FRAME: i16 = V_AT + 12 * 16;
const _: () = assert!(V_AT % 16 == 0 && FRAME % 16 == 0);

/// `ioctl`'s system call number on powerpc.
const NR_IOCTL: i16 = 54;
#[expect(clippy::cast_possible_truncation, reason = "the upper half of 32 bits")]
const KVM_RUN_HIGH: i16 = (KVM_RUN >> 16) as i16;
const KVM_RUN_LOW: u16 = (KVM_RUN & 0xffff) as u16;
/// Words: frame, 18 saves, 12 of two words, 5 of the call, as many restores, 4 to return.
const WORDS: usize = 1 + 2 * (18 + 12 * 2) + 5 + 4;

const CODE: [u32; WORDS] = {
    let mut code = [0; WORDS];
    let mut at = 0;
    macro_rules! put {
        ($word:expr) => {{
            code[at] = $word;
            at += 1;
        }};
    }
    put!(stdu(1, -FRAME, 1));
    let mut restore = 0;
    while restore < 2 {
        let mut f = F_FIRST;
        while f < 32 {
            let place = F_AT + (f - F_FIRST) as i16 * 8;
            put!(if restore == 1 { lfd(f, place, 1) } else { stfd(f, place, 1) });
            f += 1;
        }
        let mut v = V_FIRST;
        while v < 32 {
            put!(li(12, V_AT + (v - V_FIRST) as i16 * 16));
            put!(if restore == 1 { lvx(v, 1, 12) } else { stvx(v, 1, 12) });
            v += 1;
        }
        if restore == 0 {
            put!(li(0, NR_IOCTL));
            // r3 has the descriptor; r4 the number, r5 the argument.
            put!(lis(4, KVM_RUN_HIGH));
            put!(ori(4, 4, KVM_RUN_LOW));
            put!(li(5, 0));
            put!(sc(0));
        }
        restore += 1;
    }
    // A failure has CR0.SO set and the errno in r3; the restoring loads change neither.
    put!(bns(8));
    put!(neg(3, 3));
    put!(addi(1, 1, FRAME));
    put!(BLR);
    assert!(at == WORDS);
    code
};

/// The words among this program's own code. They use no address of their own.
// Used: without, an optimised build has been seen to drop them and keep the reference.
#[used]
#[cfg_attr(target_arch = "powerpc64", unsafe(link_section = ".text.hvmmio_kvm_run"))]
static RUN: [u32; WORDS] = CODE;

/// KVM_RUN: 0 or more, or the negative errno.
///
/// # Safety
/// `vcpu` is a KVM vCPU's descriptor, and nothing borrows what its guest or the kernel writes meanwhile: the guest's memory and the
/// vCPU's pages.
pub(super) unsafe fn kvm_run(vcpu: c_int) -> i64 {
    // SAFETY: on ELFv2 a function's pointer is its code's address. The words keep to the ABI: they use r0, r3 to r5, r12, CR0 and
    // what a system call may change, and give every non-volatile register back as it was.
    unsafe {
        let run: unsafe extern "C" fn(c_int) -> i64 = std::mem::transmute(RUN.as_ptr());
        run(vcpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_register_that_is_saved_is_restored_from_its_place() {
        let place = |word: u32| (word >> 21 & 31, word & 0xffff);
        let saved: Vec<_> = CODE.iter().filter(|word| **word >> 26 == 54).map(|word| place(*word)).collect();
        let restored: Vec<_> = CODE.iter().filter(|word| **word >> 26 == 50).map(|word| place(*word)).collect();
        assert_eq!(saved, restored);
        assert_eq!(saved.iter().map(|(f, _)| *f).collect::<Vec<_>>(), (14..32).collect::<Vec<_>>());
        let vectors = |op: u32| {
            let pair =
                |two: &[u32]| (two[1] & 0xfc00_07fe == 31 << 26 | op << 1).then(|| (place(two[1]).0, place(two[0]).1));
            CODE.windows(2).filter_map(pair).collect::<Vec<_>>()
        };
        assert_eq!(vectors(231), vectors(103));
        assert_eq!(vectors(231).iter().map(|(v, _)| *v).collect::<Vec<_>>(), (20..32).collect::<Vec<_>>());
    }

    #[cfg(target_arch = "powerpc64")]
    #[test]
    fn the_call_is_made_and_its_failure_comes_back() {
        // SAFETY: no descriptor is no vCPU's: the kernel says so and does nothing.
        assert_eq!(unsafe { kvm_run(-1) }, -i64::from(libc::EBADF));
    }
}

//! Real KVM: the machine's own /dev/kvm, driven with the same accesses that the simulator performs.
//!
//! The only room with `unsafe`. On x86_64 Linux it is `host::x86_64`, on little-endian 64-bit POWER Linux `host::ppc64`; on other
//! targets the crate is the simulator alone, and whatever needs a host says so when it is asked for ([`NO_HOST_SIDE`]).

// Tests of what needs no POWER kernel run anywhere.
#[cfg(all(
    target_os = "linux",
    any(all(test, target_arch = "x86_64"), all(target_arch = "powerpc64", target_endian = "little"))
))]
pub mod ppc64;
pub mod probe;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", all(target_arch = "powerpc64", target_endian = "little"))))]
mod shared;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod x86_64;

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", all(target_arch = "powerpc64", target_endian = "little"))
))]
pub use shared::{Deadline, HostError, HostEventfd, Mapping, OutOfRange, Place, release};

/// What a build without a host side answers to `hvmmio host` and `hvmmio compare`.
pub const NO_HOST_SIDE: &str = "this build of hvmmio has no host side: real KVM is driven on x86_64 and little-endian POWER \
                                Linux only; the simulator (`hvmmio run`) is all there";

/// Whether this build can drive a real KVM.
pub const HAS_HOST_SIDE: bool = cfg!(all(
    target_os = "linux",
    any(target_arch = "x86_64", all(target_arch = "powerpc64", target_endian = "little"))
));

//! hvmmio simulates the PowerPC Book3S HV MMIO fast path.
//!
//! A guest that stores to an emulated device sends KVM on POWER down a long road: hashed page table
//! (HPT) search, HPTE locks, memslot search, instruction emulation, I/O bus. Since 2016 Linux keeps a
//! per-vCPU cache of MMIO HPTEs that shortens it. This crate emulates that road functionally, doubleword
//! by doubleword, and prices it with a machine model, so that one can ask what the cache does for *a
//! workload*: hit rates, why an access missed, what another size or policy would bring.
//!
//! # Rooms
//!
//! | module | holds |
//! |---|---|
//! | [`addr`] | address newtypes and [`addr::KernelBehaviour`], the named switches |
//! | [`book3s`] | what the Power ISA says: segments, HPTEs, hash, protection, loads and stores |
//! | [`io`] | buses, ioeventfd, coalesced zones and ring |
//! | [`kvm_hv`] | what Linux KVM HV does: table, memslots, hypercalls, fault handlers, the cache |
//! | [`device`] | virtio notification and queues, null block, network echo |
//! | [`machine`] | stage costs, each with its source |
//! | [`workload`] | fio jobs, netperf tests, access sequences |
//! | [`sim`] | the event engine in virtual time |
//! | [`proof`] | reproduce published figures, calibrate |
//! | [`report`] | tables, JSON, CSV |
//! | [`cli`] | one file per verb |
//!
//! A room uses the rooms above it in this table, never those below.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("hvmmio needs a 64-bit target: guest addresses and HPT indices are 64 bits wide");

pub mod addr;
pub mod book3s;
pub mod cli;
pub mod device;
pub mod io;
pub mod kvm_hv;
pub mod machine;
pub mod proof;
pub mod report;
pub mod sim;
pub mod workload;

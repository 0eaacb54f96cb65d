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
//! | [`io`] | buses, ioeventfd, coalesced zones and ring, PCI configuration space |
//! | [`kvm_hv`] | what Linux KVM HV does: table, memslots, hypercalls, fault handlers, the cache |
//! | [`kvm_x86`] | what KVM on x86 does with a port or MMIO access, up to its exit to user space |
//! | [`device`] | virtio notification and queues, null block, network echo, RTC, PCI host, the user space that owns devices |
//! | [`machine`] | stage costs, each with its source |
//! | [`trace`] | readers and writers of recordings: ftrace and perf text, own binary form, oracleGeneral, csv |
//! | [`workload`] | fio jobs, netperf tests, access sequences; port I/O, RTC tick, PCI scan |
//! | [`sim`] | the event engine in virtual time, and the x86 executor |
//! | [`cachelab`] | the cache alone: replay, sweeps over sizes and policies, the optimum, advice |
//! | [`host`] | real KVM; the only room with `unsafe` |
//! | [`proof`] | reproduce published figures, calibrate, compare with a host |
//! | [`report`] | tables, JSON, CSV |
//! | [`cli`] | one file per verb |
//!
//! A room uses the rooms above it in this table, never those below.
//!
//! # Two stores
//!
//! A guest enters a device page and stores to it twice. The first store takes the slow form and fills the
//! cache, the second hits; nobody listens at that address, so both exit to user space.
//!
//! ```
//! use hvmmio::addr::{EffectiveAddr, GuestPhysAddr};
//! use hvmmio::book3s::insn::{Direction, Size};
//! use hvmmio::kvm_hv::{CacheUse, MissClass, Outcome, Vcpu, VcpuConfig, Vm, VmConfig};
//! use hvmmio::workload::guest::{Guest, PageUse, Touch};
//!
//! let vm = Vm::new(VmConfig::default())?;
//! let mut vcpu = Vcpu::new(&vm, VcpuConfig::default());
//! let guest = Guest::default();
//! let doorbell = EffectiveAddr(0xd000_0800_8000_0010);
//! vcpu.slb.slbmte(guest.slb_entry(0, doorbell))?;
//! guest.map(&vm, doorbell, GuestPhysAddr(0x2000_0000_0010), PageUse::DEVICE)?;
//!
//! let store = Touch::new(Direction::Store, Size::Halfword)?;
//! let first = store.perform(&vm, &mut vcpu, doorbell, 1);
//! let second = store.perform(&vm, &mut vcpu, doorbell, 1);
//! assert_eq!(first.cache, CacheUse::Miss(Some(MissClass::Cold)));
//! assert_eq!(second.cache, CacheUse::Hit);
//! assert!(matches!(second.outcome, Outcome::Exit(exit) if exit.len == 2));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A scenario
//!
//! ```
//! use hvmmio::sim::{self, Scenario};
//!
//! let text = r#"
//!     name = "five-devices"
//!     description = "one more modern device than the kernel's cache has entries"
//!     machine = "power8-2016"
//!     guest = { devices = 5, layout = "modern" }
//!     doorbells = { count = 1000 }
//! "#;
//! let scenario = Scenario::parse("five-devices.toml", text, None)?;
//! let run = sim::run(&scenario, &mut |_share_done| {})?;
//! assert_eq!((run.mmio_accesses, run.hits), (1000, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(not(target_pointer_width = "64"))]
compile_error!("hvmmio needs a 64-bit target: guest addresses and HPT indices are 64 bits wide");

pub mod addr;
pub mod book3s;
pub mod cachelab;
pub mod cli;
pub mod device;
pub mod host;
pub mod io;
pub mod kvm_hv;
pub mod kvm_x86;
pub mod machine;
pub mod proof;
pub mod report;
pub mod sim;
pub mod trace;
pub mod workload;

//! What KVM on x86 does with an access to a port or to an address without memory, up to its exit to user space.
//!
//! ```text
//! IN, OUT        -> VM exit -> device in the kernel? -> PIO bus (ioeventfd, coalesced zone) -> KVM_EXIT_IO
//! REP INS, OUTS  -> VM exit -> emulator, element by element -> as above
//! load           -> read-only memslot: plain memory
//! store          -> read-only memslot: VM exit -> page fault -> emulator, and on as below
//! load, store    -> VM exit -> fast MMIO bus -> emulator -> MMIO bus -> KVM_EXIT_MMIO
//! ```
//!
//! A [`Vcpu`] works on the buses of a [`crate::io::IoSpace`] that it shares with others. An instruction is [`Pending`] until
//! [`Vcpu::run`] says that it is done: between two runs user space handles the exit. The room reports the [`Stage`]s of each run
//! and knows no time. What it models is Intel's VMX unless
//! [`FastMmio`] says that nothing asks the fast MMIO bus before decoding.
//!
//! ```
//! use hvmmio::addr::{KernelBehaviour, Port};
//! use hvmmio::io::{HostPage, IoSpace};
//! use hvmmio::kvm_x86::{End, Instruction, Pending, PortWidth, Vcpu};
//!
//! let io = IoSpace::new(HostPage::Kib4, KernelBehaviour::default());
//! let mut vcpu = Vcpu::new(&io, Default::default());
//! let mut insn = Pending::new(Instruction::In { port: Port(0x71), width: PortWidth::Byte });
//! let End::Exit(exit) = vcpu.run(&mut insn).end else { panic!("nothing in the kernel answers at 0x71") };
//! assert_eq!((exit.size, exit.count), (1, 1));
//! vcpu.exit_data()[0] = 0xc0; // What user space's device answers.
//! assert_eq!(vcpu.run(&mut insn).end, End::Done);
//! assert_eq!(insn.value(), 0xc0);
//! ```

mod access;
mod exit;
mod mmio;
mod platform;
mod stage;
mod string;
mod vcpu;

pub use access::{Instruction, PortWidth, StringStep, Width};
pub use exit::{Direction, End, Handled, Target, UserExit};
pub use platform::{FastMmio, Platform, ReadOnlyMemory};
pub use stage::{Stage, StageCounts};
pub use vcpu::{Pending, Run, Vcpu};

//! Text of the kernel's tracepoints, as ftrace, `trace-cmd report` and `perf script` print it.
//!
//! [`parse`] takes one line apart without copying anything of it: a live reader of `trace_pipe` and the reader of
//! recordings, [`Reader`], both stand on it. What is told of each event is what its `TP_printk` prints
//! (`arch/powerpc/kvm/trace_hv.h`, `include/trace/events/kvm.h`, `arch/x86/kvm/trace.h`).

mod event;
mod line;
mod pages;
mod reader;
mod scan;
mod step;
mod text;
mod vcpus;

pub use event::{Event, Hcall, IoDirection, MmioKind};
pub use line::{EventLine, Line, LineError, Lost, parse};
pub use reader::Reader;

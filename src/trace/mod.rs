//! Recordings of MMIO accesses: what reads them, what writes them.

pub mod ftrace;

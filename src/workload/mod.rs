//! Workloads: fio jobs, netperf tests, access sequences; and the guest that performs them.

pub mod guest;
pub mod sequence;

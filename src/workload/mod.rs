//! Workloads: fio jobs, netperf tests, access sequences; and the guest that performs them.

pub mod fio;
pub mod guest;
pub mod netperf;
pub mod sequence;

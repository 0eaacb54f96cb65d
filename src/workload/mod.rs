//! Workloads: where the guest's accesses come from.

pub mod fio;

//! Workloads: fio jobs, netperf tests, PCI scans, access sequences; and the guest that performs them.

pub mod fio;
pub mod guest;
pub mod netperf;
pub mod pci_scan;
pub mod sequence;

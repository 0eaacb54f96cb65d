//! Workloads: fio jobs, netperf tests, PCI configuration and scans, access sequences and the guest that performs them; port I/O, the RTC
//! tick and a mix of everything on x86.

pub mod fio;
pub mod guest;
pub mod mixed;
pub mod netperf;
pub mod pci_config;
pub mod pci_scan;
pub mod ports;
pub mod rtc_tick;
pub mod script;
pub mod sequence;
pub mod steps;

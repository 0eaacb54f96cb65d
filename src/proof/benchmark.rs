//! The benchmarks with published figures, and the machine model that each is held against.

use std::str::FromStr;

use crate::machine::{Fit, Kind, Machine, X86Figures};

/// A benchmark with published figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Benchmark {
    /// FIO on a null block device, 2016.
    Fio,
    /// NetPerf TCP_RR, 2016.
    Netperf,
    /// `perf kvm stat` without and with coalesced port I/O, 2018.
    CoalescedPio,
    /// Times of one OUT, 2007.
    PioLatency,
    /// PCI configuration reads and a boot's scan, 2022.
    PciConfig,
}

impl Benchmark {
    /// Every one.
    pub const ALL: [Self; 5] = [Self::Fio, Self::Netperf, Self::CoalescedPio, Self::PioLatency, Self::PciConfig];

    /// Name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fio => "fio",
            Self::Netperf => "netperf",
            Self::CoalescedPio => "coalesced-pio",
            Self::PioLatency => "pio-latency",
            Self::PciConfig => "pci-config",
        }
    }

    /// The shipped model of the machine that its figures come from.
    #[must_use]
    pub const fn machine(self) -> &'static str {
        match self {
            Self::Fio | Self::Netperf => "power8-2016",
            Self::CoalescedPio => "x86-2018-qemu-win7",
            Self::PioLatency => "x86-2007-amd-x2",
            Self::PciConfig => "x86-2022-vmware",
        }
    }

    /// The figures that an x86 model is fitted to for it; none on POWER.
    #[must_use]
    pub const fn x86_figures(self) -> Option<X86Figures> {
        match self {
            Self::Fio | Self::Netperf => None,
            Self::CoalescedPio => Some(X86Figures::CoalescedPio),
            Self::PioLatency => Some(X86Figures::PioLatencyNs),
            Self::PciConfig => Some(X86Figures::PciConfig),
        }
    }

    /// The benchmarks that a model is of: both of 2016 for one of POWER, for one of x86 those that its `[fit]` names.
    #[must_use]
    pub fn of(machine: &Machine) -> Vec<Self> {
        let figures = match &machine.fit {
            Some(Fit::X86(fit)) => Some(fit.figures),
            _ => None,
        };
        let of = |benchmark: &Self| match machine.kind {
            Kind::Book3sHv => benchmark.x86_figures().is_none(),
            Kind::X86 => figures.is_some() && benchmark.x86_figures() == figures,
        };
        Self::ALL.into_iter().filter(of).collect()
    }
}

impl FromStr for Benchmark {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|benchmark| benchmark.name() == name);
        found.ok_or_else(|| {
            let known: Vec<_> = Self::ALL.into_iter().map(Self::name).collect();
            format!("no published benchmark is named `{name}`: {}", known.join(", "))
        })
    }
}

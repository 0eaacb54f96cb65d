//! Published figures of the x86 threads.

use serde::Deserialize;

use crate::sim::ExitStat;

/// Times of one OUT by how far it goes, ns.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PioLatency {
    /// Where they were published.
    pub source: String,
    /// Back in the guest as soon as its registers are restored.
    pub guest_registers_restored: f64,
    /// Handled by a device in the kernel.
    pub handled_in_kernel: f64,
    /// User space calls KVM_RUN again at once.
    pub user_space_returns_at_once: f64,
    /// User space handles it and touches registers only when needed.
    pub registers_only_when_needed: f64,
    /// User space gets and sets the registers at every exit.
    pub get_and_set_registers_every_exit: f64,
}

impl PioLatency {
    /// The figures from the shortest way to the longest, ns.
    #[must_use]
    pub const fn in_order(&self) -> [f64; 5] {
        [
            self.guest_registers_restored,
            self.handled_in_kernel,
            self.user_space_returns_at_once,
            self.registers_only_when_needed,
            self.get_and_set_registers_every_exit,
        ]
    }
}

/// A row of `perf kvm stat`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "(String, u64, f64, f64, f64, f64, f64, f64)")]
pub struct PerfRow {
    /// Port and direction, as perf writes it.
    pub access: String,
    /// Samples.
    pub samples: u64,
    /// Their share of all, percent. Rows are a subset: they need not add up to 100.
    pub samples_pct: f64,
    /// Their share of the time, percent.
    pub time_pct: f64,
    /// Least, us.
    pub min_us: f64,
    /// Greatest, us.
    pub max_us: f64,
    /// Mean, us.
    pub avg_us: f64,
    /// Standard error of the mean, percent of the mean.
    pub avg_spread_pct: f64,
}

impl From<(String, u64, f64, f64, f64, f64, f64, f64)> for PerfRow {
    fn from(row: (String, u64, f64, f64, f64, f64, f64, f64)) -> Self {
        let (access, samples, samples_pct, time_pct, min_us, max_us, avg_us, avg_spread_pct) = row;
        Self { access, samples, samples_pct, time_pct, min_us, max_us, avg_us, avg_spread_pct }
    }
}

impl PerfRow {
    /// Standard deviation of a sample, us.
    #[must_use]
    pub fn deviation_us(&self) -> f64 {
        self.avg_spread_pct / 100.0 * self.avg_us * (self.samples as f64).sqrt()
    }

    /// Step in which least and greatest were printed, us: rows with whole ones look rounded (or cut) to microseconds.
    #[must_use]
    pub fn resolution_us(&self) -> f64 {
        let whole = |us: f64| us.fract().abs() < f64::EPSILON;
        if whole(self.min_us) && whole(self.max_us) { 1.0 } else { 0.01 }
    }
}

impl From<&PerfRow> for ExitStat {
    fn from(row: &PerfRow) -> Self {
        Self {
            event: row.access.clone(),
            samples: row.samples,
            samples_percent: row.samples_pct,
            time_percent: row.time_pct,
            min_ns: row.min_us * 1000.0,
            max_ns: row.max_us * 1000.0,
            mean_ns: row.avg_us * 1000.0,
            spread_percent: row.avg_spread_pct,
        }
    }
}

/// `perf kvm stat` without and with coalesced port I/O.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoalescedPio {
    /// Where they were published.
    pub source: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Without: 0x70:POUT, 0xcf8:POUT.
    pub without: [PerfRow; 2],
    /// With: the same.
    pub with: [PerfRow; 2],
}

/// PCI configuration reads by method.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PciConfig {
    /// Where they were published.
    pub source: String,
    /// Reads timed.
    pub reads: u64,
    /// By ports, s.
    pub pio_s: f64,
    /// By a load that exits, s.
    pub mmio_s: f64,
    /// By a load from memory mapped read-only, s.
    pub mmio_read_only_mapped_s: f64,
    /// What exiting loads save over ports, percent.
    pub mmio_saves_pct: f64,
    /// How many times faster than ports the mapped reads are.
    pub mapped_fold: f64,
    /// A guest's scan at boot before, ms.
    pub boot_scan_before_ms: f64,
    /// After, ms.
    pub boot_scan_after_ms: f64,
}

//! Where and when: per vCPU, per page, per device, over time, and against what the recording observed.

use rustc_hash::FxHashMap;

use crate::addr::index;
use crate::sim::{DeviceRow, Disagreement, ObservedCounts, PageRow, TimeRow, VcpuRow};
use crate::trace::{Access, Observed};

/// Rows of pages that are told.
const PAGES: usize = 64;
/// Stretches of time; two become one when they are full.
const STRETCHES: usize = 64;

/// A device's guest physical addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRange {
    /// Its name.
    pub name: String,
    /// First address.
    pub first: u64,
    /// Last address, at least the first.
    pub last: u64,
}

#[derive(Debug, Default)]
pub(super) struct Details {
    pub vcpus: Vec<VcpuRow>,
    pages: FxHashMap<(u64, u8), PageRow>,
    devices: Vec<DeviceRow>,
    ranges: Vec<DeviceRange>,
    pub observed: Option<ObservedCounts>,
    time: OverTime,
    accesses: u64,
}

impl Details {
    pub(super) fn new(ranges: &[DeviceRange]) -> Self {
        let mut devices: Vec<_> = ranges.iter().map(|range| range.name.clone()).collect();
        if !ranges.is_empty() {
            devices.push("(no range names it)".to_owned());
        }
        let devices = devices.into_iter().map(|device| DeviceRow { device, accesses: 0, hits: 0 }).collect();
        Self { devices, ranges: ranges.to_vec(), ..Self::default() }
    }

    pub(super) fn access(&mut self, access: &Access, hit: bool) {
        self.accesses += 1;
        let hits = u64::from(hit);
        let vcpu = index(u64::from(access.vcpu));
        while self.vcpus.len() <= vcpu {
            let vcpu = u32::try_from(self.vcpus.len()).unwrap_or(u32::MAX);
            self.vcpus.push(VcpuRow { vcpu, ..VcpuRow::default() });
        }
        self.vcpus[vcpu].accesses += 1;
        self.vcpus[vcpu].hits += hits;
        let ea = access.page() << (access.page_shift & 63);
        let page = self.pages.entry((ea, access.page_shift));
        let page = page.or_insert_with(|| PageRow { ea, gpa: access.gpa.0, accesses: 0, hits: 0 });
        page.accesses += 1;
        page.hits += hits;
        if !self.ranges.is_empty() {
            let found = self.ranges.iter().position(|range| (range.first..=range.last).contains(&access.gpa.0));
            let device = &mut self.devices[found.unwrap_or(self.ranges.len())];
            device.accesses += 1;
            device.hits += hits;
        }
        self.time.access(access.at, hits);
        self.compare(access, hit);
    }

    fn compare(&mut self, access: &Access, hit: bool) {
        if access.observed == Observed::Unknown {
            return;
        }
        let observed_hit = access.observed == Observed::Hit;
        let observed = self.observed.get_or_insert_with(ObservedCounts::default);
        *if observed_hit { &mut observed.hits } else { &mut observed.misses } += 1;
        if observed_hit == hit {
            observed.agreeing += 1;
        } else if observed.first_disagreement.is_none() {
            let word = |hit| if hit { "hit" } else { "miss" };
            observed.first_disagreement = Some(Disagreement {
                access: self.accesses,
                at_ns: access.at,
                vcpu: access.vcpu,
                ea: access.ea.0,
                observed: word(observed_hit),
                simulated: word(hit),
            });
        }
    }

    /// How many pages, and those with most accesses.
    pub(super) fn pages(&self) -> (u64, Vec<PageRow>) {
        let mut rows: Vec<_> = self.pages.values().cloned().collect();
        rows.sort_by(|a, b| b.accesses.cmp(&a.accesses).then(a.ea.cmp(&b.ea)));
        rows.truncate(PAGES);
        (self.pages.len() as u64, rows)
    }

    pub(super) fn devices(&self) -> Vec<DeviceRow> {
        self.devices.iter().filter(|row| row.accesses > 0 || !row.device.starts_with('(')).cloned().collect()
    }

    /// Stretches, and how long each is.
    pub(super) fn over_time(&self) -> (Vec<TimeRow>, u64) {
        (self.time.rows.iter().filter(|row| row.accesses > 0).cloned().collect(), self.time.stretch)
    }
}

/// Accesses and hits by time, in stretches that double when there are too many.
#[derive(Debug)]
struct OverTime {
    rows: Vec<TimeRow>,
    start: Option<u64>,
    stretch: u64,
    count: u64,
    clocked: bool,
}

impl Default for OverTime {
    fn default() -> Self {
        Self { rows: Vec::new(), start: None, stretch: 1, count: 0, clocked: false }
    }
}

impl OverTime {
    fn access(&mut self, at: u64, hits: u64) {
        self.clocked |= at > 0;
        let now = if self.clocked { at } else { self.count };
        self.count += 1;
        let start = *self.start.get_or_insert(now);
        // CPUs' clocks may differ a little: what is before the start belongs to the first stretch.
        let since = now.saturating_sub(start);
        while since / self.stretch >= STRETCHES as u64 {
            self.double(start);
        }
        let at = index(since / self.stretch);
        while self.rows.len() <= at {
            let from = start.saturating_add(self.rows.len() as u64 * self.stretch);
            self.rows.push(TimeRow { from, accesses: 0, hits: 0 });
        }
        self.rows[at].accesses += 1;
        self.rows[at].hits += hits;
    }

    fn double(&mut self, start: u64) {
        self.stretch = self.stretch.saturating_mul(2);
        let sum = |pair: &[TimeRow]| pair.iter().fold((0, 0), |sum, row| (sum.0 + row.accesses, sum.1 + row.hits));
        let sums: Vec<_> = self.rows.chunks(2).map(sum).collect();
        let row = |(i, (accesses, hits)): (usize, (u64, u64))| TimeRow {
            from: start.saturating_add(i as u64 * self.stretch),
            accesses,
            hits,
        };
        self.rows = sums.into_iter().enumerate().map(row).collect();
    }
}

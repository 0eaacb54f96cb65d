//! Latencies of a job or a connection.

use hdrhistogram::Histogram;

use crate::machine::SimTime;

use super::SimError;
use super::result::Latency;

/// A histogram to three digits, in ns. In virtual time most requests take exactly as long as the one before: repeats are
/// counted beside it and added when another latency comes.
pub(super) struct Latencies {
    histogram: Histogram<u64>,
    last: SimTime,
    repeats: u64,
}

/// Greatest latency told apart, ns: 1000 s. Longer ones count as that.
const MAX_NS: u64 = 1_000_000_000_000;

impl Latencies {
    pub fn new() -> Result<Self, SimError> {
        let histogram = Histogram::new_with_bounds(1, MAX_NS, 3).map_err(|e| SimError::Histogram(e.to_string()))?;
        Ok(Self { histogram, last: SimTime::default(), repeats: 0 })
    }

    #[inline]
    pub fn record(&mut self, latency: SimTime) {
        if latency != self.last {
            self.flush();
            self.last = latency;
        }
        self.repeats += 1;
    }

    fn flush(&mut self) {
        if self.repeats > 0 {
            self.histogram.saturating_record_n(self.last.whole_ns(), self.repeats);
            self.repeats = 0;
        }
    }

    fn all(&self) -> Histogram<u64> {
        let mut histogram = self.histogram.clone();
        if self.repeats > 0 {
            histogram.saturating_record_n(self.last.whole_ns(), self.repeats);
        }
        histogram
    }

    /// The values at these quantiles, ns.
    pub fn quantiles<const N: usize>(&self, at: [f64; N]) -> [u64; N] {
        let histogram = self.all();
        at.map(|quantile| histogram.value_at_quantile(quantile))
    }

    pub fn summary(&self) -> Latency {
        let histogram = self.all();
        Latency {
            mean: histogram.mean(),
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            max: histogram.max(),
        }
    }
}

//! When a job may issue its next request: rates and thinktime.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

use super::job::{FioJob, ThinkAfter};
use super::math::{ln, to_f64, to_u64, unit};
use super::requests::Request;

const SECOND: u64 = 1_000_000_000;

/// What a direction's rate allows.
#[derive(Clone, Copy, Debug)]
enum Rate {
    Free,
    /// So many bytes per second.
    Even(u64),
    /// Exponential times of this mean, ns.
    Poisson(u64),
}

/// Tells for each request the earliest time it may be issued.
///
/// As in fio, a rate is kept over the whole run: a job that fell behind catches up. Times count from the
/// first request.
#[derive(Clone, Debug)]
pub struct Pacer {
    rng: Xoshiro256PlusPlus,
    rates: [Rate; 2],
    epoch: Option<u64>,
    bytes: [u64; 2],
    /// When the next request of a direction is due, from the epoch: Poisson.
    due: [u64; 2],
    /// Pauses that do not count against the rate, ns.
    not_counted: u64,
    think_ns: u64,
    think_every: u32,
    since_think: u32,
    ignores_think: bool,
    /// Neither a rate nor pauses: every request is due when the job is ready for it.
    free: bool,
}

impl Pacer {
    /// The pacer of a job. `seed` as in [`super::Requests::new`].
    #[must_use]
    pub fn new(job: &FioJob, seed: u64) -> Self {
        let rate = |direction: usize| {
            let smallest = u64::from(job.blocks[direction].smallest()).max(1);
            // fio turns a rate of requests into one of bytes, with the smallest size.
            let bps =
                job.rate_bps[direction].or_else(|| job.rate_iops[direction].map(|iops| iops.saturating_mul(smallest)));
            match bps {
                None | Some(0) => Rate::Free,
                Some(bps) if job.poisson => {
                    let mean = u128::from(SECOND) * u128::from(smallest) / u128::from(bps);
                    Rate::Poisson(u64::try_from(mean).unwrap_or(u64::MAX))
                }
                Some(bps) => Rate::Even(bps),
            }
        };
        let rates = [rate(0), rate(1)];
        let free = job.thinktime_ns == 0 && rates.iter().all(|rate| matches!(rate, Rate::Free));
        let (ThinkAfter::Completions(think_every) | ThinkAfter::Issues(think_every)) = job.think_after;
        Self {
            // Apart from the draws of the requests, which must not depend on the pace.
            rng: Xoshiro256PlusPlus::seed_from_u64(!job.seed ^ seed.rotate_left(32)),
            rates,
            epoch: None,
            bytes: [0; 2],
            due: [0; 2],
            not_counted: 0,
            think_ns: job.thinktime_ns,
            think_every: think_every.max(1),
            since_think: 0,
            ignores_think: job.rate_ignores_thinktime,
            free,
        }
    }

    /// Whether the next request comes after a pause, for which fio first lets all requests in flight complete.
    #[must_use]
    pub const fn pauses_next(&self) -> bool {
        self.think_ns > 0 && self.since_think >= self.think_every
    }

    /// The earliest time, ns, at which `next` may be issued when the job is ready for it at `now_ns`. To be
    /// called once for each request, in order; never less than `now_ns`.
    #[inline]
    pub fn earliest(&mut self, now_ns: u64, next: &Request) -> u64 {
        if self.free { now_ns } else { self.paced(now_ns, next) }
    }

    fn paced(&mut self, now_ns: u64, next: &Request) -> u64 {
        let epoch = *self.epoch.get_or_insert(now_ns);
        let mut ready = now_ns;
        if self.pauses_next() {
            ready = ready.saturating_add(self.think_ns);
            self.since_think = 0;
            if self.ignores_think {
                self.not_counted = self.not_counted.saturating_add(self.think_ns);
            }
        }
        self.since_think = self.since_think.saturating_add(1);
        let d = next.direction.index();
        let due = match self.rates[d] {
            Rate::Free => return ready,
            Rate::Even(bps) => {
                let due = u128::from(self.bytes[d]) * u128::from(SECOND) / u128::from(bps);
                u64::try_from(due).unwrap_or(u64::MAX)
            }
            Rate::Poisson(mean) => {
                let due = self.due[d];
                // 1 - u is more than 0, so the logarithm is finite.
                let wait = to_f64(mean) * -ln(1.0 - unit(self.rng.next_u64()));
                self.due[d] = due.saturating_add(to_u64(wait));
                due
            }
        };
        self.bytes[d] = self.bytes[d].saturating_add(u64::from(next.len));
        ready.max(epoch.saturating_add(due).saturating_add(self.not_counted))
    }
}

//! Traces made up by a rule, the same for the same seed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

use super::{Access, Facts, Item, Observed, VcpuFacts};
use crate::addr::{EffectiveAddr, GuestPhysAddr, index};
use crate::book3s::insn::Direction;

/// Where accesses go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Independent draws: page k of `pages` with a share of 1 / k^alpha.
    Zipf {
        /// Exponent, 0 to 10.
        alpha: f64,
    },
    /// Independent draws, all pages alike.
    Uniform,
    /// Pages 0, 1, 2, ... and again.
    Cyclic,
    /// `share` of the accesses go to `hot` neighbouring pages, which move on by one every `drift` accesses.
    HotSet {
        /// Pages of the hot set.
        hot: u32,
        /// Share of accesses, 0 to 1.
        share: f64,
        /// Accesses until it moves; 0 for never.
        drift: u64,
    },
    /// A vCPU submits requests to a block device in batches of 1 to 8 doorbells, then turns to another.
    Fio,
    /// Each vCPU has a network device of its own: 16 transmit doorbells, then one for refilled receive buffers to the device
    /// beside it, as with a vhost pair.
    Netperf,
}

/// What to make up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Synthetic {
    /// Where accesses go.
    pub pattern: Pattern,
    /// Pages (devices of the doorbell patterns), at least 1.
    pub pages: u32,
    /// vCPUs, at least 1; accesses go to them in turn.
    pub vcpus: u32,
    /// Accesses.
    pub count: u64,
    /// MMIO HPTEs removed, per access, 0 to 1.
    pub invalidations: f64,
    /// Seed.
    pub seed: u64,
}

/// Why a trace cannot be made up.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SyntheticError {
    /// A number out of range.
    #[error("{what} = {value} is out of range: {range}")]
    Range {
        /// Which.
        what: &'static str,
        /// What was asked.
        value: f64,
        /// What would be right.
        range: &'static str,
    },
}

/// EA and GPA of page 0, and the stride of 64 KiB pages.
const EA: u64 = 0xd000_0800_8000_0000;
const GPA: u64 = 0x2000_0000_0000;
const SHIFT: u8 = 16;
/// Most pages: their table of shares takes 16 bytes each.
const MOST_PAGES: u32 = 1 << 24;
/// An access a microsecond.
const NS: u64 = 1000;

/// Gives the items of a [`Synthetic`].
#[derive(Debug)]
pub struct Generator {
    plan: Synthetic,
    rng: Xoshiro256PlusPlus,
    zipf: Option<Zipf>,
    done: u64,
    removed: Option<u64>,
    /// By vCPU: page and doorbells left there.
    turns: Vec<(u32, u32)>,
}

impl Generator {
    /// Checks and begins.
    ///
    /// # Errors
    /// A number out of range.
    pub fn new(plan: Synthetic) -> Result<Self, SyntheticError> {
        let check = |what, value: f64, range, good: bool| {
            if good { Ok(()) } else { Err(SyntheticError::Range { what, value, range }) }
        };
        let pages = f64::from(plan.pages);
        check("pages", pages, "1 to 16777216", (1..=MOST_PAGES).contains(&plan.pages))?;
        check("vcpus", f64::from(plan.vcpus), "1 to 1024", (1..=1024).contains(&plan.vcpus))?;
        check("invalidations", plan.invalidations, "0 to 1 an access", (0.0..=1.0).contains(&plan.invalidations))?;
        let mut zipf = None;
        match plan.pattern {
            Pattern::Zipf { alpha } => {
                check("alpha", alpha, "0 to 10", (0.0..=10.0).contains(&alpha))?;
                zipf = Some(Zipf::new(plan.pages, alpha));
            }
            Pattern::HotSet { hot, share, .. } => {
                check("hot", f64::from(hot), "1 to the number of pages", hot >= 1 && hot <= plan.pages)?;
                check("share", share, "0 to 1", (0.0..=1.0).contains(&share))?;
            }
            Pattern::Uniform | Pattern::Cyclic | Pattern::Fio | Pattern::Netperf => {}
        }
        let turns = vec![(0, 0); index(u64::from(plan.vcpus))];
        let rng = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
        Ok(Self { plan, rng, zipf, done: 0, removed: None, turns })
    }

    /// What is known of the whole.
    #[must_use]
    pub fn facts(&self) -> Facts {
        let vcpu = |vcpu| VcpuFacts { vcpu: Some(vcpu), pid: None, vm: 0 };
        Facts { accesses: self.done, vcpus: (0..self.plan.vcpus).map(vcpu).collect(), ..Facts::default() }
    }

    /// Below `limit`: the high half of a product.
    fn below(&mut self, limit: u32) -> u32 {
        narrow(((self.rng.next_u64() >> 32) * u64::from(limit)) >> 32)
    }

    /// 0 to 1, 1 not included.
    fn unit(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn page(&mut self, vcpu: u32) -> u32 {
        let pages = self.plan.pages;
        match self.plan.pattern {
            Pattern::Zipf { .. } => {
                let bits = self.rng.next_u64();
                self.zipf.as_ref().map_or(0, |zipf| zipf.draw(bits))
            }
            Pattern::Uniform => self.below(pages),
            Pattern::Cyclic => narrow(self.done % u64::from(pages)),
            Pattern::HotSet { hot, share, drift } => {
                if self.unit() >= share {
                    return self.below(pages);
                }
                let moved = self.done.checked_div(drift).unwrap_or(0);
                narrow((moved + u64::from(self.below(hot))) % u64::from(pages))
            }
            Pattern::Fio => {
                let at = index(u64::from(vcpu));
                if self.turns[at].1 == 0 {
                    self.turns[at] = (self.below(pages), 1 + self.below(8));
                }
                self.turns[at].1 -= 1;
                self.turns[at].0
            }
            Pattern::Netperf => {
                let at = index(u64::from(vcpu));
                self.turns[at].1 = (self.turns[at].1 + 1) % 17;
                let beside = u32::from(self.turns[at].1 == 0);
                (vcpu.wrapping_mul(2).wrapping_add(beside)) % pages
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "asked for values below 2^32 only")]
const fn narrow(value: u64) -> u32 {
    value as u32
}

impl Iterator for Generator {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        if let Some(page) = self.removed.take() {
            return Some(Item::Generation { at: self.done * NS, vm: 0, page: Some(EffectiveAddr(page)) });
        }
        if self.done == self.plan.count {
            return None;
        }
        let vcpu = narrow(self.done % u64::from(self.plan.vcpus));
        let offset = u64::from(self.page(vcpu)) << SHIFT;
        if self.plan.invalidations > 0.0 && self.unit() < self.plan.invalidations {
            self.removed = Some(EA + offset);
        }
        let at = self.done * NS;
        self.done += 1;
        Some(Item::Access(Access {
            at,
            vcpu,
            vm: 0,
            ea: EffectiveAddr(EA + offset),
            gpa: GuestPhysAddr(GPA + offset),
            segment: 0,
            page_shift: SHIFT,
            direction: Direction::Store,
            len: 2,
            observed: Observed::Unknown,
        }))
    }
}

/// Draws by Vose's alias method: a column and a coin, whatever the number of pages.
#[derive(Debug)]
pub struct Zipf {
    /// By column: share of 2^32 that stays, and where the rest goes.
    columns: Vec<(u32, u32)>,
}

impl Zipf {
    /// Pages 0 to `pages - 1`, page k with a share of 1 / (k + 1)^alpha.
    #[must_use]
    pub fn new(pages: u32, alpha: f64) -> Self {
        let shares: Vec<f64> = (1..=pages).map(|rank| f64::from(rank).powf(-alpha)).collect();
        let scale = f64::from(pages) / shares.iter().sum::<f64>();
        let mut scaled: Vec<f64> = shares.iter().map(|share| share * scale).collect();
        let all: Vec<u32> = (0..pages).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            all.iter().partition(|at| scaled[index(u64::from(**at))] < 1.0);
        let mut columns: Vec<(u32, u32)> = all.iter().map(|at| (u32::MAX, *at)).collect();
        while let (Some(&little), Some(&much)) = (small.last(), large.last()) {
            small.pop();
            let (little, much_at) = (index(u64::from(little)), index(u64::from(much)));
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share below 1")]
            let stays = (scaled[little] * f64::from(u32::MAX)) as u32;
            columns[little] = (stays, much);
            scaled[much_at] -= 1.0 - scaled[little];
            if scaled[much_at] < 1.0 {
                large.pop();
                small.push(much);
            }
        }
        Self { columns }
    }

    /// A page, from 64 random bits: the high half chooses the column, the low half tosses the coin.
    #[inline]
    #[must_use]
    pub fn draw(&self, bits: u64) -> u32 {
        let column = ((bits >> 32) * self.columns.len() as u64) >> 32;
        let (stays, other) = self.columns[index(column)];
        if narrow(bits & 0xffff_ffff) < stays { narrow(column) } else { other }
    }
}

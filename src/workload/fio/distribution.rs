//! Random offsets: what a job file asks for, and drawing them.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::RngCore;

use super::checks::{self, Shape, Zones};
use super::effective::Effective;
use super::error::FioError;
use super::extent::Extent;
use super::job::{Distribution, Zone};
use super::math::{below, ln, pow, to_f64, to_i64, to_u64, unit};
use super::plan::kb_base;

const MILLION: f64 = 1e6;

/// A parameter in millionths.
pub(super) fn millionths(parameter: f64) -> i64 {
    to_i64((parameter * MILLION).round())
}

/// The distribution a job asks for.
pub(super) fn distribution(effective: &Effective<'_>, extent: &Extent) -> Result<Distribution, FioError> {
    let option = "random_distribution";
    let text = effective.text(option);
    let wrong = |right: String| effective.impossible(option, format!("`{text}` cannot be simulated"), right);
    let Some(word) = effective.word(option) else { return Ok(Distribution::Uniform) };
    let shape = |word| checks::shape(word, text).map_err(wrong);
    let center = |shape: Shape| shape.center.and_then(|center| u32::try_from(millionths(center)).ok());
    match word {
        "zipf" => {
            let shape = shape(word)?;
            let theta = millionths(shape.parameter);
            if !(0..=100_000_000).contains(&theta) || theta == 1_000_000 {
                return Err(wrong("theta of zipf is from 0 to 100, and not 1".to_owned()));
            }
            Ok(Distribution::Zipf { theta, center: center(shape) })
        }
        "pareto" => {
            let shape = shape(word)?;
            let h = u32::try_from(millionths(shape.parameter)).ok().filter(|h| (1..1_000_000).contains(h));
            let h = h.ok_or_else(|| wrong("h of pareto is from 0.000001 to 0.999999".to_owned()))?;
            Ok(Distribution::Pareto { h, center: center(shape) })
        }
        "normal" => {
            let shape = shape(word)?;
            let deviation = u32::try_from(millionths(shape.parameter)).unwrap_or(0);
            Ok(Distribution::Normal { deviation, center: center(shape) })
        }
        "zoned" | "zoned_abs" => {
            let kind = if word == "zoned" { Zones::Percent } else { Zones::Bytes };
            let [read, write, _] = checks::zone_split(text, kind, kb_base(effective)).map_err(wrong)?;
            let place = |shares: Vec<checks::ZoneShare>| zones(&shares, kind, extent.file_bytes);
            let zones = place(read).zip(place(write));
            let (read, write) = zones.ok_or_else(|| wrong("zones may not reach beyond the file".to_owned()))?;
            Ok(Distribution::Zoned([read, write]))
        }
        _ => Ok(Distribution::Uniform),
    }
}

/// The zones one behind the other. A zone of size 0 takes what is left, as the last one does in fio.
fn zones(shares: &[checks::ZoneShare], kind: Zones, file_bytes: u64) -> Option<Vec<Zone>> {
    let mut start: u64 = 0;
    shares
        .iter()
        .map(|share| {
            let left = file_bytes.checked_sub(start)?;
            let bytes = match kind {
                Zones::Percent => u64::try_from(u128::from(file_bytes) * u128::from(share.size) / 100).ok()?,
                Zones::Bytes => share.size,
            };
            let bytes = if bytes == 0 { left } else { bytes };
            let zone = Zone { access_percent: share.access_percent, start, bytes };
            start = start.checked_add(bytes)?;
            (start <= file_bytes).then_some(zone)
        })
        .collect()
}

/// Draws blocks of one direction.
#[derive(Clone, Debug)]
pub(super) enum Sampler {
    Uniform,
    Zipf(Zipf),
    Pareto { power: f64, shift: u64 },
    Normal { deviation: u64, shift: u64 },
    Zoned(Vec<ZoneBlocks>),
}

/// A zone in blocks: drawn when a number from 0 to 99 is less than `until`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZoneBlocks {
    until: u64,
    first: u64,
    blocks: u64,
}

/// fio sums no more terms than this.
const MOST_TERMS: u64 = 10_000_000;

/// Terms summed one by one; the others by the Euler–Maclaurin formula, whose error is then below 1e-8.
const TERMS_SUMMED: u64 = 4096;

#[derive(Clone, Copy, Debug)]
pub(super) struct Zipf {
    zeta: f64,
    alpha: f64,
    eta: f64,
    second: f64,
    shift: u64,
}

impl Zipf {
    /// Gray's method, as in fio. Powers of draws are worked out per draw, from [`super::math`].
    fn new(blocks: u64, theta: f64, shift: u64) -> Self {
        let zeta = zeta(blocks.min(MOST_TERMS), theta);
        let second = 1.0 + pow(0.5, theta);
        Self {
            zeta,
            alpha: 1.0 / (1.0 - theta),
            eta: (1.0 - pow(2.0 / to_f64(blocks), 1.0 - theta)) / (1.0 - second / zeta),
            second,
            shift,
        }
    }

    fn rank(&self, u: f64, blocks: u64) -> u64 {
        let z = u * self.zeta;
        if z < 1.0 {
            0
        } else if z < self.second {
            1
        } else {
            to_u64(to_f64(blocks) * pow(self.eta * u - self.eta + 1.0, self.alpha)).min(blocks - 1)
        }
    }
}

/// The sum of k^-theta for k from 1 to n.
fn zeta(n: u64, theta: f64) -> f64 {
    let summed = n.min(TERMS_SUMMED);
    // From the small terms up, which loses least.
    let head: f64 = (1..=summed).rev().map(|k| pow(to_f64(k), -theta)).sum();
    if n == summed {
        return head;
    }
    let (from, to) = (to_f64(summed), to_f64(n));
    let integral = (pow(to, 1.0 - theta) - pow(from, 1.0 - theta)) / (1.0 - theta);
    head + integral + (pow(to, -theta) - pow(from, -theta)) / 2.0
}

/// Draws whose mean is a draw of the normal distribution, as in fio.
const NORMAL_DRAWS: u64 = 12;

impl Sampler {
    /// A sampler for a range of so many blocks of so many bytes.
    pub(super) fn new(
        distribution: &Distribution,
        direction: usize,
        blocks: u64,
        block_bytes: u64,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Self {
        let part = |millionths: u32| to_u64(to_f64(blocks) * f64::from(millionths) / MILLION);
        let mut shift = |center: &Option<u32>| center.map_or_else(|| rng.next_u64() >> 32, part);
        match distribution {
            Distribution::Zipf { theta, center } if blocks > 2 => {
                Self::Zipf(Zipf::new(blocks, to_f64(theta.unsigned_abs()) / MILLION, shift(center)))
            }
            Distribution::Pareto { h, center } if blocks > 2 => {
                let h = f64::from(*h) / MILLION;
                Self::Pareto { power: ln(h) / ln(1.0 - h), shift: shift(center) }
            }
            Distribution::Normal { deviation, center } if blocks > 2 => {
                let wide = to_f64(blocks) * f64::from(*deviation) / (100.0 * MILLION);
                Self::Normal {
                    deviation: to_u64(wide.ceil()).min(blocks / 2),
                    // The peak is in the middle of the range before it is moved.
                    shift: center.map_or(0, |center| blocks + part(center) - blocks / 2),
                }
            }
            Distribution::Zoned(zones) if !zones[direction].is_empty() => {
                let mut until = 0;
                let zones = zones[direction].iter().map(|zone| {
                    until += u64::from(zone.access_percent);
                    let first = (zone.start / block_bytes).min(blocks - 1);
                    let zone_blocks = (zone.bytes / block_bytes).clamp(1, blocks - first);
                    ZoneBlocks { until, first, blocks: zone_blocks }
                });
                Self::Zoned(zones.collect())
            }
            _ => Self::Uniform,
        }
    }

    /// A block, less than `blocks`.
    pub(super) fn block(&self, rng: &mut Xoshiro256PlusPlus, blocks: u64) -> u64 {
        match self {
            Self::Uniform => below(rng.next_u64(), blocks),
            Self::Zipf(zipf) => scatter(zipf.rank(unit(rng.next_u64()), blocks), zipf.shift, blocks),
            Self::Pareto { power, shift } => {
                scatter(to_u64(to_f64(blocks - 1) * pow(unit(rng.next_u64()), *power)), *shift, blocks)
            }
            Self::Normal { deviation, shift } => {
                let sum: u64 = (0..NORMAL_DRAWS).map(|_| below(rng.next_u64(), blocks)).sum();
                let mean = sum / NORMAL_DRAWS;
                let moved = mean + below(rng.next_u64(), deviation + 1);
                scatter(moved.saturating_sub(deviation / 2).min(blocks - 1), *shift, blocks)
            }
            Self::Zoned(zones) => {
                let draw = below(rng.next_u64(), 100);
                let zone = zones.iter().find(|zone| draw < zone.until).or(zones.last());
                zone.map_or(0, |zone| zone.first + below(rng.next_u64(), zone.blocks))
            }
        }
    }
}

/// fio scatters neighbours in rank over the range by multiplying with this, 2^64 over the golden ratio
/// (its two's complement).
const GOLDEN: u64 = 0x61c8_8646_80b5_83eb;

fn scatter(rank: u64, shift: u64, blocks: u64) -> u64 {
    rank.wrapping_mul(GOLDEN).wrapping_add(shift) % blocks
}

//! What the host adds to exits: a lognormal excess, drawn from the scenario's seed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

use crate::machine::{Machine, SimTime};

use super::Caches;

/// A host's noise; a model without any gives none.
pub(super) struct HostNoise {
    share: f64,
    deviation_ns: f64,
    cold: f64,
    rng: Xoshiro256PlusPlus,
}

impl HostNoise {
    pub fn new(machine: &Machine, seed: u64) -> Self {
        let figure = |value: fn(&crate::machine::Noise) -> f64, none| machine.noise.as_ref().map_or(none, value);
        Self {
            share: figure(|noise| noise.share.value, 0.0),
            deviation_ns: figure(|noise| noise.deviation_ns.value, 0.0),
            cold: figure(|noise| noise.cold.value, 1.0),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// How many times as long stages take.
    pub const fn factor(&self, caches: Caches) -> f64 {
        match caches {
            Caches::Warm => 1.0,
            Caches::Cold => self.cold,
        }
    }

    /// The excess of an exit that takes `time`: lognormal, its mean a share of the time, its deviation the host's own.
    pub fn draw(&mut self, time: SimTime) -> SimTime {
        let mean = self.share * time.ns();
        if mean <= 0.0 {
            return SimTime::default();
        }
        let variance = (1.0 + (self.deviation_ns / mean).powi(2)).ln();
        let normal = self.normal();
        SimTime::from_ns((mean.ln() - variance / 2.0 + variance.sqrt() * normal).exp())
    }

    /// A standard normal value (Box and Muller, 1958).
    fn normal(&mut self) -> f64 {
        let [a, b] = [(); 2].map(|()| ((self.rng.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64);
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }
}

/// A time `factor` times as long.
pub(super) fn scaled(time: SimTime, factor: f64) -> SimTime {
    // Exact where nothing is scaled: the float has 53 bits only.
    if (factor - 1.0).abs() < f64::EPSILON { time } else { SimTime::from_ns(time.ns() * factor) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_excess_has_the_mean_and_deviation_asked_for_and_none_is_negative() {
        let machine = Machine::built_in("x86-2018-qemu-win7").unwrap();
        let mut noise = HostNoise::new(&machine, 3);
        (noise.share, noise.deviation_ns) = (0.25, 800.0);
        let drawn: Vec<_> = (0..200_000).map(|_| noise.draw(SimTime::from_whole_ns(4000)).ns()).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let deviation = (drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / drawn.len() as f64).sqrt();
        assert!((980.0..1020.0).contains(&mean) && (760.0..840.0).contains(&deviation), "{mean} {deviation}");
        assert_eq!(noise.draw(SimTime::default()), SimTime::default());
    }
}

//! Prices: stages to virtual time.

use std::ops::{Add, AddAssign, Sub};

use serde::{Serialize, Serializer};

use crate::kvm_hv::{Stage, StageSet};

use super::model::{Extra, Machine};

/// A point or a length of virtual time, in picoseconds: half a nanosecond lost an access would be 0.1 % of
/// what the cache saves. Reaches 213 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimTime(pub u64);

impl SimTime {
    /// From nanoseconds; negative and not-a-number become 0, beyond the range the greatest.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
    pub fn from_ns(ns: f64) -> Self {
        Self((ns * 1000.0).round() as u64)
    }

    /// From whole nanoseconds, saturating.
    #[must_use]
    pub const fn from_whole_ns(ns: u64) -> Self {
        Self(ns.saturating_mul(1000))
    }

    /// In nanoseconds.
    #[must_use]
    pub fn ns(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// In whole nanoseconds, rounded down.
    #[must_use]
    pub const fn whole_ns(self) -> u64 {
        self.0 / 1000
    }

    /// In seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e12
    }
}

impl Add for SimTime {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for SimTime {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for SimTime {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Serialize for SimTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.ns())
    }
}

/// A machine model as integers, ready to price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prices {
    stages: [SimTime; Stage::ALL.len()],
    around: [SimTime; Extra::ALL.len()],
}

impl Prices {
    /// The prices of a model.
    #[must_use]
    pub fn new(machine: &Machine) -> Self {
        Self {
            stages: std::array::from_fn(|i| SimTime::from_ns(machine.stage_ns(Stage::ALL[i].name()))),
            around: std::array::from_fn(|i| SimTime::from_ns(machine.around_ns(Extra::ALL[i].name()))),
        }
    }

    /// Price of one stage.
    #[inline]
    #[must_use]
    pub const fn stage(&self, stage: Stage) -> SimTime {
        self.stages[stage as usize]
    }

    /// Price of one surrounding cost.
    #[inline]
    #[must_use]
    pub const fn around(&self, extra: Extra) -> SimTime {
        self.around[extra as usize]
    }

    /// Price of an attempt: the sum over its stages.
    #[must_use]
    pub fn attempt(&self, stages: StageSet) -> SimTime {
        stages.iter().fold(SimTime::default(), |sum, stage| sum + self.stage(stage))
    }
}

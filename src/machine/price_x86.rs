//! Prices of an x86 model.

use crate::kvm_x86::{Stage, StageCounts};

use super::kind::X86Extra;
use super::model::Machine;
use super::price::SimTime;

/// An x86 machine model as integers, ready to price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct X86Prices {
    stages: [SimTime; Stage::ALL.len()],
    around: [SimTime; X86Extra::ALL.len()],
}

impl X86Prices {
    /// The prices of a model.
    #[must_use]
    pub fn new(machine: &Machine) -> Self {
        Self {
            stages: std::array::from_fn(|i| SimTime::from_ns(machine.stage_ns(Stage::ALL[i].name()))),
            around: std::array::from_fn(|i| SimTime::from_ns(machine.around_ns(X86Extra::ALL[i].name()))),
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
    pub const fn around(&self, extra: X86Extra) -> SimTime {
        self.around[extra as usize]
    }

    /// Price of stages, each as often as it was gone through.
    #[must_use]
    pub fn sum(&self, stages: &StageCounts) -> SimTime {
        stages.iter().fold(SimTime::default(), |sum, (stage, count)| {
            sum + SimTime(self.stage(stage).0.saturating_mul(u64::from(count)))
        })
    }
}

//! What the host adds to an exit beyond its stages: interrupts, other tasks, cold caches.

use serde::{Deserialize, Serialize};

use super::model::Provenance;

/// A figure that is no time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Factor {
    /// The figure.
    pub value: f64,
    /// Where it comes from.
    pub kind: Provenance,
    /// What it rests on, in words.
    pub source: String,
}

/// An x86 host's noise. An exit takes its stages at least; what comes on top is drawn from a lognormal distribution, whose
/// tail is as long as those that `perf kvm stat` sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Noise {
    /// Mean of the excess, as a share of the stages' time, 0 to 1000: who takes longer is interrupted more often.
    pub share: Factor,
    /// Standard deviation of the excess, ns, 0 to 1e9: an interruption takes as long whatever it interrupts.
    pub deviation_ns: Factor,
    /// How many times longer the stages take when the vCPU comes out of idle, 1 to 1000: caches are cold, the clock is slow.
    pub cold: Factor,
}

impl Noise {
    /// A figure by name, and its kind, for a fit to set.
    pub(crate) fn figure_mut(&mut self, name: &str) -> Option<(&mut f64, &mut Provenance)> {
        let factor = match name {
            "share" => &mut self.share,
            "deviation-ns" => &mut self.deviation_ns,
            "cold" => &mut self.cold,
            _ => return None,
        };
        Some((&mut factor.value, &mut factor.kind))
    }

    /// Its figures: name, figure, least, greatest.
    pub(super) fn figures(&self) -> [(&'static str, &Factor, f64, f64); 3] {
        [
            ("share", &self.share, 0.0, 1000.0),
            ("deviation-ns", &self.deviation_ns, 0.0, 1e9),
            ("cold", &self.cold, 1.0, 1000.0),
        ]
    }
}

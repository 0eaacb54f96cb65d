//! What `hvmmio calibrate` may derive of a model: its `[fit]` table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::file::FileError;
use super::model::Machine;

/// What a fit may derive.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Fit {
    /// Of a POWER model.
    Book3sHv(PowerFit),
    /// Of an x86 model.
    X86(X86Fit),
}

/// Of a POWER model: which stages share one fitted sum, and which cost takes up each benchmark's rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerFit {
    /// Stages only the slow form has; their sum is fitted, its split by `shares` is assumed.
    pub shares: BTreeMap<String, f64>,
    /// The cost that takes up what FIO's rows leave over.
    pub fio_rest: String,
    /// The cost that takes up what NetPerf's *before* rows leave over.
    pub netperf_rest: String,
}

/// Of an x86 model: the published figures, and the sums of stages that they fix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct X86Fit {
    /// Table in `models/figures.toml`.
    pub figures: X86Figures,
    /// The sums by name; each is fitted, its split over stages by these shares is assumed.
    pub sums: BTreeMap<String, BTreeMap<String, f64>>,
}

/// Published figures that an x86 model can be fitted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum X86Figures {
    /// Times of one OUT, 2007.
    PioLatencyNs,
    /// `perf kvm stat` without and with coalesced port I/O, 2018.
    CoalescedPio,
    /// Configuration reads by method, 2022.
    PciConfig,
}

impl X86Figures {
    /// The sums that these figures fix, in the order in which they do.
    #[must_use]
    pub const fn sums(self) -> &'static [&'static str] {
        match self {
            Self::PioLatencyNs => &["world-switch", "kernel", "user-space", "device", "registers"],
            Self::CoalescedPio => &["stored", "user-space"],
            Self::PciConfig => &["memory", "port-exit"],
        }
    }
}

impl Fit {
    /// The checks of [`Machine::parse`].
    pub(super) fn check(&self, machine: &Machine, file: &str, text: &str) -> Result<(), FileError> {
        let at = |key: &str, what: String| Err(FileError::at_key(file, text, key, what));
        match self {
            Self::Book3sHv(fit) => {
                check_shares("shares", &fit.shares, machine, file, text)?;
                for (key, name) in [("fio_rest", &fit.fio_rest), ("netperf_rest", &fit.netperf_rest)] {
                    if !machine.around.contains_key(name) {
                        return at(key, format!("{key} = \"{name}\" is no [around] cost"));
                    }
                }
            }
            Self::X86(fit) => {
                let known = fit.figures.sums();
                if let Some(other) = fit.sums.keys().find(|name| !known.contains(&name.as_str())) {
                    return at(other, format!("[fit.sums.{other}] is no sum of these figures: {}", known.join(", ")));
                }
                if let Some(missing) = known.iter().find(|name| !fit.sums.contains_key(**name)) {
                    return at("fit", format!("[fit.sums.{missing}] is missing: name its stages and their shares"));
                }
                for (name, shares) in &fit.sums {
                    check_shares(name, shares, machine, file, text)?;
                }
            }
        }
        Ok(())
    }
}

fn check_shares(
    key: &str,
    shares: &BTreeMap<String, f64>,
    machine: &Machine,
    file: &str,
    text: &str,
) -> Result<(), FileError> {
    let at = |what: String| Err(FileError::at_key(file, text, key, what));
    for (name, share) in shares {
        if !machine.stage.contains_key(name) || !(0.0..=1.0).contains(share) {
            return at(format!("share {name} = {share}: name a stage, and a share from 0 to 1"));
        }
    }
    let sum: f64 = shares.values().sum();
    if (sum - 1.0).abs() > 1e-9 {
        return at(format!("the shares add up to {sum}; they must add up to 1"));
    }
    Ok(())
}

//! The model: a cost for each stage and for what lies around the path.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::addr::named;
use crate::kvm_hv::Stage;

use super::file::{FileError, parse_toml, read_text};

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// Set by judgement: published rows do not tell it. Conclusions must not rest on it.
    Assumed,
    /// Derived by `hvmmio calibrate` from published or measured rows.
    Fitted,
    /// Printed in a publication.
    Published,
    /// Read off a real kernel.
    Measured,
}

impl Provenance {
    /// Its word in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Assumed => "assumed",
            Self::Fitted => "fitted",
            Self::Published => "published",
            Self::Measured => "measured",
        }
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Nanoseconds, 0 to 1e9.
    pub ns: f64,
    /// Where the figure comes from.
    pub kind: Provenance,
    /// What it rests on, in words.
    pub source: String,
}

named! {
    /// A cost around the path: guest software and back ends.
    pub enum Extra {
        /// Guest: one block request from fio's submission to the doorbell store.
        BlockSubmit = "block-submit",
        /// Guest: one block request from the interrupt handler to fio's completion.
        BlockComplete = "block-complete",
        /// Guest: one netperf send from the system call to the doorbell store.
        NetSend = "net-send",
        /// Guest: one netperf receive from the interrupt handler to the system call's return.
        NetReceive = "net-receive",
        /// Guest: each payload byte that is copied on send or receive.
        NetByte = "net-byte",
        /// Guest interrupt: raised by a back end until its handler runs, if the vCPU is free.
        Interrupt = "interrupt",
        /// Back end: from eventfd signal to its thread running.
        BackendWake = "backend-wake",
        /// Null block back end: one request.
        NullBlock = "null-block",
        /// Network echo back end: one transaction from transmit queue to receive queue, wire and peer included.
        NetEcho = "net-echo",
        /// User space: the device model's part of an exit that carries a doorbell.
        UserDevice = "user-device",
    }
}

/// What `hvmmio calibrate` derives: which stages share one fitted sum, and which cost takes up each benchmark's rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// Stages only the slow form has; their sum is fitted, its split by `shares` is assumed.
    pub shares: BTreeMap<String, f64>,
    /// The cost that takes up what FIO's rows leave over.
    pub fio_rest: String,
    /// The cost that takes up what NetPerf's *before* rows leave over.
    pub netperf_rest: String,
}

/// A machine model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Name.
    pub name: String,
    /// What machine, in a sentence.
    pub description: String,
    /// Cost of each stage, by name.
    pub stage: BTreeMap<String, Cost>,
    /// Cost of what lies around the path, by name.
    pub around: BTreeMap<String, Cost>,
    /// What a fit may derive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit: Option<Fit>,
}

/// Greatest cost that is taken: one second.
const MAX_NS: f64 = 1e9;

impl Machine {
    /// Parses and checks a model: every stage and every surrounding cost once, each 0 to 1e9 ns.
    ///
    /// # Errors
    /// Says the line and what would be right.
    pub fn parse(file: &str, text: &str) -> Result<Self, FileError> {
        let machine: Self = parse_toml(file, text)?;
        let stages: Vec<_> = Stage::ALL.iter().map(|stage| stage.name()).collect();
        let extras: Vec<_> = Extra::ALL.iter().map(|extra| extra.name()).collect();
        let tables = [("stage", &machine.stage, stages), ("around", &machine.around, extras)];
        for (table, costs, known) in &tables {
            for (name, cost) in *costs {
                let at = |what| Err(FileError::at_key(file, text, name, what));
                if !known.contains(&name.as_str()) {
                    return at(format!("[{table}.{name}] is no {table} cost; there are {}", known.join(", ")));
                }
                if !(0.0..=MAX_NS).contains(&cost.ns) {
                    return at(format!("[{table}.{name}] ns = {}: a cost is 0 to {MAX_NS} ns", cost.ns));
                }
                if cost.source.trim().is_empty() {
                    return at(format!("[{table}.{name}] needs a source: what does the figure rest on?"));
                }
            }
            if let Some(missing) = known.iter().find(|name| !costs.contains_key(**name)) {
                let what = format!("[{table}.{missing}] is missing: give ns, kind and source");
                return Err(FileError::at_key(file, text, table, what));
            }
        }
        machine.check_fit(file, text)?;
        Ok(machine)
    }

    fn check_fit(&self, file: &str, text: &str) -> Result<(), FileError> {
        let Some(fit) = &self.fit else { return Ok(()) };
        let at = |key: &str, what: String| Err(FileError::at_key(file, text, key, what));
        for (name, share) in &fit.shares {
            if !self.stage.contains_key(name) || !(0.0..=1.0).contains(share) {
                return at("shares", format!("share {name} = {share}: name a stage, and a share from 0 to 1"));
            }
        }
        let sum: f64 = fit.shares.values().sum();
        if (sum - 1.0).abs() > 1e-9 {
            return at("shares", format!("the shares add up to {sum}; they must add up to 1"));
        }
        for (key, name) in [("fio_rest", &fit.fio_rest), ("netperf_rest", &fit.netperf_rest)] {
            if !self.around.contains_key(name) {
                return at(key, format!("{key} = \"{name}\" is no [around] cost"));
            }
        }
        Ok(())
    }

    /// Reads a model from a file.
    ///
    /// # Errors
    /// As [`Self::parse`], and what is wrong with the file itself.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let text = read_text(path, "a machine model: name, description, [stage.*], [around.*]")?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// A shipped model by name.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        let (name, text) = super::BUILT_IN.iter().find(|(known, _)| *known == name)?;
        // The shipped files are parsed by a test; a broken one is as if it were not there.
        Self::parse(&format!("models/machines/{name}.toml"), text).ok()
    }

    /// Cost of a stage.
    #[must_use]
    pub fn stage_cost(&self, stage: Stage) -> Option<&Cost> {
        self.stage.get(stage.name())
    }

    /// A surrounding cost in ns; 0 if the model lacks it, which [`Self::parse`] rules out.
    #[must_use]
    pub fn around_ns(&self, extra: Extra) -> f64 {
        self.around.get(extra.name()).map_or(0.0, |cost| cost.ns)
    }

    /// The model as TOML, in the form that [`Self::parse`] reads.
    ///
    /// # Errors
    /// The serialiser's words; no valid model gives any.
    pub fn to_toml(&self) -> Result<String, String> {
        toml::to_string_pretty(self).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_model_parses_and_survives_its_own_text() {
        for (name, text) in super::super::BUILT_IN {
            let machine = Machine::parse(name, text).unwrap();
            assert_eq!(machine.name, *name);
            assert_eq!(Machine::parse(name, &machine.to_toml().unwrap()).unwrap(), machine);
        }
    }

    #[test]
    fn a_wrong_model_is_refused_with_its_line_and_what_would_be_right() {
        let text = super::super::BUILT_IN[0].1;
        let line_of = |needle: &str| text.lines().position(|line| line.contains(needle)).unwrap() + 1;
        let refused = |from: &str, to: &str| Machine::parse("m.toml", &text.replacen(from, to, 1)).unwrap_err();
        let error = refused("[stage.decode]", "[stage.decoed]").to_string();
        assert!(error.contains(&format!("m.toml:{}", line_of("[stage.decode]"))), "{error}");
        assert!(error.contains("decoed") && error.contains("hpt-search"), "{error}");
        assert!(refused("[stage.ram]\nns = ", "[stage.ram]\nns = -").to_string().contains("0 to"));
        assert!(refused("[stage.ram]\nns = ", "[stage.ram]\nsn = ").to_string().contains("sn"));
        assert!(Machine::parse("m.toml", "").unwrap_err().to_string().contains("m.toml:1"));
    }
}

//! The model: a cost for each stage and for what lies around the path.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::addr::named;

use super::file::{FileError, parse_toml, read_text};
use super::fit::{Fit, PowerFit, X86Fit};
use super::kind::Kind;
use super::noise::Noise;

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

/// A machine model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// Name.
    pub name: String,
    /// What machine, in a sentence.
    pub description: String,
    /// Which path its stages price.
    pub kind: Kind,
    /// Cost of each stage, by name.
    pub stage: BTreeMap<String, Cost>,
    /// Cost of what lies around the path, by name.
    pub around: BTreeMap<String, Cost>,
    /// An x86 host's noise; without it every exit takes its stages and no longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// What a fit may derive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<Fit>,
}

/// The kind, read first: the rest depends on it.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    kind: Kind,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw<F> {
    name: String,
    description: String,
    #[serde(default)]
    kind: Kind,
    stage: BTreeMap<String, Cost>,
    around: BTreeMap<String, Cost>,
    noise: Option<Noise>,
    fit: Option<F>,
}

impl<F> Raw<F> {
    fn with(self, fit: impl FnOnce(F) -> Fit) -> Machine {
        let Self { name, description, kind, stage, around, noise, .. } = self;
        Machine { name, description, kind, stage, around, noise, fit: self.fit.map(fit) }
    }
}

/// Greatest cost that is taken: one second.
const MAX_NS: f64 = 1e9;

impl Machine {
    /// Parses and checks a model: every stage and every surrounding cost once, each 0 to 1e9 ns.
    ///
    /// # Errors
    /// Says the line and what would be right.
    pub fn parse(file: &str, text: &str) -> Result<Self, FileError> {
        let machine = match parse_toml::<Head>(file, text)?.kind {
            Kind::Book3sHv => parse_toml::<Raw<PowerFit>>(file, text)?.with(Fit::Book3sHv),
            Kind::X86 => parse_toml::<Raw<X86Fit>>(file, text)?.with(Fit::X86),
        };
        let (stages, extras) = (machine.kind.stage_names(), machine.kind.around_names());
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
        machine.check_noise(file, text)?;
        if let Some(fit) = &machine.fit {
            fit.check(&machine, file, text)?;
        }
        Ok(machine)
    }

    fn check_noise(&self, file: &str, text: &str) -> Result<(), FileError> {
        let Some(noise) = &self.noise else { return Ok(()) };
        let at = |key: &str, what: String| Err(FileError::at_key(file, text, key, what));
        for (name, figure, least, most) in noise.figures() {
            if self.kind != Kind::X86 {
                return at(name, "[noise.*] goes with kind = \"x86\" only".to_owned());
            }
            if !(least..=most).contains(&figure.value) {
                return at(name, format!("[noise.{name}] value = {}: {least} to {most}", figure.value));
            }
            if figure.source.trim().is_empty() {
                return at(name, format!("[noise.{name}] needs a source: what does the figure rest on?"));
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

    /// A stage's cost in ns; 0 if the model lacks it, which [`Self::parse`] rules out for stages of its own kind.
    #[must_use]
    pub fn stage_ns(&self, name: &str) -> f64 {
        self.stage.get(name).map_or(0.0, |cost| cost.ns)
    }

    /// A surrounding cost in ns; 0 as for [`Self::stage_ns`].
    #[must_use]
    pub fn around_ns(&self, name: &str) -> f64 {
        self.around.get(name).map_or(0.0, |cost| cost.ns)
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

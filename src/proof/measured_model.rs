//! A machine model measured on a host, as data.

use serde::Serialize;

use crate::machine::Machine;

/// A way of an access that the fit rests on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredWay {
    /// Which.
    pub label: &'static str,
    /// Median over rounds, ns an access (a configuration read).
    pub ns: f64,
    /// First and third quartile, ns.
    pub quartiles: [f64; 2],
}

/// A workload that the fit has not seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldOut {
    /// The scenario.
    pub scenario: String,
    /// Its port mode or configuration method.
    pub way: String,
    /// By the model, ns an access.
    pub predicted_ns: f64,
    /// Measured, ns an access: the median of some.
    pub measured_ns: f64,
    /// The least of them.
    pub least_ns: f64,
    /// The greatest.
    pub greatest_ns: f64,
    /// Predicted over measured, less one, in percent.
    pub error_percent: f64,
}

/// A host's model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostModel {
    /// What the fit rests on.
    pub fitted: Vec<MeasuredWay>,
    /// What it has not seen.
    pub held_out: Vec<HeldOut>,
    /// The model.
    pub machine: Machine,
    /// Its file.
    #[serde(skip)]
    pub text: String,
}

//! What a host measured beside published and simulated figures: ratios, which carry over between machines, and times, which
//! do not.

use serde::Serialize;

use super::comparison::Comparison;

/// Two ways of an access, and how many times as long the first takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ratio {
    /// An OUT to user space over a coalesced one, by perf's rows of port 0x70.
    CoalescedIndex,
    /// The same by perf's rows of port 0xcf8.
    CoalescedLatch,
    /// Registers got and set at every exit over none.
    Registers,
    /// A configuration read by an exiting load over one from a read-only memslot.
    ReadOnly,
    /// A configuration read by ports over one by an exiting load.
    Ports,
}

impl Ratio {
    /// Every one.
    pub const ALL: [Self; 5] =
        [Self::CoalescedIndex, Self::CoalescedLatch, Self::Registers, Self::ReadOnly, Self::Ports];

    /// In words.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::CoalescedIndex => "OUT to user space / coalesced (published of 0x70)",
            Self::CoalescedLatch => "OUT to user space / coalesced (published of 0xcf8)",
            Self::Registers => "OUT with GET_REGS and SET_REGS / without",
            Self::ReadOnly => "config read by exiting ECAM / read-only ECAM",
            Self::Ports => "config read by 0xcf8 and 0xcfc / exiting ECAM",
        }
    }

    /// What is expected of a host: at least, and at most if there is such.
    #[must_use]
    pub const fn expected(self) -> (f64, Option<f64>) {
        match self {
            Self::CoalescedIndex | Self::CoalescedLatch => (5.0, None),
            Self::Registers => (1.3, None),
            Self::ReadOnly => (1000.0, None),
            Self::Ports => (1.6, Some(2.2)),
        }
    }

    /// The benchmark and its two figures.
    const fn figures(self) -> (&'static str, [&'static str; 2]) {
        match self {
            Self::CoalescedIndex => ("coalesced-pio", ["without, 0x70:POUT avg", "with, 0x70:POUT avg"]),
            Self::CoalescedLatch => ("coalesced-pio", ["without, 0xcf8:POUT avg", "with, 0xcf8:POUT avg"]),
            Self::Registers => ("pio-latency", ["get and set registers every exit", "registers only when needed"]),
            Self::ReadOnly => ("pci-config", ["100000 reads, exiting loads", "100000 reads, mapped read-only"]),
            Self::Ports => ("pci-config", ["100000 reads, ports", "100000 reads, exiting loads"]),
        }
    }

    /// Published and simulated, if its benchmark is among these.
    #[must_use]
    pub fn beside(self, comparisons: &[Comparison]) -> Option<[f64; 2]> {
        let (name, labels) = self.figures();
        let comparison = comparisons.iter().find(|comparison| comparison.benchmark == name)?;
        let figure = |label| comparison.figures.iter().find(|figure| figure.label == label);
        let [over, under] = labels.map(figure);
        let (over, under) = (over?, under?);
        Some([over.published / under.published, over.simulated / under.simulated])
    }
}

/// A ratio as measured, beside published and simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredRatio {
    /// Which.
    pub ratio: Ratio,
    /// By the publication.
    pub published: f64,
    /// By the model of the publication's machine.
    pub simulated: f64,
    /// On this host: the median over rounds, in each of which both took turns.
    pub measured: f64,
    /// First and third quartile of rounds.
    pub quartiles: [f64; 2],
    /// Whether it is as [`Ratio::expected`].
    pub as_expected: bool,
}

/// A time as measured on this host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredTime {
    /// Of what.
    pub label: &'static str,
    /// Median over rounds, ns.
    pub ns: f64,
    /// First and third quartile, ns.
    pub quartiles: [f64; 2],
}

/// What a host measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OnHost {
    /// Ratios.
    pub ratios: Vec<MeasuredRatio>,
    /// Times, of this host alone.
    pub times: Vec<MeasuredTime>,
    /// Rounds in which all took turns.
    pub rounds: usize,
}

//! What a row of the option table says.

pub(super) use Class::{Ignored, Modelled, Refused};

/// What an option means to the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Its value shapes the planned jobs.
    Modelled,
    /// It is fio's, and leaving it out changes no request a device would see.
    Ignored,
    /// Leaving it out would change which requests are issued; the text says why it is not modelled. A value
    /// that switches the option off (0, none) is accepted all the same.
    Refused(&'static str),
}

/// What a bare number means in a time option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Not a time: a count or bytes, with k, m, g, t, p and % as suffixes.
    Bytes,
    /// A time; a bare number is microseconds.
    Micros,
    /// A time; a bare number is seconds.
    Secs,
}

/// The kind of value an option takes, named for what fio's own parser does with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Any text but the empty one (`FIO_OPT_STR_STORE`).
    Text,
    /// One of these words, perhaps with a `:` postfix (`FIO_OPT_STR`).
    Choice(&'static [&'static str]),
    /// A comma-separated list of these words (`FIO_OPT_STR_MULTI`).
    Choices(&'static [&'static str]),
    /// Text that the option's own reader checks; may be missing (`FIO_OPT_STR` without values).
    Free,
    /// Like [`Kind::Free`], but the value must be there (`FIO_OPT_STR_ULL`).
    Split,
    /// One to three 32-bit integers for read, write, trim (`FIO_OPT_INT`). A `min` of 0 is no check.
    Int {
        /// Least value, in the unit (microseconds for times).
        min: i64,
        /// Greatest value.
        max: u64,
        /// What a bare number means.
        unit: Unit,
    },
    /// An integer that must be a power of two.
    PowerOfTwo,
    /// One to three 64-bit integers for read, write, trim (`FIO_OPT_ULL`).
    Long {
        /// Least value; 0 is no check.
        min: u64,
        /// What a bare number means.
        unit: Unit,
    },
    /// A 64-bit integer (`FIO_OPT_STR_VAL`).
    Value {
        /// Least value; 0 is no check.
        min: u64,
    },
    /// A 64-bit size, a percentage, or a number of zones with suffix z (`FIO_OPT_STR_VAL_ZONE`).
    Zoned,
    /// A time (`FIO_OPT_STR_VAL_TIME`).
    Time(Unit),
    /// One to three ranges `low-high` for read, write, trim (`FIO_OPT_RANGE`).
    Range,
    /// Numbers separated by colons (`FIO_OPT_FLOAT_LIST`).
    Floats {
        /// How many fio keeps.
        max_len: usize,
        /// Greatest value; the least is 0. `None` is no check.
        max: Option<u32>,
    },
    /// 0 or 1 (`FIO_OPT_BOOL`).
    Bool,
    /// Nothing, or an integer: a bare key switches the option on (`FIO_OPT_STR_SET`).
    Set,
    /// fio knows the name and refuses it.
    Deprecated,
    /// fio knows the name and does nothing.
    SoftDeprecated,
}

/// One option of fio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptionRow {
    /// Its name.
    pub name: &'static str,
    /// Its other names.
    pub aliases: &'static [&'static str],
    /// What value it takes.
    pub kind: Kind,
    /// What the simulator does with it.
    pub class: Class,
    /// fio reads the options of a section in falling order of this, equals in the file's order.
    pub priority: i8,
    /// The engines it belongs to; empty for an option of every job.
    pub engines: &'static [&'static str],
}

impl OptionRow {
    /// Whether `name` is one of this option's names.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    pub(super) const fn priority(mut self, priority: i8) -> Self {
        self.priority = priority;
        self
    }

    pub(super) const fn of(mut self, engines: &'static [&'static str]) -> Self {
        self.engines = engines;
        self
    }
}

pub(super) const TEXT: Kind = Kind::Text;
pub(super) const INT: Kind = int(0, u32::MAX as u64);

pub(super) const fn int(min: i64, max: u64) -> Kind {
    Kind::Int { min, max, unit: Unit::Bytes }
}

pub(super) const fn floats(max_len: usize, max: u32) -> Kind {
    Kind::Floats { max_len, max: Some(max) }
}

pub(super) const fn row(name: &'static str, aliases: &'static [&'static str], kind: Kind, class: Class) -> OptionRow {
    OptionRow { name, aliases, kind, class, priority: 0, engines: &[] }
}

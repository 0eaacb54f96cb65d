//! Opening a recording by what is in it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::str::FromStr;

use super::csv::CsvReader;
use super::oracle_general::OracleGeneral;
use super::{Facts, Item, TraceError, ftrace, native};

/// Bytes read at once.
const BUFFER: usize = 256 << 10;
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The forms that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceFormat {
    /// Text of tracepoints: ftrace, trace-cmd report, perf script.
    Ftrace,
    /// libCacheSim's records.
    OracleGeneral,
    /// Comma-separated values with named columns.
    Csv,
    /// Own binary form: [`native`].
    Native,
}

impl TraceFormat {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Ftrace, Self::OracleGeneral, Self::Csv, Self::Native];

    /// Name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ftrace => "ftrace",
            Self::OracleGeneral => "oracle-general",
            Self::Csv => "csv",
            Self::Native => "hvt",
        }
    }
}

impl FromStr for TraceFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|format| format.name() == name);
        let names = || Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| format!("no trace format is named `{name}`: {}", names()))
    }
}

type Input = BufReader<Box<dyn Read + Send>>;

enum Form {
    Ftrace(Box<ftrace::Reader<Input>>),
    OracleGeneral(Box<OracleGeneral<Input>>),
    Csv(Box<CsvReader<Input>>),
    Native(Box<native::Reader<Input>>),
}

/// A recording that is being read.
pub struct Recording {
    name: String,
    form: Form,
}

impl Recording {
    /// Opens a file, plain or compressed by gzip or zstd. oracleGeneral has nothing in it to know it by: its name must have
    /// `oracleGeneral` in it.
    ///
    /// # Errors
    /// What cannot be opened, and what is none of the forms.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Self::open_as(path, None)
    }

    /// As [`Self::open`], in a form that is known.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_as(path: &Path, format: Option<TraceFormat>) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let mut input = open_input(path, &name)?;
        let start = input.fill_buf().map_err(|source| TraceError::Read { file: name.clone(), offset: 0, source })?;
        let sniffed = sniff(start, &name);
        let form = match format.unwrap_or(sniffed) {
            TraceFormat::Ftrace => Form::Ftrace(Box::new(ftrace::Reader::new(&name, input))),
            TraceFormat::OracleGeneral => Form::OracleGeneral(Box::new(OracleGeneral::new(&name, input))),
            TraceFormat::Csv => Form::Csv(Box::new(CsvReader::new(&name, input)?)),
            TraceFormat::Native => Form::Native(Box::new(native::Reader::new(&name, input)?)),
        };
        Ok(Self { name, form })
    }

    /// The file, as it was named.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its form.
    #[must_use]
    pub const fn format(&self) -> TraceFormat {
        match self.form {
            Form::Ftrace(_) => TraceFormat::Ftrace,
            Form::OracleGeneral(_) => TraceFormat::OracleGeneral,
            Form::Csv(_) => TraceFormat::Csv,
            Form::Native(_) => TraceFormat::Native,
        }
    }

    /// Whether it is keys and nothing else: [`Self::next_keys`] then reads it at speed.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        matches!(self.form, Form::OracleGeneral(_))
    }

    /// The next keys of a plain recording, up to 1024; `false` at the end, and at once for a recording that is not plain.
    ///
    /// # Errors
    /// As [`Self::next_item`].
    pub fn next_keys(&mut self, keys: &mut Vec<u64>) -> Result<bool, TraceError> {
        match &mut self.form {
            Form::OracleGeneral(reader) => reader.next_keys(keys),
            Form::Ftrace(_) | Form::Csv(_) | Form::Native(_) => Ok(false),
        }
    }

    /// The next item, `None` at the end.
    ///
    /// # Errors
    /// A damaged or truncated recording: where, what.
    pub fn next_item(&mut self) -> Result<Option<Item>, TraceError> {
        match &mut self.form {
            Form::Ftrace(reader) => reader.next_item(),
            Form::OracleGeneral(reader) => reader.next_item(),
            Form::Csv(reader) => reader.next_item(),
            Form::Native(reader) => reader.next_item(),
        }
    }

    /// What was read so far; complete once [`Self::next_item`] gave `None`.
    #[must_use]
    pub const fn facts(&self) -> &Facts {
        match &self.form {
            Form::Ftrace(reader) => reader.facts(),
            Form::OracleGeneral(reader) => reader.facts(),
            Form::Csv(reader) => reader.facts(),
            Form::Native(reader) => reader.facts(),
        }
    }
}

/// The form that a file's first bytes and name say.
fn sniff(start: &[u8], name: &str) -> TraceFormat {
    let first_line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if start.starts_with(native::MAGIC) {
        TraceFormat::Native
    } else if name.to_ascii_lowercase().contains("oraclegeneral") {
        TraceFormat::OracleGeneral
    } else if super::csv::is_header(first_line) {
        TraceFormat::Csv
    } else {
        TraceFormat::Ftrace
    }
}

/// Decompresses by the file's first bytes.
fn open_input(path: &Path, file: &str) -> Result<Input, TraceError> {
    let failed = |source| TraceError::Read { file: file.to_owned(), offset: 0, source };
    let mut plain = BufReader::with_capacity(BUFFER, File::open(path).map_err(failed)?);
    let start = plain.fill_buf().map_err(failed)?;
    let input: Box<dyn Read + Send> = if start.starts_with(GZIP) {
        Box::new(flate2::bufread::MultiGzDecoder::new(plain))
    } else if start.starts_with(ZSTD) {
        Box::new(zstd::Decoder::with_buffer(plain).map_err(failed)?)
    } else {
        Box::new(plain)
    };
    Ok(BufReader::with_capacity(BUFFER, input))
}

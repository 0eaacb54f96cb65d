//! Opening a recording by what is in it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::{Facts, Item, TraceError, ftrace};

/// Bytes read at once.
const BUFFER: usize = 256 << 10;
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The forms that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceFormat {
    /// Text of tracepoints.
    Ftrace,
}

type Input = BufReader<Box<dyn Read + Send>>;

enum Form {
    Ftrace(ftrace::Reader<Input>),
}

/// A recording that is being read.
pub struct Recording {
    form: Form,
}

impl Recording {
    /// Opens a file, plain or compressed by gzip or zstd.
    ///
    /// # Errors
    /// What cannot be opened, and what is none of the forms.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file = path.display().to_string();
        let input = open_input(path, &file)?;
        Ok(Self { form: Form::Ftrace(ftrace::Reader::new(&file, input)) })
    }

    /// Its form.
    #[must_use]
    pub const fn format(&self) -> TraceFormat {
        match self.form {
            Form::Ftrace(_) => TraceFormat::Ftrace,
        }
    }

    /// The next item, `None` at the end.
    ///
    /// # Errors
    /// A damaged or truncated recording: where, what.
    pub fn next_item(&mut self) -> Result<Option<Item>, TraceError> {
        match &mut self.form {
            Form::Ftrace(reader) => reader.next_item(),
        }
    }

    /// What was read so far; complete once [`Self::next_item`] gave `None`.
    #[must_use]
    pub const fn facts(&self) -> &Facts {
        match &self.form {
            Form::Ftrace(reader) => reader.facts(),
        }
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

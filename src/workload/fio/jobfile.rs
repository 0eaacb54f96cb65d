//! The first stage: a job file that fio would take as well-formed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::FioError;
use super::lines::{self, OptionLine, RawSection};
use super::number::KbBase;
use super::options::{self, OptionRow};
use super::substitute::substitute;
use super::value::{self, Read, Value};
use super::{engines, options::Kind};

/// fio's own default engine on Linux.
pub(super) const DEFAULT_ENGINE: &str = "psync";

/// One option line, understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The option.
    pub option: &'static OptionRow,
    /// Its value.
    pub value: Value,
    /// The value as written, after substitution; empty for a bare key.
    pub text: String,
    /// The file it stands in.
    pub file: Arc<Path>,
    /// Its line, from 1.
    pub line: u32,
}

/// Whether a section is a job or holds what later jobs start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionKind {
    /// Its options apply to all sections behind it. Any name that begins with `global` makes one.
    Global,
    /// A job.
    Job,
}

/// One section.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// The name between the brackets.
    pub name: String,
    /// The line of the brackets, from 1.
    pub line: u32,
    /// Global or job.
    pub kind: SectionKind,
    /// Its options in the order in which fio applies them.
    pub settings: Vec<Setting>,
}

/// A remark on something that is right but may surprise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// The line it is about, from 1; 0 for the whole file.
    pub line: u32,
    /// The remark.
    pub text: String,
}

/// A well-formed job file.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFile {
    /// The file.
    pub path: PathBuf,
    /// Its sections, in order.
    pub sections: Vec<Section>,
    /// What fio does with this file that its author may not expect.
    pub notes: Vec<Note>,
}

impl JobFile {
    /// Reads a job file. `${VAR}` is taken from the environment of this process.
    ///
    /// # Errors
    /// The file or one it includes cannot be read, is not text, has no job, or is not a job file fio takes:
    /// see [`FioError`].
    pub fn read(path: &Path) -> Result<Self, FioError> {
        let text = lines::read_text(path)?;
        Self::parse_at(path, &text, &|name| std::env::var(name).ok())
    }

    /// Reads a job file from text. `name` stands for the file in messages, and files it includes are looked
    /// for in its folder; `env` gives the value of `${VAR}`.
    ///
    /// # Errors
    /// As [`JobFile::read`].
    pub fn parse(name: &str, text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, FioError> {
        Self::parse_at(Path::new(name), text, env)
    }

    fn parse_at(path: &Path, text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, FioError> {
        let mut reader = Reader { env, global: Inherited::default(), notes: Vec::new() };
        let sections: Vec<Section> =
            lines::sections(path, text)?.into_iter().map(|raw| reader.section(raw)).collect::<Result<_, _>>()?;
        if !sections.iter().any(|section| section.kind == SectionKind::Job) {
            return Err(FioError::NoJob { file: path.to_owned() });
        }
        Ok(Self { path: path.to_owned(), sections, notes: reader.notes })
    }
}

/// What options of a section decide about how its other options are read.
#[derive(Clone)]
struct Inherited {
    engine: String,
    kb: KbBase,
}

impl Default for Inherited {
    fn default() -> Self {
        Self { engine: DEFAULT_ENGINE.to_owned(), kb: KbBase(1024) }
    }
}

struct Reader<'a> {
    env: &'a dyn Fn(&str) -> Option<String>,
    global: Inherited,
    notes: Vec<Note>,
}

/// A line split at its `=`, variables replaced.
struct Assignment {
    key: String,
    value: Option<String>,
    unset: Vec<String>,
    line: OptionLine,
}

impl Reader<'_> {
    fn section(&mut self, raw: RawSection) -> Result<Section, FioError> {
        let kind = if raw.name.starts_with("global") { SectionKind::Global } else { SectionKind::Job };
        let mut lines = raw.lines;
        // Before substitution, as fio does; a stable sort.
        lines.sort_by_key(|line| -i32::from(priority(&line.text)));
        let assignments: Vec<Assignment> =
            lines.into_iter().map(|line| self.assignment(line)).collect::<Result<_, _>>()?;

        let mut state = self.global.clone();
        let mut settings = Vec::with_capacity(assignments.len());
        let mut of_engine = Vec::new();
        for assignment in assignments {
            match options::find_common(&assignment.key) {
                Some(row) => {
                    let setting = self.setting(row, assignment, state.kb)?;
                    state.follow(&setting);
                    settings.push(setting);
                }
                // The engine may be named on a later line.
                None => of_engine.push(assignment),
            }
        }
        for assignment in of_engine {
            let Some(row) = options::find(&assignment.key, engines::option_owner(&state.engine)) else {
                return Err(unknown(assignment, &state.engine));
            };
            // fio always reads an engine's sizes with base 1024.
            settings.push(self.setting(row, assignment, KbBase(1024))?);
        }
        if kind == SectionKind::Global {
            self.global = state;
        }
        Ok(Section { name: raw.name, line: raw.line, kind, settings })
    }

    fn assignment(&mut self, line: OptionLine) -> Result<Assignment, FioError> {
        let Some(replaced) = substitute(&line.text, self.env) else {
            let (key, value) = line.text.split_once('=').unwrap_or((&line.text, ""));
            return Err(FioError::BadValue {
                option: key.trim().to_owned(),
                value: value.to_owned(),
                right: "next to a keyword, write whole numbers with + - * / and parentheses".to_owned(),
                file: line.file.to_path_buf(),
                line: line.line,
            });
        };
        for name in &replaced.unset {
            self.note(line.line, format!("variable {name} is not set; fio puts nothing in its place"));
        }
        for keyword in &replaced.keywords {
            self.note(line.line, format!("{keyword} is that of the simulated guest, not of this host"));
        }
        let (key, value) = match replaced.text.split_once('=') {
            Some((key, value)) => (lines::strip_end(key).to_owned(), Some(value.to_owned())),
            None => (replaced.text, None),
        };
        Ok(Assignment { key, value, unset: replaced.unset, line })
    }

    fn setting(&mut self, row: &'static OptionRow, from: Assignment, kb: KbBase) -> Result<Setting, FioError> {
        match value::read(row, from.value.as_deref(), kb) {
            Read::Good(value, ignored) => {
                if options::is_of_profile(row) {
                    self.note(
                        from.line.line,
                        format!("{} belongs to a built-in profile; fio takes it here and does nothing", row.name),
                    );
                }
                let text = from.value.unwrap_or_default();
                if let Some(ignored) = ignored {
                    let taken = describe(row.kind, &value);
                    let name = row.name;
                    self.note(
                        from.line.line,
                        format!("fio takes `{text}` of {name} for {taken}: it passes over `{ignored}`"),
                    );
                }
                Ok(Setting { option: row, value, text, file: from.line.file, line: from.line.line })
            }
            Read::Bad(right) => {
                let right = match from.unset.first() {
                    Some(name) => format!("the environment variable {name} is not set: set it; {right}"),
                    None if from.value.is_none() => format!("this option needs a value: {right}"),
                    None => right,
                };
                Err(FioError::BadValue {
                    file: from.line.file.to_path_buf(),
                    line: from.line.line,
                    option: from.key,
                    value: from.value.unwrap_or_default(),
                    right,
                })
            }
        }
    }

    fn note(&mut self, line: u32, text: String) {
        self.notes.push(Note { line, text });
    }
}

impl Inherited {
    fn follow(&mut self, setting: &Setting) {
        match (setting.option.name, &setting.value) {
            ("ioengine", Value::Text(text)) => self.engine = engine_name(text).to_owned(),
            ("kb_base", Value::Word(word)) => self.kb = KbBase(if *word == "1000" { 1000 } else { 1024 }),
            _ => {}
        }
    }
}

/// The engine's name without what may follow a colon.
pub(super) fn engine_name(text: &str) -> &str {
    text.split(':').next().unwrap_or(text)
}

fn priority(line: &str) -> i8 {
    let key = line.split('=').next().unwrap_or(line);
    options::find_common(lines::strip_end(key)).map_or(0, |row| row.priority)
}

/// A number as fio took it, for a note.
fn describe(kind: Kind, value: &Value) -> String {
    let Value::Numbers(numbers) = value else { return "what it is".to_owned() };
    let numbers: Vec<String> = numbers.iter().flatten().map(i64::to_string).collect();
    let unit = match kind {
        Kind::Time(_) => " microseconds",
        Kind::Int { unit, .. } | Kind::Long { unit, .. } if unit != options::Unit::Bytes => " microseconds",
        _ => "",
    };
    format!("{}{unit}", numbers.join(","))
}

fn unknown(from: Assignment, engine: &str) -> FioError {
    let owners = options::engines_with(&from.key);
    let suggestion = options::suggest(&from.key).filter(|_| owners.is_empty());
    let right = match (suggestion, owners.as_slice()) {
        (Some(name), _) => format!("did you mean `{name}`?"),
        (None, []) => "fio --cmdhelp=all lists them".to_owned(),
        (None, owners) => format!("it is an option of ioengine={}, and this job has {engine}", owners.join(", ")),
    };
    FioError::UnknownOption {
        file: from.line.file.to_path_buf(),
        line: from.line.line,
        option: from.key,
        suggestion,
        right,
    }
}

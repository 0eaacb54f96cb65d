//! The options of one job: those of the global sections before it, then its own.

use super::checks::{READ, WRITE};
use super::error::FioError;
use super::jobfile::{JobFile, Section, Setting};
use super::value::Value;

/// The options that apply to a job, later ones last.
pub(super) struct Effective<'a> {
    pub(super) file: &'a JobFile,
    pub(super) section: &'a Section,
    pub(super) settings: Vec<&'a Setting>,
}

impl<'a> Effective<'a> {
    /// The setting that holds, the last one.
    pub(super) fn setting(&self, name: &str) -> Option<&'a Setting> {
        self.settings.iter().rev().find(|setting| setting.option.name == name).copied()
    }

    /// All settings of one option, first to last.
    pub(super) fn all<'b>(&'b self, name: &'b str) -> impl Iterator<Item = &'a Setting> + 'b {
        self.settings.iter().filter(move |setting| setting.option.name == name).copied()
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(self.setting(name), Some(Setting { value: Value::Flag(true), .. }))
    }

    pub(super) fn word(&self, name: &str) -> Option<&'static str> {
        match self.setting(name)?.value {
            Value::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(super) fn text(&self, name: &str) -> &'a str {
        self.setting(name).map_or("", |setting| setting.text.as_str())
    }

    pub(super) fn float(&self, name: &str) -> Option<f64> {
        match &self.setting(name)?.value {
            Value::Floats(values) => values.first().copied(),
            _ => None,
        }
    }

    /// The numbers of an option for read and write. An empty part leaves what was there before, and the last
    /// part given holds for those behind it.
    pub(super) fn pair(&self, name: &str) -> [Option<i64>; 2] {
        let mut pair = [None, None];
        for setting in self.all(name) {
            let Value::Numbers(numbers) = &setting.value else { continue };
            if let Some(first) = numbers.first().copied().flatten() {
                pair[READ] = Some(first);
            }
            match numbers.as_slice() {
                [Some(only)] => pair[WRITE] = Some(*only),
                [_, Some(second), ..] => pair[WRITE] = Some(*second),
                _ => {}
            }
        }
        pair
    }

    /// The first number of an option.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.pair(name)[READ]
    }

    /// The number of an option that keeps the last part of a list, as options with a reader of their own do.
    pub(super) fn last_number(&self, name: &str) -> Option<i64> {
        match &self.setting(name)?.value {
            Value::Numbers(numbers) => numbers.iter().rev().flatten().next().copied(),
            _ => None,
        }
    }

    /// A number of an option as a count, at least `least` and at most `most`.
    pub(super) fn count(&self, name: &str, default: u32, least: u32, most: u32) -> Result<u32, FioError> {
        let Some(number) = self.number(name) else { return Ok(default) };
        u32::try_from(number).ok().filter(|count| (least..=most).contains(count)).ok_or_else(|| {
            self.impossible(
                name,
                format!("{number} cannot be simulated"),
                format!("write a number from {least} to {most}"),
            )
        })
    }

    /// A time option in nanoseconds.
    pub(super) fn time(&self, name: &str) -> Result<u64, FioError> {
        let micros = self.last_or_first_time(name);
        u64::try_from(micros).ok().and_then(|micros| micros.checked_mul(1_000)).ok_or_else(|| {
            self.impossible(
                name,
                format!("{micros} microseconds is no length of time"),
                "write a time as 10s or 500ms".to_owned(),
            )
        })
    }

    fn last_or_first_time(&self, name: &str) -> i64 {
        self.number(name).unwrap_or(0)
    }

    /// The error for a value that is fine with fio and impossible here.
    pub(super) fn impossible(&self, option: &str, problem: String, right: String) -> FioError {
        FioError::Impossible {
            file: self.setting(option).map_or_else(|| self.file.path.clone(), |setting| setting.file.to_path_buf()),
            section: self.section.name.as_str().into(),
            line: self.line(option),
            option: option.into(),
            problem,
            right,
        }
    }

    /// The error for something of fio's that is not modelled.
    pub(super) fn not_modelled(&self, option: &str, why: &str) -> FioError {
        let setting = self.setting(option);
        let text = setting.map_or("", |setting| setting.text.as_str());
        FioError::NotModelled {
            file: setting.map_or_else(|| self.file.path.clone(), |setting| setting.file.to_path_buf()),
            section: self.section.name.as_str().into(),
            line: self.line(option),
            what: if text.is_empty() { option.to_owned() } else { format!("{option}={text}") },
            why: why.to_owned(),
        }
    }

    /// The line of an option, or of the section when it is not set.
    pub(super) fn line(&self, option: &str) -> u32 {
        self.setting(option).map_or(self.section.line, |setting| setting.line)
    }
}

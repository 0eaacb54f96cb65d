//! An option's value, read by its kind the way fio's own parser reads it.

use super::checks;
use super::number::{self, KbBase, as_signed, as_unsigned};
use super::options::{Kind, OptionRow, Unit};

/// A value as fio understood it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text, or nothing for an option that may stand alone.
    Text(String),
    /// One of the option's words.
    Word(&'static str),
    /// Numbers, one for each part; `None` where a part was left empty. Times are microseconds, a percentage
    /// p is −1 − p.
    Numbers(Vec<Option<i64>>),
    /// A number of zones (suffix z).
    Zones(u64),
    /// Ranges from low to high, one for each part.
    Ranges(Vec<Option<(i64, i64)>>),
    /// Numbers with a fraction.
    Floats(Vec<f64>),
    /// A switch.
    Flag(bool),
    /// fio takes the option and does nothing.
    Nothing,
}

/// What came of reading a value.
pub(super) enum Read {
    /// Understood; the text tells of a part that fio passes over in silence.
    Good(Value, Option<String>),
    /// Not a value of the option. The text says what would be right.
    Bad(String),
}

/// How one part of a value failed. fio takes a value when any part is good, so a silent failure next to a
/// good part is none; a failure it prints a complaint about is one all the same.
enum Failure {
    Silent,
    Loud,
}

/// Reads `text`, the part behind `=`, or `None` for a bare key.
pub(super) fn read(row: &OptionRow, text: Option<&str>, kb: KbBase) -> Read {
    let bad = || Read::Bad(right(row));
    match row.kind {
        Kind::SoftDeprecated => return Read::Good(Value::Nothing, None),
        Kind::Deprecated => return Read::Bad("fio has dropped this option; leave it out".to_owned()),
        Kind::Free => {
            return match checks::check(row.name, text.unwrap_or(""), kb) {
                Ok(()) => Read::Good(Value::Text(text.unwrap_or("").to_owned()), None),
                Err(right) => Read::Bad(right),
            };
        }
        Kind::Set if text.is_none() => return Read::Good(Value::Flag(true), None),
        _ => {}
    }
    let Some(text) = text else { return bad() };
    match row.kind {
        Kind::Text if text.is_empty() || (row.name == "filename" && text.len() >= 4096) => bad(),
        Kind::Text => Read::Good(Value::Text(text.to_owned()), None),
        Kind::Split => match checks::check(row.name, text, kb) {
            Ok(()) => Read::Good(Value::Text(text.to_owned()), None),
            Err(right) => Read::Bad(right),
        },
        Kind::Choice(words) => match words.iter().find(|word| is_word(word, text)) {
            Some(word) => match checks::check_choice(row.name, word, text, kb) {
                Ok(()) => Read::Good(Value::Word(word), None),
                Err(right) => Read::Bad(right),
            },
            None => bad(),
        },
        Kind::Choices(words) => {
            let known = |part: &&str| words.iter().any(|word| is_word(word, part));
            if parts(row.kind, text).iter().any(known) { Read::Good(Value::Text(text.to_owned()), None) } else { bad() }
        }
        Kind::Zoned if text.ends_with('z') => match text.strip_suffix('z').map(str::parse) {
            Some(Ok(zones)) => Read::Good(Value::Zones(zones), None),
            _ => bad(),
        },
        Kind::Range => collect(row, text, |part, _| range(part, kb).ok_or(Failure::Silent), Value::Ranges),
        Kind::Bool => collect_flag(row, text, Some(1)),
        Kind::Set => collect_flag(row, text, None),
        Kind::Floats { max_len, max } => {
            let values: Option<Vec<f64>> = text
                .split(':')
                .map(|part| number::float(part).filter(|v| max.is_none_or(|m| (0.0..=f64::from(m)).contains(v))))
                .collect();
            values.filter(|v| v.len() <= max_len).map_or_else(bad, |v| Read::Good(Value::Floats(v), None))
        }
        _ => collect(row, text, |part, _| integer(row.kind, part, kb), Value::Numbers).with_ignored(row, text),
    }
    .checked(row)
}

impl Read {
    /// Names what fio passes over behind a number.
    fn with_ignored(self, row: &OptionRow, text: &str) -> Self {
        match self {
            Self::Good(value, None) => {
                let ignored = parts(row.kind, text)
                    .iter()
                    .find_map(|part| number::ignored_part(cut_at_comma(part), unit(row.kind)));
                Self::Good(value, ignored)
            }
            other => other,
        }
    }

    /// The one check on a number that is neither a range nor a word.
    fn checked(self, row: &OptionRow) -> Self {
        match &self {
            Self::Good(Value::Numbers(numbers), _) if row.name == "io_size" => {
                let over = |n: &i64| (-1001..-101).contains(n);
                if numbers.iter().flatten().any(over) {
                    Self::Bad("io_size takes at most 100%".to_owned())
                } else {
                    self
                }
            }
            _ => self,
        }
    }
}

/// fio's comparison of a word with the front of a value: a `:` or `,` may follow the word.
pub(super) fn is_word(word: &str, text: &str) -> bool {
    let length = text.find(',').or_else(|| text.find(':')).unwrap_or(text.len());
    text.starts_with(word) && length <= word.len()
}

/// The parts of a value. Each goes on to the end of the text: the readers stop where their number stops.
fn parts(kind: Kind, text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let comma = rest.find(',');
        let trailing = comma == Some(rest.len().wrapping_sub(1));
        let separator = match kind {
            Kind::Choices(_) | Kind::Range => comma,
            _ => comma.or_else(|| rest.find(':')).or_else(|| rest.find('-')),
        };
        parts.push(if trailing { &rest[..rest.len() - 1] } else { rest });
        match separator {
            Some(at) => rest = &rest[at + 1..],
            None => return parts,
        }
    }
}

fn collect<T>(
    row: &OptionRow,
    text: &str,
    read: impl Fn(&str, usize) -> Result<T, Failure>,
    wrap: fn(Vec<Option<T>>) -> Value,
) -> Read {
    let mut values = Vec::new();
    for (index, part) in parts(row.kind, text).into_iter().enumerate() {
        match read(part, index) {
            Ok(value) => values.push(Some(value)),
            Err(Failure::Silent) => values.push(None),
            Err(Failure::Loud) => return Read::Bad(right(row)),
        }
    }
    if values.iter().all(Option::is_none) { Read::Bad(right(row)) } else { Read::Good(wrap(values), None) }
}

fn collect_flag(row: &OptionRow, text: &str, max: Option<i32>) -> Read {
    let mut first = None;
    for part in parts(row.kind, text) {
        match number::leading_int(part) {
            Some(value) if max.is_some_and(|max| value > max) => return Read::Bad(right(row)),
            Some(value) => first = first.or(Some(value != 0)),
            None => {}
        }
    }
    first.map_or_else(|| Read::Bad(right(row)), |flag| Read::Good(Value::Flag(flag), None))
}

fn cut_at_comma(text: &str) -> &str {
    let text = text.split(',').next().unwrap_or(text);
    // fio copies a number into 127 bytes first.
    text.get(..127).unwrap_or(text)
}

fn range(part: &str, kb: KbBase) -> Option<(i64, i64)> {
    let (low, high) = cut_at_comma(part).split_once('-').or_else(|| cut_at_comma(part).split_once(':'))?;
    let (low, high) = (number::decimal(low, Unit::Bytes, kb)?, number::decimal(high, Unit::Bytes, kb)?);
    Some((low.min(high), low.max(high)))
}

const fn unit(kind: Kind) -> Unit {
    match kind {
        Kind::Int { unit, .. } | Kind::Long { unit, .. } | Kind::Time(unit) => unit,
        _ => Unit::Bytes,
    }
}

fn integer(kind: Kind, part: &str, kb: KbBase) -> Result<i64, Failure> {
    if part.ends_with('z') {
        return Err(Failure::Loud);
    }
    let value = number::decimal(cut_at_comma(part), unit(kind), kb).ok_or(Failure::Silent)?;
    let good = match kind {
        // fio compares the low 32 bits, and keeps no more.
        Kind::Int { min, max, .. } => {
            let low = number::low_bits(as_unsigned(value));
            let signed = i64::from(as_signed(low));
            let too_large =
                if signed < 0 { max < 1 << 31 && i128::from(signed) > i128::from(max) } else { u64::from(low) > max };
            !too_large && (min == 0 || signed >= min)
        }
        Kind::PowerOfTwo => as_unsigned(value).is_power_of_two(),
        Kind::Long { min, .. } | Kind::Value { min } => as_unsigned(value) >= min,
        _ => true,
    };
    if !good {
        return Err(Failure::Loud);
    }
    Ok(match kind {
        Kind::Int { .. } => i64::from(as_signed(number::low_bits(as_unsigned(value)))),
        _ => value,
    })
}

/// What a right value would be.
pub(super) fn right(row: &OptionRow) -> String {
    let unit_words = |unit| match unit {
        Unit::Bytes => "",
        Unit::Micros => " of microseconds, or with a suffix us, ms, s, m, h, d",
        Unit::Secs => " of seconds, or with a suffix us, ms, s, m, h, d",
    };
    match row.kind {
        Kind::Text => "write some text after the =".to_owned(),
        Kind::Choice(words) | Kind::Choices(words) => format!("its values are {}", words.join(", ")),
        Kind::Free | Kind::Split => "its values are in fio's manual".to_owned(),
        Kind::Int { min: 0, max, unit } if max == u64::from(u32::MAX) => format!("write a number{}", unit_words(unit)),
        Kind::Int { min, max, .. } if max == u64::from(u32::MAX) => format!("write a number from {min} up"),
        Kind::Int { min, max, .. } => format!("write a number from {min} to {max}"),
        Kind::PowerOfTwo => "write a power of two".to_owned(),
        Kind::Long { min, unit } if min > 0 => format!("write a number from {min} up{}", unit_words(unit)),
        Kind::Long { unit, .. } | Kind::Time(unit) => format!("write a number{}", unit_words(unit)),
        Kind::Value { min } if min > 0 => format!("write a number from {min} up, as 4096, 4k or 1m"),
        Kind::Value { .. } => "write a number, as 4096, 4k or 1m".to_owned(),
        Kind::Zoned => "write a size as 64m or 1g, or a percentage as 50%".to_owned(),
        Kind::Range => "write a range as 4k-64k".to_owned(),
        Kind::Floats { max: Some(max), .. } => format!("write numbers from 0 to {max}, separated by colons"),
        Kind::Floats { max: None, .. } => "write numbers separated by colons".to_owned(),
        Kind::Bool => "write 0 or 1".to_owned(),
        Kind::Set => "write the option alone, or =0 or =1".to_owned(),
        Kind::Deprecated | Kind::SoftDeprecated => "leave it out".to_owned(),
    }
}

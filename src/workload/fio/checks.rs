//! Checks that single options make on their values, and the readers for their small languages.

use super::number::{self, KbBase};
use super::options::Unit;

/// Direction of a part of a value that comes as read, write, trim.
pub(super) const READ: usize = 0;
/// See [`READ`].
pub(super) const WRITE: usize = 1;
const DIRECTIONS: usize = 3;

/// Checks the value of an option that reads its text itself.
pub(super) fn check(option: &str, text: &str, kb: KbBase) -> Result<(), String> {
    match option {
        "bssplit" => block_split(text, kb).map(|_| ()),
        "buffer_pattern" => pattern(text, Formats::None),
        "verify_pattern" => pattern(text, Formats::Offset),
        _ => Ok(()),
    }
}

/// Checks what follows a word, as `zipf:1.2`.
pub(super) fn check_choice(option: &str, word: &str, text: &str, kb: KbBase) -> Result<(), String> {
    match option {
        "random_distribution" | "file_service_type" => match word {
            "zoned" => zone_split(text, Zones::Percent, kb).map(|_| ()),
            "zoned_abs" => zone_split(text, Zones::Bytes, kb).map(|_| ()),
            "zipf" | "pareto" | "normal" | "gauss" => shape(word, text).map(|_| ()),
            _ => Ok(()),
        },
        "steadystate" => steady_state(word, text, kb),
        _ => Ok(()),
    }
}

/// What follows the first colon, without blank space around it.
pub(super) fn postfix(text: &str) -> Option<&str> {
    let (_, postfix) = text.split_once(':')?;
    Some(super::lines::strip_end(postfix.trim_start_matches(super::lines::is_space)))
}

/// The parameter and the optional centre of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) parameter: f64,
    pub(super) center: Option<f64>,
}

/// Reads `zipf:theta:center` and its kin. Parameters that are left out are fio's own: 1.1, 0.2, 0.
pub(super) fn shape(word: &str, text: &str) -> Result<Shape, String> {
    let default = match word {
        "zipf" => 1.1,
        "pareto" => 0.2,
        _ => 0.0,
    };
    let mut shape = Shape { parameter: default, center: None };
    if let Some(given) = postfix(text) {
        let (parameter, center) = given.split_once(':').map_or((given, None), |(p, c)| (p, Some(c)));
        let number = || format!("write {word}:NUMBER or {word}:NUMBER:CENTER");
        shape.parameter = number::float(parameter).ok_or_else(number)?;
        if let Some(center) = center {
            // −1 is fio's own mark for a centre that is not given.
            shape.center = Some(number::float(center).ok_or_else(number)?).filter(|center| *center != -1.0);
        }
    }
    if shape.center.is_some_and(|center| !(0.0..=1.0).contains(&center)) {
        return Err("the centre of a distribution is from 0 to 1".to_owned());
    }
    match word {
        "zipf" if shape.parameter == 1.0 => Err("theta of zipf is any number but 1".to_owned()),
        "pareto" if !(shape.parameter > 0.0 && shape.parameter < 1.0) => {
            Err("h of pareto is more than 0 and less than 1".to_owned())
        }
        "normal" | "gauss" if !(0.0..100.0).contains(&shape.parameter) => {
            Err("the deviation of normal is a percentage from 0, less than 100".to_owned())
        }
        _ => Ok(shape),
    }
}

/// A value for read, write and trim: two parts are read and write, one is for all.
fn by_direction<T>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<[T; DIRECTIONS], String> {
    match text.split_once(',') {
        None => Ok([read(text)?, read(text)?, read(text)?]),
        Some((first, rest)) => match rest.split_once(',') {
            None => Ok([read(first)?, read(rest)?, read(rest)?]),
            Some((second, third)) => Ok([read(first)?, read(second)?, read(third)?]),
        },
    }
}

/// fio keeps this many entries of a split.
const LONGEST_BLOCK_SPLIT: usize = 64;
const LONGEST_ZONE_SPLIT: usize = 256;

/// Entries `first/second` separated by colons. `second` is a percentage, or a size when `sizes`.
fn split_entries(text: &str, zones: Zones, longest: usize, kb: KbBase) -> Result<Vec<(i64, Option<i64>)>, String> {
    let wrong = || "write entries as 4k/60:16k/40".to_owned();
    let mut entries = Vec::new();
    for entry in text.split(':') {
        if entry.is_empty() || entries.len() == longest {
            break;
        }
        let (first, second) = entry.split_once('/').map_or((entry, None), |(first, second)| (first, Some(second)));
        let second = match (second, zones) {
            (Some(second), Zones::Bytes) => Some(number::decimal(second, Unit::Bytes, kb).ok_or_else(wrong)?),
            (None, Zones::Bytes) => Some(0),
            (Some(second), Zones::Percent) => Some(number::atoi(second)).filter(|percent| *percent != 0),
            (None, Zones::Percent) => None,
        };
        entries.push((number::decimal(first, Unit::Bytes, kb).ok_or_else(wrong)?, second));
    }
    Ok(entries)
}

/// One block size of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockShare {
    pub(super) bytes: i64,
    pub(super) percent: u32,
}

/// Reads `bssplit`: shares for read, write, trim, in rising order of their percentage, which is the order in
/// which fio looks one up.
pub(super) fn block_split(text: &str, kb: KbBase) -> Result<[Vec<BlockShare>; DIRECTIONS], String> {
    by_direction(text.trim_matches(super::lines::is_space), |text| {
        let entries = split_entries(text, Zones::Percent, LONGEST_BLOCK_SPLIT, kb)?;
        let percent_of = |percent: i64| u32::try_from(percent.clamp(0, 100)).unwrap_or(100);
        let given: u32 = entries.iter().filter_map(|(_, percent)| percent.map(percent_of)).sum();
        let open = entries.iter().filter(|(_, percent)| percent.is_none()).count();
        if given > 100 && open > 1 {
            return Err("the percentages of a split are 100 at most".to_owned());
        }
        let share =
            u32::try_from(open).ok().and_then(|open| 100u32.saturating_sub(given).checked_div(open)).unwrap_or(0);
        let mut shares: Vec<BlockShare> = entries
            .iter()
            .map(|(bytes, percent)| BlockShare { bytes: *bytes, percent: percent.map_or(share, percent_of) })
            .collect();
        shares.sort_by_key(|share| share.percent);
        Ok(shares)
    })
}

/// What the second number of a zone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Zones {
    /// A percentage of the file.
    Percent,
    /// Bytes.
    Bytes,
}

/// One zone of a zoned distribution: its share of the accesses, and its size (percent or bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ZoneShare {
    pub(super) access_percent: u32,
    pub(super) size: u64,
}

/// Reads `zoned:50/5:30/15:20/`.
pub(super) fn zone_split(text: &str, zones: Zones, kb: KbBase) -> Result<[Vec<ZoneShare>; DIRECTIONS], String> {
    let Some((_, text)) = text.split_once(':') else {
        return Err("write zoned:ACCESS/SIZE:ACCESS/SIZE, in percent".to_owned());
    };
    by_direction(text, |text| {
        let entries = split_entries(text, zones, LONGEST_ZONE_SPLIT, kb)?;
        // fio keeps both percentages in a byte.
        let byte = |value: i64| u32::try_from(value & 0xff).unwrap_or(0);
        let access: u32 = entries.iter().map(|(access, _)| byte(*access)).sum();
        if !entries.is_empty() && access != 100 {
            return Err("the access percentages of a zoned distribution add up to 100".to_owned());
        }
        let capped = |size: i64| byte(size.clamp(-255, 100));
        let given: u32 = entries.iter().filter_map(|(_, size)| size.map(capped)).sum();
        if zones == Zones::Percent && given > 100 {
            return Err("the size percentages of a zoned distribution are 100 at most".to_owned());
        }
        let open = u32::try_from(entries.iter().filter(|(_, size)| size.is_none()).count()).unwrap_or(u32::MAX);
        let share = 100u32.saturating_sub(given).checked_div(open).unwrap_or(0);
        Ok(entries
            .iter()
            .map(|(access, size)| ZoneShare {
                access_percent: byte(*access),
                size: match (size, zones) {
                    (Some(size), Zones::Bytes) => u64::try_from(*size).unwrap_or(0),
                    (Some(size), Zones::Percent) => u64::from(capped(*size)),
                    (None, _) => u64::from(share),
                },
            })
            .collect())
    })
}

fn steady_state(word: &str, text: &str, kb: KbBase) -> Result<(), String> {
    let wrong = || format!("write {word}:LIMIT, as iops:100 or bw_slope:0.3%");
    let limit = postfix(text).ok_or_else(wrong)?;
    let good = match limit.split_once('%') {
        Some((percent, _)) => number::float(percent).is_some(),
        None if word.starts_with("iops") => number::float(limit).is_some(),
        None => number::decimal(limit, Unit::Bytes, kb).is_some(),
    };
    if good { Ok(()) } else { Err(wrong()) }
}

/// Whether a data pattern may hold `%o`, the block's offset.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Formats {
    None,
    Offset,
}

/// fio keeps this many bytes of a pattern.
const LONGEST_PATTERN: usize = 512;

/// Checks a data pattern: quoted strings, hexadecimal bytes, decimal numbers, names of files in single
/// quotes (which are not opened here).
fn pattern(text: &str, formats: Formats) -> Result<(), String> {
    let wrong = || "write a pattern as 0xdeadbeef, -10 or \"abc\"".to_owned();
    let mut rest = text;
    let mut bytes = 0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let (length, filled) = pattern_piece(rest, formats).ok_or_else(wrong)?;
        rest = &rest[length..];
        bytes += filled;
        if filled == 0 || bytes > LONGEST_PATTERN {
            return Err(wrong());
        }
    }
    Ok(())
}

/// The length of the piece in front of `text`, and how many bytes of pattern it stands for.
fn pattern_piece(text: &str, formats: Formats) -> Option<(usize, usize)> {
    let quoted = |quote: char| text[1..].find(quote).map(|end| (end + 2, end));
    match text.as_bytes()[0] {
        b'\'' => quoted('\'').map(|(length, _)| (length, 1)),
        b'"' => quoted('"'),
        b'%' => (formats == Formats::Offset && text.starts_with("%o")).then_some((2, 8)),
        b'0' if text[1..].starts_with(['x', 'X']) => {
            let digits = text[2..].bytes().take_while(u8::is_ascii_hexdigit).count();
            // In 0xff0x14 the second 0 opens the next number.
            let next = text.as_bytes().get(2 + digits).is_some_and(|byte| matches!(byte, b'x' | b'X'));
            let digits = if next { digits - 1 } else { digits };
            (digits > 0).then_some((2 + digits, digits.div_ceil(2)))
        }
        _ => {
            let end = text.to_ascii_lowercase().find("0x").unwrap_or(text.len());
            let front = &text[..end];
            let blank = front.len() - front.trim_start_matches(super::lines::is_space).len();
            let sign = usize::from(front[blank..].starts_with(['-', '+']));
            let digits = front[blank + sign..].bytes().take_while(u8::is_ascii_digit).count();
            let length = blank + sign + digits;
            let value: i64 = front[blank..length].parse().ok()?;
            i32::try_from(value).ok().map(|value| {
                let zeros = usize::try_from(value.leading_zeros() / 8).unwrap_or(0);
                (length, (4 - zeros).max(1))
            })
        }
    }
}

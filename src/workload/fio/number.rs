//! Numbers as fio reads them: C's prefix parsing, size and time suffixes.

use super::expression;
use super::options::Unit;

/// How many bytes `k` stands for: `kb_base`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KbBase(pub(super) u64);

/// A percentage `p%` is kept as −1 − p, the way fio keeps it in an unsigned number.
pub(super) fn percentage(value: i64) -> Option<u32> {
    (-101..=-1).contains(&value).then(|| u32::try_from(-1 - value).unwrap_or(0))
}

/// A number with an optional suffix. Like fio, takes what it can from the front and ignores the rest.
/// `None` when there is no number in front, or it is beyond 64 bits.
pub(super) fn decimal(text: &str, unit: Unit, kb: KbBase) -> Option<i64> {
    let evaluated = if text.starts_with('(') { expression::evaluate(text, unit) } else { None };
    let value = match evaluated {
        Some(value) if unit == Unit::Secs => value.integer / 1_000_000,
        Some(value) => value.integer,
        None => leading_integer(text)?,
    };
    match unit {
        Unit::Bytes => Some(match byte_multiplier(text, kb) {
            Multiplier::Percent => (-1i64).wrapping_sub(value),
            Multiplier::Times(factor) => value.wrapping_mul(factor),
        }),
        Unit::Micros | Unit::Secs => Some(value.wrapping_mul(time_multiplier(text, unit))),
    }
}

/// How fio begins to read a number: base 16 when the text holds `0x` anywhere, whether it is negative, and what
/// follows white space and sign.
fn radix_and_sign(text: &str) -> (u32, bool, &str) {
    let radix = if text.contains("0x") || text.contains("0X") { 16 } else { 10 };
    let unsigned = text.trim_start_matches(super::lines::is_space);
    match unsigned.as_bytes().first() {
        Some(b'-') => (radix, true, &unsigned[1..]),
        Some(b'+') => (radix, false, &unsigned[1..]),
        _ => (radix, false, unsigned),
    }
}

/// C's `strtoll`, base 16 when the text holds `0x` anywhere.
fn leading_integer(text: &str) -> Option<i64> {
    let (radix, negative, mut digits) = radix_and_sign(text);
    if radix == 16 {
        let bare = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
        digits = bare.filter(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit())).unwrap_or(digits);
    }
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    if end == 0 {
        return None;
    }
    match i64::from_str_radix(&digits[..end], radix) {
        Ok(value) if negative => Some(-value),
        Ok(value) => Some(value),
        // strtoll stops at the end of the range; fio notices that at the upper end only.
        Err(_) if negative => Some(i64::MIN),
        Err(_) => None,
    }
}

enum Multiplier {
    Times(i64),
    Percent,
}

fn byte_multiplier(text: &str, kb: KbBase) -> Multiplier {
    let Some(suffix) = byte_suffix(text) else { return Multiplier::Times(1) };
    let end = suffix.find([':', '-', ',', '/']).unwrap_or(suffix.len());
    let suffix = suffix[..end].to_ascii_lowercase();
    if suffix.starts_with('%') {
        return Multiplier::Percent;
    }
    let power = match suffix.as_bytes().first() {
        Some(b'k') => 1,
        Some(b'm') => 2,
        Some(b'g') => 3,
        Some(b't') => 4,
        Some(b'p') => 5,
        _ => 0,
    };
    // With kb_base=1024 fio has the two kinds of unit the other way round: 1k is 1024 and 1kib is 1000.
    let other_base = if kb.0 == 1000 { 1024 } else { 1000 };
    let base = if suffix.get(1..3) == Some("ib") { other_base } else { kb.0 };
    Multiplier::Times((0..power).fold(1i64, |product, _| product.wrapping_mul(i64::try_from(base).unwrap_or(1024))))
}

/// What follows the digits, if it is a letter or a percent sign. Blank space before the number hides the
/// suffix: fio reads `bs= 4k` as 4 bytes.
fn byte_suffix(text: &str) -> Option<&str> {
    let mut digit_seen = false;
    let end = text
        .find(|c: char| {
            let digit = c.is_ascii_digit();
            let goes_on = digit || (!digit_seen && (c == '+' || c == '-'));
            digit_seen |= digit;
            !goes_on
        })
        .unwrap_or(text.len());
    let suffix = &text[end..];
    (text.len() >= 2 && suffix.starts_with(|c: char| c.is_ascii_alphabetic() || c == '%')).then_some(suffix)
}

/// Microseconds per unit. A word fio does not know (`sec`, `min`) is microseconds.
fn time_multiplier(text: &str, unit: Unit) -> i64 {
    let suffix = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '+' || c == '-');
    if !suffix.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return if unit == Unit::Secs { 1_000_000 } else { 1 };
    }
    match suffix.to_ascii_lowercase().as_str() {
        s if s.starts_with("us") => 1,
        s if s.starts_with("ms") => 1_000,
        "s" => 1_000_000,
        "m" => 60 * 1_000_000,
        "h" => 3_600 * 1_000_000,
        "d" => 86_400 * 1_000_000,
        _ => 1,
    }
}

/// The part of a number's text that fio passes over without a word, if there is one.
pub(super) fn ignored_part(text: &str, unit: Unit) -> Option<String> {
    if text.starts_with('(') || text.contains("0x") || text.contains("0X") {
        return None;
    }
    if text.starts_with(super::lines::is_space) {
        return Some(
            text.trim_matches(super::lines::is_space).trim_start_matches(|c: char| c.is_ascii_digit()).to_owned(),
        )
        .filter(|rest| !rest.is_empty());
    }
    let suffix = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '+' || c == '-');
    let end = suffix.find([':', '-', ',', '/']).unwrap_or(suffix.len());
    let suffix = suffix[..end].to_ascii_lowercase();
    let known = match unit {
        Unit::Bytes => match suffix.strip_prefix(['k', 'm', 'g', 't', 'p']) {
            Some(rest) => matches!(rest, "" | "b" | "i" | "ib"),
            None => matches!(suffix.as_str(), "" | "b" | "%" | "z"),
        },
        Unit::Micros | Unit::Secs => {
            matches!(suffix.as_str(), "" | "us" | "usec" | "ms" | "msec" | "s" | "m" | "h" | "d")
        }
    };
    (!known).then_some(suffix)
}

/// C's `sscanf("%u")` into an `int`, or `%x` when the text holds `0x` anywhere.
pub(super) fn leading_int(text: &str) -> Option<i32> {
    let (radix, negative, mut digits) = radix_and_sign(text);
    if radix == 16 {
        digits = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")).unwrap_or(digits);
    }
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    if end == 0 {
        return None;
    }
    let value = u64::from_str_radix(&digits[..end], radix).unwrap_or(u64::MAX);
    let value = if negative { value.wrapping_neg() } else { value };
    Some(as_signed(low_bits(value)))
}

/// The same bits as an unsigned number.
pub(super) const fn as_unsigned(value: i64) -> u64 {
    u64::from_ne_bytes(value.to_ne_bytes())
}

/// The same bits as a signed number.
pub(super) const fn as_signed(value: u32) -> i32 {
    i32::from_ne_bytes(value.to_ne_bytes())
}

/// The low 32 bits, which is what C's assignment to an `int` keeps.
pub(super) fn low_bits(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).unwrap_or(0)
}

/// C's `atoi`, without its undefined cases.
pub(super) fn atoi(text: &str) -> i64 {
    leading_decimal(text).unwrap_or(0)
}

fn leading_decimal(text: &str) -> Option<i64> {
    let text = text.trim_start_matches(super::lines::is_space);
    let digits_from = usize::from(text.starts_with(['-', '+']));
    let end = text[digits_from..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |end| end + digits_from);
    text[..end].parse().ok()
}

/// C's `sscanf("%lf")`: the longest number in front. An expression in parentheses is worked out.
pub(super) fn float(text: &str) -> Option<f64> {
    if text.starts_with('(') {
        if let Some(value) = expression::evaluate(text, Unit::Bytes) {
            return Some(value.float);
        }
    }
    let text = text.trim_start_matches(super::lines::is_space);
    let bytes = text.as_bytes();
    let mut end = usize::from(text.starts_with(['-', '+']));
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(end);
    end += whole;
    let mut fraction = 0;
    if bytes.get(end) == Some(&b'.') {
        fraction = digits(end + 1);
        end += 1 + fraction;
    }
    if whole + fraction == 0 {
        return None;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'-' | b'+')));
        let exponent = if end + 1 + sign <= bytes.len() { digits(end + 1 + sign) } else { 0 };
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    text[..end].trim_end_matches('.').parse().ok()
}

//! Arithmetic in fio job files: `(4 * 1k)` in any number, and plain sums next to a keyword (`2*$pagesize`).

use super::options::Unit;

/// Deeper nesting than this is refused rather than followed.
const DEEPEST: u32 = 40;

/// The value of an expression, as fio keeps it: in both kinds at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Evaluated {
    pub(super) integer: i64,
    pub(super) float: f64,
    is_float: bool,
}

impl Evaluated {
    const fn whole(integer: i64) -> Self {
        #[allow(clippy::cast_precision_loss, reason = "fio's own arithmetic is in doubles as well")]
        Self { integer, float: integer as f64, is_float: false }
    }

    #[allow(clippy::cast_possible_truncation, reason = "fio truncates; `as` saturates where C is undefined")]
    const fn fractional(float: f64) -> Self {
        Self { integer: float as i64, float, is_float: true }
    }

    fn combine(self, other: Self, whole: fn(i64, i64) -> Option<i64>, real: fn(f64, f64) -> f64) -> Option<Self> {
        if self.is_float || other.is_float {
            return Some(Self::fractional(real(self.float, other.float)));
        }
        Some(Self { float: real(self.float, other.float), ..Self::whole(whole(self.integer, other.integer)?) })
    }
}

/// Works out a parenthesised expression. A time without a unit is in `unit`; the result is microseconds.
pub(super) fn evaluate(text: &str, unit: Unit) -> Option<Evaluated> {
    // A colon, comma or hash ends the expression, as in fio's lexer.
    let end = text.find(['#', ':', ',']).unwrap_or(text.len());
    let mut parser = Parser { rest: &text[..end], unit, depth: 0, unit_seen: false };
    let mut value = parser.sum()?;
    parser.skip_blank();
    if !parser.rest.is_empty() {
        return None;
    }
    if !parser.unit_seen && unit == Unit::Secs {
        value.integer = value.integer.checked_mul(1_000_000)?;
        value.float *= 1e6;
    }
    Some(value)
}

/// The value of a sum of plain integers, as `bc` gives it: fio hands it lines with a keyword and an operator.
pub(super) fn sum(text: &str) -> Option<i64> {
    let plain = |c: char| c.is_ascii_digit() || " \t+-*/()".contains(c);
    text.chars().all(plain).then(|| evaluate(text, Unit::Bytes))?.map(|value| value.integer)
}

struct Parser<'a> {
    rest: &'a str,
    unit: Unit,
    depth: u32,
    unit_seen: bool,
}

impl Parser<'_> {
    fn skip_blank(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn take(&mut self, symbol: char) -> bool {
        self.skip_blank();
        let rest = self.rest.strip_prefix(symbol);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn sum(&mut self) -> Option<Evaluated> {
        let mut left = self.product()?;
        loop {
            if self.take('+') {
                left = left.combine(self.product()?, i64::checked_add, |a, b| a + b)?;
            } else if self.take('-') {
                left = left.combine(self.product()?, i64::checked_sub, |a, b| a - b)?;
            } else {
                return Some(left);
            }
        }
    }

    /// Products, quotients and unit suffixes, from left to right.
    fn product(&mut self) -> Option<Evaluated> {
        let mut left = self.power()?;
        loop {
            if self.take('*') {
                left = left.combine(self.power()?, i64::checked_mul, |a, b| a * b)?;
            } else if self.take('/') {
                let right = self.power()?;
                if right.float == 0.0 {
                    return None;
                }
                left = left.combine(right, i64::checked_div, |a, b| a / b)?;
            } else if let Some(unit) = self.suffix() {
                left = left.combine(unit, i64::checked_mul, |a, b| a * b)?;
                self.unit_seen = true;
            } else {
                return Some(left);
            }
        }
    }

    fn power(&mut self) -> Option<Evaluated> {
        let base = self.remainder()?;
        if !self.take('^') {
            return Some(base);
        }
        self.descend()?;
        let exponent = self.power()?;
        self.depth -= 1;
        // Negative and fractional powers have no place in a job file; fio's own are doubles.
        let whole = u32::try_from(exponent.integer).ok().filter(|_| !base.is_float && !exponent.is_float)?;
        base.integer.checked_pow(whole).map(Evaluated::whole)
    }

    fn remainder(&mut self) -> Option<Evaluated> {
        let mut left = self.atom()?;
        while self.take('%') {
            let right = self.atom()?;
            left = Evaluated::whole(left.integer.checked_rem(right.integer)?);
        }
        Some(left)
    }

    fn atom(&mut self) -> Option<Evaluated> {
        if self.take('-') {
            self.descend()?;
            let value = self.atom()?;
            self.depth -= 1;
            return Some(Evaluated { integer: value.integer.checked_neg()?, float: -value.float, ..value });
        }
        if self.take('(') {
            self.descend()?;
            let value = self.sum()?;
            self.depth -= 1;
            return self.take(')').then_some(value);
        }
        self.number()
    }

    fn descend(&mut self) -> Option<()> {
        self.depth += 1;
        (self.depth <= DEEPEST).then_some(())
    }

    fn number(&mut self) -> Option<Evaluated> {
        self.skip_blank();
        if let Some(hex) = self.rest.strip_prefix("0x") {
            let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
            let value = i64::from_str_radix(&hex[..end], 16).ok()?;
            self.rest = &hex[end..];
            return Some(Evaluated::whole(value));
        }
        let end = self.rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(self.rest.len());
        let digits = &self.rest[..end];
        self.rest = &self.rest[end..];
        if digits.contains('.') {
            return digits.parse().ok().map(Evaluated::fractional);
        }
        digits.parse().ok().map(Evaluated::whole)
    }

    /// A unit. Sizes have base 1024 here whatever `kb_base` says, and `kib` is 1000, as in fio.
    fn suffix(&mut self) -> Option<Evaluated> {
        self.skip_blank();
        let end = self.rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(self.rest.len());
        let factor: i64 = match self.rest[..end].to_ascii_lowercase().as_str() {
            "m" if self.unit != Unit::Bytes => 60 * 1_000_000,
            "k" | "kb" => 1 << 10,
            "m" | "mb" => 1 << 20,
            "g" | "gb" => 1 << 30,
            "t" | "tb" => 1 << 40,
            "p" | "pb" => 1 << 50,
            "us" => 1,
            "ms" | "kib" => 1_000,
            "s" | "mib" => 1_000_000,
            "gib" => 1_000_000_000,
            "h" => 3_600 * 1_000_000,
            "d" => 86_400 * 1_000_000,
            _ => return None,
        };
        self.rest = &self.rest[end..];
        Some(Evaluated::whole(factor))
    }
}

//! Taking text apart, byte by byte, without a copy.

/// A place in a piece of text that only moves forward.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan<'a> {
    rest: &'a [u8],
}

impl<'a> Scan<'a> {
    pub(super) const fn new(text: &'a [u8]) -> Self {
        Self { rest: text }
    }

    /// What was not taken yet.
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn skip_spaces(&mut self) {
        let spaces = self.rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        self.rest = &self.rest[spaces..];
    }

    /// Takes `literal`, or nothing.
    #[inline]
    pub(super) fn literal(&mut self, literal: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(literal)?;
        Some(())
    }

    /// Takes bytes as long as `wanted` likes them, at least one.
    #[inline]
    pub(super) fn word(&mut self, wanted: impl Fn(u8) -> bool) -> Option<&'a [u8]> {
        let len = self.rest.iter().position(|byte| !wanted(*byte)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(len);
        self.rest = rest;
        (len > 0).then_some(word)
    }

    /// A decimal number. `None` for none or one beyond 64 bits.
    #[inline]
    pub(super) fn decimal(&mut self) -> Option<u64> {
        let digits = self.word(|byte| byte.is_ascii_digit())?;
        // Up to 19 digits cannot leave 64 bits.
        if digits.len() <= 19 {
            return Some(digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')));
        }
        let digit = |value: u64, digit: &u8| value.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
        digits.iter().try_fold(0, digit)
    }

    /// Hexadecimal digits without `0x`. `None` for none or more than 64 bits' worth.
    #[inline]
    pub(super) fn hex(&mut self) -> Option<u64> {
        let (mut value, mut len) = (0_u64, 0);
        while let Some(digit) = self.rest.get(len).and_then(|byte| hex_digit(*byte)) {
            if value >> 60 != 0 {
                return None;
            }
            value = value << 4 | digit;
            len += 1;
        }
        self.rest = &self.rest[len..];
        (len > 0).then_some(value)
    }

    /// `0x` and hexadecimal digits, or a decimal number.
    #[inline]
    pub(super) fn number(&mut self) -> Option<u64> {
        match self.literal(b"0x") {
            Some(()) => self.hex(),
            None => self.decimal(),
        }
    }

    /// A number after `name`, with spaces before.
    #[inline]
    pub(super) fn field(&mut self, name: &[u8]) -> Option<u64> {
        self.skip_spaces();
        self.literal(name)?;
        let value = self.number()?;
        // A number that runs into something else is not the number that was printed.
        self.rest.first().is_none_or(|byte| matches!(byte, b' ' | b'\t' | b',' | b':' | b')')).then_some(value)
    }

    /// A word up to the next space or comma, after `name`, with spaces before.
    #[inline]
    pub(super) fn text(&mut self, name: &[u8]) -> Option<&'a [u8]> {
        self.skip_spaces();
        self.literal(name)?;
        self.word(|byte| !matches!(byte, b' ' | b'\t' | b','))
    }

    /// Nothing but spaces is left.
    pub(super) fn end(&mut self) -> Option<()> {
        self.skip_spaces();
        self.rest.is_empty().then_some(())
    }
}

const fn hex_digit(byte: u8) -> Option<u64> {
    match byte {
        b'0'..=b'9' => Some((byte - b'0') as u64),
        b'a'..=b'f' => Some((byte - b'a') as u64 + 10),
        b'A'..=b'F' => Some((byte - b'A') as u64 + 10),
        _ => None,
    }
}

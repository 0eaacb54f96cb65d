//! Time registers: seconds since 1970 as fields, fields as BCD or binary bytes.

/// BCD or binary (register B, DM).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notation {
    Bcd,
    Binary,
}

/// Register B, 24/12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HourMode {
    Hours12,
    Hours24,
}

/// 0000-01-01 00:00:00, the first moment that two digits of century and two of year show.
pub(super) const FIRST: i64 = -62_167_219_200;
/// 9999-12-31 23:59:59.
pub(super) const LAST: i64 = 253_402_300_799;
const DAY: i64 = 86_400;
/// PM in the hours register of 12-hour mode.
const PM: u8 = 0x80;

/// What the time registers hold, as numbers. A guest may have written anything, so each is any byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    second: u8,
    minute: u8,
    hour: u8,
    /// 1 (Sunday) to 7.
    weekday: u8,
    day: u8,
    month: u8,
    year: u8,
    century: u8,
}

impl Fields {
    /// The fields of a time between [`FIRST`] and [`LAST`].
    pub fn of(time: i64, weekday_shift: u8) -> Self {
        let (days, second) = (time.div_euclid(DAY), time.rem_euclid(DAY));
        let (year, month, day) = date(days);
        let small = |value: i64| u8::try_from(value).unwrap_or(u8::MAX);
        Self {
            second: small(second % 60),
            minute: small(second / 60 % 60),
            hour: small(second / 3600),
            weekday: (weekday(days) + weekday_shift) % 7 + 1,
            day: small(day),
            month: small(month),
            year: small(year % 100),
            century: small(year / 100),
        }
    }

    /// Seconds since 1970. A month of 0 or above 12 goes into the years beside, a day beyond its month into the next.
    pub fn time(&self) -> i64 {
        let year = i64::from(self.century) * 100 + i64::from(self.year);
        let months = year * 12 + i64::from(self.month) - 1;
        let days = days(months.div_euclid(12), months.rem_euclid(12) + 1) + i64::from(self.day) - 1;
        days * DAY + i64::from(self.hour) * 3600 + i64::from(self.minute) * 60 + i64::from(self.second)
    }

    /// What the weekday here is beyond that of the date, 0 to 6.
    pub fn weekday_shift(&self, time: i64) -> u8 {
        let own = i64::from(weekday(time.div_euclid(DAY)));
        u8::try_from((i64::from(self.weekday) - 1 - own).rem_euclid(7)).unwrap_or(0)
    }

    /// The byte of a time register.
    pub fn get(&self, index: u8, hours: HourMode, notation: Notation) -> u8 {
        let show = |value: u8| match notation {
            Notation::Binary => value,
            Notation::Bcd => ((value / 10 % 10) << 4) | (value % 10),
        };
        match (index, hours) {
            (0x04, HourMode::Hours12) => {
                let hour = self.hour % 24;
                show((hour + 11) % 12 + 1) | if hour >= 12 { PM } else { 0 }
            }
            _ => self.field(index).map_or(0, show),
        }
    }

    /// Puts a byte into a time register.
    pub fn set(&mut self, index: u8, byte: u8, hours: HourMode, notation: Notation) {
        let number = |byte: u8| match notation {
            Notation::Binary => byte,
            // The upper digit can be 15, and 165 still fits.
            Notation::Bcd => (byte >> 4) * 10 + (byte & 0x0f),
        };
        let value = match (index, hours) {
            (0x04, HourMode::Hours12) => number(byte & !PM) % 12 + if byte & PM != 0 { 12 } else { 0 },
            _ => number(byte),
        };
        let field = match index {
            0x00 => &mut self.second,
            0x02 => &mut self.minute,
            0x04 => &mut self.hour,
            0x06 => &mut self.weekday,
            0x07 => &mut self.day,
            0x08 => &mut self.month,
            0x09 => &mut self.year,
            _ => &mut self.century,
        };
        *field = value;
    }

    const fn field(&self, index: u8) -> Option<u8> {
        match index {
            0x00 => Some(self.second),
            0x02 => Some(self.minute),
            0x04 => Some(self.hour),
            0x06 => Some(self.weekday),
            0x07 => Some(self.day),
            0x08 => Some(self.month),
            0x09 => Some(self.year),
            0x32 => Some(self.century),
            _ => None,
        }
    }
}

/// 0 (Sunday) to 6; 1970-01-01 was a Thursday.
fn weekday(days: i64) -> u8 {
    u8::try_from((days + 4).rem_euclid(7)).unwrap_or(0)
}

/// Days from 1970-01-01 to the first of a month (1 to 12) in the proleptic Gregorian calendar, counted from March so that
/// the leap day is a year's last.
fn days(year: i64, month: i64) -> i64 {
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 - 719_468
}

/// Year, month and day of a day counted from 1970-01-01.
fn date(day: i64) -> (i64, i64, i64) {
    // The average year has 365.2425 days: the guess is the year, the one before or the one after.
    let guess = (day + 719_468).div_euclid(366);
    let year = (guess..).take_while(|year| days(*year, 1) <= day).last().unwrap_or(guess);
    let month = (1..=12).take_while(|month| days(year, *month) <= day).last().unwrap_or(1);
    (year, month, day - days(year, month) + 1)
}

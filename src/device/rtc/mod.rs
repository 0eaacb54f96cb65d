//! An MC146818-like RTC with CMOS RAM at ports 0x70 and 0x71, in virtual time.
//!
//! Registers and bits are those of the MC146818A data sheet (Motorola, 1984) and of Intel's PCH "RTC registers"; the century
//! at 0x32 is the usual PC extension. Time comes from outside by [`Rtc::advance_to`]: the device has no clock of its own.

mod calendar;

use crate::io::DeviceModel;

use calendar::{Fields, HourMode, Notation};

/// Port of the index register; the data register follows it.
pub const RTC_INDEX_PORT: u16 = 0x70;
/// Bits of the index port that are an index; bit 7 masks the NMI.
const INDEX: u8 = 0x7f;

/// Index of the century in CMOS RAM, kept up to date like a time register.
const CENTURY: u8 = 0x32;
/// Registers by index (MC146818A, "Address Map").
mod register {
    pub const SECONDS_ALARM: u8 = 0x01;
    pub const MINUTES_ALARM: u8 = 0x03;
    pub const HOURS_ALARM: u8 = 0x05;
    pub const WEEKDAY: u8 = 0x06;
    pub const YEAR: u8 = 0x09;
    pub const A: u8 = 0x0a;
    pub const B: u8 = 0x0b;
    pub const C: u8 = 0x0c;
    pub const D: u8 = 0x0d;
}

/// Bits of register A.
mod a {
    /// Update in progress, read-only.
    pub const UIP: u8 = 0x80;
    /// Divider control.
    pub const DV: u8 = 0x70;
    /// DV with a 32,768 Hz crystal: the chain runs. Any other value holds it.
    pub const DV_RUNS: u8 = 0x20;
    /// Rate select.
    pub const RS: u8 = 0x0f;
}

/// Bits of register B. The enables PIE, AIE and UIE lie where PF, AF and UF do in register C.
mod b {
    pub const SET: u8 = 0x80;
    pub const ENABLES: u8 = 0x70;
    /// Binary instead of BCD.
    pub const DM: u8 = 0x04;
    /// 24-hour mode.
    pub const H24: u8 = 0x02;
}

/// Bits of register C.
mod c {
    pub const IRQF: u8 = 0x80;
    pub const PF: u8 = 0x40;
    pub const AF: u8 = 0x20;
    pub const UF: u8 = 0x10;
}

/// Register D: RAM and time are valid (the battery is charged).
const VRT: u8 = 0x80;
/// Frequency of the crystal, Hz.
const CRYSTAL_HZ: u128 = 32_768;
const NS: u64 = 1_000_000_000;
/// UIP goes up so long before an update, ns (tBUC of the data sheet).
const UIP_NS: u64 = 244_000;
/// The first update comes so long after the divider is released, ns.
const RELEASE_NS: u64 = NS / 2;
/// An alarm time repeats after so many seconds at the latest, if it ever matches.
const DAY: u64 = 86_400;

/// The device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rtc {
    now_ns: u64,
    index: u8,
    nmi_masked: bool,
    /// Everything that is neither time nor a flag: alarms, A, B and RAM, by index.
    cmos: [u8; 128],
    flags: u8,
    /// Seconds since 1970, as of the last update.
    time: i64,
    /// The time registers as written while B.SET holds updates off.
    held: Option<Fields>,
    /// What the weekday register shows beyond the date's own weekday, 0 to 6.
    weekday_shift: u8,
    /// When the chain was released; periodic edges and updates are counted from there.
    released_ns: u64,
    next_update_ns: u64,
}

impl Rtc {
    /// A device whose clock shows `unix_seconds` at virtual time 0, in 24-hour BCD, with the chain running at the PC's usual
    /// 1,024 Hz and no interrupt enabled.
    #[must_use]
    pub fn new(unix_seconds: i64) -> Self {
        let mut cmos = [0; 128];
        cmos[usize::from(register::A)] = a::DV_RUNS | 0x06;
        cmos[usize::from(register::B)] = b::H24;
        // Years that four BCD digits show.
        let time = unix_seconds.clamp(calendar::FIRST, calendar::LAST);
        Self {
            now_ns: 0,
            index: 0,
            nmi_masked: false,
            cmos,
            flags: 0,
            time,
            held: None,
            weekday_shift: 0,
            released_ns: 0,
            next_update_ns: NS,
        }
    }

    /// Whether the last write to the index port masked the NMI (its bit 7).
    #[must_use]
    pub const fn nmi_masked(&self) -> bool {
        self.nmi_masked
    }

    /// Whether the interrupt line (IRQ 8) is up: until register C is read.
    #[must_use]
    pub const fn interrupt(&self) -> bool {
        self.flags & c::IRQF != 0
    }

    /// Rate of the periodic interrupt in Hz by register A; none if it is off or the chain is held.
    #[must_use]
    pub fn periodic_hz(&self) -> Option<f64> {
        self.period_ticks().map(|ticks| CRYSTAL_HZ as f64 / f64::from(ticks))
    }

    /// The rate select (register A, bits 3 to 0) of a periodic rate: powers of two from 2 to 8192 Hz.
    #[must_use]
    pub fn rate_select(hz: u32) -> Option<u8> {
        // From 256 Hz down codes 8 to 15 are used; 1 and 2 name 256 and 128 Hz once more.
        (3..=15_u8).find(|code| 32_768 >> (code - 1) == hz)
    }

    /// When the periodic flag will be set next, ns of virtual time, after now.
    #[must_use]
    pub fn next_periodic_ns(&self) -> Option<u64> {
        let ticks = self.period_ticks()?;
        Some(self.edge_ns(self.edges(ticks) + 1, ticks))
    }

    /// Lets time go on to `now_ns` of virtual time: flags are set for all that happened meanwhile. Time does not go back; an
    /// earlier time does nothing.
    pub fn advance_to(&mut self, now_ns: u64) {
        if now_ns <= self.now_ns {
            return;
        }
        let before = self.period_ticks().map(|ticks| (ticks, self.edges(ticks)));
        self.now_ns = now_ns;
        if let Some((ticks, edges)) = before {
            if self.edges(ticks) > edges {
                self.raise(c::PF);
            }
        }
        if self.updates() && now_ns >= self.next_update_ns {
            let passed = (now_ns - self.next_update_ns) / NS + 1;
            self.next_update_ns = self.next_update_ns.saturating_add(passed.saturating_mul(NS));
            let alarm = (1..=passed.min(DAY)).any(|second| self.alarm_matches(second));
            self.time = self.later(passed);
            self.raise(c::UF | if alarm { c::AF } else { 0 });
        }
    }

    /// The time so many seconds on; after the last year that the registers show comes the first.
    fn later(&self, seconds: u64) -> i64 {
        let span = u64::try_from(calendar::LAST - calendar::FIRST + 1).unwrap_or(u64::MAX);
        let since = u64::try_from(self.time - calendar::FIRST).unwrap_or(0);
        calendar::FIRST + i64::try_from((since + seconds % span) % span).unwrap_or(0)
    }

    fn raise(&mut self, flags: u8) {
        self.flags |= flags;
        self.update_line();
    }

    fn update_line(&mut self) {
        let enabled = self.flags & self.register(register::B) & b::ENABLES;
        self.flags = self.flags & !c::IRQF | if enabled != 0 { c::IRQF } else { 0 };
    }

    const fn register(&self, index: u8) -> u8 {
        self.cmos[index as usize]
    }

    const fn chain_runs(&self) -> bool {
        self.register(register::A) & a::DV == a::DV_RUNS
    }

    const fn updates(&self) -> bool {
        self.chain_runs() && self.register(register::B) & b::SET == 0
    }

    /// Crystal ticks between two periodic edges (MC146818A, "Periodic interrupt rate").
    const fn period_ticks(&self) -> Option<u32> {
        if !self.chain_runs() {
            return None;
        }
        match self.register(register::A) & a::RS {
            0 => None,
            // Codes 1 and 2 continue below 15: 256 and 128 Hz.
            code @ (1 | 2) => Some(64 << code),
            code => Some(1 << (code - 1)),
        }
    }

    fn edges(&self, ticks: u32) -> u64 {
        let passed = u128::from(self.now_ns - self.released_ns) * CRYSTAL_HZ;
        u64::try_from(passed / (u128::from(ticks) * u128::from(NS))).unwrap_or(u64::MAX)
    }

    fn edge_ns(&self, edge: u64, ticks: u32) -> u64 {
        let ns = (u128::from(edge) * u128::from(ticks) * u128::from(NS)).div_ceil(CRYSTAL_HZ);
        self.released_ns.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    const fn hours(&self) -> HourMode {
        if self.register(register::B) & b::H24 != 0 { HourMode::Hours24 } else { HourMode::Hours12 }
    }

    const fn notation(&self) -> Notation {
        if self.register(register::B) & b::DM != 0 { Notation::Binary } else { Notation::Bcd }
    }

    fn fields(&self) -> Fields {
        self.held.unwrap_or_else(|| Fields::of(self.time, self.weekday_shift))
    }

    /// Whether the alarm registers name the time `seconds` from now; one whose two top bits are set matches anything.
    fn alarm_matches(&self, seconds: u64) -> bool {
        let fields = Fields::of(self.later(seconds), self.weekday_shift);
        [register::SECONDS_ALARM, register::MINUTES_ALARM, register::HOURS_ALARM].iter().all(|alarm| {
            let wanted = self.register(*alarm);
            wanted >= 0xc0 || wanted == fields.get(alarm - 1, self.hours(), self.notation())
        })
    }

    fn read_data(&mut self) -> u8 {
        match self.index {
            register::A => {
                let soon = self.updates() && self.next_update_ns.saturating_sub(self.now_ns) <= UIP_NS;
                self.register(register::A) & !a::UIP | if soon { a::UIP } else { 0 }
            }
            register::C => std::mem::take(&mut self.flags),
            register::D => VRT,
            index if is_time(index) => self.fields().get(index, self.hours(), self.notation()),
            index => self.register(index),
        }
    }

    fn write_data(&mut self, value: u8) {
        match self.index {
            register::A => {
                let ran = self.chain_runs();
                self.cmos[usize::from(register::A)] = value & !a::UIP;
                if !ran && self.chain_runs() {
                    self.released_ns = self.now_ns;
                    self.next_update_ns = self.now_ns.saturating_add(RELEASE_NS);
                }
            }
            register::B => self.write_b(value),
            register::C | register::D => {}
            index if is_time(index) => {
                let mut fields = self.fields();
                fields.set(index, value, self.hours(), self.notation());
                if self.held.is_some() { self.held = Some(fields) } else { self.take(fields) }
            }
            index => self.cmos[usize::from(index)] = value,
        }
    }

    fn write_b(&mut self, value: u8) {
        let held = self.fields();
        self.cmos[usize::from(register::B)] = value;
        if value & b::SET != 0 {
            self.held = Some(held);
            // A held update sets no flag (data sheet, "SET").
            self.cmos[usize::from(register::B)] = value & !c::UF;
        } else if self.held.take().is_some() {
            self.take(held);
            // The chain ran on while updates were held: the next one comes with its own second.
            if self.next_update_ns <= self.now_ns {
                let passed = (self.now_ns - self.next_update_ns) / NS + 1;
                self.next_update_ns = self.next_update_ns.saturating_add(passed.saturating_mul(NS));
            }
        }
        self.update_line();
    }

    /// The registers become the time; dates that there are not go on into the next month, as days are counted.
    fn take(&mut self, fields: Fields) {
        self.time = fields.time().clamp(calendar::FIRST, calendar::LAST);
        self.weekday_shift = fields.weekday_shift(self.time);
    }
}

/// Seconds to year without the alarms, and the century.
const fn is_time(index: u8) -> bool {
    matches!(index, 0 | 2 | 4 | register::WEEKDAY..=register::YEAR | CENTURY)
}

impl DeviceModel for Rtc {
    /// The index port cannot be read: it is left as a bus without an answer reads.
    fn read(&mut self, addr: u64, data: &mut [u8]) {
        for (port, byte) in (addr..).zip(data) {
            if port % 2 == 1 {
                *byte = self.read_data();
            }
        }
    }

    fn write(&mut self, addr: u64, data: &[u8]) {
        for (port, byte) in (addr..).zip(data) {
            if port % 2 == 0 {
                (self.index, self.nmi_masked) = (byte & INDEX, byte & !INDEX != 0);
            } else {
                self.write_data(*byte);
            }
        }
    }
}

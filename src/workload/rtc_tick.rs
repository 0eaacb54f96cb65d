//! A guest that uses the RTC's periodic interrupt as its system tick, as Windows 7 does.

use crate::device::Rtc;

/// What the clock shows when a run begins: 2018-11-14 00:00:00 UTC. Nothing depends on it.
pub const START: i64 = 1_542_153_600;
/// Register A: rate select and divider.
const REGISTER_A: u8 = 0x0a;
/// Register B: interrupt enables and formats.
const REGISTER_B: u8 = 0x0b;
/// Register C, where a handler finds why it was called.
pub const REGISTER_C: u8 = 0x0c;
/// Its interrupt and periodic flags.
pub const IRQ_AND_PERIODIC: u8 = 0xc0;
/// Register A: the chain runs.
const CHAIN: u8 = 0x20;
/// Register B: periodic interrupts, 24 hours.
const PIE_24H: u8 = 0x42;

/// The workload. At each tick the handler writes register C's index to port 0x70 and reads it at 0x71, which lets the interrupt
/// line go; then it may read the ACPI PM timer. Between ticks the guest is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtcTick {
    /// Ticks a second: 64 as Windows sets it, 1024 with multimedia timers; powers of two from 2 to 8192.
    pub rate_hz: u32,
    /// Duration in ns of virtual time.
    pub duration_ns: u64,
    /// Reads of the ACPI PM timer at each tick.
    pub pm_timer_reads: u32,
}

impl RtcTick {
    /// What the guest writes to set its tick up: register and value, in order. A rate that an RTC has not selects 0, no interrupt
    /// at all; scenarios with one are refused.
    #[must_use]
    pub fn setup(&self) -> [(u8, u8); 2] {
        [(REGISTER_A, CHAIN | Rtc::rate_select(self.rate_hz).unwrap_or(0)), (REGISTER_B, PIE_24H)]
    }
}

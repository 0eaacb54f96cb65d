//! A guest that uses the RTC's periodic interrupt as its system tick, as Windows 7 does.

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

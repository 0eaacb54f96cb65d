//! The ACPI power management timer: a counter of 3.579545 MHz that guests read as a clock.

use crate::io::DeviceModel;

/// Its port on QEMU's PIIX4 machine, 4 bytes.
pub const PM_TIMER_PORT: u16 = 0x608;
/// Ticks a second (ACPI 6.5, 4.8.3.3).
const HZ: u128 = 3_579_545;
/// The counter has 24 bits.
const BITS: u32 = 0x00ff_ffff;

/// The timer; time comes from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PmTimer {
    now_ns: u64,
}

impl PmTimer {
    /// Lets time go on to `now_ns` of virtual time.
    pub fn advance_to(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// The counter.
    #[must_use]
    pub fn count(&self) -> u32 {
        let ticks = u128::from(self.now_ns) * HZ / 1_000_000_000;
        u32::try_from(ticks & u128::from(BITS)).unwrap_or(0)
    }
}

impl DeviceModel for PmTimer {
    fn read(&mut self, addr: u64, data: &mut [u8]) {
        let bytes = self.count().to_le_bytes();
        for (at, byte) in (addr..).zip(data) {
            *byte = bytes[crate::addr::index(at % 4)];
        }
    }

    /// The counter cannot be written.
    fn write(&mut self, _addr: u64, _data: &[u8]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_at_its_rate_in_24_bits_and_reads_alike_in_every_width() {
        let mut timer = PmTimer::default();
        timer.advance_to(1_000_000_000);
        assert_eq!(timer.count(), 3_579_545);
        timer.advance_to(5_000_000_000);
        assert_eq!(timer.count(), 5 * 3_579_545 - (1 << 24));
        let (mut whole, mut byte) = ([0; 4], [0]);
        timer.read(u64::from(PM_TIMER_PORT), &mut whole);
        timer.read(u64::from(PM_TIMER_PORT) + 1, &mut byte);
        assert_eq!((whole, byte[0]), (timer.count().to_le_bytes(), whole[1]));
    }
}

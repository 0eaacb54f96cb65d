//! Coalesced zones: ranges whose writes may wait in the ring (`virt/kvm/coalesced_mmio.c`).

use super::{IoBus, IoError};

/// A zone as the ioctl takes it (`struct kvm_coalesced_mmio_zone`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CoalescedZone {
    /// First guest physical address or port.
    pub addr: u64,
    /// Size in bytes.
    pub size: u32,
    /// 0 for MMIO, 1 for port I/O; anything else is refused.
    pub pio: u32,
}

impl CoalescedZone {
    /// The bus `pio` names.
    ///
    /// # Errors
    /// [`IoError::PioFlag`] if it is neither 0 nor 1.
    pub const fn bus(&self) -> Result<IoBus, IoError> {
        match self.pio {
            0 => Ok(IoBus::Mmio),
            1 => Ok(IoBus::Pio),
            pio => Err(IoError::PioFlag { addr: self.addr, pio }),
        }
    }

    /// `coalesced_mmio_in_range`: whether `len` bytes at `addr` lie wholly inside. Ranges that wrap never do.
    ///
    /// The kernel takes the length as a signed `int`, so a length of 2 GiB or more is in no zone.
    #[inline]
    #[must_use]
    pub fn contains(&self, addr: u64, len: u32) -> bool {
        let (Some(end), Some(zone_end)) =
            (addr.checked_add(u64::from(len)), self.addr.checked_add(u64::from(self.size)))
        else {
            return false;
        };
        i32::try_from(len).is_ok() && addr >= self.addr && end <= zone_end
    }

    /// The checks before a zone is put on its bus.
    pub(super) fn check(&self) -> Result<IoBus, IoError> {
        let bus = self.bus()?;
        if self.addr.checked_add(u64::from(self.size)).is_none() {
            return Err(IoError::WrapsAround { addr: self.addr, len: self.size });
        }
        Ok(bus)
    }
}

//! ioeventfd: a guest write that becomes a counter increment instead of an exit (`virt/kvm/eventfd.c`).

use super::{EventfdId, IoBus, IoError};

/// What `KVM_IOEVENTFD` registers (`struct kvm_ioeventfd`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ioeventfd {
    /// Bus; MMIO with length 0 sits on `KVM_FAST_MMIO_BUS` as well.
    pub bus: IoBus,
    /// Guest physical address or port; a write matches this address only.
    pub addr: u64,
    /// Bytes a write must have: 1, 2, 4 or 8, or 0 for any.
    pub len: u32,
    /// Value a write must have. The bytes written are read as a little-endian host would and zero-extended,
    /// so a value wider than `len` bytes never matches.
    pub datamatch: Option<u64>,
    /// What is signalled.
    pub fd: EventfdId,
}

impl Ioeventfd {
    /// The checks of `kvm_assign_ioeventfd`.
    pub(super) fn check(&self) -> Result<(), IoError> {
        if !matches!(self.len, 0 | 1 | 2 | 4 | 8) {
            return Err(IoError::EventfdLength { len: self.len });
        }
        if self.addr.checked_add(u64::from(self.len)).is_none() {
            return Err(IoError::WrapsAround { addr: self.addr, len: self.len });
        }
        if self.len == 0 && self.datamatch.is_some() {
            return Err(IoError::DatamatchWithoutLength { addr: self.addr });
        }
        Ok(())
    }

    /// `ioeventfd_in_range`: whether a write of `data` at `addr` signals this one.
    #[inline]
    pub(super) fn matches(&self, addr: u64, data: &[u8]) -> bool {
        if addr != self.addr {
            return false;
        }
        if self.len == 0 {
            return true;
        }
        if data.len() != self.len as usize {
            return false;
        }
        self.datamatch.is_none_or(|wanted| wanted == value_of(data))
    }

    /// `ioeventfd_check_collision`: whether some write would signal both.
    pub(super) fn collides_with(&self, other: &Self) -> bool {
        let same_data = self.datamatch.is_none() || other.datamatch.is_none() || self.datamatch == other.datamatch;
        self.bus == other.bus
            && self.addr == other.addr
            && (self.len == 0 || other.len == 0 || (self.len == other.len && same_data))
    }
}

/// The first 8 bytes of `data` as a little-endian host reads them, zero-extended.
#[inline]
pub(super) fn value_of(data: &[u8]) -> u64 {
    match *data {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => data.iter().take(8).rev().fold(0, |value, byte| value << 8 | u64::from(*byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_lengths_are_read_like_the_power_of_two_ones() {
        for len in 1..=8 {
            let data = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88];
            assert_eq!(value_of(&data[..len]), 0x8877_6655_4433_2211 & (u64::MAX >> (64 - 8 * len)));
        }
        assert_eq!(value_of(&[]), 0);
    }
}

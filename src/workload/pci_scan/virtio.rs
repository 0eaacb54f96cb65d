//! What the virtio driver reads of configuration space when it is bound to a function (`vp_modern_probe`).

use super::capabilities::CAPABILITY_STEPS;
use super::found::FoundVirtio;
use super::function::Function;
use crate::io::pci::regs::{
    CAP_VENDOR, VIRTIO_BAR, VIRTIO_CFG_TYPE, VIRTIO_EXTRA, VIRTIO_LENGTH, VIRTIO_OFFSET, VIRTIO_VENDOR,
};
use crate::io::pci::{ConfigAccess, Width};

const COMMON: u8 = 1;
const NOTIFY: u8 = 2;
const ISR: u8 = 3;
const DEVICE: u8 = 4;
/// `PAGE_SIZE` of an x86 guest: a notify structure that fits into one page is mapped at once.
const PAGE: u64 = 4096;

impl<C: ConfigAccess + ?Sized> Function<'_, '_, C> {
    /// The reads of `vp_modern_probe`, if the driver takes the function: it looks for each structure from the start of
    /// the list, then reads where it is. What else the driver does (enabling, vectors, the device's own registers) is
    /// not here.
    pub(super) fn probe_virtio(&mut self) {
        if self.found.vendor != VIRTIO_VENDOR || !(0x1000..=0x107f).contains(&self.found.device) {
            return;
        }
        let Some((common, _)) = self.find_structure(COMMON) else { return };
        let (isr, notify) = (self.find_structure(ISR), self.find_structure(NOTIFY));
        let (Some((isr, _)), Some((notify, notify_bar))) = (isr, notify) else { return };
        let device = self.find_structure(DEVICE);
        self.map_structure(common, COMMON);
        self.map_structure(isr, ISR);

        let multiplier = self.read(notify + VIRTIO_EXTRA, Width::Dword);
        let length = self.read(notify + VIRTIO_LENGTH, Width::Dword);
        let place = self.read(notify + VIRTIO_OFFSET, Width::Dword);
        if u64::from(length) + u64::from(place) % PAGE <= PAGE {
            self.map_structure(notify, NOTIFY);
            if let Some(notify) = self.found.virtio.last_mut() {
                notify.multiplier = Some(multiplier);
            }
        } else {
            // Mapped queue by queue, later; the BAR is known from the search.
            let (offset, bar, multiplier) = (notify, notify_bar, Some(multiplier));
            self.found.virtio.push(FoundVirtio { offset, cfg_type: NOTIFY, bar, place, length, multiplier });
        }
        if let Some((device, _)) = device {
            self.map_structure(device, DEVICE);
        }
    }

    /// `virtio_pci_find_capability`: type and BAR of each vendor capability until one is of that type, in a BAR that
    /// decodes something. The capability and the BAR's number.
    fn find_structure(&mut self, cfg_type: u8) -> Option<(u16, u8)> {
        let mut next = self.find_capability(CAP_VENDOR);
        for _ in 0..CAPABILITY_STEPS {
            let at = next?;
            let [found, ..] = self.read(at + VIRTIO_CFG_TYPE, Width::Byte).to_le_bytes();
            let [bar, ..] = self.read(at + VIRTIO_BAR, Width::Byte).to_le_bytes();
            if found == cfg_type && self.found.bars.iter().any(|found| found.index == bar) {
                return Some((at, bar));
            }
            next = self.find_linked(at + 1, CAP_VENDOR);
        }
        None
    }

    /// The reads of `vp_modern_map_capability`.
    fn map_structure(&mut self, offset: u16, cfg_type: u8) {
        let [bar, ..] = self.read(offset + VIRTIO_BAR, Width::Byte).to_le_bytes();
        let place = self.read(offset + VIRTIO_OFFSET, Width::Dword);
        let length = self.read(offset + VIRTIO_LENGTH, Width::Dword);
        self.found.virtio.push(FoundVirtio { offset, cfg_type, bar, place, length, multiplier: None });
    }
}

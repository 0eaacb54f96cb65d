//! The PCI Express capability: what Linux reads of it and sets in it.

use super::capabilities::L1SS;
use super::function::Function;
use crate::io::pci::regs::{
    CAP_EXPRESS, EXP_DEVCAP, EXP_DEVCAP2, EXP_DEVCTL, EXP_FLAGS, EXP_LNKCAP, EXP_LNKCAP2, EXP_TYPE_INTEGRATED_ENDPOINT,
};
use crate::io::pci::{ConfigAccess, Width};

/// `PCI_EXP_TYPE_RC_EC`, like an integrated endpoint without a link.
const EVENT_COLLECTOR: u16 = 10;
/// `PCI_EXP_DEVCAP_EXT_TAG`.
const EXTENDED_TAG_SUPPORTED: u32 = 1 << 5;
/// `PCI_EXP_DEVCTL_EXT_TAG`.
const EXTENDED_TAG: u32 = 1 << 8;
/// `PCI_EXP_DEVCTL_PAYLOAD`, whose value is that of DEVCAP's low three bits.
const PAYLOAD: u32 = 7 << 5;
/// `PCI_EXP_LNKCAP_SLS`.
const LINK_SPEED: u32 = 0xf;

/// What Linux remembers of the capability (`pcie_cap`, `pcie_flags_reg`, `devcap`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Express {
    at: u16,
    version: u16,
    port_type: u16,
    device_capabilities: u32,
}

impl Express {
    /// `pcie_cap_has_lnkctl`.
    const fn has_link(self) -> bool {
        !matches!(self.port_type, EXP_TYPE_INTEGRATED_ENDPOINT | EVENT_COLLECTOR)
    }
}

impl<C: ConfigAccess + ?Sized> Function<'_, '_, C> {
    /// `set_pcie_port_type`.
    pub(super) fn read_express(&mut self) {
        let Some(at) = self.find_capability(CAP_EXPRESS) else { return };
        let flags = u16::try_from(self.read(at + EXP_FLAGS, Width::Word)).unwrap_or(u16::MAX);
        let device_capabilities = self.read(at + EXP_DEVCAP, Width::Dword);
        let express = Express { at, version: flags & 0xf, port_type: flags >> 4 & 0xf, device_capabilities };
        if express.has_link() {
            self.read(at + EXP_LNKCAP, Width::Dword);
        }
        self.express = Some(express);
    }

    /// `pcie_get_supported_speeds`: of functions with a link.
    pub(super) fn read_link_speeds(&mut self) {
        let Some(express) = self.express.filter(|express| express.has_link()) else { return };
        let capabilities = self.read(express.at + EXP_LNKCAP, Width::Dword);
        if capabilities & LINK_SPEED != 0 && express.version > 1 {
            self.read(express.at + EXP_LNKCAP2, Width::Dword);
        }
    }

    /// `pci_configure_device`, of a function on a root bus: with no bridge above it only its own registers count.
    pub(super) fn configure_device(&mut self) {
        if let Some(express) = self.express {
            let control = express.at + EXP_DEVCTL;
            if express.port_type == EXP_TYPE_INTEGRATED_ENDPOINT {
                // pci_configure_mps: the largest payload it supports; pcie_set_mps refuses what means more than 4 KiB.
                let payload = express.device_capabilities & 7;
                if payload <= 5 {
                    self.change_word(control, PAYLOAD, payload << 5);
                }
            }
            // pci_configure_extended_tags
            let supported = self.read(express.at + EXP_DEVCAP, Width::Dword) & EXTENDED_TAG_SUPPORTED != 0;
            if supported && self.read(control, Width::Word) & EXTENDED_TAG == 0 {
                self.change_word(control, 0, EXTENDED_TAG);
            }
            self.read(control, Width::Word); // pci_configure_relaxed_ordering
            if express.version > 1 {
                self.read(express.at + EXP_DEVCAP2, Width::Dword); // pci_configure_ltr
            }
        }
        self.find_extended(L1SS); // pci_configure_aspm_l1ss, and again for its save buffer
        self.find_extended(L1SS);
        if let Some(express) = self.express.filter(|express| express.version > 1) {
            self.read(express.at + EXP_DEVCAP2, Width::Dword); // pci_configure_eetlp_prefix
        }
    }

    /// `pcie_capability_clear_and_set_word`: always writes.
    fn change_word(&mut self, at: u16, clear: u32, set: u32) {
        let value = self.read(at, Width::Word);
        self.write(at, Width::Word, value & !clear | set);
    }
}

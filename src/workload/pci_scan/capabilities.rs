//! The capability lists: how Linux searches them, and what it searches them for.
//!
//! Linux keeps no list: each subsystem walks it anew for the one capability it drives. That is where most of a scan's
//! reads go.

use super::found::{FoundCapability, FoundExtended};
use super::function::Function;
use crate::io::pci::regs::{
    CAP_ADVANCED_FEATURES, CAP_ENHANCED_ALLOCATION, CAP_EXPRESS, CAP_MSI, CAP_MSIX, CAP_PCIX, CAP_POWER_MANAGEMENT,
    CAP_VPD, CAPABILITY_LIST, EXT_CAP_AER, HEADER_END, MSIX_ENABLE, MSIX_FLAGS, PM_CAPABILITIES, PM_CONTROL, STATUS,
    STATUS_CAP_LIST, VENDOR_ID,
};
use crate::io::pci::{CONFIG_SPACE_BYTES, CONVENTIONAL_BYTES, Class, ConfigAccess, Width};

/// `PCI_FIND_CAP_TTL`: no list within 256 bytes is longer.
pub(super) const CAPABILITY_STEPS: usize = 48;
/// At 8 bytes a capability no list is longer.
const EXTENDED_STEPS: usize = ((CONFIG_SPACE_BYTES - CONVENTIONAL_BYTES) / 8) as usize;
/// Capability list pointer of a CardBus bridge (`PCI_CB_CAPABILITY_LIST`).
const CARDBUS_CAPABILITY_LIST: u16 = 0x14;
/// `PCI_MSI_FLAGS_ENABLE`, in the word after ID and next pointer.
const MSI_ENABLE: u32 = 1;
/// `PCI_X_STATUS_266MHZ` and `PCI_X_STATUS_533MHZ`: PCI-X 2.0, which has extended configuration space.
const PCIX_2: u32 = 0xc000_0000;
/// `PCI_VENDOR_ID_INTEL`, whose Thunderbolt controllers have a vendor-specific extended capability.
const INTEL: u16 = 0x8086;
/// `PCI_PM_CTRL_NO_SOFT_RESET`, `_PME_STATUS`, `_PME_ENABLE`.
const PM_PME_STATUS: u32 = 1 << 15;
const PM_PME_ENABLE: u32 = 1 << 8;
/// `PCI_PM_CAP_VER_MASK` and `PCI_PM_CAP_PME_MASK`.
const PM_VERSION: u32 = 7;
const PM_PME_STATES: u32 = 0xf800;

/// Extended capability IDs that are looked for (`PCI_EXT_CAP_ID_*`).
const VC: u16 = 0x02;
const MFVC: u16 = 0x08;
const VC9: u16 = 0x09;
const VENDOR_SPECIFIC: u16 = 0x0b;
const ACS: u16 = 0x0d;
const ATS: u16 = 0x0f;
const SRIOV: u16 = 0x10;
const PRI: u16 = 0x13;
const LTR: u16 = 0x18;
const PASID: u16 = 0x1b;
const DPC: u16 = 0x1d;
pub(super) const L1SS: u16 = 0x1e;
const PTM: u16 = 0x1f;
const DOE: u16 = 0x2e;

impl<C: ConfigAccess + ?Sized> Function<'_, '_, C> {
    /// `pci_find_capability`: Status first, then pointer and list.
    pub(super) fn find_capability(&mut self, id: u8) -> Option<u16> {
        if self.read(STATUS, Width::Word) & u32::from(STATUS_CAP_LIST) == 0 {
            return None;
        }
        match self.found.header_type {
            0 | 1 => self.find_linked(CAPABILITY_LIST, id),
            2 => self.find_linked(CARDBUS_CAPABILITY_LIST, id),
            _ => None,
        }
    }

    /// `__pci_find_next_cap`: along the list from the pointer at `link`.
    pub(super) fn find_linked(&mut self, link: u16, id: u8) -> Option<u16> {
        let mut next = self.read(link, Width::Byte);
        for _ in 0..CAPABILITY_STEPS {
            let at = u16::try_from(next & 0xfc).ok()?;
            if at < HEADER_END {
                return None;
            }
            let entry = self.read(at, Width::Word);
            let found = u8::try_from(entry & 0xff).ok()?;
            if found == 0xff {
                return None;
            }
            self.seen.insert(at, found);
            if found == id {
                return Some(at);
            }
            next = entry >> 8;
        }
        None
    }

    /// `pci_find_ext_capability`.
    pub(super) fn find_extended(&mut self, id: u16) -> Option<u16> {
        self.find_extended_after(None, id)
    }

    /// `pci_find_next_ext_capability`: makes no access if 0x100 is out of reach.
    fn find_extended_after(&mut self, start: Option<u16>, id: u16) -> Option<u16> {
        if self.found.config_bytes <= CONVENTIONAL_BYTES {
            return None;
        }
        let mut at = start.unwrap_or(CONVENTIONAL_BYTES);
        let mut header = self.try_read(at, Width::Dword).filter(|header| *header != 0)?;
        for _ in 0..EXTENDED_STEPS {
            let [low, high, version, _] = header.to_le_bytes();
            let found = u16::from_le_bytes([low, high]);
            self.seen_extended.insert(at, (found, version & 0xf));
            if found == id && Some(at) != start {
                return Some(at);
            }
            at = u16::try_from(header >> 20).ok()? & 0xffc;
            if at < CONVENTIONAL_BYTES {
                return None;
            }
            header = self.try_read(at, Width::Dword)?;
        }
        None
    }

    /// `pci_cfg_space_size`: how much configuration space there is. Conventional functions have 256 bytes; where more
    /// is possible, the dword at 0x100 must answer and not be an alias of the first.
    pub(super) fn config_bytes(&mut self) -> u16 {
        if !self.found.class.is(Class::HOST_BRIDGE) && self.express.is_none() {
            let pcix = self.find_capability(CAP_PCIX);
            if pcix.is_none_or(|at| self.read(at + 4, Width::Dword) & PCIX_2 == 0) {
                return CONVENTIONAL_BYTES;
            }
        }
        match self.try_read(CONVENTIONAL_BYTES, Width::Dword) {
            None | Some(u32::MAX) => CONVENTIONAL_BYTES,
            Some(_) if self.extended_is_alias() => CONVENTIONAL_BYTES,
            Some(_) => CONFIG_SPACE_BYTES,
        }
    }

    /// `pci_ext_cfg_is_aliased`.
    fn extended_is_alias(&mut self) -> bool {
        let first = self.read(VENDOR_ID, Width::Dword);
        (CONVENTIONAL_BYTES..CONFIG_SPACE_BYTES)
            .step_by(CONVENTIONAL_BYTES.into())
            .all(|alias| self.try_read(alias, Width::Dword) == Some(first))
    }

    /// `set_pcie_thunderbolt`: Intel's functions are searched for a vendor-specific capability.
    pub(super) fn look_for_thunderbolt(&mut self) {
        if self.found.vendor == INTEL {
            self.find_each_extended(VENDOR_SPECIFIC, |function, at| {
                function.try_read(at + 4, Width::Dword);
            });
        }
    }

    /// Every capability of that ID. A list that loops back would keep Linux here for ever; the scan stops after as
    /// many as fit.
    fn find_each_extended(&mut self, id: u16, mut each: impl FnMut(&mut Self, u16)) {
        let mut at = None;
        for _ in 0..EXTENDED_STEPS {
            at = self.find_extended_after(at, id);
            let Some(at) = at else { return };
            each(self, at);
        }
    }

    /// `pci_init_capabilities`, one call a line. What a found one would lead to is done for MSI, MSI-X and power
    /// management; of the others the search alone.
    pub(super) fn init_capabilities(&mut self) {
        let is_express = self.express.is_some();
        self.find_capability(CAP_ENHANCED_ALLOCATION); // pci_ea_init
        self.init_msi();
        self.init_msix();
        self.find_capability(CAP_EXPRESS); // pci_allocate_cap_save_buffers, with the next five
        self.find_capability(CAP_PCIX);
        for id in [LTR, MFVC, VC, VC9] {
            self.find_extended(id);
        }
        let power = self.init_power_management();
        self.find_capability(CAP_VPD); // pci_vpd_init
        if is_express {
            self.find_extended(SRIOV); // pci_iov_init
        }
        for id in [ATS, PRI, PASID, ACS] {
            self.find_extended(id); // pci_ats_init and so on
        }
        if is_express {
            self.find_extended(PTM); // pci_ptm_init
        }
        if self.find_extended(EXT_CAP_AER).is_some() {
            self.find_extended(EXT_CAP_AER); // pci_aer_init: again for its save buffer; registers are the firmware's
        }
        self.find_extended(DPC); // pci_dpc_init
        self.find_each_extended(DOE, |_, _| ()); // pci_doe_init
        self.find_capability(CAP_ADVANCED_FEATURES); // pci_init_reset_methods: pci_af_flr, then pci_pm_reset
        if let Some(at) = power {
            self.read(at + PM_CONTROL, Width::Word);
        }
    }

    /// `pci_msi_init`: off, in case the firmware left it on.
    fn init_msi(&mut self) {
        if let Some(at) = self.find_capability(CAP_MSI) {
            let flags = self.read(at + 2, Width::Word);
            if flags & MSI_ENABLE != 0 {
                self.write(at + 2, Width::Word, flags & !MSI_ENABLE);
            }
        }
    }

    /// `pci_msix_init`: off, in case the firmware left it on.
    fn init_msix(&mut self) {
        if let Some(at) = self.find_capability(CAP_MSIX) {
            let flags = self.read(at + MSIX_FLAGS, Width::Word);
            if flags & u32::from(MSIX_ENABLE) != 0 {
                self.write(at + MSIX_FLAGS, Width::Word, flags & !u32::from(MSIX_ENABLE));
            }
            self.found.msix_vectors = u16::try_from((flags & 0x7ff) + 1).ok();
        }
    }

    /// `pci_pm_init`: where the capability is, if Linux uses it.
    fn init_power_management(&mut self) -> Option<u16> {
        let at = self.find_capability(CAP_POWER_MANAGEMENT)?;
        let capabilities = self.read(at + PM_CAPABILITIES, Width::Word);
        if capabilities & PM_VERSION > 3 {
            return None;
        }
        if capabilities & PM_PME_STATES != 0 {
            // pci_pme_active(false)
            let control = self.read(at + PM_CONTROL, Width::Word);
            self.write(at + PM_CONTROL, Width::Word, (control | PM_PME_STATUS) & !PM_PME_ENABLE);
        }
        self.read(STATUS, Width::Word); // PCI_STATUS_IMM_READY
        Some(at)
    }

    /// Every capability that a search came by: all there are, unless a list goes on after a function's last one of
    /// those looked for and each of these is there.
    pub(super) fn list_capabilities(&mut self) {
        self.found.capabilities = self.seen.iter().map(|(&offset, &id)| FoundCapability { offset, id }).collect();
        let extended = self.seen_extended.iter();
        self.found.extended = extended.map(|(&offset, &(id, version))| FoundExtended { offset, id, version }).collect();
    }
}

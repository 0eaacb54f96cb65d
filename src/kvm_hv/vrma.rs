//! The virtual real mode area: entries for memslot 0 that KVM itself makes, through which a guest with relocation off
//! reaches its memory (`kvmppc_hv_setup_htab_rma`, `kvmppc_map_vrma`).

use crate::addr::{Gfn, PteIndex, Vsid};
use crate::book3s::hash::PTEG_ENTRIES;
use crate::book3s::hpte::{HPTE_R_C, HPTE_R_M, HPTE_R_R, HPTE_V_B_SHIFT, HPTE_V_BOLTED, PP_RWXX};
use crate::book3s::slb::SegmentSize;
use crate::book3s::{Hpte, PageSize, PageSizes};

use super::hcall::{HcallError, flags};
use super::vm::Vm;

/// VSID of the VRMA's 1 TiB segment (`VRMA_VSID`).
pub const VRMA_VSID: Vsid = Vsid(0x1ff_ffff);

/// AVPN of an address in the VRMA starts 16 bits above the virtual address's low end.
const VA_TO_V: u32 = 16;

impl Vm {
    /// Enters the VRMA's bolted entries, as KVM does before a vCPU first runs on a table: one for each page of the
    /// memslot at 0, in slot 7 of its group, at most one a group. Pages are as large as the host's behind the memslot:
    /// 4 KiB, 64 KiB or 16 MiB. Nothing without a memslot there.
    ///
    /// # Errors
    /// Slot 7 of a group is in use: the entries before it are made, those after it are not.
    pub fn map_vrma(&self) -> Result<(), HcallError> {
        let Some(slot) = self.memslots().find(Gfn(0)).cloned() else { return Ok(()) };
        let size = match slot.backing_shift {
            24.. => PageSize::M16,
            16..24 => PageSize::K64,
            _ => PageSize::K4,
        };
        let sizes = PageSizes { base: size, actual: size };
        let (l, lp) = sizes.hpte_encoding().ok_or(HcallError::Parameter)?;
        let mask = self.hpt().group_mask();
        let pages = (slot.pages << self.page_shift()) >> size.shift();
        let pages = pages.min(1 << (SegmentSize::T1.shift() - size.shift())).min(mask + 1);
        for page in 0..pages {
            let address = page << size.shift();
            let hash = page ^ VRMA_VSID.0 ^ VRMA_VSID.0 << 25;
            let at = PteIndex((hash & mask) * PTEG_ENTRIES + PTEG_ENTRIES - 1);
            let vsid = VRMA_VSID.0 << SegmentSize::T1.vsid_shift();
            let v = 1 << HPTE_V_B_SHIFT | vsid | HPTE_V_BOLTED | l | address >> VA_TO_V & !0x7f;
            let r = address | lp | HPTE_R_R | HPTE_R_C | HPTE_R_M | PP_RWXX;
            self.h_enter(flags::H_EXACT, at, Hpte { v, r })?;
        }
        Ok(())
    }
}

//! The hazards that steps can show, each beside a control without the decisive step. What they lead to is the simulator's to
//! say, and the real kernel's: nothing here knows it.
//!
//! H1 and H2 are about coalesced zones, which stock Book3S HV kernels do not have (KVM_CAP_COALESCED_MMIO is 0) and steps do
//! not either. H5 needs an access at EA 0 through a zero VSID doubleword: that segment is the runtime's.

use crate::addr::{EffectiveAddr, GuestPhysAddr, PteIndex};
use crate::book3s::hpte::{HPTE_R_PP0, PP_RWXX, PP_RXRX, PP_RXXX, key_bits};
use crate::book3s::insn::Direction;
use crate::kvm_hv::memslot::DirtyLog;
use crate::workload::guest::{Guest, PageUse};
use crate::workload::script::{Script, ScriptError};
use crate::workload::steps::{GuestAccess, GuestOp, STREAM_GPA, Step, VmmOp};

use super::draw::StepStream;
use super::watch::Watched;

/// Order of the table that hazards begin with.
const ORDER: u32 = 18;
/// EA of the first page; the others follow.
const EA: EffectiveAddr = EffectiveAddr(0x0200_0000_0000);
/// Behind MMIO pages.
const MMIO: GuestPhysAddr = GuestPhysAddr(0x2000_0000_0000);
/// Bytes of a page.
const PAGE: u64 = 1 << 16;
/// Memslot of a hazard's RAM.
const SLOT: u32 = 1;
/// KVM's mark of emulated MMIO, as a guest may use it for itself.
const KEY_31: u64 = 31;

/// Whether the step that makes the hazard is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decisive {
    There,
    Missing,
}

/// One hazard.
#[derive(Clone, Debug)]
pub struct Hazard {
    /// Its name, as NOTES.md and the switches have it.
    pub id: &'static str,
    /// What it is about.
    pub what: &'static str,
    /// What the control does instead.
    pub control_is: &'static str,
    /// The stream.
    pub stream: Watched,
    /// The same without the decisive step.
    pub control: Watched,
}

type Build = fn(&mut Pages, Decisive) -> Result<(), ScriptError>;

const HAZARDS: [(&str, &str, &str, Build); 9] = [
    (
        "H0a",
        "a new table of another order sets the generation to 0; a page cached before has no entry, and is loaded at each \
         generation from there on",
        "the page is removed from the old table instead",
        h0a,
    ),
    (
        "H0b",
        "a table emptied in place leaves the generation alone; a page cached before has no entry",
        "the page is removed instead",
        h0b,
    ),
    (
        "H3",
        "a memslot over a cached MMIO page; a load maps it, its host page goes, it is loaded again",
        "no load between the memslot and the page-out",
        h3,
    ),
    (
        "H3, copy on write",
        "a memslot over a cached MMIO page that the host does not have; a load maps the page of zeroes, a store replaces it",
        "the store comes first",
        h3_copy,
    ),
    (
        "H4, eviction",
        "a store takes a protection fault on VALID RAM with guest key 31, while four MMIO pages are cached",
        "guest key 0",
        h4_eviction,
    ),
    ("H4, spin", "the same at generation 0 with nothing cached; then the host page goes", "guest key 0", h4_spin),
    ("H6", "a memslot's delete leaves its pages MMIO", "there never was a memslot", h6),
    ("H7", "a load fault by an instruction that counts as a store (icbi)", "one that does not (dcbst)", h7),
    ("H8", "a load through a reserved PP value, PP0 with 00", "PP0 with 10", h8),
];

/// All of them.
///
/// # Errors
/// None in practice: the tables they begin with have room.
pub fn hazards() -> Result<Vec<Hazard>, ScriptError> {
    let build = |&(id, what, control_is, build): &(&'static str, _, _, Build)| {
        let watched = |decisive, name: String| {
            let mut pages = Pages::new()?;
            build(&mut pages, decisive)?;
            let stream = StepStream { name, steps: pages.script.finish() };
            Ok::<_, ScriptError>(Watched::accesses(stream))
        };
        Ok(Hazard {
            id,
            what,
            control_is,
            stream: watched(Decisive::There, id.to_owned())?,
            control: watched(Decisive::Missing, format!("{id}, control"))?,
        })
    };
    HAZARDS.iter().map(build).collect()
}

/// A guest with 64 KiB pages in a segment of 1 TiB.
struct Pages {
    script: Script,
    guest: Guest,
}

impl Pages {
    fn new() -> Result<Self, ScriptError> {
        let mut it = Self { script: Script::new(ORDER)?, guest: Guest::default() };
        it.script.segment(&it.guest, 1, EA);
        Ok(it)
    }

    fn ea(page: u64) -> EffectiveAddr {
        EffectiveAddr(EA.0 + page * PAGE)
    }

    fn enter(&mut self, page: u64, gpa: u64, how: PageUse) -> Result<PteIndex, ScriptError> {
        self.script.enter(&self.guest, Self::ea(page), GuestPhysAddr(gpa), how)
    }

    fn mmio(&mut self, page: u64) -> Result<PteIndex, ScriptError> {
        self.enter(page, MMIO.0 + page * PAGE, PageUse::DEVICE)
    }

    fn load(&mut self, page: u64) -> Result<(), ScriptError> {
        self.script.access(Direction::Load, Self::ea(page), 0)
    }

    fn store(&mut self, page: u64) -> Result<(), ScriptError> {
        self.script.access(Direction::Store, Self::ea(page), 0x1122_3344)
    }

    fn memslot(&mut self, base: u64) {
        let (base, size) = (GuestPhysAddr(base), PAGE);
        self.script.vmm(VmmOp::SetMemslot { id: SLOT, base, size, dirty_log: DirtyLog::Off });
    }

    fn page_out(&mut self, gpa: u64) {
        self.script.vmm(VmmOp::PageOut { gpa: GuestPhysAddr(gpa) });
    }

    /// A bump and nothing else: an MMIO page of its own is entered and removed.
    fn bump(&mut self) -> Result<(), ScriptError> {
        let at = self.mmio(0x80)?;
        self.script.remove(at);
        Ok(())
    }

    /// RAM in page 9 with `key`, mapped VALID, read-only for hardware, read-write for the guest: a store faults on it.
    fn store_faults_on_ram(&mut self, key: u64) -> Result<(), ScriptError> {
        let at = self.enter(9, STREAM_GPA.0, PageUse::RAM.with_key(key))?;
        self.script.protect(at, PP_RXRX | key_bits(key));
        self.load(9)?;
        self.script.protect(at, PP_RWXX | key_bits(key));
        self.store(9)
    }
}

fn h0a(it: &mut Pages, decisive: Decisive) -> Result<(), ScriptError> {
    let page = it.mmio(0)?;
    for _ in 0..4 {
        it.bump()?;
    }
    it.load(0)?;
    it.load(0)?;
    match decisive {
        Decisive::There => it.script.new_table(ORDER + 1)?,
        Decisive::Missing => it.script.remove(page),
    }
    for _ in 0..6 {
        it.load(0)?;
        it.bump()?;
    }
    Ok(())
}

fn h0b(it: &mut Pages, decisive: Decisive) -> Result<(), ScriptError> {
    let page = it.mmio(0)?;
    it.load(0)?;
    it.load(0)?;
    match decisive {
        Decisive::There => it.script.new_table(ORDER)?,
        Decisive::Missing => it.script.remove(page),
    }
    it.load(0)?;
    it.store(0)?;
    it.bump()?;
    it.load(0)
}

fn h3(it: &mut Pages, decisive: Decisive) -> Result<(), ScriptError> {
    it.enter(0, STREAM_GPA.0, PageUse::RAM)?;
    it.load(0)?;
    it.load(0)?;
    it.memslot(STREAM_GPA.0);
    if decisive == Decisive::There {
        it.load(0)?;
    }
    it.page_out(STREAM_GPA.0);
    for _ in 0..3 {
        it.load(0)?;
    }
    it.bump()?;
    it.load(0)?;
    it.store(0)
}

fn h3_copy(it: &mut Pages, decisive: Decisive) -> Result<(), ScriptError> {
    it.enter(0, STREAM_GPA.0, PageUse::RAM)?;
    it.load(0)?;
    it.memslot(STREAM_GPA.0);
    it.page_out(STREAM_GPA.0);
    if decisive == Decisive::There {
        it.load(0)?;
    }
    it.store(0)?;
    it.load(0)?;
    it.bump()?;
    it.store(0)?;
    it.load(0)
}

fn h4_eviction(it: &mut Pages, decisive: Decisive) -> Result<(), ScriptError> {
    it.memslot(STREAM_GPA.0);
    for page in 0..4 {
        it.mmio(page)?;
        it.load(page)?;
    }
    it.load(0)?;
    it.store_faults_on_ram(key(decisive))?;
    for page in [1, 2, 3, 0] {
        it.load(page)?;
    }
    Ok(())
}

const fn key(decisive: Decisive) -> u64 {
    match decisive {
        Decisive::There => KEY_31,
        Decisive::Missing => 0,
    }
}

fn h4_spin(it: &mut Pages, decisive: Decisive) -> Result<(), ScriptError> {
    it.memslot(STREAM_GPA.0);
    // The memslot bumped the generation.
    it.script.new_table(ORDER + 1)?;
    it.store_faults_on_ram(key(decisive))?;
    it.page_out(STREAM_GPA.0);
    it.load(9)?;
    it.store(9)?;
    it.bump()?;
    it.store(9)?;
    it.load(9)
}

fn h6(it: &mut Pages, decisive: Decisive) -> Result<(), ScriptError> {
    if decisive == Decisive::There {
        it.memslot(STREAM_GPA.0);
    }
    let page = it.enter(0, STREAM_GPA.0, PageUse::RAM)?;
    it.load(0)?;
    if decisive == Decisive::There {
        it.script.vmm(VmmOp::DeleteMemslot { id: SLOT });
    }
    for _ in 0..5 {
        it.load(0)?;
    }
    it.script.remove(page);
    it.enter(0, STREAM_GPA.0, PageUse::RAM)?;
    for _ in 0..3 {
        it.load(0)?;
    }
    Ok(())
}

/// Extended opcodes (Power ISA 2.07 Book II, 4.3).
const ICBI: u32 = 982;
const DCBST: u32 = 54;

/// A cache operation at the address in RA.
const fn cache_op(extended: u32) -> u32 {
    31 << 26 | (GuestAccess::RA as u32) << 11 | extended << 1
}

fn h7(it: &mut Pages, decisive: Decisive) -> Result<(), ScriptError> {
    it.mmio(0)?;
    let word = match decisive {
        Decisive::There => cache_op(ICBI),
        Decisive::Missing => cache_op(DCBST),
    };
    it.load(0)?;
    it.script.push(Step::Guest(GuestOp::Access(GuestAccess { word, ra: EA.0, rb: 0, rt: 0 })));
    it.load(0)
}

fn h8(it: &mut Pages, decisive: Decisive) -> Result<(), ScriptError> {
    it.memslot(STREAM_GPA.0);
    let pp = match decisive {
        Decisive::There => HPTE_R_PP0,
        Decisive::Missing => PP_RXXX,
    };
    it.enter(0, STREAM_GPA.0, PageUse { pp, ..PageUse::RAM })?;
    it.load(0)?;
    it.store(0)
}

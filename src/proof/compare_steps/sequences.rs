//! A person's access sequences as steps, so that a real kernel can perform them.

use std::collections::BTreeMap;

use crate::addr::{EffectiveAddr, GuestPhysAddr, PteIndex};
use crate::book3s::hpte::{PP_RWXX, PP_RXRX, key_bits};
use crate::book3s::insn::Direction;
use crate::kvm_hv::memslot::DirtyLog;
use crate::kvm_hv::number;
use crate::workload::guest::{Guest, PageUse};
use crate::workload::script::{Script, ScriptError};
use crate::workload::sequence::{Op, Page, Protection, Sequence};
use crate::workload::steps::{STREAM_GPA, VmmOp};

use super::draw::StepStream;
use super::watch::{Watch, Watched};

/// Order of the table that a sequence begins with: that of `hvmmio sequence`.
const ORDER: u32 = 18;
/// EA of MMIO page 0, in a segment of its own.
const MMIO_EA: u64 = 0xd000_0000_0000_0000;
/// EA of RAM page 0.
const RAM_EA: u64 = 0xc000_0000_0000_0000;
/// Guest physical address of MMIO page 0.
const MMIO_GPA: u64 = 0x2000_0000_0000;
/// Where in its page an access goes.
const OFFSET: u64 = 0x40;
/// Bytes of a page.
const PAGE: u64 = 1 << 16;
/// Memslot of the RAM pages; those over MMIO pages come after it.
const RAM_SLOT: u32 = 1;
/// The last memslot that steps have.
const LAST_SLOT: u32 = 31;

/// Why a sequence cannot be made into steps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SequenceStepsError {
    /// More memslots than steps have.
    #[error("{name}, line {line}: memslots over more than {} different pages; on a real kernel there are no more", LAST_SLOT - RAM_SLOT)]
    Memslots {
        /// The sequence.
        name: String,
        /// Line in the file, from 1.
        line: usize,
    },
    /// A page cannot be entered.
    #[error("{name}, line {line}: {source}")]
    Script {
        /// The sequence.
        name: String,
        /// Line in the file, from 1; 0 before the first.
        line: usize,
        /// How.
        source: ScriptError,
    },
}

/// What goes wrong within a line.
enum LineError {
    Memslots,
    Script(ScriptError),
}

impl From<ScriptError> for LineError {
    fn from(source: ScriptError) -> Self {
        Self::Script(source)
    }
}

/// The steps of a sequence, with its labels. Pages are of 64 KiB in segments of 1 TiB.
///
/// A page that the guest never entered has no index to name: what a hypercall says of index 0 then.
///
/// # Errors
/// More pages that meet in a group than it has slots, or more than 30 memslots.
pub fn sequence_steps(sequence: &Sequence) -> Result<Watched, SequenceStepsError> {
    let name = || sequence.name().to_owned();
    let at_line = |line| {
        move |error| match error {
            LineError::Memslots => SequenceStepsError::Memslots { name: sequence.name().to_owned(), line },
            LineError::Script(source) => SequenceStepsError::Script { name: sequence.name().to_owned(), line, source },
        }
    };
    let mut it = Steps::new(sequence).map_err(at_line(0))?;
    let mut watches = Vec::new();
    for line in sequence.lines() {
        it.op(&line.op).map_err(at_line(line.line))?;
        if matches!(line.op, Op::Load(_) | Op::Store(_)) {
            let text = format!("line {}: {}", line.line, line.op);
            watches.push(Watch { step: it.script.steps().len() - 1, text, expected: line.label });
        }
    }
    Ok(Watched { stream: StepStream { name: name(), steps: it.script.finish() }, watches })
}

struct Steps {
    script: Script,
    guest: Guest,
    /// Where the guest last entered each page.
    entered: BTreeMap<Page, PteIndex>,
    /// The key it gave it then: what H_PROTECT keeps.
    keys: BTreeMap<Page, u64>,
    /// Memslots over MMIO pages.
    slots: BTreeMap<u16, u32>,
    ram_pages: u64,
    value: u64,
}

impl Steps {
    fn new(sequence: &Sequence) -> Result<Self, LineError> {
        let script = Script::new(ORDER)?;
        let (entered, keys, slots) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut it = Self { script, guest: Guest::default(), entered, keys, slots, ram_pages: 0, value: 0 };
        for (slot, ea) in [(1, MMIO_EA), (2, RAM_EA)] {
            it.script.segment(&it.guest, slot, EffectiveAddr(ea));
        }
        let named: Vec<Page> = sequence.lines().iter().flat_map(|line| line.op.pages()).collect();
        let ram = named.iter().filter_map(|page| if let Page::Ram(n) = page { Some(u64::from(*n) + 1) } else { None });
        it.ram_pages = ram.max().unwrap_or(0);
        if it.ram_pages > 0 {
            it.ram_slot(DirtyLog::Off);
        }
        let mmio: std::collections::BTreeSet<Page> =
            named.into_iter().filter(|page| matches!(page, Page::Mmio(_))).collect();
        for page in mmio {
            it.enter(page, 0)?;
        }
        Ok(it)
    }

    fn ram_slot(&mut self, dirty_log: DirtyLog) {
        let (base, size) = (STREAM_GPA, self.ram_pages * PAGE);
        self.script.vmm(VmmOp::SetMemslot { id: RAM_SLOT, base, size, dirty_log });
    }

    fn place(page: Page) -> (EffectiveAddr, GuestPhysAddr) {
        match page {
            Page::Mmio(n) => {
                (EffectiveAddr(MMIO_EA + u64::from(n) * PAGE), GuestPhysAddr(MMIO_GPA + u64::from(n) * PAGE))
            }
            Page::Ram(n) => {
                (EffectiveAddr(RAM_EA + u64::from(n) * PAGE), GuestPhysAddr(STREAM_GPA.0 + u64::from(n) * PAGE))
            }
        }
    }

    fn enter(&mut self, page: Page, key: u8) -> Result<(), LineError> {
        let (ea, gpa) = Self::place(page);
        let kind = if matches!(page, Page::Mmio(_)) { PageUse::DEVICE } else { PageUse::RAM };
        let at = self.script.enter(&self.guest, ea, gpa, kind.with_key(u64::from(key)))?;
        self.entered.insert(page, at);
        self.keys.insert(page, u64::from(key));
        Ok(())
    }

    /// Where the guest entered the page; a RAM page that it never entered is entered now.
    fn entry(&mut self, page: Page) -> Result<PteIndex, LineError> {
        if matches!(page, Page::Ram(_)) && !self.entered.contains_key(&page) {
            self.enter(page, 0)?;
        }
        Ok(self.entered.get(&page).copied().unwrap_or(PteIndex(0)))
    }

    fn op(&mut self, op: &Op) -> Result<(), LineError> {
        match op {
            Op::Store(page) => self.access(*page, Direction::Store)?,
            Op::Load(page) => self.access(*page, Direction::Load)?,
            Op::Reenter(page) => {
                let page = Page::Mmio(*page);
                let at = self.entry(page)?;
                self.script.remove(at);
                self.enter(page, 0)?;
            }
            Op::Enter(page, key) => self.enter(*page, *key)?,
            Op::Remove(page) => {
                let at = self.entry(*page)?;
                self.script.remove(at);
            }
            Op::BulkRemove(pages) => {
                let entries = pages.iter().map(|page| self.entry(*page)).collect::<Result<Vec<_>, _>>()?;
                self.script.bulk_remove(&entries);
            }
            Op::Protect(page, protection) => {
                let at = self.entry(*page)?;
                let pp = if *protection == Protection::ReadOnly { PP_RXRX } else { PP_RWXX };
                self.script.protect(at, pp | key_bits(self.keys.get(page).copied().unwrap_or(0)));
            }
            Op::Read(page) => self.by_index(number::H_READ, *page)?,
            Op::ClearRef(page) => self.by_index(number::H_CLEAR_REF, *page)?,
            Op::ClearMod(page) => self.by_index(number::H_CLEAR_MOD, *page)?,
            Op::PageOut(page) => self.script.vmm(VmmOp::PageOut { gpa: Self::place(*page).1 }),
            Op::PageIn(page) => self.script.vmm(VmmOp::PageIn { gpa: Self::place(*page).1 }),
            Op::MemslotCreate(page) => {
                let id = self.slot(*page)?;
                let base = Self::place(Page::Mmio(*page)).1;
                self.script.vmm(VmmOp::SetMemslot { id, base, size: PAGE, dirty_log: DirtyLog::Off });
            }
            Op::MemslotDelete(page) => {
                let id = self.slot(*page)?;
                self.script.vmm(VmmOp::DeleteMemslot { id });
            }
            Op::DirtyLog(dirty_log) => self.ram_slot(*dirty_log),
            Op::NewHpt(order) => self.script.new_table(*order)?,
            Op::ResetHpt => self.script.new_table(self.script.order())?,
        }
        Ok(())
    }

    fn by_index(&mut self, number: u64, page: Page) -> Result<(), LineError> {
        let at = self.entry(page)?;
        self.script.hcall(number, &[0, at.0]);
        Ok(())
    }

    fn access(&mut self, page: Page, direction: Direction) -> Result<(), LineError> {
        self.entry(page)?;
        let (ea, _) = Self::place(page);
        self.value += 1;
        self.script.access(direction, EffectiveAddr(ea.0 + OFFSET), self.value)?;
        Ok(())
    }

    fn slot(&mut self, page: u16) -> Result<u32, LineError> {
        let next = RAM_SLOT + 1 + u32::try_from(self.slots.len()).unwrap_or(LAST_SLOT);
        let id = *self.slots.entry(page).or_insert(next);
        if id > LAST_SLOT { Err(LineError::Memslots) } else { Ok(id) }
    }
}

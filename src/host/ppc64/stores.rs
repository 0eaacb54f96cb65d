//! What a store to an MMIO page costs, in ticks of the time base, by the pages that are stored to.

use serde::Serialize;

use crate::addr::{EffectiveAddr, GuestPhysAddr, Vsid, index};
use crate::book3s::slb::SegmentSize;
use crate::book3s::{PageSize, PageSizes};
use crate::host::HostError;
use crate::kvm_hv::number;
use crate::workload::guest::{Guest, PageUse};
use crate::workload::script::{group, slbmte};
use crate::workload::steps::{Answer, Attach, GuestOp, RUNTIME_SLB, STUB_EA, Step, StepExecutor as _, VmmOp};

use super::guest::{HashGuest, Tracing};
use super::system::System;

/// Order of the table: the least there is.
const ORDER: u32 = 18;
/// The one segment, of 4 KiB pages: they are there on every host.
const GUEST: Guest = Guest {
    segment: SegmentSize::M256,
    vsid: Vsid(0x1234),
    sizes: PageSizes { base: PageSize::K4, actual: PageSize::K4 },
};
/// First device page. The first 16 are in the groups that the stub's 16 pages are in, and behind them: a search passes an entry
/// that is not the one, as in any guest whose groups are not empty. It costs a miss some 9 ticks.
const EA: u64 = 0x800_0000 + STUB_EA.0;
/// Its guest physical address, far from memory.
const GPA: u64 = 0x1_0000_0000;
/// Bytes of a page.
const PAGE: u64 = GUEST.sizes.actual.bytes();

/// How a store leaves the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// To user space and back.
    Exit,
    /// By an ioeventfd of length 0: taken before the instruction is fetched.
    IoeventfdAnyLength,
    /// By an ioeventfd of the store's length, 4.
    IoeventfdLength4,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Exit, Self::IoeventfdAnyLength, Self::IoeventfdLength4];

    /// As reports call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::IoeventfdAnyLength => "ioeventfd, length 0",
            Self::IoeventfdLength4 => "ioeventfd, length 4",
        }
    }

    const fn length(self) -> Option<u32> {
        match self {
            Self::Exit => None,
            Self::IoeventfdAnyLength => Some(0),
            Self::IoeventfdLength4 => Some(4),
        }
    }
}

/// What stores cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoreCost {
    /// How they left the guest.
    pub way: Way,
    /// Stores of a round.
    pub stores: u64,
    /// Ticks of the time base a store, the median of the rounds.
    pub ticks: f64,
    /// Of the fastest and the slowest round.
    pub range: [f64; 2],
}

/// A guest with device pages to store to.
#[derive(Debug)]
pub struct StoreBench {
    guest: HashGuest,
    attached: Option<Way>,
    pages: u32,
}

/// H_ENTER of a page, into the first free slot of its primary group.
fn enter(ea: u64, gpa: u64, page: PageUse) -> Result<Step, HostError> {
    let (entry, key) = GUEST
        .hpte(EffectiveAddr(ea), GuestPhysAddr(gpa), page)
        .ok_or_else(|| HostError::Wrong("no HPTE has such page sizes".to_owned()))?;
    let mut args = [0; 9];
    args[1..4].copy_from_slice(&[group(&key, ORDER, false).0, entry.v, entry.r]);
    Ok(Step::Guest(GuestOp::Hcall { number: number::H_ENTER, args }))
}

impl StoreBench {
    /// Most pages: those that the guest has room for.
    pub const MAX_PAGES: u32 = 1024;

    /// A guest with `pages` device pages of 4 KiB, 1 to [`Self::MAX_PAGES`].
    ///
    /// # Errors
    /// No hash guest on this host, or more pages than there is room for.
    pub fn new(system: &System, pages: u32) -> Result<Self, HostError> {
        if !(1..=Self::MAX_PAGES).contains(&pages) {
            return Err(HostError::Unsupported(format!("{pages} device pages: 1 to {} are possible", Self::MAX_PAGES)));
        }
        let mut guest = HashGuest::new(system, ORDER, Tracing::Off)?;
        let mut steps = vec![slbmte(GUEST.slb_entry(RUNTIME_SLB, EffectiveAddr(0)))];
        for at in (STUB_EA.0..STUB_EA.0 + 0x1_0000).step_by(index(PAGE)) {
            steps.push(enter(at, at, PageUse::RAM)?);
        }
        for page in 0..u64::from(pages) {
            steps.push(enter(EA + page * PAGE, GPA + page * PAGE, PageUse::DEVICE)?);
        }
        for answer in guest.perform(&steps)? {
            match answer {
                Answer::Done | Answer::Hcall { code: 0, .. } => {}
                other => return Err(HostError::Wrong(format!("entering a page answered {other:?}"))),
            }
        }
        Ok(Self { guest, attached: None, pages })
    }

    fn attach(&mut self, way: Way, attach: Attach) -> Result<(), HostError> {
        let Some(length) = way.length() else { return Ok(()) };
        let at = |page: u64| {
            let gpa = GuestPhysAddr(GPA + page * PAGE);
            Step::Vmm(VmmOp::Ioeventfd { gpa, length, datamatch: None, attach })
        };
        let steps: Vec<_> = (0..self.pages.into()).map(at).collect();
        for answer in self.guest.perform(&steps)? {
            if let Answer::Vmm { errno: errno @ 1.. } = answer {
                return Err(HostError::call("KVM_IOEVENTFD", std::io::Error::from_raw_os_error(errno)));
            }
        }
        Ok(())
    }

    /// Times stores to a sequence of pages, `rounds` times over, after `warm` stores of it.
    ///
    /// # Errors
    /// The sequence is empty, longer than 15,360 stores or names a page that there is not; KVM refuses.
    pub fn time(&mut self, way: Way, pages: &[u32], warm: u64, rounds: u32) -> Result<StoreCost, HostError> {
        if let Some(page) = pages.iter().find(|page| **page >= self.pages) {
            return Err(HostError::Unsupported(format!("page {page}: there are {}", self.pages)));
        }
        if self.attached != Some(way) {
            if let Some(before) = self.attached.take() {
                self.attach(before, Attach::Deassign)?;
            }
            self.attach(way, Attach::Assign)?;
            self.attached = Some(way);
        }
        let signalled = |bench: &mut Self| Ok::<u64, HostError>(bench.guest.eventfds()?.iter().sum());
        let before = signalled(self)?;
        #[expect(clippy::cast_possible_truncation, reason = "at most 1,024 pages of 4 KiB")]
        let offsets: Vec<u32> = pages.iter().map(|page| page * PAGE as u32).collect();
        let mut ticks = Vec::new();
        for _ in 0..rounds.max(1) {
            ticks.push(self.guest.timed_stores(EA, &offsets, warm)? as f64 / pages.len() as f64);
        }
        let told = signalled(self)? - before;
        let made = (pages.len() as u64 + warm) * u64::from(rounds.max(1));
        if way != Way::Exit && told != made {
            return Err(HostError::Wrong(format!("eventfds were told of {told} of {made} stores")));
        }
        ticks.sort_by(f64::total_cmp);
        let stores = pages.len() as u64;
        Ok(StoreCost { way, stores, ticks: ticks[ticks.len() / 2], range: [ticks[0], ticks[ticks.len() - 1]] })
    }

    /// A sequence over so many pages, round robin.
    #[must_use]
    pub fn round_robin(pages: u32, stores: u32) -> Vec<u32> {
        (0..stores).map(|store| store % pages.max(1)).collect()
    }
}

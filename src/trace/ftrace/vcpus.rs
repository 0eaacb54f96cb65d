//! Which access missed: each vCPU thread's exits, followed from event to event.
//!
//! A miss shows `kvm_page_fault_enter` before the probe's line of the same exit, a hit does not
//! (`kvmppc_book3s_hv_page_fault` asks the cache before that tracepoint).

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::pages::{Known, Pages, Segment};
use super::step::{HpteCall, Step, What};
use crate::addr::{EffectiveAddr, GuestPhysAddr};
use crate::book3s::hpte::HPTE_R_RPN;
use crate::book3s::insn::Direction;
use crate::book3s::msr::DSISR_ISSTORE;
use crate::trace::{Access, Facts, HitsKnown, Item, Observed, VcpuFacts};

/// `slot=` of a fault that found no memslot.
const NO_MEMSLOT: u64 = u64::MAX;
/// Faults without a probe's line after which a recording counts as one without the probe.
const UNPROBED: usize = 1 << 16;
/// Where nothing was told yet: what Linux guests use for device pages.
const DEFAULT_SHIFT: u8 = 16;
/// x86 pages.
const X86_SHIFT: u8 = 12;
/// H_BULK_REMOVE: a request's index, and the request itself.
const BULK_INDEX: u64 = 0x00ff_ffff_ffff_ffff;
const BULK_REQUEST_SHIFT: u32 = 62;
const BULK_REQUEST: u64 = 1;
/// EAs of one 256 MiB segment share this.
const SEGMENT_SHIFT: u32 = 28;

#[derive(Clone, Copy, Debug)]
struct Fault {
    ea: EffectiveAddr,
    access: Option<Access>,
}

#[derive(Debug, Default)]
struct Thread {
    vcpu: Option<u32>,
    /// Its number among vCPUs with accesses.
    number: Option<u32>,
    vm: u32,
    /// Whether it showed an event since the beginning, or since events were lost: only then does a fault not seen
    /// mean that there was none.
    followed: bool,
    fault: Option<Fault>,
    hcall: Option<(HpteCall, [u64; 4])>,
    /// By 256 MiB of EA: where it faulted last.
    segments: FxHashMap<u64, Segment>,
}

/// All of a recording's threads.
#[derive(Debug, Default)]
pub(super) struct Vcpus {
    threads: Vec<Thread>,
    by_pid: FxHashMap<u32, usize>,
    last: Option<(u32, usize)>,
    vms: FxHashMap<u32, u32>,
    pages: FxHashMap<u32, Pages>,
    last_shift: Option<u8>,
    probe_seen: bool,
    without_probe: bool,
    /// Misses that no probe's line followed, as long as it is not known whether there is a probe.
    unprobed: Vec<Item>,
}

impl Vcpus {
    fn thread(&mut self, pid: u32) -> usize {
        match self.last {
            Some((last, at)) if last == pid => at,
            _ => {
                let at = *self.by_pid.entry(pid).or_insert_with(|| {
                    self.threads.push(Thread::default());
                    self.threads.len() - 1
                });
                self.last = Some((pid, at));
                at
            }
        }
    }

    /// Events were lost: nothing that is pending means anything any more.
    pub(super) fn lost(&mut self) {
        for thread in &mut self.threads {
            (thread.followed, thread.fault, thread.hcall) = (false, None, None);
        }
    }

    /// Takes a step; what it tells goes to `out`.
    pub(super) fn step(&mut self, step: &Step, facts: &mut Facts, out: &mut VecDeque<Item>) {
        let at = self.thread(step.pid);
        if step.vcpu.is_some() {
            self.threads[at].vcpu = step.vcpu;
        }
        match step.what {
            What::Fault { hpte_v, hpte_r, guest_r, ea, dsisr, base_gfn } => {
                self.fault_ends(at, facts, out);
                let segment = Segment::of_hpte(hpte_v, hpte_r);
                let vm = self.threads[at].vm;
                if let Some(segment) = segment {
                    self.threads[at].segments.insert(ea.0 >> SEGMENT_SHIFT, segment);
                    self.last_shift = Some(segment.shift);
                    let pages = self.pages.entry(vm).or_default();
                    if base_gfn == NO_MEMSLOT {
                        pages.mmio(hpte_v, segment, ea, guest_r);
                    } else {
                        pages.ram(hpte_v, segment, ea);
                    }
                }
                let access = (base_gfn == NO_MEMSLOT).then(|| {
                    let shift = segment.map_or(DEFAULT_SHIFT, |segment| segment.shift);
                    let offset = ea.0 & ((1 << shift) - 1);
                    let direction = if dsisr & DSISR_ISSTORE == 0 { Direction::Load } else { Direction::Store };
                    Access {
                        at: step.at,
                        vcpu: 0,
                        vm,
                        ea,
                        gpa: GuestPhysAddr(guest_r & HPTE_R_RPN & !((1 << shift) - 1) | offset),
                        segment: segment.map_or(0, |segment| segment.slb_v),
                        page_shift: shift,
                        direction,
                        len: 0,
                        observed: Observed::Miss,
                    }
                });
                self.threads[at].fault = Some(Fault { ea, access });
            }
            What::FaultEnd => self.threads[at].fault = None,
            What::Emulate { gpa, ea, direction } => self.emulated(step, at, (gpa, ea, direction), facts, out),
            What::Enter { tgid } => {
                self.fault_ends(at, facts, out);
                if let Some(tgid) = tgid {
                    let next = u32::try_from(self.vms.len()).unwrap_or(u32::MAX);
                    self.threads[at].vm = *self.vms.entry(tgid).or_insert(next);
                }
                self.hcall_ends(at, step.at, facts, out);
            }
            What::Hcall { call, args } => {
                facts.hypercalls += 1;
                facts.bulk_removes += u64::from(call == HpteCall::BulkRemove);
                self.hcall_ends(at, step.at, facts, out);
                self.threads[at].hcall = Some((call, args));
            }
            What::HcallEnd { success } => {
                if !success {
                    self.threads[at].hcall = None;
                }
                self.hcall_ends(at, step.at, facts, out);
            }
            What::X86 { gpa, direction, len } => self.x86(step, at, (gpa, direction, len), facts, out),
            What::Lost(_) | What::Other => {}
        }
        self.threads[at].followed = true;
    }

    /// The recording ends.
    pub(super) fn end(&mut self, facts: &mut Facts, out: &mut VecDeque<Item>) {
        for at in 0..self.threads.len() {
            self.fault_ends(at, facts, out);
        }
        if !self.probe_seen {
            self.conclude_without_probe(facts, out);
        }
    }

    fn conclude_without_probe(&mut self, facts: &mut Facts, out: &mut VecDeque<Item>) {
        let misses = std::mem::take(&mut self.unprobed);
        // x86, and recordings of hypercalls alone, have no such faults.
        if misses.is_empty() && facts.accesses > 0 {
            return;
        }
        self.without_probe = true;
        facts.hits = HitsKnown::MissesOnly;
        facts.accesses += misses.iter().filter(|item| matches!(item, Item::Access(_))).count() as u64;
        out.extend(misses);
    }

    fn number(&mut self, at: usize, pid: u32, facts: &mut Facts) -> u32 {
        let thread = &mut self.threads[at];
        *thread.number.get_or_insert_with(|| {
            facts.vcpus.push(VcpuFacts { vcpu: thread.vcpu, pid: Some(pid), vm: thread.vm });
            u32::try_from(facts.vcpus.len() - 1).unwrap_or(u32::MAX)
        })
    }

    fn emulated(
        &mut self,
        step: &Step,
        at: usize,
        (gpa, ea, direction): (GuestPhysAddr, EffectiveAddr, Direction),
        facts: &mut Facts,
        out: &mut VecDeque<Item>,
    ) {
        if !self.probe_seen {
            self.probe_seen = true;
            // There is a probe: faults that it did not follow were no accesses.
            facts.unfollowed_faults +=
                self.unprobed.iter().filter(|item| matches!(item, Item::Access(_))).count() as u64;
            self.unprobed.retain(|item| !matches!(item, Item::Access(_)));
            out.extend(self.unprobed.drain(..));
        }
        facts.hits = HitsKnown::Yes;
        let vcpu = self.number(at, step.pid, facts);
        let thread = &mut self.threads[at];
        let observed = match thread.fault.take() {
            Some(fault) if fault.ea == ea => Observed::Miss,
            _ if thread.followed => Observed::Hit,
            _ => Observed::Unknown,
        };
        facts.undecided += u64::from(observed == Observed::Unknown);
        let segment = thread.segments.get(&(ea.0 >> SEGMENT_SHIFT));
        facts.assumed_page_size += u64::from(segment.is_none());
        facts.accesses += 1;
        out.push_back(Item::Access(Access {
            at: step.at,
            vcpu,
            vm: thread.vm,
            ea,
            gpa,
            segment: segment.map_or(0, |segment| segment.slb_v),
            page_shift: segment.map(|segment| segment.shift).or(self.last_shift).unwrap_or(DEFAULT_SHIFT),
            direction,
            len: 0,
            observed,
        }));
    }

    /// Whatever the thread's last fault led to, it is over.
    fn fault_ends(&mut self, at: usize, facts: &mut Facts, out: &mut VecDeque<Item>) {
        let Some(Fault { access: Some(mut access), .. }) = self.threads[at].fault.take() else { return };
        if self.probe_seen {
            facts.unfollowed_faults += 1;
            return;
        }
        let pid = self.by_pid.iter().find(|(_, thread)| **thread == at).map_or(0, |(pid, _)| *pid);
        access.vcpu = self.number(at, pid, facts);
        if self.without_probe {
            facts.accesses += 1;
            out.push_back(Item::Access(access));
            return;
        }
        self.unprobed.push(Item::Access(access));
        if self.unprobed.len() >= UNPROBED {
            self.conclude_without_probe(facts, out);
        }
    }

    /// The thread's hypercall is over, and was not refused as far as is told.
    fn hcall_ends(&mut self, at: usize, when: u64, facts: &mut Facts, out: &mut VecDeque<Item>) {
        let Some((call, args)) = self.threads[at].hcall.take() else { return };
        let vm = self.threads[at].vm;
        let pages = self.pages.entry(vm).or_default();
        let mut moved = |touched: Option<(Known, Option<EffectiveAddr>)>| match touched {
            Some((known, page)) => {
                facts.generation_moves += 1;
                facts.presumed_mmio += u64::from(known == Known::Presumed);
                let item = Item::Generation { at: when, vm, page };
                // Behind the misses that wait for a probe's line to be seen.
                if self.probe_seen || self.without_probe || self.unprobed.is_empty() {
                    out.push_back(item);
                } else {
                    self.unprobed.push(item);
                }
            }
            None => facts.unknown_hptes += 1,
        };
        let [first, second, third, fourth] = args;
        match call {
            HpteCall::Enter => pages.enter(second, third, fourth),
            HpteCall::Remove | HpteCall::Protect => moved(pages.touched(second, third)),
            HpteCall::BulkRemove => {
                for (request, avpn) in [(first, second), (third, fourth)] {
                    if request >> BULK_REQUEST_SHIFT == BULK_REQUEST {
                        moved(pages.touched(request & BULK_INDEX, avpn));
                    }
                }
            }
            HpteCall::Other => {}
        }
    }

    fn x86(
        &mut self,
        step: &Step,
        at: usize,
        (gpa, direction, len): (GuestPhysAddr, Direction, u8),
        facts: &mut Facts,
        out: &mut VecDeque<Item>,
    ) {
        let vcpu = self.number(at, step.pid, facts);
        facts.accesses += 1;
        out.push_back(Item::Access(Access {
            at: step.at,
            vcpu,
            vm: self.threads[at].vm,
            ea: EffectiveAddr(gpa.0),
            gpa,
            segment: 0,
            page_shift: X86_SHIFT,
            direction,
            len,
            observed: Observed::Unknown,
        }));
    }
}

//! Every way of an access at once, timed by kind.
//!
//! The guest looks at its time stamp counter after each access and adds the time since its last look to the access's kind, so
//! that all of a batch's time is some kind's. What a look itself takes is found by looks with no access between them, and
//! taken off each access.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::host::x86_64::{Asm, DATA, EcamMemory, HostError, Reg, System, Vm};
use crate::io::EventfdId;
use crate::io::pci::{Bdf, Register, Width as Bytes};
use crate::kvm_x86::{Pending, Target};
use crate::sim::KindStat;
use crate::workload::mixed::{
    self, ECAM_EXITS, ECAM_READ_ONLY, IN_BYTE, KINDS, Mixed as Spec, MixedKind, SIGNALLED, Seen, ioeventfds, zones,
};

use super::clock::Tsc;
use super::rig::{Rig, Stream, median};
use super::wrong;

/// A vCPU's sums in the guest's memory: cycles by kind, then of looks without an access, then what reads differed in.
const AREA_BYTES: u64 = 4096;
const EMPTY: usize = KINDS;
const DIFFERENCES: usize = KINDS + 1;
const WORDS: usize = KINDS + 2;
/// Looks without an access, a batch.
const LOOKS: u64 = 32;

const fn area(vcpu: u32) -> u64 {
    DATA + vcpu as u64 * AREA_BYTES
}

fn refused(error: impl std::fmt::Display) -> HostError {
    HostError::Unsupported(error.to_string())
}

/// What a batch of a vCPU told.
#[derive(Clone, Copy)]
struct Timed {
    counts: [u64; KINDS],
    cycles: [u64; KINDS],
    look: f64,
}

/// The mix on a rig.
pub(super) struct Mixed {
    blocks: Vec<Vec<MixedKind>>,
    seen: Arc<Mutex<Seen>>,
    timed: Mutex<Vec<Timed>>,
    /// What a read of each kind must bring; none of writes.
    expected: [Option<u32>; KINDS],
    start: (std::time::Instant, Tsc),
}

impl Mixed {
    /// A rig with zones, ioeventfds, devices and two PCI segments, a read-only memslot over one of them.
    ///
    /// # Errors
    /// What KVM refuses.
    pub fn new(system: &System, spec: &Spec, seed: u64, vcpus: u32) -> Result<(Rig, Self), HostError> {
        let mut rig = Rig::new(system, vcpus)?;
        for zone in zones() {
            rig.coalesce(zone)?;
        }
        for ioeventfd in ioeventfds([EventfdId(0), EventfdId(1)]) {
            rig.ioeventfd(&ioeventfd)?;
        }
        let seen = mixed::attach(&rig.vmm.user);
        let exits = mixed::pci_host(ECAM_EXITS).map_err(refused)?;
        exits.attach(&rig.vmm.user);
        let read_only = EcamMemory::new(mixed::pci_host(ECAM_READ_ONLY).map_err(refused)?)?;
        rig.vm.add_read_only(ECAM_READ_ONLY.0, Arc::clone(read_only.memory()))?;
        read_only.attach(&rig.vmm.user);
        let ids = Register::new(0, Bytes::Dword).map_err(refused)?;
        let mut expected = [None; KINDS];
        expected[MixedKind::In as usize] = Some(u32::from_le_bytes([IN_BYTE; 4]));
        for (kind, host) in [(MixedKind::EcamRead, &exits), (MixedKind::ReadOnlyRead, read_only.host())] {
            expected[kind as usize] = Some(host.bridge().bus().read(Bdf::from_bits(0), ids));
        }
        let blocks = (0..vcpus).map(|vcpu| spec.block(seed, vcpu)).collect();
        let start = (std::time::Instant::now(), Tsc::now());
        Ok((rig, Self { blocks, seen, timed: Mutex::default(), expected, start }))
    }

    /// Whether every write was seen, by device or eventfd, as often as it was made. Returns what eventfds counted.
    ///
    /// # Errors
    /// Says which kind was not, or the eventfd's.
    pub fn verdict(&self, rig: &Rig, units: &[u64]) -> Result<u64, HostError> {
        let mut seen = *self.seen.lock();
        if let Some((kind, value)) = seen.wrong {
            return wrong(format!("a write of kind {kind} carried {value:#x}, not {:#x}", kind.value()));
        }
        let mut signalled = 0;
        for ((kind, _), eventfd) in SIGNALLED.iter().zip(&rig.eventfds) {
            let count = eventfd.take()?;
            signalled += count;
            seen.writes[*kind as usize] += count;
        }
        let made = self.made(units);
        for kind in MixedKind::ALL.iter().filter(|kind| kind.counted().is_some()) {
            let (made, seen) = (made[*kind as usize], seen.writes[*kind as usize]);
            if made != seen {
                return wrong(format!("{made} writes of kind {kind} were made, {seen} were seen"));
            }
        }
        Ok(signalled)
    }

    /// Accesses by kind, of all vCPUs.
    fn made(&self, units: &[u64]) -> [u64; KINDS] {
        let mut made = [0; KINDS];
        for (block, units) in self.blocks.iter().zip(units) {
            for (sum, more) in made.iter_mut().zip(mixed::counts(block, 0, *units)) {
                *sum += more;
            }
        }
        made
    }

    /// Accesses to addresses, and of these loads from memory, which no exit shows.
    pub fn addresses(&self, units: &[u64]) -> (u64, u64) {
        let made = self.made(units);
        let is_mmio = |kind: &&MixedKind| matches!(Pending::new(kind.instruction()).target(), Target::Mmio(_));
        let all = MixedKind::ALL.iter().filter(is_mmio).map(|kind| made[*kind as usize]).sum();
        (all, made[MixedKind::ReadOnlyRead as usize])
    }

    /// Counts and times by kind; of a time the median over batches. The first batch, which is cold, is not among them unless it is
    /// the only one.
    pub fn kinds(&self, units: &[u64]) -> Vec<KindStat> {
        let ns_per_cycle = self.start.0.elapsed().as_nanos() as f64 / self.start.1.since().max(1) as f64;
        let timed = self.timed.lock();
        let warm = &timed[self.blocks.len().min(timed.len().saturating_sub(1))..];
        let look = median(&mut warm.iter().map(|batch| batch.look).collect::<Vec<_>>());
        let each = |kind: usize| {
            let those = warm.iter().filter(|batch| batch.counts[kind] > 0);
            let mean = |batch: &Timed| batch.cycles[kind] as f64 / batch.counts[kind] as f64;
            let cycles = median(&mut those.map(mean).collect::<Vec<_>>());
            (cycles - look).max(0.0) * ns_per_cycle
        };
        KindStat::all(self.made(units), std::array::from_fn(each))
    }
}

/// Adds the time since the last look to a sum, and looks anew. rBX is the vCPU's area, r8 the last look.
fn look(asm: &mut Asm, word: usize) {
    // At most WORDS * 8, so a byte holds it.
    let displacement = u8::try_from(word * 8).unwrap_or(u8::MAX);
    // mov r9, rax; sub rax, r8; add [rbx+displacement], rax; mov r8, r9
    asm.rdtsc().raw(&[0x49, 0x89, 0xc1, 0x4c, 0x29, 0xc0]).raw(&[0x48, 0x01, 0x43, displacement]);
    asm.raw(&[0x4d, 0x89, 0xc8]);
}

impl Stream for Mixed {
    /// Accesses written out, whole blocks in a loop.
    fn code(&self, vcpu: u32, from: u64, units: u64) -> Asm {
        let block = &self.blocks[vcpu as usize];
        let length = block.len() as u64;
        let mut asm = Asm::new();
        asm.mov(Reg::Rbx, area(vcpu)).mov(Reg::R14, 0).mov(Reg::R12, LOOKS);
        // rdtsc into rax; mov r8, rax
        asm.rdtsc().raw(&[0x49, 0x89, 0xc0]);
        let again = asm.label();
        look(&mut asm, EMPTY);
        asm.repeat(Reg::R12, again);
        let accesses = |asm: &mut Asm, units| {
            for place in from..from + units {
                let kind = block[crate::addr::index(place % length)];
                asm.perform(&kind.instruction(), 0);
                if let Some(expected) = self.expected[kind as usize] {
                    // xor eax, expected; or r14, rax
                    asm.raw(&[0x35]).raw(&expected.to_le_bytes()).raw(&[0x49, 0x09, 0xc6]);
                }
                look(asm, kind as usize);
            }
        };
        let (turns, rest) = (units / length, units % length);
        if turns > 0 {
            asm.mov(Reg::R12, turns);
            let again = asm.label();
            accesses(&mut asm, length);
            asm.repeat(Reg::R12, again);
        }
        accesses(&mut asm, rest);
        asm.copy_to_rax(Reg::R14).save_rax(area(vcpu) + DIFFERENCES as u64 * 8);
        asm
    }

    fn check(&self, vm: &Vm, vcpu: u32, from: u64, units: u64) -> Result<(), HostError> {
        let mut bytes = [0; WORDS * 8];
        vm.ram().read(area(vcpu), &mut bytes)?;
        vm.ram().write(area(vcpu), &[0; WORDS * 8])?;
        let word = |at: usize| bytes[at * 8..][..8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        if word(DIFFERENCES) != 0 {
            let what = format!("reads among {from} to {} differed in bits {:#x}", from + units, word(DIFFERENCES));
            return wrong(what);
        }
        self.timed.lock().push(Timed {
            counts: mixed::counts(&self.blocks[vcpu as usize], from, units),
            cycles: std::array::from_fn(word),
            look: word(EMPTY) as f64 / LOOKS as f64,
        });
        Ok(())
    }
}

//! A VM set up for a workload, and the time that batches of its accesses take.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use crate::host::x86_64::{Asm, CODE, Deadline, EXIT_PORT, HostError, HostEventfd, RAM_BYTES, System, Vcpu, Vm};
use crate::io::{CoalescedZone, Ioeventfd};
use crate::kvm_x86::PortWidth;

use super::clock::Clock;
use super::vmm::{Counts, Vmm};

/// Most vCPUs of a run: each has a program of its own in the guest's memory.
pub(super) const MOST_VCPUS: u32 = 64;
/// Bytes for a vCPU's program.
pub(super) const PROGRAM_BYTES: u64 = (RAM_BYTES - CODE) / MOST_VCPUS as u64;
/// A batch takes about 10 ms; one that takes this long is stuck.
pub(super) const LIMIT: Duration = Duration::from_secs(30);
/// Time of a batch, long beside a clock's step, short enough that noise hits some batches and not all.
const BATCH_NS: f64 = 1e7;
/// Accesses of the first batch, which is there to be early.
pub(super) const FIRST: u64 = 64;
/// How long a stream that takes next to no time goes round again.
const ROUNDS: Duration = Duration::from_millis(200);
/// Empty batches for the time of one.
const FRAMES: usize = 31;

/// A workload as a stream of like units (mostly an access each), performed by a guest's loop.
pub(super) trait Stream: Sync {
    /// The program of units `from` to `from + units` of a vCPU, without its end.
    fn code(&self, vcpu: u32, from: u64, units: u64) -> Asm;

    /// Whether it goes round again where so few units as the scenario has take less than a batch's own time.
    fn goes_round(&self) -> bool {
        false
    }

    /// Exits of a unit that no access of the workload makes, each as long as a batch's own end.
    fn exits_beside(&self) -> u64 {
        0
    }

    /// Looks at what a vCPU's batch left in the guest's memory.
    ///
    /// # Errors
    /// It is not what it must be.
    fn check(&self, _vm: &Vm, _vcpu: u32, _from: u64, _units: u64) -> Result<(), HostError> {
        Ok(())
    }
}

/// How long a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// To its end.
    Whole,
    /// To its end, or until that time is over; the first batch is made in any case.
    Within(Duration),
}

/// A batch: its units, and the time of all, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Batch {
    pub units: u64,
    pub ns: f64,
}

impl Batch {
    pub fn each(&self) -> f64 {
        self.ns / self.units.max(1) as f64
    }
}

/// What one vCPU did.
#[derive(Clone, Debug, Default)]
pub(super) struct Ran {
    pub units: u64,
    pub batches: Vec<Batch>,
    pub counts: Counts,
    /// From the stream's start to the end of the first batch.
    pub first: Duration,
    /// To the end of the last.
    pub whole: Duration,
}

/// A VM, its vCPUs, its VMM.
pub(super) struct Rig {
    pub vm: Vm,
    pub vcpus: Vec<Vcpu>,
    pub vmm: Vmm,
    /// By device, for what KVM counts there.
    pub eventfds: Vec<HostEventfd>,
    /// How often a thread of the VMM looks into the ring.
    pub poll: Option<Duration>,
    /// What batches are timed by.
    pub clock: Clock,
}

/// Where a vCPU's program is.
pub(super) fn program(vcpu: u32) -> u64 {
    CODE + u64::from(vcpu) * PROGRAM_BYTES
}

impl Rig {
    /// # Errors
    /// KVM refuses, or there are too many vCPUs.
    pub fn new(system: &System, vcpus: u32) -> Result<Self, HostError> {
        if !(1..=MOST_VCPUS).contains(&vcpus) {
            return Err(HostError::Unsupported(format!("{vcpus} vCPUs: a run on real KVM has 1 to {MOST_VCPUS}")));
        }
        let vm = Vm::new(system)?;
        let vcpus = (0..vcpus).map(|id| vm.vcpu(system, id, program(id))).collect::<Result<_, _>>()?;
        Ok(Self { vm, vcpus, vmm: Vmm::default(), eventfds: Vec::new(), poll: None, clock: Clock::Real })
    }

    /// Lets writes there wait in the ring.
    pub fn coalesce(&mut self, zone: CoalescedZone) -> Result<(), HostError> {
        self.vm.register_zone(zone).map_err(|source| HostError::call("KVM_REGISTER_COALESCED_MMIO", source))?;
        self.vmm.zones.push(zone);
        if self.vmm.ring.is_none() {
            self.vmm.ring = Some(self.vcpus[0].ring()?);
        }
        Ok(())
    }

    /// Lets an eventfd of its own count writes that match.
    pub fn ioeventfd(&mut self, spec: &Ioeventfd) -> Result<(), HostError> {
        let eventfd = HostEventfd::new()?;
        self.vm.assign(spec, &eventfd).map_err(|source| HostError::call("KVM_IOEVENTFD", source))?;
        self.eventfds.push(eventfd);
        Ok(())
    }

    /// Time of a batch without units, ns: into the guest, to its end, back. The median of some.
    pub fn frame_ns(&mut self) -> Result<f64, HostError> {
        let empty = ended(Asm::new());
        let mut times = Vec::with_capacity(FRAMES);
        for _ in 0..FRAMES {
            let (vmm, vcpu) = ((&self.vm, &self.vmm, self.clock), (0, &mut self.vcpus[0]));
            let time = timed(vmm, vcpu, &empty, &mut Counts::default())?;
            times.push(time.as_nanos() as f64);
        }
        Ok(median(&mut times))
    }

    /// One batch of the first vCPU.
    pub fn batch(
        &mut self,
        stream: &dyn Stream,
        units: Range<u64>,
        frame_ns: f64,
        counts: &mut Counts,
    ) -> Result<Batch, HostError> {
        let work = Work { vm: &self.vm, vmm: &self.vmm, clock: self.clock, stream, frame_ns };
        work.batch((0, &mut self.vcpus[0]), units, counts)
    }

    /// `count` units of each vCPU, or as many as the pace allows. Each vCPU has a thread; where there are several, they drain the
    /// one ring in turn, under the lock that serialises the VMM's devices.
    pub fn run(
        &mut self,
        stream: &dyn Stream,
        count: u64,
        pace: Pace,
        frame_ns: f64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Ran>, HostError> {
        let work = Work { vm: &self.vm, vmm: &self.vmm, clock: self.clock, stream, frame_ns };
        let (stop, polled, poll) = (AtomicBool::new(false), AtomicU64::new(0), self.poll);
        let (first, others) = self.vcpus.split_at_mut(1);
        let mut ran = std::thread::scope(|scope| {
            let (stopped, drained) = (&stop, &polled);
            let poller = poll.map(|every| scope.spawn(move || poll_ring(work.vmm, every, stopped, drained)));
            let start = |(vcpu, id): (_, u32)| scope.spawn(move || work.go((id, vcpu), count, pace, &mut |_| {}));
            let others: Vec<_> = others.iter_mut().zip(1..).map(start).collect();
            let mut all = vec![work.go((0, &mut first[0]), count, pace, progress)];
            all.extend(others.into_iter().map(joined));
            stop.store(true, Ordering::Relaxed);
            poller.map_or(Ok(()), joined)?;
            all.into_iter().collect::<Result<Vec<_>, _>>()
        })?;
        // What is still in the ring when all are done, and what the poller took.
        let rest = u64::from(self.vmm.user.drain(self.vmm.ring())?);
        ran[0].counts.drained += rest + polled.into_inner();
        Ok(ran)
    }
}

/// A thread's result; its panic is this thread's.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn poll_ring(vmm: &Vmm, every: Duration, stop: &AtomicBool, drained: &AtomicU64) -> Result<(), HostError> {
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(every);
        drained.fetch_add(u64::from(vmm.user.drain(vmm.ring())?), Ordering::Relaxed);
    }
    Ok(())
}

/// Adds the OUT that ends a program.
fn ended(mut asm: Asm) -> Asm {
    asm.out(EXIT_PORT, PortWidth::Byte, 0);
    asm
}

/// What threads share of a run.
#[derive(Clone, Copy)]
struct Work<'a> {
    vm: &'a Vm,
    vmm: &'a Vmm,
    clock: Clock,
    stream: &'a dyn Stream,
    frame_ns: f64,
}

/// Loads a program and lets the vCPU run it to its end.
fn timed(
    (vm, vmm, clock): (&Vm, &Vmm, Clock),
    (id, vcpu): (u32, &mut Vcpu),
    asm: &Asm,
    counts: &mut Counts,
) -> Result<Duration, HostError> {
    if asm.code().len() as u64 > PROGRAM_BYTES {
        let what = format!("a guest's program of {} bytes: at most {PROGRAM_BYTES}", asm.code().len());
        return Err(HostError::Unsupported(what));
    }
    vm.load(program(id), asm.code())?;
    vcpu.enter_at(program(id))?;
    let deadline = Deadline::after(LIMIT)?;
    clock.time(|| vmm.drive(vcpu, counts, &deadline))
}

impl Work<'_> {
    /// Some units of a vCPU.
    fn batch(&self, (id, vcpu): (u32, &mut Vcpu), units: Range<u64>, counts: &mut Counts) -> Result<Batch, HostError> {
        let (from, units) = (units.start, units.end - units.start);
        let asm = ended(self.stream.code(id, from, units));
        let time = timed((self.vm, self.vmm, self.clock), (id, vcpu), &asm, counts)?;
        self.stream.check(self.vm, id, from, units)?;
        let frames = self.frame_ns * (1 + units * self.stream.exits_beside()) as f64;
        Ok(Batch { units, ns: (time.as_nanos() as f64 - frames).max(0.0) })
    }

    /// A vCPU's whole run.
    fn go(
        &self,
        (id, vcpu): (u32, &mut Vcpu),
        count: u64,
        pace: Pace,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Ran, HostError> {
        let start = Instant::now();
        let (mut ran, mut next) = (Ran::default(), FIRST);
        let again = pace != Pace::Whole && self.stream.goes_round();
        while ran.units < count || again && ran.whole < ROUNDS {
            let left = if again { u64::MAX } else { count - ran.units };
            let units = next.min(left);
            let done = self.batch((id, &mut *vcpu), ran.units..ran.units + units, &mut ran.counts)?;
            ran.units += units;
            ran.batches.push(done);
            ran.whole = start.elapsed();
            if ran.batches.len() == 1 {
                ran.first = ran.whole;
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
            let fitting = (BATCH_NS / done.each().max(0.01)) as u64;
            // The first batch pays for first touches: it does not say how long a unit takes for good.
            next = fitting.clamp(FIRST, next.saturating_mul(16));
            let share = ran.units as f64 / count as f64;
            match pace {
                Pace::Whole => progress(share),
                Pace::Within(time) if ran.whole >= time => break,
                Pace::Within(time) => progress(share.max(ran.whole.as_secs_f64() / time.as_secs_f64())),
            }
        }
        Ok(ran)
    }
}

/// The middle one, or the mean of the two in the middle; 0 of none.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

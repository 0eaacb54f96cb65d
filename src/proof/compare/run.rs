//! Both sides, step by step.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;

use crate::addr::KernelBehaviour;
use crate::host::x86_64::{HostError, System};
use crate::io::{Entry, IoBus, RingError};
use crate::kvm_x86::{FastMmio, Pending, UserExit};

use super::difference::{Difference, SideState, device_text, entry_text, exit_text, hex, instruction_text};
use super::host_side::{HostEvent, HostSide};
use super::sim_side::SimSide;
use super::stream::{Change, Stream};

/// A stream's guest may take so long; a stream of 5,000 accesses takes half a second on a nested host.
const LIMIT: Duration = Duration::from_secs(120);

/// Why a comparison ended without an answer.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The host's side failed.
    #[error("stream of seed {seed}: {source}")]
    Host {
        /// The stream.
        seed: u64,
        /// How.
        source: HostError,
    },
    /// The simulated ring is corrupt, which no simulated kernel does.
    #[error("stream of seed {seed}: {source}")]
    Ring {
        /// The stream.
        seed: u64,
        /// How.
        source: RingError,
    },
}

/// What a comparison went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Streams.
    pub streams: u64,
    /// Instructions.
    pub accesses: u64,
    /// Exits to user space, on both sides.
    pub exits: u64,
    /// Of these, because the ring was full.
    pub ring_full: u64,
    /// Writes that waited in the ring.
    pub coalesced: u64,
    /// ioeventfds signalled.
    pub signals: u64,
    /// Loads from the read-only slot.
    pub memory: u64,
    /// Changes of buses and memory.
    pub changes: u64,
    /// Of these, refused with the same errno.
    pub refused: u64,
    /// Bytes read by INs, loads and strings, compared.
    pub bytes_read: u64,
    /// Ring entries compared (each as often as it was seen waiting).
    pub entries: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.streams += other.streams;
        self.accesses += other.accesses;
        self.exits += other.exits;
        self.ring_full += other.ring_full;
        self.coalesced += other.coalesced;
        self.signals += other.signals;
        self.memory += other.memory;
        self.changes += other.changes;
        self.refused += other.refused;
        self.bytes_read += other.bytes_read;
        self.entries += other.entries;
    }
}

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// What was compared.
    pub counts: Counts,
    /// The first difference; none if all is equal.
    pub difference: Option<Difference>,
}

/// Compares `streams` drawn streams of so many accesses, of seeds from `seed` on, on `threads` threads. The first
/// difference, by seed, ends it.
///
/// # Errors
/// A side fails.
pub fn compare_streams(
    system: &System,
    kernel: (KernelBehaviour, FastMmio),
    (seed, streams, accesses): (u64, u64, u64),
    threads: usize,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Compared, CompareError> {
    let (next, found) = (AtomicU64::new(0), Mutex::new((Compared::default(), None)));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= streams || {
                let found = found.lock();
                found.0.difference.is_some() || found.1.is_some()
            } {
                return;
            }
            let result = compare(system, kernel, &Stream::draw(seed.wrapping_add(number), accesses));
            let mut found = found.lock();
            match result {
                Err(error) => found.1 = Some(error),
                Ok(compared) => {
                    found.0.counts.add(&compared.counts);
                    let known = found.0.difference.take();
                    let both = known.into_iter().chain(compared.difference);
                    found.0.difference = both.min_by_key(|difference| difference.seed.wrapping_sub(seed));
                    progress(found.0.counts.streams as f64 / streams as f64);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    match found.into_inner() {
        (_, Some(error)) => Err(error),
        (compared, None) => Ok(compared),
    }
}

/// Compares one stream. A difference is looked for once more with one access at a time, which shows where it begins.
///
/// # Errors
/// A side fails.
pub fn compare(
    system: &System,
    kernel: (KernelBehaviour, FastMmio),
    stream: &Stream,
) -> Result<Compared, CompareError> {
    let mut compared = once(system, kernel, stream)?;
    if compared.difference.is_some() {
        if let Some(exact) = once(system, kernel, &stream.one_by_one())?.difference {
            compared.difference = Some(exact);
        }
    }
    Ok(compared)
}

fn once(system: &System, kernel: (KernelBehaviour, FastMmio), stream: &Stream) -> Result<Compared, CompareError> {
    let failed = |failure| match failure {
        Failure::Host(source) => CompareError::Host { seed: stream.seed, source },
        Failure::Ring(source) => CompareError::Ring { seed: stream.seed, source },
    };
    let host = HostSide::new(system, stream, LIMIT).map_err(|error| failed(Failure::Host(error)))?;
    let sim = SimSide::new(stream, kernel.0, kernel.1);
    let sim = sim.map_err(|error| failed(Failure::Host(HostError::Unsupported(error.to_string()))))?;
    let mut both = Both { sim, host, seed: stream.seed, batch: 0, counts: Counts { streams: 1, ..Counts::default() } };
    let difference = both.run(stream).map_err(failed)?;
    let handled = both.sim.handled;
    let mut counts = both.counts;
    counts.coalesced = handled.coalesced.into();
    counts.signals = u64::from(handled.eventfd) + u64::from(handled.fast_mmio);
    counts.memory = handled.memory.into();
    Ok(Compared { counts, difference })
}

enum Failure {
    Host(HostError),
    Ring(RingError),
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

impl From<RingError> for Failure {
    fn from(error: RingError) -> Self {
        Self::Ring(error)
    }
}

type Step = Result<Option<Difference>, Failure>;

struct Both {
    sim: SimSide,
    host: HostSide,
    seed: u64,
    batch: usize,
    counts: Counts,
}

/// Returns from the caller with a difference, if there is one.
macro_rules! equal_or_return {
    ($step:expr) => {
        if let Some(difference) = $step? {
            return Ok(Some(difference));
        }
    };
}

impl Both {
    fn run(&mut self, stream: &Stream) -> Step {
        for (number, batch) in stream.batches.iter().enumerate() {
            self.batch = number;
            for change in &batch.changes {
                equal_or_return!(self.change(*change));
            }
            self.host.load(&batch.accesses)?;
            let mut values = Vec::new();
            for access in &batch.accesses {
                let mut pending = Pending::new(access.clone());
                equal_or_return!(self.access(&mut pending));
                self.counts.accesses += 1;
                values.push(pending);
            }
            equal_or_return!(self.checkpoint(&values));
        }
        Ok(None)
    }

    fn change(&mut self, change: Change) -> Step {
        let (sim, host) = (self.sim.change(change)?, self.host.change(change)?);
        self.counts.changes += 1;
        self.counts.refused += u64::from(sim.is_some());
        if sim != host {
            let did = |errno: Option<&str>| errno.unwrap_or("done").to_owned();
            return self.differ("what a change was answered", format!("{change:?}"), did(sim), did(host));
        }
        Ok(None)
    }

    /// One instruction, with as many exits as it has.
    fn access(&mut self, pending: &mut Pending) -> Step {
        while let Some(simulated) = self.sim.next_exit(pending) {
            let event = self.host.next()?;
            let insn = pending.instruction().clone();
            let at = || instruction_text(&insn);
            // Whether the ring was full is nothing that an exit tells.
            let expected = HostEvent::Exit(UserExit { ring_full: false, ..simulated });
            if event != expected {
                let (sim, real) = (exit_text(&simulated), event_text(&event));
                return self.differ("the exit", at(), sim, real);
            }
            if self.sim.exit_data() != self.host.exit_data() && simulated.direction == crate::kvm_x86::Direction::Write
            {
                let (sim, real) = (hex(self.sim.exit_data()), hex(self.host.exit_data()));
                return self.differ("the exit's data", at(), sim, real);
            }
            equal_or_return!(self.rings(&at));
            self.counts.exits += 1;
            self.counts.ring_full += u64::from(simulated.ring_full);
            self.sim.handle(&simulated)?;
            self.host.handle(&simulated)?;
        }
        Ok(None)
    }

    fn rings(&mut self, at: &dyn Fn() -> String) -> Step {
        let (sim, host) = (self.sim.waiting()?, self.host.waiting()?);
        self.counts.entries += sim.len() as u64;
        let indices = |first, last| format!("ring from {first} to {last}");
        let ring = self.sim.io.ring();
        let (simulated, real) = ((ring.first(), ring.last()), (self.host.ring.first(), self.host.ring.last()));
        if simulated != real {
            let (sim, real) = (indices(simulated.0, simulated.1), indices(real.0, real.1));
            return self.differ("what waits in the ring", at(), sim, real);
        }
        match sim.iter().zip(&host).position(|(a, b)| a != b) {
            Some(place) => {
                let did = |entry: &Entry| format!("entry {place} is {}", entry_text(entry));
                self.differ("what waits in the ring", at(), did(&sim[place]), did(&host[place]))
            }
            None => Ok(None),
        }
    }

    /// The end of a batch: the guest has to be at its stub, and what made no exit is looked at.
    fn checkpoint(&mut self, done: &[Pending]) -> Step {
        let event = self.host.next()?;
        let at = || done.last().map_or_else(|| "no access".to_owned(), |last| instruction_text(last.instruction()));
        if event != HostEvent::Checkpoint {
            return self.differ("the exit", at(), "no exit any more".to_owned(), event_text(&event));
        }
        equal_or_return!(self.rings(&at));
        let (sim, host) = (self.sim.counts(), self.host.counts()?);
        if sim != host {
            return self.differ("the eventfds' counts", at(), format!("{sim:?}"), format!("{host:?}"));
        }
        for (number, pending) in done.iter().enumerate() {
            let real = self.host.read(number)?;
            let value = pending.value().to_le_bytes();
            let simulated = if pending.string().is_empty() { &value[..] } else { pending.string() };
            self.counts.bytes_read += real.len() as u64;
            if !real.is_empty() && real != simulated {
                let before = (done.len() - 1 - number) as u64;
                let (sim, real) = (hex(simulated), hex(&real));
                self.counts.accesses -= before;
                return self.differ("what was read", instruction_text(pending.instruction()), sim, real);
            }
        }
        Ok(None)
    }

    fn differ(&self, what: &'static str, at: String, simulated: String, real: String) -> Step {
        let ring = self.sim.io.ring();
        let entries = |waiting: Result<Vec<Entry>, RingError>| match waiting {
            Ok(entries) => entries.iter().map(entry_text).collect(),
            Err(error) => vec![error.to_string()],
        };
        let devices = [IoBus::Mmio, IoBus::Pio].map(|bus| {
            let devices: Vec<_> = self.sim.io.devices(bus).iter().map(device_text).collect();
            format!("{bus:?} bus: {}", devices.join(", "))
        });
        let (rip, begun) = self.host.stands_at()?;
        Ok(Some(Difference {
            seed: self.seed,
            batch: self.batch,
            access: self.counts.accesses,
            at,
            what,
            simulated: SideState {
                did: simulated,
                first: ring.first(),
                last: ring.last(),
                waiting: entries(self.sim.waiting()),
                more: devices.join("; "),
            },
            real: SideState {
                did: real,
                first: self.host.ring.first(),
                last: self.host.ring.last(),
                waiting: entries(self.host.waiting()),
                more: format!("RIP {rip:#x}, {begun} accesses begun"),
            },
        }))
    }
}

fn event_text(event: &HostEvent) -> String {
    match event {
        HostEvent::Exit(exit) => exit_text(exit),
        HostEvent::Checkpoint => "does not exit".to_owned(),
    }
}

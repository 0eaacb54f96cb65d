//! A scenario's accesses ready to be measured batch by batch, so that several can take turns.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::addr::{CoalescedRoom, Port};
use crate::device::{PciHost, UserSpace};
use crate::host::x86_64::{EcamMemory, HostError, System};
use crate::io::pci::{Attachment, CONFIG_ADDRESS, CONFIG_DATA, CONFIG_ENABLE, EcamWindow, HostBridge, PciBus};
use crate::io::{DeviceModel, HostPage, IoBus, Ring, RingConsumer};
use crate::kvm_x86::{Direction, Target, UserExit};
use crate::sim::{Scenario, Workload};
use crate::workload::pci_config::PciTask;

use super::clock::Clock;
use super::doorbells::Ring as Doorbells;
use super::mixed::Mixed;
use super::pci::{Pci, Replay};
use super::pio::Pio;
use super::rig::{Rig, Stream, median};
use super::rtc::Ticks;
use super::vmm::Counts;

enum What {
    /// Units of a stream, each of so many accesses.
    Stream { stream: Box<dyn Stream>, accesses: u64 },
    /// A scan's accesses, a piece a batch.
    Scan(Replay),
}

/// A scenario on a rig of its own, one vCPU.
pub struct Bench {
    rig: Rig,
    what: What,
    frame_ns: f64,
    from: u64,
    units: u64,
}

/// A batch's measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Which of [`Bench::pieces`], from 0.
    pub index: usize,
    /// Its units.
    pub units: u64,
    /// The time of all, ns.
    pub ns: f64,
}

impl Piece {
    /// A unit's time, ns.
    #[must_use]
    pub fn each(&self) -> f64 {
        self.ns / self.units.max(1) as f64
    }
}

/// A batch's time, ns: shorter than a scheduler's turn.
const BATCH_NS: f64 = 3e6;
/// Units of the batch that finds out how many make one.
const TRIAL: u64 = 100;
/// Most accesses of a piece of a scan.
const MOST_WRITTEN: u64 = 2048;
/// Most units of a batch.
const MOST: f64 = 2e7;

impl Bench {
    /// Sets it up, and finds out how many accesses make a batch.
    ///
    /// # Errors
    /// As [`super::run`].
    pub fn new(system: &System, scenario: &Scenario) -> Result<Self, HostError> {
        let stream = |stream, accesses| What::Stream { stream, accesses };
        let (rig, what) = match &scenario.workload {
            Workload::Pio(spec) => {
                let (rig, pio) = Pio::new(system, spec, scenario.mode, 1)?;
                (rig, stream(Box::new(pio) as Box<dyn Stream>, 1))
            }
            Workload::Doorbells(spec) => {
                let one = Scenario { vcpus: 1, ..scenario.clone() };
                let (rig, ring) = Doorbells::new(system, &one, *spec)?;
                (rig, stream(Box::new(ring), 1))
            }
            Workload::Rtc(tick) => {
                let (rig, ticks) = Ticks::new(system, *tick, scenario.mode)?;
                let accesses = ticks.accesses();
                (rig, stream(Box::new(ticks), accesses))
            }
            Workload::Mixed(spec) => {
                let (rig, mixed) = Mixed::new(system, spec, scenario.seed, 1)?;
                (rig, stream(Box::new(mixed), 1))
            }
            Workload::Pci(config) => {
                let (rig, pci) = Pci::new(system, config, scenario.devices)?;
                match config.task {
                    PciTask::Scan => (rig, What::Scan(pci.replay())),
                    PciTask::RawReads { register, .. } => {
                        let reads = pci.raw_reads(register)?;
                        let accesses = reads.accesses();
                        (rig, stream(Box::new(reads), accesses))
                    }
                }
            }
            _ => return Err(HostError::Unsupported(format!("a {} workload is no bench", scenario.workload.kind()))),
        };
        let mut bench = Self { rig, what, frame_ns: 0.0, from: 0, units: TRIAL };
        // What other threads of a busy machine take is not what an access takes.
        bench.rig.clock = Clock::Thread;
        bench.frame_ns = bench.rig.frame_ns()?;
        // Twice: the first finds everything cold.
        bench.measure()?;
        let each = bench.measure()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most MOST")]
        let fitting = (BATCH_NS / each.max(BATCH_NS / MOST)) as u64;
        bench.units = fitting.max(TRIAL);
        if bench.is_scan() {
            // Pieces begin at the scan's beginning, and each is written out.
            (bench.from, bench.units) = (0, bench.units.min(MOST_WRITTEN));
        }
        Ok(bench)
    }

    /// Accesses of a unit: of a configuration read by ports 2; of a scan each is a unit.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        match &self.what {
            What::Stream { accesses, .. } => *accesses,
            What::Scan(_) => 1,
        }
    }

    /// Makes a batch of a stream so many units, for a comparison with something of the same length.
    pub fn set_units(&mut self, units: u64) {
        self.units = units.max(1);
    }

    /// Whether a batch is a piece of a scan.
    #[must_use]
    pub const fn is_scan(&self) -> bool {
        matches!(self.what, What::Scan(_))
    }

    /// The time of a batch without units, ns, which is taken off each batch.
    #[must_use]
    pub const fn frame_ns(&self) -> f64 {
        self.frame_ns
    }

    /// Batches that differ in what they do: of a stream 1, of a scan its pieces.
    #[must_use]
    pub fn pieces(&self) -> usize {
        match &self.what {
            What::Stream { .. } => 1,
            What::Scan(replay) => crate::addr::index(replay.scan().div_ceil(self.units)),
        }
    }

    /// One batch: a unit's time, ns, of this thread ([`thread_time`](super::thread_time)).
    ///
    /// # Errors
    /// As [`super::run`].
    pub fn measure(&mut self) -> Result<f64, HostError> {
        Ok(self.measure_piece()?.each())
    }

    /// One batch; of a scan its next piece, from the first on again behind the last.
    ///
    /// # Errors
    /// As [`super::run`].
    pub fn measure_piece(&mut self) -> Result<Piece, HostError> {
        if matches!(&self.what, What::Stream { stream, .. } if stream.exits_beside() > 0) {
            // Taken off each unit: how slow the host is now counts.
            self.frame_ns = self.rig.frame_ns()?;
        }
        let (stream, from, end): (&dyn Stream, _, _) = match &self.what {
            What::Stream { stream, .. } => (&**stream, self.from, self.from + self.units),
            What::Scan(replay) => {
                let from = if self.from >= replay.scan() { 0 } else { self.from };
                (replay, from, (from + self.units).min(replay.scan()))
            }
        };
        let index = if self.is_scan() { crate::addr::index(from / self.units) } else { 0 };
        self.from = end;
        let batch = self.rig.batch(stream, from..end, self.frame_ns, &mut Counts::default())?;
        Ok(Piece { index, units: batch.units, ns: batch.ns })
    }

    /// KVM_GET_REGS and KVM_SET_REGS by themselves, ns each.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn regs_ns(&self) -> Result<[f64; 2], HostError> {
        let vcpu = &self.rig.vcpus[0];
        let regs = vcpu.regs()?;
        let get = each_ns(CALLS, || vcpu.regs().map(drop))?;
        let set = each_ns(CALLS, || vcpu.set_regs(&regs))?;
        Ok([get, set])
    }
}

/// Calls that are timed together.
const CALLS: u32 = 200;
/// Times that they are.
const ROUNDS: usize = 15;

fn each_ns(calls: u32, mut call: impl FnMut() -> Result<(), HostError>) -> Result<f64, HostError> {
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..calls {
            call()?;
        }
        times.push(start.elapsed().as_nanos() as f64 / f64::from(calls));
    }
    Ok(median(&mut times))
}

/// What this process takes for its side of exits, by itself, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceCosts {
    /// A look into an empty ring.
    pub drain: f64,
    /// A write out of the ring, to its device.
    pub drained_write: f64,
    /// A device found and called.
    pub user_device: f64,
    /// What the PCI host takes beyond that for a read.
    pub pci_config: f64,
}

/// A register.
struct Latch(u8);

impl DeviceModel for Latch {
    fn read(&mut self, _: u64, data: &mut [u8]) {
        data.fill(self.0);
    }

    fn write(&mut self, _: u64, data: &[u8]) {
        self.0 = data[0];
    }
}

/// Times this process's own side: rings and devices without KVM.
///
/// # Errors
/// A ring that is refused; none is.
pub fn device_costs() -> Result<DeviceCosts, HostError> {
    const PORT: u16 = 0x80;
    let user = UserSpace::new();
    user.attach(IoBus::Pio, PORT.into(), 1, Box::new(Arc::new(Mutex::new(Latch(0)))));
    let bus = PciBus::with_virtio(1, Attachment::IntegratedEndpoint);
    let bus = bus.map_err(|error| HostError::Unsupported(error.to_string()))?;
    let ecam = EcamMemory::new(PciHost::new(HostBridge::new(EcamWindow::default(), bus)))?;
    ecam.attach(&user);
    let ring = Ring::new(HostPage::Kib4, CoalescedRoom::Fixed);
    let consumer: Option<&dyn RingConsumer> = Some(&ring);
    let port = |port, direction, size| UserExit {
        target: Target::Port(Port(port)),
        direction,
        size,
        count: 1,
        ring_full: false,
    };
    let (write, mut byte) = (port(PORT, Direction::Write, 1), [0; 1]);
    let handle =
        |exit: &UserExit, ring, data: &mut [u8]| each_ns(20 * CALLS, || Ok(user.handle(ring, exit, data).map(drop)?));
    let user_device = handle(&write, None, &mut byte)?;
    let with_drain = handle(&write, consumer, &mut byte)?;
    let latch = CONFIG_ENABLE | 1 << 11;
    user.handle(None, &port(CONFIG_ADDRESS.0, Direction::Write, 4), &mut latch.to_le_bytes())?;
    let config = handle(&port(CONFIG_DATA.0, Direction::Read, 4), None, &mut [0; 4])?;
    let mut drains = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let mut entries = 0_u32;
        while ring.push(PORT.into(), 1, &[0]).is_ok() {
            entries += 1;
        }
        let start = Instant::now();
        user.drain(consumer)?;
        drains.push(start.elapsed().as_nanos() as f64 / f64::from(entries.max(1)));
    }
    Ok(DeviceCosts {
        drain: (with_drain - user_device).max(0.0),
        drained_write: median(&mut drains),
        user_device,
        pci_config: (config - user_device).max(0.0),
    })
}

//! A stream of port accesses.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::addr::Port;
use crate::io::{DeviceModel, IoBus};
use crate::kvm_x86::{Instruction, Platform, StringStep};
use crate::machine::SimTime;
use crate::sim::SimError;
use crate::sim::result::{JobResult, Metric, per_second};
use crate::sim::scenario::Scenario;
use crate::workload::ports::{PioStream, PortDirection, PortMode};

use super::{Guest, Told};

/// A device that has nothing to do: what is timed is the way to it.
struct Register(u8);

impl DeviceModel for Register {
    fn read(&mut self, _addr: u64, data: &mut [u8]) {
        data.fill(self.0);
    }

    fn write(&mut self, _addr: u64, data: &[u8]) {
        self.0 = data.first().copied().unwrap_or(0);
    }
}

/// Ports of the device: an access of any width at the first of them is its own.
const PORTS: u32 = 4;

/// The device, in the kernel.
pub(super) fn in_kernel(port: Port) -> Platform {
    let mut platform = Platform::default();
    platform.add_device(IoBus::Pio, u64::from(port.0), u64::from(PORTS), Arc::new(Mutex::new(Register(0))));
    platform
}

/// Instructions between two reports of progress.
const REPORT_EVERY: u64 = 1 << 14;

pub(super) fn run(
    scenario: &Scenario,
    stream: &PioStream,
    progress: &mut dyn FnMut(f64),
) -> Result<(Guest, Told), SimError> {
    let platform = match scenario.mode {
        PortMode::InKernel => in_kernel(stream.port),
        PortMode::RegsEveryExit | PortMode::RegsWhenNeeded | PortMode::Coalesced => Platform::default(),
    };
    let mut guest = Guest::new(&scenario.machine, scenario.mode, scenario.behaviour, platform, scenario.seed);
    guest.user.attach(IoBus::Pio, u64::from(stream.port.0), u64::from(PORTS), Box::new(Register(0)));
    guest.coalesce(stream.port.0, PORTS)?;
    for i in 0..stream.count {
        guest.perform(instruction(stream, i))?;
        guest.now += SimTime::from_whole_ns(stream.gap_ns);
        if i % REPORT_EVERY == 0 {
            progress(i as f64 / stream.count as f64);
        }
    }
    let job = JobResult {
        name: "vcpu0".to_owned(),
        completed: stream.count,
        per_second: per_second(stream.count, guest.now),
        bytes_per_second: per_second(stream.count * u64::from(stream.string) * stream.width.bytes() as u64, guest.now),
        latency_ns: Default::default(),
    };
    let metric = Metric { unit: "port accesses/s", value: job.per_second };
    Ok((guest, Told { metric, jobs: vec![job], notes: Vec::new(), config: None, kinds: Vec::new() }))
}

fn instruction(stream: &PioStream, i: u64) -> Instruction {
    let (port, width) = (stream.port, stream.width);
    let [value, ..] = i.to_le_bytes();
    match (stream.direction, stream.string) {
        (PortDirection::Out, 1) => Instruction::Out { port, width, value: u32::from(value) },
        (PortDirection::In, 1) => Instruction::In { port, width },
        (PortDirection::Out, count) => {
            let data = vec![value; width.bytes() * count as usize];
            Instruction::Outs { port, width, data }
        }
        (PortDirection::In, count) => {
            Instruction::Ins { port, width, count: u64::from(count), page_offset: 0, step: StringStep::Up }
        }
    }
}

//! Scenarios as streams.

use crate::addr::Port;
use crate::device::{PM_TIMER_PORT, RTC_INDEX_PORT};
use crate::host::x86_64::scan_accesses;
use crate::io::pci::{CONFIG_ADDRESS, ConfigMethod, EcamWindow, HostBridge, PciBus};
use crate::io::{CoalescedZone, EventfdId};
use crate::kvm_x86::{Instruction, PortWidth, StringStep};
use crate::sim::{Scenario, Workload};
use crate::workload::mixed::{Mixed, ioeventfds, zones};
use crate::workload::pci_config::{PciConfig, PciMethod, PciTask};
use crate::workload::ports::{PioStream, PortDirection, PortMode};
use crate::workload::rtc_tick::{REGISTER_C, RtcTick};

use super::stream::{Batch, Change, Devices, Stream};

/// Accesses of a batch.
const BATCH: usize = 256;
/// The accesses of a variant of an x86 scenario ([`Scenario::variants`]), at most `most` but for a scan, which is whole; none if
/// it is no scenario for x86, or if a device in the kernel or pages of memory would take what is to be compared.
#[must_use]
pub fn stream_of(variant: &Scenario, most: u64) -> Option<Stream> {
    let coalesced = variant.mode == PortMode::Coalesced;
    match &variant.workload {
        Workload::Pio(pio) if variant.mode != PortMode::InKernel => Some(of_pio(pio, coalesced, most)),
        Workload::Rtc(tick) if variant.mode != PortMode::InKernel => Some(of_rtc(*tick, coalesced, most)),
        Workload::Mixed(spec) => Some(of_mixed(spec, variant.seed, most)),
        Workload::Pci(config) => of_pci(config, u16::try_from(variant.devices).ok()?),
        _ => None,
    }
}

fn in_batches(accesses: &[Instruction], before: Option<Change>) -> Vec<Batch> {
    let batch = |accesses: &[Instruction]| Batch { changes: Vec::new(), accesses: accesses.to_vec() };
    let mut batches: Vec<_> = accesses.chunks(BATCH).map(batch).collect();
    if let Some(first) = batches.first_mut() {
        first.changes.extend(before);
    }
    batches
}

/// A scan, by ports or ECAM; the read-only slot is compared by drawn streams.
fn of_pci(config: &PciConfig, functions: u16) -> Option<Stream> {
    let methods = config.method.on(config.slots);
    if methods.contains(&ConfigMethod::EcamReadOnly) || !matches!(config.task, PciTask::Scan) {
        return None;
    }
    let attachment = config.attachment;
    let bus = PciBus::with_virtio(functions, attachment).ok()?;
    let accesses = scan_accesses(HostBridge::new(EcamWindow::default(), bus), methods);
    let before = (config.method == PciMethod::Type1Coalesced).then(|| zone(CONFIG_ADDRESS.0, 4));
    let devices = Devices::Pci { functions, attachment };
    Some(Stream { seed: 0, start_index: 0, devices, batches: in_batches(&accesses, before) })
}

fn zone(port: u16, size: u32) -> Change {
    Change::Register(CoalescedZone { addr: port.into(), size, pio: 1 })
}

fn of_pio(pio: &PioStream, coalesced: bool, most: u64) -> Stream {
    let accesses: Vec<_> = (0..pio.count.min(most)).map(|number| port_access(pio, number)).collect();
    let batches = in_batches(&accesses, coalesced.then(|| zone(pio.port.0, 4)));
    Stream { seed: 0, start_index: 0, devices: Devices::Mixer, batches }
}

fn port_access(pio: &PioStream, number: u64) -> Instruction {
    let (port, width) = (pio.port, pio.width);
    let [value, ..] = number.to_le_bytes();
    match (pio.direction, pio.string) {
        (PortDirection::Out, 1) => Instruction::Out { port, width, value: value.into() },
        (PortDirection::In, 1) => Instruction::In { port, width },
        (PortDirection::Out, count) => {
            Instruction::Outs { port, width, data: vec![value; width.bytes() * count as usize] }
        }
        (PortDirection::In, count) => {
            Instruction::Ins { port, width, count: count.into(), page_offset: 0, step: StringStep::Up }
        }
    }
}

/// A vCPU's accesses. The device behind exits is another than in a run: its answers show what went before.
fn of_mixed(spec: &Mixed, seed: u64, most: u64) -> Stream {
    let block = spec.block(seed, 0);
    let kinds = (0..spec.count.min(most)).zip(block.iter().cycle());
    let accesses: Vec<_> = kinds.map(|(_, kind)| kind.instruction()).collect();
    let mut batches = in_batches(&accesses, None);
    if let Some(first) = batches.first_mut() {
        first.changes.extend(zones().map(Change::Register));
        first.changes.extend(ioeventfds([EventfdId(0), EventfdId(1)]).map(Change::Assign));
    }
    Stream { seed: 0, start_index: 0, devices: Devices::Mixer, batches }
}

/// The handler's accesses at each tick, with the time that it is then.
fn of_rtc(tick: RtcTick, coalesced: bool, most: u64) -> Stream {
    let width = PortWidth::Byte;
    let out = |port, value: u8| Instruction::Out { port: Port(port), width, value: value.into() };
    let (index, data) = (RTC_INDEX_PORT, RTC_INDEX_PORT + 1);
    let setup =
        tick.setup().into_iter().flat_map(|(register, value)| [out(index, register), out(data, value)]).collect();
    let changes = if coalesced { vec![zone(index, 1)] } else { Vec::new() };
    let mut batches = vec![Batch { changes, accesses: setup }];
    let per_tick = 2 + u64::from(tick.pm_timer_reads);
    let ticks = (tick.duration_ns / 1_000_000_000).max(1) * u64::from(tick.rate_hz);
    for number in 1..=ticks.min(most / per_tick) {
        let mut accesses = vec![out(index, REGISTER_C), Instruction::In { port: Port(data), width }];
        let timer = Instruction::In { port: Port(PM_TIMER_PORT), width: PortWidth::Dword };
        accesses.extend((0..tick.pm_timer_reads).map(|_| timer.clone()));
        let now = u128::from(number) * 1_000_000_000 / u128::from(tick.rate_hz.max(1));
        batches.push(Batch { changes: vec![Change::Time(u64::try_from(now).unwrap_or(u64::MAX))], accesses });
    }
    Stream { seed: 0, start_index: 0, devices: Devices::Clocks, batches }
}

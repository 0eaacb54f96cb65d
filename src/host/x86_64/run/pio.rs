//! A stream of INs or OUTs.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::host::x86_64::{Asm, DATA, HostError, Reg, System, Vm};
use crate::io::{CoalescedZone, DeviceModel, EventfdId, IoBus, Ioeventfd};
use crate::kvm_x86::{PortWidth, StringStep};
use crate::workload::ports::{PioStream, PortDirection, PortMode};

use super::rig::{Rig, Stream};
use super::vmm::RegTraffic;
use super::wrong;

/// Behind the strings: a result of each vCPU, 8 bytes.
const RESULTS: u64 = DATA + STRING_BYTES;
/// Room for one string of each vCPU together: they all write the same, and what they read is the same.
const STRING_BYTES: u64 = 4 << 20;

/// Whether accesses come in the order in which one vCPU makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    OneVcpu,
    Mixed,
}

/// The device at the port: it sees to it that elements come whole and in order.
#[derive(Debug)]
pub(super) struct PortDevice {
    order: Order,
    string: u64,
    /// Elements seen.
    pub elements: u64,
    /// The first that was another than expected.
    wrong: Option<(u64, u8, u8)>,
}

impl PortDevice {
    /// The first byte of an element; the others are 0. As the simulator has it for an OUT; an element of a string is its place.
    fn expected(&self, element: u64) -> u8 {
        let value = if self.string == 1 { element } else { element % self.string };
        value.to_le_bytes()[0]
    }
}

impl DeviceModel for PortDevice {
    fn read(&mut self, _: u64, data: &mut [u8]) {
        data.fill(0);
        data[0] = self.expected(self.elements);
        self.elements += 1;
    }

    fn write(&mut self, _: u64, data: &[u8]) {
        let expected = self.expected(self.elements);
        if self.order == Order::OneVcpu && (data[0] != expected || data[1..].iter().any(|byte| *byte != 0)) {
            self.wrong = self.wrong.or(Some((self.elements, data[0], expected)));
        }
        self.elements += 1;
    }
}

/// The stream on a rig.
pub(super) struct Pio {
    stream: PioStream,
    order: Order,
    pub device: Arc<Mutex<PortDevice>>,
}

impl Pio {
    /// A rig with the port handled in that mode.
    ///
    /// # Errors
    /// What KVM refuses, and an IN by a device in the kernel: an ioeventfd takes writes only.
    pub fn new(system: &System, stream: &PioStream, mode: PortMode, vcpus: u32) -> Result<(Rig, Self), HostError> {
        let mut rig = Rig::new(system, vcpus)?;
        let order = if vcpus == 1 { Order::OneVcpu } else { Order::Mixed };
        let device = PortDevice { order, string: stream.string.into(), elements: 0, wrong: None };
        let device = Arc::new(Mutex::new(device));
        let (port, bytes) = (u64::from(stream.port.0), stream.width.bytes());
        rig.vmm.user.attach(IoBus::Pio, port, bytes as u64, Box::new(Arc::clone(&device)));
        let len = u32::try_from(bytes).unwrap_or(0);
        match mode {
            PortMode::RegsEveryExit => rig.vmm.regs = RegTraffic::EveryExit,
            PortMode::RegsWhenNeeded => {}
            PortMode::InKernel if stream.direction == PortDirection::In => {
                let what = "mode in-kernel on real KVM is an ioeventfd at the port, which takes OUTs and no INs";
                return Err(HostError::Unsupported(what.to_owned()));
            }
            PortMode::InKernel => {
                let spec = Ioeventfd { bus: IoBus::Pio, addr: port, len, datamatch: None, fd: EventfdId(0) };
                rig.ioeventfd(&spec)?;
            }
            PortMode::Coalesced => rig.coalesce(CoalescedZone { addr: port, size: len, pio: 1 })?,
        }
        let pio = Self { stream: stream.clone(), order, device };
        pio.prepare(&rig.vm)?;
        Ok((rig, pio))
    }

    /// The string that OUTS writes.
    fn prepare(&self, vm: &Vm) -> Result<(), HostError> {
        if self.bytes() > STRING_BYTES {
            return Err(HostError::Unsupported(format!("a string of {} bytes: at most {STRING_BYTES}", self.bytes())));
        }
        if self.stream.string > 1 {
            let bytes = self.stream.width.bytes();
            let mut data = vec![0; crate::addr::index(self.bytes())];
            for (place, element) in (0_u64..).zip(data.chunks_mut(bytes)) {
                element[0] = place.to_le_bytes()[0];
            }
            vm.ram().write(DATA, &data)?;
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        u64::from(self.stream.string) * self.stream.width.bytes() as u64
    }

    /// Whether the device saw what it must have.
    ///
    /// # Errors
    /// It says what it saw first that was wrong.
    pub fn verdict(&self) -> Result<(), HostError> {
        match self.device.lock().wrong {
            Some((element, got, expected)) => wrong(format!("element {element} was {got:#x}, not {expected:#x}")),
            None => Ok(()),
        }
    }

    /// Whether device and eventfd together saw every element.
    ///
    /// # Errors
    /// Some are missing, or were seen twice.
    pub fn all_seen(&self, elements: u64, signalled: u64) -> Result<(), HostError> {
        match self.device.lock().elements + signalled {
            seen if seen == elements => Ok(()),
            seen => wrong(format!("{elements} elements went to the port, {seen} were seen there")),
        }
    }

    fn access(&self, asm: &mut Asm) {
        let width = self.stream.width;
        match (self.stream.direction, self.stream.string) {
            // movzx eax, r13b: the index's low byte
            (PortDirection::Out, 1) => asm.raw(&[0x41, 0x0f, 0xb6, 0xc5]).out_dx(width),
            // add r14, rax
            (PortDirection::In, 1) => asm.clear_rax().in_dx(width).raw(&[0x49, 0x01, 0xc6]),
            (PortDirection::Out, count) => asm.mov(Reg::Rsi, DATA).mov(Reg::Rcx, count.into()).rep_outs(width),
            (PortDirection::In, count) => asm.mov(Reg::Rdi, DATA).mov(Reg::Rcx, count.into()).rep_ins(width),
        };
    }
}

impl Stream for Pio {
    fn code(&self, vcpu: u32, from: u64, units: u64) -> Asm {
        let mut asm = Asm::new();
        asm.direction(StringStep::Up).mov(Reg::Rdx, self.stream.port.0.into());
        asm.mov(Reg::R12, units).mov(Reg::R13, from).mov(Reg::R14, 0);
        let again = asm.label();
        self.access(&mut asm);
        asm.inc(Reg::R13).repeat(Reg::R12, again);
        asm.copy_to_rax(Reg::R14).save_rax(RESULTS + u64::from(vcpu) * 8);
        asm
    }

    /// What INs read, summed up; the last string that INS read.
    fn check(&self, vm: &Vm, vcpu: u32, from: u64, units: u64) -> Result<(), HostError> {
        if self.order == Order::Mixed || self.stream.direction == PortDirection::Out {
            return Ok(());
        }
        let device = self.device.lock();
        if self.stream.string == 1 {
            let mut sum = [0; 8];
            vm.ram().read(RESULTS + u64::from(vcpu) * 8, &mut sum)?;
            let there = (from..from + units).map(|element| u64::from(device.expected(element))).sum::<u64>();
            return match u64::from_le_bytes(sum) {
                read if read == there => Ok(()),
                read => wrong(format!("INs {from} to {} read {read:#x} in sum, not {there:#x}", from + units)),
            };
        }
        let mut string = vec![0; crate::addr::index(self.bytes())];
        vm.ram().read(DATA, &mut string)?;
        let good = |(place, element): (u64, &[u8])| element[0] == device.expected(place);
        if (0..).zip(string.chunks(self.stream.width.bytes())).all(good) {
            Ok(())
        } else {
            wrong(format!("INS {} read another string than the device gave", from + units - 1))
        }
    }
}

/// Bytes that a width moves, for rates.
pub(super) const fn moved(width: PortWidth, string: u32) -> u64 {
    width.bytes() as u64 * string as u64
}

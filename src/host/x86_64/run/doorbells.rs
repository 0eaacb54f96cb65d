//! A stream of doorbells: stores to device pages.

use std::sync::Arc;

use parking_lot::Mutex;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

use crate::device::NotifyLayout;
use crate::host::x86_64::{Asm, HostError, MMIO, Reg, System};
use crate::io::{CoalescedZone, DeviceModel, EventfdId, IoBus, Ioeventfd};
use crate::kvm_x86::Width;
use crate::sim::{Doorbells, Notify, Pattern, Scenario};

use super::rig::{Rig, Stream};
use super::wrong;

/// Distance of two devices' doorbells: a page, or the register block of a legacy device.
const fn stride(layout: NotifyLayout) -> u64 {
    match layout {
        NotifyLayout::Modern => 4096,
        NotifyLayout::Legacy => 64,
    }
}

/// Doorbells written out in a program; more is repeated.
const BLOCK: u64 = 4096;

/// The devices' side: who was told how often.
#[derive(Debug, Default)]
struct Told {
    stride: u64,
    count: Vec<u64>,
}

impl DeviceModel for Told {
    fn read(&mut self, _: u64, _: &mut [u8]) {}

    fn write(&mut self, addr: u64, _: &[u8]) {
        if let Some(count) = self.count.get_mut(crate::addr::index((addr - MMIO) / self.stride)) {
            *count += 1;
        }
    }
}

/// The stream on a rig.
pub(super) struct Ring {
    stride: u64,
    width: Width,
    /// The devices of one block, by vCPU.
    blocks: Vec<Vec<u32>>,
    told: Arc<Mutex<Told>>,
}

/// Width of a doorbell: an ioeventfd's own where it has one, else virtio's 2 bytes.
const fn width(notify: Notify) -> Width {
    match notify {
        Notify::Ioeventfd { length: 1 } => Width::Byte,
        Notify::Ioeventfd { length: 4 } => Width::Dword,
        Notify::Ioeventfd { length: 8 } => Width::Qword,
        _ => Width::Word,
    }
}

impl Ring {
    /// A rig whose doorbells leave the guest as the scenario says.
    ///
    /// # Errors
    /// What KVM refuses.
    pub fn new(system: &System, scenario: &Scenario, spec: Doorbells) -> Result<(Rig, Self), HostError> {
        let mut rig = Rig::new(system, scenario.vcpus)?;
        let (stride, width, devices) = (stride(scenario.layout), width(scenario.notify), scenario.devices);
        let told = Told { stride, count: vec![0; devices as usize] };
        let told = Arc::new(Mutex::new(told));
        rig.vmm.user.attach(IoBus::Mmio, MMIO, stride * u64::from(devices), Box::new(Arc::clone(&told)));
        match scenario.notify {
            Notify::Exit => {}
            Notify::Ioeventfd { length } => {
                for device in 0..devices {
                    let addr = MMIO + u64::from(device) * stride;
                    let spec =
                        Ioeventfd { bus: IoBus::Mmio, addr, len: length, datamatch: None, fd: EventfdId(device) };
                    rig.ioeventfd(&spec)?;
                }
            }
            Notify::Coalesced { poll_ns } => {
                let size = u32::try_from(stride).unwrap_or(u32::MAX);
                for device in 0..devices {
                    rig.coalesce(CoalescedZone { addr: MMIO + u64::from(device) * stride, size, pio: 0 })?;
                }
                rig.poll = (poll_ns > 0).then(|| std::time::Duration::from_nanos(poll_ns));
            }
        }
        let block = |vcpu: u32| -> Vec<u32> {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(scenario.seed.wrapping_add(u64::from(vcpu)));
            let drawn = |_| match spec.pattern {
                Pattern::RoundRobin => 0,
                // As the simulator draws.
                Pattern::Uniform => {
                    u32::try_from((u128::from(rng.next_u64()) * u128::from(devices)) >> 64).unwrap_or(0)
                }
            };
            let mut block: Vec<_> = (0..BLOCK).map(drawn).collect();
            if spec.pattern == Pattern::RoundRobin {
                // Whole turns only, so that the next block goes on where this one ends.
                let turns = BLOCK / u64::from(devices).max(1) * u64::from(devices);
                block = (0..turns)
                    .map(|i| u32::try_from((i + u64::from(vcpu)) % u64::from(devices)).unwrap_or(0))
                    .collect();
            }
            block
        };
        let blocks = (0..scenario.vcpus).map(block).collect();
        Ok((rig, Self { stride, width, blocks, told }))
    }

    /// The devices of doorbells `from` to `from + units` of a vCPU.
    fn devices(&self, vcpu: u32, from: u64, units: u64) -> impl Iterator<Item = u32> + '_ {
        let block = &self.blocks[vcpu as usize];
        (from..from + units).map(|i| block[crate::addr::index(i % block.len() as u64)])
    }

    /// Whether each device was told as often as its doorbell rang. Returns what eventfds counted.
    ///
    /// # Errors
    /// A count that differs, or the eventfd.
    pub fn verdict(&self, rig: &Rig, units: &[u64]) -> Result<u64, HostError> {
        let told = self.told.lock();
        let mut rang = vec![0; told.count.len()];
        for (vcpu, units) in (0..).zip(units) {
            for device in self.devices(vcpu, 0, *units) {
                rang[device as usize] += 1;
            }
        }
        let mut signalled = 0;
        for (device, (rang, told)) in rang.iter().zip(&told.count).enumerate() {
            let counted = rig.eventfds.get(device).map_or(Ok(0), |eventfd| eventfd.take())?;
            signalled += counted;
            if *rang != told + counted {
                return wrong(format!("device {device} was told of {} of {rang} doorbells", told + counted));
            }
        }
        Ok(signalled)
    }
}

impl Stream for Ring {
    /// Address and store of each doorbell written out, whole blocks in a loop.
    fn code(&self, vcpu: u32, from: u64, units: u64) -> Asm {
        let mut asm = Asm::new();
        asm.clear_rax();
        let ring = |asm: &mut Asm, from, units| {
            for device in self.devices(vcpu, from, units) {
                asm.mov(Reg::Rdi, MMIO + u64::from(device) * self.stride).store(self.width);
            }
        };
        let block = self.blocks[vcpu as usize].len() as u64;
        let (turns, rest) = (units / block, units % block);
        if turns > 0 {
            asm.mov(Reg::R12, turns);
            let again = asm.label();
            ring(&mut asm, from, block);
            asm.repeat(Reg::R12, again);
        }
        ring(&mut asm, from, rest);
        asm
    }
}

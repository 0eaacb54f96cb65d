//! From a scenario to a VM: RAM, doorbell pages entered by the guest, ioeventfds or a coalesced zone.

use crate::addr::{EffectiveAddr, GuestPhysAddr, PteIndex, index};
use crate::book3s::insn::{Direction, Size};
use crate::device::NotifyLayout;
use crate::io::{CoalescedZone, Entry, IoBus, Ioeventfd};
use crate::kvm_hv::{Vcpu, VcpuConfig, Vm, VmConfig};
use crate::machine::SimTime;
use crate::workload::guest::{Guest, PageUse, Touch};

use super::SimError;
use super::scenario::{Notify, Scenario};

/// Where the guest maps device registers: the I/O region of a 64-bit Linux guest with hash translation.
const IO_REGION: u64 = 0xd000_0800_8000_0000;
/// Queues of a device that may ring: virtio-net's receive and transmit.
const QUEUES: u16 = 2;

/// Where every doorbell is.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    guest: Guest,
    layout: NotifyLayout,
    notify: Notify,
    /// (EA, value) of each device's queues, `QUEUES` a device.
    doorbells: Vec<(EffectiveAddr, u16)>,
    /// (EA, GPA, HPTE) of each mapped page, by GPA.
    pages: Vec<(EffectiveAddr, GuestPhysAddr, PteIndex)>,
}

impl Setup {
    /// Builds the VM, `ram_bytes` of RAM behind memslot 0, and its vCPUs.
    pub fn build(scenario: &Scenario, ram_bytes: u64) -> Result<(Vm, Vec<Vcpu>, Self), SimError> {
        let vm =
            Vm::new(VmConfig { hpt_order: scenario.hpt_order, behaviour: scenario.behaviour, ..VmConfig::default() })?;
        vm.set_memslot(0, GuestPhysAddr(0), ram_bytes, vm.page_shift())?;
        let guest = Guest::default();
        let page_bytes = guest.sizes.actual.bytes();
        let gpas = scenario.layout.pages(scenario.devices, page_bytes)?;
        let base = gpas.iter().min().copied().unwrap_or_default();
        let ea_of = |gpa: GuestPhysAddr| EffectiveAddr(IO_REGION + (gpa.0 - base.0));
        let mut pages = Vec::with_capacity(gpas.len());
        for gpa in gpas {
            let at = guest.map(&vm, ea_of(gpa), gpa, PageUse::DEVICE)?;
            pages.push((ea_of(gpa), gpa, at));
        }
        pages.sort_by_key(|(_, gpa, _)| *gpa);
        let mut doorbells = Vec::with_capacity(index(u64::from(scenario.devices)) * usize::from(QUEUES));
        for device in 0..scenario.devices {
            for queue in 0..QUEUES {
                let doorbell = scenario.layout.doorbell(device, queue)?;
                doorbells.push((ea_of(doorbell.gpa), doorbell.value));
            }
        }
        let setup = Self { guest, layout: scenario.layout, notify: scenario.notify, doorbells, pages };
        setup.register(&vm, scenario.devices)?;
        let mut vcpus = Vec::new();
        for i in 0..scenario.vcpus {
            let seed = scenario.seed.wrapping_add(u64::from(i));
            let mut vcpu = Vcpu::new(&vm, VcpuConfig { cache: scenario.cache, seed, ..VcpuConfig::default() });
            // One segment holds every doorbell: 1 TiB against 64 MiB of pages at most.
            vcpu.slb.slbmte(guest.slb_entry(0, EffectiveAddr(IO_REGION)))?;
            vcpus.push(vcpu);
        }
        Ok((vm, vcpus, setup))
    }

    fn register(&self, vm: &Vm, devices: u32) -> Result<(), SimError> {
        let io = vm.io();
        match self.notify {
            Notify::Exit => {}
            Notify::Ioeventfd { length } => {
                let mut seen = std::collections::BTreeSet::new();
                for device in 0..devices {
                    for queue in 0..QUEUES {
                        let doorbell = self.layout.doorbell(device, queue)?;
                        // The legacy layout has one register for all queues of a device: told apart by the value.
                        let shared = !seen.insert(doorbell.gpa) || self.layout == NotifyLayout::Legacy;
                        let datamatch = (shared && length != 0).then(|| u64::from(doorbell.value));
                        if shared && length == 0 && queue > 0 {
                            continue;
                        }
                        let fd = io.create_eventfd().id();
                        io.assign(Ioeventfd { bus: IoBus::Mmio, addr: doorbell.gpa.0, len: length, datamatch, fd })?;
                    }
                }
            }
            Notify::Coalesced { .. } => {
                for (_, gpa, _) in &self.pages {
                    let size = u32::try_from(self.guest.sizes.actual.bytes()).unwrap_or(u32::MAX);
                    io.register_zone(CoalescedZone { addr: gpa.0, size, pio: 0 })?;
                }
            }
        }
        Ok(())
    }

    /// The doorbell store: two bytes, as virtio-pci writes queue numbers; as wide as the ioeventfd if that asks for more.
    pub fn store(&self) -> Result<Touch, SimError> {
        let size = match self.notify {
            Notify::Ioeventfd { length: 1 } => Size::Byte,
            Notify::Ioeventfd { length: 4 } => Size::Word,
            Notify::Ioeventfd { length: 8 } => Size::Doubleword,
            _ => Size::Halfword,
        };
        Ok(Touch::new(Direction::Store, size)?)
    }

    /// EA and value of a doorbell.
    #[inline]
    pub fn doorbell(&self, device: u32, queue: u16) -> Result<(EffectiveAddr, u16), SimError> {
        let at = index(u64::from(device)) * usize::from(QUEUES) + usize::from(queue);
        self.doorbells.get(at).copied().ok_or(SimError::NoDoorbell { device, queue })
    }

    /// Device and queue of a coalesced write.
    pub fn decode(&self, entry: &Entry) -> Option<(u32, u16)> {
        let value = entry.data().iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        self.layout.decode(GuestPhysAddr(entry.addr), u16::try_from(value).ok()?)
    }

    /// Time between two polls of the coalesced ring, if there is one.
    pub fn poll_every(&self) -> Option<SimTime> {
        match self.notify {
            Notify::Coalesced { poll_ns } => Some(SimTime::from_whole_ns(poll_ns)),
            Notify::Ioeventfd { .. } | Notify::Exit => None,
        }
    }

    fn page_of(&mut self, device: u32) -> Option<&mut (EffectiveAddr, GuestPhysAddr, PteIndex)> {
        let (ea, _) = *self.doorbells.get(index(u64::from(device)) * usize::from(QUEUES))?;
        let bytes = self.guest.sizes.actual.bytes();
        self.pages.iter_mut().find(|(page, ..)| page.0 == ea.0 & !(bytes - 1))
    }

    /// Removes the HPTE of a device's doorbell page and enters it again.
    pub fn reenter(&mut self, vm: &Vm, device: u32) -> Result<(), SimError> {
        let guest = self.guest;
        let Some(page) = self.page_of(device) else { return Err(SimError::NoDoorbell { device, queue: 0 }) };
        let (ea, gpa, at) = *page;
        vm.h_remove(0, at, 0)?;
        page.2 = guest.map(vm, ea, gpa, PageUse::DEVICE)?;
        Ok(())
    }
}

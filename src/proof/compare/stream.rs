//! A stream: changes to the buses, and the guest's accesses between them.

use crate::addr::{GuestPhysAddr, Port};
use crate::host::x86_64::{ECAM, MMIO};
use crate::io::pci::Attachment;
use crate::io::{CoalescedZone, EventfdId, IoBus, Ioeventfd};
use crate::kvm_x86::{Instruction, PortWidth, StringStep, Width};

use crate::proof::rng::Rng;

/// What user space does while the guest waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// KVM_REGISTER_COALESCED_MMIO.
    Register(CoalescedZone),
    /// KVM_UNREGISTER_COALESCED_MMIO.
    Unregister(CoalescedZone),
    /// KVM_IOEVENTFD.
    Assign(Ioeventfd),
    /// KVM_IOEVENTFD, deassign.
    Deassign(Ioeventfd),
    /// The ring is drained without an exit.
    Drain,
    /// The owner of the read-only memory changes a byte there.
    Own {
        /// Which.
        offset: u16,
        /// To what.
        value: u8,
    },
    /// Devices that keep time are told that it is so late, ns.
    Time(u64),
}

/// Changes, then accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// In order.
    pub changes: Vec<Change>,
    /// In order.
    pub accesses: Vec<Instruction>,
}

/// The devices behind exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Devices {
    /// One behind every port and address, whose answers depend on every write before; an RTC at 0x70.
    Mixer,
    /// An RTC and an ACPI PM timer.
    Clocks,
    /// A PCI host bridge with so many virtio functions.
    Pci {
        /// Functions, 1 to 248.
        functions: u16,
        /// What kind of bus they are on.
        attachment: Attachment,
    },
}

/// Bytes of the read-only slot at [`ECAM`].
pub(super) const SLOT_BYTES: u16 = 0x2000;
/// Eventfds that a stream has.
pub(super) const EVENTFDS: u32 = 12;
/// Zones that a drawn stream aims to have at once.
const ZONES: usize = 8;

/// A stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// What it was drawn from; 0 if it was not drawn.
    pub seed: u64,
    /// Where the ring starts: `first` and `last` at the beginning, below 170.
    pub start_index: u32,
    /// Behind exits.
    pub devices: Devices,
    /// In order.
    pub batches: Vec<Batch>,
}

/// Ports of drawn streams: few, so that zones, ioeventfds and accesses meet.
const PORTS: u16 = 0x500;
const PORT_SPAN: u64 = 0x30;
/// Addresses of drawn streams: around the border of two pages.
const AREA: u64 = MMIO + 0xfc0;
const AREA_SPAN: u64 = 0x80;

impl Stream {
    /// Draws a stream of so many accesses.
    #[must_use]
    pub fn draw(seed: u64, accesses: u64) -> Self {
        let mut draw = Draw { rng: Rng::new(seed), zones: Vec::new(), ioeventfds: Vec::new() };
        let start_index = u32::try_from(draw.rng.below(170)).unwrap_or(0);
        let (mut batches, mut left) = (Vec::new(), accesses);
        while left > 0 {
            let batch = draw.batch(left);
            left -= batch.accesses.len() as u64;
            batches.push(batch);
        }
        Self { seed, start_index, devices: Devices::Mixer, batches }
    }

    /// The same accesses with a batch for each, which shows where a difference begins.
    #[must_use]
    pub fn one_by_one(&self) -> Self {
        let mut batches = Vec::new();
        for batch in &self.batches {
            let mut changes = batch.changes.clone();
            batches.extend(
                batch
                    .accesses
                    .iter()
                    .map(|access| Batch { changes: std::mem::take(&mut changes), accesses: vec![access.clone()] }),
            );
            if !changes.is_empty() {
                batches.push(Batch { changes, accesses: Vec::new() });
            }
        }
        Self { batches, ..self.clone() }
    }
}

struct Draw {
    rng: Rng,
    /// As asked for; what the buses really hold is the sides' business.
    zones: Vec<CoalescedZone>,
    ioeventfds: Vec<Ioeventfd>,
}

impl Draw {
    fn batch(&mut self, left: u64) -> Batch {
        let changes = (0..self.rng.below(4)).map(|_| self.change()).collect();
        // Now and then so many writes in a row that the ring fills up.
        let flood = self.rng.one_in(6) && !self.zones.is_empty();
        let most = if flood { 500 } else { 60 };
        let count = (1 + self.rng.below(most)).min(left);
        let accesses = if flood { self.flood(count) } else { (0..count).map(|_| self.access()).collect() };
        Batch { changes, accesses }
    }

    fn change(&mut self) -> Change {
        let more_zones = self.zones.len() < ZONES;
        match self.rng.below(10) {
            0..=2 if more_zones => {
                let zone = self.zone();
                // One that will be refused is on no bus.
                if zone.pio <= 1 {
                    self.zones.push(zone);
                }
                Change::Register(zone)
            }
            0..=3 => Change::Unregister(self.unregistered()),
            4..=6 => {
                let ioeventfd = self.ioeventfd();
                self.ioeventfds.push(ioeventfd);
                Change::Assign(ioeventfd)
            }
            7 if !self.ioeventfds.is_empty() => Change::Deassign(self.deassigned()),
            8 => Change::Drain,
            _ => Change::Own { offset: self.slot_offset(), value: self.rng.byte() },
        }
    }

    fn slot_offset(&mut self) -> u16 {
        // The first bytes, and those around the border of its two pages: where loads go.
        let near = self.rng.below(16);
        u16::try_from(self.rng.pick(&[0, 0xff8, 0x1ff0]) + near).unwrap_or(0)
    }

    fn place(&mut self) -> (IoBus, u64) {
        if self.rng.one_in(2) { (IoBus::Pio, self.port()) } else { (IoBus::Mmio, self.gpa()) }
    }

    fn port(&mut self) -> u64 {
        // One in ten: the RTC's two ports.
        if self.rng.one_in(10) { 0x70 + self.rng.below(2) } else { u64::from(PORTS) + self.rng.below(PORT_SPAN) }
    }

    fn gpa(&mut self) -> u64 {
        match self.rng.below(12) {
            0 => ECAM + u64::from(self.slot_offset()),
            _ => AREA + self.rng.below(AREA_SPAN),
        }
    }

    fn zone(&mut self) -> CoalescedZone {
        let (bus, addr) = self.place();
        let size = self.rng.pick(&[1, 2, 4, 8, 16, 64]);
        let pio = u32::from(bus == IoBus::Pio);
        CoalescedZone { addr, size, pio: if self.rng.one_in(40) { 2 } else { pio } }
    }

    /// Mostly a zone that is there, or a part of it; sometimes more, or none.
    fn unregistered(&mut self) -> CoalescedZone {
        if self.zones.is_empty() || self.rng.one_in(6) {
            return self.zone();
        }
        let at = crate::addr::index(self.rng.below(self.zones.len() as u64));
        let zone = self.zones[at];
        match self.rng.below(4) {
            0 => CoalescedZone { size: zone.size + 1, ..zone },
            1 => CoalescedZone { size: zone.size.div_ceil(2), ..self.zones.swap_remove(at) },
            _ => self.zones.swap_remove(at),
        }
    }

    fn ioeventfd(&mut self) -> Ioeventfd {
        let (bus, addr) = self.place();
        let len = self.rng.pick(&[0, 0, 1, 1, 2, 2, 4, 4, 8, 3]);
        let matched = if len == 0 { self.rng.one_in(10) } else { self.rng.one_in(3) };
        let fd = EventfdId(u32::try_from(self.rng.below(EVENTFDS.into())).unwrap_or(0));
        Ioeventfd { bus, addr, len, datamatch: matched.then(|| self.value()), fd }
    }

    /// Mostly one that is there, as it is; sometimes with one thing wrong.
    fn deassigned(&mut self) -> Ioeventfd {
        let at = crate::addr::index(self.rng.below(self.ioeventfds.len() as u64));
        let right = self.ioeventfds[at];
        match self.rng.below(8) {
            0 => Ioeventfd { fd: EventfdId((right.fd.0 + 1) % EVENTFDS), ..right },
            1 => Ioeventfd { len: self.rng.pick(&[0, 1, 2, 4, 8]), ..right },
            2 => Ioeventfd { datamatch: Some(self.value()), ..right },
            3 => Ioeventfd { datamatch: None, ..right },
            _ => self.ioeventfds.swap_remove(at),
        }
    }

    /// Few values, so that datamatches match; some with bits that narrow accesses lose.
    fn value(&mut self) -> u64 {
        match self.rng.below(8) {
            0 => self.rng.bits(),
            1 => 0x100 + self.rng.below(3),
            _ => self.rng.below(3),
        }
    }

    fn port_width(&mut self) -> PortWidth {
        self.rng.pick(&[PortWidth::Byte, PortWidth::Word, PortWidth::Dword])
    }

    fn width(&mut self) -> Width {
        self.rng.pick(&[Width::Byte, Width::Word, Width::Dword, Width::Qword])
    }

    fn access(&mut self) -> Instruction {
        let value = self.value();
        #[expect(clippy::cast_possible_truncation, reason = "the width says how much of it counts")]
        let (port, short) = (Port(self.port() as u16), value as u32);
        match self.rng.below(40) {
            0 => self.ins(port),
            1 => self.outs(port),
            2..=6 => Instruction::In { port, width: self.port_width() },
            7..=19 => Instruction::Out { port, width: self.port_width(), value: short },
            20..=25 => Instruction::Load { gpa: GuestPhysAddr(self.gpa()), width: self.width() },
            _ => Instruction::Store { gpa: GuestPhysAddr(self.gpa()), width: self.width(), value },
        }
    }

    /// Writes that one zone takes, as long as nothing hides it.
    fn flood(&mut self, count: u64) -> Vec<Instruction> {
        let zone = self.rng.pick(&self.zones.clone());
        let write = |draw: &mut Self| {
            let value = draw.value();
            let addr = zone.addr + draw.rng.below(u64::from(zone.size));
            #[expect(clippy::cast_possible_truncation, reason = "port zones lie below 0x10000; values by width")]
            if zone.pio == 1 {
                Instruction::Out { port: Port(addr as u16), width: PortWidth::Byte, value: value as u32 }
            } else {
                Instruction::Store { gpa: GuestPhysAddr(addr), width: Width::Byte, value }
            }
        };
        (0..count).map(|_| write(self)).collect()
    }

    /// Elements of a string: a few; one string in twelve is longer than a page or a read-ahead.
    fn elements(&mut self) -> u64 {
        if self.rng.one_in(12) { self.rng.below(1500) } else { self.rng.below(12) }
    }

    fn ins(&mut self, port: Port) -> Instruction {
        let page_offset = u16::try_from(self.rng.pick(&[0, 0xff0, 0x800]) + self.rng.below(16)).unwrap_or(0);
        let step = self.rng.pick(&[StringStep::Up, StringStep::Down]);
        Instruction::Ins { port, width: self.port_width(), count: self.elements(), page_offset, step }
    }

    fn outs(&mut self, port: Port) -> Instruction {
        let width = self.port_width();
        // Each element may be an exit: few, but for one in fifty that is longer than the emulator goes on without a break.
        let elements = if self.rng.one_in(50) { 1000 + self.rng.below(200) } else { self.rng.below(12) };
        let bytes = elements * width.bytes() as u64;
        Instruction::Outs { port, width, data: (0..bytes).map(|_| self.rng.byte()).collect() }
    }
}

//! The simulator's side.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::addr::{GuestPhysAddr, KernelBehaviour};
use crate::device::{PM_TIMER_PORT, PciHost, PmTimer, RTC_INDEX_PORT, Rtc, UserSpace};
use crate::host::x86_64::ECAM;
use crate::io::pci::{EcamWindow, HostBridge, PciBus, PciError};
use crate::io::{DeviceModel, Entry, Eventfd, HostPage, IoBus, IoError, IoSpace, Ioeventfd, RingError};
use crate::kvm_x86::{End, FastMmio, Handled, Pending, Platform, ReadOnlyMemory, UserExit, Vcpu};
use crate::workload::rtc_tick::START;

use super::stream::{Change, Devices, EVENTFDS, SLOT_BYTES, Stream};

/// A device whose every answer depends on every access before: a lost, doubled or late write shows in what is read.
#[derive(Debug, Default)]
struct Mixer(u64);

impl Mixer {
    /// FNV-1a's step on a byte, and a rotation so that position counts.
    fn mix(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(5);
    }

    fn mix_access(&mut self, addr: u64, kind: u8, bytes: usize) {
        self.mix(kind);
        let numbers = [bytes as u64, addr];
        numbers.iter().flat_map(|number| number.to_le_bytes()).for_each(|byte| self.mix(byte));
    }
}

impl DeviceModel for Mixer {
    fn read(&mut self, addr: u64, data: &mut [u8]) {
        self.mix_access(addr, 0, data.len());
        for byte in data {
            self.mix(1);
            *byte = self.0.to_le_bytes()[3];
        }
    }

    fn write(&mut self, addr: u64, data: &[u8]) {
        self.mix_access(addr, 2, data.len());
        data.iter().for_each(|byte| self.mix(*byte));
    }
}

/// The devices of one side, and those of them that are told the time.
pub(super) struct Behind {
    pub user: UserSpace,
    rtc: Arc<Mutex<Rtc>>,
    timer: Arc<Mutex<PmTimer>>,
}

impl Behind {
    pub fn new(devices: Devices) -> Result<Self, PciError> {
        let (user, rtc, timer) = (UserSpace::new(), Arc::new(Mutex::new(Rtc::new(START))), Arc::default());
        user.attach(IoBus::Pio, u64::from(RTC_INDEX_PORT), 2, Box::new(Arc::clone(&rtc)));
        match devices {
            Devices::Mixer => {
                let mixer = Arc::new(Mutex::new(Mixer::default()));
                user.attach(IoBus::Pio, 0, u64::MAX, Box::new(Arc::clone(&mixer)));
                user.attach(IoBus::Mmio, 0, u64::MAX, Box::new(mixer));
            }
            Devices::Clocks => {
                user.attach(IoBus::Pio, u64::from(PM_TIMER_PORT), 4, Box::new(Arc::clone(&timer)));
            }
            Devices::Pci { functions, attachment } => {
                let bus = PciBus::with_virtio(functions, attachment)?;
                PciHost::new(HostBridge::new(EcamWindow::default(), bus)).attach(&user);
            }
        }
        Ok(Self { user, rtc, timer })
    }

    pub fn advance_to(&self, ns: u64) {
        self.rtc.lock().advance_to(ns);
        self.timer.lock().advance_to(ns);
    }
}

/// The bytes behind the read-only slot.
struct SlotBytes(Arc<Mutex<Vec<u8>>>);

impl ReadOnlyMemory for SlotBytes {
    fn read(&self, offset: u64, data: &mut [u8]) {
        let start = crate::addr::index(offset);
        data.copy_from_slice(&self.0.lock()[start..start + data.len()]);
    }
}

pub(super) struct SimSide {
    pub io: IoSpace,
    vcpu: Vcpu,
    behind: Behind,
    eventfds: Vec<Arc<Eventfd>>,
    slot: Arc<Mutex<Vec<u8>>>,
    pub handled: Handled,
}

impl SimSide {
    pub fn new(stream: &Stream, behaviour: KernelBehaviour, fast_mmio: FastMmio) -> Result<Self, PciError> {
        let io = IoSpace::new(HostPage::Kib4, behaviour);
        let slot = Arc::new(Mutex::new(vec![0; SLOT_BYTES.into()]));
        let mut platform = Platform::default();
        platform.set_fast_mmio(fast_mmio);
        platform.add_read_only(GuestPhysAddr(ECAM), SLOT_BYTES.into(), Arc::new(SlotBytes(Arc::clone(&slot))));
        io.ring().write_first(stream.start_index);
        io.ring().write_last(stream.start_index);
        Ok(Self {
            vcpu: Vcpu::new(&io, Arc::new(platform)),
            eventfds: (0..EVENTFDS).map(|_| io.create_eventfd()).collect(),
            io,
            behind: Behind::new(stream.devices)?,
            slot,
            handled: Handled::default(),
        })
    }

    /// Performs a change; the errno's name if it was refused.
    pub fn change(&mut self, change: Change) -> Result<Option<&'static str>, RingError> {
        let refused = |result: Result<(), IoError>| result.err().map(|error| error.errno());
        Ok(match change {
            Change::Register(zone) => refused(self.io.register_zone(zone)),
            Change::Unregister(zone) => refused(self.io.unregister_zone(zone).map(|_| ())),
            Change::Assign(ioeventfd) => refused(self.io.assign(self.own(ioeventfd))),
            Change::Deassign(ioeventfd) => refused(self.io.deassign(self.own(ioeventfd))),
            Change::Drain => {
                self.behind.user.drain(Some(self.io.ring()))?;
                None
            }
            Change::Own { offset, value } => {
                self.slot.lock()[usize::from(offset)] = value;
                None
            }
            Change::Time(ns) => {
                self.behind.advance_to(ns);
                None
            }
        })
    }

    fn own(&self, ioeventfd: Ioeventfd) -> Ioeventfd {
        Ioeventfd { fd: self.eventfds[ioeventfd.fd.0 as usize].id(), ..ioeventfd }
    }

    /// Goes on with an instruction to its next exit; none if it is done.
    pub fn next_exit(&mut self, pending: &mut Pending) -> Option<UserExit> {
        loop {
            let run = self.vcpu.run(pending);
            self.handled.fast_mmio += run.handled.fast_mmio;
            self.handled.eventfd += run.handled.eventfd;
            self.handled.coalesced += run.handled.coalesced;
            self.handled.memory += run.handled.memory;
            match run.end {
                End::Exit(exit) => return Some(exit),
                End::Reentered => {}
                End::Done => return None,
            }
        }
    }

    pub fn exit_data(&mut self) -> &mut [u8] {
        self.vcpu.exit_data()
    }

    pub fn handle(&mut self, exit: &UserExit) -> Result<u32, RingError> {
        self.behind.user.handle(Some(self.io.ring()), exit, self.vcpu.exit_data())
    }

    pub fn waiting(&self) -> Result<Vec<Entry>, RingError> {
        self.io.ring().waiting()
    }

    /// Takes every eventfd's count.
    pub fn counts(&self) -> Vec<u64> {
        self.eventfds.iter().map(|fd| fd.take()).collect()
    }
}

//! A guest whose system tick is the RTC.
//!
//! Virtual time: nobody waits for a real tick. Where a guest would HLT it writes what it read of register C to a port of its
//! own; behind that the VMM lets time go on to the RTC's next edge. While the handler runs no time passes.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::device::{PM_TIMER_PORT, PmTimer, RTC_INDEX_PORT, Rtc};
use crate::host::x86_64::{Asm, HostError, Reg, System};
use crate::io::{CoalescedZone, DeviceModel, IoBus};
use crate::kvm_x86::PortWidth;
use crate::workload::ports::PortMode;
use crate::workload::rtc_tick::{IRQ_AND_PERIODIC, REGISTER_C, RtcTick, START};

use super::rig::{Rig, Stream};
use super::vmm::RegTraffic;
use super::wrong;

/// Where the guest waits for its next tick.
pub(super) const WAIT_PORT: u16 = 0x0f5;

/// What is behind [`WAIT_PORT`].
struct Wait {
    rtc: Arc<Mutex<Rtc>>,
    timer: Arc<Mutex<PmTimer>>,
    wrong: Arc<Mutex<Option<u8>>>,
}

impl Wait {
    fn next_edge(&self) {
        let mut rtc = self.rtc.lock();
        if let Some(edge) = rtc.next_periodic_ns() {
            rtc.advance_to(edge);
            self.timer.lock().advance_to(edge);
        }
    }
}

impl DeviceModel for Wait {
    fn read(&mut self, _: u64, _: &mut [u8]) {}

    fn write(&mut self, _: u64, data: &[u8]) {
        if data[0] & IRQ_AND_PERIODIC != IRQ_AND_PERIODIC {
            self.wrong.lock().get_or_insert(data[0]);
        }
        self.next_edge();
    }
}

/// The ticks on a rig.
pub(super) struct Ticks {
    reads: u32,
    wrong: Arc<Mutex<Option<u8>>>,
}

impl Ticks {
    /// A rig with RTC and PM timer, the index port handled in that mode.
    ///
    /// # Errors
    /// What KVM refuses, and an RTC in the kernel, which KVM has not.
    pub fn new(system: &System, tick: RtcTick, mode: PortMode) -> Result<(Rig, Self), HostError> {
        let mut rig = Rig::new(system, 1)?;
        match mode {
            PortMode::RegsEveryExit => rig.vmm.regs = RegTraffic::EveryExit,
            PortMode::RegsWhenNeeded => {}
            PortMode::InKernel => {
                return Err(HostError::Unsupported(
                    "KVM has no RTC in the kernel: mode in-kernel cannot run".to_owned(),
                ));
            }
            PortMode::Coalesced => rig.coalesce(CoalescedZone { addr: RTC_INDEX_PORT.into(), size: 1, pio: 1 })?,
        }
        let mut rtc = Rtc::new(START);
        for (index, value) in tick.setup() {
            rtc.write(RTC_INDEX_PORT.into(), &[index]);
            rtc.write(u64::from(RTC_INDEX_PORT) + 1, &[value]);
        }
        let wait = Wait { rtc: Arc::new(Mutex::new(rtc)), timer: Arc::default(), wrong: Arc::default() };
        wait.next_edge();
        let user = &rig.vmm.user;
        user.attach(IoBus::Pio, RTC_INDEX_PORT.into(), 2, Box::new(Arc::clone(&wait.rtc)));
        user.attach(IoBus::Pio, PM_TIMER_PORT.into(), 4, Box::new(Arc::clone(&wait.timer)));
        let ticks = Self { reads: tick.pm_timer_reads, wrong: Arc::clone(&wait.wrong) };
        user.attach(IoBus::Pio, WAIT_PORT.into(), 1, Box::new(wait));
        Ok((rig, ticks))
    }

    /// Accesses of a tick.
    pub fn accesses(&self) -> u64 {
        2 + u64::from(self.reads)
    }

    /// Whether each tick found its interrupt in register C.
    ///
    /// # Errors
    /// Says what one found instead.
    pub fn verdict(&self) -> Result<(), HostError> {
        match *self.wrong.lock() {
            Some(flags) => wrong(format!("a tick read {flags:#x} from register C: no periodic interrupt")),
            None => Ok(()),
        }
    }
}

impl Stream for Ticks {
    fn code(&self, _: u32, _: u64, units: u64) -> Asm {
        let mut asm = Asm::new();
        asm.mov(Reg::R12, units);
        let again = asm.label();
        asm.out(RTC_INDEX_PORT, PortWidth::Byte, REGISTER_C.into());
        // in al, 0x71; mov r13, rax
        asm.mov(Reg::Rdx, u64::from(RTC_INDEX_PORT) + 1).clear_rax().in_dx(PortWidth::Byte).raw(&[0x49, 0x89, 0xc5]);
        asm.mov(Reg::Rdx, PM_TIMER_PORT.into());
        for _ in 0..self.reads {
            asm.in_dx(PortWidth::Dword);
        }
        asm.mov(Reg::Rdx, WAIT_PORT.into()).copy_to_rax(Reg::R13).out_dx(PortWidth::Byte);
        asm.repeat(Reg::R12, again);
        asm
    }

    /// The wait for the next tick.
    fn exits_beside(&self) -> u64 {
        1
    }
}

//! A guest whose system tick is the RTC. Its time is virtual: an idle guest is at its next tick at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::addr::Port;
use crate::device::{PM_TIMER_PORT, PmTimer, RTC_INDEX_PORT, Rtc};
use crate::host::record::HostRun;
use crate::host::x86_64::{Asm, DATA, HostError, Reg, System};
use crate::io::{CoalescedZone, DeviceModel, IoBus};
use crate::kvm_x86::{Instruction, PortWidth};
use crate::workload::ports::PortMode;
use crate::workload::rtc_tick::RtcTick;

use super::execute::{Plan, Regs, execute};
use super::{Told, Way, record};

/// What the clock shows when a run begins: 2018-11-14 00:00:00 UTC. Nothing depends on it.
const START: i64 = 1_542_153_600;
/// Where the guest says that it is idle, in place of HLT: it has no interrupts to wake it.
const IDLE_PORT: u16 = 0xf7;
/// Register B: periodic interrupts, 24 hours; register A: the chain runs.
const PIE_24H: u8 = 0x42;
const CHAIN: u8 = 0x20;
/// Interrupt and periodic flags of register C.
const IRQ_AND_PERIODIC: u64 = 0xc0;

/// Lets time go on to the next tick, and times what is between.
struct Idle {
    rtc: Arc<Mutex<Rtc>>,
    timer: Arc<Mutex<PmTimer>>,
    since: Option<Instant>,
    busy: Arc<Mutex<Duration>>,
}

impl DeviceModel for Idle {
    fn read(&mut self, _addr: u64, _data: &mut [u8]) {}

    fn write(&mut self, _addr: u64, _data: &[u8]) {
        if let Some(since) = self.since {
            *self.busy.lock() += since.elapsed();
        }
        let mut rtc = self.rtc.lock();
        if let Some(next) = rtc.next_periodic_ns() {
            rtc.advance_to(next);
            self.timer.lock().advance_to(next);
        }
        self.since = Some(Instant::now());
    }
}

pub(super) fn run(system: &System, way: &Way<'_>, tick: RtcTick, mode: PortMode) -> Result<HostRun, HostError> {
    let per_tick = 2 + u64::from(tick.pm_timer_reads);
    let all = u128::from(tick.duration_ns) * u128::from(tick.rate_hz) / 1_000_000_000;
    let all = u64::try_from(all).unwrap_or(u64::MAX).max(1);
    let ticks = all.min((way.limits.accesses / per_tick).max(1));
    let (rtc, timer) = (Arc::new(Mutex::new(Rtc::new(START))), Arc::new(Mutex::new(PmTimer::default())));
    let busy = Arc::new(Mutex::new(Duration::ZERO));
    let mut plan = Plan::new(vec![program(tick, ticks)]);
    plan.user.attach(IoBus::Pio, RTC_INDEX_PORT.into(), 2, Box::new(Arc::clone(&rtc)));
    plan.user.attach(IoBus::Pio, PM_TIMER_PORT.into(), 4, Box::new(Arc::clone(&timer)));
    let idle = Idle { rtc, timer, since: None, busy: Arc::clone(&busy) };
    plan.user.attach(IoBus::Pio, IDLE_PORT.into(), 1, Box::new(idle));
    match mode {
        PortMode::RegsEveryExit => plan.regs = Regs::EveryExit,
        PortMode::Coalesced => plan.zones.push(CoalescedZone { addr: RTC_INDEX_PORT.into(), size: 1, pio: 1 }),
        PortMode::RegsWhenNeeded | PortMode::InKernel => {}
    }
    let done = execute(system, plan, way.limits.time)?;
    let mut flags = [0; 8];
    done.ram.read(DATA, &mut flags)?;
    if u64::from_le_bytes(flags) & IRQ_AND_PERIODIC != IRQ_AND_PERIODIC {
        return Err(HostError::Nonsense { what: "a tick without the RTC's interrupt flags in register C".to_owned() });
    }
    let mut told = Told::new("ticks/s, without the idle time between", SETUP + ticks * per_tick);
    told.counted = ticks;
    told.own_exits = ticks + 1;
    told.busy = Some(*busy.lock());
    told.values_checked = ticks;
    let what = "the time between ticks is not waited for; a tick's time has the way back from and to idle in it";
    told.notes.push(what.to_owned());
    if ticks < all {
        told.notes.push(format!("{ticks} of the scenario's {all} ticks were run: --accesses"));
    }
    record(way, &done, 1, told)
}

/// Accesses that set the RTC up.
const SETUP: u64 = 4;

fn program(tick: RtcTick, ticks: u64) -> Asm {
    let width = PortWidth::Byte;
    let (index, data) = (RTC_INDEX_PORT, RTC_INDEX_PORT + 1);
    let rate = CHAIN | Rtc::rate_select(tick.rate_hz).unwrap_or(0);
    let mut asm = Asm::new();
    asm.out(index, width, 0x0a).out(data, width, rate.into());
    asm.out(index, width, 0x0b).out(data, width, PIE_24H.into());
    asm.mov(Reg::R14, u64::MAX).mov(Reg::R12, ticks);
    let again = asm.label();
    asm.out(IDLE_PORT, width, 0).out(index, width, 0x0c);
    asm.perform(&Instruction::In { port: Port(data), width }, 0).and_rax_into(Reg::R14);
    for _ in 0..tick.pm_timer_reads {
        asm.perform(&Instruction::In { port: Port(PM_TIMER_PORT), width: PortWidth::Dword }, 0);
    }
    asm.repeat(Reg::R12, again).out(IDLE_PORT, width, 0);
    asm.copy_to_rax(Reg::R14).save_rax(DATA);
    asm
}

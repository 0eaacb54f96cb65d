//! A guest whose system tick is the RTC.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::addr::Port;
use crate::device::{PM_TIMER_PORT, PmTimer, RTC_INDEX_PORT, Rtc};
use crate::io::IoBus;
use crate::kvm_x86::{Instruction, Platform, PortWidth};
use crate::machine::{SimTime, X86Extra};
use crate::sim::SimError;
use crate::sim::result::{JobResult, Metric, per_second};
use crate::sim::scenario::Scenario;
use crate::workload::ports::PortMode;
use crate::workload::rtc_tick::{IRQ_AND_PERIODIC, REGISTER_C, RtcTick, START};

use super::{Caches, Guest, Told};

struct Clocks {
    rtc: Arc<Mutex<Rtc>>,
    timer: Arc<Mutex<PmTimer>>,
}

impl Clocks {
    fn advance_to(&self, now: SimTime) {
        self.rtc.lock().advance_to(now.whole_ns());
        self.timer.lock().advance_to(now.whole_ns());
    }
}

pub(super) fn run(
    scenario: &Scenario,
    tick: RtcTick,
    progress: &mut dyn FnMut(f64),
) -> Result<(Guest, Told), SimError> {
    let clocks = Clocks { rtc: Arc::new(Mutex::new(Rtc::new(START))), timer: Arc::default() };
    let mut platform = Platform::default();
    if scenario.mode == PortMode::InKernel {
        platform.add_device(IoBus::Pio, u64::from(RTC_INDEX_PORT), 2, Arc::clone(&clocks.rtc) as _);
    }
    let mut guest = Guest::new(&scenario.machine, scenario.mode, scenario.behaviour, platform, scenario.seed);
    guest.user.attach(IoBus::Pio, u64::from(RTC_INDEX_PORT), 2, Box::new(Arc::clone(&clocks.rtc)));
    guest.user.attach(IoBus::Pio, u64::from(PM_TIMER_PORT), 4, Box::new(Arc::clone(&clocks.timer)));
    // The index only: a write to the data port has effects that must not wait.
    guest.coalesce(RTC_INDEX_PORT, 1)?;

    let end = SimTime::from_whole_ns(tick.duration_ns);
    for (register, value) in tick.setup() {
        set(&mut guest, &clocks, register, value)?;
    }
    // What setting it up took is no part of the run's figures.
    guest.stats = Default::default();
    let (mut ticks, mut lost) = (0_u64, 0_u64);
    let period_ns = 1e9 / f64::from(tick.rate_hz);
    let mut last_edge: Option<u64> = None;
    loop {
        clocks.advance_to(guest.now);
        let next = clocks.rtc.lock().next_periodic_ns();
        let pending = clocks.rtc.lock().interrupt();
        // HLT until the next edge, or at once if one came while the handler ran.
        let edge = if pending { guest.now.whole_ns() } else { next.unwrap_or(u64::MAX) };
        if SimTime::from_whole_ns(edge) >= end {
            break;
        }
        if !pending {
            guest.now = guest.now.max(SimTime::from_whole_ns(edge));
            guest.around(X86Extra::Interrupt);
        }
        if let Some(last) = last_edge {
            // Edges that came before the handler read register C are one interrupt.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
            let passed = ((edge - last) as f64 / period_ns).round() as u64;
            lost += passed.saturating_sub(1);
        }
        last_edge = Some(edge);
        guest.caches = if pending { Caches::Warm } else { Caches::Cold };
        handle_tick(&mut guest, &clocks, tick)?;
        ticks += 1;
        if ticks % 1024 == 0 {
            progress(guest.now.seconds() / end.seconds());
        }
    }
    guest.now = guest.now.max(end);
    let job = JobResult {
        name: "ticks".to_owned(),
        completed: ticks,
        per_second: per_second(ticks, guest.now),
        bytes_per_second: 0.0,
        latency_ns: Default::default(),
    };
    let metric = Metric { unit: "ticks/s", value: job.per_second };
    let notes = match lost {
        0 => Vec::new(),
        lost => {
            vec![format!("{lost} periods of the RTC passed while the guest handled one before: they are lost ticks")]
        }
    };
    Ok((guest, Told { metric, jobs: vec![job], notes, config: None, kinds: Vec::new() }))
}

/// The interrupt handler: why was it called? (which lets the line go), and what time is it?
fn handle_tick(guest: &mut Guest, clocks: &Clocks, tick: RtcTick) -> Result<(), SimError> {
    let width = PortWidth::Byte;
    clocks.advance_to(guest.now);
    guest.perform(Instruction::Out { port: Port(RTC_INDEX_PORT), width, value: u32::from(REGISTER_C) })?;
    clocks.advance_to(guest.now);
    let flags = guest.perform(Instruction::In { port: Port(RTC_INDEX_PORT + 1), width })?.value();
    if flags & u64::from(IRQ_AND_PERIODIC) != u64::from(IRQ_AND_PERIODIC) {
        return Err(SimError::NoTick { flags });
    }
    for _ in 0..tick.pm_timer_reads {
        clocks.advance_to(guest.now);
        guest.perform(Instruction::In { port: Port(PM_TIMER_PORT), width: PortWidth::Dword })?;
    }
    Ok(())
}

fn set(guest: &mut Guest, clocks: &Clocks, index: u8, value: u8) -> Result<(), SimError> {
    clocks.advance_to(guest.now);
    let width = PortWidth::Byte;
    guest.perform(Instruction::Out { port: Port(RTC_INDEX_PORT), width, value: u32::from(index) })?;
    guest.perform(Instruction::Out { port: Port(RTC_INDEX_PORT + 1), width, value: u32::from(value) })?;
    Ok(())
}

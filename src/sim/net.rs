//! netperf TCP_RR over virtio-net with an echoing peer: one connection a vCPU.
//!
//! Transmit interrupts and receive notifications are off, as Linux's driver and vhost have them: one kick a
//! transaction is left, on the transmit queue.

use std::collections::VecDeque;

use hdrhistogram::Histogram;

use crate::addr::{GuestPhysAddr, index};
use crate::device::{NetDriver, NetEcho, NetLayout, NetQueue, NetWork, Notifications, Reply};
use crate::machine::{Extra, SimTime};
use crate::workload::netperf::{MAX_MESSAGE, TcpRr};

use super::engine::{Core, Load, Task};
use super::result::{JobResult, Latency, Metric};
use super::scenario::Scenario;
use super::{Finish, SimError};

/// Descriptors of a queue.
const QUEUE: u16 = 256;
/// Ethernet, IP and TCP headers with time stamps, bytes.
const FRAME_HEADERS: u32 = 66;

fn layout(device: u32) -> Result<NetLayout, SimError> {
    let max_frame = u32::try_from(MAX_MESSAGE).unwrap_or(u32::MAX).saturating_add(FRAME_HEADERS);
    let stride = NetLayout::new(GuestPhysAddr(0), QUEUE, max_frame)?.bytes().next_multiple_of(1 << 16);
    Ok(NetLayout::new(GuestPhysAddr(stride * u64::from(device)), QUEUE, max_frame)?)
}

/// Guest RAM for all queues and buffers.
pub(super) fn ram_bytes(scenario: &Scenario) -> Result<u64, SimError> {
    Ok(layout(0)?.bytes().next_multiple_of(1 << 16) * u64::from(scenario.devices))
}

struct Device {
    driver: NetDriver,
    backend: NetEcho,
    vcpu: u32,
    active: bool,
    awake_at: SimTime,
    suppressed: bool,
    current: Option<NetWork>,
    interrupt_pending: bool,
    /// Connections that wait for an answer, in the order of their requests.
    asked: VecDeque<u32>,
}

struct Connection {
    device: u32,
    sent: SimTime,
    transactions: u64,
    ended: Option<SimTime>,
    latency: Histogram<u64>,
}

pub(super) struct Net {
    test: TcpRr,
    devices: Vec<Device>,
    connections: Vec<Connection>,
    running: usize,
    send: SimTime,
    receive: SimTime,
}

impl Net {
    pub fn new(core: &mut Core, scenario: &Scenario, test: TcpRr) -> Result<Self, SimError> {
        let mut devices = Vec::new();
        for device in 0..scenario.devices {
            let place = layout(device)?;
            let mut driver = NetDriver::new(core.ram.clone(), place)?;
            let mut backend = NetEcho::new(core.ram.clone(), place, test.response + FRAME_HEADERS)?;
            driver.set_interrupts(NetQueue::Tx, Notifications::Disabled)?;
            backend.set_notifications(NetQueue::Rx, Notifications::Disabled)?;
            for token in 0..u32::from(QUEUE) {
                driver.post_rx(token)?;
            }
            devices.push(Device {
                driver,
                backend,
                vcpu: device % core.vcpus(),
                active: false,
                awake_at: SimTime::default(),
                suppressed: false,
                current: None,
                interrupt_pending: false,
                asked: VecDeque::with_capacity(usize::from(QUEUE)),
            });
        }
        let mut connections = Vec::new();
        for i in 0..core.vcpus() {
            let latency = Histogram::new_with_bounds(1, 1_000_000_000_000, 3)
                .map_err(|error| SimError::Histogram(error.to_string()))?;
            connections.push(Connection {
                device: i % scenario.devices,
                sent: SimTime::default(),
                transactions: 0,
                ended: None,
                latency,
            });
            core.ready(i, Task::Thread(i), SimTime::default());
        }
        let bytes = |count: u32| SimTime(core.prices.around(Extra::NetByte).0.saturating_mul(u64::from(count)));
        Ok(Self {
            test,
            devices,
            running: connections.len(),
            connections,
            send: core.prices.around(Extra::NetSend) + bytes(test.request),
            receive: core.prices.around(Extra::NetReceive) + bytes(test.response),
        })
    }
}

impl Load for Net {
    fn thread(&mut self, core: &mut Core, thread: u32, now: SimTime) -> Result<SimTime, SimError> {
        let connection = &mut self.connections[index(u64::from(thread))];
        if now.whole_ns() >= self.test.duration_ns {
            connection.ended = Some(now);
            self.running -= 1;
            return Ok(now);
        }
        connection.sent = now;
        let mut time = now + self.send;
        let number = connection.device;
        let device = &mut self.devices[index(u64::from(number))];
        while device.driver.reap_tx()?.is_some() {}
        device.driver.send(self.test.request + FRAME_HEADERS, thread)?;
        device.asked.push_back(thread);
        if device.active && !device.suppressed && time >= device.awake_at {
            device.backend.set_notifications(NetQueue::Tx, Notifications::Disabled)?;
            device.suppressed = true;
        }
        if device.driver.needs_kick(NetQueue::Tx)? {
            let (signal, end) = core.doorbell(thread, number, NetQueue::Tx.index(), time)?;
            time = end;
            if let Some(signal) = signal {
                self.notified(core, number, NetQueue::Tx.index(), signal)?;
            }
        }
        Ok(time)
    }

    fn interrupt(&mut self, core: &mut Core, device: u32, now: SimTime) -> Result<SimTime, SimError> {
        let state = &mut self.devices[index(u64::from(device))];
        state.interrupt_pending = false;
        let mut time = now;
        while let Some(received) = state.driver.receive()? {
            state.driver.post_rx(received.token)?;
            time += self.receive;
            let Some(thread) = state.asked.pop_front() else { continue };
            let connection = &mut self.connections[index(u64::from(thread))];
            connection.transactions += 1;
            connection.latency.saturating_record((time - connection.sent).whole_ns());
            if thread == state.vcpu {
                core.enqueue(thread, Task::Thread(thread));
            } else {
                core.ready(thread, Task::Thread(thread), time);
            }
        }
        Ok(time)
    }

    fn notified(&mut self, core: &mut Core, device: u32, _queue: u16, now: SimTime) -> Result<(), SimError> {
        let state = &mut self.devices[index(u64::from(device))];
        if !state.active {
            state.active = true;
            state.awake_at = now + core.prices.around(Extra::BackendWake);
            let done = state.awake_at + core.prices.around(Extra::NetEcho);
            core.backend_at(device, done);
        }
        Ok(())
    }

    fn backend(&mut self, core: &mut Core, device: u32, now: SimTime) -> Result<(), SimError> {
        let state = &mut self.devices[index(u64::from(device))];
        let work = match state.current.take() {
            Some(work) => Some(work),
            None => state.backend.pop()?,
        };
        if let Some(work) = work {
            match state.backend.complete(work)?.reply {
                Reply::Delivered { interrupt: true } if !state.interrupt_pending => {
                    state.interrupt_pending = true;
                    core.ready(state.vcpu, Task::Interrupt(device), now + core.prices.around(Extra::Interrupt));
                }
                Reply::Delivered { .. } => {}
                reply => return Err(SimError::Reply { device, reply }),
            }
        }
        state.current = state.backend.pop()?;
        if state.current.is_none() && state.suppressed {
            state.suppressed = false;
            if state.backend.set_notifications(NetQueue::Tx, Notifications::Enabled)? {
                state.current = state.backend.pop()?;
            }
        }
        state.active = state.current.is_some();
        if state.active {
            core.backend_at(device, now + core.prices.around(Extra::NetEcho));
        }
        Ok(())
    }

    fn finished(&self) -> bool {
        self.running == 0
    }

    fn progress(&self, now: SimTime) -> f64 {
        (now.whole_ns() as f64 / self.test.duration_ns as f64).min(1.0)
    }
}

impl Finish for Net {
    fn metric(&self, end: SimTime) -> Metric {
        let transactions: u64 = self.connections.iter().map(|connection| connection.transactions).sum();
        Metric { unit: "trans/s", value: transactions as f64 / end.seconds() }
    }

    fn jobs(&self) -> Vec<JobResult> {
        let row = |(i, connection): (usize, &Connection)| {
            let seconds = connection.ended.unwrap_or_default().seconds();
            let bytes = connection.transactions * u64::from(self.test.request + self.test.response);
            JobResult {
                name: format!("connection{i}"),
                completed: connection.transactions,
                per_second: connection.transactions as f64 / seconds,
                bytes_per_second: bytes as f64 / seconds,
                latency_ns: Latency::of(&connection.latency),
            }
        };
        self.connections.iter().enumerate().map(row).collect()
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

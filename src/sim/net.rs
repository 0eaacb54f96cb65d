//! netperf TCP_RR over virtio-net with an echoing peer: one connection a vCPU.
//!
//! Transmit interrupts and receive notifications are off, as Linux's driver and vhost have them: one kick a
//! transaction is left, on the transmit queue.

use std::collections::VecDeque;

use crate::addr::{GuestPhysAddr, index};
use crate::device::{NetDriver, NetEcho, NetLayout, NetQueue, NetWork, Notifications, Reply};
use crate::machine::{Extra, SimTime};
use crate::workload::netperf::TcpRr;

use super::backend::{Backend, Server};
use super::engine::{Core, Load, Step, Task};
use super::latencies::Latencies;
use super::result::{JobResult, Metric, per_second};
use super::scenario::Scenario;
use super::{Finish, SimError};

/// Descriptors of a queue, at least: what QEMU's virtio-net offers.
const QUEUE: u32 = 256;
/// Ethernet, IP and TCP headers with time stamps, bytes.
const FRAME_HEADERS: u32 = 66;

/// Where the queues and buffers of a device lie: room for a frame of each of its connections.
fn layout(scenario: &Scenario, test: &TcpRr, device: u32) -> Result<NetLayout, SimError> {
    let connections = scenario.vcpus.div_ceil(scenario.devices);
    let queue = u16::try_from(connections.next_power_of_two().max(QUEUE)).unwrap_or(u16::MAX);
    let frame = test.request.max(test.response) + FRAME_HEADERS;
    let stride = NetLayout::new(GuestPhysAddr(0), queue, frame)?.bytes().next_multiple_of(1 << 16);
    Ok(NetLayout::new(GuestPhysAddr(stride * u64::from(device)), queue, frame)?)
}

/// Guest RAM for all queues and buffers.
pub(super) fn ram_bytes(scenario: &Scenario, test: &TcpRr) -> Result<u64, SimError> {
    Ok(layout(scenario, test, 0)?.bytes().next_multiple_of(1 << 16) * u64::from(scenario.devices))
}

/// The device's echo, and its number for errors.
struct Echo(NetEcho, u32);

impl Server for Echo {
    type Work = NetWork;

    #[inline]
    fn pop(&mut self) -> Result<Option<NetWork>, SimError> {
        Ok(self.0.pop()?)
    }

    #[inline]
    fn complete(&mut self, work: NetWork) -> Result<bool, SimError> {
        match self.0.complete(work)?.reply {
            Reply::Delivered { interrupt } => Ok(interrupt),
            reply => Err(SimError::Reply { device: self.1, reply }),
        }
    }

    fn set_kicks(&mut self, wanted: Notifications) -> Result<bool, SimError> {
        Ok(self.0.set_notifications(NetQueue::Tx, wanted)?)
    }
}

struct Device {
    driver: NetDriver,
    backend: Backend<Echo>,
    /// Connections that wait for an answer, in the order of their requests.
    asked: VecDeque<u32>,
    /// The connection whose answer the interrupt handler has taken from the queue and not yet brought to it.
    answered: Option<u32>,
}

struct Connection {
    device: u32,
    sent: SimTime,
    /// The thread is past the system call, at the queue.
    sending: bool,
    transactions: u64,
    ended: Option<SimTime>,
    latency: Latencies,
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
            let place = layout(scenario, &test, device)?;
            let mut driver = NetDriver::new(core.ram.clone(), place)?;
            let mut echo = NetEcho::new(core.ram.clone(), place, test.response + FRAME_HEADERS)?;
            driver.set_interrupts(NetQueue::Tx, Notifications::Disabled)?;
            echo.set_notifications(NetQueue::Rx, Notifications::Disabled)?;
            let queue = place.queue(NetQueue::Rx).size();
            for token in 0..u32::from(queue) {
                driver.post_rx(token)?;
            }
            devices.push(Device {
                driver,
                backend: Backend::new(Echo(echo, device), Extra::NetEcho, device, device % core.vcpus()),
                asked: VecDeque::with_capacity(usize::from(queue)),
                answered: None,
            });
        }
        let mut connections = Vec::new();
        for i in 0..core.vcpus() {
            connections.push(Connection {
                device: i % scenario.devices,
                sent: SimTime::default(),
                sending: false,
                transactions: 0,
                ended: None,
                latency: Latencies::new()?,
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
    /// A send takes a step from the system call to the queue, and the doorbell another.
    fn thread(&mut self, core: &mut Core, thread: u32, mut now: SimTime) -> Result<Step, SimError> {
        let connection = &mut self.connections[index(u64::from(thread))];
        if !connection.sending {
            if now.whole_ns() >= self.test.duration_ns {
                connection.ended = Some(now);
                self.running -= 1;
                return Ok(Step::Done(now));
            }
            connection.sent = now;
            connection.sending = true;
            let next = now + self.send;
            if !core.advance(next) {
                return Ok(Step::More(next));
            }
            now = next;
        }
        connection.sending = false;
        let number = connection.device;
        let Device { driver, backend, asked, .. } = &mut self.devices[index(u64::from(number))];
        while driver.reap_tx()?.is_some() {}
        driver.send(self.test.request + FRAME_HEADERS, thread)?;
        asked.push_back(thread);
        backend.catch_up(now)?;
        if !driver.needs_kick(NetQueue::Tx)? {
            return Ok(Step::Done(now));
        }
        let (signal, end) = core.doorbell(thread, number, NetQueue::Tx.index(), now)?;
        if let Some(signal) = signal {
            backend.notified(core, signal);
        }
        Ok(Step::Done(end))
    }

    /// Each answer takes a step. The handler ends when it finds no more (`virtnet_poll`).
    fn interrupt(&mut self, core: &mut Core, device: u32, mut now: SimTime) -> Result<Step, SimError> {
        let Device { driver, backend, asked, answered } = &mut self.devices[index(u64::from(device))];
        loop {
            if let Some(thread) = answered.take() {
                let connection = &mut self.connections[index(u64::from(thread))];
                connection.transactions += 1;
                connection.latency.record(now - connection.sent);
                core.wake(backend.vcpu, thread, Task::Thread(thread));
            }
            let Some(received) = driver.receive()? else {
                backend.interrupt_done();
                return Ok(Step::Done(now));
            };
            driver.post_rx(received.token)?;
            *answered = asked.pop_front();
            let next = now + self.receive;
            if !core.advance(next) {
                return Ok(Step::More(next));
            }
            now = next;
        }
    }

    fn notified(&mut self, core: &mut Core, device: u32, at: SimTime) {
        self.devices[index(u64::from(device))].backend.notified(core, at);
    }

    fn backend(&mut self, core: &mut Core, device: u32, now: SimTime) -> Result<(), SimError> {
        self.devices[index(u64::from(device))].backend.finished(core, now)
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
        Metric { unit: "trans/s", value: per_second(transactions, end) }
    }

    fn jobs(&self) -> Vec<JobResult> {
        let row = |(i, connection): (usize, &Connection)| {
            let time = connection.ended.unwrap_or_default();
            let bytes = connection.transactions * u64::from(self.test.request + self.test.response);
            JobResult {
                name: format!("connection{i}"),
                completed: connection.transactions,
                per_second: per_second(connection.transactions, time),
                bytes_per_second: per_second(bytes, time),
                latency_ns: connection.latency.summary(),
            }
        };
        self.connections.iter().enumerate().map(row).collect()
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

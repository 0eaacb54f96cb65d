//! Runs a plan: a VM with what is on its buses, its vCPUs each on a thread.

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crate::addr::Port;
use crate::device::UserSpace;
use crate::io::{CoalescedZone, EventfdId, IoBus, Ioeventfd, RingConsumer};
use crate::kvm_x86::{PortWidth, Target};

use crate::host::x86_64::{
    Asm, CODE, DATA, Deadline, EXIT_PORT, HostError, HostEventfd, Mapping, RAM_BYTES, System, Vcpu, Vm,
};

/// Whether user space touches a vCPU's registers at each exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Regs {
    /// KVM_GET_REGS and KVM_SET_REGS, as QEMU did in 2007.
    EveryExit,
    /// Neither.
    WhenNeeded,
}

/// An ioeventfd without its eventfd, of which each has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signal {
    pub bus: IoBus,
    pub addr: u64,
    pub len: u32,
}

/// What is run.
pub(super) struct Plan {
    /// Each vCPU's program, without its end, made for [`code_at`] its number.
    pub programs: Vec<Asm>,
    pub user: UserSpace,
    pub zones: Vec<CoalescedZone>,
    pub signals: Vec<Signal>,
    /// Read-only memory, and where.
    pub read_only: Vec<(u64, Arc<Mapping>)>,
    /// What the guest's memory holds at [`DATA`].
    pub data: Vec<u8>,
    pub regs: Regs,
}

impl Plan {
    pub fn new(programs: Vec<Asm>) -> Self {
        let (zones, signals, read_only, data) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { programs, user: UserSpace::new(), zones, signals, read_only, data, regs: Regs::WhenNeeded }
    }
}

/// What was counted and measured.
pub(super) struct Done {
    /// From when all vCPUs stood ready to when the last had ended.
    pub time: Duration,
    pub exits: u64,
    /// Writes out of the ring.
    pub drained: u64,
    /// Counts of all eventfds.
    pub signals: u64,
    pub first_exit: Instant,
    /// The guest's memory.
    pub ram: Arc<Mapping>,
}

/// Bytes of code that each of so many vCPUs has room for.
const fn room(vcpus: u64) -> u64 {
    (RAM_BYTES - CODE) / vcpus / 4096 * 4096
}

/// Where the program of a vCPU begins.
pub(super) const fn code_at(vcpu: u64, vcpus: u64) -> u64 {
    CODE + vcpu * room(vcpus)
}

/// Most vCPUs: each has some room for code.
pub(super) const MOST_VCPUS: u32 = 64;

/// Runs it.
pub(super) fn execute(system: &System, plan: Plan, limit: Duration) -> Result<Done, HostError> {
    let vm = Vm::new(system)?;
    let eventfds = buses(&vm, &plan)?;
    vm.ram().write(DATA, &plan.data)?;
    let count = plan.programs.len() as u64;
    let mut vcpus = Vec::new();
    for (number, program) in (0..).zip(&plan.programs) {
        let at = code_at(u64::from(number), count);
        let mut asm = program.clone();
        asm.out(EXIT_PORT, PortWidth::Byte, 0);
        if asm.code().len() as u64 > room(count) {
            let (bytes, room) = (asm.code().len(), room(count));
            return Err(HostError::Unsupported(format!("a guest program of {bytes} bytes; there is room for {room}")));
        }
        vm.load(at, asm.code())?;
        vcpus.push(vm.vcpu(system, number, at)?);
    }
    // One ring a VM: any vCPU's mapping shows it. A host without it has no zones either.
    let ring = match vcpus.first() {
        Some(first) if !plan.zones.is_empty() => Some(first.ring()?),
        _ => None,
    };
    let ring = ring.as_deref().map(|ring| ring as &(dyn RingConsumer + Sync));
    let barrier = Barrier::new(vcpus.len());
    let ran: Vec<_> = std::thread::scope(|scope| {
        let (plan, barrier) = (&plan, &barrier);
        let mut vcpus = vcpus.into_iter();
        // The first on this thread: one vCPU needs no other.
        let mine = vcpus.next();
        let others: Vec<_> = vcpus.map(|vcpu| scope.spawn(move || one(vcpu, plan, ring, barrier, limit))).collect();
        let mut ran: Vec<_> = mine.into_iter().map(|vcpu| one(vcpu, plan, ring, barrier, limit)).collect();
        ran.extend(others.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(HostError::Nonsense { what: "a vCPU's thread panicked".to_owned() }))
        }));
        ran
    });
    let ran = ran.into_iter().collect::<Result<Vec<Ran>, _>>()?;
    let (Some(start), Some(end)) = (ran.iter().map(|ran| ran.start).min(), ran.iter().map(|ran| ran.end).max()) else {
        return Err(HostError::Unsupported("a plan without vCPUs".to_owned()));
    };
    let mut signals = 0;
    for eventfd in &eventfds {
        signals += eventfd.take()?;
    }
    Ok(Done {
        time: end - start,
        exits: ran.iter().map(|ran| ran.exits).sum(),
        drained: ran.iter().map(|ran| ran.drained).sum(),
        signals,
        first_exit: ran.iter().map(|ran| ran.first_exit).min().unwrap_or(end),
        ram: Arc::clone(vm.ram()),
    })
}

fn buses(vm: &Vm, plan: &Plan) -> Result<Vec<HostEventfd>, HostError> {
    for zone in &plan.zones {
        vm.register_zone(*zone).map_err(|source| HostError::call("KVM_REGISTER_COALESCED_MMIO", source))?;
    }
    for (at, memory) in &plan.read_only {
        vm.add_read_only(*at, Arc::clone(memory))?;
    }
    let mut eventfds = Vec::new();
    for Signal { bus, addr, len } in &plan.signals {
        let eventfd = HostEventfd::new()?;
        let ioeventfd = Ioeventfd { bus: *bus, addr: *addr, len: *len, datamatch: None, fd: EventfdId(0) };
        vm.assign(&ioeventfd, &eventfd).map_err(|source| HostError::call("KVM_IOEVENTFD", source))?;
        eventfds.push(eventfd);
    }
    Ok(eventfds)
}

/// Exits between two looks at the clock, which cost a share of a percent of an exit each.
const LOOKS: u64 = 16;

/// What one vCPU did.
struct Ran {
    start: Instant,
    end: Instant,
    first_exit: Instant,
    exits: u64,
    drained: u64,
}

/// The VMM's loop, and no more.
fn one(
    mut vcpu: Vcpu,
    plan: &Plan,
    ring: Option<&(dyn RingConsumer + Sync)>,
    barrier: &Barrier,
    limit: Duration,
) -> Result<Ran, HostError> {
    let deadline = Deadline::after(limit);
    // Whatever became of it: the others wait.
    barrier.wait();
    let deadline = deadline?;
    let ring = ring.map(|ring| ring as &dyn RingConsumer);
    let start = Instant::now();
    let (mut first_exit, mut exits, mut drained) = (None, 0, 0);
    loop {
        let exit = vcpu.run(&deadline)?;
        if first_exit.is_none() {
            first_exit = Some(Instant::now());
        }
        if exit.target == Target::Port(Port(EXIT_PORT)) {
            let end = Instant::now();
            drained += u64::from(plan.user.drain(ring)?);
            return Ok(Ran { start, end, first_exit: first_exit.unwrap_or(end), exits, drained });
        }
        let regs = if plan.regs == Regs::EveryExit { Some(vcpu.regs()?) } else { None };
        drained += u64::from(plan.user.handle(ring, &exit, vcpu.exit_data())?);
        if let Some(regs) = regs {
            vcpu.set_regs(&regs)?;
        }
        exits += 1;
        if exits % LOOKS == 0 {
            deadline.check(&vcpu)?;
        }
    }
}

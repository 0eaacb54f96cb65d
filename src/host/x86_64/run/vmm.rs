//! User space's side of a guest's run: the ring, the devices, register traffic, and what is counted.

use rustc_hash::FxHashMap;

use crate::addr::Port;
use crate::device::UserSpace;
use crate::host::x86_64::{Deadline, EXIT_PORT, HostError, MappedRing, Vcpu};
use crate::io::{CoalescedZone, IoBus, RingConsumer};
use crate::kvm_x86::{Direction, Target, UserExit};

/// Exits between two looks at the deadline: a millisecond or two.
const LOOK_EVERY: u64 = 64;

/// Whether registers are fetched and given back at every exit, as QEMU did in 2007.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RegTraffic {
    /// KVM_GET_REGS and KVM_SET_REGS around each exit.
    EveryExit,
    /// None.
    #[default]
    Never,
}

/// What happened, as far as user space sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    exits: FxHashMap<(Target, Direction), u64>,
    /// Exits to user space, batches' ends not among them.
    pub total: u64,
    /// Of these, writes that a zone would have taken: the ring was full.
    pub ring_full: u64,
    /// Writes that came out of the ring.
    pub drained: u64,
}

impl Counts {
    fn add(&mut self, exit: &UserExit) {
        self.total += 1;
        *self.exits.entry((exit.target, exit.direction)).or_default() += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        for (kind, count) in &other.exits {
            *self.exits.entry(*kind).or_default() += count;
        }
        self.total += other.total;
        self.ring_full += other.ring_full;
        self.drained += other.drained;
    }

    /// Exits at a port or an address, both ways.
    pub fn at(&self, wanted: impl Fn(Target) -> bool) -> u64 {
        self.exits.iter().filter(|((target, _), _)| wanted(*target)).map(|(_, count)| count).sum()
    }

    /// Takes exits at a port out, which no access of the workload made.
    pub fn leave_out(&mut self, port: u16) {
        for direction in [Direction::Read, Direction::Write] {
            self.total -= self.exits.remove(&(Target::Port(Port(port)), direction)).unwrap_or(0);
        }
    }

    /// Exits by kind, most first.
    pub fn by_kind(&self) -> Vec<(Target, Direction, u64)> {
        let mut kinds: Vec<_> = self.exits.iter().map(|((target, way), count)| (*target, *way, *count)).collect();
        kinds.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| (a.0, a.1).cmp(&(b.0, b.1))));
        kinds
    }
}

/// The VMM that a workload needs.
#[derive(Debug, Default)]
pub(super) struct Vmm {
    pub user: UserSpace,
    pub ring: Option<MappedRing>,
    pub zones: Vec<CoalescedZone>,
    pub regs: RegTraffic,
}

impl Vmm {
    pub fn ring(&self) -> Option<&dyn RingConsumer> {
        self.ring.as_ref().map(|ring| &**ring as &dyn RingConsumer)
    }

    fn coalesces(&self, exit: &UserExit) -> bool {
        let bus = match exit.target {
            Target::Port(_) => IoBus::Pio,
            Target::Mmio(_) => IoBus::Mmio,
        };
        let held = |zone: &CoalescedZone| {
            zone.bus().is_ok_and(|of| of == bus) && zone.contains(exit.target.addr(), exit.size.into())
        };
        exit.direction == Direction::Write && self.zones.iter().any(held)
    }

    /// Runs a guest to the end of its program: an OUT to [`EXIT_PORT`], which is no exit of the
    /// workload: the ring is left as it is for the program that follows.
    ///
    /// # Errors
    /// As [`Vcpu::run`]; or the ring holds what no kernel writes.
    pub fn drive(&self, vcpu: &mut Vcpu, counts: &mut Counts, deadline: &Deadline) -> Result<(), HostError> {
        loop {
            let exit = vcpu.run(deadline)?;
            if exit.target == Target::Port(Port(EXIT_PORT)) {
                return Ok(());
            }
            counts.add(&exit);
            counts.ring_full += u64::from(self.coalesces(&exit));
            let regs = match self.regs {
                RegTraffic::EveryExit => Some(vcpu.regs()?),
                RegTraffic::Never => None,
            };
            counts.drained += u64::from(self.user.handle(self.ring(), &exit, vcpu.exit_data())?);
            if let Some(mut regs) = regs {
                regs.rax = with_read(regs.rax, &exit, vcpu.exit_data());
                vcpu.set_regs(&regs)?;
            }
            // A guest that exits for ever is seldom in KVM_RUN when the signal comes. The clock takes longer than a device.
            if counts.total % LOOK_EVERY == 0 {
                deadline.check(|| vcpu.place())?;
            }
        }
    }
}

/// rAX with what an IN has read in it.
///
/// Where KVM emulates port I/O (kvm_pvm does), KVM_SET_REGS before KVM_RUN makes it forget that the IN writes rAX: the
/// emulator's register cache, and with it the mark on rAX, is thrown away (`emulate_regs_need_sync_from_vcpu`). So user space
/// gives the value itself, as the VMware backdoor does; where KVM completes the IN too, that changes nothing.
fn with_read(rax: u64, exit: &UserExit, data: &[u8]) -> u64 {
    if (exit.direction, exit.count) != (Direction::Read, 1) || !matches!(exit.target, Target::Port(_)) {
        return rax;
    }
    let mut value = if data.len() == 4 { [0; 8] } else { rax.to_le_bytes() };
    value[..data.len()].copy_from_slice(data);
    u64::from_le_bytes(value)
}

//! A guest that performs one access at a time for a driver on this side, and times it by its time stamp counter.

use crate::host::x86_64::scan::{memory, ports};
use crate::host::x86_64::{Asm, CODE, DATA, Deadline, EXIT_PORT, HostError, Label, Reg};
use crate::io::pci::MachineAccess;
use crate::kvm_x86::{PortWidth, Width};

use super::rig::{LIMIT, Rig};
use super::vmm::Counts;

/// The mailbox: which code, address, port, value; then what was read.
const MAILBOX: u64 = DATA;
const RESULT: u64 = DATA + 32;
const CYCLES: u64 = DATA + 40;

/// What the guest can be asked for, by place of its code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nothing,
    Out(PortWidth),
    In(PortWidth),
    Load(Width),
    Store(Width),
}

/// The guest.
pub(super) struct Server {
    codes: Vec<(Kind, u64)>,
    /// Time between the two looks at the clock where there is no access, cycles.
    empty: u64,
}

/// What an access read (0 for writes), and its time in cycles of the time stamp counter.
pub(super) struct Performed {
    pub value: u32,
    pub cycles: u64,
}

const PORT_WIDTHS: [PortWidth; 3] = [PortWidth::Byte, PortWidth::Word, PortWidth::Dword];
const WIDTHS: [Width; 3] = [Width::Byte, Width::Word, Width::Dword];
/// Steps without an access, for the time of one.
const EMPTY_STEPS: usize = 31;

impl Server {
    /// Loads its program and brings the guest to the point where it asks for work.
    pub fn start(rig: &mut Rig) -> Result<Self, HostError> {
        let mut asm = Asm::new();
        let top = asm.label();
        asm.out(EXIT_PORT, PortWidth::Byte, 0).mov(Reg::Rbx, MAILBOX);
        // rdtsc into rax; mov r8, rax
        asm.rdtsc().raw(&[0x49, 0x89, 0xc0]);
        // mov rdi, [rbx+8]; mov rdx, [rbx+16]; mov rax, [rbx+24]; jmp [rbx]
        asm.raw(&[0x48, 0x8b, 0x7b, 8]).raw(&[0x48, 0x8b, 0x53, 16]).raw(&[0x48, 0x8b, 0x43, 24]).raw(&[0xff, 0x23]);
        let mut kinds = vec![Kind::Nothing];
        kinds.extend(PORT_WIDTHS.into_iter().flat_map(|width| [Kind::Out(width), Kind::In(width)]));
        kinds.extend(WIDTHS.into_iter().flat_map(|width| [Kind::Load(width), Kind::Store(width)]));
        let codes = kinds.into_iter().map(|kind| (kind, CODE + stub(&mut asm, kind, top))).collect();
        rig.vm.load(CODE, asm.code())?;
        rig.vcpus[0].enter_at(CODE)?;
        let mut server = Self { codes, empty: 0 };
        rig.vmm.drive(&mut rig.vcpus[0], &mut Counts::default(), &Deadline::after(LIMIT)?)?;
        let step = |_| Ok(server.step(rig, Kind::Nothing, [0; 3], &mut Counts::default())?.cycles);
        let mut cycles = (0..EMPTY_STEPS).map(step).collect::<Result<Vec<_>, HostError>>()?;
        cycles.sort_unstable();
        server.empty = cycles[EMPTY_STEPS / 2];
        Ok(server)
    }

    /// One access.
    pub fn perform(&self, rig: &mut Rig, access: MachineAccess, counts: &mut Counts) -> Result<Performed, HostError> {
        let (kind, parts) = match access {
            MachineAccess::Out { port, width, value } => (Kind::Out(ports(width)), [0, port.0.into(), value.into()]),
            MachineAccess::In { port, width } => (Kind::In(ports(width)), [0, port.0.into(), 0]),
            MachineAccess::Load { addr, width } | MachineAccess::MemoryLoad { addr, width } => {
                (Kind::Load(memory(width)), [addr.0, 0, 0])
            }
            MachineAccess::Store { addr, width, value } => (Kind::Store(memory(width)), [addr.0, 0, value.into()]),
        };
        self.step(rig, kind, parts, counts)
    }

    fn step(&self, rig: &mut Rig, kind: Kind, parts: [u64; 3], counts: &mut Counts) -> Result<Performed, HostError> {
        let at = self.codes.iter().find(|(known, _)| *known == kind).map_or(0, |(_, at)| *at);
        let ram = std::sync::Arc::clone(rig.vm.ram());
        for (place, word) in (0..).zip([at].into_iter().chain(parts)) {
            ram.write(MAILBOX + place * 8, &u64::to_le_bytes(word))?;
        }
        rig.vmm.drive(&mut rig.vcpus[0], counts, &Deadline::after(LIMIT)?)?;
        let (mut value, mut cycles) = ([0; 4], [0; 8]);
        ram.read(RESULT, &mut value)?;
        ram.read(CYCLES, &mut cycles)?;
        let reads = matches!(kind, Kind::In(_) | Kind::Load(_));
        Ok(Performed {
            value: if reads { u32::from_le_bytes(value) } else { 0 },
            cycles: u64::from_le_bytes(cycles).saturating_sub(self.empty),
        })
    }
}

/// Adds the code of one access, which goes back to the top; returns its place.
fn stub(asm: &mut Asm, kind: Kind, top: Label) -> u64 {
    let at = asm.code().len() as u64;
    match kind {
        Kind::Nothing => &mut *asm,
        Kind::Out(width) => asm.out_dx(width),
        Kind::In(width) => asm.in_dx(width),
        Kind::Load(width) => asm.load(width),
        Kind::Store(width) => asm.store(width),
    };
    // mov r9, rax; rdtsc into rax; sub rax, r8
    asm.raw(&[0x49, 0x89, 0xc1]).rdtsc().raw(&[0x4c, 0x29, 0xc0]).save_rax(CYCLES);
    // mov rax, r9
    asm.raw(&[0x4c, 0x89, 0xc8]).save_rax(RESULT).jump_back(top);
    at
}

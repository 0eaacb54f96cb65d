//! A scan's accesses as a list of instructions.

use crate::io::pci::{ByMethod, ConfigMethod, HostBridge, MachineAccess, Width as ConfigWidth};
use crate::kvm_x86::{Instruction, PortWidth, Width};
use crate::workload::pci_scan::Scan;

/// The part of the bus that is scanned.
const SCAN: Scan = Scan { buses: 0..=0 };

/// A scan's accesses as they go on a bridge in that state: what a guest does without deciding anything.
#[must_use]
pub fn scan_accesses(mut bridge: HostBridge, [below, beyond]: [ConfigMethod; 2]) -> Vec<Instruction> {
    let window = bridge.window();
    let mut accesses = Vec::new();
    let perform = |access| {
        accesses.push(instruction(access));
        bridge.perform(access)
    };
    SCAN.run(&mut ByMethod::new(below, window, perform).extended_by(beyond));
    accesses
}

const fn instruction(access: MachineAccess) -> Instruction {
    match access {
        MachineAccess::Out { port, width, value } => Instruction::Out { port, width: ports(width), value },
        MachineAccess::In { port, width } => Instruction::In { port, width: ports(width) },
        MachineAccess::Load { addr, width } | MachineAccess::MemoryLoad { addr, width } => {
            Instruction::Load { gpa: addr, width: memory(width) }
        }
        MachineAccess::Store { addr, width, value } => {
            Instruction::Store { gpa: addr, width: memory(width), value: value as u64 }
        }
    }
}

/// The width of a port access.
pub(super) const fn ports(width: ConfigWidth) -> PortWidth {
    match width {
        ConfigWidth::Byte => PortWidth::Byte,
        ConfigWidth::Word => PortWidth::Word,
        ConfigWidth::Dword => PortWidth::Dword,
    }
}

/// The width of a load or store.
pub(super) const fn memory(width: ConfigWidth) -> Width {
    match width {
        ConfigWidth::Byte => Width::Byte,
        ConfigWidth::Word => Width::Word,
        ConfigWidth::Dword => Width::Dword,
    }
}

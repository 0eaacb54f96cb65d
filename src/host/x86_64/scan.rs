//! A scan's accesses as a list of instructions.

use crate::io::pci::{ByMethod, ConfigMethod, HostBridge};
use crate::kvm_x86::Instruction;
use crate::workload::pci_scan::Scan;

/// The part of the bus that is scanned.
const SCAN: Scan = Scan { buses: 0..=0 };

/// A scan's accesses as they go on a bridge in that state: what a guest does without deciding anything.
#[must_use]
pub fn scan_accesses(mut bridge: HostBridge, [below, beyond]: [ConfigMethod; 2]) -> Vec<Instruction> {
    let window = bridge.window();
    let mut accesses = Vec::new();
    {
        let perform = |access| {
            accesses.push(Instruction::from(access));
            bridge.perform(access)
        };
        let mut config = ByMethod::new(below, window, perform).extended_by(beyond);
        SCAN.enumerate(&mut config).probe_drivers(&mut config);
    }
    accesses
}

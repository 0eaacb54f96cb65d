//! Guests for tests that write their own programs.

use std::time::Duration;

use hvmmio::host::x86_64::{Asm, CODE, Deadline, EXIT_PORT, System, Vcpu, Vm};
use hvmmio::kvm_x86::PortWidth;

/// More than any test's guest needs, and less than a person waits.
pub fn limit() -> Deadline {
    Deadline::after(Duration::from_secs(30)).unwrap()
}

/// A VM with one vCPU at the start of a program; the OUT that ends it is added.
pub fn guest(system: &System, build: impl FnOnce(&mut Asm)) -> (Vm, Vcpu) {
    let vm = Vm::new(system).unwrap();
    let mut asm = Asm::new();
    build(&mut asm);
    asm.out(EXIT_PORT, PortWidth::Byte, 0);
    vm.load(CODE, asm.code()).unwrap();
    let vcpu = vm.vcpu(system, 0, CODE).unwrap();
    (vm, vcpu)
}

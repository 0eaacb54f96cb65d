//! The simulator's instructions as machine code.

use crate::kvm_x86::{Instruction, StringStep};

use super::{Asm, Reg};

impl Asm {
    /// Code that performs an instruction; a string is at `string` (its first element, for REP INS downwards the last byte's page
    /// lies below). What IN or a load reads is in rAX afterwards, zero-extended.
    pub fn perform(&mut self, insn: &Instruction, string: u64) -> &mut Self {
        match insn {
            Instruction::In { port, width } => self.mov(Reg::Rdx, port.0.into()).clear_rax().in_dx(*width),
            Instruction::Out { port, width, value } => self.out(port.0, *width, *value),
            Instruction::Load { gpa, width } => self.mov(Reg::Rdi, gpa.0).clear_rax().load(*width),
            Instruction::Store { gpa, width, value } => self.mov(Reg::Rdi, gpa.0).mov(Reg::Rax, *value).store(*width),
            Instruction::Outs { port, width, data } => {
                let count = data.len() / width.bytes();
                self.direction(StringStep::Up).mov(Reg::Rdx, port.0.into()).mov(Reg::Rsi, string);
                self.mov(Reg::Rcx, count as u64).rep_outs(*width)
            }
            Instruction::Ins { port, width, count, step, .. } => {
                self.direction(*step).mov(Reg::Rdx, port.0.into()).mov(Reg::Rdi, string);
                self.mov(Reg::Rcx, *count).rep_ins(*width).direction(StringStep::Up)
            }
        }
    }
}

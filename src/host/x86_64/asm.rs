//! Machine code for guests: an encoder for the few instructions that they need (Intel SDM volume 2).

use crate::kvm_x86::{PortWidth, StringStep, Width};

/// A general register, by its number in encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the architecture's own names")]
pub enum Reg {
    Rax = 0,
    Rcx = 1,
    Rdx = 2,
    Rbx = 3,
    Rsi = 6,
    Rdi = 7,
    R8 = 8,
    R12 = 12,
    R13 = 13,
    R14 = 14,
    R15 = 15,
}

impl Reg {
    /// The register's low three bits, which go into opcode or ModRM.
    const fn low(self) -> u8 {
        self as u8 & 7
    }

    /// REX with `bit` if the register is one of the upper eight.
    const fn rex(self, bit: u8) -> u8 {
        if self as u8 >= 8 { 0x40 | bit } else { 0x40 }
    }
}

const REX_W: u8 = 0x48;
const REX_B: u8 = 0x01;
const REX_R: u8 = 0x04;
/// Makes an operand of 32 bits one of 16.
const OPERAND_SIZE: u8 = 0x66;
const REP: u8 = 0xf3;

/// A place in the code that a jump can go back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// Code under construction. Only [`Self::jump_to`] depends on where it will be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asm {
    base: u64,
    code: Vec<u8>,
}

impl Asm {
    /// No code.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// No code, to be loaded at an address.
    #[must_use]
    pub const fn at(base: u64) -> Self {
        Self { base, code: Vec::new() }
    }

    /// The bytes so far.
    #[must_use]
    pub fn code(&self) -> &[u8] {
        &self.code
    }

    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.code.extend_from_slice(bytes);
        self
    }

    /// Bytes as they are, for instructions that are not here.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.put(bytes)
    }

    /// `mov reg, value`, zero-extended where 32 bits hold it.
    pub fn mov(&mut self, reg: Reg, value: u64) -> &mut Self {
        match u32::try_from(value) {
            Ok(short) => {
                if reg as u8 >= 8 {
                    self.put(&[reg.rex(REX_B)]);
                }
                self.put(&[0xb8 | reg.low()]).put(&short.to_le_bytes())
            }
            Err(_) => self.put(&[REX_W | reg.rex(REX_B), 0xb8 | reg.low()]).put(&value.to_le_bytes()),
        }
    }

    /// `xor eax, eax`: all of rAX is 0.
    pub fn clear_rax(&mut self) -> &mut Self {
        self.put(&[0x31, 0xc0])
    }

    /// `out dx, al|ax|eax`.
    pub fn out_dx(&mut self, width: PortWidth) -> &mut Self {
        self.sized(width, 0xee, 0xef)
    }

    /// `in al|ax|eax, dx`; the rest of rAX stays but for a dword, which clears the upper half.
    pub fn in_dx(&mut self, width: PortWidth) -> &mut Self {
        self.sized(width, 0xec, 0xed)
    }

    /// `rep outs dx, [rsi]`: rCX elements.
    pub fn rep_outs(&mut self, width: PortWidth) -> &mut Self {
        self.put(&[REP]).sized(width, 0x6e, 0x6f)
    }

    /// `rep ins [rdi], dx`: rCX elements.
    pub fn rep_ins(&mut self, width: PortWidth) -> &mut Self {
        self.put(&[REP]).sized(width, 0x6c, 0x6d)
    }

    fn sized(&mut self, width: PortWidth, byte: u8, wider: u8) -> &mut Self {
        match width {
            PortWidth::Byte => self.put(&[byte]),
            PortWidth::Word => self.put(&[OPERAND_SIZE, wider]),
            PortWidth::Dword => self.put(&[wider]),
        }
    }

    /// `cld` or `std`.
    pub fn direction(&mut self, step: StringStep) -> &mut Self {
        match step {
            StringStep::Up => self.put(&[0xfc]),
            StringStep::Down => self.put(&[0xfd]),
        }
    }

    /// `mov [rdi], al|ax|eax|rax`.
    pub fn store(&mut self, width: Width) -> &mut Self {
        self.memory(width, 0x88, 0x89)
    }

    /// `mov al|ax|eax|rax, [rdi]`.
    pub fn load(&mut self, width: Width) -> &mut Self {
        self.memory(width, 0x8a, 0x8b)
    }

    fn memory(&mut self, width: Width, byte: u8, wider: u8) -> &mut Self {
        // ModRM: no displacement, rAX, [rDI].
        const AX_AT_DI: u8 = 0x07;
        match width {
            Width::Byte => self.put(&[byte, AX_AT_DI]),
            Width::Word => self.put(&[OPERAND_SIZE, wider, AX_AT_DI]),
            Width::Dword => self.put(&[wider, AX_AT_DI]),
            Width::Qword => self.put(&[REX_W, wider, AX_AT_DI]),
        }
    }

    /// `mov [address], rax`, by way of rBX.
    pub fn save_rax(&mut self, address: u64) -> &mut Self {
        self.mov(Reg::Rbx, address).put(&[REX_W, 0x89, 0x03])
    }

    /// `rdtsc`, all 64 bits into rAX.
    pub fn rdtsc(&mut self) -> &mut Self {
        // rdtsc; shl rdx, 32; or rax, rdx
        self.put(&[0x0f, 0x31, REX_W, 0xc1, 0xe2, 32, REX_W, 0x09, 0xd0])
    }

    /// `mov rax, reg`.
    pub fn copy_to_rax(&mut self, reg: Reg) -> &mut Self {
        // ModRM: register to register, rAX the one written.
        self.put(&[REX_W | reg.rex(REX_R), 0x89, 0xc0 | reg.low() << 3])
    }

    /// `and reg, rax`.
    pub fn and_rax_into(&mut self, reg: Reg) -> &mut Self {
        self.put(&[REX_W | reg.rex(REX_B), 0x21, 0xc0 | reg.low()])
    }

    /// `inc reg`, 64 bits.
    pub fn inc(&mut self, reg: Reg) -> &mut Self {
        self.put(&[REX_W | reg.rex(REX_B), 0xff, 0xc0 | reg.low()])
    }

    /// `ud2`: an exception, which without handlers is a triple fault.
    pub fn ud2(&mut self) -> &mut Self {
        self.put(&[0x0f, 0x0b])
    }

    /// Here.
    #[must_use]
    pub fn label(&self) -> Label {
        Label(self.code.len())
    }

    /// `jmp label`, backwards.
    pub fn jump_back(&mut self, label: Label) -> &mut Self {
        self.put(&[0xe9]).displacement(label)
    }

    /// `jmp address`, within 2 GiB.
    pub fn jump_to(&mut self, address: u64) -> &mut Self {
        let next = self.base + self.code.len() as u64 + 5;
        #[expect(clippy::cast_possible_truncation, reason = "guests have 4 GiB and code in the first 16 MiB")]
        let distance = address.wrapping_sub(next) as u32;
        self.put(&[0xe9]).put(&distance.to_le_bytes())
    }

    /// `dec reg; jnz label`, backwards.
    pub fn repeat(&mut self, reg: Reg, label: Label) -> &mut Self {
        self.put(&[REX_W | reg.rex(REX_B), 0xff, 0xc8 | reg.low(), 0x0f, 0x85]).displacement(label)
    }

    fn displacement(&mut self, label: Label) -> &mut Self {
        // Counted from the end of the displacement. Code is far below 2 GiB: the guest's memory is.
        let back = self.code.len() + 4 - label.0;
        let back = u32::try_from(back).unwrap_or(u32::MAX);
        self.put(&back.wrapping_neg().to_le_bytes())
    }

    /// `out` of `value` to `port`, which is loaded before.
    pub fn out(&mut self, port: u16, width: PortWidth, value: u32) -> &mut Self {
        self.mov(Reg::Rdx, u64::from(port)).mov(Reg::Rax, u64::from(value)).out_dx(width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodings as GNU as writes them.
    #[test]
    fn instructions_have_the_bytes_that_an_assembler_gives_them() {
        let bytes = |build: fn(&mut Asm) -> &mut Asm| build(&mut Asm::new()).code().to_vec();
        assert_eq!(bytes(|a| a.mov(Reg::Rdx, 0x80)), [0xba, 0x80, 0, 0, 0]);
        assert_eq!(bytes(|a| a.mov(Reg::R12, 5)), [0x41, 0xbc, 5, 0, 0, 0]);
        assert_eq!(bytes(|a| a.mov(Reg::R15, 1 << 32)), [0x49, 0xbf, 0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(bytes(|a| a.mov(Reg::Rdi, u64::MAX)), [[0x48, 0xbf].as_slice(), &[0xff; 8]].concat());
        assert_eq!(bytes(|a| a.out_dx(PortWidth::Word)), [0x66, 0xef]);
        assert_eq!(bytes(|a| a.rep_outs(PortWidth::Byte)), [0xf3, 0x6e]);
        assert_eq!(bytes(|a| a.rep_ins(PortWidth::Dword)), [0xf3, 0x6d]);
        assert_eq!(bytes(|a| a.store(Width::Qword)), [0x48, 0x89, 0x07]);
        assert_eq!(bytes(|a| a.load(Width::Byte)), [0x8a, 0x07]);
        assert_eq!(bytes(|a| a.inc(Reg::R15)), [0x49, 0xff, 0xc7]);
        assert_eq!(bytes(|a| a.copy_to_rax(Reg::R13)), [0x4c, 0x89, 0xe8]);
        assert_eq!(bytes(|a| a.and_rax_into(Reg::R14)), [0x49, 0x21, 0xc6]);
        let mut asm = Asm::new();
        let top = asm.label();
        // dec r12; jnz top (ten bytes back counting itself)
        asm.repeat(Reg::R12, top);
        assert_eq!(asm.code(), [0x49, 0xff, 0xcc, 0x0f, 0x85, 0xf7, 0xff, 0xff, 0xff]);
    }
}

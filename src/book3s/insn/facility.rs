//! Loads and stores of floating-point, vector and vector-scalar registers: what they are and which bytes they move.

use super::types::{Direction, Mode, Offset, Size};
use super::value::{Endian, image, number, sign_extended};
use crate::book3s::Vsr;
use crate::book3s::float::{double, single};
use crate::book3s::msr::{MSR_FP, MSR_VEC, MSR_VSX};

/// A part of the processor that MSR can make unavailable.
// As wide as the DSISR that stands in its place in other interrupts: an outcome is then built of whole words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Facility {
    /// MSR\[FP\].
    FloatingPoint,
    /// MSR\[VEC\].
    Vector,
    /// MSR\[VSX\].
    VectorScalar,
}

impl Facility {
    /// Its bit of MSR.
    #[must_use]
    pub const fn msr_bit(self) -> u64 {
        match self {
            Self::FloatingPoint => MSR_FP,
            Self::Vector => MSR_VEC,
            Self::VectorScalar => MSR_VSX,
        }
    }

    /// Effective address of its unavailable interrupt's vector (Power ISA 2.07 Book III-S, 6.5).
    #[must_use]
    pub const fn vector(self) -> u16 {
        match self {
            Self::FloatingPoint => 0x800,
            Self::Vector => 0xf20,
            Self::VectorScalar => 0xf40,
        }
    }
}

/// Which part of a register goes to which bytes of storage. Each element has the guest's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// A single in storage, a double in doubleword 0 (`lfs`, `stxsspx`).
    Single,
    /// The low bytes of doubleword 0; a load clears the bytes above.
    Scalar(Size),
    /// A load into doubleword 0 that extends the sign (`lfiwax`, `lxsiwax`).
    Algebraic(Size),
    /// All 16 bytes, element by element from element 0 (`lxvd2x`, `stxvw4x`).
    Elements(Size),
    /// A load of one element into all (`lxvdsx`, `lxvwsx`).
    Splat(Size),
    /// All 16 bytes as one number, the address aligned down (`lvx`, `stvx`); in two doublewords.
    Quadword,
    /// The one element that the address picks, the address aligned down (`lvewx`, `stvebx`).
    Element(Size),
}

/// A load or store of a register that is no general one (Power ISA 2.07 Book I, 4.6, 6.7 and 7.6).
///
/// The kernel moves it in [`Self::pieces`], each one bus access or one exit to user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FacilityAccess {
    /// Mnemonic, as the assembler spells it.
    pub name: &'static str,
    /// Load or store.
    pub direction: Direction,
    /// What must be available. For `lxsd`, `lxvwsx` and their like the kernel asks for Vector whichever register is named
    /// (VSX_CHECK_VEC), where the ISA asks for VectorScalar if the register is below VSR 32.
    pub facility: Facility,
    /// What is moved.
    pub shape: Shape,
    /// Update form: RA receives the effective address.
    pub update: bool,
    /// Vector-scalar register, 0 to 63; FPR n is n, VR n is 32 + n.
    pub vsr: u8,
    /// Base register, 0 to 31; 0 stands for the value zero.
    pub ra: u8,
    /// Displacement or index register.
    pub offset: Offset,
}

impl FacilityAccess {
    /// Width of a piece (`io_size_each`; 8 bytes of a quadword).
    #[must_use]
    pub const fn piece_size(&self) -> Size {
        match self.shape {
            Shape::Single => Size::Word,
            Shape::Quadword => Size::Doubleword,
            Shape::Scalar(size)
            | Shape::Algebraic(size)
            | Shape::Elements(size)
            | Shape::Splat(size)
            | Shape::Element(size) => size,
        }
    }

    /// How many pieces, 1, 2 or 4 (`mmio_vsx_copy_nums`, `mmio_vmx_copy_nums`).
    #[must_use]
    pub const fn pieces(&self) -> u8 {
        match self.shape {
            Shape::Elements(Size::Word) => 4,
            Shape::Elements(_) | Shape::Quadword => 2,
            _ => 1,
        }
    }

    /// Bits of an address that the access does not look at.
    #[must_use]
    pub const fn ignored_address_bits(&self) -> u64 {
        match self.shape {
            Shape::Quadword => 15,
            Shape::Element(size) => size.bytes() as u64 - 1,
            _ => 0,
        }
    }

    /// The effective address, with the ignored bits; see [`Access::effective_address`](super::Access::effective_address).
    #[must_use]
    pub const fn effective_address(&self, gpr: &[u64; 32], mode: Mode) -> u64 {
        self.offset.effective_address(self.ra, gpr, mode)
    }

    /// Whether the form is valid: an update form needs RA other than 0 (`analyse_instr`).
    #[must_use]
    pub const fn is_valid_form(&self) -> bool {
        !self.update || self.ra != 0
    }

    /// What piece `piece` of a store from `vsr` at `ea` leaves in memory: the bytes, lowest address first, of which
    /// [`Self::piece_size`] count (`kvmppc_get_vsr_data`, `kvmppc_get_vmx_dword` and its like).
    #[must_use]
    pub const fn store_piece(&self, vsr: Vsr, piece: u8, ea: u64, guest: Endian) -> [u8; 8] {
        let size = self.piece_size();
        let value = match self.shape {
            Shape::Single => single(vsr.element(0, 8)) as u64,
            Shape::Scalar(_) | Shape::Algebraic(_) | Shape::Splat(_) => vsr.element(0, 8),
            Shape::Elements(_) | Shape::Quadword | Shape::Element(_) => {
                vsr.element(self.element(piece, ea, guest), size.bytes())
            }
        };
        image(value, size, guest)
    }

    /// Puts the bytes that memory holds for piece `piece` of a load at `ea` into its part of `vsr`; the rest of the
    /// register stays, also where the ISA leaves it undefined (`kvmppc_set_vsr_dword` and its like).
    pub const fn load_piece(&self, vsr: &mut Vsr, piece: u8, ea: u64, guest: Endian, bytes: &[u8; 8]) {
        let size = self.piece_size();
        let value = number(bytes, size, guest);
        match self.shape {
            #[expect(clippy::cast_possible_truncation, reason = "a word of storage")]
            Shape::Single => vsr.set_element(0, 8, double(value as u32)),
            Shape::Scalar(_) => vsr.set_element(0, 8, value),
            Shape::Algebraic(_) => vsr.set_element(0, 8, sign_extended(value, size)),
            Shape::Splat(_) => {
                let mut element = 0;
                while element < 16 / size.bytes() {
                    vsr.set_element(element, size.bytes(), value);
                    element += 1;
                }
            }
            Shape::Elements(_) | Shape::Quadword | Shape::Element(_) => {
                vsr.set_element(self.element(piece, ea, guest), size.bytes(), value);
            }
        }
    }

    /// The register's element of a piece: vector-scalar ones follow the addresses; of the vector facility the whole
    /// register has the guest's byte order (`kvmppc_get_vmx_offset_generic`).
    const fn element(&self, piece: u8, ea: u64, guest: Endian) -> usize {
        let at = match self.shape {
            Shape::Element(size) => (ea & 15) as usize / size.bytes(),
            Shape::Elements(_) => return piece as usize,
            _ => piece as usize,
        };
        match guest {
            Endian::Big => at,
            Endian::Little => 16 / self.piece_size().bytes() - 1 - at,
        }
    }
}

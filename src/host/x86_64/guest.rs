//! A guest without firmware: page tables, descriptors and registers that start it in long mode at CPL 3.
//!
//! CPL 3, because some KVMs interpret guest code at CPL 0 while code at CPL 3 runs natively everywhere. IOPL 3 lets it do port
//! I/O, and so does an I/O permission bitmap of zeroes: some of these KVMs look there whatever IOPL says. It has no interrupt
//! handlers: any exception is a triple fault, which KVM reports.
//!
//! | guest physical = virtual | what |
//! |---|---|
//! | 0 | page tables (identity, 4 GiB by 2 MiB pages), GDT, TSS |
//! | [`DATA`] | strings and results |
//! | [`CODE`] | the program, up to [`RAM_BYTES`] |
//! | [`MMIO`] | no memory: every access is one to a device |
//! | [`ECAM`] | PCI configuration, with or without a read-only memslot |

use kvm_bindings::{kvm_dtable, kvm_regs, kvm_segment, kvm_sregs};

use crate::host::{Mapping, OutOfRange};

/// The guest's memory, bytes.
pub const RAM_BYTES: u64 = 16 << 20;
/// Strings and results begin here, guest physical.
pub const DATA: u64 = 1 << 20;
/// The program begins here, guest physical.
pub const CODE: u64 = 8 << 20;
/// Addresses without memory begin here; 256 MiB of them.
pub const MMIO: u64 = 0xd000_0000;
/// The ECAM window, 256 MiB.
pub const ECAM: u64 = 0xe000_0000;
/// A program ends by an OUT to this port, which no device of a PC has.
pub const EXIT_PORT: u16 = 0x0f4;

const PML4: u64 = 0x1000;
const PDPT: u64 = 0x2000;
/// Four page directories, one a GiB.
const DIRECTORIES: u64 = 0x3000;
const GIBS: u64 = 4;
const GDT: u64 = 0x8000;
const TSS: u64 = 0x9000;
/// Bytes of a 64-bit TSS (SDM volume 3, 8.7), behind which the I/O permission bitmap begins.
const TSS_BYTES: u16 = 0x68;
/// Where the TSS says so.
const IO_MAP_BASE: u64 = 102;
/// Last byte of the bitmap: one bit a port, all clear, and a byte of ones that must follow.
const TSS_LIMIT: u32 = TSS_BYTES as u32 + 0x1_0000 / 8;

/// Page table entry: present, writable, user.
const PRESENT_RW_USER: u64 = 0b111;
/// Directory entry of a 2 MiB page (SDM volume 3, table 4-17: PS).
const LARGE: u64 = 1 << 7;

/// GDT index of code and stack, and of the task state segment.
const CODE_INDEX: u16 = 1;
const DATA_INDEX: u16 = 2;
const TSS_INDEX: u16 = 3;
/// Requested privilege level 3.
const RPL: u16 = 3;

const CR0: u64 = 1 << 31 | 1 << 16 | 1 << 5 | 1 << 4 | 1 << 1 | 1; // PG, WP, NE, ET, MP, PE
const CR4: u64 = 1 << 5; // PAE
const EFER: u64 = 1 << 10 | 1 << 8; // LMA, LME
/// IOPL 3 and the bit that is always set.
const RFLAGS: u64 = 3 << 12 | 1 << 1;
/// Below the page tables: the guest never uses a stack.
const STACK: u64 = 0x1000;

/// Writes tables and descriptors.
pub(super) fn prepare(ram: &Mapping) -> Result<(), OutOfRange> {
    let put = |at: u64, value: u64| ram.write(at, &value.to_le_bytes());
    put(PML4, PDPT | PRESENT_RW_USER)?;
    for gib in 0..GIBS {
        let directory = DIRECTORIES + gib * 0x1000;
        put(PDPT + gib * 8, directory | PRESENT_RW_USER)?;
        for page in 0..512 {
            put(directory + page * 8, (gib << 30) | (page << 21) | PRESENT_RW_USER | LARGE)?;
        }
    }
    // Descriptors as the segment registers below have them (SDM volume 3, 3.4.5): 64-bit code, data, and the busy TSS.
    put(GDT + u64::from(CODE_INDEX) * 8, 0x00af_fb00_0000_ffff)?;
    put(GDT + u64::from(DATA_INDEX) * 8, 0x00cf_f300_0000_ffff)?;
    put(GDT + u64::from(TSS_INDEX) * 8, 0x0000_8b00_0000_0000 | TSS << 16 | u64::from(TSS_LIMIT))?;
    put(GDT + u64::from(TSS_INDEX) * 8 + 8, 0)?;
    ram.write(TSS + IO_MAP_BASE, &TSS_BYTES.to_le_bytes())?;
    ram.write(TSS + u64::from(TSS_LIMIT), &[0xff])
}

/// Loads a program at `at` and returns the first address behind it.
pub(super) fn load(ram: &Mapping, at: u64, code: &[u8]) -> Result<u64, OutOfRange> {
    ram.write(at, code)?;
    Ok(at + code.len() as u64)
}

const fn segment(index: u16, kind: u8, long: u8) -> kvm_segment {
    kvm_segment {
        base: 0,
        limit: 0xffff_ffff,
        selector: index << 3 | RPL,
        type_: kind,
        present: 1,
        dpl: 3,
        db: 1 - long,
        s: 1,
        l: long,
        g: 1,
        avl: 0,
        unusable: 0,
        padding: 0,
    }
}

/// Special registers for long mode at CPL 3, over those that KVM gave.
pub(super) fn long_mode(sregs: &mut kvm_sregs) {
    // Execute/read, accessed; read/write, accessed; 64-bit TSS, busy.
    sregs.cs = segment(CODE_INDEX, 0xb, 1);
    let data = segment(DATA_INDEX, 0x3, 0);
    (sregs.ss, sregs.ds, sregs.es, sregs.fs, sregs.gs) = (data, data, data, data, data);
    let task = segment(TSS_INDEX, 0xb, 0);
    sregs.tr = kvm_segment { base: TSS, limit: TSS_LIMIT, selector: TSS_INDEX << 3, dpl: 0, db: 0, s: 0, g: 0, ..task };
    sregs.ldt = kvm_segment { unusable: 1, ..kvm_segment::default() };
    sregs.gdt = kvm_dtable { base: GDT, limit: (TSS_INDEX + 2) * 8 - 1, ..kvm_dtable::default() };
    sregs.idt = kvm_dtable::default();
    (sregs.cr0, sregs.cr3, sregs.cr4, sregs.efer) = (CR0, PML4, CR4, EFER);
}

/// General registers at a program's first instruction.
pub(super) fn entry(at: u64) -> kvm_regs {
    kvm_regs { rip: at, rflags: RFLAGS, rsp: STACK, ..kvm_regs::default() }
}

//! The instruction emulator against QEMU's user mode: the same instruction with the same operands on a device whose
//! registers are bytes, and on memory. Registers and bytes must be equal afterwards.
//!
//! Left out: `dcbz`, which the kernel completes as a no-op and a processor does not. Not compared: what the ISA leaves
//! undefined, doubleword 1 after a load of a scalar and the other elements after a load of one element; there the
//! emulator, like the kernel, leaves what was there.

mod ppc64_common;
mod skip;

use hvmmio::addr::{EffectiveAddr, GuestPhysAddr};
use hvmmio::book3s::Vsr;
use hvmmio::book3s::insn::{
    Access as IntegerAccess, Base, Direction, Endian, FacilityAccess, Insn, Mode, Offset, Shape, access_names, asm,
    decode, decode_prefixed, facility_names, is_prefix, is_store_by_bit, load_store, prefixed_load_store,
    prefixed_names,
};
use hvmmio::book3s::msr::{MSR_FP, MSR_VEC, MSR_VSX};
use hvmmio::kvm_hv::{Access, Completion, Handler, MmioExit, Outcome, Vcpu, VcpuConfig, Vm, VmConfig};
use hvmmio::workload::guest::{Guest, PageUse};
use ppc64_common::{BYTES, GPRS, MEMORY, RECORD, Record, SITE, VSRS, perform};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Operands drawn for each opcode.
const DRAWS: usize = 1_000;
/// The page of the record, as the simulated guest sees it.
const GPA: u64 = 1 << 40;
/// `dcbst`, `dcbf`, `dcbtst`, `dcbt`, `icbi`.
const CACHE_OPERATIONS: [u32; 5] = [54, 86, 246, 278, 982];

/// An instruction with operands, and the address it accesses.
struct Draw {
    record: Record,
    ea: u64,
}

/// Exponents of both singles that a doubleword can hold.
const SINGLE_EXPONENTS: u64 = 0xff << 23 | 0xff << 55;
/// The lowest bit of each.
const SINGLE_EXPONENT: u64 = 1 << 23 | 1 << 55;

/// Any bits, or a double or a pair of singles with an exponent where conversion changes its way.
fn bits(rng: &mut Xoshiro256PlusPlus) -> u64 {
    let any: u64 = rng.random();
    let with_double_exponent = |exponent: u64| any & !(0x7ff << 52) | exponent << 52;
    match rng.random_range(0..6) {
        0 => with_double_exponent(rng.random_range(870..900)),
        1 => with_double_exponent([0, 1, 0x7fe, 0x7ff, 1150, 1151][rng.random_range(0..6)]),
        2 => any & !SINGLE_EXPONENTS | (SINGLE_EXPONENT * [0, 1, 0xfe, 0xff][rng.random_range(0..4)]),
        3 => {
            let denormalized = (1 << rng.random_range(1..24)) - 1;
            any & (denormalized << 32 | denormalized | SINGLE_EXPONENT << 8)
        }
        _ => any,
    }
}

fn blank(rng: &mut Xoshiro256PlusPlus) -> Record {
    let mut memory = [0; BYTES];
    memory.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&bits(rng).to_ne_bytes()));
    Record {
        words: [asm::NOP; 2],
        gpr: std::array::from_fn(|_| rng.random()),
        vsr: std::array::from_fn(|_| [bits(rng), bits(rng)]),
        memory,
    }
}

fn gpr(rng: &mut Xoshiro256PlusPlus, from: u8) -> u8 {
    rng.random_range(from..31)
}

/// A register for RT of an instruction, as the encoders take it: `probe` has register 32, if it has any such.
fn target(rng: &mut Xoshiro256PlusPlus, insn: Option<Insn>, takes_64: bool) -> u8 {
    match insn {
        Some(Insn::Facility(access)) if takes_64 => *VSRS.choose(rng).filter(|_| access.vsr < 64).unwrap(),
        Some(Insn::Facility(access)) => {
            let base = access.vsr & 32;
            let of_half: Vec<u8> = VSRS.iter().filter(|vsr| *vsr & 32 == base).map(|vsr| vsr & 31).collect();
            *of_half.choose(rng).unwrap()
        }
        _ => gpr(rng, 0),
    }
}

/// One instruction of this name whose access lies in the record's memory.
fn draw(name: &str, rng: &mut Xoshiro256PlusPlus) -> Draw {
    let indexed = load_store(name, 0, 1, Offset::Register(2));
    let with = |rt, ra, displacement| load_store(name, rt, ra, Offset::Displacement(displacement));
    let probe = indexed.clone().or_else(|_| with(0, 1, 0)).expect("a name of the tables");
    let takes_64 = load_store(name, 63, 1, Offset::Register(2)).is_ok();
    let mut record = blank(rng);
    let ea = MEMORY + rng.random_range(0..BYTES as u64 - 16);
    let word = loop {
        let rt = target(rng, decode(probe), takes_64);
        let word = if indexed.is_ok() {
            let (ra, rb) = (gpr(rng, 0), gpr(rng, 0));
            if ra == rb {
                continue;
            }
            let base = if ra == 0 { 0 } else { record.gpr[usize::from(ra)] };
            record.gpr[usize::from(rb)] = ea.wrapping_sub(base);
            load_store(name, rt, ra, Offset::Register(rb)).unwrap()
        } else {
            let ra = gpr(rng, 1);
            let displacement: i16 = rng.random();
            let (displacement, word) = with(rt, ra, displacement)
                .map(|word| (displacement, word))
                .or_else(|_| with(rt, ra, displacement & !3).map(|word| (displacement & !3, word)))
                .unwrap();
            record.gpr[usize::from(ra)] = ea.wrapping_sub(displacement as u64);
            word
        };
        let valid = match decode(word) {
            Some(Insn::Access(access)) => access.is_valid_form(),
            Some(Insn::Facility(access)) => access.is_valid_form(),
            other => panic!("{name}: {other:?}"),
        };
        if valid {
            break word;
        }
    };
    record.words[0] = word;
    Draw { record, ea }
}

fn draw_prefixed(name: &str, rng: &mut Xoshiro256PlusPlus) -> Draw {
    let probe = prefixed_load_store(name, 0, Base::Register(1), 0).unwrap();
    let mut record = blank(rng);
    let ea = MEMORY + rng.random_range(0..BYTES as u64 - 16);
    let rt = target(rng, decode_prefixed(probe[0], probe[1]), false);
    let distance = |from: u64| ea.wrapping_sub(from) as i64;
    let (base, displacement) = match rng.random_range(0..8) {
        0 => (Base::Instruction, distance(SITE)),
        1 => (Base::Register(0), distance(0)),
        _ => {
            let (ra, displacement) = (gpr(rng, 1), rng.random_range(-(1_i64 << 33)..1 << 33));
            record.gpr[usize::from(ra)] = ea.wrapping_sub(displacement as u64);
            (Base::Register(ra), displacement)
        }
    };
    record.words = prefixed_load_store(name, rt, base, displacement).unwrap();
    Draw { record, ea }
}

fn draw_cache_operation(extended: u32, rng: &mut Xoshiro256PlusPlus) -> Draw {
    let mut record = blank(rng);
    let ea = MEMORY + rng.random_range(0..BYTES as u64);
    let (ra, rb) = (gpr(rng, 1), gpr(rng, 1));
    let base = if ra == rb { 0 } else { record.gpr[usize::from(ra)] };
    record.gpr[usize::from(rb)] = ea.wrapping_sub(base);
    let ra = if ra == rb { 0 } else { u32::from(ra) };
    record.words[0] = 31 << 26 | ra << 16 | u32::from(rb) << 11 | extended << 1;
    Draw { record, ea }
}

/// The simulated guest, its one MMIO page where the record is.
struct Simulated {
    vm: Vm,
    vcpu: Vcpu,
}

impl Simulated {
    fn new(endian: Endian) -> Self {
        let vm = Vm::new(VmConfig::default()).unwrap();
        let guest = Guest::default();
        let mut vcpu = Vcpu::new(&vm, VcpuConfig { endian, ..VcpuConfig::default() });
        vcpu.msr |= MSR_FP | MSR_VEC | MSR_VSX;
        vcpu.slb.slbmte(guest.slb_entry(0, EffectiveAddr(RECORD))).unwrap();
        guest.map(&vm, EffectiveAddr(RECORD), GuestPhysAddr(GPA), PageUse::DEVICE).unwrap();
        Self { vm, vcpu }
    }

    /// Performs one instruction; `before` becomes what is afterwards. How many exits it took.
    fn perform(&mut self, insn: &Insn, ea: u64, record: &mut Record) -> u32 {
        let vcpu = &mut self.vcpu;
        vcpu.pc = SITE;
        vcpu.gpr[..GPRS].copy_from_slice(&record.gpr);
        vcpu.gpr[31] = RECORD;
        VSRS.iter().zip(record.vsr).for_each(|(vsr, value)| vcpu.vsr[usize::from(*vsr)] = Vsr::new(value));
        let others = vcpu.vsr.clone();
        // The kernel's bit says store of icbi, so only a store fault lets it complete.
        let direction = match insn {
            Insn::CacheOp(_) if is_store_by_bit(record.words[0]) => Direction::Store,
            _ => insn.direction(),
        };
        let ea = EffectiveAddr(ea);
        let prefixed = is_prefix(record.words[0]);
        let access = if prefixed {
            Access::prefixed(ea, direction, record.words)
        } else {
            Access::new(ea, direction, record.words[0])
        };
        let mut exits = 0;
        match vcpu.access(&self.vm, &access).outcome {
            Outcome::Kernel { handler: Handler::NoOp, .. } => {}
            Outcome::Exit(first) => {
                let mut exit = first;
                loop {
                    exits += 1;
                    let mut data = [0xa5; 8];
                    device(&exit, &mut record.memory, &mut data);
                    match vcpu.complete(&data) {
                        Completion::Exit(next) => exit = next,
                        Completion::Done | Completion::NothingWaits => break,
                    }
                }
            }
            other => panic!("{} {:x?}: {other:?}", insn.name(), record.words),
        }
        assert_eq!(vcpu.pc, SITE + if prefixed { 8 } else { 4 }, "{}", insn.name());
        record.gpr.copy_from_slice(&vcpu.gpr[..GPRS]);
        VSRS.iter().zip(&mut record.vsr).for_each(|(vsr, value)| *value = vcpu.vsr[usize::from(*vsr)].doublewords());
        for (number, (now, before)) in vcpu.vsr.iter().zip(others.iter()).enumerate() {
            assert!(now == before || VSRS.iter().any(|vsr| usize::from(*vsr) == number), "{}: vs{number}", insn.name());
        }
        exits
    }
}

/// The device: its registers are the record's bytes.
fn device(exit: &MmioExit, memory: &mut [u8; BYTES], data: &mut [u8; 8]) {
    let at = usize::try_from(exit.gpa.0 - GPA - (MEMORY - RECORD)).unwrap();
    let bytes = &mut memory[at..at + usize::from(exit.len)];
    match exit.direction {
        Direction::Store => bytes.copy_from_slice(&exit.data[..bytes.len()]),
        Direction::Load => data[..bytes.len()].copy_from_slice(bytes),
    }
}

/// Puts what was in the register `before` where the ISA leaves `after` undefined.
fn forget_undefined(access: &FacilityAccess, ea: u64, endian: Endian, before: [u64; 2], after: &mut [u64; 2]) {
    if access.direction == Direction::Store {
        return;
    }
    match access.shape {
        Shape::Single | Shape::Scalar(_) | Shape::Algebraic(_) => after[1] = before[1],
        Shape::Element(_) => {
            // Put the element's bytes, as memory has them, into the old register.
            let bytes = access.store_piece(Vsr::new(*after), 0, ea, endian);
            let mut kept = Vsr::new(before);
            access.load_piece(&mut kept, 0, ea, endian, &bytes);
            *after = kept.doublewords();
        }
        Shape::Elements(_) | Shape::Splat(_) | Shape::Quadword => {}
    }
}

fn decoded(words: [u32; 2]) -> Insn {
    if is_prefix(words[0]) { decode_prefixed(words[0], words[1]) } else { decode(words[0]) }.expect("an access")
}

fn compare(endian: Endian, draws: &[Draw], theirs: &[Record]) -> u64 {
    let mut simulated = Simulated::new(endian);
    let mut exits = 0;
    for (draw, theirs) in draws.iter().zip(theirs) {
        let insn = decoded(draw.record.words);
        // The address by the decoder, not by the draw: it is part of what is compared.
        let mut gpr = [0; 32];
        gpr[..GPRS].copy_from_slice(&draw.record.gpr);
        let ea = insn.effective_address(SITE, &gpr, Mode::SixtyFour).unwrap_or(draw.ea);
        assert_eq!(ea, draw.ea, "{} {:x?}", insn.name(), draw.record.words);
        let (mut ours, mut theirs) = (draw.record.clone(), theirs.clone());
        exits += u64::from(simulated.perform(&insn, ea, &mut ours));
        if let Insn::Facility(access) = &insn {
            let at = VSRS.iter().position(|vsr| *vsr == access.vsr).expect("a register of the record");
            forget_undefined(access, ea, endian, draw.record.vsr[at], &mut theirs.vsr[at]);
        }
        assert_eq!(
            ours,
            theirs,
            "{endian:?} {} {:x?} at {:#x} (left: simulator, right: QEMU), before: {:x?}",
            insn.name(),
            draw.record.words,
            ea - MEMORY,
            draw.record
        );
    }
    exits
}

fn every_opcode(endian: Endian, qemu: &str) {
    if std::process::Command::new(qemu).arg("--version").output().is_err() {
        return skip::skipped(&format!("{qemu} is not here; Debian has it in qemu-user-static"));
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(6);
    let mut draws = Vec::new();
    let mut opcodes = 0;
    let mut add = |one: &mut dyn FnMut(&mut Xoshiro256PlusPlus) -> Draw| {
        draws.extend((0..DRAWS).map(|_| one(&mut rng)));
        opcodes += 1;
    };
    access_names().chain(facility_names()).for_each(|name| add(&mut |rng| draw(name, rng)));
    prefixed_names().for_each(|name| add(&mut |rng| draw_prefixed(name, rng)));
    CACHE_OPERATIONS.iter().for_each(|extended| add(&mut |rng| draw_cache_operation(*extended, rng)));
    assert_eq!(opcodes, 45 + 50 + 18 + 5, "integer, other registers, prefixed, cache operations");
    let records: Vec<Record> = draws.iter().map(|draw| draw.record.clone()).collect();
    let theirs = perform(qemu, endian, &records);
    let changed = records.iter().zip(&theirs).filter(|(before, after)| before != after).count();
    assert!(changed > records.len() * 9 / 10, "the program performed them: {changed}");
    let exits = compare(endian, &draws, &theirs);
    // One each, but 2 or 4 of eight opcodes and none of five.
    assert_eq!(exits, (DRAWS * (opcodes - 5 + 6 + 2 * 3)) as u64);
}

#[test]
fn every_emulated_opcode_does_to_a_little_endian_device_what_qemu_does_to_memory() {
    every_opcode(Endian::Little, "qemu-ppc64le-static");
}

#[test]
fn every_emulated_opcode_does_to_a_big_endian_device_what_qemu_does_to_memory() {
    every_opcode(Endian::Big, "qemu-ppc64-static");
}

/// The comparison can fail: an integer access taken for its byte-reversed twin is found.
#[test]
fn a_reversed_access_in_place_of_the_plain_one_is_seen() {
    let qemu = "qemu-ppc64le-static";
    if std::process::Command::new(qemu).arg("--version").output().is_err() {
        return skip::skipped(&format!("{qemu} is not here; Debian has it in qemu-user-static"));
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let plain = draw("lwzx", &mut rng);
    let Some(Insn::Access(IntegerAccess { rt, ra, offset, .. })) = decode(plain.record.words[0]) else { panic!() };
    let reversed = Draw {
        record: Record { words: [load_store("lwbrx", rt, ra, offset).unwrap(), asm::NOP], ..plain.record.clone() },
        ea: plain.ea,
    };
    let theirs = perform(qemu, Endian::Little, &[plain.record]);
    let words = reversed.record.words;
    let theirs = [Record { words, ..theirs[0].clone() }];
    assert!(std::panic::catch_unwind(|| compare(Endian::Little, &[reversed], &theirs)).is_err());
}

//! Prefixed loads and stores (Power ISA 3.1): decoder and encoder against GNU as, and what a kernel makes of them.

mod common;

use std::collections::BTreeSet;

use common::{World, mmio_ea, mmio_gpa, reflected};
use hvmmio::addr::Preset;
use hvmmio::book3s::insn::{
    Base, Direction, Insn, Mode, Offset, decode_prefixed, is_store_by_suffix_bit, prefixed_load_store, prefixed_names,
};
use hvmmio::book3s::msr::{DSISR_BADACCESS, MSR_VEC};
use hvmmio::io::{IoBus, Ioeventfd};
use hvmmio::kvm_hv::{Access, Fetch, Handler, Interrupt, Outcome, RetryReason, Vm, VmConfig};

/// Prefix and suffix, mnemonic, register, displacement, base.
fn assembled() -> Vec<([u32; 2], &'static str, u8, i64, Base)> {
    let lines = include_str!("data/assembled_prefixed.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut fields = line.splitn(4, ' ');
            let mut next = || fields.next().expect("four fields");
            let words = [next(), next()].map(|word| u32::from_str_radix(word, 16).expect("a word"));
            let (name, operands) = (next(), fields.next().expect("operands"));
            let (rt, rest) = operands.split_once(',').expect("RT first");
            let (displacement, rest) = rest.split_once('(').expect("a displacement");
            let base = match rest.split_once(')').expect("RA in brackets") {
                (ra, "") => Base::Register(ra.parse().unwrap()),
                _ => Base::Instruction,
            };
            (words, name, rt.parse().unwrap(), displacement.parse().unwrap(), base)
        })
        .collect()
}

#[test]
fn words_of_the_gnu_assembler_decode_to_its_text_and_back() {
    let mut names = BTreeSet::new();
    for (words, name, rt, displacement, base) in assembled() {
        let insn = decode_prefixed(words[0], words[1]).unwrap_or_else(|| panic!("{name} is not decoded"));
        assert_eq!(insn.name(), name);
        assert_eq!(is_store_by_suffix_bit(words[1]), insn.direction() == Direction::Store, "{name}");
        let (register, ra, offset) = match insn {
            Insn::Access(access) => (access.rt, access.ra, access.offset),
            Insn::Facility(access) => (access.vsr & 31, access.ra, access.offset),
            _ => continue,
        };
        names.insert(name);
        let seen = match offset {
            Offset::Long(long) => (long.bytes(), Base::Register(ra)),
            Offset::Relative(long) => (long.bytes(), Base::Instruction),
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!((register, seen), (rt, (displacement, base)), "{name}");
        assert_eq!(prefixed_load_store(name, rt, base, displacement), Ok(words), "{name}");
    }
    assert_eq!(names, prefixed_names().collect(), "each is there");
}

#[test]
fn the_address_of_a_relative_form_is_the_prefix_s_own_and_the_displacement() {
    let gpr = [0x1_0000_0000; 32];
    let address = |base, displacement, mode| {
        let [prefix, suffix] = prefixed_load_store("pld", 3, base, displacement).unwrap();
        decode_prefixed(prefix, suffix).unwrap().effective_address(0x2000, &gpr, mode)
    };
    assert_eq!(address(Base::Instruction, -0x10, Mode::SixtyFour), Some(0x1ff0));
    assert_eq!(address(Base::Register(4), -(1 << 33), Mode::SixtyFour), Some(0xffff_ffff_0000_0000));
    assert_eq!(address(Base::Register(0), (1 << 33) - 1, Mode::SixtyFour), Some(0x1_ffff_ffff));
    assert_eq!(address(Base::Register(4), 8, Mode::ThirtyTwo), Some(8));
}

#[test]
fn what_has_no_words_is_an_error_that_says_why() {
    let wide = prefixed_load_store("pld", 3, Base::Register(4), 1 << 33).unwrap_err().to_string();
    assert!(wide.starts_with("pld 8589934592(...)") && wide.contains("34 bits"), "{wide}");
    assert!(prefixed_load_store("ld", 3, Base::Register(4), 0).unwrap_err().to_string().contains("prefixed_names"));
    // R with an RA, a register-to-register prefix, no prefix at all.
    for prefix in [0x0610_0000, 0x0500_0000, 0x6000_0000] {
        assert_eq!(decode_prefixed(prefix, 0x8064_0000), None, "{prefix:#x}");
    }
}

const PC: u64 = 0x1000;

fn world(switches: &[&str]) -> World {
    let mut world = World::switched(switches);
    world.enter_mmio(0);
    world.vcpu.gpr[4] = mmio_ea(0).0;
    world.vcpu.pc = PC;
    world
}

fn run(world: &mut World, words: [u32; 2]) -> Outcome {
    let insn = decode_prefixed(words[0], words[1]).expect("a load or store");
    let access = Access::prefixed(mmio_ea(0), insn.direction(), words);
    world.vcpu.access(&world.vm, &access).outcome
}

#[test]
fn a_prefixed_store_exits_with_its_value_and_advances_the_pc_by_8() {
    let mut world = world(&[]);
    world.vcpu.gpr[3] = 0x1122_3344_5566_7788;
    let pstd = prefixed_load_store("pstd", 3, Base::Register(4), 0).unwrap();
    let Outcome::Exit(exit) = run(&mut world, pstd) else { panic!("no exit") };
    assert_eq!((exit.gpa, exit.len, exit.data), (mmio_gpa(0), 8, 0x1122_3344_5566_7788_u64.to_le_bytes()));
    assert_eq!(world.vcpu.pc, PC + 8);
    // A word after it with the suffix's bits is decoded on its own.
    let record = world.run_at(pstd[1], mmio_ea(0), Direction::Store);
    assert_ne!(record.outcome, Outcome::Exit(exit));
}

#[test]
fn a_prefixed_load_extends_its_sign_and_advances_the_pc_by_8() {
    let mut world = world(&[]);
    let plwa = prefixed_load_store("plwa", 3, Base::Register(4), 0).unwrap();
    assert!(matches!(run(&mut world, plwa), Outcome::Exit(_)));
    assert!(world.vcpu.complete_load(&[1, 0, 0, 0x80, 0xff, 0xff, 0, 0]));
    assert_eq!((world.vcpu.gpr[3], world.vcpu.pc), (0xffff_ffff_8000_0001, PC + 8));
}

#[test]
fn fast_bus_store_of_a_prefixed_form_advances_the_pc_by_8() {
    let mut world = world(&[]);
    let fd = world.vm.io().create_eventfd();
    let assigned = Ioeventfd { bus: IoBus::Mmio, addr: mmio_gpa(0).0, len: 0, datamatch: None, fd: fd.id() };
    world.vm.io().assign(assigned).unwrap();
    let pstw = prefixed_load_store("pstw", 3, Base::Register(4), 0).unwrap();
    assert!(matches!(run(&mut world, pstw), Outcome::Kernel { handler: Handler::FastMmio(_), .. }));
    assert_eq!((world.vcpu.pc, fd.count()), (PC + 8, 1));
}

#[test]
fn wide_refused_plq_pstq_and_vectors_of_16_and_32_bytes_fail_before_any_exit() {
    let mut refused = 0;
    for (words, name, ..) in assembled() {
        let Some(Insn::Refused(_)) = decode_prefixed(words[0], words[1]) else { continue };
        let mut world = world(&[]);
        let facility = decode_prefixed(words[0], words[1]).and_then(|insn| match insn {
            Insn::Refused(refused) => refused.why.facility(),
            _ => None,
        });
        if let Some(facility) = facility {
            assert_eq!(run(&mut world, words), Outcome::Reflected(Interrupt::Unavailable(facility)), "{name}");
            world.vcpu.msr |= facility.msr_bit();
        }
        let access = Access::prefixed(mmio_ea(0), decode_prefixed(words[0], words[1]).unwrap().direction(), words);
        let record = world.vcpu.access(&world.vm, &access);
        assert_ne!(reflected(&record) & DSISR_BADACCESS, 0, "{name}");
        assert_eq!((world.vcpu.pc, world.vcpu.complete_load(&[0; 8])), (PC, false), "{name}");
        refused += 1;
    }
    assert_eq!(refused, 8);
}

#[test]
fn a_kernel_before_6_4_gives_the_guest_a_program_interrupt_for_every_prefixed_instruction() {
    let mut world = world(&["prefixed=unknown"]);
    world.vcpu.msr |= MSR_VEC;
    for (words, name, ..) in assembled() {
        assert_eq!(run(&mut world, words), Outcome::Reflected(Interrupt::Program), "{name}");
    }
    // RAM or not: the guest has no such instruction.
    let words = prefixed_load_store("plwz", 3, Base::Register(4), 0).unwrap();
    let nowhere = Access::prefixed(hvmmio::addr::EffectiveAddr(0), Direction::Load, words);
    assert_eq!(world.vcpu.access(&world.vm, &nowhere).outcome, Outcome::Reflected(Interrupt::Program));
    assert_eq!(world.vcpu.pc, PC);
}

#[test]
fn the_presets_differ_in_what_a_prefixed_instruction_is() {
    let known = |preset: Preset| {
        let vm = Vm::new(VmConfig { behaviour: preset.behaviour(), ..VmConfig::default() }).unwrap();
        vm.behaviour().prefixed.name()
    };
    assert_eq!((known(Preset::Linux6_1), known(Preset::Linux6_12)), ("unknown", "emulated"));
}

#[test]
fn direction_mismatch_of_a_prefixed_form_is_by_the_suffix_and_a_bad_prefix_is_a_word() {
    let mut world = world(&[]);
    let [prefix, suffix] = prefixed_load_store("plwz", 3, Base::Register(4), 0).unwrap();
    let store = Access::prefixed(mmio_ea(0), Direction::Store, [prefix, suffix]);
    let outcome = world.vcpu.access(&world.vm, &store).outcome;
    assert_eq!(outcome, Outcome::RetriesForever(RetryReason::DirectionMismatch));
    // What is no prefix is fetched as the one word it is: lwz r3,0(r4).
    let access = Access { ea: mmio_ea(0), direction: Direction::Load, insn: Fetch::Prefixed(0x8064_0000, suffix) };
    assert!(matches!(world.vcpu.access(&world.vm, &access).outcome, Outcome::Exit(_)));
    assert_eq!(world.vcpu.pc, PC + 4);
}

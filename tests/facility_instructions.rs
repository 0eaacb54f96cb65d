//! Emulated loads and stores of floating-point and vector registers: the pieces that reach the device, how an instruction
//! goes on after user space, what an unavailable facility and a refusal look like to the guest.

mod common;

use common::{World, mmio_ea, mmio_gpa, reflected};
use hvmmio::addr::{EffectiveAddr, GuestPhysAddr};
use hvmmio::book3s::Vsr;
use hvmmio::book3s::insn::{Direction, Endian, Facility, Insn, Mode, Offset, decode, facility_names, load_store};
use hvmmio::book3s::msr::{DSISR_BADACCESS, DSISR_ISSTORE, MSR_FP, MSR_VEC, MSR_VSX};
use hvmmio::io::{CoalescedZone, IoBus, Ioeventfd};
use hvmmio::kvm_hv::{Completion, Handler, Interrupt, MmioExit, Outcome, VcpuConfig};

const PC: u64 = 0x1000;
const ALL: u64 = MSR_FP | MSR_VEC | MSR_VSX;
const HIGH: u64 = 0x0001_0203_0405_0607;
const LOW: u64 = 0x0809_0a0b_0c0d_0e0f;

/// r4 is the device's address, r6 is 0, every facility is on.
fn world(endian: Endian) -> World {
    let mut world = World::with(&[], VcpuConfig { endian, ..VcpuConfig::default() });
    world.enter_mmio(0);
    world.vcpu.gpr[4] = mmio_ea(0).0;
    world.vcpu.pc = PC;
    world.vcpu.msr |= ALL;
    world
}

fn word(name: &str, rt: u8) -> u32 {
    load_store(name, rt, 4, Offset::Register(6)).or_else(|_| load_store(name, rt, 4, Offset::Displacement(0))).unwrap()
}

fn run(world: &mut World, word: u32) -> Outcome {
    let insn = decode(word).unwrap();
    let ea = insn.effective_address(PC, &world.vcpu.gpr, Mode::SixtyFour).expect("a load or store");
    world.run_at(word, EffectiveAddr(ea), insn.direction()).outcome
}

#[track_caller]
fn exit(outcome: Outcome) -> MmioExit {
    match outcome {
        Outcome::Exit(exit) => exit,
        other => panic!("no exit: {other:?}"),
    }
}

/// Every exit of a store, in order: offset in the page and bytes.
fn stored(world: &mut World, word: u32) -> Vec<(u64, Vec<u8>)> {
    let mut exits = vec![exit(run(world, word))];
    while let Completion::Exit(next) = world.vcpu.complete(&[0xa5; 8]) {
        exits.push(next);
    }
    exits.iter().map(|exit| (exit.gpa.0 - mmio_gpa(0).0, exit.data[..usize::from(exit.len)].to_vec())).collect()
}

/// Loads from a device whose byte at offset n is n.
fn loaded(world: &mut World, word: u32) -> Vec<(u64, u8)> {
    let mut exits = Vec::new();
    let mut next = exit(run(world, word));
    loop {
        let at = next.gpa.0 - mmio_gpa(0).0;
        exits.push((at, next.len));
        let mut data = [0xa5; 8];
        (0..next.len).for_each(|i| data[usize::from(i)] = u8::try_from(at).unwrap() + i);
        match world.vcpu.complete(&data) {
            Completion::Exit(exit) => next = exit,
            Completion::Done => return exits,
            Completion::NothingWaits => panic!("a load waits"),
        }
    }
}

fn bytes(from: u8, to: u8) -> Vec<u8> {
    (from..to).collect()
}

#[test]
fn stxvd2x_and_stxvw4x_go_element_by_element_each_in_the_guest_s_byte_order() {
    let mut big = world(Endian::Big);
    big.vcpu.vsr[40] = Vsr::new([HIGH, LOW]);
    assert_eq!(stored(&mut big, word("stxvd2x", 40)), [(0, bytes(0, 8)), (8, bytes(8, 16))]);
    assert_eq!(big.vcpu.pc, PC + 4, "advanced at the first exit, once");
    let words = [(0, bytes(0, 4)), (4, bytes(4, 8)), (8, bytes(8, 12)), (12, bytes(12, 16))];
    assert_eq!(stored(&mut big, word("stxvw4x", 40)), words);

    let mut little = world(Endian::Little);
    little.vcpu.vsr[3] = Vsr::new([HIGH, LOW]);
    assert_eq!(
        stored(&mut little, word("stxvd2x", 3)),
        [(0, vec![7, 6, 5, 4, 3, 2, 1, 0]), (8, vec![15, 14, 13, 12, 11, 10, 9, 8])]
    );
    assert_eq!(stored(&mut little, word("stxvw4x", 3))[1], (4, vec![7, 6, 5, 4]));
}

#[test]
fn lvx_and_stvx_align_down_and_move_the_register_in_the_guest_s_byte_order() {
    for (endian, wanted) in
        [(Endian::Big, [HIGH, LOW]), (Endian::Little, [0x0f0e_0d0c_0b0a_0908, 0x0706_0504_0302_0100])]
    {
        let mut world = world(endian);
        world.vcpu.gpr[4] += 13;
        assert_eq!(loaded(&mut world, word("lvx", 9)), [(0, 8), (8, 8)], "{endian:?}");
        assert_eq!(world.vcpu.vsr[41].doublewords(), wanted, "{endian:?}: VR 9 is VSR 41");
        assert_eq!(stored(&mut world, word("stvx", 9)), [(0, bytes(0, 8)), (8, bytes(8, 16))], "{endian:?}");
    }
}

#[test]
fn lvewx_and_stvehx_move_the_one_element_that_the_aligned_address_picks() {
    let mut world = world(Endian::Big);
    world.vcpu.gpr[4] += 7;
    assert_eq!(loaded(&mut world, word("lvewx", 0)), [(4, 4)]);
    assert_eq!(world.vcpu.vsr[32].doublewords(), [0x0405_0607, 0], "word 1; the others stay");
    world.vcpu.vsr[32] = Vsr::new([HIGH, LOW]);
    assert_eq!(stored(&mut world, word("stvehx", 0)), [(6, vec![6, 7])]);
    let mut world = self::world(Endian::Little);
    world.vcpu.gpr[4] += 7;
    world.vcpu.vsr[32] = Vsr::new([HIGH, LOW]);
    assert_eq!(stored(&mut world, word("stvebx", 0)), [(7, vec![8])], "byte 7 from the least significant end");
}

#[test]
fn splats_fill_every_element_and_scalars_leave_doubleword_1_alone() {
    let mut world = world(Endian::Big);
    world.vcpu.vsr[5] = Vsr::new([u64::MAX; 2]);
    loaded(&mut world, word("lxvdsx", 5));
    assert_eq!(world.vcpu.vsr[5].doublewords(), [HIGH; 2]);
    loaded(&mut world, word("lxvwsx", 5));
    assert_eq!(world.vcpu.vsr[5].doublewords(), [0x0001_0203_0001_0203; 2]);
    world.vcpu.gpr[4] += 0x80;
    world.vcpu.vsr[5] = Vsr::new([u64::MAX, LOW]);
    loaded(&mut world, word("lxsihzx", 5));
    assert_eq!(world.vcpu.vsr[5].doublewords(), [0x8081, LOW]);
    loaded(&mut world, word("lfiwax", 5));
    assert_eq!(world.vcpu.vsr[5].doublewords(), [0xffff_ffff_8081_8283, LOW]);
}

#[test]
fn lfs_and_stfs_convert_between_single_and_double() {
    let mut world = world(Endian::Little);
    assert_eq!(exit(run(&mut world, word("lfs", 7))).len, 4);
    assert!(world.vcpu.complete_load(&[0, 0, 0xc0, 0xbf, 0xff, 0xff, 0xff, 0xff]));
    assert_eq!(world.vcpu.vsr[7].doublewords()[0], (-1.5_f64).to_bits());
    let exit = exit(run(&mut world, word("stfs", 7)));
    assert_eq!((exit.len, exit.data), (4, [0, 0, 0xc0, 0xbf, 0, 0, 0, 0]));
    assert_eq!(world.vcpu.complete(&[0; 8]), Completion::NothingWaits, "a store of one piece is done");
}

#[test]
fn update_form_ea_of_a_floating_point_store_ra_receives_the_effective_address() {
    let mut world = world(Endian::Big);
    let stfdu = load_store("stfdu", 7, 4, Offset::Displacement(24)).unwrap();
    assert_eq!(stored(&mut world, stfdu)[0].0, 24);
    assert_eq!(world.vcpu.gpr[4], mmio_ea(0).0 + 24);
    // RA 0 is an invalid form: refused, nothing changes.
    let invalid = load_store("stfdu", 7, 0, Offset::Displacement(24)).unwrap();
    assert_ne!(reflected(&world.run_at(invalid, mmio_ea(0), Direction::Store)) & DSISR_BADACCESS, 0);
    assert_eq!(world.vcpu.gpr[0], 0);
}

#[test]
fn pieces_that_kernel_side_devices_take_do_not_exit() {
    let mut world = world(Endian::Big);
    world.vcpu.vsr[3] = Vsr::new([HIGH, LOW]);
    let (stxvw4x, addr) = (word("stxvw4x", 3), mmio_gpa(0).0);
    let fd = world.vm.io().create_eventfd();
    world.vm.io().assign(Ioeventfd { bus: IoBus::Mmio, addr, len: 4, datamatch: None, fd: fd.id() }).unwrap();
    world.vm.io().register_zone(CoalescedZone { addr: addr + 8, size: 4, pio: 0 }).unwrap();
    // Piece 0 signals, 1 exits, 2 goes to the ring, 3 exits.
    assert_eq!(stored(&mut world, stxvw4x), [(4, bytes(4, 8)), (12, bytes(12, 16))]);
    let ring = world.vm.io().ring().waiting().unwrap();
    assert_eq!((fd.count(), ring.len(), ring[0].addr, ring[0].data()), (1, 1, addr + 8, &bytes(8, 12)[..]));

    for addr in [addr + 4, addr + 12] {
        world.vm.io().assign(Ioeventfd { bus: IoBus::Mmio, addr, len: 4, datamatch: None, fd: fd.id() }).unwrap();
    }
    let wanted = Outcome::Kernel { handler: Handler::Eventfd(fd.id()), gpa: GuestPhysAddr(addr) };
    assert_eq!(run(&mut world, stxvw4x), wanted);
    assert_eq!((fd.count(), world.vcpu.complete(&[0; 8])), (4, Completion::NothingWaits));
}

#[test]
fn an_instruction_that_was_never_completed_is_forgotten_by_the_next_one_that_exits() {
    let mut world = world(Endian::Big);
    let before = world.vcpu.vsr[3];
    exit(run(&mut world, word("lxvd2x", 3)));
    exit(run(&mut world, word("stfd", 1)));
    assert_eq!(world.vcpu.complete(&[1; 8]), Completion::NothingWaits);
    assert_eq!(world.vcpu.vsr[3], before);
}

#[test]
fn fast_bus_store_of_a_vector_signals_once_and_no_piece_goes_further() {
    let mut world = world(Endian::Big);
    let fd = world.vm.io().create_eventfd();
    let addr = mmio_gpa(0).0;
    world.vm.io().assign(Ioeventfd { bus: IoBus::Mmio, addr, len: 0, datamatch: None, fd: fd.id() }).unwrap();
    let outcome = run(&mut world, word("stxvd2x", 3));
    assert!(matches!(outcome, Outcome::Kernel { handler: Handler::FastMmio(_), .. }));
    assert_eq!((fd.count(), world.vcpu.pc), (1, PC + 4));
}

#[test]
fn an_unavailable_facility_interrupts_at_the_same_pc_and_no_exit_is_made() {
    for name in facility_names() {
        let word = word(name, 3);
        let Some(Insn::Facility(access)) = decode(word) else { panic!("{name}") };
        for facility in [Facility::FloatingPoint, Facility::Vector, Facility::VectorScalar] {
            let mut world = world(Endian::Little);
            world.vcpu.msr &= !facility.msr_bit();
            let outcome = run(&mut world, word);
            if facility == access.facility {
                assert_eq!(outcome, Outcome::Reflected(Interrupt::Unavailable(facility)), "{name}");
                assert_eq!((world.vcpu.pc, world.vcpu.gpr[4]), (PC, mmio_ea(0).0), "{name}");
                assert_eq!(world.vcpu.complete(&[0; 8]), Completion::NothingWaits, "{name}");
            } else {
                exit(outcome);
            }
        }
    }
    // What the kernel asks for: FP for f registers, VEC for v registers and for some of the 3.0 forms, else VSX.
    let vector_of = |name| match decode(word(name, 3)) {
        Some(Insn::Facility(access)) => access.facility.vector(),
        other => panic!("{other:?}"),
    };
    assert_eq!(["stfiwx", "lvebx", "lxsd", "lxvwsx", "lxvd2x"].map(vector_of), [0x800, 0xf20, 0xf20, 0xf20, 0xf40]);
}

#[test]
fn wide_refused_vectors_without_word_or_doubleword_elements_fail_before_any_exit() {
    // lxvx, stxvx, lxvl, lxvh8x, stxvb16x 35,4,6; stxv 35,0(4); lfdp 6,0(4); stfdpx 6,4,6
    let words =
        [0x7c64_3219, 0x7c64_3319, 0x7c64_321b, 0x7c64_3659, 0x7c64_37d9, 0xf464_000d, 0xe4c4_0000, 0x7cc4_372e];
    for word in words {
        let Some(Insn::Refused(refused)) = decode(word) else { panic!("{word:#x}: {:?}", decode(word)) };
        let mut world = world(Endian::Little);
        let record = world.run_at(word, mmio_ea(0), refused.direction);
        assert_ne!(reflected(&record) & DSISR_BADACCESS, 0, "{}", refused.name);
        assert_eq!((world.vcpu.pc, world.vcpu.complete(&[0; 8])), (PC, Completion::NothingWaits), "{}", refused.name);
        world.vcpu.msr &= !ALL;
        let facility = refused.why.facility().expect("checked first");
        let outcome = world.run_at(word, mmio_ea(0), refused.direction).outcome;
        assert_eq!(outcome, Outcome::Reflected(Interrupt::Unavailable(facility)), "{}", refused.name);
    }
}

#[test]
fn unsupported_store_shows_what_analyse_instr_made_of_it() {
    // stq r6,0(r4); stmw r30,0(r4); stwcx. r3,0,r4: known stores, whatever the previous MMIO was.
    for word in [0xf8c4_0002, 0xbfc4_0000, 0x7c60_212d] {
        let mut world = world(Endian::Little);
        let record = world.run_at(word, mmio_ea(0), Direction::Store);
        assert_eq!(reflected(&record), DSISR_BADACCESS | DSISR_ISSTORE, "{word:#x}");
    }
    // stwu r3,16(0), an invalid form, is unknown to it: no store, even after one.
    let mut world = world(Endian::Little);
    world.store(mmio_ea(0));
    let invalid = load_store("stwu", 3, 0, Offset::Displacement(16)).unwrap();
    assert_eq!(reflected(&world.run_at(invalid, mmio_ea(0), Direction::Store)), DSISR_BADACCESS);
}

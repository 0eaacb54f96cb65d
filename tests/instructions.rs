//! Emulated instructions: the bytes that reach the device, what registers hold afterwards, what is refused.

mod common;

use common::{PAGE, World, assert_hit, mmio_ea, mmio_gpa, reflected};
use hvmmio::addr::EffectiveAddr;
use hvmmio::book3s::insn::{Direction, Endian, Offset, load_store};
use hvmmio::book3s::msr::{DSISR_BADACCESS, DSISR_ISSTORE, MSR_VEC};
use hvmmio::io::{CoalescedZone, IoBus, Ioeventfd};
use hvmmio::kvm_hv::{Fetch, Handler, Interrupt, MmioExit, Outcome, Record, RetryReason, VcpuConfig};

const BASE: usize = 4;
const PC: u64 = 0x1000;

fn world(endian: Endian, switches: &[&str]) -> World {
    let mut world = World::with(switches, VcpuConfig { endian, ..VcpuConfig::default() });
    world.enter_mmio(0);
    world.vcpu.gpr[BASE] = mmio_ea(0).0;
    world.vcpu.pc = PC;
    world
}

fn little(switches: &[&str]) -> World {
    world(Endian::Little, switches)
}

fn word(name: &str, rt: u8, offset: i16) -> u32 {
    load_store(name, rt, 4, Offset::Displacement(offset)).unwrap()
}

/// An X form with index register r6, which is 0.
fn indexed(name: &str, rt: u8) -> u32 {
    load_store(name, rt, 4, Offset::Register(6)).unwrap()
}

#[track_caller]
fn exit(record: &Record) -> MmioExit {
    match record.outcome {
        Outcome::Exit(exit) => exit,
        other => panic!("no exit: {other:?}"),
    }
}

/// Runs a load and completes it with `bytes`; returns the exit's length and the register.
fn load(world: &mut World, word: u32, bytes: &[u8]) -> (u8, u64) {
    let rt = usize::try_from((word >> 21) & 31).unwrap();
    world.vcpu.gpr[rt] = 0xdead_beef_dead_beef;
    let exit = exit(&world.run(word));
    assert_eq!(exit.direction, Direction::Load);
    let mut data = [0xa5; 8];
    data[..bytes.len()].copy_from_slice(bytes);
    assert!(world.vcpu.complete_load(&data));
    (exit.len, world.vcpu.gpr[rt])
}

#[test]
fn lwa_sign_a_register_of_0x80000001_is_extended() {
    let mut world = little(&[]);
    assert_eq!(load(&mut world, word("lwa", 3, 0), &0x8000_0001_u32.to_le_bytes()), (4, 0xffff_ffff_8000_0001));
    let mut world = self::world(Endian::Big, &[]);
    assert_eq!(load(&mut world, word("lwa", 3, 0), &0x8000_0001_u32.to_be_bytes()), (4, 0xffff_ffff_8000_0001));
}

#[test]
fn lwa_sign_ldu_and_stdu_move_8_bytes_and_leave_ra_at_the_effective_address() {
    let mut world = little(&[]);
    let value = 0x0123_4567_89ab_cdef_u64;
    assert_eq!(load(&mut world, word("ldu", 3, 8), &value.to_le_bytes()), (8, value));
    assert_eq!(world.vcpu.gpr[BASE], mmio_ea(0).0 + 8);
    let exit = exit(&world.run(word("stdu", 3, -8)));
    assert_eq!((exit.len, exit.data, exit.gpa), (8, value.to_le_bytes(), mmio_gpa(0)));
    assert_eq!((world.vcpu.gpr[BASE], world.vcpu.pc), (mmio_ea(0).0, PC + 8));
}

#[test]
fn sign_does_not_stick_lha_extends_and_the_lhz_after_it_does_not() {
    let mut world = little(&[]);
    let bytes = 0x8001_u16.to_le_bytes();
    assert_eq!(load(&mut world, word("lha", 3, 0), &bytes), (2, 0xffff_ffff_ffff_8001));
    assert_eq!(load(&mut world, word("lhz", 3, 0), &bytes), (2, 0x8001));
}

#[test]
fn lhbrx_bytes_01_80_are_0x8001_zero_extended_in_a_big_endian_guest() {
    let mut world = world(Endian::Big, &[]);
    assert_eq!(load(&mut world, indexed("lhbrx", 3), &[0x01, 0x80]), (2, 0x8001));
}

#[test]
fn lhbrx_every_byte_order_and_size_of_loads_and_stores_by_the_bytes_the_device_sees() {
    const BYTES: [u8; 8] = [0x81, 0x02, 0x83, 0x04, 0x85, 0x06, 0x87, 0x08];
    // Each column: value of the first n bytes read big-endian, then little-endian.
    let sizes = [
        (1, 0x81_u64, 0x81_u64, ["lbz", "stb"], None),
        (2, 0x8102, 0x0281, ["lhz", "sth"], Some(["lhbrx", "sthbrx"])),
        (4, 0x8102_8304, 0x0483_0281, ["lwz", "stw"], Some(["lwbrx", "stwbrx"])),
        (8, 0x8102_8304_8506_8708, 0x0887_0685_0483_0281, ["ld", "std"], Some(["ldbrx", "stdbrx"])),
    ];
    for endian in [Endian::Big, Endian::Little] {
        let mut world = world(endian, &[]);
        for (bytes, big, little, plain, reversed) in sizes {
            for (words, swapped) in [
                (Some(plain.map(|name| word(name, 3, 0))), false),
                (reversed.map(|names| names.map(|name| indexed(name, 3))), true),
            ] {
                let Some([load_word, store_word]) = words else { continue };
                let value = if (endian == Endian::Big) != swapped { big } else { little };
                let case = format!("{endian:?} guest, {bytes} bytes, reversed {swapped}");
                let (len, loaded) = load(&mut world, load_word, &BYTES[..bytes]);
                assert_eq!((usize::from(len), loaded), (bytes, value), "{case}");
                world.vcpu.gpr[3] = value | if bytes < 8 { 0xffff << (8 * bytes) } else { 0 };
                let exit = exit(&world.run(store_word));
                let mut seen = [0; 8];
                seen[..bytes].copy_from_slice(&BYTES[..bytes]);
                assert_eq!((usize::from(exit.len), exit.data), (bytes, seen), "{case}: bytes past len are 0");
            }
        }
    }
}

#[test]
fn update_form_ea_ra_receives_the_effective_address_and_not_the_physical_one() {
    let mut world = little(&[]);
    world.vcpu.gpr[BASE] += 32;
    let exit = exit(&world.run(word("stwu", 3, -16)));
    assert_eq!(exit.gpa.0, mmio_gpa(0).0 + 16);
    assert_eq!(world.vcpu.gpr[BASE], mmio_ea(0).0 + 16);
}

#[test]
fn update_form_ea_an_ldu_into_its_own_base_is_refused_and_a_stwu_of_its_own_base_is_not() {
    let mut world = little(&[]);
    world.vcpu.gpr[14] = mmio_ea(0).0 + 64;
    let ldu = load_store("ldu", 14, 14, Offset::Displacement(0)).unwrap();
    let record = world.run(ldu);
    assert_ne!(reflected(&record) & DSISR_BADACCESS, 0);
    assert_eq!((world.vcpu.gpr[14], world.vcpu.pc), (mmio_ea(0).0 + 64, PC), "no update when emulation fails");

    world.vcpu.gpr[1] = mmio_ea(0).0 + 64;
    let stwu = load_store("stwu", 1, 1, Offset::Displacement(-16)).unwrap();
    let exit = exit(&world.run(stwu));
    let old = u32::try_from((mmio_ea(0).0 + 64) & 0xffff_ffff).unwrap();
    assert_eq!(exit.data[..4], old.to_le_bytes(), "the value stored is the old one");
    assert_eq!((world.vcpu.gpr[1], world.vcpu.pc), (mmio_ea(0).0 + 48, PC + 4));

    let ra_zero = load_store("stwu", 3, 0, Offset::Displacement(16)).unwrap();
    assert_ne!(reflected(&world.run_at(ra_zero, mmio_ea(0), Direction::Store)) & DSISR_BADACCESS, 0);
}

/// `stq r6,0(r4)`, `stmw r30,0(r4)`, `stwcx. r3,0,r4`.
const REFUSED_STORES: [u32; 3] = [0xf8c4_0002, 0xbfc4_0000, 0x7c60_212d];
/// `lq r6,0(r4)`.
const LQ: u32 = 0xe0c4_0000;

#[test]
fn wide_refused_lq_and_stq_fail_before_any_exit() {
    for (word, direction) in [(LQ, Direction::Load), (REFUSED_STORES[0], Direction::Store)] {
        let mut world = little(&[]);
        let record = world.run_at(word, mmio_ea(0), direction);
        assert_ne!(reflected(&record) & DSISR_BADACCESS, 0);
        assert!(!world.vcpu.complete_load(&[0; 8]), "nothing waits for user space");
        assert_eq!(world.vcpu.pc, PC);
    }
}

#[test]
fn unsupported_store_is_a_data_storage_interrupt_at_the_same_nip_with_the_previous_direction_if_stale() {
    for word in REFUSED_STORES {
        let mut world = little(&["issstore_on_failure=stale"]);
        let ea = EffectiveAddr(mmio_ea(0).0 + 0x20);
        let dsisr = |world: &mut World| match world.run_at(word, ea, Direction::Store).outcome {
            Outcome::Reflected(Interrupt::DataStorage { dsisr, dar }) => {
                assert_eq!((dar, world.vcpu.pc), (ea, PC));
                dsisr
            }
            other => panic!("{word:#x}: {other:?}"),
        };
        assert_eq!(dsisr(&mut world), DSISR_BADACCESS, "{word:#x}: no MMIO before: not a store");
        world.store(mmio_ea(0));
        world.vcpu.pc = PC;
        assert_eq!(dsisr(&mut world), DSISR_BADACCESS | DSISR_ISSTORE, "{word:#x}: after a store");
        world.load(mmio_ea(0));
        world.vcpu.pc = PC;
        assert_eq!(dsisr(&mut world), DSISR_BADACCESS, "{word:#x}: after a load");
    }
}

#[test]
fn unsupported_store_shows_its_own_direction_with_issstore_on_failure_exact() {
    for word in REFUSED_STORES {
        let mut world = little(&["issstore_on_failure=exact"]);
        world.load(mmio_ea(0));
        let record = world.run_at(word, mmio_ea(0), Direction::Store);
        assert_eq!(reflected(&record), DSISR_BADACCESS | DSISR_ISSTORE, "{word:#x}");
    }
    let mut world = little(&["issstore_on_failure=exact"]);
    world.store(mmio_ea(0));
    assert_eq!(reflected(&world.run_at(LQ, mmio_ea(0), Direction::Load)), DSISR_BADACCESS);
}

#[test]
fn fast_bus_store_signals_advances_the_pc_and_asks_nobody_else() {
    let mut world = little(&[]);
    let addr = mmio_gpa(0).0 + 16;
    let fd = world.vm.io().create_eventfd();
    world.vm.io().register_zone(CoalescedZone { addr, size: 4, pio: 0 }).unwrap();
    world.vm.io().assign(Ioeventfd { bus: IoBus::Mmio, addr, len: 0, datamatch: None, fd: fd.id() }).unwrap();
    world.vcpu.gpr[BASE] += 32;
    let stwu = word("stwu", 3, -16);
    for count in 1..=3 {
        let record = world.run(stwu);
        let wanted = Outcome::Kernel { handler: Handler::FastMmio(fd.id()), gpa: hvmmio::addr::GuestPhysAddr(addr) };
        assert_eq!(record.outcome, wanted);
        if count > 1 {
            assert_hit(&record);
        }
        assert_eq!((fd.count(), world.vcpu.pc), (count, PC + 4 * count));
        assert_eq!(world.vcpu.gpr[BASE], mmio_ea(0).0 + 32, "RA of the update form is not written");
    }
    assert_eq!(world.vm.io().ring().waiting().unwrap(), [], "the zone was not asked");
    // Nothing is fetched: even a fetch that fails, or a load by now, is taken.
    let access = hvmmio::kvm_hv::Access {
        ea: EffectiveAddr(mmio_ea(0).0 + 16),
        direction: Direction::Store,
        insn: Fetch::Fails,
    };
    assert!(matches!(world.vcpu.access(&world.vm, &access).outcome, Outcome::Kernel { .. }));
    // A load of the same address exits: the fast bus is for stores.
    exit(&world.run(word("lwz", 3, -16)));
}

#[test]
fn a_length_4_eventfd_takes_its_width_only_and_its_update_form_writes_ra() {
    let mut world = little(&[]);
    let addr = mmio_gpa(0).0;
    let fd = world.vm.io().create_eventfd();
    world.vm.io().assign(Ioeventfd { bus: IoBus::Mmio, addr, len: 4, datamatch: None, fd: fd.id() }).unwrap();
    world.vcpu.gpr[BASE] += 16;
    let record = world.run(word("stwu", 3, -16));
    assert!(matches!(record.outcome, Outcome::Kernel { handler: Handler::Eventfd(id), .. } if id == fd.id()));
    assert_eq!((world.vcpu.gpr[BASE], world.vcpu.pc, fd.count()), (mmio_ea(0).0, PC + 4, 1));
    assert_eq!(exit(&world.run(word("sth", 3, 0))).len, 2);
    assert_eq!(fd.count(), 1);
}

#[test]
fn direction_mismatch_and_a_fetch_that_fails_end_bounded_with_their_reason() {
    let mut world = little(&[]);
    let record = world.run_at(word("lwz", 3, 0), mmio_ea(0), Direction::Store);
    assert_eq!(record.outcome, Outcome::RetriesForever(RetryReason::DirectionMismatch));
    let access = hvmmio::kvm_hv::Access { ea: mmio_ea(0), direction: Direction::Load, insn: Fetch::Fails };
    let record = world.vcpu.access(&world.vm, &access);
    assert_eq!(record.outcome, Outcome::RetriesForever(RetryReason::FetchFailed));
    assert_eq!(world.vcpu.pc, PC);
}

#[test]
fn lmw_retries_for_ever_by_the_bit_rule_and_is_refused_once_decoded() {
    // lmw r30,0(r4); lxv vs3,0(r4)
    for word in [0xbbc4_0000, 0xf464_0001] {
        let record = little(&[]).run_at(word, mmio_ea(0), Direction::Load);
        assert_eq!(record.outcome, Outcome::RetriesForever(RetryReason::DirectionMismatch), "{word:#x}");
        assert!(record.stages.len() < 10, "bounded");
        let mut world = little(&["direction_rule=decoded"]);
        world.vcpu.msr |= MSR_VEC;
        let record = world.run_at(word, mmio_ea(0), Direction::Load);
        assert_ne!(reflected(&record) & DSISR_BADACCESS, 0, "{word:#x}");
    }
}

#[test]
fn cache_operations_complete_as_no_ops() {
    let mut world = little(&[]);
    // dcbz 0,r4 is a store; dcbf, dcbst, dcbt 0,r4 and icbi 0,r4 loads, but the kernel's bit says store of icbi.
    let operations = [
        (0x7c00_27ec, Direction::Store),
        (0x7c00_20ac, Direction::Load),
        (0x7c00_206c, Direction::Load),
        (0x7c00_222c, Direction::Load),
        (0x7c00_27ac, Direction::Store),
    ];
    for (word, direction) in operations {
        let record = world.run_at(word, mmio_ea(0), direction);
        assert!(matches!(record.outcome, Outcome::Kernel { handler: Handler::NoOp, .. }), "{word:#x}: {record:?}");
    }
    assert_eq!(world.vcpu.pc, PC + 4 * operations.len() as u64);
}

#[test]
fn an_access_at_the_end_of_a_page_keeps_its_whole_offset() {
    let mut world = little(&[]);
    world.vcpu.gpr[BASE] = mmio_ea(0).0 + PAGE - 8;
    assert_eq!(exit(&world.run(word("std", 3, 0))).gpa.0, mmio_gpa(0).0 + PAGE - 8);
}

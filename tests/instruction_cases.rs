//! Small instructions that real emulators got wrong, each named by its case.

use hvmmio::book3s::insn::{
    Access, Direction, EncodeError, Endian, Insn, Mode, Offset, Refusal, Size, decode, encode, is_store_by_bit,
    load_store, load_value, store_bytes,
};

fn access(word: u32) -> Access {
    match decode(word) {
        Some(Insn::Access(access)) => access,
        other => panic!("{word:#010x} is {other:?}"),
    }
}

fn displaced(name: &str, rt: u8, ra: u8, bytes: i16) -> Access {
    access(load_store(name, rt, ra, Offset::Displacement(bytes)).unwrap())
}

fn indexed(name: &str, rt: u8, ra: u8, rb: u8) -> Access {
    access(load_store(name, rt, ra, Offset::Register(rb)).unwrap())
}

/// Memory that starts with these bytes; what follows must not matter.
fn memory(start: &[u8]) -> [u8; 8] {
    let mut bytes = [0xee; 8];
    bytes[..start.len()].copy_from_slice(start);
    bytes
}

#[test]
fn lwa_sign_extends_four_bytes() {
    let lwa = displaced("lwa", 3, 4, 8);
    assert_eq!(lwa.size, Size::Word);
    let word = 0x8000_0001_u32;
    assert_eq!(load_value(&memory(&word.to_be_bytes()), &lwa, Endian::Big), 0xffff_ffff_8000_0001);
    assert_eq!(load_value(&memory(&word.to_le_bytes()), &lwa, Endian::Little), 0xffff_ffff_8000_0001);
    for name in ["lwax", "lwaux"] {
        assert_eq!(load_value(&memory(&[0x80, 0, 0, 1]), &indexed(name, 3, 4, 5), Endian::Big), 0xffff_ffff_8000_0001);
    }
    for (name, direction) in [("ldu", Direction::Load), ("stdu", Direction::Store)] {
        let insn = displaced(name, 3, 4, 8);
        assert_eq!((insn.size, insn.direction, insn.update), (Size::Doubleword, direction, true), "{name}");
    }
}

#[test]
fn sign_does_not_stick_from_lha_to_lhz() {
    let bytes = memory(&[0x80, 0x01]);
    assert_eq!(load_value(&bytes, &displaced("lha", 3, 4, 0), Endian::Big), 0xffff_ffff_ffff_8001);
    assert_eq!(load_value(&bytes, &displaced("lhz", 3, 4, 0), Endian::Big), 0x8001);
    assert_eq!(load_value(&bytes, &displaced("lhau", 3, 4, 0), Endian::Little), 0x0180);
}

#[test]
fn lhbrx_reverses_and_clears_the_high_bits() {
    let lhbrx = indexed("lhbrx", 3, 4, 5);
    assert_eq!(load_value(&memory(&[0x01, 0x80]), &lhbrx, Endian::Big), 0x8001);
    assert_eq!(load_value(&memory(&[0x80, 0x01]), &lhbrx, Endian::Little), 0x8001);
}

/// Every {guest} x {normal, reversed} x {size}, written out: the image of 0x0102030405060708.
#[test]
fn lhbrx_and_all_its_kin_have_the_bytes_of_the_isa() {
    use Endian::{Big, Little};
    let value = 0x0102_0304_0506_0708;
    let images: [(&str, Endian, &[u8]); 16] = [
        ("stb", Big, &[8]),
        ("stb", Little, &[8]),
        ("sth", Big, &[7, 8]),
        ("sth", Little, &[8, 7]),
        ("stw", Big, &[5, 6, 7, 8]),
        ("stw", Little, &[8, 7, 6, 5]),
        ("std", Big, &[1, 2, 3, 4, 5, 6, 7, 8]),
        ("std", Little, &[8, 7, 6, 5, 4, 3, 2, 1]),
        ("sthbrx", Big, &[8, 7]),
        ("sthbrx", Little, &[7, 8]),
        ("stwbrx", Big, &[8, 7, 6, 5]),
        ("stwbrx", Little, &[5, 6, 7, 8]),
        ("stdbrx", Big, &[8, 7, 6, 5, 4, 3, 2, 1]),
        ("stdbrx", Little, &[1, 2, 3, 4, 5, 6, 7, 8]),
        ("stbx", Big, &[8]),
        ("stbx", Little, &[8]),
    ];
    for (name, guest, image) in images {
        let store = if name.ends_with('x') { indexed(name, 3, 4, 5) } else { displaced(name, 3, 4, 8) };
        let (bytes, length) = store_bytes(value, &store, guest);
        assert_eq!(&bytes[..length], image, "{name} {guest:?}");
        assert_eq!(&bytes[length..], &[0; 8][length..], "{name} {guest:?}: nothing else leaks");
        let load = Access { direction: Direction::Load, ..store };
        let low = value & (u64::MAX >> (64 - 8 * length));
        assert_eq!(load_value(&memory(image), &load, guest), low, "{name} {guest:?} read back");
    }
    // A byte has no order: "reversed" changes nothing.
    let stb = Access { reversed: true, ..displaced("stb", 3, 4, 0) };
    assert_eq!(store_bytes(value, &stb, Big), store_bytes(value, &stb, Little));
}

#[test]
fn update_form_ea_is_the_sum_of_base_and_displacement() {
    let mut gpr = [0; 32];
    gpr[4] = 0x1008;
    let stwu = displaced("stwu", 3, 4, -16);
    assert!(stwu.update);
    assert_eq!(stwu.effective_address(&gpr, Mode::SixtyFour), 0xff8);
    gpr[5] = 0x20;
    assert_eq!(indexed("stwux", 3, 4, 5).effective_address(&gpr, Mode::SixtyFour), 0x1028);
}

#[test]
fn update_form_ea_validity() {
    assert!(!displaced("ldu", 14, 14, 0).is_valid_form(), "RA = RT of a load");
    assert!(displaced("stwu", 1, 1, -16).is_valid_form(), "the stack frame idiom");
    assert!(indexed("stdux", 5, 5, 6).is_valid_form());
    for name in ["lbzu", "stbu", "lhau", "sthu", "ldu", "stdu"] {
        assert!(!displaced(name, 3, 0, 8).is_valid_form(), "{name} with RA = 0");
        assert!(displaced(name, 3, 4, 8).is_valid_form(), "{name}");
    }
    assert!(displaced("ld", 14, 14, 0).is_valid_form(), "without update RA = RT is common");
    assert!(displaced("ld", 14, 0, 0).is_valid_form());
}

#[test]
fn base_register_zero_reads_as_zero_and_sums_wrap() {
    let gpr = [0x1_0000_0000; 32];
    assert_eq!(displaced("lwz", 3, 0, -4).effective_address(&gpr, Mode::SixtyFour), 0xffff_ffff_ffff_fffc);
    assert_eq!(displaced("lwz", 3, 0, -4).effective_address(&gpr, Mode::ThirtyTwo), 0xffff_fffc);
    assert_eq!(indexed("lwzx", 3, 0, 5).effective_address(&gpr, Mode::SixtyFour), 0x1_0000_0000);
    assert_eq!(indexed("lwzx", 3, 4, 5).effective_address(&gpr, Mode::ThirtyTwo), 0);
    assert_eq!(indexed("lwzx", 3, 4, 5).effective_address(&[1 << 63; 32], Mode::SixtyFour), 0);
}

#[test]
fn wide_refused_lq_and_stq_are_no_accesses() {
    // lq 4,32(6); stq 4,32(6)
    for (word, name, direction) in [(0xe086_0020, "lq", Direction::Load), (0xf886_0022, "stq", Direction::Store)] {
        let Some(Insn::Refused(refused)) = decode(word) else { panic!("{name}") };
        assert_eq!((refused.name, refused.why, refused.bytes), (name, Refusal::Quadword, 16));
        assert_eq!(refused.direction, direction, "{name}");
    }
}

#[test]
fn unsupported_store_says_what_it_is() {
    // stwcx. 3,4,5; stmw 29,-16(4); stswi 3,20,8; stdcix 3,4,5; stfdp 4,-8(4); stxvx 35,4,5
    let stores = [
        (0x7c64_292d, Refusal::Reservation),
        (0xbfa4_fff0, Refusal::Multiple),
        (0x7c74_45aa, Refusal::String),
        (0x7c64_2fea, Refusal::CachingInhibited),
        (0xf484_fff8, Refusal::FloatingPoint),
        (0x7c64_2b19, Refusal::Vsx),
    ];
    for (word, why) in stores {
        let Some(Insn::Refused(refused)) = decode(word) else { panic!("{word:#010x}") };
        assert_eq!((refused.why, refused.direction), (why, Direction::Store), "{}", refused.name);
        assert!(is_store_by_bit(word), "{}", refused.name);
    }
}

#[test]
fn cache_operations_are_recognised() {
    // dcbst, dcbf, dcbtst, dcbt, icbi, dcbz, each 4,5
    let words = [0x7c04_286c, 0x7c04_28ac, 0x7c04_29ec, 0x7c04_2a2c, 0x7c04_2fac, 0x7c04_2fec];
    let names = words.map(|word| match decode(word) {
        Some(Insn::CacheOp(op)) => op.name,
        other => panic!("{word:#010x} is {other:?}"),
    });
    assert_eq!(names, ["dcbst", "dcbf", "dcbtst", "dcbt", "icbi", "dcbz"]);
}

#[test]
fn lmw_retries_for_ever_because_its_bit_says_store() {
    // lmw 29,16(4)
    let lmw = 0xbba4_0010;
    assert!(is_store_by_bit(lmw));
    assert_eq!(decode(lmw).unwrap().direction(), Direction::Load);
}

#[test]
fn lmw_lxv_and_icbi_are_the_only_ones_whose_bit_is_wrong() {
    let wrong: Vec<_> = include_str!("data/assembled_accesses.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| u32::from_str_radix(&line[..8], 16).ok())
        .filter(|word| is_store_by_bit(*word) != (decode(*word).unwrap().direction() == Direction::Store))
        .map(|word| decode(word).unwrap().name())
        .collect();
    assert_eq!(wrong, ["icbi", "lmw", "lxv"]);
}

#[test]
fn words_that_access_no_storage_are_none() {
    // zero, nop, add 3,4,5, lvsl 3,4,5, sync, b ., sc, a 3.1 prefix, ld with the unassigned DS opcode 3
    let words =
        [0, 0x6000_0000, 0x7c64_2a14, 0x7c64_280c, 0x7c00_04ac, 0x4800_0000, 0x4400_0002, 0x0600_0000, 0xe864_0013];
    for word in words {
        assert_eq!(decode(word), None, "{word:#010x}");
    }
}

#[test]
fn what_no_opcode_encodes_is_an_error_that_says_why() {
    let lwz = displaced("lwz", 3, 4, 0);
    assert_eq!(load_store("lwzz", 3, 4, Offset::Register(5)), Err(EncodeError::UnknownName("lwzz".to_owned())));
    assert_eq!(
        encode(&Access { reversed: true, ..lwz }).unwrap_err().to_string(),
        "no Load of 4 bytes with reversed=true, algebraic=false, update=false and a displacement exists"
    );
    assert_eq!(
        encode(&Access { ra: 32, ..lwz }).unwrap_err().to_string(),
        "RA is r32; general registers are r0 to r31"
    );
    assert_eq!(
        load_store("std", 3, 4, Offset::Displacement(6)).unwrap_err().to_string(),
        "std 6(...): the displacement of a DS form is a multiple of 4"
    );
    assert_eq!(
        load_store("stw", 3, 4, Offset::Register(6)).unwrap_err().to_string(),
        "stw takes a displacement as its offset"
    );
}

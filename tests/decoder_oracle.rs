//! The decoder against two others: the `powerpc` crate (which knows no ldbrx, stdbrx, quadword, VSX or 3.0 access) and
//! GNU as, whose words are recorded in `data/assembled_accesses.txt`.

use hvmmio::book3s::insn::{
    Access, Direction, FacilityAccess, Insn, Offset, access_names, decode, encode, facility_names, load_store,
};
use powerpc::{Argument, Extension, Extensions, Ins, Opcode};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

/// Integer accesses that the oracle does not know.
const UNKNOWN_TO_ORACLE: [&str; 2] = ["ldbrx", "stdbrx"];

/// What both decoders can be asked about an integer access.
#[derive(Debug, PartialEq)]
struct Seen {
    name: &'static str,
    rt: u8,
    ra: u8,
    offset: Offset,
}

impl From<Access> for Seen {
    fn from(access: Access) -> Self {
        Self { name: access.name, rt: access.rt, ra: access.ra, offset: access.offset }
    }
}

fn oracle(word: u32) -> Ins {
    let mut extensions = Extensions::none();
    extensions.insert(Extension::Ppc64);
    extensions.insert(Extension::AltiVec);
    Ins::new(word, extensions)
}

fn oracle_sees(word: u32) -> Option<Seen> {
    let parsed = oracle(word).basic();
    let name = access_names().find(|name| *name == parsed.mnemonic)?;
    let (rt, ra, offset) = match parsed.args {
        [Argument::GPR(rt), Argument::Offset(bytes), Argument::GPR(ra), ..] => (rt, ra, Offset::Displacement(bytes.0)),
        [Argument::GPR(rt), Argument::GPR(ra), Argument::GPR(rb), ..] => (rt, ra, Offset::Register(rb.0)),
        other => panic!("{word:#010x}: operands of the oracle in no known form: {other:?}"),
    };
    Some(Seen { name, rt: rt.0, ra: ra.0, offset })
}

fn we_see(word: u32) -> Option<Seen> {
    match decode(word) {
        Some(Insn::Access(access)) => Some(access.into()),
        _ => None,
    }
}

/// The last bit of an X form is reserved; the oracle wants it 0, the kernel and we ignore it.
fn reserved_bit_set(word: u32) -> bool {
    word >> 26 == 31 && word & 1 != 0
}

fn assert_agreement(word: u32) -> Option<&'static str> {
    let (ours, theirs) = (we_see(word), oracle_sees(word));
    match (&ours, &theirs) {
        (Some(access), None) => {
            assert!(
                reserved_bit_set(word) || UNKNOWN_TO_ORACLE.contains(&access.name),
                "{word:#010x}: only we see {access:?}"
            );
        }
        _ => assert_eq!(ours, theirs, "{word:#010x}"),
    }
    theirs.map(|seen| seen.name)
}

#[test]
fn every_integer_opcode_with_random_operands_is_seen_alike() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut words = 0;
    for name in access_names() {
        let indexed = load_store(name, 0, 0, Offset::Register(0)).is_ok();
        for _ in 0..1_000 {
            let offset = if indexed {
                Offset::Register(rng.random_range(0..32))
            } else {
                Offset::Displacement(rng.random::<i16>() & !3)
            };
            let (rt, ra) = (rng.random_range(0..32), rng.random_range(0..32));
            let word = load_store(name, rt, ra, offset).expect("operands are in range");
            assert_eq!(we_see(word), Some(Seen { name, rt, ra, offset }), "{word:#010x}");
            assert_eq!(assert_agreement(word).is_some(), !UNKNOWN_TO_ORACLE.contains(&name), "{name}");
            words += 1;
        }
    }
    assert_eq!(words, 45_000);
}

#[test]
fn random_words_are_seen_alike() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    let mut seen = BTreeMap::new();
    for _ in 0..1_000_000 {
        let word: u32 = rng.random();
        // A second word with major opcode 31: the X forms are rare among uniform words.
        for word in [word, word & 0x03ff_ffff | 31 << 26] {
            if let Some(name) = assert_agreement(word) {
                *seen.entry(name).or_insert(0_u32) += 1;
            }
        }
    }
    assert_eq!(seen.len() + UNKNOWN_TO_ORACLE.len(), access_names().count(), "an opcode never came up: {seen:?}");
}

/// Loads and stores that the oracle knows and Power ISA 2.07 does not (Cell, before 2.00), and `lvsl`, `lvsr`, which
/// access no storage.
const NOT_OURS: [&str; 10] = ["lvlx", "lvlxl", "lvrx", "lvrxl", "lvsl", "lvsr", "stvlx", "stvlxl", "stvrx", "stvrxl"];

#[test]
fn refused_accesses_and_cache_operations_are_seen_alike() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    for _ in 0..1_000_000 {
        // Outside 31 the oracle's opcode maps are no larger than ours; `random_words_are_seen_alike` covers them.
        let word = rng.random::<u32>() & 0x03ff_ffff | 31 << 26;
        let theirs = oracle(word);
        if theirs.op == Opcode::Illegal {
            continue;
        }
        // The dot is the reserved bit's ("icbi." is a slip of the oracle); dcbzl is dcbz with a reserved bit set.
        let name = match theirs.basic().mnemonic.trim_end_matches('.') {
            "dcbzl" => "dcbz",
            name => name,
        };
        match decode(word) {
            Some(ours) => assert_eq!(ours.name().trim_end_matches('.'), name, "{word:#010x}"),
            None => assert!(
                NOT_OURS.contains(&name) || !(name.starts_with('l') || name.starts_with("st")),
                "{word:#010x}: only the oracle sees {name}"
            ),
        }
    }
}

/// Lines of `word, assembly text`.
fn assembled() -> impl Iterator<Item = (u32, &'static str)> {
    include_str!("data/assembled_accesses.txt").lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (word, text) = line.split_once(' ').expect("a word and its text");
        (u32::from_str_radix(word, 16).expect("eight hexadecimal digits"), text)
    })
}

fn integer_operands(text: &str) -> (u8, u8, Offset) {
    let (rt, rest) = text.split_once(',').expect("RT first");
    let (rt, register) = (rt.parse().unwrap(), |digits: &str| digits.parse::<u8>().unwrap());
    match rest.trim_end_matches(')').split_once('(') {
        Some((bytes, ra)) => (rt, register(ra), Offset::Displacement(bytes.parse().unwrap())),
        None => {
            let (ra, rb) = rest.split_once(',').expect("RA and RB");
            (rt, register(ra), Offset::Register(register(rb)))
        }
    }
}

/// A register's operand is its number, of a vector-scalar one 0 to 63.
fn assert_facility(word: u32, name: &str, operands: &str, access: &FacilityAccess) {
    let (rt, ra, offset) = integer_operands(operands);
    assert_eq!((access.ra, access.offset), (ra, offset), "{word:08x} {name} {operands}");
    assert!(access.vsr == rt || access.vsr == rt + 32, "{word:08x} {name} {operands}");
    assert_eq!(load_store(name, rt, ra, offset), Ok(word), "{name} {operands}");
}

#[test]
fn words_of_the_gnu_assembler_decode_to_its_text_and_back() {
    let (mut integer, mut facility, mut others) = (0, 0, 0);
    for (word, text) in assembled() {
        let (name, operands) = text.split_once(' ').expect("operands");
        let insn = decode(word).unwrap_or_else(|| panic!("{word:08x} {text} is not decoded"));
        assert_eq!(insn.name(), name, "{word:08x} {text}");
        let access = match insn {
            Insn::Access(access) => access,
            Insn::Facility(access) => {
                assert_facility(word, name, operands, &access);
                facility += 1;
                continue;
            }
            Insn::CacheOp(_) | Insn::Refused(_) => {
                others += 1;
                continue;
            }
        };
        let (rt, ra, offset) = integer_operands(operands);
        assert_eq!((access.rt, access.ra, access.offset), (rt, ra, offset), "{word:08x} {text}");
        assert_eq!(load_store(name, rt, ra, offset), Ok(word), "{text}");
        assert_eq!(encode(&access), Ok(word), "{text}");
        assert!(access.is_valid_form(), "the assembler refuses invalid forms: {text}");
        integer += 1;
    }
    assert_eq!(integer, 4 * access_names().count());
    assert_eq!((facility, others), (facility_names().count(), 106 - facility_names().count()), "each once");
}

/// The ISA names accesses by rule: `l` or `st`, a width letter, `z` or `a`, `br`, `u`, `x`.
#[test]
fn properties_of_an_access_are_those_its_name_spells() {
    for name in access_names() {
        let word = load_store(name, 3, 4, Offset::Register(5))
            .or_else(|_| load_store(name, 3, 4, Offset::Displacement(8)))
            .expect("one of the two forms");
        let Some(Insn::Access(access)) = decode(word) else { panic!("{name}") };
        let (direction, rest) = match name.strip_prefix("st") {
            Some(rest) => (Direction::Store, rest),
            None => (Direction::Load, &name[1..]),
        };
        let bytes = match &rest[..1] {
            "b" => 1,
            "h" => 2,
            "w" => 4,
            _ => 8,
        };
        let suffix = &rest[1..];
        assert_eq!((access.direction, access.size.bytes()), (direction, bytes), "{name}");
        assert_eq!(access.algebraic, suffix.starts_with('a'), "{name}");
        assert_eq!(access.reversed, suffix.starts_with("br"), "{name}");
        assert_eq!(access.update, suffix.trim_end_matches('x').ends_with('u'), "{name}");
        assert_eq!(matches!(access.offset, Offset::Register(_)), suffix.ends_with('x'), "{name}");
    }
}

fn any_access() -> impl Strategy<Value = Access> {
    let names: Vec<_> = access_names().collect();
    (proptest::sample::select(names), 0_u8..32, 0_u8..32, 0_u8..32, any::<i16>()).prop_map(
        |(name, rt, ra, rb, displacement)| {
            let word = load_store(name, rt, ra, Offset::Register(rb))
                .or_else(|_| load_store(name, rt, ra, Offset::Displacement(displacement)))
                .or_else(|_| load_store(name, rt, ra, Offset::Displacement(displacement & !3)))
                .expect("one of the three forms");
            let Some(Insn::Access(access)) = decode(word) else { panic!("{name}") };
            access
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn decode_is_the_inverse_of_encode(access in any_access()) {
        let word = encode(&access).unwrap();
        prop_assert_eq!(decode(word), Some(Insn::Access(access)));
    }

    #[test]
    fn encode_is_the_inverse_of_decode_but_for_reserved_bits(word in any::<u32>()) {
        if let Some(Insn::Access(access)) = decode(word) {
            let reserved = u32::from(reserved_bit_set(word));
            prop_assert_eq!(encode(&access), Ok(word & !reserved));
        }
    }
}

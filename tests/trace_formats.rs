//! The forms that are written come back as they were, and damage to them is found.

use std::io::{Cursor, Write as _};
use std::path::Path;

use hvmmio::addr::{EffectiveAddr, GuestPhysAddr};
use hvmmio::book3s::insn::Direction;
use hvmmio::trace::synthetic::{Generator, Pattern, Synthetic, Zipf};
use hvmmio::trace::{Access, Facts, Item, Observed, Recording, TraceFormat, Writer, native};
use proptest::prelude::*;

fn items(path: &Path) -> (Vec<Item>, Facts) {
    let mut recording = Recording::open(path).unwrap();
    let mut items = Vec::new();
    while let Some(item) = recording.next_item().unwrap() {
        items.push(item);
    }
    (items, recording.facts().clone())
}

fn written(format: TraceFormat, items: &[Item], facts: &Facts) -> Vec<u8> {
    let mut writer = Writer::new(format, Vec::new()).unwrap().unwrap();
    for item in items {
        writer.item(item).unwrap();
    }
    writer.finish(facts).unwrap().0
}

fn file(bytes: &[u8], ending: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(ending).tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn read_native(bytes: &[u8]) -> Result<(Vec<Item>, Facts), String> {
    let mut reader = native::Reader::new("t.hvt", Cursor::new(bytes)).map_err(|error| error.to_string())?;
    let mut items = Vec::new();
    while let Some(item) = reader.next_item().map_err(|error| error.to_string())? {
        items.push(item);
    }
    Ok((items, reader.facts().clone()))
}

fn churn() -> (Vec<Item>, Facts) {
    items(Path::new("tests/data/traces/power9-churn.ftrace.txt.gz"))
}

fn made_up(pattern: Pattern, count: u64) -> Synthetic {
    Synthetic { pattern, pages: 16, vcpus: 3, count, invalidations: 0.01, seed: 5 }
}

fn any_item() -> impl Strategy<Value = Item> {
    let address = prop_oneof![any::<u64>(), 0..4_u64, Just(u64::MAX)];
    let access =
        (address.clone(), address.clone(), address.clone(), any::<(u32, u32, u64, u8, bool)>(), 0..64_u8, 0..3_u8);
    let access = access.prop_map(|(at, ea, gpa, (vcpu, vm, segment, len, store), page_shift, observed)| {
        Item::Access(Access {
            at,
            vcpu,
            vm,
            ea: EffectiveAddr(ea),
            gpa: GuestPhysAddr(gpa),
            segment,
            page_shift,
            direction: if store { Direction::Store } else { Direction::Load },
            len,
            observed: [Observed::Unknown, Observed::Hit, Observed::Miss][usize::from(observed)],
        })
    });
    prop_oneof![
        6 => access,
        1 => (address.clone(), any::<u32>(), any::<Option<u64>>())
            .prop_map(|(at, vm, page)| Item::Generation { at, vm, page: page.map(EffectiveAddr) }),
        1 => address.prop_map(|events| Item::Lost { events }),
    ]
}

proptest! {
    #[test]
    fn anything_written_as_hvt_comes_back(items in proptest::collection::vec(any_item(), 0..200)) {
        let facts = Facts { accesses: items.len() as u64, ..Facts::default() };
        prop_assert_eq!(read_native(&written(TraceFormat::Native, &items, &facts)), Ok((items, facts)));
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), header: bool) {
        let mut whole = if header { written(TraceFormat::Native, &[], &Facts::default())[..16].to_vec() } else { Vec::new() };
        whole.extend(bytes);
        prop_assert!(read_native(&whole).is_err());
        for form in TraceFormat::ALL {
            let file = file(&whole, "");
            if let Ok(mut recording) = Recording::open_as(file.path(), Some(form)) {
                while let Ok(Some(_)) = recording.next_item() {}
            }
        }
    }
}

#[test]
fn a_recording_converted_to_hvt_or_csv_is_the_same_recording() {
    let (items, facts) = churn();
    let bytes = written(TraceFormat::Native, &items, &facts);
    assert_eq!(read_native(&bytes), Ok((items.clone(), facts.clone())));
    assert!(bytes.len() < items.len() * 8, "{} bytes", bytes.len());
    let csv = file(&written(TraceFormat::Csv, &items, &facts), ".csv");
    assert_eq!(self::items(csv.path()).0, items);
    let zst = file(&zstd::encode_all(&bytes[..], 3).unwrap(), ".zst");
    assert_eq!(self::items(zst.path()).0, items);
}

#[test]
fn a_flipped_bit_or_a_cut_anywhere_in_an_hvt_is_found() {
    let (items, facts) = churn();
    let bytes = written(TraceFormat::Native, &items, &facts);
    for at in (0..bytes.len()).step_by(7) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(read_native(&flipped).is_err(), "byte {at}");
        let error = read_native(&bytes[..at]).unwrap_err();
        assert!(error.contains("t.hvt: byte "), "{error}");
    }
    let mut newer = bytes[..12].to_vec();
    newer[8] = 2;
    newer.extend(crc32fast::hash(&newer).to_le_bytes());
    newer.extend(&bytes[16..]);
    assert!(read_native(&newer).unwrap_err().contains("byte 8: version 2"));
    assert!(read_native(&[&bytes[..], b"x"].concat()).unwrap_err().contains("something follows"));
}

#[test]
fn an_hvt_can_be_read_from_any_of_its_blocks() {
    let items: Vec<_> = Generator::new(made_up(Pattern::Uniform, 200_000)).unwrap().collect();
    let bytes = written(TraceFormat::Native, &items, &Facts::default());
    let mut reader = native::Reader::new("t.hvt", Cursor::new(&bytes[..])).unwrap();
    let blocks = reader.blocks().unwrap();
    assert_eq!(blocks.len(), items.len().div_ceil(1 << 16));
    assert_eq!(reader.next_item().unwrap(), Some(items[0]));
    for block in blocks.iter().rev() {
        reader.go_to(block).unwrap();
        let first = usize::try_from(block.first).unwrap();
        assert_eq!(reader.next_item().unwrap(), Some(items[first]));
        let left = std::iter::from_fn(|| reader.next_item().unwrap()).count();
        assert_eq!(left, items.len() - first - 1);
    }
}

#[test]
fn csv_is_refused_with_its_line_when_a_column_or_a_value_is_wrong() {
    let error = |text: &str| {
        let file = file(text.as_bytes(), ".csv");
        let mut recording = match Recording::open(file.path()) {
            Ok(recording) => recording,
            Err(error) => return error.to_string(),
        };
        loop {
            match recording.next_item() {
                Ok(Some(_)) => {}
                Ok(None) => return String::new(),
                Err(error) => return error.to_string(),
            }
        }
    };
    assert_eq!(error("ea,vcpu\n0x10000,0\n0x20000,1\n"), "");
    assert!(error("ea,cpu\n1,0\n").contains("no column is named `cpu`"));
    assert!(error("ea,ea\n1,0\n").contains("twice"));
    assert!(
        error("ea,vcpu\n1,0\n0xg,0\n").contains(":3: byte 12: ea `0xg` is no number"),
        "{}",
        error("ea,vcpu\n1,0\n0xg,0\n")
    );
    assert!(error("ea,direction\n1,sideways\n").contains("load or store"));
    assert!(error("ea,page_shift\n1,64\n").contains("0 to 63"));
    assert!(error("ea,vcpu\n1\n").contains(":2"));
}

#[test]
fn every_pattern_is_the_same_for_the_same_seed_and_uses_every_vcpu() {
    let hot = Pattern::HotSet { hot: 4, share: 0.9, drift: 100 };
    for pattern in
        [Pattern::Zipf { alpha: 1.0 }, Pattern::Uniform, Pattern::Cyclic, hot, Pattern::Fio, Pattern::Netperf]
    {
        let plan = made_up(pattern, 10_000);
        let one: Vec<_> = Generator::new(plan).unwrap().collect();
        assert_eq!(one, Generator::new(plan).unwrap().collect::<Vec<_>>());
        let accesses: Vec<_> =
            one.iter().filter_map(|item| if let Item::Access(access) = item { Some(access) } else { None }).collect();
        assert_eq!(accesses.len(), 10_000);
        let moves = one.len() - accesses.len();
        assert!((50..200).contains(&moves), "{pattern:?}: {moves}");
        for vcpu in 0..3 {
            assert!(accesses.iter().filter(|access| access.vcpu == vcpu).count() > 3000);
        }
        assert!(accesses.iter().all(|access| (access.ea.0 - 0xd000_0800_8000_0000) >> 16 < 16));
    }
    assert!(Generator::new(Synthetic { pages: 0, ..made_up(Pattern::Uniform, 1) }).is_err());
    assert!(Generator::new(made_up(Pattern::Zipf { alpha: f64::NAN }, 1)).is_err());
}

#[test]
fn draws_of_a_zipf_come_with_their_shares() {
    let (zipf, mut counts) = (Zipf::new(64, 1.0), [0_u32; 64]);
    let mut state = 1_u64;
    for _ in 0..2_000_000 {
        // splitmix64
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        counts[zipf.draw(z ^ z >> 31) as usize] += 1;
    }
    let sum: f64 = (1..=64).map(|rank| 1.0 / f64::from(rank)).sum();
    for (rank, count) in (1..=64).zip(counts) {
        let (share, expected) = (f64::from(count) / 2e6, 1.0 / f64::from(rank) / sum);
        assert!((share - expected).abs() < 0.001, "{rank}: {share} {expected}");
    }
}

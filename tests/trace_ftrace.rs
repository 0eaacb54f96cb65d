//! Recordings of a real kernel, and the ways in which a recording can be worse than these.

use std::io::Cursor;
use std::path::Path;

use hvmmio::trace::ftrace::Reader;
use hvmmio::trace::{Access, Facts, HitsKnown, Item, Observed, Recording, TraceError};

/// Labels of the operation list the recording was made with: removals are `-`.
fn labels(name: &str) -> Vec<Observed> {
    let text = std::fs::read_to_string(format!("tests/data/oracle/{name}.txt")).unwrap();
    let label = |line: &str| match line.split_whitespace().last() {
        Some("hit") => Some(Observed::Hit),
        Some("miss") => Some(Observed::Miss),
        _ => None,
    };
    text.lines().filter_map(label).collect()
}

fn recording(name: &str) -> (Vec<Item>, Facts) {
    let mut recording = Recording::open(Path::new(&format!("tests/data/traces/power9-{name}.ftrace.txt.gz"))).unwrap();
    let mut items = Vec::new();
    while let Some(item) = recording.next_item().unwrap() {
        items.push(item);
    }
    (items, recording.facts().clone())
}

fn read(text: &[u8]) -> Result<(Vec<Access>, Vec<Item>, Facts), TraceError> {
    let mut reader = Reader::new("text", Cursor::new(text));
    let mut items = Vec::new();
    while let Some(item) = reader.next_item()? {
        items.push(item);
    }
    Ok((accesses(&items), items, reader.facts().clone()))
}

fn accesses(items: &[Item]) -> Vec<Access> {
    let access = |item: &Item| if let Item::Access(access) = item { Some(*access) } else { None };
    items.iter().filter_map(access).collect()
}

/// A recording as text.
fn text(name: &str) -> String {
    use std::io::Read as _;
    let file = std::fs::File::open(format!("tests/data/traces/power9-{name}.ftrace.txt.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}

#[test]
fn observed_hits_and_misses_equal_the_operation_lists() {
    for (name, count) in [("hot", 1188), ("cyclic5", 300), ("churn", 1124)] {
        let (items, facts) = recording(name);
        let observed: Vec<_> = accesses(&items).iter().map(|access| access.observed).collect();
        assert_eq!(observed.len(), count, "{name}");
        assert_eq!(observed, labels(name), "{name}");
        assert_eq!((facts.hits, facts.undecided, facts.assumed_page_size), (HitsKnown::Yes, 0, 0));
        assert_eq!(facts.notes().iter().filter(|note| note.contains("lost")).count(), 0);
    }
}

#[test]
fn every_removal_of_an_mmio_hpte_in_churn_moves_the_generation() {
    let (items, facts) = recording("churn");
    let removals = std::fs::read_to_string("tests/data/oracle/churn.txt").unwrap();
    let removals = removals.lines().filter(|line| line.starts_with('x')).count() as u64;
    assert_eq!((facts.generation_moves, removals), (76, 76));
    assert_eq!(items.iter().filter(|item| matches!(item, Item::Generation { .. })).count(), 76);
}

#[test]
fn a_fault_on_ram_with_a_memslot_is_no_access() {
    let (items, facts) = recording("churn");
    assert!(accesses(&items).iter().all(|access| access.gpa.0 >= 1 << 32));
    assert_eq!(facts.unfollowed_faults, 0);
}

#[test]
fn carriage_returns_change_nothing() {
    let plain = text("churn");
    let (_, items, _) = read(plain.as_bytes()).unwrap();
    let (_, same, _) = read(plain.replace('\n', "\r\n").as_bytes()).unwrap();
    assert_eq!(items, same);
}

#[test]
fn lines_wrapped_at_any_column_or_at_spaces_are_put_together() {
    let plain = text("churn");
    let (_, items, _) = read(plain.as_bytes()).unwrap();
    for width in [80, 97, 120] {
        let mut wrapped = String::new();
        for line in plain.lines() {
            let mut rest = line;
            // The header of an event is never cut: terminals are wider than that.
            while rest.len() > width && !line.starts_with('#') {
                let (piece, tail) = rest.split_at(width);
                wrapped += piece;
                wrapped.push('\n');
                rest = tail;
            }
            wrapped += rest;
            wrapped.push('\n');
        }
        let (_, same, facts) = read(wrapped.as_bytes()).unwrap();
        assert!(facts.wrapped > 1000, "{width}");
        assert_eq!(items, same, "{width}");
    }
    let spaced: String =
        plain.lines().map(|line| line.replace(" gpa=", "\ngpa=").replace(" is_store", "\nis_store") + "\n").collect();
    assert_eq!(items, read(spaced.as_bytes()).unwrap().1);
}

#[test]
fn a_recording_that_ends_within_a_line_leaves_that_line_out_and_says_so() {
    let plain = text("cyclic5");
    let last = plain.trim_end().rfind("is_store").unwrap();
    let (found, _, facts) = read(&plain.as_bytes()[..last + 4]).unwrap();
    assert!(facts.cut_end);
    assert_eq!(found.len(), 299);
    assert!(facts.notes().iter().any(|note| note.contains("ends within a line")));
}

#[test]
fn without_the_probe_hits_are_invisible_and_no_rate_is_made_of_that() {
    let plain: String =
        text("churn").lines().filter(|line| !line.contains("hv_mmio")).map(|line| format!("{line}\n")).collect();
    let (found, items, facts) = read(plain.as_bytes()).unwrap();
    assert_eq!((found.len(), facts.hits), (495, HitsKnown::MissesOnly));
    assert!(found.iter().all(|access| access.observed == Observed::Miss));
    assert!(facts.notes()[0].contains("hits are invisible"), "{:?}", facts.notes());
    assert_eq!(items.len(), 495 + 76);
}

#[test]
fn behind_lost_events_an_access_whose_fault_may_be_among_them_tells_nothing() {
    let plain = text("churn");
    let probe = plain.lines().position(|line| line.contains("hv_mmio")).unwrap();
    let mut lines: Vec<_> = plain.lines().collect();
    lines.insert(probe, "CPU:0 [LOST 17 EVENTS]");
    let (found, items, facts) = read((lines.join("\n") + "\n").as_bytes()).unwrap();
    assert_eq!(found[0].observed, Observed::Unknown);
    assert_eq!((found.len(), facts.undecided, facts.losses, facts.lost_events), (1124, 1, 1, 17));
    assert!(items.contains(&Item::Lost { events: 17 }));
    assert!(found[1..].iter().all(|access| access.observed != Observed::Unknown));
}

#[test]
fn a_buffer_that_was_overwritten_counts_as_events_lost_before_the_first_line() {
    let plain = text("hot").replacen("15285/15285", "15285/15300", 1);
    let (_, items, facts) = read(plain.as_bytes()).unwrap();
    assert_eq!((facts.losses, facts.lost_events), (1, 15));
    assert_eq!(items[0], Item::Lost { events: 15 });
}

#[test]
fn vcpus_are_told_apart_by_thread_also_when_they_share_a_cpu_or_change_it() {
    let plain = text("churn");
    let mut woven = String::new();
    for (i, line) in plain.lines().filter(|line| !line.starts_with('#')).enumerate() {
        woven += &(line.replace("[000]", &format!("[00{}]", i % 3)) + "\n");
        woven += &(line.replace("vmm-101", "CPU 1/KVM-102").replace("VCPU 0", "VCPU 1") + "\n");
    }
    let (found, _, facts) = read(woven.as_bytes()).unwrap();
    for vcpu in [0, 1] {
        let observed: Vec<_> =
            found.iter().filter(|access| access.vcpu == vcpu).map(|access| access.observed).collect();
        assert_eq!(observed, labels("churn"));
    }
    let told: Vec<_> = facts.vcpus.iter().map(|vcpu| (vcpu.vcpu, vcpu.pid, vcpu.vm)).collect();
    assert_eq!(told, [(Some(0), Some(101), 0), (Some(1), Some(102), 0)]);
}

#[test]
fn a_damaged_line_is_told_with_its_number_and_offset() {
    let plain = text("cyclic5");
    let at = plain.match_indices("gpa=0x").nth(100).unwrap().0;
    let damaged = format!("{}gpa=0z{}", &plain[..at], &plain[at + 6..]);
    let error = read(damaged.as_bytes()).unwrap_err().to_string();
    let line = plain[..at].matches('\n').count() + 1;
    assert!(error.starts_with(&format!("text:{line}: byte {}: ", plain[..at].rfind('\n').unwrap() + 1)), "{error}");
    let foreign = read(b"\x7fELF\x02\x01 nothing of the kind\nat all\n").unwrap_err().to_string();
    assert!(foreign.contains("oracleGeneral"), "{foreign}");
    assert!(read(b"").unwrap_err().to_string().contains("no event"));
}

#[test]
fn a_truncated_archive_is_an_error_not_a_short_recording() {
    let whole = std::fs::read("tests/data/traces/power9-hot.ftrace.txt.gz").unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &whole[..whole.len() / 2]).unwrap();
    let mut recording = Recording::open(file.path()).unwrap();
    let error = loop {
        match recording.next_item() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("taken for whole"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("cannot be read at byte"), "{error}");
}

#[test]
fn stack_traces_between_events_are_no_wrapped_lines() {
    let plain: String = text("churn").lines().map(|line| format!("{line}\n")).collect();
    let at = plain.find("hv_mmio").unwrap();
    let end = at + plain[at..].find('\n').unwrap() + 1;
    let traced = format!(
        "{}\tc00800000abc1234 kvmppc_hv_emulate_mmio+0xc ([kvm_hv])\n => ret_from_fork\n{}",
        &plain[..end],
        &plain[end..]
    );
    assert_eq!(read(plain.as_bytes()).unwrap().1, read(traced.as_bytes()).unwrap().1);
}

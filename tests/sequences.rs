//! Hazards written down as sequences: what the kernel does, and what the switch that mends it does.

use std::path::{Path, PathBuf};

use hvmmio::addr::KernelBehaviour;
use hvmmio::workload::sequence::{Label, Seen, Sequence, SequenceConfig, SequenceError, SequenceReport, run};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/sequences/{name}.txt"))
}

fn run_with(name: &str, switches: &[&str]) -> SequenceReport {
    let mut behaviour = KernelBehaviour::default();
    for switch in switches {
        behaviour.set(switch).unwrap();
    }
    let config = SequenceConfig { behaviour, ..SequenceConfig::default() };
    run(&Sequence::read(&path(name)).unwrap(), &config).unwrap()
}

fn agrees(name: &str) -> SequenceReport {
    let report = run_with(name, &[]);
    let first = report.first_disagreement.as_ref().map(|d| d.describe());
    assert!(report.agrees() && report.counts.labelled > 0, "{name}: {}", first.unwrap_or_default());
    report
}

/// The first operation that another switch makes different: its text, and what was seen.
fn first_difference(name: &str, switches: &[&str]) -> (String, Seen) {
    let report = run_with(name, switches);
    let step = report.first_disagreement.unwrap_or_else(|| panic!("{name} {switches:?} makes no difference")).step;
    (step.op, step.seen)
}

#[test]
fn key31_ram_paged_out_is_ram_every_time_with_patch_1() {
    let report = agrees("key31-ram-paged-out");
    assert_eq!((report.ram_as_mmio.count, report.ram_as_mmio.first_gpa), (0, None));
    assert!(report.switches.is_empty());
}

#[test]
fn key31_ram_paged_out_is_taken_for_mmio_without_patch_1_and_the_report_shows_where() {
    let report = run_with("key31-ram-paged-out", &["key_on_page_out=kept"]);
    assert_eq!(report.switches, [("key_on_page_out", "kept")]);
    // The second access after a page-out and the load after it: both hit, at the address of RAM page 0.
    assert_eq!(report.ram_as_mmio.count, 2);
    assert_eq!(report.ram_as_mmio.first_gpa, Some(0x40));
    let step = &report.first_disagreement.as_ref().unwrap().step;
    assert_eq!((step.op.as_str(), step.seen, step.ram_as_mmio), ("store r0", Seen::Hit, true));
    assert_eq!(report.ram_as_mmio.first_line, Some(step.line));
}

#[test]
fn generation_reset_h0a_hits_at_the_old_generation_and_a_bump_instead_mends_it() {
    agrees("generation-reset-new-order");
    let (op, seen) = first_difference("generation-reset-new-order", &["generation_on_new_hpt=bumped"]);
    assert_eq!((op.as_str(), seen), ("l0", Seen::Reflected));
}

#[test]
fn generation_reset_h0b_hits_without_an_hpte_and_a_bump_instead_mends_it() {
    agrees("generation-reset-same-order");
    let (op, seen) = first_difference("generation-reset-same-order", &["generation_on_new_hpt=bumped"]);
    assert_eq!((op.as_str(), seen), ("l0", Seen::Reflected));
}

#[test]
fn memslot_over_cached_page_h3_sends_ram_to_the_emulator_until_a_bump() {
    let report = agrees("memslot-over-cached-page");
    assert_eq!(report.ram_as_mmio.count, 2);
    let mended = run_with("memslot-over-cached-page", &["fill_when_memslot_backed=no"]);
    assert_eq!((mended.ram_as_mmio.count, mended.first_disagreement.unwrap().step.seen), (0, Seen::Ram));
}

#[test]
fn key31_protfault_fill_h4_evicts_a_useful_entry() {
    let report = agrees("key31-protfault-fill");
    assert_eq!(report.steps.last().unwrap().detail, Some("capacity"));
    let (op, seen) = first_difference("key31-protfault-fill", &["fill_on_protection_fault=no"]);
    assert_eq!((op.as_str(), seen), ("p0", Seen::Hit));
}

#[test]
fn valid_doubleword_cached_h4_ends_with_retries_for_ever_not_with_a_hang() {
    agrees("valid-doubleword-cached");
    let (op, seen) = first_difference("valid-doubleword-cached", &["fill_on_protection_fault=no"]);
    assert_eq!((op.as_str(), seen), ("store r0", Seen::Ram));
}

#[test]
fn delete_then_mmio_never_cached_h6_misses_until_the_page_is_entered_again() {
    let report = agrees("delete-then-mmio-never-cached");
    let classes: Vec<_> = report.steps.iter().filter(|s| s.seen == Seen::Miss).filter_map(|s| s.detail).collect();
    assert_eq!(classes[..5], ["never cacheable"; 5]);
    let (op, seen) = first_difference("delete-then-mmio-never-cached", &["key_on_memslot_delete=mmio"]);
    assert_eq!((op.as_str(), seen), ("l0", Seen::Hit));
}

#[test]
fn an_operation_prints_as_a_file_spells_it_so_that_a_sequence_survives_a_round_trip() {
    let text = "p0 hit\nl1023 miss\nx7\nstore r1 ram\nload r0\nenter m2\nenter r2 key 31\nremove m2\n\
                bulk-remove m0 m1 r0 m3\nprotect m4 ro\nprotect r4 rw\nread m1\nclear-ref m1\nclear-mod r1\n\
                page-out r1\npage-in r1\nmemslot-create m9\nmemslot-delete m9\ndirty-log on\ndirty-log off\n\
                new-hpt 19\nreset-hpt\np1 reflected\np1 retries\n";
    let parsed = Sequence::parse("all", text).unwrap();
    let again: String = parsed
        .lines()
        .iter()
        .map(|l| format!("{}{}\n", l.op, l.label.map(|l| format!(" {l}")).unwrap_or_default()))
        .collect();
    assert_eq!(again, text);
    assert_eq!(Sequence::parse("all", &text.replace('\n', "\r\n")).unwrap(), parsed, "CRLF is no error");
}

#[test]
fn a_file_error_names_the_line_what_is_wrong_and_what_would_be_right() {
    for (text, line, wrong, right) in [
        ("p0 hit\nq3\n", 2, "`q3`", "pN, lN or xN"),
        ("p\n", 1, "`p`", "page number"),
        ("p-1\n", 1, "`p-1`", "page number"),
        ("\u{e9}1\n", 1, "\u{e9}1", "page number"),
        ("# comment\n\np1024\n", 3, "1024", "0 to 1023"),
        ("l99999999999999999999\n", 1, "99999999999999999999", "0 to 1023"),
        ("p0 hitt\n", 1, "`hitt`", "hit, miss"),
        ("p0 miss hit\n", 1, "`miss`", "hit, miss"),
        ("hit\n", 1, "`hit`", "pN, lN or xN"),
        ("store 3\n", 1, "`3`", "mN or rN"),
        ("store\n", 1, "store", "mN or rN"),
        ("enter r0 key 32\n", 1, "`32`", "0 to 31"),
        ("enter r0 key\n", 1, "enter", "0 to 31"),
        ("protect m0 rx\n", 1, "`rx`", "`ro` or `rw`"),
        ("bulk-remove m0 m1 m2 m3 m4\n", 1, "`m4`", "one to four"),
        ("memslot-create r0\n", 1, "`r0`", "mN"),
        ("dirty-log maybe\n", 1, "`maybe`", "`on` or `off`"),
        ("new-hpt\n", 1, "new-hpt", "19"),
    ] {
        let error = Sequence::parse("f.txt", text).unwrap_err().to_string();
        for part in [&format!("f.txt:{line}: "), wrong, right] {
            assert!(error.contains(part), "{text:?}: {error:?} lacks {part:?}");
        }
    }
}

#[test]
fn an_empty_file_a_binary_one_and_a_missing_one_are_errors_in_words() {
    for text in ["", "\n\n", "# only a comment\n"] {
        assert!(matches!(Sequence::parse("f", text), Err(SequenceError::Empty { .. })));
    }
    let error = Sequence::parse_bytes("f", b"p0\np1\n\xff\xfe\n").unwrap_err().to_string();
    assert!(error.contains("f:3") && error.contains("UTF-8"), "{error}");
    let error = Sequence::read(&path("none")).unwrap_err().to_string();
    assert!(error.contains("none.txt") && error.contains("cannot be read"), "{error}");
}

#[test]
fn an_operation_the_vm_cannot_do_stops_the_run_with_its_line_and_one_the_guest_cannot_does_not() {
    let bad = Sequence::parse("f", "p0\nnew-hpt 17\n").unwrap();
    let error = run(&bad, &SequenceConfig::default()).unwrap_err().to_string();
    assert!(error.contains("f:2: new-hpt 17") && error.contains("18"), "{error}");
    let twice = Sequence::parse("f", "remove m0\nremove m0\np0 reflected\n").unwrap();
    let report = run(&twice, &SequenceConfig::default()).unwrap();
    assert_eq!((report.steps[1].seen, report.steps[1].detail), (Seen::Refused, Some("H_NOT_FOUND")));
    assert!(report.agrees());
    assert_eq!(report.steps[2].expected, Some(Label::Reflected));
}

//! Scenario files: what is wrong is told with file, line and what would be right.

use hvmmio::sim::scenario::BUILT_IN;
use hvmmio::sim::{Scenario, ScenarioError};

const GOOD: &str = r#"name = "n"
description = "d"
machine = "power8-2016"

[cache]
entries = 4

[guest]
vcpus = 1
devices = 4
layout = "modern"

[notify]
kind = "ioeventfd"
length = 2

[doorbells]
count = 1000
"#;

fn refused(text: &str) -> String {
    let error = Scenario::parse("some/file.toml", text, None).map(|_| ()).unwrap_err();
    error.to_string()
}

/// The good text with one line for another: refused at that line, in words that say what would be right.
fn at_line(from: &str, to: &str, words: &[&str]) {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    let line = text.lines().position(|line| line == to.lines().next().unwrap_or_default()).unwrap() + 1;
    let error = refused(&text);
    assert!(error.starts_with(&format!("some/file.toml:{line}: ")), "{to}: {error}");
    for word in words {
        assert!(error.contains(word), "{to}: {error}, without {word}");
    }
}

#[test]
fn the_shipped_scenarios_and_the_good_text_are_taken() {
    assert!(Scenario::parse("some/file.toml", GOOD, None).is_ok());
    for (name, _) in BUILT_IN {
        assert_eq!(Scenario::load(name).unwrap().name, *name);
    }
}

#[test]
fn an_unknown_key_is_told_with_those_that_there_are() {
    at_line("entries = 4", "entires = 4", &["entires", "entries"]);
    at_line("count = 1000", "rounds = 2\ncount = 1000", &["rounds", "pattern"]);
}

#[test]
fn a_number_out_of_range_is_told_with_the_range() {
    at_line("entries = 4", "entries = -1", &["-1"]);
    at_line("entries = 4", "entries = 9223372036854775807", &["9223372036854775807", "1024"]);
    at_line("entries = 4", "entries = 9223372036854775808", &[]);
    at_line("entries = 4", "entries = 1025", &["1025", "1024"]);
    at_line("vcpus = 1", "vcpus = 0", &["vcpus = 0", "1 to 1024"]);
    at_line("devices = 4", "devices = 1025", &["devices = 1025", "1 to 1024"]);
    at_line("length = 2", "length = 3", &["0, 1, 2, 4 or 8"]);
    at_line("count = 1000", "count = 0", &["1 to 2^40"]);
    at_line("vcpus = 1", "hpt_order = 60", &["18 to 46"]);
}

#[test]
fn a_word_that_is_none_is_told_with_the_words_that_there_are() {
    at_line("layout = \"modern\"", "layout = \"newest\"", &["legacy", "modern"]);
    at_line("kind = \"ioeventfd\"", "kind = \"irqfd\"", &["exit", "coalesced"]);
    at_line("machine = \"power8-2016\"", "machine = \"power99\"", &["power8-2016", ".toml"]);
    at_line("entries = 4", "policy = \"newest\"", &["lru", "sieve"]);
}

#[test]
fn options_that_do_not_go_together_are_told() {
    at_line("length = 2", "poll_us = 5", &["coalesced"]);
    let text = GOOD.replace("kind = \"ioeventfd\"", "kind = \"exit\"");
    assert!(refused(&text).contains("some/file.toml:15: length goes with"), "{}", refused(&text));
}

#[test]
fn a_scenario_without_a_machine_or_a_name_is_told_what_it_lacks() {
    for key in ["machine", "name", "description"] {
        let text: String = GOOD.lines().filter(|line| !line.starts_with(key)).map(|line| format!("{line}\n")).collect();
        let error = refused(&text);
        assert!(
            error.starts_with("some/file.toml:1: ") && error.contains(&format!("missing field `{key}`")),
            "{error}"
        );
    }
}

#[test]
fn exactly_one_workload_is_asked_for() {
    let none = GOOD.replace("[doorbells]\ncount = 1000\n", "");
    let two = format!("{GOOD}\n[netperf]\ntest = \"TCP_RR\"\n");
    for text in [none, two] {
        let error = refused(&text);
        assert!(error.starts_with("some/file.toml:") && error.contains("exactly one workload table"), "{error}");
        assert!(error.contains("[fio], [netperf], [doorbells] or [sequence]"), "{error}");
    }
}

#[test]
fn a_file_that_is_none_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let load = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        Scenario::load(path.to_str().unwrap()).map(|_| ()).unwrap_err().to_string()
    };
    let empty = load("empty.toml", b" \n");
    assert!(empty.contains("empty.toml: empty") && empty.contains("name, description, machine"), "{empty}");
    let bytes = load("bytes.toml", b"name = \"n\"\n# \xff\n");
    assert!(bytes.contains("bytes.toml:2: not UTF-8"), "{bytes}");
    let broken = load("broken.toml", b"name = \"n\"\nvcpus = = 3\n");
    assert!(broken.contains("broken.toml:2:"), "{broken}");
    let missing = folder.path().join("missing.toml");
    let error = Scenario::load(missing.to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains("missing.toml: cannot be read"), "{error}");
    let unknown = Scenario::load("fio-null-blok").unwrap_err();
    assert!(matches!(unknown, ScenarioError::Unknown { .. }));
    assert!(unknown.to_string().contains("fio-null-blk, fio-coalesced"), "{unknown}");
}

#[test]
fn what_is_wrong_in_a_file_that_a_scenario_names_is_told_with_that_file() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let load = |text: &str| {
        write("s.toml", text);
        Scenario::load(folder.path().join("s.toml").to_str().unwrap()).map(|_| ()).unwrap_err().to_string()
    };
    let of = |table: &str| GOOD.replace("[doorbells]\ncount = 1000\n", table);
    write("job.fio", "[j]\nrw=randread\nbs=0\n");
    let error = load(&of("[fio]\njob = \"job.fio\"\n"));
    assert!(error.contains("job.fio:3:"), "{error}");
    write("steps.txt", "enter r0\nfly r1\n");
    let error = load(&of("[sequence]\nfile = \"steps.txt\"\n"));
    assert!(error.contains("steps.txt:2:"), "{error}");
    write("m.toml", "name = \"m\"\n");
    let error = load(&GOOD.replace("power8-2016", "m.toml"));
    assert!(error.contains("m.toml:"), "{error}");
    let error = load(&of("[netperf]\ntest = \"TCP_STREAM\"\n"));
    assert!(error.contains("s.toml:17:") && error.contains("TCP_RR is"), "{error}");
}

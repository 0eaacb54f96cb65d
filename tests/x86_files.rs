//! Machine models and scenarios of kind x86: what is wrong is told with file, line and what would be right.

use hvmmio::machine::{BUILT_IN, Machine};
use hvmmio::proof::{calibrate, calibrate_x86};
use hvmmio::sim::Scenario;

fn model(name: &str) -> &'static str {
    BUILT_IN.iter().find(|(known, _)| *known == name).unwrap().1
}

/// A model with one text for another is refused at the line that has it, with these words.
fn model_refused(name: &str, from: &str, to: &str, words: &[&str]) {
    let text = model(name);
    assert!(text.contains(from), "{from}");
    let text = text.replacen(from, to, 1);
    let error = Machine::parse("m.toml", &text).unwrap_err().to_string();
    assert!(error.starts_with("m.toml:"), "{error}");
    for word in words {
        assert!(error.contains(word), "{to}: {error}, without {word}");
    }
    let line: usize = error.split(':').nth(1).unwrap().parse().unwrap();
    let changed = text[..text.find(to).unwrap()].matches('\n').count() + 1;
    // The changed line, or the header of its table.
    assert!((changed - 1..=changed).contains(&line), "{to}: line {line}, not {changed}: {error}");
}

#[test]
fn a_model_has_the_stages_of_its_kind_and_no_others() {
    let amd = "x86-2007-amd-x2";
    model_refused(amd, "[stage.ring-store]", "[stage.hpt-search]", &["hpt-search", "no stage cost", "ring-store"]);
    model_refused(amd, "[around.interrupt]", "[around.block-submit]", &["block-submit", "interrupt, pci-config"]);
    model_refused(amd, "kind = \"x86\"", "kind = \"s390\"", &["s390", "book3s-hv", "x86"]);
    let bare = |name| model(name).split("\n[fit]").next().unwrap();
    let other = bare(amd).replace("kind = \"x86\"", "kind = \"book3s-hv\"");
    let error = Machine::parse("m.toml", &other).unwrap_err().to_string();
    assert!(error.contains("no stage cost") && error.contains("hpt-search"), "{error}");
    let other = format!("kind = \"x86\"\n{}", bare("power8-2016"));
    let error = Machine::parse("m.toml", &other).unwrap_err().to_string();
    assert!(error.contains("no stage cost") && error.contains("prepare-entry"), "{error}");
}

#[test]
fn noise_and_fit_of_an_x86_model_are_checked() {
    let qemu = "x86-2018-qemu-win7";
    model_refused(qemu, "value = 3.225806", "value = 0.5", &["cold", "0.5", "1 to 1000"]);
    model_refused(qemu, "[noise.share]", "[noise.shares]", &["shares", "share"]);
    model_refused(qemu, "figures = \"coalesced_pio\"", "figures = \"coalesced\"", &["coalesced_pio", "pci_config"]);
    model_refused(qemu, "[fit.sums.stored]", "[fit.sums.storing]", &["storing", "stored, user-space"]);
    model_refused(qemu, "kernel-io = 0.25", "kernel-io = 0.26", &["add up to 1"]);
    model_refused(qemu, "kernel-io = 0.25", "kernel_io = 0.25", &["kernel_io", "name a stage"]);
    let noise = model(qemu).split("[noise.share]").nth(1).unwrap().split("[fit]").next().unwrap();
    let power = model("power8-2016").replacen("[fit]", &format!("[noise.share]{noise}\n[fit]"), 1);
    let error = Machine::parse("p.toml", &power).unwrap_err().to_string();
    assert!(error.contains("goes with kind = \"x86\" only"), "{error}");
}

#[test]
fn the_shipped_models_are_what_the_fit_gives_from_them_and_from_spoilt_ones() {
    for (name, text) in BUILT_IN.iter().filter(|(name, _)| name.starts_with("x86")) {
        assert_eq!(calibrate_x86(name, text).unwrap().text, *text, "{name}");
        let fitted = |text: &str| -> String {
            // Every fitted figure is 7 to begin with.
            let lines: Vec<_> = text.lines().collect();
            let spoil = |(i, line): (usize, &&str)| match (line.split_once(" = "), lines.get(i + 1)) {
                (Some((key @ ("ns" | "value"), _)), Some(&"kind = \"fitted\"")) => format!("{key} = 7.0\n"),
                _ => format!("{line}\n"),
            };
            lines.iter().enumerate().map(spoil).collect()
        };
        let spoilt = fitted(text);
        assert_ne!(spoilt, *text);
        assert_eq!(calibrate_x86(name, &spoilt).unwrap().text, *text, "{name}");
    }
}

#[test]
fn a_fit_of_the_other_kind_or_with_nothing_left_is_refused_in_words() {
    let (amd, power) = (model("x86-2007-amd-x2"), model("power8-2016"));
    assert!(calibrate("m.toml", amd).unwrap_err().to_string().contains("fio_rest"));
    assert!(calibrate_x86("m.toml", power).unwrap_err().to_string().contains("[fit.sums.*]"));
    let slow = amd.replace("[stage.in-kernel-device]\nns = 30.0", "[stage.in-kernel-device]\nns = 3000.0");
    assert_ne!(slow, amd);
    let error = calibrate_x86("m.toml", &slow).unwrap_err().to_string();
    assert!(error.contains("[fit.sums.kernel]") && error.contains("more than the published rows allow"), "{error}");
    // A sum whose stages the figure does not pass.
    let beside = amd.replace("user-device = 1.0", "emulate-insn = 1.0");
    assert!(calibrate_x86("m.toml", &beside).is_err());
}

const PIO: &str = r#"name = "n"
description = "d"
machine = "x86-2007-amd-x2"

[pio]
port = 0x80
size = 1
count = 1000
"#;

fn refused(text: &str) -> String {
    Scenario::parse("some/file.toml", text, None).map(|_| ()).unwrap_err().to_string()
}

fn at_line(good: &str, from: &str, to: &str, words: &[&str]) {
    assert!(good.contains(from), "{from}");
    let text = good.replacen(from, to, 1);
    let line = text.lines().position(|line| Some(line) == to.lines().next()).unwrap() + 1;
    let error = refused(&text);
    assert!(error.starts_with(&format!("some/file.toml:{line}: ")), "{to}: {error}");
    for word in words {
        assert!(error.contains(word), "{to}: {error}, without {word}");
    }
}

#[test]
fn a_pio_table_is_checked_key_by_key() {
    assert!(Scenario::parse("some/file.toml", PIO, None).is_ok());
    at_line(PIO, "port = 0x80", "port = 65536", &["65536", "0 to 65535"]);
    at_line(PIO, "port = 0x80", "port = -1", &["-1"]);
    at_line(PIO, "size = 1", "size = 8", &["1, 2 or 4"]);
    at_line(PIO, "count = 1000", "count = 0", &["1 to"]);
    at_line(PIO, "count = 1000", "string = 0\ncount = 1000", &["string = 0"]);
    at_line(PIO, "count = 1000", "string = 9999999\ncount = 1000", &["1048576"]);
    at_line(PIO, "count = 1000", "modes = []\ncount = 1000", &["at least one"]);
    at_line(PIO, "count = 1000", "modes = [\"coalesce\"]\ncount = 1000", &["coalesce", "coalesced", "in-kernel"]);
    at_line(PIO, "count = 1000", "direction = \"up\"\ncount = 1000", &["out", "in"]);
    at_line(PIO, "count = 1000", "counts = 1000", &["counts", "count"]);
    // A dword at the last ports would reach beyond them.
    let wide = PIO.replace("size = 1", "size = 4");
    at_line(&wide, "port = 0x80", "port = 0xfffd", &["0 to 65532"]);
}

#[test]
fn an_rtc_table_is_checked_key_by_key() {
    let good = PIO.split("[pio]").next().unwrap().to_owned() + "[rtc]\nrate_hz = 64\nduration_s = 1\n";
    assert!(Scenario::parse("some/file.toml", &good, None).is_ok());
    at_line(&good, "rate_hz = 64", "rate_hz = 100", &["power of two from 2 to 8192"]);
    at_line(&good, "rate_hz = 64", "rate_hz = 16384", &["2 to 8192"]);
    at_line(&good, "duration_s = 1", "duration_s = 0", &["more than 0"]);
    at_line(&good, "duration_s = 1", "duration_s = nan", &["86400"]);
    at_line(&good, "duration_s = 1", "pm_timer_reads = 1001\nduration_s = 1", &["0 to 1000"]);
}

#[test]
fn a_pci_table_is_checked_key_by_key() {
    let head = PIO.split("[pio]").next().unwrap().to_owned();
    let scan = format!("{head}[pci]\ntask = \"scan\"\ndevices = 8\n");
    assert_eq!(Scenario::parse("some/file.toml", &scan, None).unwrap().devices, 8);
    at_line(&scan, "task = \"scan\"", "task = \"probe\"", &["probe", "scan", "raw-read"]);
    at_line(&scan, "devices = 8", "devices = 0", &["1 to 248"]);
    at_line(&scan, "devices = 8", "devices = 249", &["1 to 248"]);
    at_line(&scan, "devices = 8", "reads = 8", &["raw-read"]);
    at_line(&scan, "devices = 8", "register = 8", &["raw-read"]);
    at_line(&scan, "devices = 8", "methods = []", &["at least one"]);
    at_line(&scan, "devices = 8", "methods = [\"type2\"]", &["type2", "type1-ecam"]);
    at_line(&scan, "devices = 8", "attachment = \"isa\"", &["isa", "conventional", "express"]);
    at_line(&scan, "devices = 8", "read_only_slots = \"none\"", &["none", "absent", "present"]);
    let raw = format!("{head}[pci]\ntask = \"raw-read\"\nregister = 0\nreads = 5\n");
    assert!(Scenario::parse("some/file.toml", &raw, None).is_ok());
    at_line(&raw, "register = 0", "register = 2", &["0x2"]);
    at_line(&raw, "register = 0", "register = 4096", &["0x1000"]);
    at_line(&raw, "reads = 5", "reads = 0", &["1 to"]);
}

#[test]
fn a_mixed_table_is_checked_key_by_key() {
    let good = PIO.split("[pio]").next().unwrap().to_owned() + "[mixed]\ncount = 10\n[mixed.weights]\nin = 1\n";
    assert!(Scenario::parse("some/file.toml", &good, None).is_ok());
    at_line(&good, "count = 10", "count = 0", &["1 to"]);
    at_line(&good, "in = 1", "in = -1", &["-1"]);
    // Of weights that parse, the error is at their table.
    for (weight, word) in [("in = 0", "all weights are 0"), ("inn = 1", "out-exit"), ("in = 1000001", "1000000")] {
        let error = refused(&good.replace("in = 1", weight));
        assert!(error.starts_with("some/file.toml:7: ") && error.contains(word), "{error}");
    }
}

#[test]
fn a_workload_that_does_not_fit_the_machines_kind_is_refused_with_file_and_line() {
    let power = "machine = \"power8-2016\"";
    let error = refused(&PIO.replace("machine = \"x86-2007-amd-x2\"", power));
    assert!(error.starts_with("some/file.toml:5: [pio] needs a machine of kind x86; power8-2016 is"), "{error}");
    let doorbells = PIO.split("[pio]").next().unwrap().to_owned() + "[doorbells]\ncount = 10\n";
    let error = refused(&doorbells);
    assert!(error.starts_with("some/file.toml:5: [doorbells] needs a machine of kind book3s-hv"), "{error}");
    for table in ["[cache]\nentries = 4", "[guest]\nvcpus = 2", "[notify]\nkind = \"exit\""] {
        let error = refused(&format!("{PIO}\n{table}\n"));
        assert!(error.starts_with("some/file.toml:10: ") && error.contains("book3s-hv"), "{table}: {error}");
    }
}

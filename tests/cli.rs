//! The command as a person types it: exit codes, messages, files.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use tempfile::TempDir;

fn hvmmio(args: &[&str]) -> (i32, String, String) {
    let output = Command::cargo_bin("hvmmio").unwrap().env("NO_COLOR", "1").args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Messages are wrapped for the reader: compare words, not lines.
fn words(text: &str) -> String {
    text.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn refused(args: &[&str], expected: &[&str]) {
    let (code, stdout, stderr) = hvmmio(args);
    assert_eq!(code, 2, "{args:?}: {stderr}");
    assert!(stdout.is_empty(), "{args:?} printed a report: {stdout}");
    for part in expected {
        assert!(words(&stderr).contains(part), "{args:?} should say `{part}`: {stderr}");
    }
}

fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    path.display().to_string()
}

/// A short scenario, to be made wrong.
const SCENARIO: &str = r#"name = "short"
description = "a short stream"
machine = "power8-2016"

[guest]
devices = 2
layout = "modern"

[doorbells]
count = 1000
"#;

#[test]
fn modern_devices_hit_up_to_four_and_never_from_five_on() {
    for (devices, hits) in [("1", 999), ("4", 996), ("5", 0), ("8", 0)] {
        let folder = TempDir::new().unwrap();
        let scenario = write(&folder, "short.toml", SCENARIO);
        let (code, stdout, _) = hvmmio(&["run", &scenario, "--devices", devices, "--format", "json"]);
        assert_eq!(code, 0);
        let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(report["runs"][1]["hits"], hits, "{devices} devices");
        assert_eq!(report["runs"][0]["uncached"], 1000);
    }
}

#[test]
fn a_kept_key_is_told_with_count_and_address_and_a_cleared_one_never() {
    let (code, stdout, _) = hvmmio(&["run", "key31-page-out", "--set", "key_on_page_out=kept"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("1 access(es) to RAM taken for MMIO, the first at guest physical address 0x"), "{stdout}");
    assert!(stdout.contains("key_on_page_out=kept"), "the report names the switch: {stdout}");
    let (_, stdout, _) = hvmmio(&["run", "key31-page-out"]);
    assert!(!stdout.contains("RAM taken for MMIO"), "{stdout}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_every_format_has_its_form() {
    let folder = TempDir::new().unwrap();
    let scenario = write(&folder, "short.toml", SCENARIO);
    for format in ["table", "json", "csv"] {
        let args = ["run", &scenario, "--policy", "random", "--entries", "1", "--format", format];
        assert_eq!(hvmmio(&args), hvmmio(&args));
    }
    let (_, csv, _) = hvmmio(&["run", &scenario, "--format", "csv"]);
    assert!(csv.starts_with("subject,quantity,value,unit,standing\n"));
}

#[test]
fn a_sequence_that_disagrees_exits_with_1_and_shows_the_first_with_the_caches_state() {
    let (code, stdout, _) = hvmmio(&["sequence", "tests/data/oracle/cyclic5.txt"]);
    assert_eq!(code, 0, "{stdout}");
    let (code, stdout, _) = hvmmio(&["sequence", "tests/data/oracle/cyclic5.txt", "--entries", "5"]);
    assert_eq!(code, 1);
    assert!(stdout.contains("first disagreement") && stdout.contains("generation"), "{stdout}");
}

#[test]
fn list_names_every_built_in_scenario_and_each_of_them_loads() {
    let (code, stdout, _) = hvmmio(&["list"]);
    assert_eq!(code, 0);
    for (name, _) in hvmmio::sim::scenario::BUILT_IN {
        assert!(stdout.contains(name));
        assert!(hvmmio::sim::Scenario::load(name).is_ok(), "{name}");
    }
}

#[test]
fn absurd_values_are_refused_with_their_range() {
    refused(&["run", "doorbells", "--entries", "9223372036854775808"], &["0 (off) to 1024"]);
    refused(&["run", "doorbells", "--entries", "-1"], &["--entries"]);
    refused(&["run", "doorbells", "--vcpus", "0"], &["vcpus = 0", "1 to 1024"]);
    refused(&["run", "doorbells", "--devices", "100000"], &["1 to 1024"]);
    refused(&["run", "doorbells", "--policy", "lfu"], &["lfu", "sieve"]);
    refused(&["run", "doorbells", "--layout", "flat"], &["flat", "modern"]);
    refused(&["run", "doorbells", "--kernel", "linux-2.6"], &["linux-6.12"]);
    refused(&["run", "doorbells", "--set", "key_on_page_out=lost"], &["cleared, kept"]);
    refused(&["run", "no-such-scenario"], &["fio-null-blk"]);
    refused(&["reproduce", "iperf"], &["fio, netperf, coalesced-pio, pio-latency, pci-config"]);
    refused(&["run"], &["SCENARIO"]);
}

#[test]
fn flags_that_mean_nothing_on_a_kind_of_machine_are_refused_rather_than_ignored() {
    refused(&["run", "doorbells", "--mode", "coalesced"], &["--mode means nothing", "book3s-hv"]);
    for flag in [
        ["--entries", "4"].as_slice(),
        &["--policy", "lru"],
        &["--vcpus", "2"],
        &["--devices", "2"],
        &["--layout", "modern"],
        &["--no-baseline"],
    ] {
        let args = [&["run", "rtc-tick"], flag].concat();
        refused(&args, &[flag[0], "means nothing", "x86"]);
    }
    refused(&["run", "pio-timeline", "--mode", "fast"], &["fast", "regs-every-exit"]);
    refused(&["reproduce", "fio", "--machine", "x86-2007-amd-x2"], &["does not run on a machine of kind x86"]);
}

#[test]
fn configuration_methods_stand_side_by_side_and_flags_of_other_workloads_are_refused() {
    let (code, stdout, _) = hvmmio(&["run", "pci-scan", "--devices", "3", "--method", "type1", "--method", "ecam"]);
    assert_eq!(code, 0);
    let header = words(stdout.lines().find(|line| line.contains("simulated")).unwrap());
    assert_eq!(header, "simulated type1 ecam");
    let line = |name: &str| words(stdout.lines().find(|line| line.trim().starts_with(name)).unwrap());
    assert_eq!(line("functions found"), "functions found 4 4");
    assert_eq!(line("exits per read"), "exits per read 2.00 1.00");
    refused(&["run", "pci-scan", "--devices", "249"], &["1 to 248"]);
    refused(&["run", "pci-scan", "--mode", "coalesced"], &["--mode means nothing", "pci workload"]);
    refused(&["run", "pci-scan", "--entries", "4"], &["--entries means nothing", "x86"]);
    refused(&["run", "rtc-tick", "--method", "ecam"], &["--method means nothing", "rtc workload"]);
    refused(&["run", "pci-scan", "--method", "cam"], &["cam", "type1-coalesced", "ecam-read-only"]);
    let folder = TempDir::new().unwrap();
    let far = "name = \"far\"\ndescription = \"d\"\nmachine = \"x86-2022-vmware\"\n[pci]\ntask = \"raw-read\"\nregister = 0x100\n";
    refused(&["run", &write(&folder, "far.toml", far)], &["type1 does not reach", "use ecam"]);
}

#[test]
fn all_published_figures_stand_in_one_table_and_each_benchmark_has_its_details() {
    let (code, all, _) = hvmmio(&["reproduce"]);
    assert_eq!(code, 0);
    for benchmark in ["fio", "netperf", "coalesced-pio", "pio-latency", "pci-config"] {
        assert!(all.contains(&format!(" {benchmark} ")), "{all}");
        assert!(all.contains(&format!("{benchmark}: published in")), "{all}");
    }
    assert!(all.matches("predicted").count() > 10 && !all.contains("inf") && !all.contains("NaN"), "{all}");
    let (code, perf, _) = hvmmio(&["reproduce", "coalesced-pio"]);
    assert_eq!(code, 0);
    let published =
        "0x70:POUT         86    30.99%    74.59%      9.00us     29.00us     10.75us ( +-   3.41% )  published";
    assert!(perf.contains(published), "{perf}");
    assert_eq!(perf.matches("  simulated\n").count(), 4, "{perf}");
    for format in ["json", "csv"] {
        assert_eq!(hvmmio(&["reproduce", "pci-config", "--format", format]).0, 0);
    }
}

#[test]
fn a_machine_model_reproduces_what_it_is_of_and_is_refused_for_the_other_kind() {
    let (code, stdout, _) = hvmmio(&["reproduce", "--machine", "x86-2007-amd-x2"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("pio-latency handled in kernel") && !stdout.contains("coalesced-pio"), "{stdout}");
    refused(&["reproduce", "pci-config", "--machine", "power8-2016"], &["does not run on a machine of kind book3s-hv"]);
    let folder = TempDir::new().unwrap();
    let text = fs::read_to_string("models/machines/x86-2007-amd-x2.toml").unwrap();
    let bare = write(&folder, "bare.toml", text.split("\n[fit]").next().unwrap());
    refused(&["reproduce", "--machine", &bare], &["has no [fit]", "name a benchmark"]);
    let (code, stdout, _) = hvmmio(&["reproduce", "pio-latency", "--machine", &bare]);
    assert_eq!((code, stdout.matches(" fitted ").count() > 5), (0, true), "its stages are fitted");
    assert_eq!(stdout.matches(" predicted ").count(), 5, "its figures are of another fit: {stdout}");
}

#[test]
fn port_modes_stand_side_by_side_and_exits_look_as_perf_prints_them() {
    let (code, stdout, _) = hvmmio(&["run", "pio-timeline"]);
    assert_eq!(code, 0);
    let header = words(stdout.lines().find(|line| line.contains("simulated")).unwrap());
    assert_eq!(header, "simulated regs-every-exit regs-when-needed in-kernel coalesced");
    assert!(!stdout.contains("hit rate") && !stdout.contains("cache"), "{stdout}");
    let (code, stdout, _) = hvmmio(&["run", "rtc-tick", "--mode", "coalesced", "--seed", "3"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("exits, coalesced") && !stdout.contains("regs-when-needed"), "{stdout}");
    assert!(stdout.contains("0x70:POUT        639    33.33%"), "{stdout}");
    for format in ["json", "csv"] {
        assert_eq!(hvmmio(&["run", "rtc-tick", "--format", format]).0, 0);
    }
}

#[test]
fn a_bad_scenario_file_is_refused_with_file_line_and_what_would_be_right() {
    let folder = TempDir::new().unwrap();
    let bad = |from: &str, to: &str| write(&folder, "bad.toml", SCENARIO.replacen(from, to, 1));
    refused(&["run", &bad("devices = 2", "devcies = 2")], &["bad.toml:6", "devcies", "devices"]);
    refused(&["run", &bad("devices = 2", "devices = -2")], &["bad.toml:6"]);
    refused(&["run", &bad("devices = 2", "devices = 0")], &["bad.toml:6", "1 to 1024"]);
    refused(&["run", &bad("machine = \"power8-2016\"", "machine = \"vax\"")], &["bad.toml:3", "vax", "power8-2016"]);
    refused(&["run", &bad("count = 1000", "count = 0")], &["bad.toml:10", "count = 0"]);
    refused(&["run", &bad("[doorbells]\ncount = 1000\n", "")], &["[fio], [netperf], [doorbells]"]);
    refused(&["run", &bad("count = 1000", "count = 1000\n[netperf]\ntest = \"TCP_RR\"")], &["exactly one"]);
    refused(&["run", &bad("[guest]", "[cache]\nentries = 9223372036854775808\n[guest]")], &["bad.toml:6"]);
    refused(&["run", &write(&folder, "empty.toml", "")], &["empty.toml", "empty"]);
    refused(&["run", &write(&folder, "latin.toml", b"name = \"\xe9\"\n")], &["latin.toml:1", "UTF-8"]);
    refused(&["run", "missing.toml"], &["missing.toml", "cannot be read"]);
    refused(&["run", &write(&folder, "m.toml", SCENARIO.replace("power8-2016", "gone.toml"))], &["gone.toml"]);
}

#[test]
fn a_bad_job_file_is_refused_with_file_line_and_what_would_be_right() {
    let folder = TempDir::new().unwrap();
    let job = |name: &str, text: &str| write(&folder, name, text);
    refused(&["run", &job("a.fio", "[j]\nsize=1m\nrw=randreed\n")], &["a.fio:3", "randread"]);
    refused(&["run", &job("b.fio", "[j]\nsize=1m\niodpeth=4\n")], &["b.fio:3", "iodpeth", "iodepth"]);
    refused(&["run", &job("c.fio", "[j]\nsize=1m\niodepth=0\n")], &["c.fio:3", "iodepth"]);
    refused(&["run", &job("d.fio", "[j]\nsize=1m\niodepth=9223372036854775808\n")], &["d.fio:3"]);
    refused(&["run", &job("e.fio", "[j]\nsize=1m\nioengine=net\n")], &["e.fio:3", "net"]);
    refused(&["run", &job("f.fio", "")], &["f.fio"]);
    refused(&["run", &job("g.fio", "include g.fio\n[j]\nsize=1m\n")], &["g.fio", "include"]);
    refused(&["run", "missing.fio"], &["missing.fio"]);
}

#[test]
fn nothing_half_written_is_left_where_the_output_should_be() {
    let folder = TempDir::new().unwrap();
    let scenario = write(&folder, "short.toml", SCENARIO);
    let there = folder.path().join("report.json").display().to_string();
    let (code, stdout, _) = hvmmio(&["run", &scenario, "--format", "json", "--output", &there]);
    assert_eq!((code, stdout.as_str()), (0, ""));
    let written = fs::read(&there).unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&written).is_ok());

    // A run that is refused leaves an older report as it is, and a folder that is not there is told.
    let broken = write(&folder, "broken.toml", SCENARIO.replace("devices", "devcies"));
    refused(&["run", &broken, "--output", &there], &["broken.toml:6"]);
    assert_eq!(fs::read(&there).unwrap(), written);
    let nowhere = folder.path().join("no/such/folder.json").display().to_string();
    refused(&["run", &scenario, "--output", &nowhere], &["folder.json", "cannot be written"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "no temporary file is left");
    assert!(!Path::new(&nowhere).exists());
}

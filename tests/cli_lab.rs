//! The lab's verbs from outside: what they print, how they end.

use assert_cmd::Command;

const CHURN: &str = "tests/data/traces/power9-churn.ftrace.txt.gz";

fn hvmmio(args: &[&str]) -> (i32, String, String) {
    let output = Command::cargo_bin("hvmmio").unwrap().args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn json(args: &[&str]) -> serde_json::Value {
    let (code, out, error) = hvmmio(&[args, &["--format", "json"]].concat());
    assert_eq!(code, 0, "{error}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn replay_prints_simulated_and_observed_apart() {
    let (code, out, _) = hvmmio(&["replay", CHURN]);
    assert_eq!(code, 0);
    for part in
        ["observed by the recording", "the simulation says the same", "missed: generation", "hit rate", "ns per access"]
    {
        assert!(out.contains(part), "{part} in\n{out}");
    }
    let run = &json(&["replay", CHURN])["runs"][0];
    assert_eq!((&run["hits"], &run["recorded"]["observed"]["agreeing"]), (&629.into(), &1124.into()));
    assert!(hvmmio(&["replay", CHURN, "--format", "csv"]).1.contains("observed hits,629,,measured"));
}

#[test]
fn run_of_a_recording_stands_beside_the_same_without_a_cache() {
    let (code, out, error) = hvmmio(&["run", CHURN]);
    assert_eq!(code, 0, "{error}");
    for part in ["cache off", "missed: generation", "slow form, no cache", "the simulation says the same"] {
        assert!(out.contains(part), "{part} in\n{out}");
    }
    assert_eq!(hvmmio(&["run", CHURN, "--vcpus", "2"]).0, 2);
}

#[test]
fn sweep_ends_with_a_recommendation_and_draws_its_curves() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("curves.svg");
    let (code, out, error) = hvmmio(&["sweep", CHURN, "--entries", "0..16", "--svg", svg.to_str().unwrap()]);
    assert_eq!(code, 0, "{error}");
    assert!(out.contains("within 1 % of the optimum's best") && out.contains("by the machine model."), "{out}");
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("miss ratio") && svg.contains("optimum"));
    let sweep = json(&["sweep", CHURN, "--entries", "1,2,4..6", "--policy", "fifo,lru"]);
    assert_eq!(sweep["rows"].as_array().unwrap().len(), 10);
}

#[test]
fn sizes_and_policies_that_cannot_be_are_refused_in_words() {
    for (args, words) in [
        (&["replay", CHURN, "--entries", "1025"][..], "1025 entries is out of range: 0 (off) to 1024"),
        (&["sweep", CHURN, "--entries", "0..2000"], "out of range"),
        (&["sweep", CHURN, "--entries", "4..2"], "`4..2` is no size"),
        (&["sweep", CHURN, "--policy", "lru,mru"], "no replacement policy is named `mru`"),
        (&["replay", CHURN, "--key", "per-memslot"], "does not tell memslot changes"),
        (&["replay", CHURN, "--sets", "3"], "cannot be spread over 3 sets"),
        (&["replay", CHURN, "--machine", "x86-2007-amd-x2"], "kind x86"),
        (&["replay", "Cargo.toml"], "no event"),
        (&["replay", "missing.txt"], "cannot be read"),
        (&["trace", "convert", CHURN, "out.ftrace"], "its ending names no form"),
        (&["trace", "generate", "out.hvt", "--alpha=-1"], "alpha = -1 is out of range"),
    ] {
        let (code, _, error) = hvmmio(args);
        assert_eq!(code, 2, "{args:?}: {error}");
        assert!(error.contains(words), "{args:?}: {error}");
    }
}

#[test]
fn a_trace_made_up_and_converted_replays_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [hvt, csv, oracle] = ["t.hvt", "t.csv", "t.oracleGeneral"].map(path);
    let made = json(&[
        "trace",
        "generate",
        &hvt,
        "--pattern",
        "hot-set",
        "--count",
        "20000",
        "--vcpus",
        "2",
        "--invalidations",
        "0.001",
    ]);
    assert_eq!(made["facts"]["accesses"], 20_000);
    json(&["trace", "convert", &hvt, &csv]);
    let hits = |path: &str| json(&["replay", path])["runs"][0]["hits"].clone();
    assert_eq!(hits(&hvt), hits(&csv));
    let dropped = json(&["trace", "convert", &hvt, &oracle]);
    assert!(dropped["notes"][0].as_str().unwrap().contains("oracleGeneral keeps pages only"));
    // Nothing is left beside the files.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn the_recipes_name_the_probe_and_the_events() {
    let power = hvmmio(&["trace", "record"]).1;
    assert!(power.contains("kvmppc_hv_emulate_mmio") && power.contains("kvm_page_fault_enter"));
    assert!(hvmmio(&["trace", "record", "--host", "x86"]).1.contains("kvm_fast_mmio"));
}

#[cfg(unix)]
#[test]
fn ctrl_c_in_a_long_sweep_tells_what_is_done_and_ends_with_130() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("long.oracleGeneral");
    let count = "4000000";
    json(&[
        "trace",
        "generate",
        trace.to_str().unwrap(),
        "--pattern",
        "uniform",
        "--devices",
        "1000",
        "--count",
        count,
    ]);
    let child = std::process::Command::new(assert_cmd::cargo::cargo_bin("hvmmio"))
        .args(["sweep", trace.to_str().unwrap(), "--format", "json"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let sweep: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &sweep["interrupted"]), (Some(130), &true.into()));
    assert!(sweep["accesses"].as_u64().unwrap() < 4_000_000);
}

//! Hazards on the command line, on hosts that are no POWER hosts too.

use assert_cmd::Command;

fn hvmmio(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::cargo_bin("hvmmio").unwrap().args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_simulators_view_of_every_hazard_and_control_is_told_on_any_host() {
    let (code, out, err) = hvmmio(&["sequence", "--hazards"]);
    assert_eq!(code, Some(0), "{err}");
    for id in ["H0a", "H0b", "H3", "H3, copy on write", "H4, eviction", "H4, spin", "H6", "H7", "H8"] {
        assert!(out.contains(&format!("\n{id}: ")) && out.contains(&format!("\n{id}, control: ")), "{id}");
    }
    let (_, mended, _) = hvmmio(&["sequence", "--hazards", "--set", "fill_on_protection_fault=no"]);
    assert!(mended != out);
    let (code, csv, _) = hvmmio(&["sequence", "--hazards", "--format", "csv"]);
    assert!(code == Some(0) && csv.lines().all(|line| !line.contains("measured")));
    assert_eq!(hvmmio(&["sequence"]).0, Some(2), "without files and without --hazards there is nothing to do");
}

#[cfg(not(target_arch = "powerpc64"))]
#[test]
fn hazards_are_compared_on_a_ppc64_host_alone() {
    let (code, _, err) = hvmmio(&["compare", "--hazards"]);
    assert!(code == Some(1) && err.contains("ppc64") && err.contains("hvmmio sequence --hazards"), "{err}");
    assert_eq!(hvmmio(&["compare", "--hazards", "pci-scan"]).0, Some(2));
}

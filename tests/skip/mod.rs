//! What several test files share.

use std::io::Write as _;

/// Says, past the test runner's capture, that a test could not run here and why.
///
/// # Panics
/// With HVMMIO_NO_SKIPS set, as `.ci/run` sets it: there nothing may be missing.
pub fn skipped(reason: &str) {
    assert!(std::env::var_os("HVMMIO_NO_SKIPS").is_none(), "SKIPPED is not allowed here: {reason}");
    let line = format!("SKIPPED: {reason}\n");
    // Not eprintln: the runner keeps that to itself.
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

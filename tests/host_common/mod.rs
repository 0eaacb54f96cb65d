//! What the tests on real KVM share.

use hvmmio::host::x86_64::System;

#[path = "../skip/mod.rs"]
mod skip;

/// This machine's KVM; without one the test says SKIPPED.
pub fn kvm() -> Option<System> {
    match System::open() {
        Ok(system) => Some(system),
        Err(error) if error.is_no_kvm() => {
            skip::skipped(&format!("no real KVM here: {error}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

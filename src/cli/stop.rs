//! Ctrl-C: long verbs look at a flag and tell what is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::CliError;

/// A flag that SIGINT, SIGTERM and SIGHUP set.
pub(super) fn flag() -> Result<Arc<AtomicBool>, CliError> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    ctrlc::set_handler(move || set.store(true, Ordering::Relaxed)).map_err(CliError::failed)?;
    Ok(flag)
}

//! What verbs share that perform steps.

use crate::proof::compare_steps::{Seen, Watched, hazards};
use crate::report::WatchedStream;

use super::CliError;

/// Looks at each hazard and its control by `watch`.
pub(super) fn watched_hazards(
    mut watch: impl FnMut(&Watched) -> Result<Seen, CliError>,
) -> Result<Vec<WatchedStream>, CliError> {
    let mut streams = Vec::new();
    for hazard in hazards().map_err(CliError::failed)? {
        for (watched, about) in [(&hazard.stream, hazard.what), (&hazard.control, hazard.control_is)] {
            streams.push(WatchedStream { about: about.to_owned(), seen: watch(watched)? });
        }
    }
    Ok(streams)
}

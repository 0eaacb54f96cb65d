//! A progress bar for what takes more than a second, on a terminal only.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Shows nothing in the first second, and never when standard error is no terminal.
pub(super) struct Progress {
    started: Instant,
    what: String,
    bar: Option<ProgressBar>,
    on_terminal: bool,
}

impl Progress {
    pub fn new(what: &str) -> Self {
        let on_terminal = std::io::stderr().is_terminal();
        Self { started: Instant::now(), what: what.to_owned(), bar: None, on_terminal }
    }

    /// Tells it the share done, 0 to 1.
    pub fn at(&mut self, share: f64) {
        if !self.on_terminal || self.started.elapsed() < Duration::from_secs(1) {
            return;
        }
        let what = &self.what;
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(1000).with_message(what.clone());
            if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent} % {elapsed}") {
                bar.set_style(style);
            }
            bar
        });
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0 to 1000")]
        bar.set_position((share.clamp(0.0, 1.0) * 1000.0) as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

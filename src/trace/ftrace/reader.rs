//! From text to the items of a recording.

use std::collections::VecDeque;
use std::io::BufRead;

use super::text::{Text, Told};
use super::vcpus::Vcpus;
use crate::trace::{Facts, Item, TraceError};

/// Reads ftrace, trace-cmd and perf script text. Memory does not grow with the recording.
#[derive(Debug)]
pub struct Reader<R> {
    text: Text<R>,
    vcpus: Vcpus,
    facts: Facts,
    out: VecDeque<Item>,
    ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// A reader; `file` is what errors call it.
    pub fn new(file: &str, input: R) -> Self {
        let (vcpus, facts) = (Vcpus::default(), Facts::default());
        Self { text: Text::new(file, input), vcpus, facts, out: VecDeque::new(), ended: false }
    }

    /// The next item, `None` at the end.
    ///
    /// # Errors
    /// What cannot be read, and a line that is damaged: its number, its offset, why.
    pub fn next_item(&mut self) -> Result<Option<Item>, TraceError> {
        loop {
            if let Some(item) = self.out.pop_front() {
                return Ok(Some(item));
            }
            if self.ended {
                return Ok(None);
            }
            match self.text.next(&mut self.facts)? {
                Some(Told::Step(step)) => self.vcpus.step(&step, &mut self.facts, &mut self.out),
                Some(Told::Lost(events)) => {
                    self.vcpus.lost();
                    self.out.push_back(Item::Lost { events });
                }
                None => {
                    self.ended = true;
                    self.vcpus.end(&mut self.facts, &mut self.out);
                }
            }
        }
    }

    /// What was read so far.
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }
}

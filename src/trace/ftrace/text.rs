//! Lines of a recording: wrapped ones put together, lost events and a missing end told.

use std::io::BufRead;

use super::line::{Line, LineError, parse};
use super::step::Step;
use crate::trace::{Facts, TraceError};

/// Pieces of which one line may be put together.
const MOST_PIECES: u32 = 16;
/// Bytes of the longest line.
const LONGEST_LINE: usize = 1 << 20;
/// Lines within which a recording must show its first event.
const FIRST_EVENT_WITHIN: u64 = 10_000;

/// What a line gives to the vCPUs' bookkeeping.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    Step(Step),
    Lost(u64),
}

/// A line that may go on in the next one.
#[derive(Debug, Default)]
struct Held {
    text: Vec<u8>,
    /// What it tells; `None` for an event whose fields are not complete.
    step: Option<Step>,
    there: bool,
    pieces: u32,
    line: u64,
    offset: u64,
}

/// Reads steps.
#[derive(Debug)]
pub(super) struct Text<R> {
    file: String,
    input: R,
    next: Vec<u8>,
    held: Held,
    line: u64,
    offset: u64,
    seen_event: bool,
    ended: bool,
}

impl<R: BufRead> Text<R> {
    pub(super) fn new(file: &str, input: R) -> Self {
        let held = Held::default();
        Self {
            file: file.to_owned(),
            input,
            next: Vec::new(),
            held,
            line: 0,
            offset: 0,
            seen_event: false,
            ended: false,
        }
    }

    /// The next thing told, `None` at the end.
    pub(super) fn next(&mut self, facts: &mut Facts) -> Result<Option<Told>, TraceError> {
        while !self.ended {
            let start = self.offset;
            self.read_line()?;
            if self.next.is_empty() {
                self.ended = true;
                break;
            }
            facts.records = self.line;
            match parse(&self.next) {
                Ok(Line::Event(event)) => {
                    self.seen_event = true;
                    let step = Some(Step::of(&event));
                    if let Some(told) = self.hold(step, start)? {
                        return Ok(Some(told));
                    }
                }
                Err(LineError::Fields) => {
                    self.seen_event = true;
                    if let Some(told) = self.hold(None, start)? {
                        return Ok(Some(told));
                    }
                }
                Err(LineError::NoEvent) => self.join(facts, start)?,
                Ok(Line::Nothing) => {
                    if !self.seen_event && self.line > FIRST_EVENT_WITHIN {
                        return Err(self.foreign());
                    }
                }
                Ok(Line::Entries { kept, written }) => {
                    if let Some(missing) = written.checked_sub(kept).filter(|missing| *missing > 0) {
                        return Ok(Some(lost(missing, facts)));
                    }
                }
                Ok(Line::Lost(what)) => {
                    // What is held is complete: nothing of it comes behind this line.
                    let events = what.events.unwrap_or(0);
                    let before = self.release()?;
                    let told = lost(events, facts);
                    let Some(before) = before else { return Ok(Some(told)) };
                    // Given after the event held: hold the loss in its place.
                    self.held = Held { step: Some(Step::lost(events)), there: true, ..Held::default() };
                    return Ok(Some(before));
                }
            }
        }
        self.finish(facts)
    }

    fn read_line(&mut self) -> Result<(), TraceError> {
        self.next.clear();
        loop {
            let read = |source| TraceError::Read { file: self.file.clone(), offset: self.offset, source };
            let buffer = match self.input.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(read(error)),
            };
            let end = memchr::memchr(b'\n', buffer);
            let taken = end.map_or(buffer.len(), |end| end + 1);
            self.next.extend_from_slice(&buffer[..taken]);
            self.input.consume(taken);
            self.offset += taken as u64;
            if self.next.len() > LONGEST_LINE {
                let what = format!("a line of more than {LONGEST_LINE} bytes: no text of tracepoints");
                return Err(TraceError::Foreign { file: self.file.clone(), what });
            }
            if end.is_some() || taken == 0 {
                self.line += u64::from(!self.next.is_empty());
                return Ok(());
            }
        }
    }

    /// Holds the line just read and gives the one held before.
    fn hold(&mut self, step: Option<Step>, offset: u64) -> Result<Option<Told>, TraceError> {
        let before = self.release()?;
        std::mem::swap(&mut self.held.text, &mut self.next);
        (self.held.step, self.held.there, self.held.pieces) = (step, true, 1);
        (self.held.line, self.held.offset) = (self.line, offset);
        Ok(before)
    }

    /// What is held, if anything. An incomplete line that nothing completes is damaged.
    fn release(&mut self) -> Result<Option<Told>, TraceError> {
        if !std::mem::take(&mut self.held.there) {
            return Ok(None);
        }
        match self.held.step {
            Some(step) => Ok(Some(step.told())),
            None => Err(self.damaged(self.held.line, self.held.offset, LineError::Fields)),
        }
    }

    /// The line just read goes on where the held one stopped: in the middle of a word, or at a space.
    fn join(&mut self, facts: &mut Facts, offset: u64) -> Result<(), TraceError> {
        if !self.held.there || self.held.text.is_empty() {
            return Err(if self.seen_event {
                self.damaged(self.line, offset, LineError::NoEvent)
            } else {
                self.foreign()
            });
        }
        self.held.pieces += 1;
        if self.held.pieces > MOST_PIECES {
            return Err(self.damaged(self.line, offset, LineError::NoEvent));
        }
        facts.wrapped += u64::from(self.held.pieces == 2);
        while self.held.text.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            self.held.text.pop();
        }
        let len = self.held.text.len();
        self.held.text.extend_from_slice(&self.next);
        let mut step = match parse(&self.held.text) {
            Ok(Line::Event(event)) => Some(Step::of(&event)),
            _ => None,
        };
        if step.is_none() {
            let mut spaced = self.held.text[..len].to_vec();
            spaced.push(b' ');
            spaced.extend_from_slice(&self.next);
            if let Ok(Line::Event(event)) = parse(&spaced) {
                step = Some(Step::of(&event));
                self.held.text = spaced;
            }
        }
        self.held.step = step;
        Ok(())
    }

    /// The last line: cut, it is left out.
    fn finish(&mut self, facts: &mut Facts) -> Result<Option<Told>, TraceError> {
        if !self.seen_event {
            return Err(self.foreign());
        }
        let unended = self.held.there && !self.held.text.is_empty() && !self.held.text.ends_with(b"\n");
        if unended && self.held.step.is_none() {
            facts.cut_end = true;
            self.held.there = false;
        }
        self.release()
    }

    fn damaged(&self, line: u64, offset: u64, why: LineError) -> TraceError {
        TraceError::Line { file: self.file.clone(), line, offset, what: why.to_string() }
    }

    fn foreign(&self) -> TraceError {
        let what = "no event of ftrace, trace-cmd or perf script text in it, and no other form that hvmmio reads: own \
                    binary form, oracleGeneral (.oracleGeneral, .bin), csv with named columns, each also as .gz or .zst";
        TraceError::Foreign { file: self.file.clone(), what: what.to_owned() }
    }
}

fn lost(events: u64, facts: &mut Facts) -> Told {
    facts.losses += 1;
    facts.lost_events = facts.lost_events.saturating_add(events);
    Told::Lost(events)
}

//! One line: who, where, when, which event.

use super::event::Event;
use super::scan::Scan;

/// What the tracer says of events that are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lost {
    /// Whose buffer lost them, where it is said.
    pub cpu: Option<u32>,
    /// How many, where it is said.
    pub events: Option<u64>,
}

/// An event, and what every event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventLine<'a> {
    /// Thread's name, as printed; not always UTF-8.
    pub comm: &'a [u8],
    /// Thread.
    pub pid: u32,
    /// CPU.
    pub cpu: u32,
    /// When, ns of the recording's clock; ticks where that clock has no decimal point.
    pub at: u64,
    /// Event's name, without its system.
    pub name: &'a [u8],
    /// Its fields.
    pub event: Event<'a>,
}

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Line<'a> {
    /// An event.
    Event(EventLine<'a>),
    /// Events are missing from here.
    Lost(Lost),
    /// `# entries-in-buffer/entries-written: 15883/20000`: what was written and is no longer there is missing.
    Entries {
        /// Events in the file.
        kept: u64,
        /// Events that were recorded.
        written: u64,
    },
    /// A comment, a line the tools put between events (`##### CPU 1 buffer started ####`, `cpus=4`), or nothing.
    Nothing,
}

/// Why a line is none of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LineError {
    /// It does not begin as an event does. Behind an event it may be the rest of a line that was wrapped.
    #[error("no event: a line is `task-pid [cpu] flags seconds: event: fields`")]
    NoEvent,
    /// It begins as an event that is known but its fields are not those that the event prints: cut or damaged.
    #[error("the event's fields are not those that its tracepoint prints: the line was cut or damaged")]
    Fields,
}

/// Parses a line, with or without its line end (`\n`, `\r\n`).
///
/// # Errors
/// [`LineError`]; the line alone cannot tell a wrapped line from a damaged one.
pub fn parse(line: &[u8]) -> Result<Line<'_>, LineError> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match parse_event(line) {
        Some(result) => result.map(Line::Event),
        None => parse_other(line).ok_or(LineError::NoEvent),
    }
}

/// The event in a line; `None` where it does not begin as one.
fn parse_event(line: &[u8]) -> Option<Result<EventLine<'_>, LineError>> {
    // A thread's name may hold a bracket too: the CPU is the first number in brackets with a time behind it.
    let mut from = 0;
    loop {
        let open = from + line[from..].iter().position(|byte| *byte == b'[')?;
        if let Some(found) = parse_from_cpu(&line[..open], &line[open..]) {
            return Some(found);
        }
        from = open + 1;
    }
}

fn parse_from_cpu<'a>(before: &'a [u8], after: &'a [u8]) -> Option<Result<EventLine<'a>, LineError>> {
    let mut scan = Scan::new(after);
    scan.literal(b"[")?;
    let cpu = u32::try_from(scan.decimal()?).ok()?;
    scan.literal(b"]")?;
    let mut timed = scan;
    let at = match timestamp(&mut timed) {
        Some(at) => at,
        None => {
            // Flags first: `d..1.`, `.....`.
            timed = scan;
            timed.skip_spaces();
            timed.word(|byte| byte.is_ascii_graphic() && byte != b':')?;
            timestamp(&mut timed)?
        }
    };
    let (comm, pid) = thread(before)?;
    timed.skip_spaces();
    let mut name = timed.word(|byte| !matches!(byte, b':' | b' ' | b'\t'))?;
    timed.literal(b":")?;
    // `kvm_hv:kvm_hcall_enter:` has its system in front, `kvm_hcall_enter:` has not.
    let mut second = timed;
    if let Some(event) = second.word(|byte| !matches!(byte, b':' | b' ' | b'\t')) {
        if second.literal(b":").is_some() {
            (name, timed) = (event, second);
        }
    }
    let event = Event::parse(name, timed.rest()).ok_or(LineError::Fields);
    Some(event.map(|event| EventLine { comm, pid, cpu, at, name, event }))
}

/// `     6.133110:`, in ns.
fn timestamp(scan: &mut Scan<'_>) -> Option<u64> {
    scan.skip_spaces();
    let whole = scan.decimal()?;
    if scan.literal(b":").is_some() {
        return Some(whole);
    }
    scan.literal(b".")?;
    let digits = scan.word(|byte| byte.is_ascii_digit())?;
    scan.literal(b":")?;
    let nine = digits.get(..9).unwrap_or(digits);
    let mut fraction = nine.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
    for _ in nine.len()..9 {
        fraction *= 10;
    }
    whole.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// `task-pid`, `task-pid (tgid)` of ftrace, `task pid` and `task pid/tid` of perf.
fn thread(before: &[u8]) -> Option<(&[u8], u32)> {
    let mut before = before.trim_ascii();
    if before.ends_with(b")") {
        before = before[..before.iter().rposition(|byte| *byte == b'(')?].trim_ascii_end();
    }
    let digits = before.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (mut comm, pid) = before.split_at(before.len() - digits);
    let pid = u32::try_from(Scan::new(pid).decimal()?).ok()?;
    if let Some(process) = comm.strip_suffix(b"/") {
        comm = process.trim_ascii_end();
        let digits = comm.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        comm = &comm[..comm.len() - digits];
    }
    let comm = comm.strip_suffix(b"-").or_else(|| comm.strip_suffix(b" "))?;
    Some((comm.trim_ascii(), pid))
}

/// Lines that are no events.
fn parse_other(line: &[u8]) -> Option<Line<'_>> {
    let trimmed = line.trim_ascii();
    if let Some(counts) = trimmed.strip_prefix(b"# entries-in-buffer/entries-written:") {
        let mut scan = Scan::new(counts);
        scan.skip_spaces();
        let kept = scan.decimal()?;
        scan.literal(b"/")?;
        return Some(Line::Entries { kept, written: scan.decimal()? });
    }
    let known = trimmed.is_empty() || trimmed.starts_with(b"#") || trimmed.starts_with(b"cpus=") || is_stack(line);
    if known {
        return Some(Line::Nothing);
    }
    lost(trimmed).map(Line::Lost)
}

/// A line of a stack trace: ` => function` and `<stack trace>` of ftrace, an address, a function and, in parentheses,
/// its file of perf script.
fn is_stack(line: &[u8]) -> bool {
    let mut scan = Scan::new(line);
    scan.skip_spaces();
    if scan.rest().starts_with(b"=> ") || scan.rest().ends_with(b"<stack trace>") {
        return true;
    }
    scan.rest().len() < line.len() && scan.hex().is_some() && scan.rest().starts_with(b" ") && line.ends_with(b")")
}

/// `CPU:1 [LOST 1234 EVENTS]` (trace_pipe), `CPU:1 [1234 EVENTS DROPPED]` and `CPU:1 [EVENTS DROPPED]` (trace-cmd),
/// `... PERF_RECORD_LOST lost 1234` (perf script --show-lost-events).
fn lost(line: &[u8]) -> Option<Lost> {
    let mut scan = Scan::new(line);
    if scan.literal(b"CPU:").is_some() {
        let cpu = u32::try_from(scan.decimal()?).ok();
        scan.skip_spaces();
        scan.literal(b"[")?;
        if scan.literal(b"LOST ").is_some() {
            let events = scan.decimal();
            scan.skip_spaces();
            scan.literal(b"EVENTS]")?;
            return Some(Lost { cpu, events });
        }
        let events = scan.decimal();
        scan.skip_spaces();
        scan.literal(b"EVENTS DROPPED]")?;
        return Some(Lost { cpu, events });
    }
    let record = b"PERF_RECORD_LOST";
    let at = line.windows(record.len()).position(|window| window == record)?;
    let mut scan = Scan::new(&line[at + record.len()..]);
    let _ = scan.literal(b"_SAMPLES");
    Some(Lost { cpu: None, events: scan.field(b"lost ") })
}

#[cfg(test)]
mod tests;

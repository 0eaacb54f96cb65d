//! From text to a [`Sequence`].

use std::path::Path;
use std::str::SplitWhitespace;

use crate::kvm_hv::BULK_REQUESTS;
use crate::kvm_hv::memslot::DirtyLog;

use super::{Label, LineError, Op, PAGES, Page, Protection, Sequence, SequenceError, SequenceLine};

impl Sequence {
    /// Parses a sequence; `name` is what errors and reports call it.
    ///
    /// # Errors
    /// No operation at all, or a line that is no operation: line number, what is wrong, what would be right.
    pub fn parse(name: &str, text: &str) -> Result<Self, SequenceError> {
        let mut lines = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.split('#').next().unwrap_or_default();
            let parsed =
                parse_line(text).map_err(|problem| SequenceError::Line { name: name.to_owned(), line, problem })?;
            lines.extend(parsed.map(|(op, label)| SequenceLine { line, op, label }));
        }
        if lines.is_empty() {
            return Err(SequenceError::Empty { name: name.to_owned() });
        }
        Ok(Self { name: name.to_owned(), lines })
    }

    /// Parses bytes, which must be UTF-8.
    ///
    /// # Errors
    /// As [`Self::parse`], and for bytes that are no text.
    pub fn parse_bytes(name: &str, bytes: &[u8]) -> Result<Self, SequenceError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::parse(name, text),
            Err(error) => {
                let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
                Err(SequenceError::NotUtf8 { name: name.to_owned(), line })
            }
        }
    }

    /// Reads a file; its file name becomes the sequence's name.
    ///
    /// # Errors
    /// As [`Self::parse_bytes`], and for a file that cannot be read.
    pub fn read(path: &Path) -> Result<Self, SequenceError> {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        match std::fs::read(path) {
            Ok(bytes) => Self::parse_bytes(&name, &bytes),
            Err(source) => Err(SequenceError::Read { name: path.display().to_string(), source }),
        }
    }
}

fn parse_line(text: &str) -> Result<Option<(Op, Option<Label>)>, LineError> {
    let (text, label) = split_label(text);
    let mut words = text.split_whitespace();
    let Some(first) = words.next() else {
        return match label {
            None => Ok(None),
            Some((word, _)) => Err(LineError::UnknownOp { text: word.to_owned() }),
        };
    };
    let op = parse_op(first, &mut words)?;
    match words.next() {
        Some(word) => Err(LineError::UnknownLabel { text: word.to_owned() }),
        None => Ok(Some((op, label.and_then(|(_, label)| label)))),
    }
}

/// Takes a label off the end of a line: the word, and what it means.
fn split_label(text: &str) -> (&str, Option<(&str, Option<Label>)>) {
    let text = text.trim();
    let (rest, word) = text.rsplit_once(char::is_whitespace).unwrap_or(("", text));
    if word == "-" {
        return (rest, Some((word, None)));
    }
    match Label::ALL.into_iter().find(|label| label.name() == word) {
        Some(label) => (rest, Some((word, Some(label)))),
        None => (text, None),
    }
}

fn parse_op(word: &str, words: &mut SplitWhitespace<'_>) -> Result<Op, LineError> {
    let mut args = Args { op: "", words };
    let op = match word {
        "store" => Op::Store(args.of("store").page()?),
        "load" => Op::Load(args.of("load").page()?),
        "enter" => {
            let page = args.of("enter").page()?;
            Op::Enter(page, args.key()?)
        }
        "remove" => Op::Remove(args.of("remove").page()?),
        "bulk-remove" => Op::BulkRemove(args.of("bulk-remove").pages()?),
        "protect" => {
            let page = args.of("protect").page()?;
            Op::Protect(
                page,
                args.choice("`ro` or `rw`", &[("ro", Protection::ReadOnly), ("rw", Protection::ReadWrite)])?,
            )
        }
        "read" => Op::Read(args.of("read").page()?),
        "clear-ref" => Op::ClearRef(args.of("clear-ref").page()?),
        "clear-mod" => Op::ClearMod(args.of("clear-mod").page()?),
        "page-out" => Op::PageOut(args.of("page-out").page()?),
        "page-in" => Op::PageIn(args.of("page-in").page()?),
        "memslot-create" => Op::MemslotCreate(args.of("memslot-create").mmio_page()?),
        "memslot-delete" => Op::MemslotDelete(args.of("memslot-delete").mmio_page()?),
        "dirty-log" => {
            let choices = [("on", DirtyLog::On), ("off", DirtyLog::Off)];
            Op::DirtyLog(args.of("dirty-log").choice("`on` or `off`", &choices)?)
        }
        "new-hpt" => Op::NewHpt(args.of("new-hpt").number("an order, for example 19")?),
        "reset-hpt" => Op::ResetHpt,
        _ => return short_op(word),
    };
    Ok(op)
}

/// `pN`, `lN`, `xN`.
fn short_op(word: &str) -> Result<Op, LineError> {
    let unknown = || LineError::UnknownOp { text: word.to_owned() };
    let kind = word.chars().next().filter(|kind| matches!(kind, 'p' | 'l' | 'x')).ok_or_else(unknown)?;
    let page = page_number(&word[1..]).ok_or_else(unknown)??;
    Ok(match kind {
        'p' => Op::Store(Page::Mmio(page)),
        'l' => Op::Load(Page::Mmio(page)),
        _ => Op::Reenter(page),
    })
}

/// `None`: no number at all.
fn page_number(text: &str) -> Option<Result<u16, LineError>> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let page = text.parse().ok().filter(|page| *page < PAGES);
    Some(page.ok_or_else(|| LineError::PageOutOfRange { text: text.to_owned() }))
}

/// The words after an operation.
struct Args<'a, 'b> {
    op: &'static str,
    words: &'a mut SplitWhitespace<'b>,
}

impl Args<'_, '_> {
    const PAGE: &'static str = "a page, mN or rN";

    const fn of(&mut self, op: &'static str) -> &mut Self {
        self.op = op;
        self
    }

    fn wrong(&self, wanted: &'static str, text: &str) -> LineError {
        LineError::Argument { op: self.op, wanted, text: text.to_owned() }
    }

    fn word(&mut self, wanted: &'static str) -> Result<&str, LineError> {
        self.words.next().ok_or(LineError::MissingArgument { op: self.op, wanted })
    }

    fn as_page(&self, text: &str) -> Result<Page, LineError> {
        let number = text.strip_prefix(['m', 'r']).and_then(page_number);
        let number = number.ok_or_else(|| self.wrong(Self::PAGE, text))??;
        Ok(if text.starts_with('m') { Page::Mmio(number) } else { Page::Ram(number) })
    }

    fn page(&mut self) -> Result<Page, LineError> {
        let text = self.word(Self::PAGE)?.to_owned();
        self.as_page(&text)
    }

    fn mmio_page(&mut self) -> Result<u16, LineError> {
        match self.page()? {
            Page::Mmio(page) => Ok(page),
            page @ Page::Ram(_) => Err(self.wrong("an MMIO page, mN", &page.to_string())),
        }
    }

    fn pages(&mut self) -> Result<Vec<Page>, LineError> {
        let mut pages = vec![self.page()?];
        while let Some(text) = self.words.next() {
            let page = self.as_page(text)?;
            if pages.len() == BULK_REQUESTS {
                return Err(self.wrong("one to four pages", text));
            }
            pages.push(page);
        }
        Ok(pages)
    }

    fn key(&mut self) -> Result<u8, LineError> {
        const WANTED: &str = "`key` and a storage key, 0 to 31";
        let Some(word) = self.words.next() else { return Ok(0) };
        if word != "key" {
            return Err(self.wrong(WANTED, word));
        }
        let key: u32 = self.number(WANTED)?;
        u8::try_from(key).ok().filter(|key| *key < 32).ok_or_else(|| self.wrong(WANTED, &key.to_string()))
    }

    fn number(&mut self, wanted: &'static str) -> Result<u32, LineError> {
        let text = self.word(wanted)?.to_owned();
        text.parse().map_err(|_| self.wrong(wanted, &text))
    }

    fn choice<T: Copy>(&mut self, wanted: &'static str, choices: &[(&str, T)]) -> Result<T, LineError> {
        let text = self.word(wanted)?.to_owned();
        let found = choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        found.ok_or_else(|| self.wrong(wanted, &text))
    }
}

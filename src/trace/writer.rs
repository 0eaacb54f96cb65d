//! Writing a recording in a form that can be written.

use std::io::{self, Write};

use super::oracle_general::write_record;
use super::{Access, Facts, Item, Observed, TraceFormat, native};
use crate::book3s::insn::Direction;

/// What a form has no place for, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Generation moves.
    pub generations: u64,
    /// Places where events were lost.
    pub losses: u64,
    /// Accesses whose vCPU, segment, direction or hit is not kept.
    pub accesses: u64,
}

impl Dropped {
    /// In a sentence; none if nothing was dropped.
    #[must_use]
    pub fn describe(&self) -> Option<String> {
        (*self != Self::default()).then(|| {
            format!(
                "oracleGeneral keeps pages only: {} generation moves, {} losses, and what {} accesses tell beside their page \
                 are not in it",
                self.generations, self.losses, self.accesses
            )
        })
    }
}

enum Form<W: Write> {
    Native(Box<native::Writer<W>>),
    Csv(W),
    OracleGeneral(W),
}

/// Writes items in one form.
pub struct Writer<W: Write> {
    form: Form<W>,
    dropped: Dropped,
}

impl<W: Write> Writer<W> {
    /// Begins; `None` for a form that is not written (text of tracepoints).
    ///
    /// # Errors
    /// The system's.
    pub fn new(format: TraceFormat, mut out: W) -> io::Result<Option<Self>> {
        let form = match format {
            TraceFormat::Native => Form::Native(Box::new(native::Writer::new(out)?)),
            TraceFormat::OracleGeneral => Form::OracleGeneral(out),
            TraceFormat::Csv => {
                writeln!(out, "{}", super::csv::COLUMNS.join(","))?;
                Form::Csv(out)
            }
            TraceFormat::Ftrace => return Ok(None),
        };
        Ok(Some(Self { form, dropped: Dropped::default() }))
    }

    /// Adds an item.
    ///
    /// # Errors
    /// The system's.
    pub fn item(&mut self, item: &Item) -> io::Result<()> {
        match &mut self.form {
            Form::Native(writer) => writer.item(item),
            Form::Csv(out) => csv_line(out, item),
            Form::OracleGeneral(out) => match item {
                Item::Access(access) => {
                    let plain = access.vcpu == 0 && access.segment == 0 && access.observed == Observed::Unknown;
                    self.dropped.accesses += u64::from(!plain || access.direction == Direction::Load);
                    let seconds = u32::try_from(access.at / 1_000_000_000).unwrap_or(u32::MAX);
                    // Written as it is read: what comes next is not known.
                    write_record(out, seconds, access.page(), u32::from(access.len.max(1)), -1)
                }
                Item::Generation { .. } => {
                    self.dropped.generations += 1;
                    Ok(())
                }
                Item::Lost { .. } => {
                    self.dropped.losses += 1;
                    Ok(())
                }
            },
        }
    }

    /// Ends it; what the form had no place for.
    ///
    /// # Errors
    /// The system's.
    pub fn finish(self, facts: &Facts) -> io::Result<(W, Dropped)> {
        let out = match self.form {
            Form::Native(writer) => writer.finish(facts)?,
            Form::Csv(mut out) | Form::OracleGeneral(mut out) => {
                out.flush()?;
                out
            }
        };
        Ok((out, self.dropped))
    }
}

fn csv_line(out: &mut impl Write, item: &Item) -> io::Result<()> {
    match item {
        Item::Access(access) => {
            let Access { at, vcpu, vm, ea, gpa, segment, page_shift, direction, len, observed } = access;
            let direction = if *direction == Direction::Store { "store" } else { "load" };
            let observed = match observed {
                Observed::Unknown => "",
                Observed::Hit => "hit",
                Observed::Miss => "miss",
            };
            writeln!(out, "access,{at},{vcpu},{vm},{ea},{gpa},{segment:#x},{page_shift},{direction},{len},{observed}")
        }
        Item::Generation { at, vm, page } => {
            let page = page.map_or_else(String::new, |page| page.to_string());
            writeln!(out, "generation,{at},,{vm},{page},,,,,,")
        }
        Item::Lost { events } => writeln!(out, "lost,,,,,,,,,{events},"),
    }
}

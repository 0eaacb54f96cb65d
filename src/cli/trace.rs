//! `hvmmio trace`: converting, making up and recording traces.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Subcommand, ValueEnum};

use crate::report::TraceReport;
use crate::trace::synthetic::{Generator, Pattern, Synthetic};
use crate::trace::{Facts, Item, Recording, TraceError, TraceFormat, Writer};

use super::args::OutputArgs;
use super::{CliError, Done, output, stop};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Write a recording in another form: the own binary form (.hvt), csv or oracleGeneral
    Convert(ConvertArgs),
    /// Make up a trace by a rule
    Generate(GenerateArgs),
    /// Print how to record the MMIO accesses of a running VM
    Record(RecordArgs),
}

#[derive(Debug, clap::Args)]
struct ConvertArgs {
    /// A recording, in any form that is read
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The file to write; it appears whole or not at all
    #[arg(value_name = "FILE")]
    out: PathBuf,
    /// The recording's form, where it cannot be told from the file
    #[arg(long, value_name = "FORM")]
    from: Option<TraceFormat>,
    /// The form to write: hvt, csv or oracle-general; by the file's ending if not given
    #[arg(long, value_name = "FORM")]
    to: Option<TraceFormat>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Rule {
    Zipf,
    Uniform,
    Cyclic,
    HotSet,
    Fio,
    Netperf,
}

#[derive(Debug, clap::Args)]
struct GenerateArgs {
    /// The file to write; it appears whole or not at all
    #[arg(value_name = "FILE")]
    out: PathBuf,
    /// Where accesses go
    #[arg(long, value_name = "RULE", default_value = "zipf")]
    pattern: Rule,
    /// Pages, or devices of fio and netperf, 1 to 16777216
    #[arg(long, value_name = "N", default_value_t = 64, alias = "pages")]
    devices: u32,
    /// vCPUs, 1 to 1024; accesses go to them in turn
    #[arg(long, value_name = "N", default_value_t = 1)]
    vcpus: u32,
    /// Accesses
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    count: u64,
    /// Exponent of zipf, 0 to 10
    #[arg(long, value_name = "A", default_value_t = 1.0)]
    alpha: f64,
    /// Pages of hot-set
    #[arg(long, value_name = "N", default_value_t = 4)]
    hot: u32,
    /// Share of accesses that go to hot-set's pages, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.9)]
    share: f64,
    /// Accesses until hot-set moves on by a page, 0 for never
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    drift: u64,
    /// MMIO HPTEs removed per access, 0 to 1
    #[arg(long, value_name = "RATE", default_value_t = 0.0)]
    invalidations: f64,
    /// Seed of everything drawn
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// The form to write: hvt, csv or oracle-general; by the file's ending if not given
    #[arg(long, value_name = "FORM")]
    to: Option<TraceFormat>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Host {
    Power,
    X86,
}

#[derive(Debug, clap::Args)]
struct RecordArgs {
    /// The host that the recording is made on
    #[arg(long, value_name = "HOST", default_value = "power")]
    host: Host,
}

/// Does it.
pub(super) fn run(args: &Args) -> Result<Done, CliError> {
    match &args.verb {
        Verb::Convert(args) => convert(args),
        Verb::Generate(args) => generate(args),
        Verb::Record(args) => output::print(match args.host {
            Host::Power => RECIPE_POWER,
            Host::X86 => RECIPE_X86,
        })
        .map(|()| Done::Well),
    }
}

/// Probe arguments: `kvmppc_hv_emulate_mmio(vcpu, gpa, ea, is_store)` are GPR3 to GPR6 by the ELF ABI.
const RECIPE_POWER: &str = "\
# As root on the POWER host, a hash guest running. Hits show by the probe alone.
cd /sys/kernel/tracing
echo 0 > tracing_on; echo > trace; echo 65536 > buffer_size_kb
echo 'p:hv_mmio kvm_hv:kvmppc_hv_emulate_mmio gpa=%gpr4:x64 ea=%gpr5:x64 is_store=%gpr6:u32' >> kprobe_events
echo 1 > events/kprobes/hv_mmio/enable
for event in kvm_page_fault_enter kvm_page_fault_exit kvm_hcall_enter kvm_hcall_exit kvm_guest_enter kvmppc_run_vcpu_enter; do
    echo 1 > events/kvm_hv/$event/enable
done
echo 1 > tracing_on; sleep 10; echo 0 > tracing_on
cp trace power.ftrace.txt
echo 0 > events/enable; echo '-:hv_mmio' >> kprobe_events
# Then, anywhere: hvmmio replay power.ftrace.txt
# The same by perf: perf record -a -e 'kvm_hv:*' -e probe:hv_mmio -- sleep 10; perf script --show-lost-events > power.perf.txt
# A POWER8 host takes H_ENTER and H_REMOVE in real mode: they are not traced there, and the generation's moves are invisible.
";

const RECIPE_X86: &str = "\
# As root on the x86 host, a guest running.
trace-cmd record -e kvm:kvm_mmio -e kvm:kvm_pio -e kvm:kvm_fast_mmio sleep 10
trace-cmd report > x86.ftrace.txt
# The same by perf: perf record -a -e kvm:kvm_mmio -e kvm:kvm_pio -e kvm:kvm_fast_mmio -- sleep 10; perf script --show-lost-events > x86.perf.txt
# Then, anywhere: hvmmio replay x86.ftrace.txt   (x86 has no MMIO HPTE cache: what one would do for these accesses)
";

/// The form asked for, or the one that the file's ending names.
fn form(out: &Path, to: Option<TraceFormat>) -> Result<TraceFormat, CliError> {
    let name = out.display().to_string();
    let lower = name.to_ascii_lowercase();
    let by_ending = if lower.contains("oraclegeneral") {
        Some(TraceFormat::OracleGeneral)
    } else if lower.ends_with(".csv") {
        Some(TraceFormat::Csv)
    } else if lower.ends_with(".hvt") {
        Some(TraceFormat::Native)
    } else {
        None
    };
    match to.or(by_ending) {
        Some(TraceFormat::Ftrace) => {
            Err(CliError::Input("ftrace text is read, not written: hvt, csv or oracle-general".to_owned()))
        }
        Some(format) => Ok(format),
        None => {
            Err(CliError::Input(format!("{name}: its ending names no form: .hvt, .csv, .oracleGeneral, or give --to")))
        }
    }
}

/// Items and, once they are all read, facts.
trait Source {
    fn next(&mut self) -> Result<Option<Item>, TraceError>;
    fn facts(&self) -> Facts;
}

impl Source for Recording {
    fn next(&mut self) -> Result<Option<Item>, TraceError> {
        self.next_item()
    }

    fn facts(&self) -> Facts {
        Self::facts(self).clone()
    }
}

impl Source for Generator {
    fn next(&mut self) -> Result<Option<Item>, TraceError> {
        Ok(Iterator::next(self))
    }

    fn facts(&self) -> Facts {
        Self::facts(self)
    }
}

/// What was written.
struct Written {
    items: u64,
    facts: Facts,
    notes: Vec<String>,
    interrupted: bool,
}

/// Writes by way of a file beside the one asked for: it appears whole or not at all.
fn write(source: &mut dyn Source, out: &Path, format: TraceFormat, stop: &AtomicBool) -> Result<Written, CliError> {
    let name = out.file_name().ok_or_else(|| CliError::Input(format!("{}: it names no file", out.display())))?;
    let mut beside = name.to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = out.with_file_name(beside);
    let refused = |error: std::io::Error| CliError::Input(format!("{}: cannot be written: {error}", out.display()));
    let file = File::create_new(&beside).map_err(refused)?;
    let written = write_items(source, file, out, format, stop);
    let written = written.and_then(|written| {
        if !written.interrupted {
            fs::rename(&beside, out).map_err(refused)?;
        }
        Ok(written)
    });
    if !matches!(&written, Ok(written) if !written.interrupted) {
        // Nothing half-written is left behind; that it may not be there is fine.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn write_items(
    source: &mut dyn Source,
    file: File,
    out: &Path,
    format: TraceFormat,
    stop: &AtomicBool,
) -> Result<Written, CliError> {
    let failed = |source| TraceError::Write { file: out.display().to_string(), source };
    let buffer = BufWriter::with_capacity(1 << 20, file);
    let mut writer =
        Writer::new(format, buffer).map_err(failed)?.ok_or_else(|| CliError::failed("no such form is written"))?;
    let (mut items, mut interrupted) = (0, false);
    while let Some(item) = source.next()? {
        writer.item(&item).map_err(failed)?;
        items += 1;
        if items % (1 << 16) == 0 && stop.load(Ordering::Relaxed) {
            interrupted = true;
            break;
        }
    }
    let facts = source.facts();
    let (mut buffer, dropped) = writer.finish(&facts).map_err(failed)?;
    buffer.flush().map_err(failed)?;
    let notes = facts.notes().into_iter().chain(dropped.describe()).collect();
    Ok(Written { items, facts, notes, interrupted })
}

fn report(
    from: String,
    out: &Path,
    format: TraceFormat,
    written: Written,
    args: &OutputArgs,
) -> Result<Done, CliError> {
    let interrupted = written.interrupted;
    let mut notes = written.notes;
    if interrupted {
        notes.push("interrupted: no file was written".to_owned());
    }
    let bytes = fs::metadata(out).map_or(0, |meta| if interrupted { 0 } else { meta.len() });
    let file = out.display().to_string();
    let report =
        TraceReport { from, file, format: format.name(), items: written.items, bytes, facts: written.facts, notes };
    output::write(&report, args)?;
    Ok(if interrupted { Done::Interrupted } else { Done::Well })
}

fn convert(args: &ConvertArgs) -> Result<Done, CliError> {
    let format = form(&args.out, args.to)?;
    let stop = stop::flag()?;
    let mut recording = Recording::open_as(&args.trace, args.from)?;
    let from = recording.name().to_owned();
    let written = write(&mut recording, &args.out, format, &stop)?;
    report(from, &args.out, format, written, &args.output)
}

fn generate(args: &GenerateArgs) -> Result<Done, CliError> {
    let format = form(&args.out, args.to)?;
    let pattern = match args.pattern {
        Rule::Zipf => Pattern::Zipf { alpha: args.alpha },
        Rule::Uniform => Pattern::Uniform,
        Rule::Cyclic => Pattern::Cyclic,
        Rule::HotSet => Pattern::HotSet { hot: args.hot, share: args.share, drift: args.drift },
        Rule::Fio => Pattern::Fio,
        Rule::Netperf => Pattern::Netperf,
    };
    let GenerateArgs { devices, vcpus, count, invalidations, seed, .. } = *args;
    let plan = Synthetic { pattern, pages: devices, vcpus, count, invalidations, seed };
    let mut generator = Generator::new(plan).map_err(CliError::input)?;
    let stop = stop::flag()?;
    let written = write(&mut generator, &args.out, format, &stop)?;
    report(format!("{:?}, seed {seed}", args.pattern).to_lowercase(), &args.out, format, written, &args.output)
}

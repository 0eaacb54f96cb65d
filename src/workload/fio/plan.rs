//! The second stage: from a well-formed job file to jobs that can be simulated, or a refusal that names what
//! is not modelled.

use std::collections::BTreeSet;

use super::checks::{self, READ, WRITE};
use super::effective::Effective;
use super::engines::{self, Support};
use super::error::FioError;
use super::extent;
use super::job::{Batch, BlockSize, Engine, FileOrder, FioJob, IgnoredOption, Plan, PlanOptions, Sequence, Then};
use super::jobfile::{DEFAULT_ENGINE, JobFile, Note, SectionKind, Setting, engine_name};
use super::nearest::nearest;
use super::number::KbBase;
use super::options::{Class, Unit};
use super::value::Value;
use super::{blocks, distribution, notes, number, timing};

/// More processes, or more in flight, than any machine fio runs on would be asked for.
const MOST_JOBS: u32 = 4096;
const MOST_DEPTH: u32 = 65_536;

/// fio's own default of `randseed`.
const DEFAULT_SEED: u64 = 0x89;

impl JobFile {
    /// Plans the jobs with [`PlanOptions::default`].
    ///
    /// # Errors
    /// See [`JobFile::plan_with`].
    pub fn plan(&self) -> Result<Plan, FioError> {
        self.plan_with(&PlanOptions::default())
    }

    /// Plans the jobs.
    ///
    /// # Errors
    /// [`FioError::NotModelled`] for an option or engine whose I/O is not modelled,
    /// [`FioError::Impossible`] for a value that fio's parser takes and no job can have.
    pub fn plan_with(&self, options: &PlanOptions) -> Result<Plan, FioError> {
        let mut plan =
            Plan { jobs: Vec::new(), ignored: Vec::new(), notes: Vec::new(), device_bytes: options.device_bytes };
        let mut seen = BTreeSet::new();
        let mut notes: BTreeSet<Note> = self.notes.iter().cloned().collect();
        for (index, section) in self.sections.iter().enumerate() {
            if section.kind == SectionKind::Global {
                continue;
            }
            let globals = self.sections[..index].iter().filter(|before| before.kind == SectionKind::Global);
            let settings: Vec<&Setting> = globals
                .flat_map(|global| global.settings.iter().filter(|setting| setting.option.name != "name"))
                .chain(&section.settings)
                .collect();
            let effective = Effective { file: self, section, settings };
            let place = u64::try_from(plan.jobs.len()).unwrap_or(u64::MAX);
            let jobs = plan_section(&effective, options, place, &mut notes)?;
            if plan.jobs.len() + jobs.len() > usize::try_from(MOST_JOBS).unwrap_or(usize::MAX) {
                return Err(effective.impossible(
                    "numjobs",
                    "the file asks for too many jobs".to_owned(),
                    format!("{MOST_JOBS} jobs in all can be simulated"),
                ));
            }
            plan.jobs.extend(jobs);
            for setting in &effective.settings {
                let ignored = setting.option.class == Class::Ignored;
                if ignored && seen.insert((setting.file.clone(), setting.line, setting.option.name)) {
                    plan.ignored.push(IgnoredOption {
                        line: setting.line,
                        name: setting.option.name,
                        file: setting.file.to_path_buf(),
                        section: section.name.clone(),
                    });
                }
            }
        }
        plan.device_bytes = plan.jobs.iter().map(extent::device_bytes).fold(plan.device_bytes, u64::max);
        plan.notes = notes.into_iter().collect();
        Ok(plan)
    }
}

/// All processes of one section. `place` is how many there are before it.
fn plan_section(
    effective: &Effective<'_>,
    options: &PlanOptions,
    place: u64,
    notes: &mut BTreeSet<Note>,
) -> Result<Vec<FioJob>, FioError> {
    let engine = engine(effective)?;
    refuse_unmodelled(effective)?;
    let way = way(effective)?;
    let blocks = blocks::sizes(effective)?;
    let extent = extent::extent(effective, options, &blocks)?;
    let runtime = effective.time("runtime")?;
    let time_based = effective.flag("time_based") && runtime > 0;
    if effective.flag("time_based") && runtime == 0 {
        notes.insert(Note {
            line: effective.line("time_based"),
            text: "time_based without runtime: fio drops it, the job ends with its bytes".to_owned(),
        });
    }
    let iodepth = effective.count("iodepth", 1, 1, MOST_DEPTH)?;
    let depth = if engine.is_asynchronous() { iodepth } else { 1 };
    let align = blocks::alignment(effective, &blocks, way.random)?;
    let distribution = distribution::distribution(effective, &extent)?;
    let (rate_bps, rate_iops) = timing::rates(effective)?;
    let thinktime_ns = effective.time("thinktime")?;
    let numjobs = effective.count("numjobs", 1, 1, MOST_JOBS)?;
    let random_percent = if way.random { random_percent(effective) } else { [0, 0] };
    let first = FioJob {
        name: match effective.text("name") {
            "" => effective.section.name.clone(),
            name => name.to_owned(),
        },
        section: effective.section.name.clone(),
        line: effective.section.line,
        instance: 0,
        engine,
        read_percent: way.read_percent,
        random_percent,
        sequence: way.sequence,
        batch: batch(effective, depth)?,
        blocks,
        align,
        depth,
        filename: extent.filename.clone(),
        directory: effective.text("directory").to_owned(),
        direct: direct(effective),
        files: extent.files,
        file_order: file_order(effective)?,
        file_spacing: extent.spacing,
        offset: extent.offset,
        file_bytes: extent.file_bytes,
        total_bytes: extent.total_bytes,
        number_ios: effective
            .number("number_ios")
            .and_then(|count| u64::try_from(count).ok())
            .filter(|count| *count > 0),
        runtime_ns: Some(runtime).filter(|runtime| *runtime > 0),
        time_based,
        ramp_ns: effective.time("ramp_time")?,
        start_delay_ns: timing::start_delay(effective)?,
        stonewall: effective.flag("stonewall"),
        loops: extent.loops,
        rate_bps,
        rate_iops,
        poisson: effective.word("rate_process") == Some("poisson"),
        rate_ignores_thinktime: effective.flag("rate_ignore_thinktime"),
        thinktime_ns,
        // As fio: the busy part is no longer than the whole.
        thinktime_spin_ns: effective.time("thinktime_spin")?.min(thinktime_ns),
        think_after: timing::think_after(effective)?,
        distribution,
        norandommap: effective.flag("norandommap"),
        seed: 0,
        latency: timing::latency(effective)?,
    };
    notes::describe(effective, &first, &extent, iodepth, notes);
    let base = effective.number("randseed").map_or(DEFAULT_SEED, number::as_unsigned);
    (0..numjobs)
        .map(|instance| {
            let process = place.saturating_add(u64::from(instance)).saturating_add(1);
            Ok(FioJob {
                instance,
                // Only the first process of a section waits, as in fio.
                stonewall: first.stonewall && instance == 0,
                offset: extent.offset_of(effective, instance)?,
                seed: base.wrapping_mul(process),
                ..first.clone()
            })
        })
        .collect()
}

fn engine(effective: &Effective<'_>) -> Result<Engine, FioError> {
    let name = match effective.text("ioengine") {
        "" => DEFAULT_ENGINE,
        text => engine_name(text),
    };
    match engines::find(name) {
        Some(Support::Modelled(engine)) => Ok(engine),
        Some(Support::Refused(why)) => Err(effective.not_modelled("ioengine", why)),
        None => {
            let near = nearest(name, engines::ENGINES.iter().map(|(name, _)| *name));
            let right = near.map_or_else(
                || format!("the modelled ones are {}", engines::modelled_names()),
                |near| format!("did you mean `{near}`?"),
            );
            Err(effective.impossible("ioengine", format!("fio 3.33 has no engine `{name}`"), right))
        }
    }
}

fn refuse_unmodelled(effective: &Effective<'_>) -> Result<(), FioError> {
    let engine = engines::option_owner(match effective.text("ioengine") {
        "" => DEFAULT_ENGINE,
        text => engine_name(text),
    });
    for setting in &effective.settings {
        let row = setting.option;
        let applies = row.engines.is_empty() || row.engines.contains(&engine);
        let holds = effective.setting(row.name).is_some_and(|last| std::ptr::eq(*setting, last));
        if let Class::Refused(why) = row.class {
            if applies && holds && !switches_off(&setting.value) {
                return Err(effective.not_modelled(row.name, why));
            }
        }
    }
    Ok(())
}

/// Whether a value leaves the option without effect.
fn switches_off(value: &Value) -> bool {
    match value {
        Value::Flag(on) => !on,
        Value::Word(word) => matches!(*word, "none" | "0"),
        Value::Numbers(numbers) => numbers.iter().all(|number| number.unwrap_or(0) == 0),
        Value::Nothing => true,
        Value::Text(_) | Value::Zones(_) | Value::Ranges(_) | Value::Floats(_) => false,
    }
}

struct Way {
    random: bool,
    read_percent: u32,
    sequence: Sequence,
}

fn way(effective: &Effective<'_>) -> Result<Way, FioError> {
    let word = effective.word("rw").unwrap_or("read");
    if word.contains("trim") {
        return Err(effective.not_modelled("rw", "trim requests are not modelled"));
    }
    let random = word.starts_with("rand");
    let read_percent = match word.strip_prefix("rand").unwrap_or(word) {
        "read" => 100,
        "write" => 0,
        _ => read_share(effective),
    };
    let then = if effective.word("rw_sequencer") == Some("identical") { Then::Same } else { Then::Next };
    let mut sequence = Sequence { every: 1, then, step: 0 };
    if let Some(postfix) = checks::postfix(effective.text("rw")) {
        let wrong = || {
            effective.impossible(
                "rw",
                format!("`{postfix}` is no number"),
                "write rw=randread:8 or rw=read:64k".to_owned(),
            )
        };
        if random {
            // fio: 0 takes no new offset ever after the first; it is of no use, and most likely a mistake.
            sequence.every = u32::try_from(number::atoi(postfix)).ok().filter(|every| *every > 0).ok_or_else(wrong)?;
        } else {
            sequence.step = number::decimal(postfix, Unit::Bytes, kb_base(effective)).ok_or_else(wrong)?;
        }
    }
    Ok(Way { random, read_percent, sequence })
}

/// Percentage of reads in a mixed job: the last of `rwmixread` and `rwmixwrite` that is given.
fn read_share(effective: &Effective<'_>) -> u32 {
    let last =
        effective.settings.iter().rev().find(|setting| matches!(setting.option.name, "rwmixread" | "rwmixwrite"));
    let Some(setting) = last else { return 50 };
    let share =
        effective.last_number(setting.option.name).and_then(|share| u32::try_from(share).ok()).unwrap_or(50).min(100);
    if setting.option.name == "rwmixread" { share } else { 100 - share }
}

fn random_percent(effective: &Effective<'_>) -> [u32; 2] {
    effective
        .pair("percentage_random")
        .map(|percent| percent.and_then(|p| u32::try_from(p).ok()).unwrap_or(100).min(100))
}

pub(super) fn kb_base(effective: &Effective<'_>) -> KbBase {
    KbBase(if effective.word("kb_base") == Some("1000") { 1000 } else { 1024 })
}

fn batch(effective: &Effective<'_>, depth: u32) -> Result<Batch, FioError> {
    let clipped = |value: u32| if value == 0 { depth } else { value.min(depth) };
    let complete_min = effective.count("iodepth_batch_complete_min", 1, 0, MOST_DEPTH)?;
    let complete_max = effective.count("iodepth_batch_complete_max", 0, 0, MOST_DEPTH)?;
    Ok(Batch {
        submit: clipped(effective.count("iodepth_batch", 1, 0, MOST_DEPTH)?),
        complete_min: complete_min.min(depth),
        complete_max: complete_max.max(complete_min).min(depth),
        low: clipped(effective.count("iodepth_low", 0, 0, MOST_DEPTH)?),
    })
}

/// `direct` and `buffered` are one switch; the last of them holds.
fn direct(effective: &Effective<'_>) -> bool {
    let last =
        effective.settings.iter().rev().find(|setting| matches!(setting.option.name, "direct" | "buffered" | "atomic"));
    last.is_some_and(|setting| (setting.value == Value::Flag(true)) != (setting.option.name == "buffered"))
}

fn file_order(effective: &Effective<'_>) -> Result<FileOrder, FioError> {
    let count = checks::postfix(effective.text("file_service_type")).map_or(1, number::atoi);
    let count = u32::try_from(count).unwrap_or(1).max(1);
    match effective.word("file_service_type") {
        None | Some("roundrobin") => Ok(FileOrder::RoundRobin(count)),
        Some("sequential") => Ok(FileOrder::Sequential),
        Some("random") => Ok(FileOrder::Random(count)),
        Some(_) => {
            Err(effective.not_modelled("file_service_type", "files are taken in turn, in sequence or at random only"))
        }
    }
}

/// The smallest request of a job, bytes.
pub(super) fn smallest(blocks: &[BlockSize; 2]) -> u32 {
    blocks[READ].smallest().min(blocks[WRITE].smallest())
}

//! Files, sizes and offsets of a job.

use super::blocks::SECTOR;
use super::effective::Effective;
use super::error::FioError;
use super::job::{BlockSize, FioJob, PlanOptions};
use super::number::percentage;
use super::plan::smallest;
use super::value::Value;

const MOST_FILES: u32 = 1 << 20;
const MOST_BYTES: u64 = 1 << 50;

/// Where a job's bytes are.
pub(super) struct Extent {
    pub(super) filename: String,
    pub(super) files: u32,
    pub(super) file_bytes: u64,
    pub(super) offset: u64,
    pub(super) spacing: u64,
    pub(super) total_bytes: u64,
    pub(super) loops: u32,
    /// The device size that was taken for lack of a `size`.
    pub(super) assumed_device: Option<u64>,
    increment: u64,
    align: Option<u64>,
}

/// A size option: bytes, or a percentage of something.
enum Size {
    Bytes(u64),
    Percent(u64),
}

impl Size {
    fn of(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => percent_of(percent, whole),
        }
    }
}

fn percent_of(percent: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(whole) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

fn size(effective: &Effective<'_>, option: &str) -> Result<Option<Size>, FioError> {
    let number = match effective.setting(option).map(|setting| &setting.value) {
        Some(Value::Zones(_)) => return Err(effective.not_modelled(option, "zones are not modelled")),
        Some(_) => effective.last_number(option),
        None => None,
    };
    let Some(number) = number else { return Ok(None) };
    if let Some(percent) = percentage(number) {
        return Ok(Some(Size::Percent(u64::from(percent))));
    }
    let bytes = u64::try_from(number).ok().filter(|bytes| *bytes <= MOST_BYTES);
    bytes.map(Size::Bytes).map(Some).ok_or_else(|| {
        effective.impossible(
            option,
            format!("{number} bytes cannot be simulated"),
            "write a size up to 1024t".to_owned(),
        )
    })
}

pub(super) fn extent(
    effective: &Effective<'_>,
    options: &PlanOptions,
    blocks: &[BlockSize; 2],
) -> Result<Extent, FioError> {
    let filename = filenames(effective);
    let files = match file_names(&filename).count() {
        0 => effective.count("nrfiles", 1, 1, MOST_FILES)?,
        names => u32::try_from(names).unwrap_or(MOST_FILES),
    };
    let device = options.device_bytes;
    let (offset, offset_is_percent) = match size(effective, "offset")? {
        Some(Size::Percent(percent)) => (percent_of(percent, device), percent > 0),
        Some(Size::Bytes(bytes)) => (bytes, false),
        None => (0, false),
    };
    let (increment, increment_is_percent) = match size(effective, "offset_increment")? {
        Some(Size::Percent(percent)) => (percent_of(percent, device), percent > 0),
        Some(Size::Bytes(bytes)) => (bytes, false),
        None => (0, false),
    };
    let align = u64::from(effective.count("offset_align", smallest(blocks), 1, u32::MAX)?);
    let align = (offset_is_percent || increment_is_percent).then_some(align);

    let given = size(effective, "size")?.map(|size| size.of(device)).filter(|bytes| *bytes > 0);
    let per_file = size(effective, "filesize")?.map(|size| size.of(device));
    let left = device.saturating_sub(offset);
    let (file_bytes, assumed_device) = match (per_file, given) {
        (Some(file_bytes), _) => (file_bytes, None),
        (None, Some(bytes)) => (bytes / u64::from(files), None),
        (None, None) => (left / u64::from(files), Some(device)),
    };
    let file_bytes = file_bytes - file_bytes % u64::from(SECTOR);
    let small = u64::from(blocks[0].greatest().max(blocks[1].greatest()));
    let option = if per_file.is_some() { "filesize" } else { "size" };
    if file_bytes < small {
        return Err(effective.impossible(
            option,
            format!("each of {files} files has {file_bytes} bytes, less than one request"),
            format!("a file needs {small} bytes at least"),
        ));
    }
    let whole = given.unwrap_or(u64::MAX).min(file_bytes.saturating_mul(u64::from(files)));
    let loops = effective.count("loops", 1, 0, u32::MAX)?.max(1);
    let once = size(effective, "io_size")?.map(|size| size.of(whole)).filter(|bytes| *bytes > 0).unwrap_or(whole);
    let mut extent = Extent {
        filename,
        files,
        file_bytes,
        offset,
        spacing: 0,
        total_bytes: once.saturating_mul(u64::from(loops)),
        loops,
        assumed_device,
        increment,
        align,
    };
    let last = effective.count("numjobs", 1, 1, u32::MAX)? - 1;
    extent.offset_of(effective, 0)?;
    let end = extent.offset_of(effective, last)?.checked_add(file_bytes).filter(|end| *end <= MOST_BYTES);
    extent.spacing = end.ok_or_else(|| too_far(effective))?;
    if extent.spacing.checked_mul(u64::from(files)).is_none_or(|bytes| bytes > MOST_BYTES) {
        return Err(too_far(effective));
    }
    Ok(extent)
}

fn too_far(effective: &Effective<'_>) -> FioError {
    effective.impossible(
        "size",
        "files, sizes and offsets reach too far".to_owned(),
        "stay within 1024t in all".to_owned(),
    )
}

impl Extent {
    /// Where the range of a section's process begins.
    pub(super) fn offset_of(&self, effective: &Effective<'_>, instance: u32) -> Result<u64, FioError> {
        let raw = self.increment.checked_mul(u64::from(instance)).and_then(|more| more.checked_add(self.offset));
        let offset = raw.and_then(|raw| match self.align {
            Some(align) => raw.checked_next_multiple_of(align),
            None => Some(raw),
        });
        let offset = offset.filter(|offset| *offset <= MOST_BYTES).ok_or_else(|| too_far(effective))?;
        if offset % u64::from(SECTOR) != 0 {
            return Err(effective.impossible(
                if instance == 0 { "offset" } else { "offset_increment" },
                format!("a block device has no sector at byte {offset}"),
                "write a multiple of 512".to_owned(),
            ));
        }
        Ok(offset)
    }
}

/// All names, in order. fio adds the names of a later `filename` to those of an earlier one.
fn filenames(effective: &Effective<'_>) -> String {
    let mut names: Vec<String> = Vec::new();
    for setting in effective.all("filename") {
        for name in file_names(setting.text.trim_matches(super::lines::is_space)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names.join(":")
}

/// Names separated by colons. A backslash makes a colon part of the name.
fn file_names(text: &str) -> impl Iterator<Item = String> {
    let mut names = Vec::new();
    let mut name = String::new();
    for c in text.chars() {
        match c {
            ':' if name.ends_with('\\') => name.push(':'),
            ':' => names.push(std::mem::take(&mut name)),
            _ => name.push(c),
        }
    }
    names.push(name);
    names.into_iter().filter(|name| !name.is_empty())
}

/// The bytes of device that a job needs.
pub(super) fn device_bytes(job: &FioJob) -> u64 {
    job.file_spacing.saturating_mul(u64::from(job.files))
}

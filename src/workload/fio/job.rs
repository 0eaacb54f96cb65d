//! The second stage's result: jobs a simulator can run. All numbers are integers; times are nanoseconds,
//! sizes bytes.

use std::path::PathBuf;

use super::jobfile::Note;

/// What an I/O engine is to the guest's block layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// One request at a time, whatever `iodepth` says: sync, psync, vsync, pvsync, pvsync2.
    Sync,
    /// Linux native AIO, up to `depth` requests in flight.
    LinuxAio,
    /// `io_uring`, up to `depth` requests in flight.
    IoUring,
    /// POSIX AIO: fio queues up to `depth` requests, library threads issue them.
    PosixAio,
    /// fio's null engine issues nothing to the kernel. Here its requests go to the null block device, since
    /// a job file for it is written to see the cost of everything but the medium.
    Null,
}

impl Engine {
    /// Whether it can have more than one request in flight.
    #[must_use]
    pub const fn is_asynchronous(self) -> bool {
        !matches!(self, Self::Sync)
    }
}

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Device to guest.
    Read,
    /// Guest to device.
    Write,
}

impl Direction {
    /// Index into pairs that hold a value for read and one for write.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Read => 0,
            Self::Write => 1,
        }
    }
}

/// The sizes of a direction's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockSize {
    /// All alike.
    Fixed(u32),
    /// As fio draws them: `low + high * u` for u uniform in \[0, 1), cut to a multiple of `low`, at most `high`.
    /// So `high` itself comes up more often than a uniform draw would have it.
    Range {
        /// Smallest, bytes.
        low: u32,
        /// Greatest, bytes.
        high: u32,
    },
    /// Bytes and percentage of the requests, in rising order of percentage; the last takes what is missing
    /// to 100.
    Split(Vec<(u32, u32)>),
}

impl BlockSize {
    /// The smallest size, bytes.
    #[must_use]
    pub fn smallest(&self) -> u32 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Range { low, .. } => *low,
            Self::Split(shares) => shares.iter().map(|(bytes, _)| *bytes).min().unwrap_or(1),
        }
    }

    /// The greatest size, bytes.
    #[must_use]
    pub fn greatest(&self) -> u32 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Range { high, .. } => *high,
            Self::Split(shares) => shares.iter().map(|(bytes, _)| *bytes).max().unwrap_or(1),
        }
    }
}

/// How random offsets are drawn. Parameters are millionths, so that a job is integers throughout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// All blocks alike.
    Uniform,
    /// `zipf:theta`.
    Zipf {
        /// Theta, millionths; not 1 000 000.
        theta: i64,
        /// Where the most frequent block is, millionths of the range; drawn if `None`.
        center: Option<u32>,
    },
    /// `pareto:h`.
    Pareto {
        /// h, millionths, more than 0 and less than 1 000 000.
        h: u32,
        /// Where the most frequent block is, millionths of the range; drawn if `None`.
        center: Option<u32>,
    },
    /// `normal:deviation`.
    Normal {
        /// Deviation, millionths of a percent of the range.
        deviation: u32,
        /// Where the most frequent block is, millionths of the range.
        center: Option<u32>,
    },
    /// `zoned` and `zoned_abs`: zones for reads and for writes.
    Zoned([Vec<Zone>; 2]),
}

/// A zone of a zoned distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Percentage of the accesses; those of all zones add up to 100.
    pub access_percent: u32,
    /// First byte, from the start of the file's range.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
}

/// How many requests a job hands over and takes back at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Requests per submission, at most: `iodepth_batch`.
    pub submit: u32,
    /// Completions waited for at a time, at least: `iodepth_batch_complete_min`. 0 polls.
    pub complete_min: u32,
    /// Completions taken at a time, at most.
    pub complete_max: u32,
    /// After a full queue no request is added before so few are in flight: `iodepth_low`.
    pub low: u32,
}

/// `rw=...:N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// A random job draws a new offset once in so many requests.
    pub every: u32,
    /// What follows a drawn offset: the next blocks, or the same block again (`rw_sequencer=identical`).
    pub then: Then,
    /// A sequential job adds this many bytes after each request: holes, or backwards.
    pub step: i64,
}

/// What follows a drawn offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The blocks behind it.
    Next,
    /// The same block.
    Same,
}

/// The order in which a job of several files takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOrder {
    /// In turn, so many requests each.
    RoundRobin(u32),
    /// One after the other, each to its end.
    Sequential,
    /// Drawn anew after so many requests.
    Random(u32),
}

/// What starts a pause of `thinktime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkAfter {
    /// So many completions.
    Completions(u32),
    /// So many requests issued.
    Issues(u32),
}

/// fio's search for the greatest depth that keeps a latency. Planned, not yet simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyProfile {
    /// Latency to stay below, ns.
    pub target_ns: u64,
    /// How long each depth is tried, ns.
    pub window_ns: u64,
    /// Share of the requests that must stay below, millionths of a percent.
    pub percentile: u64,
}

/// One process of a job file: a section, `numjobs` times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FioJob {
    /// `name=` of the section, else the section's name.
    pub name: String,
    /// The section.
    pub section: String,
    /// Its line, from 1.
    pub line: u32,
    /// Which of the section's `numjobs` it is, from 0.
    pub instance: u32,
    /// How it issues its requests.
    pub engine: Engine,
    /// Percentage of the requests that read: 100 for a reading job, 0 for a writing one.
    pub read_percent: u32,
    /// Percentage of the requests at drawn offsets, for reads and writes; 0 for a sequential job.
    pub random_percent: [u32; 2],
    /// `rw=...:N`.
    pub sequence: Sequence,
    /// Sizes of reads and writes.
    pub blocks: [BlockSize; 2],
    /// Drawn offsets are multiples of this, for reads and writes, bytes.
    pub align: [u32; 2],
    /// Requests in flight, at most.
    pub depth: u32,
    /// Batches.
    pub batch: Batch,
    /// The file or device names as written, separated by colons; the job's own files if empty.
    pub filename: String,
    /// The folder of the files, if given.
    pub directory: String,
    /// Whether requests go past the page cache. The cache is not modelled: requests reach the device either way.
    pub direct: bool,
    /// How many files. File i begins at byte `i * file_spacing` of the device.
    pub files: u32,
    /// Order of the files.
    pub file_order: FileOrder,
    /// Bytes from one file's start to the next one's.
    pub file_spacing: u64,
    /// Where in a file the job's range begins, bytes.
    pub offset: u64,
    /// Bytes of the range in each file.
    pub file_bytes: u64,
    /// Bytes to transfer, loops included: `io_size` or the whole range. A time-based job goes on past it.
    pub total_bytes: u64,
    /// Requests after which the job ends, if fewer than the bytes make.
    pub number_ios: Option<u64>,
    /// The job ends after this long, ns.
    pub runtime_ns: Option<u64>,
    /// Whether only the time ends the job.
    pub time_based: bool,
    /// Time before counting begins, ns.
    pub ramp_ns: u64,
    /// Time before the job begins, ns.
    pub start_delay_ns: u64,
    /// Whether it waits until all jobs before it have ended.
    pub stonewall: bool,
    /// How often the job is run over, already in `total_bytes`.
    pub loops: u32,
    /// Bytes per second, for reads and writes, at most.
    pub rate_bps: [Option<u64>; 2],
    /// Requests per second, for reads and writes, at most.
    pub rate_iops: [Option<u64>; 2],
    /// Whether the times between requests of a rate are exponential rather than equal.
    pub poisson: bool,
    /// Whether pauses of `thinktime` do not count against the rate.
    pub rate_ignores_thinktime: bool,
    /// Pause, ns.
    pub thinktime_ns: u64,
    /// Part of the pause spent busy, ns.
    pub thinktime_spin_ns: u64,
    /// When to pause.
    pub think_after: ThinkAfter,
    /// Drawn offsets.
    pub distribution: Distribution,
    /// Whether fio would be free to take a block twice before it has taken all. Not modelled: offsets are
    /// drawn independently either way.
    pub norandommap: bool,
    /// Seed of this process, from `randseed` and its place in the file.
    pub seed: u64,
    /// Search for a depth, if asked for.
    pub latency: Option<LatencyProfile>,
}

/// An option of fio that shapes no request and was passed over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IgnoredOption {
    /// Its line, from 1.
    pub line: u32,
    /// Its name.
    pub name: &'static str,
    /// The file it stands in.
    pub file: PathBuf,
    /// The first job section it applied to.
    pub section: String,
}

/// What a job file asks of a simulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The jobs, in the order in which fio starts them.
    pub jobs: Vec<FioJob>,
    /// fio's options that were passed over.
    pub ignored: Vec<IgnoredOption>,
    /// Remarks: what is taken for what, and what was made simpler.
    pub notes: Vec<Note>,
    /// Bytes the device needs so that every request is within it.
    pub device_bytes: u64,
}

/// What a job file leaves to the machine it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// Size of the device, bytes: of a job without `size`, and what a percentage is of. fio asks the device.
    pub device_bytes: u64,
}

impl Default for PlanOptions {
    /// 1 GiB: large against any cache of translations, small enough for a table of blocks.
    fn default() -> Self {
        Self { device_bytes: 1 << 30 }
    }
}

//! The stream of a job's requests.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

use super::checks::{READ, WRITE};
use super::distribution::Sampler;
use super::job::{BlockSize, Direction, FileOrder, FioJob, Then};
use super::math::{below, to_u64, unit};

/// One request of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Which way.
    pub direction: Direction,
    /// First byte on the device, a multiple of 512.
    pub offset: u64,
    /// Bytes, a multiple of 512 unless the job's file ends in between.
    pub len: u32,
}

/// Draws a job's requests one by one, without allocating. Same job and seed, same requests, on any host.
///
/// Simpler than fio: direction is drawn for each request by itself (fio evens the mix out), and random
/// offsets are drawn independently (fio takes every block once first unless `norandommap`).
#[derive(Clone, Debug)]
pub struct Requests {
    rng: Xoshiro256PlusPlus,
    read_percent: u64,
    random_percent: [u64; 2],
    every: u32,
    then: Then,
    step: i64,
    blocks: [BlockSize; 2],
    align: [u64; 2],
    /// Smallest request, for reads and writes, bytes.
    smallest: [u64; 2],
    /// Blocks an offset is drawn from, for reads and writes.
    range: [u64; 2],
    samplers: [Sampler; 2],
    offset: u64,
    file_bytes: u64,
    file_spacing: u64,
    order: FileOrder,
    files: u64,
    file: u64,
    /// Requests left before another file is taken.
    file_turns: u32,
    /// For each file and direction, where the last request ended and began, from the range's start.
    positions: Vec<[Position; 2]>,
    /// Requests until the next drawn offset.
    until_drawn: u32,
    bytes_left: u64,
    requests_left: u64,
    bytes_issued: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Position {
    begin: u64,
    end: u64,
}

impl Requests {
    /// The requests of a job. `seed` is mixed with the job's own, so that a run can be repeated with other draws.
    #[must_use]
    pub fn new(job: &FioJob, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(job.seed ^ seed.rotate_left(32));
        let align = [READ, WRITE].map(|direction| u64::from(job.align[direction].max(1)));
        let smallest = [READ, WRITE].map(|direction| u64::from(job.blocks[direction].smallest()));
        let range = [READ, WRITE].map(|direction| {
            // The last offset leaves room for the smallest request.
            (job.file_bytes.saturating_sub(smallest[direction]) / align[direction]) + 1
        });
        let mut sampler =
            |direction: usize| Sampler::new(&job.distribution, direction, range[direction], align[direction], &mut rng);
        let samplers = [sampler(READ), sampler(WRITE)];
        let files = u64::from(job.files.max(1));
        let (bytes_left, requests_left) =
            if job.time_based { (u64::MAX, u64::MAX) } else { (job.total_bytes, job.number_ios.unwrap_or(u64::MAX)) };
        Self {
            rng,
            read_percent: u64::from(job.read_percent),
            random_percent: job.random_percent.map(u64::from),
            every: job.sequence.every.max(1),
            then: job.sequence.then,
            step: job.sequence.step,
            blocks: job.blocks.clone(),
            align,
            smallest,
            range,
            samplers,
            offset: job.offset,
            file_bytes: job.file_bytes,
            file_spacing: job.file_spacing,
            order: job.file_order,
            files,
            // The first choice of a file goes to the one behind this.
            file: files - 1,
            file_turns: 0,
            positions: vec![[Position::default(); 2]; crate::addr::index(files)],
            until_drawn: 1,
            bytes_left,
            requests_left,
            bytes_issued: 0,
        }
    }

    /// The next request; `None` when the job has had its bytes or requests, which a time-based job never has.
    #[allow(clippy::should_implement_trait, reason = "the generator is driven beside other state, not iterated over")]
    #[inline]
    pub fn next(&mut self) -> Option<Request> {
        if self.bytes_left == 0 || self.requests_left == 0 {
            return None;
        }
        let direction = self.direction();
        let d = direction.index();
        self.choose_file();
        let begin = self.begin(d);
        let len = self.length(d, begin);
        let position = &mut self.positions[crate::addr::index(self.file)][d];
        *position = Position { begin, end: begin + u64::from(len) };
        self.bytes_issued = self.bytes_issued.wrapping_add(u64::from(len));
        if self.bytes_left != u64::MAX {
            self.bytes_left = self.bytes_left.saturating_sub(u64::from(len));
        }
        if self.requests_left != u64::MAX {
            self.requests_left -= 1;
        }
        Some(Request { direction, offset: self.file * self.file_spacing + self.offset + begin, len })
    }

    fn direction(&mut self) -> Direction {
        match self.read_percent {
            0 => Direction::Write,
            100.. => Direction::Read,
            percent if below(self.rng.next_u64(), 100) < percent => Direction::Read,
            _ => Direction::Write,
        }
    }

    fn choose_file(&mut self) {
        if self.files == 1 {
            self.file = 0;
            return;
        }
        if self.order == FileOrder::Sequential {
            self.file = (self.bytes_issued / self.file_bytes) % self.files;
            return;
        }
        if self.file_turns == 0 {
            let (FileOrder::RoundRobin(turns) | FileOrder::Random(turns)) = self.order else { return };
            self.file_turns = turns;
            self.file = if matches!(self.order, FileOrder::Random(_)) {
                below(self.rng.next_u64(), self.files)
            } else {
                (self.file + 1) % self.files
            };
        }
        self.file_turns -= 1;
    }

    /// Where the next request begins, from the start of the file's range.
    fn begin(&mut self, d: usize) -> u64 {
        if self.random_percent[d] == 0 {
            return self.sequential(d);
        }
        self.until_drawn -= 1;
        if self.until_drawn > 0 {
            return match self.then {
                Then::Next => self.sequential(d),
                Then::Same => self.positions[crate::addr::index(self.file)][d].begin,
            };
        }
        self.until_drawn = self.every;
        let percent = self.random_percent[d];
        if percent < 100 && below(self.rng.next_u64(), 100) >= percent {
            return self.sequential(d);
        }
        self.samplers[d].block(&mut self.rng, self.range[d]) * self.align[d]
    }

    fn sequential(&self, d: usize) -> u64 {
        let end = self.positions[crate::addr::index(self.file)][d].end;
        let smallest = self.smallest[d];
        let fits = |begin: u64| begin.checked_add(smallest).is_some_and(|end| end <= self.file_bytes);
        if self.step == 0 || end == 0 {
            return if fits(end) { end } else { 0 };
        }
        let moved = end.checked_add_signed(self.step).filter(|begin| fits(*begin));
        match moved {
            Some(begin) => begin,
            // Over the start, backwards: on from the end, as fio does.
            None if self.step < 0 => self.file_bytes.checked_add_signed(self.step).filter(|b| fits(*b)).unwrap_or(0),
            None => 0,
        }
    }

    #[inline]
    fn length(&mut self, d: usize, begin: u64) -> u32 {
        if let BlockSize::Fixed(len) = self.blocks[d] { len } else { self.drawn_length(d, begin) }
    }

    fn drawn_length(&mut self, d: usize, begin: u64) -> u32 {
        let room = self.file_bytes - begin;
        let len = match &self.blocks[d] {
            BlockSize::Fixed(len) => return *len,
            BlockSize::Range { low, high } => {
                let drawn = u64::from(*low) + to_u64(f64::from(*high) * unit(self.rng.next_u64()));
                drawn - drawn % u64::from(*low)
            }
            BlockSize::Split(shares) => {
                let draw = below(self.rng.next_u64(), 100);
                let mut until = 0;
                let share = shares.iter().find(|(_, percent)| {
                    until += u64::from(*percent);
                    draw < until
                });
                share.or(shares.last()).map_or(0, |(len, _)| u64::from(*len))
            }
        };
        let len = len.min(u64::from(self.blocks[d].greatest()));
        let smallest = self.smallest[d];
        // At the end of the range fio draws again until a size fits; the greatest that fits does as well.
        let len = if len > room { room - room % smallest } else { len };
        u32::try_from(len).unwrap_or(u32::MAX)
    }
}

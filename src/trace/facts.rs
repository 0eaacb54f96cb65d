//! What a recording tells about itself, complete once it is read to its end.

use serde::{Deserialize, Serialize};

/// Whether hits are in the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HitsKnown {
    /// The format has no word for it.
    #[default]
    NotRecorded,
    /// Each access tells hit or miss.
    Yes,
    /// No probe on `kvmppc_hv_emulate_mmio`: misses are there, hits are invisible.
    MissesOnly,
}

/// A vCPU of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VcpuFacts {
    /// Its number in its VM, as the kernel prints it, if it did.
    pub vcpu: Option<u32>,
    /// Its thread, if the recording tells.
    pub pid: Option<u32>,
    /// Its VM, numbered from 0.
    pub vm: u32,
}

/// What was read, and what is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Lines or records read.
    pub records: u64,
    /// MMIO accesses.
    pub accesses: u64,
    /// Times the generation moved.
    pub generation_moves: u64,
    /// Of these, by HPTEs known to be MMIO by the guest's cache-inhibited bit alone.
    pub presumed_mmio: u64,
    /// H_REMOVE and H_PROTECT of pages that the recording does not know, taken for RAM.
    pub unknown_hptes: u64,
    /// H_BULK_REMOVE calls: the tracepoint prints two of their four entries.
    pub bulk_removes: u64,
    /// Whether hits are in it.
    pub hits: HitsKnown,
    /// Accesses that say neither hit nor miss although others do (behind lost events).
    pub undecided: u64,
    /// Places where events were lost.
    pub losses: u64,
    /// Events lost there, as far as told.
    pub lost_events: u64,
    /// Lines put together again.
    pub wrapped: u64,
    /// Whether the last line is cut: it is left out.
    pub cut_end: bool,
    /// Faults without a memslot that no emulation followed (the HPTE had changed, or the probe's line is missing).
    pub unfollowed_faults: u64,
    /// Accesses whose page size the recording does not tell; 64 KiB, or the last one told, is taken.
    pub assumed_page_size: u64,
    /// Hypercalls seen at all.
    pub hypercalls: u64,
    /// The vCPUs.
    pub vcpus: Vec<VcpuFacts>,
}

impl Facts {
    /// What a reader must know, in sentences.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |when: bool, text: String| {
            if when {
                notes.push(text);
            }
        };
        note(
            self.hits == HitsKnown::MissesOnly,
            "no probe on kvmppc_hv_emulate_mmio in this recording: hits are invisible, every access shown is a miss; \
             no hit rate can be told (`hvmmio trace record` prints how to record them)"
                .to_owned(),
        );
        note(self.losses > 0, {
            let told = if self.lost_events > 0 { format!("{} events", self.lost_events) } else { "events".to_owned() };
            format!("{told} were lost at {} place(s): caches and generation are not known behind them", self.losses)
        });
        note(self.undecided > 0, format!("{} access(es) tell neither hit nor miss", self.undecided));
        note(self.wrapped > 0, format!("{} wrapped line(s) were put together again", self.wrapped));
        note(self.cut_end, "the recording ends within a line, which is left out".to_owned());
        note(
            self.presumed_mmio > 0,
            format!(
                "{} of {} generation moves are by HPTEs that only their cache-inhibited bit shows to be MMIO",
                self.presumed_mmio, self.generation_moves
            ),
        );
        note(
            self.unknown_hptes > 0,
            format!(
                "{} H_REMOVE or H_PROTECT name pages the recording does not know: taken for RAM",
                self.unknown_hptes
            ),
        );
        note(
            self.bulk_removes > 0,
            format!("{} H_BULK_REMOVE: the tracepoint prints two of up to four entries", self.bulk_removes),
        );
        note(
            self.hits != HitsKnown::NotRecorded && self.hypercalls == 0,
            "no hypercalls in this recording (not traced, or handled in real mode as on POWER8): the generation's moves \
             are invisible"
                .to_owned(),
        );
        note(
            self.assumed_page_size > 0,
            format!(
                "{} access(es) lie in segments whose page size the recording does not tell",
                self.assumed_page_size
            ),
        );
        notes
    }
}

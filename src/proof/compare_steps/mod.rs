//! The simulator against a real Book3S HV: one stream of [steps](crate::workload::steps), performed by both, answer by
//! answer.
//!
//! Compared: how each access ended, its exit, hit or miss where the real side can tell, RT and RA; each hypercall's code and
//! registers; errno of each step of the VMM; the eventfds' counts; at the end both tables in the guest's view.
//! Not compared: time; R and C of the runtime's own entries (stub page, VRMA); what H_READ gives of an unused slot; DSISR of
//! a segment interrupt.

mod difference;
mod draw;
mod equal;
mod hazards;
mod hcall_draw;
mod run;
mod sequences;
mod text;
mod vmm_draw;
mod watch;
mod words;
mod world;

pub use difference::{StepDifference, StepSide};
pub use draw::{DrawError, StepStream};
pub use hazards::{Hazard, hazards};
pub use run::{CompareStepsError, StepCounts, StepsCompared, compare_steps};
pub use sequences::{SequenceStepsError, sequence_steps};
pub use watch::{Seen, WatchError, WatchRow, Watched, watch, watch_simulated};

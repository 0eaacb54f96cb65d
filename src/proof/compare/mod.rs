//! The simulator against this machine's KVM: one stream of accesses, performed by both, compared access by access.
//!
//! A stream is changes to the buses and instructions between them, drawn from a seed or taken from a scenario. The simulator
//! goes first; whenever it says that an instruction exits, the real guest is run and has to exit there, in the same way, with
//! the same data and the same writes waiting in its ring. Both sides' user space then answers, each with devices of its own.
//! What makes no exit is seen after each batch: the ring's entries up to their length, every eventfd's count, every value read,
//! every byte of a string.
//!
//! What is not compared: time; bytes of a ring entry beyond its length; which of several vCPUs comes first (there is one).

mod difference;
mod host_side;
mod program;
mod run;
mod scenario;
mod sim_side;
mod stream;

pub use difference::{Difference, SideState};
pub use run::{CompareError, Compared, Counts, compare, compare_streams};
pub use scenario::stream_of;
pub use stream::{Batch, Change, Devices, Stream};

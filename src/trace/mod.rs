//! Recordings of MMIO accesses: what reads them, what writes them.
//!
//! [`Recording`] opens a file by what is in it, not by its name, and gives its [`Item`]s one by one, so that its size
//! does not matter. What the recording does not tell (hits without the probe, lost events) is in its [`Facts`].

mod csv;
mod error;
mod facts;
pub mod ftrace;
mod item;
pub mod native;
pub mod oracle_general;
mod recording;
pub mod synthetic;
mod writer;

pub use error::TraceError;
pub use facts::{Facts, HitsKnown, VcpuFacts};
pub use item::{Access, Item, Observed};
pub use recording::{Recording, TraceFormat};
pub use writer::{Dropped, Writer};

//! What every host side needs: guest memory, time limits, eventfds, errors.

#![expect(unsafe_code, reason = "memory mappings, timers, eventfds; each block answers for itself")]

mod deadline;
mod error;
mod eventfd;
mod memory;
mod system;

#[cfg(any(test, target_arch = "powerpc64"))]
pub(in crate::host) use deadline::Alarm;
pub use deadline::Deadline;
pub use error::{HostError, Place};
pub use eventfd::HostEventfd;
pub use memory::{Mapping, OutOfRange};
#[cfg(any(test, target_arch = "powerpc64"))]
pub(in crate::host) use system::page_size;
pub use system::release;

//! The I/O engines of fio 3.33 and what the simulator makes of each.

use super::job::Engine;

/// What the simulator does with a job of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Its requests are modelled as block I/O on a virtio-blk device.
    Modelled(Engine),
    /// The text says what the engine does instead of block I/O.
    Refused(&'static str),
}

use Support::{Modelled, Refused};

const NETWORK: &str = "it moves data over a network socket, not through a block device";
const FILE_CALLS: &str = "it makes file system calls, not block I/O";
const STORAGE_LIBRARY: &str = "it talks to a storage service through a library, not to a block device of the guest";
const RDMA: &str = "it does RDMA, not block I/O";
const PMEM: &str = "it stores to mapped persistent memory, not through a block device";
const PASSTHROUGH: &str = "it sends device commands past the block layer";
const GPU: &str = "it moves data between files and a GPU";
const OTHER_SYSTEM: &str = "it exists on another operating system only";

/// Every engine of fio 3.33 by name, with those that a given build may lack.
pub static ENGINES: &[(&str, Support)] = &[
    ("sync", Modelled(Engine::Sync)),
    ("psync", Modelled(Engine::Sync)),
    ("vsync", Modelled(Engine::Sync)),
    ("pvsync", Modelled(Engine::Sync)),
    ("pvsync2", Modelled(Engine::Sync)),
    ("libaio", Modelled(Engine::LinuxAio)),
    // fio takes these two for libaio when it loads an engine.
    ("aio", Modelled(Engine::LinuxAio)),
    ("linuxaio", Modelled(Engine::LinuxAio)),
    ("io_uring", Modelled(Engine::IoUring)),
    ("posixaio", Modelled(Engine::PosixAio)),
    ("null", Modelled(Engine::Null)),
    ("cpp_null", Modelled(Engine::Null)),
    ("mmap", Refused("its I/O is page faults and write-back, whose requests the kernel chooses")),
    ("splice", Refused("it moves data through pipes, whose requests the kernel chooses")),
    ("sg", Refused(PASSTHROUGH)),
    ("io_uring_cmd", Refused(PASSTHROUGH)),
    ("libzbc", Refused(PASSTHROUGH)),
    ("xnvme", Refused(PASSTHROUGH)),
    ("mtd", Refused("it drives raw flash, not a block device")),
    ("net", Refused(NETWORK)),
    ("netsplice", Refused(NETWORK)),
    ("cpuio", Refused("it burns processor time and does no I/O")),
    ("exec", Refused("it runs a command")),
    ("ftruncate", Refused(FILE_CALLS)),
    ("filecreate", Refused(FILE_CALLS)),
    ("filestat", Refused(FILE_CALLS)),
    ("filedelete", Refused(FILE_CALLS)),
    ("falloc", Refused(FILE_CALLS)),
    ("e4defrag", Refused(FILE_CALLS)),
    ("gfapi", Refused(STORAGE_LIBRARY)),
    ("gfapi_async", Refused(STORAGE_LIBRARY)),
    ("nbd", Refused(STORAGE_LIBRARY)),
    ("nfs", Refused(STORAGE_LIBRARY)),
    ("dfs", Refused(STORAGE_LIBRARY)),
    ("rados", Refused(STORAGE_LIBRARY)),
    ("rbd", Refused(STORAGE_LIBRARY)),
    ("http", Refused(STORAGE_LIBRARY)),
    ("libhdfs", Refused(STORAGE_LIBRARY)),
    ("libiscsi", Refused(STORAGE_LIBRARY)),
    ("ime_psync", Refused(STORAGE_LIBRARY)),
    ("ime_psyncv", Refused(STORAGE_LIBRARY)),
    ("ime_aio", Refused(STORAGE_LIBRARY)),
    ("rdma", Refused(RDMA)),
    ("librpma_apm", Refused(RDMA)),
    ("librpma_apm_client", Refused(RDMA)),
    ("librpma_apm_server", Refused(RDMA)),
    ("librpma_gpspm", Refused(RDMA)),
    ("librpma_gpspm_client", Refused(RDMA)),
    ("librpma_gpspm_server", Refused(RDMA)),
    ("pmemblk", Refused(PMEM)),
    ("dev-dax", Refused(PMEM)),
    ("libpmem", Refused(PMEM)),
    ("libcufile", Refused(GPU)),
    ("solarisaio", Refused(OTHER_SYSTEM)),
    ("windowsaio", Refused(OTHER_SYSTEM)),
    ("external", Refused("it is code loaded from a file")),
];

/// What the simulator does with that engine; `None` when fio has no engine of that name.
#[must_use]
pub fn find(name: &str) -> Option<Support> {
    ENGINES.iter().find(|(engine, _)| *engine == name).map(|(_, support)| *support)
}

/// The name under which an engine's own options are filed in the option table.
pub(super) fn option_owner(name: &str) -> &str {
    match name {
        "aio" | "linuxaio" => "libaio",
        _ => name,
    }
}

/// The names of the engines that are modelled, for messages.
pub(super) fn modelled_names() -> String {
    let names: Vec<&str> =
        ENGINES.iter().filter(|(_, support)| matches!(support, Modelled(_))).map(|(name, _)| *name).collect();
    names.join(", ")
}

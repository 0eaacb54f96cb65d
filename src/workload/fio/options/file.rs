//! fio 3.33 options: files and offsets, and how files are laid out.
//!
//! One row per option, from `fio --cmdhelp` and `fio --enghelp`.

#[allow(clippy::wildcard_imports, reason = "a table: every name is a word of the table")]
use super::row::*;

/// The rows.
pub(super) static ROWS: &[OptionRow] = &[
    row("filename", &[], TEXT, Modelled).priority(-1),
    row("directory", &[], TEXT, Modelled),
    row("filename_format", &[], TEXT, Ignored).priority(-1),
    row("unique_filename", &[], Kind::Bool, Ignored),
    row("lockfile", &[], Kind::Choice(&["none", "exclusive", "readwrite"]), Ignored).priority(1),
    row("opendir", &[], TEXT, Refused("the files to use would come from a directory of this host")),
    row("size", &[], Kind::Zoned, Modelled),
    row("io_size", &["io_limit"], Kind::Zoned, Modelled),
    row(
        "fill_device",
        &["fill_fs"],
        Kind::Bool,
        Refused("the amount of I/O would depend on when a file system is full"),
    ),
    row("filesize", &[], Kind::Value { min: 1 }, Modelled),
    row("file_append", &[], Kind::Bool, Refused("the offsets would depend on a file that exists already")),
    row("offset", &["fileoffset"], Kind::Zoned, Modelled),
    row("offset_align", &[], INT, Modelled),
    row("offset_increment", &[], Kind::Zoned, Modelled),
    row("number_ios", &[], Kind::Value { min: 0 }, Modelled),
    row("nrfiles", &["nr_files"], INT, Modelled),
    row("openfiles", &[], INT, Ignored),
    row(
        "file_service_type",
        &[],
        Kind::Choice(&["random", "zipf", "pareto", "normal", "gauss", "roundrobin", "sequential"]),
        Modelled,
    ),
    row("fallocate", &[], Kind::Choice(&["none", "native", "posix", "keep", "truncate", "0", "1"]), Ignored),
    row("fadvise_hint", &[], Kind::Choice(&["0", "1", "random", "sequential"]), Ignored),
    row("overwrite", &[], Kind::Bool, Ignored),
    row("invalidate", &[], Kind::Bool, Ignored),
    row("write_hint", &[], Kind::Choice(&["none", "short", "medium", "long", "extreme"]), Ignored),
    row("create_serialize", &[], Kind::Bool, Ignored),
    row("create_fsync", &[], Kind::Bool, Ignored),
    row("create_on_open", &[], Kind::Bool, Ignored),
    row("create_only", &[], Kind::Bool, Refused("the job would do no I/O")),
    row("allow_file_create", &[], Kind::Bool, Ignored),
    row("allow_mounted_write", &[], Kind::Bool, Ignored),
    row("pre_read", &[], Kind::Bool, Refused("reading the files before the job is not modelled")),
    row("end_fsync", &[], Kind::Bool, Refused("flush requests are not modelled")),
    row("fsync_on_close", &[], Kind::Bool, Refused("flush requests are not modelled")),
    row("unlink", &[], Kind::Bool, Ignored),
    row("unlink_each_loop", &[], Kind::Bool, Ignored),
];

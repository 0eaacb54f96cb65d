//! fio job files: the examples that come with fio, and agreement with `fio --parse-only` on what is well-formed.

use std::path::{Path, PathBuf};
use std::process::Command;

use hvmmio::workload::fio::JobFile;

mod fio_texts;

use fio_texts::TEXTS;

const EXAMPLES: &str = "/usr/share/doc/fio/examples";

/// The examples, or nothing when they are not installed.
fn examples() -> Vec<PathBuf> {
    let Ok(folder) = std::fs::read_dir(EXAMPLES) else {
        println!("SKIPPED: fio-examples is not installed (Debian package fio-examples)");
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = folder
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "fio"))
        .collect();
    files.sort();
    files
}

/// Whether fio takes a file without a complaint. Its exit code alone does not tell: fio goes on after a
/// missing include and after a value out of range, and exits with 0.
fn fio_accepts(path: &Path) -> Option<bool> {
    let output = Command::new("fio").arg("--parse-only").arg(path).output().ok()?;
    Some(output.status.success() && output.stderr.is_empty())
}

fn fio_is_here() -> bool {
    let version = Command::new("fio").arg("--version").output().ok();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    match version.as_deref() {
        Some("fio-3.33") => true,
        Some(other) => {
            println!("SKIPPED: {other} is installed, and the comparison is with fio-3.33");
            false
        }
        None => {
            println!("SKIPPED: fio is not installed (Debian package fio)");
            false
        }
    }
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or("")
}

/// Engines that the Debian build lacks, and so whose options it refuses, by the examples' names.
const OF_ENGINES_NOT_BUILT: [&str; 12] = [
    "dfs.fio",
    "http-s3-crypto.fio",
    "http-s3-storage-class.fio",
    "http-s3.fio",
    "http-swift.fio",
    "http-webdav.fio",
    "librpma_apm-client.fio",
    "librpma_apm-server.fio",
    "librpma_gpspm-client.fio",
    "librpma_gpspm-server.fio",
    "nfs.fio",
    "none.fio",
];

#[test]
fn every_example_is_read_as_fio_reads_it() {
    if !fio_is_here() {
        return;
    }
    let mut agreed = 0;
    let files = examples();
    for path in &files {
        let ours = JobFile::read(path);
        let theirs = fio_accepts(path).unwrap();
        if OF_ENGINES_NOT_BUILT.contains(&name_of(path)) {
            continue;
        }
        println!("{}: {:?}", name_of(path), ours.as_ref().err().map(ToString::to_string));
        if ours.is_ok() == theirs { agreed += 1 } else { println!("DIFFER {}: fio {theirs}", name_of(path)) }
    }
    println!("{agreed} of {}", files.len());
}

#[test]
fn list() {
    for path in examples() {
        let Ok(file) = JobFile::read(&path) else { continue };
        match file.plan() {
            Ok(plan) => {
                println!("PLANNED {}: {} jobs, ignored {}", name_of(&path), plan.jobs.len(), plan.ignored.len())
            }
            Err(error) => println!("REFUSED {error}"),
        }
    }
}

#[test]
fn small_files_are_read_as_fio_reads_them() {
    if !fio_is_here() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in
        [("other.inc", "rw=read\n"), ("with-section.inc", "[k]\n"), ("bad.inc", "bs=0\n"), ("empty.inc", "")]
    {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let path = folder.path().join("job.fio");
    let mut wrong = Vec::new();
    for text in TEXTS {
        std::fs::write(&path, text).unwrap();
        let ours = JobFile::read(&path);
        let theirs = fio_accepts(&path).unwrap();
        if ours.is_ok() != theirs {
            wrong.push(format!("{text:?}: fio {theirs}, here {:?}", ours.err().map(|error| error.to_string())));
        }
    }
    println!("{} of {} texts agree", TEXTS.len() - wrong.len(), TEXTS.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

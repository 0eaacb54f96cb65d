//! fio job files: the examples that come with fio, and agreement with `fio --parse-only` on what is well-formed.

use std::path::{Path, PathBuf};
use std::process::Command;

use hvmmio::workload::fio::{FioError, JobFile, Requests};

mod fio_texts;
mod skip;

use fio_texts::TEXTS;
use skip::skipped;

const EXAMPLES: &str = "/usr/share/doc/fio/examples";

/// The examples, or nothing when they are not installed.
fn examples() -> Vec<PathBuf> {
    let Ok(folder) = std::fs::read_dir(EXAMPLES) else {
        skipped("fio-examples is not installed (Debian package fio-examples)");
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
            skipped(&format!("{other} is installed, and the comparison is with fio-3.33"));
            false
        }
        None => {
            skipped("fio is not installed (Debian package fio)");
            false
        }
    }
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or("")
}

/// Examples for engines that the Debian build lacks: fio refuses the options of those, and they are known here.
const OF_ENGINES_NOT_BUILT: [&str; 11] = [
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
];

/// Examples that are block I/O throughout and of which nothing may be refused.
const BLOCK_IO: [&str; 26] = [
    "1mbs_clients.fio",
    "aio-read.fio",
    "backwards-read.fio",
    "cmdprio-bssplit.fio",
    "cmdprio-percentage.fio",
    "cpp_null.fio",
    "dedupe-global.fio",
    "fio-rand-RW.fio",
    "fio-rand-read.fio",
    "fio-rand-write.fio",
    "fio-seq-RW.fio",
    "fio-seq-read.fio",
    "fio-seq-write.fio",
    "fixed-rate-submission.fio",
    "fsx.fio",
    "iometer-file-access-server.fio",
    "jesd219.fio",
    "latency-profile.fio",
    "null.fio",
    "numa.fio",
    "poisson-rate-submission.fio",
    "rand-zones.fio",
    "ssd-steadystate.fio",
    "ssd-test.fio",
    "tiobench-example.fio",
    "zipf.fio",
];

#[test]
fn every_example_is_read_as_fio_reads_it() {
    if !fio_is_here() {
        return;
    }
    let mut agreed = 0;
    for path in examples() {
        let ours = JobFile::read(&path);
        if OF_ENGINES_NOT_BUILT.contains(&name_of(&path)) {
            assert!(!fio_accepts(&path).unwrap(), "{} is read by this fio", name_of(&path));
            continue;
        }
        assert_eq!(ours.is_ok(), fio_accepts(&path).unwrap(), "{}: {:?}", name_of(&path), ours.err());
        agreed += 1;
    }
    println!(
        "{agreed} examples are read as fio reads them; of engines it was built without: {}",
        OF_ENGINES_NOT_BUILT.len()
    );
}

#[test]
fn the_examples_that_are_block_io_plan_to_jobs_with_requests() {
    for path in examples().iter().filter(|path| BLOCK_IO.contains(&name_of(path))) {
        let plan = JobFile::read(path).and_then(|file| file.plan()).unwrap_or_else(|error| panic!("{error}"));
        assert!(!plan.jobs.is_empty());
        for job in &plan.jobs {
            let mut requests = Requests::new(job, 0);
            for _ in 0..100 {
                let request = requests.next().unwrap_or_else(|| panic!("{}: {} ends early", name_of(path), job.name));
                assert!(request.offset + u64::from(request.len) <= plan.device_bytes);
            }
        }
    }
}

/// With the environment that some examples ask for, and in place of their host names a number.
fn read_filled_in(path: &Path) -> Result<JobFile, FioError> {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.replace("=[port]", "=1").replace("=[read/write/send/recv]", "=read");
    let name = path.to_str().unwrap();
    JobFile::parse(name, &text, &|variable| {
        Some(match variable {
            "FIO_RW" => "randread".to_owned(),
            "FIO_IODEPTH" => "4".to_owned(),
            "FIO_BS" => "8k".to_owned(),
            other => format!("/{other}"),
        })
    })
}

#[test]
fn every_other_example_is_refused_for_a_named_option_or_engine() {
    let mut planned = 0;
    let mut refused = 0;
    for path in examples() {
        let name = name_of(&path);
        match read_filled_in(&path).and_then(|file| file.plan()) {
            Ok(plan) => {
                println!("planned {name}: {} jobs, {} options ignored", plan.jobs.len(), plan.ignored.len());
                planned += 1;
            }
            Err(FioError::NotModelled { what, why, line, .. }) => {
                println!("refused {name}:{line}: {what}: {why}");
                assert!(!BLOCK_IO.contains(&name), "{name}: {what}");
                let option = what.split('=').next().unwrap();
                assert!(hvmmio::workload::fio::options::all().any(|row| row.name == option), "{what}");
                refused += 1;
            }
            Err(other) => panic!("{name}: {other}"),
        }
    }
    println!("{planned} planned, {refused} refused");
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

/// Names in the first column of fio's help.
fn names_in_help(argument: &str) -> Vec<String> {
    let output = Command::new("fio").arg(argument).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim().to_owned()).collect()
}

#[test]
fn every_option_that_fio_lists_is_in_the_table() {
    use hvmmio::workload::fio::{engines, options};
    if !fio_is_here() {
        return;
    }
    let mut count = 0;
    for name in names_in_help("--cmdhelp=all") {
        assert!(options::find_common(&name).is_some(), "{name}");
        count += 1;
    }
    let listed = String::from_utf8(Command::new("fio").arg("--enghelp").output().unwrap().stdout).unwrap();
    for engine in listed.lines().skip(1).map(str::trim) {
        assert!(engines::find(engine).is_some(), "{engine}");
        for name in names_in_help(&format!("--enghelp={engine}")) {
            assert!(options::find(&name, engine).is_some(), "{name} of {engine}");
            count += 1;
        }
    }
    println!("{count} options listed by fio, {} rows in the table", options::all().count());
}

#[test]
fn files_that_are_none_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let read = |name: &str, bytes: &[u8]| {
        std::fs::write(path(name), bytes).unwrap();
        JobFile::read(&path(name)).unwrap_err()
    };
    assert!(matches!(read("bytes", b"[j]\nbs=4k\n\xff\xfe\n"), FioError::NotText { line: 3, .. }));
    assert!(matches!(read("empty", b""), FioError::NoJob { .. }));
    assert!(matches!(read("global", b"[global]\nbs=4k\n"), FioError::NoJob { .. }));
    assert!(matches!(JobFile::read(&path("missing")).unwrap_err(), FioError::Unreadable { .. }));
    assert!(matches!(JobFile::read(folder.path()).unwrap_err(), FioError::Unreadable { .. }));
    std::fs::write(path("b.inc"), "include a.inc\n").unwrap();
    std::fs::write(path("a.inc"), "bs=4k\ninclude b.inc\n").unwrap();
    let circle = read("circle", b"[j]\ninclude a.inc\n");
    assert!(circle.to_string().contains("b.inc:1:") && circle.to_string().contains("from within itself"), "{circle}");
    let missing = read("includes", b"[j]\ninclude none.inc\n");
    assert!(missing.to_string().contains("includes:2:") && missing.to_string().contains("none.inc"), "{missing}");
}

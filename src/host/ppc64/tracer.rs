//! tracefs: an instance of this process's own, and a kprobe, both gone when it ends, by error or signal too.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::host::HostError;

use super::attribute::{Line, parse};

/// Where tracefs is.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// What instances are called, before the process's number.
const NAME: &str = "hvmmio-";
/// KiB of the instance's buffer, per CPU: some 100,000 lines.
const BUFFER_KB: &str = "16384";
/// Signals that end a process and can be told.
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The trace of this thread.
#[derive(Debug)]
pub(super) struct Tracer {
    root: PathBuf,
    instance: PathBuf,
    probe: String,
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    let written = File::options().append(true).open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

impl Tracer {
    /// Traces this thread's faults and emulated accesses.
    ///
    /// # Errors
    /// Why it cannot, in words: no tracefs, no rights, another tracer of this process.
    pub fn start() -> io::Result<Self> {
        let root = PLACES.iter().map(Path::new).find(|root| root.join("kprobe_events").exists());
        let root = root.ok_or_else(|| {
            let here = PLACES.iter().any(|place| Path::new(place).exists());
            let why = if here { "tracefs is not mounted or not permitted here" } else { "this kernel has no tracefs" };
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("{why} (be root; `mount -t tracefs tracefs {}`)", PLACES[0]),
            )
        })?;
        remove_leftovers(root);
        let pid = std::process::id();
        let tracer = Self {
            root: root.to_owned(),
            instance: root.join("instances").join(format!("{NAME}{pid}")),
            probe: format!("emulate_{pid}"),
        };
        fs::create_dir(&tracer.instance)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", tracer.instance.display())))?;
        // From here on whatever fails takes the instance away again (`Drop`).
        on_signal(&tracer)?;
        let probe = format!("p:hvmmio/{} kvmppc_hv_emulate_mmio gpa=%gpr4 ea=%gpr5 is_store=%gpr6:u32", tracer.probe);
        put(&root.join("kprobe_events"), &probe)?;
        // SAFETY: no memory.
        let thread = unsafe { libc::gettid() };
        let probe_enable = format!("events/hvmmio/{}/enable", tracer.probe);
        for (file, text) in [
            ("buffer_size_kb", BUFFER_KB),
            ("trace_clock", "ppc-tb"),
            ("set_event_pid", &thread.to_string()),
            ("events/kvm_hv/kvm_page_fault_enter/enable", "1"),
            (probe_enable.as_str(), "1"),
        ] {
            put(&tracer.instance.join(file), text)?;
        }
        Ok(tracer)
    }

    /// Forgets what there is.
    pub fn clear(&self) -> Result<(), HostError> {
        File::create(self.instance.join("trace"))
            .map(drop)
            .map_err(|error| HostError::call("clearing the trace", error))
    }

    /// The lines since it was cleared.
    pub fn lines(&self) -> Result<Vec<Line>, HostError> {
        let text = fs::read_to_string(self.instance.join("trace"));
        parse(&text.map_err(|error| HostError::call("reading the trace", error))?, &self.probe)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        ARMED.store(false, Ordering::SeqCst);
        remove(&self.root, &self.instance, &self.probe);
    }
}

/// Takes an instance and its kprobe away. What is not there is fine; what does not go the next start takes (`remove_leftovers`).
fn remove(root: &Path, instance: &Path, probe: &str) {
    let _ = put(&instance.join(format!("events/hvmmio/{probe}/enable")), "0");
    let _ = fs::remove_dir(instance);
    let _ = put(&root.join("kprobe_events"), &format!("-:hvmmio/{probe}"));
}

/// Takes away what processes left that were killed.
fn remove_leftovers(root: &Path) {
    let Ok(instances) = fs::read_dir(root.join("instances")) else { return };
    for instance in instances.flatten() {
        let name = instance.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(NAME)?.parse::<u32>().ok()) else { continue };
        if !Path::new("/proc").join(pid.to_string()).exists() {
            remove(root, &instance.path(), &format!("emulate_{pid}"));
        }
    }
}

/// What the signal handler needs, as a C library's calls take it.
struct Undo {
    enable: CString,
    instance: CString,
    events: CString,
    minus: CString,
}

/// Whether there is something to undo.
static ARMED: AtomicBool = AtomicBool::new(false);
static UNDO: AtomicPtr<Undo> = AtomicPtr::new(ptr::null_mut());

/// Lets a signal that ends the process take the instance away first.
fn on_signal(tracer: &Tracer) -> io::Result<()> {
    let text = |path: PathBuf| CString::new(path.into_os_string().into_encoded_bytes()).map_err(io::Error::other);
    let undo = Undo {
        enable: text(tracer.instance.join(format!("events/hvmmio/{}/enable", tracer.probe)))?,
        instance: text(tracer.instance.clone())?,
        events: text(tracer.root.join("kprobe_events"))?,
        minus: CString::new(format!("-:hvmmio/{}", tracer.probe)).map_err(io::Error::other)?,
    };
    // Never freed: a handler may be reading it. There is one a tracer, of some hundred bytes.
    UNDO.store(Box::into_raw(Box::new(undo)), Ordering::SeqCst);
    ARMED.store(true, Ordering::SeqCst);
    for signal in SIGNALS {
        // SAFETY: all zeroes is a sigaction with an empty mask and no flags.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        let handler: extern "C" fn(libc::c_int) = undo_and_end;
        action.sa_sigaction = handler as libc::sighandler_t;
        let mut old = action;
        // SAFETY: both are live variables; the handler makes async-signal-safe calls only.
        if unsafe { libc::sigaction(signal, &raw const action, &raw mut old) } != 0 {
            return Err(io::Error::last_os_error());
        }
        if old.sa_sigaction == libc::SIG_IGN {
            // What was ignored (nohup) stays so.
            // SAFETY: as above.
            unsafe { libc::sigaction(signal, &raw const old, ptr::null_mut()) };
        }
    }
    Ok(())
}

extern "C" fn undo_and_end(signal: libc::c_int) {
    let undo = UNDO.load(Ordering::SeqCst);
    // SAFETY: once stored the pointer is that of a box that is never freed; open, write, close, rmdir, signal and raise are
    // async-signal-safe, and all strings end with a zero.
    unsafe {
        if ARMED.swap(false, Ordering::SeqCst) && !undo.is_null() {
            // An open trace file would keep the instance: it is the only one that is read at length.
            for fd in 3..64 {
                libc::close(fd);
            }
            let write = |path: &CString, text: &[u8]| {
                let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_APPEND);
                libc::write(fd, text.as_ptr().cast(), text.len());
                libc::close(fd);
            };
            write(&(*undo).enable, b"0");
            libc::rmdir((*undo).instance.as_ptr());
            write(&(*undo).events, (*undo).minus.as_bytes());
        }
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

//! A ppc64 program for QEMU's user mode, written by the crate's own encoders: it reads records, performs the instruction
//! of each on its registers and memory, and writes the record with what they are then.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hvmmio::book3s::insn::{Endian, Offset, asm, load_store};

/// Where the program is loaded.
const TEXT: u64 = 0x1000_0000;
/// The instruction under test, on a page of its own: QEMU translates it anew for each record.
pub const SITE: u64 = 0x1001_0000;
/// The record that is worked on. Page-aligned, so that a page that holds nothing else can be its memory in the simulator.
pub const RECORD: u64 = 0x1002_0000;
/// Where the record's memory begins.
pub const MEMORY: u64 = RECORD + MEMORY_AT as u64;

/// Vector-scalar registers that a record has: the ends of both halves, and some between.
pub const VSRS: [u8; 8] = [0, 1, 13, 31, 32, 33, 50, 63];
/// General registers that a record has; r31 points to it.
pub const GPRS: usize = 31;
/// Bytes of memory that a record has.
pub const BYTES: usize = 64;

const WORDS_AT: usize = 0;
const GPR_AT: usize = 16;
const VSR_AT: usize = GPR_AT + 8 * (GPRS + 1);
const MEMORY_AT: usize = VSR_AT + 16 * VSRS.len();
const LENGTH: usize = MEMORY_AT + BYTES;

/// State of the processor before and after one instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// A word and a no-op, or a prefix and its suffix.
    pub words: [u32; 2],
    pub gpr: [u64; GPRS],
    /// Doublewords of the registers in `VSRS`.
    pub vsr: [[u64; 2]; VSRS.len()],
    pub memory: [u8; BYTES],
}

/// Numbers in a guest's byte order.
#[derive(Clone, Copy)]
pub struct Order(pub Endian);

impl Order {
    fn word(self, value: u32) -> [u8; 4] {
        if self.0 == Endian::Big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn doubleword(self, value: u64) -> [u8; 8] {
        if self.0 == Endian::Big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn read(self, bytes: &[u8], at: usize) -> u64 {
        let bytes = bytes[at..at + 8].try_into().expect("8 bytes");
        if self.0 == Endian::Big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
    }
}

impl Record {
    fn put(&self, order: Order, out: &mut Vec<u8>) {
        let start = out.len();
        self.words.iter().for_each(|word| out.extend(order.word(*word)));
        out.resize(start + GPR_AT, 0);
        self.gpr.iter().for_each(|gpr| out.extend(order.doubleword(*gpr)));
        out.resize(start + VSR_AT, 0);
        self.vsr.iter().flatten().for_each(|doubleword| out.extend(order.doubleword(*doubleword)));
        out.extend(self.memory);
        assert_eq!(out.len() - start, LENGTH);
    }

    fn take(words: [u32; 2], order: Order, bytes: &[u8]) -> Self {
        let vsr = |i| [0, 8].map(|half| order.read(bytes, VSR_AT + 16 * i + half));
        Self {
            words,
            gpr: std::array::from_fn(|i| order.read(bytes, GPR_AT + 8 * i)),
            vsr: std::array::from_fn(vsr),
            memory: bytes[MEMORY_AT..].try_into().expect("a record's memory"),
        }
    }
}

fn displaced(name: &str, rt: u8, at: usize) -> u32 {
    load_store(name, rt, 31, Offset::Displacement(i16::try_from(at).unwrap())).unwrap()
}

/// `li r30,at` and a vector-scalar access of `at(r31)`. Its two doublewords are in the record one after the other.
fn vector(name: &str, vsr: u8, at: usize) -> [u32; 2] {
    let li = asm::li(30, i16::try_from(at).unwrap());
    [li, load_store(name, vsr, 31, Offset::Register(30)).unwrap()]
}

fn system_call(number: i16, first: i16) -> Vec<u32> {
    let mut words = vec![asm::li(0, number), asm::li(3, first)];
    words.extend(asm::li64(4, RECORD));
    words.extend([asm::li(5, i16::try_from(LENGTH).unwrap()), asm::sc(0)]);
    words
}

fn branch(from: u64, to: u64) -> u32 {
    asm::b(i32::try_from(to.wrapping_sub(from) as i64).unwrap())
}

/// The words at `TEXT`, and those at `SITE`.
fn program() -> (Vec<u32>, [u32; 3]) {
    const READ: i16 = 3;
    const WRITE: i16 = 4;
    const EXIT: i16 = 1;
    let length = i16::try_from(LENGTH).unwrap();
    let mut words = system_call(READ, 0);
    // A whole record: over the exit.
    words.extend([asm::cmpdi(3, length), asm::beq(16), asm::li(0, EXIT), asm::li(3, 0), asm::sc(0)]);
    words.extend(asm::li64(31, RECORD));
    words.extend(asm::li64(30, SITE));
    for at in [0, 4] {
        words.push(displaced("lwz", 29, WORDS_AT + at));
        words.push(load_store("stw", 29, 30, Offset::Displacement(i16::try_from(at).unwrap())).unwrap());
    }
    // dcbst 0,r30; sync; icbi 0,r30; isync
    words.extend([0x7c00_f06c, 0x7c00_04ac, 0x7c00_f7ac, 0x4c00_012c]);
    for (i, vsr) in VSRS.iter().enumerate() {
        words.extend(vector("lxvd2x", *vsr, VSR_AT + 16 * i));
    }
    for i in 0..GPRS {
        words.push(displaced("ld", u8::try_from(i).unwrap(), GPR_AT + 8 * i));
    }
    let here = |words: &Vec<u32>| TEXT + 4 * words.len() as u64;
    words.push(branch(here(&words), SITE));
    let back = here(&words);
    for i in 0..GPRS {
        words.push(displaced("std", u8::try_from(i).unwrap(), GPR_AT + 8 * i));
    }
    for (i, vsr) in VSRS.iter().enumerate() {
        words.extend(vector("stxvd2x", *vsr, VSR_AT + 16 * i));
    }
    words.extend(system_call(WRITE, 1));
    words.push(branch(here(&words), TEXT));
    (words, [asm::NOP, asm::NOP, branch(SITE + 8, back)])
}

/// A static executable of one segment, readable, writable and executable.
fn elf(order: Order) -> Vec<u8> {
    const HEADERS: usize = 64 + 56;
    let half = |value: u16| if order.0 == Endian::Big { value.to_be_bytes() } else { value.to_le_bytes() };
    let (text, site) = program();
    let mut image: Vec<u8> = text.iter().flat_map(|word| order.word(*word)).collect();
    image.resize(usize::try_from(SITE - TEXT).unwrap(), 0);
    image.extend(site.iter().flat_map(|word| order.word(*word)));

    let mut file = vec![0x7f, b'E', b'L', b'F', 2, if order.0 == Endian::Big { 2 } else { 1 }, 1];
    file.resize(16, 0);
    // ET_EXEC, EM_PPC64, version 1; entry, program headers, no sections; ABI version 2: the entry is no descriptor.
    file.extend([half(2), half(21)].concat());
    file.extend(order.word(1));
    [TEXT, 64, 0].iter().for_each(|value| file.extend(order.doubleword(*value)));
    file.extend(order.word(2));
    [64, 56, 1, 0, 0, 0].iter().for_each(|value| file.extend(half(*value)));
    // PT_LOAD, RWX; the file's first page is not part of the segment.
    const OFFSET: u64 = 0x1_0000;
    [1, 7].iter().for_each(|value| file.extend(order.word(*value)));
    let (in_file, in_memory) = (image.len() as u64, RECORD - TEXT + 0x1_0000);
    [OFFSET, TEXT, TEXT, in_file, in_memory, 0x1_0000].iter().for_each(|value| file.extend(order.doubleword(*value)));
    assert_eq!(file.len(), HEADERS);
    file.resize(usize::try_from(OFFSET).unwrap(), 0);
    file.extend(image);
    file
}

/// Performs each record's instruction under `qemu`; what the records are then.
pub fn perform(qemu: &str, endian: Endian, records: &[Record]) -> Vec<Record> {
    let order = Order(endian);
    let folder = tempfile::tempdir().unwrap();
    let [executable, input, output] = ["executable", "input", "output"].map(|name| folder.path().join(name));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o700).open(&executable).unwrap();
    file.write_all(&elf(order)).unwrap();
    drop(file);
    let mut bytes = Vec::with_capacity(records.len() * LENGTH);
    records.iter().for_each(|record| record.put(order, &mut bytes));
    std::fs::write(&input, &bytes).unwrap();

    let mut child = Command::new(qemu)
        .args(["-cpu", "power10"])
        .arg(&executable)
        .stdin(File::open(&input).unwrap())
        .stdout(File::create(&output).unwrap())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(600);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let written = std::fs::read(&output).unwrap();
    let done = written.len() / LENGTH;
    assert!(
        status.success() && done == records.len() && written.len() % LENGTH == 0,
        "{qemu}: {status} after {done} of {} records, next {:x?}: {said}",
        records.len(),
        records.get(done).map(|record| record.words)
    );
    records.iter().zip(written.chunks(LENGTH)).map(|(record, bytes)| Record::take(record.words, order, bytes)).collect()
}

//! The stream of KVM_PPC_GET_HTAB_FD: the HPT in the guest's view (`Documentation/virt/kvm/api.rst`, 4.78).

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;

use crate::addr::PteIndex;
use crate::book3s::Hpte;
use crate::book3s::hpte::{HPTE_V_ABSENT, HPTE_V_HVLOCK, HPTE_V_VALID};
use crate::host::HostError;

use super::{call, ioctl, uapi};

/// Bytes of a record's header.
const HEADER: usize = size_of::<uapi::kvm_get_htab_header>();
/// Bytes of an entry, two big-endian doublewords.
const ENTRY: usize = 16;
/// Bytes that are read at once.
const CHUNK: usize = 1 << 20;

fn open(vm: &OwnedFd, flags: u32) -> io::Result<File> {
    let mut request = uapi::kvm_get_htab_fd { flags: flags.into(), start_index: 0, reserved: [0; 2] };
    // SAFETY: the number's structure, without addresses.
    let fd = unsafe { call::with(vm, ioctl::KVM_PPC_GET_HTAB_FD, &mut request) }?;
    Ok(File::from(call::made(fd)))
}

/// The whole table: entries that the guest has for valid, by ascending index.
pub(super) fn read(vm: &OwnedFd) -> Result<Vec<(PteIndex, Hpte)>, HostError> {
    let failed = |source| HostError::call("reading KVM_PPC_GET_HTAB_FD", source);
    let mut stream = open(vm, 0).map_err(|source| HostError::call("KVM_PPC_GET_HTAB_FD", source))?;
    let (mut table, mut bytes) = (Vec::new(), vec![0; CHUNK]);
    // Nobody runs meanwhile: after the first pass nothing has changed, and the kernel has nothing more to say.
    loop {
        let count = stream.read(&mut bytes).map_err(failed)?;
        if count == 0 {
            break;
        }
        parse(&bytes[..count], &mut table)?;
    }
    table.sort_unstable_by_key(|(index, _)| *index);
    Ok(table)
}

/// Appends the entries of whole records.
fn parse(mut bytes: &[u8], table: &mut Vec<(PteIndex, Hpte)>) -> Result<(), HostError> {
    let cut = || HostError::Nonsense { what: "the HPT's stream ends within a record".to_owned() };
    while !bytes.is_empty() {
        let (header, rest) = bytes.split_at_checked(HEADER).ok_or_else(cut)?;
        let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let first = u64::from(u32::from_ne_bytes([header[0], header[1], header[2], header[3]]));
        let (entries, rest) = rest.split_at_checked(usize::from(half(4)) * ENTRY).ok_or_else(cut)?;
        bytes = rest;
        for (index, entry) in (first..).zip(entries.chunks_exact(ENTRY)) {
            let word = |at: usize| entry[at..at + 8].iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            // The kernel copies the doubleword while it holds the entry's lock, and the lock's bit with it (`record_hpte`).
            let entry = Hpte { v: word(0) & !HPTE_V_HVLOCK, r: word(8) };
            if entry.v & (HPTE_V_VALID | HPTE_V_ABSENT) != 0 {
                table.push((PteIndex(index), entry));
            }
        }
    }
    Ok(())
}

/// One entry's record.
fn record(index: PteIndex, entry: Hpte) -> io::Result<Vec<u8>> {
    let index = u32::try_from(index.0).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let valid = entry.v & HPTE_V_VALID != 0;
    let mut bytes = index.to_ne_bytes().to_vec();
    bytes.extend(u16::from(valid).to_ne_bytes());
    bytes.extend(u16::from(!valid).to_ne_bytes());
    if valid {
        bytes.extend(entry.v.to_be_bytes());
        bytes.extend(entry.r.to_be_bytes());
    }
    Ok(bytes)
}

/// Writes one entry, or invalidates it.
pub(super) fn write(vm: &OwnedFd, index: PteIndex, entry: Hpte) -> io::Result<()> {
    let bytes = record(index, entry)?;
    match open(vm, uapi::KVM_GET_HTAB_WRITE)?.write(&bytes)? {
        count if count == bytes.len() => Ok(()),
        // The kernel took the header and stopped before the entry.
        _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AN_ENTRY: Hpte = Hpte { v: 0x0123_4001, r: 0x190 };

    #[test]
    fn what_is_written_is_what_is_read() {
        let mut table = Vec::new();
        let locked = Hpte { v: AN_ENTRY.v | HPTE_V_HVLOCK, ..AN_ENTRY };
        let mut bytes = record(PteIndex(7), locked).unwrap();
        bytes.extend(record(PteIndex(9), Hpte::default()).unwrap());
        parse(&bytes, &mut table).unwrap();
        assert_eq!(table, [(PteIndex(7), AN_ENTRY)], "an invalidation has no entry");
        assert_eq!(bytes.len(), HEADER + ENTRY + HEADER);
        assert!(record(PteIndex(1 << 32), AN_ENTRY).is_err());
    }

    #[test]
    fn a_stream_that_ends_within_a_record_is_an_error_at_every_byte() {
        let bytes = record(PteIndex(7), AN_ENTRY).unwrap();
        for end in 1..bytes.len() {
            assert!(parse(&bytes[..end], &mut Vec::new()).is_err(), "{end} bytes");
        }
    }
}

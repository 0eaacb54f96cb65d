//! debugfs `kvm/<thread>-<fd>/htab`: the HPT as the host has it.

use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use crate::addr::PteIndex;
use crate::book3s::Hpte;
use crate::host::HostError;

/// Entries that are not empty: index, the host's doublewords, and the guest's second one.
///
/// The folder is named by the thread that made the VM (`kvm_create_vm_debugfs`) and its descriptor.
pub(super) fn read(vm: &OwnedFd, maker: i32) -> Result<Vec<(PteIndex, Hpte, u64)>, HostError> {
    let name = format!("{maker}-{}", vm.as_raw_fd());
    let path: PathBuf = ["/sys/kernel/debug/kvm", &name, "htab"].iter().collect();
    let text = fs::read_to_string(path).map_err(|source| HostError::Refused {
        what: "reading debugfs kvm/*/htab",
        source,
        cure: "be root, and mount debugfs (`mount -t debugfs debugfs /sys/kernel/debug`)",
    })?;
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<(PteIndex, Hpte, u64)>, HostError> {
    let entry = |line: &str| {
        let words = line.split_whitespace().map(|word| u64::from_str_radix(word, 16).ok());
        match words.collect::<Option<Vec<_>>>().as_deref() {
            Some(&[index, v, r, guest]) => Ok((PteIndex(index), Hpte { v, r }, guest)),
            _ => Err(HostError::Nonsense { what: format!("a line of debugfs kvm/*/htab: `{line}`") }),
        }
    };
    text.lines().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_index_host_doublewords_and_the_guests_second_one() {
        let text = "  11a0 0000000001234020 3000000100003fa8 00000001000031a8\n";
        let host = Hpte { v: 0x123_4020, r: 0x3000_0001_0000_3fa8 };
        assert_eq!(parse(text).unwrap(), [(PteIndex(0x11a0), host, 0x1_0000_31a8)]);
        assert!(parse("11a0 1 2\n").is_err() && parse("11a0 1 2 x\n").is_err());
    }
}

//! What Linux answers a refused system call with.

use super::named;

named! {
    /// An errno that KVM's calls are refused with.
    pub enum Errno {
        /// There is no such thing.
        NoEntry = "ENOENT",
        /// It went wrong inside.
        Io = "EIO",
        /// No such file descriptor.
        BadFile = "EBADF",
        /// There is no memory for it.
        NoMemory = "ENOMEM",
        /// It is there already.
        Exists = "EEXIST",
        /// An argument is out of range.
        Invalid = "EINVAL",
        /// There is no place left.
        NoSpace = "ENOSPC",
    }
}

impl Errno {
    /// Its number, the same on every architecture that has KVM (`asm-generic/errno-base.h`).
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::NoEntry => 2,
            Self::Io => 5,
            Self::BadFile => 9,
            Self::NoMemory => 12,
            Self::Exists => 17,
            Self::Invalid => 22,
            Self::NoSpace => 28,
        }
    }

    /// That of a number; `None` if it is none of these.
    #[must_use]
    pub fn of(number: i32) -> Option<Self> {
        Self::ALL.iter().copied().find(|errno| errno.number() == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_system() {
        for errno in Errno::ALL {
            assert_eq!(Errno::of(errno.number()), Some(*errno));
            let text = std::io::Error::from_raw_os_error(errno.number()).to_string();
            assert!(
                text.contains(&format!("os error {}", errno.number())) && !text.contains("Unknown"),
                "{errno}: {text}"
            );
        }
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        assert_eq!(
            Errno::ALL.iter().map(|errno| errno.number()).collect::<Vec<_>>(),
            [libc::ENOENT, libc::EIO, libc::EBADF, libc::ENOMEM, libc::EEXIST, libc::EINVAL, libc::ENOSPC]
        );
    }
}

//! From one configuration access to the machine accesses it takes, by method.

use super::{Bdf, EcamWindow, Register, Width};
use crate::addr::{GuestPhysAddr, Port, named};

/// Port of the address latch (`PCI_CONFIG_ADDRESS`).
pub const CONFIG_ADDRESS: Port = Port(0xcf8);
/// First of the four data ports.
pub const CONFIG_DATA: Port = Port(0xcfc);
/// Bit 31 of the latch: accesses to the data ports are configuration accesses.
pub const CONFIG_ENABLE: u32 = 1 << 31;

named! {
    /// How a guest reaches configuration space.
    pub enum ConfigMethod {
        /// Ports 0xcf8 and 0xcfc (`pci_conf1_read`): two exits an access, registers below 0x100 only.
        Type1 = "type1",
        /// A load or store in the ECAM window (`pci_mmcfg_read`): one exit an access.
        Ecam = "ecam",
        /// ECAM backed by a read-only memslot: a load is plain memory and does not exit, a store does.
        EcamReadOnly = "ecam-read-only"
    }
}

/// Whether the host has read-only memslots (`KVM_CAP_READONLY_MEM`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadOnlySlots {
    /// It has not.
    Absent,
    /// It has.
    Present,
}

/// The register is out of the method's reach; the guest makes no access at all (Linux: `-EINVAL`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{method} does not reach {bdf} register {register}: use ecam for 0x100 and above", method = .method.name())]
pub struct Unreachable {
    /// The method.
    pub method: ConfigMethod,
    /// The function.
    pub bdf: Bdf,
    /// The register.
    pub register: Register,
}

/// One access of the guest to ports or memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MachineAccess {
    /// OUT to a port: exits (`KVM_EXIT_IO`) unless the port is coalesced.
    Out {
        /// Port.
        port: Port,
        /// How wide.
        width: Width,
        /// What is written.
        value: u32,
    },
    /// IN from a port: exits (`KVM_EXIT_IO`).
    In {
        /// Port.
        port: Port,
        /// How wide.
        width: Width,
    },
    /// A load that exits (`KVM_EXIT_MMIO`).
    Load {
        /// Address.
        addr: GuestPhysAddr,
        /// How wide.
        width: Width,
    },
    /// A store that exits (`KVM_EXIT_MMIO`), also where a read-only memslot is.
    Store {
        /// Address.
        addr: GuestPhysAddr,
        /// How wide.
        width: Width,
        /// What is written.
        value: u32,
    },
    /// A load from the read-only memslot: plain memory, no exit.
    MemoryLoad {
        /// Address.
        addr: GuestPhysAddr,
        /// How wide.
        width: Width,
    },
}

impl MachineAccess {
    /// Whether it leaves the guest, where no port is coalesced.
    #[must_use]
    pub const fn exits(self) -> bool {
        !matches!(self, Self::MemoryLoad { .. })
    }
}

/// The machine accesses of one configuration access, in order: the address first if the method has one, then the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MachineAccesses {
    /// The OUT to 0xcf8.
    pub address: Option<MachineAccess>,
    /// The access whose value is the register's.
    pub data: MachineAccess,
}

impl MachineAccesses {
    /// Exits, where no port is coalesced.
    #[must_use]
    pub fn exits(self) -> u64 {
        self.address.into_iter().chain([self.data]).map(|access| u64::from(access.exits())).sum()
    }
}

impl ConfigMethod {
    /// The method a guest has on that host: without read-only memslots the window's loads exit, and give the same.
    #[must_use]
    pub const fn on(self, slots: ReadOnlySlots) -> Self {
        match (self, slots) {
            (Self::EcamReadOnly, ReadOnlySlots::Absent) => Self::Ecam,
            _ => self,
        }
    }

    /// What reading the register takes.
    ///
    /// # Errors
    /// The method does not reach it.
    pub fn read(self, window: EcamWindow, bdf: Bdf, register: Register) -> Result<MachineAccesses, Unreachable> {
        let (addr, width) = (window.addr(bdf, register), register.width());
        Ok(match self {
            Self::Type1 => {
                let (address, port) = self.ports(bdf, register)?;
                MachineAccesses { address: Some(address), data: MachineAccess::In { port, width } }
            }
            Self::Ecam => MachineAccesses { address: None, data: MachineAccess::Load { addr, width } },
            Self::EcamReadOnly => MachineAccesses { address: None, data: MachineAccess::MemoryLoad { addr, width } },
        })
    }

    /// What writing `value` to the register takes.
    ///
    /// # Errors
    /// The method does not reach it.
    pub fn write(
        self,
        window: EcamWindow,
        bdf: Bdf,
        register: Register,
        value: u32,
    ) -> Result<MachineAccesses, Unreachable> {
        let (addr, width) = (window.addr(bdf, register), register.width());
        Ok(match self {
            Self::Type1 => {
                let (address, port) = self.ports(bdf, register)?;
                MachineAccesses { address: Some(address), data: MachineAccess::Out { port, width, value } }
            }
            Self::Ecam | Self::EcamReadOnly => {
                MachineAccesses { address: None, data: MachineAccess::Store { addr, width, value } }
            }
        })
    }

    /// `pci_conf1_read` and `pci_conf1_write` write the latch each time, whatever it holds; the data port is 0xcfc
    /// plus the register's place in its dword.
    fn ports(self, bdf: Bdf, register: Register) -> Result<(MachineAccess, Port), Unreachable> {
        if !register.is_conventional() {
            return Err(Unreachable { method: self, bdf, register });
        }
        let offset = register.offset();
        let value = CONFIG_ENABLE | u32::from(bdf.bits()) << 8 | u32::from(offset & !3);
        let address = MachineAccess::Out { port: CONFIG_ADDRESS, width: Width::Dword, value };
        Ok((address, Port(CONFIG_DATA.0 + (offset & 3))))
    }
}

/// Configuration space as an OS reaches it (`struct pci_raw_ops`).
pub trait ConfigAccess {
    /// Reads a register, zero-extended; all ones if nobody is there.
    ///
    /// # Errors
    /// The register is out of reach; no access was made.
    fn read(&mut self, bdf: Bdf, register: Register) -> Result<u32, Unreachable>;

    /// Writes a register. Of `value` the register's width counts.
    ///
    /// # Errors
    /// The register is out of reach; no access was made.
    fn write(&mut self, bdf: Bdf, register: Register, value: u32) -> Result<(), Unreachable>;
}

/// [`ConfigAccess`] by a method, over whatever performs machine accesses: a simulator that prices them, a real VM.
///
/// `perform` returns the value that an IN or a load read; what it returns for OUTs and stores is not looked at.
#[derive(Debug)]
pub struct ByMethod<F> {
    method: ConfigMethod,
    /// For what `method` does not reach (`raw_pci_ext_ops`).
    beyond: ConfigMethod,
    window: EcamWindow,
    perform: F,
}

impl<F: FnMut(MachineAccess) -> u32> ByMethod<F> {
    /// Accesses by `method`, with the ECAM window at `window`.
    pub const fn new(method: ConfigMethod, window: EcamWindow, perform: F) -> Self {
        Self { method, beyond: method, window, perform }
    }

    /// With another method for registers out of the first one's reach, as Linux has it where there are both ports and
    /// window (`raw_pci_read`).
    #[must_use]
    pub fn extended_by(self, beyond: ConfigMethod) -> Self {
        Self { beyond, ..self }
    }

    fn run(&mut self, accesses: MachineAccesses) -> u32 {
        if let Some(address) = accesses.address {
            (self.perform)(address);
        }
        (self.perform)(accesses.data)
    }
}

impl<F: FnMut(MachineAccess) -> u32> ConfigAccess for ByMethod<F> {
    fn read(&mut self, bdf: Bdf, register: Register) -> Result<u32, Unreachable> {
        let read = |method: ConfigMethod| method.read(self.window, bdf, register);
        let accesses = read(self.method).or_else(|_| read(self.beyond))?;
        Ok(self.run(accesses))
    }

    fn write(&mut self, bdf: Bdf, register: Register, value: u32) -> Result<(), Unreachable> {
        let write = |method: ConfigMethod| method.write(self.window, bdf, register, value);
        let accesses = write(self.method).or_else(|_| write(self.beyond))?;
        self.run(accesses);
        Ok(())
    }
}

//! The functions of a PCI segment, and what its addresses hold.

use std::collections::BTreeMap;

use super::regs::{HEADER_MULTI_FUNCTION, HEADER_TYPE};
use super::{
    Attachment, Bdf, Class, ConfigAccess, ConfigSpace, FunctionConfig, PciError, Register, Unreachable, VirtioFunction,
    VirtioId, Width,
};

/// Virtio functions that fit on bus 0 beside the host bridge: devices 1 to 31 with 8 functions each.
pub const MAX_VIRTIO_FUNCTIONS: u16 = 31 * 8;

const HEADER_TYPE_BYTE: Register = match Register::new(HEADER_TYPE, Width::Byte) {
    Ok(register) => register,
    Err(_) => panic!("a byte lies within a dword"),
};

/// The functions of one PCI segment by address: buses 0 to 255.
///
/// Function 0 of a device is there whenever another of it is, and the multi-function bit of its header type says
/// whether one is (PCI Local Bus 3.0, 6.2.1). Only pages of functions that are there exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PciBus {
    functions: BTreeMap<Bdf, ConfigSpace>,
}

impl PciBus {
    /// Nobody, not even a host bridge.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A host bridge at 00:00.0 (QEMU's q35: 8086:29c0) and `count` virtio functions: function 0 of devices 1 to 31
    /// first, then function 1 of each, and so on. Network, block, console and entropy devices take turns.
    ///
    /// # Errors
    /// More than [`MAX_VIRTIO_FUNCTIONS`].
    pub fn with_virtio(count: u16, attachment: Attachment) -> Result<Self, PciError> {
        let mut bus = Self::new();
        for (bdf, function) in Self::virtio_functions(count, attachment)? {
            bus.insert(bdf, function.config_space()?)?;
        }
        Ok(bus)
    }

    /// The functions of [`Self::with_virtio`], in the order in which they are put there.
    ///
    /// # Errors
    /// More than [`MAX_VIRTIO_FUNCTIONS`].
    pub fn virtio_functions(count: u16, attachment: Attachment) -> Result<Vec<(Bdf, FunctionConfig)>, PciError> {
        if count > MAX_VIRTIO_FUNCTIONS {
            return Err(PciError::TooManyFunctions { asked: count });
        }
        let mut functions = vec![(Bdf::default(), Self::host_bridge())];
        let ids = [VirtioId::NET, VirtioId::BLOCK, VirtioId::CONSOLE, VirtioId::ENTROPY];
        let places = (0..8).flat_map(|function| (1..32).map(move |device| Bdf::new(0, device, function)));
        for (place, id) in places.zip(ids.into_iter().cycle()).take(count.into()) {
            functions.push((place?, VirtioFunction::new(id, attachment).describe()));
        }
        Ok(functions)
    }

    /// The host bridge's description.
    #[must_use]
    pub fn host_bridge() -> FunctionConfig {
        FunctionConfig {
            vendor: 0x8086,
            device: 0x29c0,
            class: Class::HOST_BRIDGE,
            subsystem_vendor: 0x1af4,
            subsystem: 0x1100,
            ..FunctionConfig::default()
        }
    }

    /// Adds a function. Function 0 of its device turns multi-function with the second.
    ///
    /// # Errors
    /// The place is taken, or function 0 of the device is not there. Nothing has changed then.
    pub fn insert(&mut self, bdf: Bdf, space: ConfigSpace) -> Result<(), PciError> {
        if self.functions.contains_key(&bdf) {
            return Err(PciError::Occupied { bdf });
        }
        if bdf.function() > 0 && !self.functions.contains_key(&bdf.sibling(0)) {
            return Err(PciError::FunctionZero { bdf });
        }
        self.functions.insert(bdf, space);
        self.mark_multi_function(bdf);
        Ok(())
    }

    /// Takes a function away, if it is there.
    ///
    /// # Errors
    /// Function 0 while others of its device are there.
    pub fn remove(&mut self, bdf: Bdf) -> Result<Option<ConfigSpace>, PciError> {
        if bdf.function() == 0 {
            if let Some(bdf) = (1..8).map(|n| bdf.sibling(n)).find(|bdf| self.functions.contains_key(bdf)) {
                return Err(PciError::FunctionZero { bdf });
            }
        }
        let removed = self.functions.remove(&bdf);
        self.mark_multi_function(bdf);
        Ok(removed)
    }

    fn mark_multi_function(&mut self, bdf: Bdf) {
        let others = (1..8).any(|function| self.functions.contains_key(&bdf.sibling(function)));
        if let Some(zero) = self.functions.get_mut(&bdf.sibling(0)) {
            let layout = zero.read(HEADER_TYPE_BYTE) & !u32::from(HEADER_MULTI_FUNCTION);
            let bit = if others { u32::from(HEADER_MULTI_FUNCTION) } else { 0 };
            zero.set_register(HEADER_TYPE_BYTE, layout | bit);
        }
    }

    /// The functions that are there, in order of their addresses.
    pub fn functions(&self) -> impl Iterator<Item = (Bdf, &ConfigSpace)> {
        self.functions.iter().map(|(bdf, space)| (*bdf, space))
    }

    /// A function's configuration space.
    #[must_use]
    pub fn function(&self, bdf: Bdf) -> Option<&ConfigSpace> {
        self.functions.get(&bdf)
    }

    /// For a device that changes its own registers ([`ConfigSpace::set_register`]): every reader sees it at once.
    pub fn function_mut(&mut self, bdf: Bdf) -> Option<&mut ConfigSpace> {
        self.functions.get_mut(&bdf)
    }

    /// A configuration read: all ones if nobody is there (a master abort).
    #[must_use]
    pub fn read(&self, bdf: Bdf, register: Register) -> u32 {
        self.functions.get(&bdf).map_or(register.width().ones(), |space| space.read(register))
    }

    /// A configuration write; dropped if nobody is there. Says whether somebody was.
    pub fn write(&mut self, bdf: Bdf, register: Register, value: u32) -> bool {
        let function = self.functions.get_mut(&bdf);
        function.map(|space| space.write(register, value)).is_some()
    }
}

/// The bus itself, with no machine around it: every register is within reach.
impl ConfigAccess for PciBus {
    fn read(&mut self, bdf: Bdf, register: Register) -> Result<u32, Unreachable> {
        Ok(Self::read(self, bdf, register))
    }

    fn write(&mut self, bdf: Bdf, register: Register, value: u32) -> Result<(), Unreachable> {
        Self::write(self, bdf, register, value);
        Ok(())
    }
}

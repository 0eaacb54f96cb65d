//! One function: from its vendor ID to all that Linux wants to know of it.

use std::collections::BTreeMap;

use super::counted::Counted;
use super::express::Express;
use super::found::FoundFunction;
use crate::io::pci::regs::{
    CLASS_REVISION, COMMAND, COMMAND_INTX_DISABLE, HEADER_MULTI_FUNCTION, HEADER_TYPE, INTERRUPT_LINE, INTERRUPT_PIN,
    SUBSYSTEM_ID, SUBSYSTEM_VENDOR_ID, VENDOR_ID,
};
use crate::io::pci::{Bdf, CONVENTIONAL_BYTES, Class, ConfigAccess, Width};

/// Vendor ID of a function that is not ready yet (configuration request retry status).
const RETRY: u32 = 0x0001;
/// How long Linux waits for such a one, in ms; it asks after 1, 2, 4 ms and so on (`pci_bus_wait_rrs`).
const RETRY_TIMEOUT_MS: u32 = 60_000;
/// Class of a bridge to PCI, which must have a header of type 1.
const PCI_BRIDGE: Class = Class { base: 0x06, sub: 0x04, interface: 0 };

/// A function while it is looked at (`struct pci_dev`).
pub(super) struct Function<'a, 'b, C: ?Sized> {
    config: &'a mut Counted<'b, C>,
    pub(super) found: FoundFunction,
    pub(super) express: Option<Express>,
    /// Capabilities that a search passed: offset and ID.
    pub(super) seen: BTreeMap<u16, u8>,
    /// Extended ones: offset, ID and version.
    pub(super) seen_extended: BTreeMap<u16, (u16, u8)>,
}

impl<'a, 'b, C: ConfigAccess + ?Sized> Function<'a, 'b, C> {
    /// `pci_scan_single_device`: `None` if nobody is there, or somebody with a header that Linux does not know.
    pub(super) fn scan(config: &'a mut Counted<'b, C>, bdf: Bdf) -> Option<FoundFunction> {
        let id = read_vendor(config, bdf)?;
        let mut function = Self::start(config, bdf, id);
        function.setup().then(|| {
            function.configure_device();
            function.init_capabilities();
            function.list_capabilities();
            function.found
        })
    }

    /// A function that was found before, for its driver.
    pub(super) fn resume(config: &'a mut Counted<'b, C>, found: FoundFunction) -> Self {
        Self { config, found, express: None, seen: BTreeMap::new(), seen_extended: BTreeMap::new() }
    }

    fn start(config: &'a mut Counted<'b, C>, bdf: Bdf, id: u32) -> Self {
        let found = FoundFunction {
            bdf,
            vendor: half(id),
            device: half(id >> 16),
            class: Class::default(),
            revision: 0,
            header_type: 0,
            multi_function: false,
            masks_intx: false,
            interrupt_pin: 0,
            interrupt_line: 0,
            subsystem_vendor: 0,
            subsystem: 0,
            config_bytes: CONVENTIONAL_BYTES,
            bars: vec![],
            rom: None,
            capabilities: vec![],
            extended: vec![],
            msix_vectors: None,
            virtio: vec![],
        };
        Self::resume(config, found)
    }

    /// `pci_setup_device`. Of bridges the part that all headers share, no windows: nothing here is behind one.
    fn setup(&mut self) -> bool {
        let [header_type, ..] = self.read(HEADER_TYPE, Width::Byte).to_le_bytes();
        self.found.header_type = header_type & !HEADER_MULTI_FUNCTION;
        self.found.multi_function = header_type & HEADER_MULTI_FUNCTION != 0;
        self.read_express();
        let [revision, interface, sub, base] = self.read(CLASS_REVISION, Width::Dword).to_le_bytes();
        self.found.revision = revision;
        self.found.class = Class { base, sub, interface };
        self.found.config_bytes = self.config_bytes();
        self.look_for_thunderbolt();
        self.read_link_speeds();
        self.found.masks_intx = self.toggle_intx();
        match self.found.header_type {
            0 if self.found.class.is(PCI_BRIDGE) => self.found.class = Class::default(),
            0 => {
                self.read_interrupt();
                self.read_bases();
                self.found.subsystem_vendor = half(self.read(SUBSYSTEM_VENDOR_ID, Width::Word));
                self.found.subsystem = half(self.read(SUBSYSTEM_ID, Width::Word));
            }
            1 | 2 => self.read_interrupt(),
            _ => return false,
        }
        true
    }

    /// `pci_intx_mask_broken`: toggles the bit and puts it back.
    fn toggle_intx(&mut self) -> bool {
        let command = self.read(COMMAND, Width::Word);
        let toggled = command ^ u32::from(COMMAND_INTX_DISABLE);
        self.write(COMMAND, Width::Word, toggled);
        let now = self.read(COMMAND, Width::Word);
        self.write(COMMAND, Width::Word, command);
        now == toggled
    }

    /// `pci_read_irq`.
    fn read_interrupt(&mut self) {
        [self.found.interrupt_pin, ..] = self.read(INTERRUPT_PIN, Width::Byte).to_le_bytes();
        if self.found.interrupt_pin != 0 {
            [self.found.interrupt_line, ..] = self.read(INTERRUPT_LINE, Width::Byte).to_le_bytes();
        }
    }

    pub(super) fn try_read(&mut self, offset: u16, width: Width) -> Option<u32> {
        self.config.try_read(self.found.bdf, offset, width)
    }

    pub(super) fn read(&mut self, offset: u16, width: Width) -> u32 {
        self.config.read(self.found.bdf, offset, width)
    }

    pub(super) fn write(&mut self, offset: u16, width: Width, value: u32) {
        self.config.write(self.found.bdf, offset, width, value);
    }
}

/// `pci_bus_generic_read_dev_vendor_id`: vendor and device ID, `None` if nobody is there.
fn read_vendor<C: ConfigAccess + ?Sized>(config: &mut Counted<'_, C>, bdf: Bdf) -> Option<u32> {
    let mut id = config.try_read(bdf, VENDOR_ID, Width::Dword)?;
    if matches!(id, 0 | u32::MAX | 0x0000_ffff | 0xffff_0000) {
        return None;
    }
    let mut delay_ms = 1;
    while id & 0xffff == RETRY {
        if delay_ms > RETRY_TIMEOUT_MS {
            return None;
        }
        delay_ms *= 2;
        id = config.try_read(bdf, VENDOR_ID, Width::Dword)?;
    }
    Some(id)
}

fn half(value: u32) -> u16 {
    let [low, high, ..] = value.to_le_bytes();
    u16::from_le_bytes([low, high])
}

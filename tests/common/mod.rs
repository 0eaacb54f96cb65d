//! A small world for tests: one VM, one vCPU, pages by number.
#![allow(dead_code, reason = "each test file uses its own part")]

use hvmmio::addr::{EffectiveAddr, GuestPhysAddr, KernelBehaviour, PteIndex};
use hvmmio::book3s::Hpte;
use hvmmio::book3s::insn::{Direction, Mode, Size, decode};
use hvmmio::book3s::msr::{DSISR_ISSTORE, DSISR_NOHPTE};
use hvmmio::kvm_hv::{
    Access, CacheUse, Fault, Fetch, Interrupt, MissClass, Outcome, Record, StageSet, Vcpu, VcpuConfig, Vm, VmConfig,
};
use hvmmio::workload::guest::{Guest, PageUse, Touch};

/// EA of page 0 in the tests' one segment, and its stride.
pub const EA: u64 = 0xc000_0000_0000_0000;
pub const PAGE: u64 = 1 << 16;
/// Guest physical address of MMIO page 0; RAM page 0 is at 0.
pub const MMIO: u64 = 1 << 40;
/// RAM pages lie that many pages above the MMIO pages' EAs.
const RAM_EA: u64 = EA + (1 << 32);

pub struct World {
    pub vm: Vm,
    pub vcpu: Vcpu,
    pub guest: Guest,
}

pub fn behaviour(switches: &[&str]) -> KernelBehaviour {
    let mut behaviour = KernelBehaviour::default();
    for switch in switches {
        behaviour.set(switch).unwrap();
    }
    behaviour
}

impl World {
    pub fn new() -> Self {
        Self::with(&[], VcpuConfig::default())
    }

    pub fn switched(switches: &[&str]) -> Self {
        Self::with(switches, VcpuConfig::default())
    }

    pub fn with(switches: &[&str], config: VcpuConfig) -> Self {
        let vm = Vm::new(VmConfig { behaviour: behaviour(switches), ..VmConfig::default() }).unwrap();
        let guest = Guest::default();
        let vcpu = new_vcpu(&vm, &guest, config);
        Self { vm, vcpu, guest }
    }

    /// Memslot 0: `pages` host pages from guest physical address 0.
    pub fn add_ram(&self, pages: u64) {
        self.vm.set_memslot(0, GuestPhysAddr(0), pages * PAGE, 16).unwrap();
    }

    pub fn enter_mmio(&self, page: u64) -> PteIndex {
        self.guest.map(&self.vm, mmio_ea(page), mmio_gpa(page), PageUse::DEVICE).unwrap()
    }

    pub fn enter_ram(&self, page: u64, key: u64) -> PteIndex {
        self.guest.map(&self.vm, ram_ea(page), GuestPhysAddr(page * PAGE), PageUse::RAM.with_key(key)).unwrap()
    }

    pub fn store(&mut self, ea: EffectiveAddr) -> Record {
        touch(Direction::Store).perform(&self.vm, &mut self.vcpu, ea, 0x1122_3344)
    }

    pub fn load(&mut self, ea: EffectiveAddr) -> Record {
        touch(Direction::Load).perform(&self.vm, &mut self.vcpu, ea, 0)
    }

    /// Runs one instruction word as the registers stand.
    pub fn run(&mut self, word: u32) -> Record {
        let Some(hvmmio::book3s::insn::Insn::Access(access)) = decode(word) else { panic!("{word:#x} is no access") };
        let ea = EffectiveAddr(access.effective_address(&self.vcpu.gpr, Mode::SixtyFour));
        self.run_at(word, ea, access.direction)
    }

    pub fn run_at(&mut self, word: u32, ea: EffectiveAddr, direction: Direction) -> Record {
        self.vcpu.access(&self.vm, &Access::new(ea, direction, word))
    }

    /// The fault that an access to a page without a VALID HPTE takes.
    pub fn no_hpte(&self, ea: EffectiveAddr, direction: Direction) -> Fault {
        let store = if direction == Direction::Store { DSISR_ISSTORE } else { 0 };
        let slb_v = self.vcpu.slb.lookup(ea).unwrap();
        Fault { ea, slb_v, dsisr: DSISR_NOHPTE | store, fetch: false }
    }

    /// H_READ of one entry.
    pub fn read(&self, at: PteIndex) -> Hpte {
        self.vm.h_read(0, at).unwrap()[0]
    }

    /// The host's own doublewords of one entry.
    pub fn host(&self, at: PteIndex) -> Hpte {
        self.vm.hpt().peek(at).unwrap().0
    }
}

pub fn new_vcpu(vm: &Vm, guest: &Guest, config: VcpuConfig) -> Vcpu {
    let mut vcpu = Vcpu::new(vm, config);
    vcpu.slb.slbmte(guest.slb_entry(0, EffectiveAddr(EA))).unwrap();
    vcpu
}

pub fn touch(direction: Direction) -> Touch {
    Touch::new(direction, Size::Word).unwrap()
}

pub fn stages() -> StageSet {
    StageSet::EMPTY
}

pub const STW: Fetch = Fetch::Word(0x90a4_0000);
pub const LWZ: Fetch = Fetch::Word(0x80a4_0000);

pub fn mmio_ea(page: u64) -> EffectiveAddr {
    EffectiveAddr(EA + page * PAGE)
}

pub fn mmio_gpa(page: u64) -> GuestPhysAddr {
    GuestPhysAddr(MMIO + page * PAGE)
}

pub fn ram_ea(page: u64) -> EffectiveAddr {
    EffectiveAddr(RAM_EA + page * PAGE)
}

#[track_caller]
pub fn assert_hit(record: &Record) {
    assert_eq!(record.cache, CacheUse::Hit, "{record:?}");
}

#[track_caller]
pub fn assert_miss(record: &Record, class: MissClass) {
    assert_eq!(record.cache, CacheUse::Miss(Some(class)), "{record:?}");
}

#[track_caller]
pub fn assert_ram(record: &Record) {
    assert!(matches!(record.outcome, Outcome::Ram { .. }), "{record:?}");
}

/// DSISR of a reflected data storage interrupt.
#[track_caller]
pub fn reflected(record: &Record) -> u32 {
    match record.outcome {
        Outcome::Reflected(Interrupt::DataStorage { dsisr, .. }) => dsisr,
        other => panic!("not reflected: {other:?}"),
    }
}

//! Any words at a guest's PC: the emulator ends every access, advances the PC by the instruction's length or not at all,
//! keeps its exits inside 8 bytes and 4 pieces, and decodes what its own encoders write.

#![no_main]

use hvmmio::addr::{EffectiveAddr, GuestPhysAddr, KernelBehaviour};
use hvmmio::book3s::Vsr;
use hvmmio::book3s::insn::{Direction, Endian, Insn, Mode, decode, decode_prefixed, encode, is_prefix};
use hvmmio::book3s::msr::{MSR_FP, MSR_VEC, MSR_VSX};
use hvmmio::io::{CoalescedZone, IoBus, Ioeventfd};
use hvmmio::kvm_hv::{Access, Completion, Fetch, Outcome, Vcpu, VcpuConfig, Vm, VmConfig};
use hvmmio::workload::guest::{Guest, PageUse};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

const EA: u64 = 0xc000_0000_0000_0000;
const GPA: u64 = 1 << 40;
const PC: u64 = 0x1000;

#[derive(Debug, Arbitrary)]
struct Step {
    word: u32,
    suffix: Option<u32>,
    at: u16,
    store: bool,
    /// Which facilities are on.
    msr: u8,
    gpr: [u64; 4],
    vsr: u64,
    answer: [u8; 8],
}

#[derive(Debug, Arbitrary)]
struct Input {
    little: bool,
    /// Bits: prefixed unknown, direction by decoding, ISSTORE exact or analysed, a zone, an eventfd.
    switches: u8,
    steps: Vec<Step>,
}

fuzz_target!(|input: Input| {
    let mut behaviour = KernelBehaviour::default();
    let switches =
        ["prefixed=unknown", "direction_rule=decoded", "issstore_on_failure=exact", "issstore_on_failure=analysed"];
    for (bit, switch) in switches.iter().enumerate() {
        if input.switches >> bit & 1 != 0 {
            behaviour.set(switch).expect("a switch of the table");
        }
    }
    let vm = Vm::new(VmConfig { behaviour, ..VmConfig::default() }).expect("a small table");
    let endian = if input.little { Endian::Little } else { Endian::Big };
    let mut vcpu = Vcpu::new(&vm, VcpuConfig { endian, ..VcpuConfig::default() });
    let guest = Guest::default();
    vcpu.slb.slbmte(guest.slb_entry(0, EffectiveAddr(EA))).expect("slot 0");
    guest.map(&vm, EffectiveAddr(EA), GuestPhysAddr(GPA), PageUse::DEVICE).expect("an empty table");
    if input.switches & 0x10 != 0 {
        vm.io().register_zone(CoalescedZone { addr: GPA, size: 0x1000, pio: 0 }).expect("a free range");
    }
    if input.switches & 0x20 != 0 {
        let fd = vm.io().create_eventfd().id();
        let assigned = Ioeventfd { bus: IoBus::Mmio, addr: GPA + 0x2008, len: 8, datamatch: None, fd };
        vm.io().assign(assigned).expect("a free address");
    }
    for step in &input.steps {
        perform(&vm, &mut vcpu, step);
    }
});

fn perform(vm: &Vm, vcpu: &mut Vcpu, step: &Step) {
    vcpu.gpr.iter_mut().zip(step.gpr.iter().cycle()).for_each(|(gpr, value)| *gpr = *value);
    vcpu.vsr.fill(Vsr::new([step.vsr, !step.vsr]));
    for (n, bit) in [MSR_FP, MSR_VEC, MSR_VSX].into_iter().enumerate() {
        vcpu.msr = if step.msr >> n & 1 != 0 { vcpu.msr | bit } else { vcpu.msr & !bit };
    }
    vcpu.pc = PC;
    let (insn, fetch) = match step.suffix {
        Some(suffix) => {
            let prefix = step.word & 0x03ff_ffff | 1 << 26;
            (decode_prefixed(prefix, suffix), Fetch::Prefixed(prefix, suffix))
        }
        None => (decode(step.word), Fetch::Word(step.word)),
    };
    if let (Some(Insn::Access(access)), None) = (insn, step.suffix) {
        // But for the reserved last bit of X forms.
        let word = encode(&access).expect("decoded");
        assert!(word == step.word || word == step.word & !1, "{access:?}");
    }
    if let Some(insn) = insn {
        assert!(step.suffix.is_some() || !is_prefix(step.word));
        let ea = insn.effective_address(PC, &vcpu.gpr, Mode::ThirtyTwo);
        assert!(ea.is_none_or(|ea| ea <= u64::from(u32::MAX)), "{insn:?}");
    }
    let direction = if step.store { Direction::Store } else { Direction::Load };
    let ea = EffectiveAddr(EA + u64::from(step.at));
    let before = vcpu.gpr;
    let record = vcpu.access(vm, &Access { ea, direction, insn: fetch });
    let length = if step.suffix.is_some() { 8 } else { 4 };
    match record.outcome {
        Outcome::Exit(first) => {
            assert_eq!((vcpu.pc, first.direction), (PC + length, direction));
            let (mut exit, mut pieces) = (first, 0);
            loop {
                pieces += 1;
                assert!(pieces <= 4 && [1, 2, 4, 8].contains(&exit.len), "{exit:?}");
                assert!(exit.gpa.0 >= GPA && exit.gpa.0 < GPA + (1 << 16) + 16, "{exit:?}");
                assert!(exit.data[usize::from(exit.len)..].iter().all(|byte| *byte == 0), "{exit:?}");
                match vcpu.complete(&step.answer) {
                    Completion::Exit(next) => exit = next,
                    Completion::Done => break,
                    Completion::NothingWaits => {
                        assert_eq!(direction, Direction::Store);
                        break;
                    }
                }
            }
        }
        Outcome::Kernel { .. } => assert_eq!(vcpu.pc, PC + length),
        Outcome::Reflected(_) | Outcome::RetriesForever(_) => {
            assert_eq!((vcpu.pc, vcpu.gpr), (PC, before));
            assert_eq!(vcpu.complete(&step.answer), Completion::NothingWaits);
        }
        Outcome::Ram { .. } => panic!("there is no RAM"),
    }
}

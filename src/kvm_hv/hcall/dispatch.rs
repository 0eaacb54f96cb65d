//! A hypercall as the guest makes it: number and arguments in registers, code and values in registers.

use crate::addr::PteIndex;
use crate::book3s::Hpte;
use crate::kvm_hv::vm::Vm;

use super::{BULK_REQUESTS, HcallError, ProtectFlags, number};

/// PAPR's H_SUCCESS.
const H_SUCCESS: i64 = 0;
/// PAPR's H_FUNCTION: no such hypercall.
pub const H_FUNCTION: i64 = -2;

/// What a hypercall leaves in the guest's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HcallReturn {
    /// GPR3.
    pub code: i64,
    /// GPR4 to GPR12: the arguments, where no value was written over them.
    pub values: [u64; 9],
}

impl Vm {
    /// `sc 1` with `call` in GPR3 and `args` in GPR4 to GPR12: the hypercalls on the table, by [`number`]; any other is
    /// answered H_FUNCTION, as a VMM does. A refused call leaves its arguments alone, but H_BULK_REMOVE has answered what
    /// came before the bad request.
    #[must_use]
    pub fn hcall(&self, call: u64, args: [u64; 9]) -> HcallReturn {
        let [flags, at, third, fourth, ..] = args;
        let at = PteIndex(at);
        let mut values = args;
        let result = match call {
            number::H_REMOVE => self.h_remove(flags, at, third).map(|entry| put(&mut values, &[entry])),
            number::H_ENTER => self.h_enter(flags, at, Hpte { v: third, r: fourth }).map(|index| values[0] = index.0),
            number::H_READ => self.h_read(flags, at).map(|entries| {
                let count = if flags & super::flags::H_READ_4 != 0 { 4 } else { 1 };
                put(&mut values, &entries[..count]);
            }),
            number::H_CLEAR_MOD => self.h_clear_mod(at).map(|r| values[0] = r),
            number::H_CLEAR_REF => self.h_clear_ref(at).map(|r| values[0] = r),
            number::H_PROTECT => self.h_protect(ProtectFlags(flags), at, third),
            number::H_BULK_REMOVE => {
                let mut words = [0; 2 * BULK_REQUESTS];
                words.copy_from_slice(&args[..2 * BULK_REQUESTS]);
                let result = self.h_bulk_remove(&mut words);
                values[..2 * BULK_REQUESTS].copy_from_slice(&words);
                result
            }
            _ => return HcallReturn { code: H_FUNCTION, values },
        };
        HcallReturn { code: result.map_or_else(HcallError::code, |()| H_SUCCESS), values }
    }
}

/// Both doublewords of each entry, from GPR4 on.
fn put(values: &mut [u64; 9], entries: &[Hpte]) {
    for (pair, entry) in values.chunks_exact_mut(2).zip(entries) {
        pair.copy_from_slice(&[entry.v, entry.r]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::flags::{H_EXACT, H_READ_4};
    use super::*;
    use crate::addr::{EffectiveAddr, GuestPhysAddr};
    use crate::kvm_hv::VmConfig;
    use crate::workload::guest::{Guest, PageUse};

    const UNTOUCHED: u64 = 0x5555;

    fn args(first: &[u64]) -> [u64; 9] {
        let mut args = [UNTOUCHED; 9];
        args[..first.len()].copy_from_slice(first);
        args
    }

    fn entry() -> Hpte {
        let (ea, gpa) = (EffectiveAddr(0x4000_0000_0000), GuestPhysAddr(0x2000_0000_0000));
        Guest::default().hpte(ea, gpa, PageUse::DEVICE).unwrap().0
    }

    #[test]
    fn each_hypercall_takes_its_arguments_from_r4_on_and_returns_its_values_there() {
        let (vm, Hpte { v, r }) = (Vm::new(VmConfig::default()).unwrap(), entry());
        let entered = vm.hcall(number::H_ENTER, args(&[H_EXACT, 0x123, v, r]));
        assert_eq!((entered.code, entered.values), (0, args(&[0x123, 0x123, v, r])));
        let read = vm.hcall(number::H_READ, args(&[0, 0x123]));
        assert_eq!((read.code, read.values), (0, args(&[v, r])));
        let four = vm.hcall(number::H_READ, args(&[H_READ_4, 0x123]));
        assert_eq!(four.values, args(&[0, 0, 0, 0, 0, 0, v, r]));
        let generation = vm.generation();
        assert_eq!(vm.hcall(number::H_PROTECT, args(&[3, 0x123, 0])).values, args(&[3, 0x123, 0]));
        assert_eq!(vm.generation(), generation + 1);
        let cleared = vm.hcall(number::H_CLEAR_REF, args(&[0, 0x123]));
        assert_eq!((cleared.code, cleared.values), (0, args(&[r | 3, 0x123])));
        let bulk = vm.hcall(number::H_BULK_REMOVE, args(&[1 << 62 | 0x123, 0, 3 << 62, 0]));
        assert_eq!((bulk.code, bulk.values), (0, args(&[0x84 << 56 | 0x123, 0, 3 << 62, 0])));
    }

    #[test]
    fn a_refused_hypercall_leaves_its_arguments_alone() {
        let vm = Vm::new(VmConfig::default()).unwrap();
        for (call, code) in [(number::H_REMOVE, -7), (number::H_PROTECT, -7), (number::H_CLEAR_MOD, -7), (0x3f0, -2)] {
            let given = args(&[0, 5, 1, 2]);
            assert_eq!(vm.hcall(call, given), HcallReturn { code, values: given }, "{call:#x}");
        }
        let given = args(&[0, vm.hpt().npte(), 1, 2]);
        for call in [number::H_REMOVE, number::H_ENTER, number::H_READ, number::H_CLEAR_REF] {
            assert_eq!(vm.hcall(call, given), HcallReturn { code: -4, values: given }, "{call:#x}");
        }
    }
}

//! Guests on this machine's real KVM: exits with all that `kvm_run` says, guests that go wrong, VMs that come and go.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod host_common;
#[path = "host_common/programs.rs"]
mod programs;

use std::sync::Arc;
use std::time::Duration;

use host_common::kvm;
use hvmmio::addr::{GuestPhysAddr, Port};
use hvmmio::device::{RTC_INDEX_PORT, Rtc, UserSpace};
use hvmmio::host::x86_64::{DATA, Deadline, ECAM, EXIT_PORT, HostError, HostEventfd, MMIO, Mapping, Reg, System};
use hvmmio::io::{CoalescedZone, EventfdId, IoBus, Ioeventfd};
use hvmmio::kvm_x86::{Direction, PortWidth, StringStep, Target, UserExit, Width};
use programs::{guest, limit};

fn exit(target: Target, direction: Direction, size: u8, count: u32) -> UserExit {
    UserExit { target, direction, size, count, ring_full: false }
}

#[test]
fn an_exit_tells_port_size_count_and_data_of_strings_too() {
    let Some(system) = kvm() else { return };
    let port = Target::Port(Port(0x5a0));
    let (vm, mut vcpu) = guest(&system, |asm| {
        asm.out(0x5a0, PortWidth::Dword, 0x1122_3344);
        asm.clear_rax().in_dx(PortWidth::Word).save_rax(DATA);
        asm.direction(StringStep::Up);
        asm.mov(Reg::Rdi, DATA + 8).mov(Reg::Rcx, 3).rep_ins(PortWidth::Dword);
        asm.mov(Reg::Rsi, DATA + 8).mov(Reg::Rcx, 2).rep_outs(PortWidth::Dword);
        asm.mov(Reg::Rdi, MMIO + 8).mov(Reg::Rax, 0x0102_0304_0506_0708).store(Width::Qword);
        asm.clear_rax().load(Width::Byte).save_rax(DATA + 32);
    });
    let limit = limit();
    let mut next = |reply: &[u8]| {
        let exit = vcpu.run(&limit).unwrap();
        let data = vcpu.exit_data();
        let wrote = data.to_vec();
        if exit.direction == Direction::Read {
            data.copy_from_slice(reply);
        }
        (exit, wrote)
    };
    assert_eq!(next(&[]), (exit(port, Direction::Write, 4, 1), vec![0x44, 0x33, 0x22, 0x11]));
    assert_eq!(next(&[0xcd, 0xab]).0, exit(port, Direction::Read, 2, 1));
    assert_eq!(next(b"abcdefghijkl").0, exit(port, Direction::Read, 4, 3));
    assert_eq!(next(&[]), (exit(port, Direction::Write, 4, 1), b"abcd".to_vec()));
    assert_eq!(next(&[]), (exit(port, Direction::Write, 4, 1), b"efgh".to_vec()));
    let mmio = Target::Mmio(GuestPhysAddr(MMIO + 8));
    assert_eq!(next(&[]), (exit(mmio, Direction::Write, 8, 1), vec![8, 7, 6, 5, 4, 3, 2, 1]));
    assert_eq!(next(&[0x99]).0, exit(mmio, Direction::Read, 1, 1));
    assert_eq!(next(&[]).0, exit(Target::Port(Port(EXIT_PORT)), Direction::Write, 1, 1));
    let mut results = [0; 40];
    vm.ram().read(DATA, &mut results).unwrap();
    assert_eq!(results[..20], [&[0xcd, 0xab, 0, 0, 0, 0, 0, 0], b"abcdefghijkl".as_slice()].concat());
    assert_eq!(results[32..], [0x99, 0, 0, 0, 0, 0, 0, 0]);
}

/// Case evfd-length, and what the typed call of kvm-ioctls cannot say: a length without datamatch.
#[test]
fn an_ioeventfd_counts_writes_of_its_length_alone_and_one_of_length_0_all() {
    let Some(system) = kvm() else { return };
    let (vm, mut vcpu) = guest(&system, |asm| {
        asm.mov(Reg::Rax, 1).mov(Reg::Rdi, MMIO);
        for width in [Width::Byte, Width::Word, Width::Dword, Width::Qword] {
            asm.store(width);
        }
        asm.mov(Reg::Rdi, MMIO + 0x100).store(Width::Word).store(Width::Dword);
        asm.out(0x5a0, PortWidth::Word, 7).out(0x5a0, PortWidth::Word, 8);
    });
    let fds = [(); 3].map(|()| HostEventfd::new().unwrap());
    let spec = |bus, addr, len, datamatch| Ioeventfd { bus, addr, len, datamatch, fd: EventfdId(0) };
    vm.assign(&spec(IoBus::Mmio, MMIO, 0, None), &fds[0]).unwrap();
    vm.assign(&spec(IoBus::Mmio, MMIO + 0x100, 2, None), &fds[1]).unwrap();
    vm.assign(&spec(IoBus::Pio, 0x5a0, 2, Some(7)), &fds[2]).unwrap();
    let refused = vm.assign(&spec(IoBus::Mmio, MMIO, 4, None), &fds[1]).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(17), "EEXIST: {refused}");
    let limit = limit();
    let mut next = || (vcpu.run(&limit).unwrap().target, vcpu.exit_data().len());
    assert_eq!(next(), (Target::Mmio(GuestPhysAddr(MMIO + 0x100)), 4));
    assert_eq!(next(), (Target::Port(Port(0x5a0)), 2));
    assert_eq!(next().0, Target::Port(Port(EXIT_PORT)));
    assert_eq!(fds.map(|fd| fd.take().unwrap()), [4, 1, 1]);
}

/// Case drain-before-exit on the real ring: the index waits there, and the register that is read is the right one.
#[test]
fn the_rtc_answers_the_index_that_waited_in_the_real_ring() {
    let Some(system) = kvm() else { return };
    let (vm, mut vcpu) = guest(&system, |asm| {
        asm.out(RTC_INDEX_PORT, PortWidth::Byte, 0x07).out(RTC_INDEX_PORT, PortWidth::Byte, 0x09);
        asm.mov(Reg::Rdx, u64::from(RTC_INDEX_PORT) + 1).clear_rax().in_dx(PortWidth::Byte).save_rax(DATA);
    });
    vm.register_zone(CoalescedZone { addr: u64::from(RTC_INDEX_PORT), size: 1, pio: 1 }).unwrap();
    let ring = vcpu.ring().unwrap();
    let user = UserSpace::new();
    // 2018-11-14: the year in register 9 is 18, in BCD.
    user.attach(IoBus::Pio, u64::from(RTC_INDEX_PORT), 2, Box::new(Rtc::new(1_542_153_600)));
    let exits = vcpu.run_until(EXIT_PORT, &user, Some(&*ring), &limit()).unwrap();
    let mut value = [0; 8];
    vm.ram().read(DATA, &mut value).unwrap();
    assert_eq!((exits, value), (1, [0x18, 0, 0, 0, 0, 0, 0, 0]));
}

/// Case readonly-ecam-fresh: loads do not exit and see what the owner wrote last, stores exit.
#[test]
fn a_read_only_slot_is_read_without_an_exit_and_written_with_one() {
    let Some(system) = kvm() else { return };
    let (vm, mut vcpu) = guest(&system, |asm| {
        asm.mov(Reg::Rdi, ECAM).clear_rax().load(Width::Dword).save_rax(DATA);
        asm.mov(Reg::Rax, 5).store(Width::Dword);
        asm.clear_rax().load(Width::Dword).save_rax(DATA + 8);
    });
    let registers = Arc::new(Mapping::anonymous(4096).unwrap());
    registers.write(0, &0x1af4_u32.to_le_bytes()).unwrap();
    vm.add_read_only(ECAM, Arc::clone(&registers)).unwrap();
    let limit = limit();
    assert_eq!(vcpu.run(&limit).unwrap(), exit(Target::Mmio(GuestPhysAddr(ECAM)), Direction::Write, 4, 1));
    registers.write(0, &0x1af5_u32.to_le_bytes()).unwrap();
    assert_eq!(vcpu.run(&limit).unwrap().target, Target::Port(Port(EXIT_PORT)));
    let mut read = [0; 16];
    vm.ram().read(DATA, &mut read).unwrap();
    assert_eq!((&read[..2], &read[8..10]), ([0xf4, 0x1a].as_slice(), [0xf5, 0x1a].as_slice()));
}

#[test]
fn a_guest_that_loops_for_ever_is_stopped_with_the_place_it_looped_at() {
    let Some(system) = kvm() else { return };
    let (_vm, mut vcpu) = guest(&system, |asm| {
        let here = asm.label();
        asm.jump_back(here);
    });
    let error = vcpu.run(&Deadline::after(Duration::from_millis(50)).unwrap()).unwrap_err();
    let HostError::TimeLimit { place, .. } = &error else { panic!("{error}") };
    assert_eq!(place.bytes[..5], [0xe9, 0xfb, 0xff, 0xff, 0xff], "{error}");
}

/// It is in user space at least as often as in the guest when the time is up.
#[test]
fn a_guest_that_exits_for_ever_is_stopped_too() {
    let Some(system) = kvm() else { return };
    let (_vm, mut vcpu) = guest(&system, |asm| {
        let again = asm.label();
        asm.out(0x80, PortWidth::Byte, 0).jump_back(again);
    });
    let deadline = Deadline::after(Duration::from_millis(50)).unwrap();
    let error = vcpu.run_until(EXIT_PORT, &UserSpace::new(), None, &deadline).unwrap_err();
    assert!(matches!(error, HostError::TimeLimit { .. }), "{error}");
}

#[test]
fn a_triple_fault_names_itself_with_rip_and_the_bytes_there() {
    let Some(system) = kvm() else { return };
    let (_vm, mut vcpu) = guest(&system, |asm| {
        asm.ud2();
    });
    let error = vcpu.run(&limit()).unwrap_err();
    assert!(matches!(error, HostError::Shutdown { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("KVM_EXIT_SHUTDOWN") && text.contains("RIP 0x"), "{text}");
}

/// FXSAVE to an address without memory: no kernel's emulator stores 512 bytes there.
#[test]
fn an_instruction_that_kvm_cannot_emulate_names_itself() {
    let Some(system) = kvm() else { return };
    let (_vm, mut vcpu) = guest(&system, |asm| {
        // fxsave [rdi]
        asm.mov(Reg::Rdi, MMIO).raw(&[0x0f, 0xae, 0x07]);
    });
    let error = vcpu.run(&limit()).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, HostError::InternalError { .. } | HostError::Shutdown { .. }), "{text}");
    assert!(text.contains("RIP 0x"), "{text}");
}

#[test]
fn a_device_that_is_missing_or_no_kvm_is_told_in_words() {
    let missing = System::open_at("/dev/no-such-kvm").unwrap_err();
    assert!(missing.is_no_kvm() && missing.to_string().contains("this machine has no KVM"), "{missing}");
    let other = System::open_at("/dev/null").unwrap_err();
    assert!(other.is_no_kvm() && other.to_string().contains("cannot be used"), "{other}");
}

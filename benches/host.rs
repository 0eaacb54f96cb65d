//! What the VMM costs over a bare exit loop, on this machine's real KVM: `cargo bench --bench host`.
//!
//! | case | what runs |
//! |---|---|
//! | bare | KVM_RUN in a loop, the exit looked at, nothing else |
//! | vmm | the same guest with exits counted, the ring drained, the device found, called and checked |
//!
//! Both are timed by their thread's time on a processor, so that other processes do not count. Both make OUTs to user space, batch by batch in turns, the first of a pair alternating. Printed is the ratio vmm / bare over
//! pairs with its 95 % confidence interval; a batch's end, 1 exit to 60, is in both. No criterion: it compares a case with its own past, not two cases in pairs.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    use std::time::Duration;

    use hvmmio::addr::Port;
    use hvmmio::host::x86_64::run::{Bench, thread_time};
    use hvmmio::host::x86_64::{Asm, CODE, Deadline, EXIT_PORT, Reg, System, Vm};
    use hvmmio::kvm_x86::{PortWidth, Target};
    use hvmmio::sim::Scenario;
    use hvmmio::workload::ports::PortMode;

    const PAIRS: usize = 1000;
    // Short beside a scheduler's turn, so that most pairs are not interrupted.
    const EXITS: u32 = 60;
    const END: Target = Target::Port(Port(EXIT_PORT));

    // Under `cargo test --benches` there is nothing to measure.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let system = match System::open() {
        Ok(system) => system,
        Err(error) => {
            println!("SKIPPED: no real KVM here: {error}");
            return;
        }
    };
    let vm = Vm::new(&system).unwrap();
    let mut asm = Asm::new();
    asm.mov(Reg::Rdx, 0x80).mov(Reg::R12, EXITS.into()).mov(Reg::R13, 0);
    let again = asm.label();
    // movzx eax, r13b: the same loop as the other's
    asm.raw(&[0x41, 0x0f, 0xb6, 0xc5]).out_dx(PortWidth::Byte).inc(Reg::R13).repeat(Reg::R12, again);
    asm.out(EXIT_PORT, PortWidth::Byte, 0);
    vm.load(CODE, asm.code()).unwrap();
    let mut vcpu = vm.vcpu(&system, 0, CODE).unwrap();
    let mut bare = || {
        vcpu.enter_at(CODE).unwrap();
        let deadline = Deadline::after(Duration::from_secs(30)).unwrap();
        let start = thread_time().unwrap();
        while vcpu.run(&deadline).unwrap().target != END {}
        (thread_time().unwrap() - start).as_nanos() as f64 / f64::from(EXITS)
    };
    let mut scenario = Scenario::load("pio-timeline").unwrap();
    scenario.mode = PortMode::RegsWhenNeeded;
    let mut vmm = Bench::new(&system, &scenario).unwrap();
    vmm.set_units(EXITS.into());
    // The whole batch, its end too, which is the same on both sides.
    let mut vmm = || (vmm.measure_piece().unwrap().ns + vmm.frame_ns()) / f64::from(EXITS);
    for _ in 0..5 {
        bare();
        vmm();
    }
    let (mut logs, mut times) = (Vec::with_capacity(PAIRS), [Vec::new(), Vec::new()]);
    for pair in 0..PAIRS {
        let (a, b) = if pair % 2 == 0 {
            let a = bare();
            (a, vmm())
        } else {
            let b = vmm();
            (bare(), b)
        };
        logs.push((b / a).ln());
        times[0].push(a);
        times[1].push(b);
    }
    // Pairs that an interruption hit are cut off alike on both sides: the interval is of the mean of the middle 80 %.
    logs.sort_by(f64::total_cmp);
    let cut = PAIRS / 10;
    let middle = &logs[cut..PAIRS - cut];
    let n = middle.len() as f64;
    let mean = middle.iter().sum::<f64>() / n;
    // Winsorised variance, as a trimmed mean's interval has it (Yuen).
    let clamp = |log: &f64| log.clamp(middle[0], middle[middle.len() - 1]);
    let winsorised: Vec<_> = logs.iter().map(clamp).collect();
    let centre = winsorised.iter().sum::<f64>() / PAIRS as f64;
    let squares: f64 = winsorised.iter().map(|log| (log - centre).powi(2)).sum();
    let error = 1.96 * (squares / (n * (n - 1.0))).sqrt();
    for (name, times) in ["bare", "vmm"].iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        println!("{name:>5}: {:.0} ns an exit, median of {PAIRS} batches", times[PAIRS / 2]);
    }
    println!(
        "vmm / bare: {:.4}, 95 % confidence {:.4} to {:.4}, over {PAIRS} pairs",
        mean.exp(),
        (mean - error).exp(),
        (mean + error).exp()
    );
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    println!("SKIPPED: {}", hvmmio::host::NO_HOST_SIDE);
}

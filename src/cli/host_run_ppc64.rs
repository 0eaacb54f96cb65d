//! `hvmmio host run` on POWER: doorbells of a hash guest, by number of pages.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore as _, SeedableRng as _};

use super::Args;
use crate::cli::progress::Progress;
use crate::cli::{CliError, Done, output};
use crate::device::NotifyLayout;
use crate::host::ppc64::{StoreBench, System, Way};
use crate::host::{HostError, release};
use crate::report::{StoreReport, StoreRow};
use crate::sim::{Pattern, Scenario, Workload};

/// Numbers of pages if none is asked for.
const PAGES: [u32; 8] = [1, 2, 3, 4, 5, 6, 8, 16];
/// Stores of a round if no count is asked for.
const STORES: u64 = 1000;
/// Stores before each round.
const WARM: u64 = 64;
/// Rounds of each row.
const ROUNDS: u32 = 5;

/// Which pages are stored to, one after another.
fn sequence(pattern: Pattern, pages: u32, stores: u32, seed: u64) -> Vec<u32> {
    match pattern {
        Pattern::RoundRobin => StoreBench::round_robin(pages, stores),
        Pattern::Uniform => {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            // As the simulator draws.
            let draw = |_| u32::try_from((u128::from(rng.next_u64()) * u128::from(pages)) >> 64).unwrap_or(0);
            (0..stores).map(draw).collect()
        }
    }
}

/// Runs it.
pub(in crate::cli) fn run(args: &Args) -> Result<Done, CliError> {
    let mut scenario = Scenario::load(&args.scenario)?;
    let Workload::Doorbells(spec) = scenario.workload.clone() else {
        let what = format!("a {} workload does not run on real KVM on POWER: doorbells do", scenario.workload.kind());
        return Err(CliError::Input(what));
    };
    if !args.ways.mode.is_empty() || !args.ways.method.is_empty() {
        return Err(CliError::Input("--mode and --method mean nothing for doorbells".to_owned()));
    }
    if args.vcpus.is_some_and(|vcpus| vcpus != 1) {
        return Err(CliError::Input("--vcpus: hash guests have one vCPU here".to_owned()));
    }
    if scenario.layout != NotifyLayout::Modern {
        return Err(CliError::Input(
            "doorbells of the legacy layout do not run here: each device has its own page".to_owned(),
        ));
    }
    let pages = match args.devices {
        Some(devices) => {
            scenario.set_devices(devices)?;
            vec![scenario.devices]
        }
        None => PAGES.to_vec(),
    };
    let stores = args.count.unwrap_or(STORES);
    let stores = u32::try_from(stores).map_err(|_| CliError::Input(format!("--count {stores}: at most 15,360")))?;
    let refused = |error: HostError| match error {
        HostError::Unsupported(_) => CliError::input(error),
        error => CliError::failed(error),
    };
    let system = System::open().map_err(refused)?;
    let most = pages.iter().copied().max().unwrap_or(1);
    let mut bench = StoreBench::new(&system, most).map_err(refused)?;
    let mut progress = Progress::new(&scenario.name);
    let (count, mut rows) = ((Way::ALL.len() * pages.len()) as f64, Vec::new());
    for way in Way::ALL {
        for &pages in &pages {
            progress.at(rows.len() as f64 / count);
            let order = sequence(spec.pattern, pages, stores, scenario.seed);
            let cost = bench.time(way, &order, WARM.min(stores.into()), ROUNDS).map_err(refused)?;
            rows.push(StoreRow { pages, cost });
        }
    }
    drop(progress);
    let pattern = match spec.pattern {
        Pattern::RoundRobin => "round robin",
        Pattern::Uniform => "drawn evenly",
    };
    output::write(&StoreReport { kernel: release(), pattern, rounds: ROUNDS, rows }, &args.output)?;
    Ok(Done::Well)
}

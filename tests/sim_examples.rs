//! fio's own example job files, through the engine.

mod sim_common;

use hvmmio::device::NotifyLayout;
use hvmmio::sim::{Notify, Scenario, Workload};
use hvmmio::workload::fio::{JobFile, Plan};
use sim_common::{try_run, with};

const EXAMPLES: &str = "/usr/share/doc/fio/examples";

/// Each plan that can be made of an example, with its file's name.
fn plans() -> Vec<(String, Plan)> {
    let Ok(folder) = std::fs::read_dir(EXAMPLES) else { return Vec::new() };
    let mut paths: Vec<_> = folder.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "fio"));
    paths.sort();
    let mut plans = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        // What some of them leave to whoever runs them.
        let text = text.replace("=[port]", "=1").replace("=[read/write/send/recv]", "=read");
        let name = path.to_str().unwrap();
        let environment = |variable: &str| {
            Some(match variable {
                "FIO_RW" => "randread".to_owned(),
                "FIO_IODEPTH" => "4".to_owned(),
                "FIO_BS" => "8k".to_owned(),
                other => format!("/{other}"),
            })
        };
        if let Ok(plan) = JobFile::parse(name, &text, &environment).and_then(|file| file.plan()) {
            plans.push((path.file_name().unwrap().to_string_lossy().into_owned(), plan));
        }
    }
    plans
}

/// The same jobs, over within some milliseconds.
fn shortened(mut plan: Plan) -> Plan {
    for job in &mut plan.jobs {
        job.runtime_ns = Some(job.runtime_ns.unwrap_or(u64::MAX).min(3_000_000));
        job.ramp_ns = job.ramp_ns.min(1_000_000);
        job.start_delay_ns = job.start_delay_ns.min(1_000_000);
        job.total_bytes = job.total_bytes.min(8 << 20);
    }
    plan
}

#[test]
fn every_example_that_can_be_planned_runs_to_its_end() {
    let plans = plans();
    if plans.is_empty() {
        println!("SKIPPED: fio-examples is not installed (Debian package fio-examples)");
        return;
    }
    let mut ran = 0;
    for (name, plan) in plans {
        let plan = shortened(plan);
        for (vcpus, devices, notify) in
            [(1, 1, Notify::Ioeventfd { length: 2 }), (3, 2, Notify::Coalesced { poll_ns: 50_000 })]
        {
            let mut scenario = Scenario::load("fio-null-blk").unwrap();
            scenario.workload = Workload::Fio(Box::new(plan.clone()));
            let result = try_run(&with(scenario, NotifyLayout::Modern, notify, vcpus, devices));
            let result = result.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(result.jobs.len(), plan.jobs.len(), "{name}");
            let requests: u64 = result.jobs.iter().map(|job| job.completed).sum();
            assert!(requests > 0 || plan.jobs.iter().all(|job| job.rate_iops != [None; 2]), "{name}");
        }
        ran += 1;
    }
    println!("{ran} example job files ran");
    assert!(ran >= 27, "{ran}");
}

use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Result<JobFile, FioError> {
    JobFile::parse("test.fio", text, &|name| (name == "DEPTH").then(|| "7".to_owned()))
}

fn plan(text: &str) -> Plan {
    read(text).and_then(|file| file.plan()).unwrap_or_else(|error| panic!("{error}"))
}

fn job(options: &str) -> FioJob {
    plan(&format!("[job]\n{options}\n")).jobs.remove(0)
}

fn refusal(options: &str) -> FioError {
    read(&format!("[job]\n{options}\n")).and_then(|file| file.plan()).expect_err("this is not to be planned")
}

fn drawn(job: &FioJob, count: usize) -> Vec<Request> {
    let mut requests = Requests::new(job, 1);
    std::iter::from_fn(|| requests.next()).take(count).collect()
}

#[test]
fn each_global_section_applies_to_the_jobs_behind_it_only() {
    let plan = plan("[global]\nbs=8k\n[a]\n[global]\nbs=16k\niodepth=4\nioengine=libaio\n[b]\nbs=32k\n[c]\n");
    let sizes: Vec<u32> = plan.jobs.iter().map(|job| job.blocks[0].smallest()).collect();
    assert_eq!(sizes, [8192, 32768, 16384]);
    assert_eq!(plan.jobs[0].depth, 1);
    assert_eq!(plan.jobs[2].depth, 4);
}

#[test]
fn a_name_in_a_global_section_names_no_job() {
    let plan = plan("[global]\nname=all\n[a]\n[b]\nname=other\n");
    let names: Vec<&str> = plan.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["a", "other"]);
}

#[test]
fn sizes_have_base_1024_unless_kb_base_says_1000_and_kib_is_the_other() {
    assert_eq!(job("size=1m").file_bytes, 1 << 20);
    assert_eq!(job("size=1024kb").file_bytes, 1 << 20);
    assert_eq!(job("size=512kib").total_bytes, 512_000);
    assert_eq!(job("size=512k\nkb_base=1000").total_bytes, 512_000);
    assert_eq!(job("size=512kib\nkb_base=1000").total_bytes, 512 << 10);
    assert_eq!(job("size=(4 * 1m + 64k)").file_bytes, (4 << 20) + (64 << 10));
    assert_eq!(job("size=4*$pagesize").file_bytes, 4 * 65_536);
}

#[test]
fn times_have_units_and_a_word_fio_does_not_know_is_microseconds_with_a_note() {
    assert_eq!(job("runtime=90").runtime_ns, Some(90_000_000_000));
    assert_eq!(job("runtime=2m").runtime_ns, Some(120_000_000_000));
    assert_eq!(job("runtime=250ms").runtime_ns, Some(250_000_000));
    assert_eq!(job("thinktime=250").thinktime_ns, 250_000);
    let plan = plan("[job]\nruntime=10sec\n");
    assert_eq!(plan.jobs[0].runtime_ns, Some(10_000));
    assert!(
        plan.notes.iter().any(|note| note.line == 2 && note.text.contains("passes over `sec`")),
        "{:?}",
        plan.notes
    );
}

#[test]
fn values_come_as_read_write_trim_and_the_last_given_holds_for_the_rest() {
    let sizes = |options| job(options).blocks.map(|block| block.smallest());
    assert_eq!(sizes("bs=8k,16k,32k"), [8192, 16384]);
    assert_eq!(sizes("bs=8k"), [8192, 8192]);
    assert_eq!(sizes("bs=,8k"), [4096, 8192]);
    assert_eq!(job("rate_iops=100,50").rate_iops, [Some(100), Some(50)]);
    assert_eq!(job("bsrange=4k-16k,8k-32k").blocks[1], BlockSize::Range { low: 8192, high: 32768 });
}

#[test]
fn a_variable_is_replaced_and_an_unset_one_is_named() {
    assert_eq!(job("ioengine=libaio\niodepth=${DEPTH}").depth, 7);
    let error = read("[job]\niodepth=${NO_SUCH}\n").unwrap_err();
    assert!(error.to_string().contains("NO_SUCH is not set"), "{error}");
    let plan = plan("[job]\nfilename=/dev/${NO_SUCH}vda\n");
    assert_eq!(plan.jobs[0].filename, "/dev/vda");
    assert!(plan.notes.iter().any(|note| note.line == 2 && note.text.contains("NO_SUCH is not set")));
}

#[test]
fn an_unknown_option_is_named_with_its_line_and_the_nearest_name() {
    let error = read("[job]\nbs=4k\niodepht=4\n").unwrap_err();
    let FioError::UnknownOption { line: 3, option, suggestion: Some("iodepth"), .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(option, "iodepht");
    let error = read("[job]\nhipri\n").unwrap_err();
    assert!(error.to_string().contains("option of ioengine=io_uring"), "{error}");
}

#[test]
fn a_bad_value_is_named_with_what_would_be_right() {
    for (text, right) in [
        ("[j]\niodepth=0", "from 1 up"),
        ("[j]\niodepth=-1", "from 1 up"),
        ("[j]\niodepth=9223372036854775808", "from 1 up"),
        ("[j]\nbs=0", "from 1 up"),
        ("[j]\nrw=randreed", "randread"),
        ("[j]\ndirect=yes", "0 or 1"),
        ("[j]\nrandom_distribution=zipf:1", "any number but 1"),
    ] {
        let error = read(text).unwrap_err();
        assert_eq!(error.line(), Some(2), "{error}");
        assert!(error.to_string().contains(right), "{error}");
    }
}

#[test]
fn what_fio_takes_and_no_device_can_do_is_refused_by_the_plan() {
    for (options, what) in [
        ("bs=-4k", "requests of -4096 bytes"),
        ("bs= 4k", "no blank after the ="),
        ("bs=1000", "whole sectors"),
        ("size=1k", "4096 bytes at least"),
        ("numjobs=0", "from 1 to"),
        ("rate=1m\nrate_iops=5", "either rate or rate_iops"),
        ("offset=100", "multiple of 512"),
        ("ioengine=libaoi", "did you mean `libaio`"),
        ("size=10000p", "up to 1024t"),
    ] {
        let error = refusal(options);
        assert!(matches!(error, FioError::Impossible { .. }) && error.to_string().contains(what), "{error}");
    }
}

#[test]
fn what_is_not_modelled_is_refused_by_name_and_its_off_value_is_not() {
    for option in ["fsync=1", "verify=md5", "zonemode=zbd", "rw=randtrim", "ioengine=net", "exitall", "read_iolog=x"] {
        let error = refusal(option);
        let FioError::NotModelled { line: 2, section, what, .. } = &error else { panic!("{error}") };
        assert_eq!((&**section, what.as_str()), ("job", option));
    }
    assert!(matches!(refusal("size=4z"), FioError::NotModelled { .. }));
    job("fsync=0\nverify=0\nzonemode=none\nend_fsync=0\nflow=0");
}

#[test]
fn an_option_that_shapes_no_request_is_listed_once_with_its_line() {
    let plan = plan("[global]\ngroup_reporting\n[a]\nthread\n[b]\n");
    let ignored: Vec<(u32, &str)> = plan.ignored.iter().map(|ignored| (ignored.line, ignored.name)).collect();
    assert_eq!(ignored, [(2, "group_reporting"), (4, "thread")]);
}

#[test]
fn a_synchronous_engine_has_one_request_in_flight_and_says_so() {
    let plan = plan("[job]\nioengine=psync\niodepth=32\n");
    assert_eq!(plan.jobs[0].depth, 1);
    assert!(plan.notes.iter().any(|note| note.text.contains("one request is in flight")));
}

#[test]
fn numjobs_makes_processes_that_differ_in_seed_and_offset_and_only_the_first_waits() {
    let plan = plan("[a]\n[job]\nnumjobs=3\nsize=1m\noffset_increment=1m\nstonewall\n");
    let offsets: Vec<u64> = plan.jobs[1..].iter().map(|job| job.offset).collect();
    assert_eq!(offsets, [0, 1 << 20, 2 << 20]);
    assert_eq!(plan.jobs.iter().map(|job| job.stonewall).collect::<Vec<_>>(), [false, true, false, false]);
    assert_ne!(plan.jobs[1].seed, plan.jobs[2].seed);
}

#[test]
fn filenames_of_global_and_job_add_up() {
    let job = plan("[global]\nfilename=/dev/vda\n[job]\nfilename=/dev/vdb:/dev/vda\nsize=2m\n").jobs.remove(0);
    assert_eq!((job.filename.as_str(), job.files, job.file_bytes), ("/dev/vda:/dev/vdb", 2, 1 << 20));
}

#[test]
fn a_job_without_size_takes_the_device() {
    let file = read("[job]\nfilename=/dev/vda\nsize=25%\n[rest]\noffset=1m\n").unwrap();
    let plan = file.plan_with(&PlanOptions { device_bytes: 8 << 20 }).unwrap();
    assert_eq!(plan.jobs[0].file_bytes, 2 << 20);
    assert_eq!((plan.jobs[1].offset, plan.jobs[1].file_bytes), (1 << 20, 7 << 20));
    assert_eq!(plan.device_bytes, 8 << 20);
}

#[test]
fn a_sequential_job_reads_its_file_once_and_ends() {
    let requests = drawn(&job("size=16k"), 9);
    let offsets: Vec<u64> = requests.iter().map(|request| request.offset).collect();
    assert_eq!(offsets, [0, 4096, 8192, 12288]);
    assert_eq!(drawn(&job("size=16k\nloops=2"), 99).len(), 8);
    assert_eq!(drawn(&job("size=16k\nnumber_ios=3"), 99).len(), 3);
    assert_eq!(drawn(&job("size=16k\nio_size=20k"), 99).len(), 5);
    assert_eq!(drawn(&job("size=16k\ntime_based\nruntime=1"), 99).len(), 99);
}

#[test]
fn a_sequence_number_makes_holes_or_repeats() {
    let offsets =
        |options: &str, count| drawn(&job(options), count).iter().map(|r| r.offset / 4096).collect::<Vec<_>>();
    assert_eq!(offsets("size=32k\nrw=read:4k", 4), [0, 2, 4, 6]);
    assert_eq!(offsets("size=32k\nrw=read:-8k", 4), [0, 6, 5, 4]);
    let runs = offsets("size=1g\nrw=randread:4", 8);
    assert_eq!([runs[1] - runs[0], runs[3] - runs[0], runs[5] - runs[4]], [1, 3, 1]);
    let same = offsets("size=1g\nrw=randread:2\nrw_sequencer=identical", 2);
    assert_eq!(same[0], same[1]);
}

#[test]
fn a_mixed_job_keeps_its_percentage_and_the_sizes_their_shares() {
    let job = job("rw=randrw\nrwmixread=80\nbssplit=512/10:4k/60:64k/30\nsize=1g\nnorandommap");
    let requests = drawn(&job, 20_000);
    let share = |f: fn(&Request) -> bool| requests.iter().filter(|request| f(request)).count() / 200;
    assert!((78..=82).contains(&share(|request| request.direction == Direction::Read)));
    assert!((58..=62).contains(&share(|request| request.len == 4096)));
    assert!((8..=12).contains(&share(|request| request.len == 512)));
}

#[test]
fn distributions_put_accesses_where_they_should() {
    let hottest = |distribution: &str| {
        let job = job(&format!("rw=randread\nsize=4m\nrandom_distribution={distribution}\nio_size=1g"));
        let mut counts = vec![0u32; 1024];
        for request in drawn(&job, 100_000) {
            counts[crate::addr::index(request.offset / 4096)] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts[..102].iter().sum::<u32>() / 1000
    };
    // Of the hottest tenth of the blocks. zipf:1.2 over 1024: the sum of k^-1.2 to 102, over that to 1024.
    assert!((83..=87).contains(&hottest("zipf:1.2")), "{}", hottest("zipf:1.2"));
    assert!((10..=13).contains(&hottest("random")));
    // Pareto h=0.1: nine tenths of the accesses go to one tenth.
    assert!((88..=92).contains(&hottest("pareto:0.1")), "{}", hottest("pareto:0.1"));
    // Half of the accesses to 5%, 30 of 100 to the next 15%: the first tenth has 50 + 30/3 at least.
    assert!((59..=64).contains(&hottest("zoned:50/5:30/15:20/80")), "{}", hottest("zoned:50/5:30/15:20/80"));
}

#[test]
fn files_are_taken_in_turn_or_in_sequence() {
    let files = |order: &str| {
        let job = job(&format!("nrfiles=2\nsize=32k\nfile_service_type={order}"));
        drawn(&job, 8).iter().map(|request| request.offset / job.file_spacing).collect::<Vec<_>>()
    };
    assert_eq!(files("roundrobin"), [0, 1, 0, 1, 0, 1, 0, 1]);
    assert_eq!(files("roundrobin:2"), [0, 0, 1, 1, 0, 0, 1, 1]);
    assert_eq!(files("sequential"), [0, 0, 0, 0, 1, 1, 1, 1]);
}

#[test]
fn a_rate_spaces_requests_evenly_and_catches_up() {
    let job = job("rate_iops=1000\nsize=1m");
    let mut pacer = Pacer::new(&job, 1);
    let request = drawn(&job, 1)[0];
    assert_eq!(pacer.earliest(5_000, &request), 5_000);
    assert_eq!(pacer.earliest(6_000, &request), 1_005_000);
    // Late: the next is due at once, and so is the one behind it.
    assert_eq!(pacer.earliest(9_000_000, &request), 9_000_000);
    assert_eq!(pacer.earliest(9_000_000, &request), 9_000_000);
}

#[test]
fn a_poisson_rate_keeps_its_mean() {
    let job = job("rate_iops=1000\nrate_process=poisson\nsize=1m");
    let mut pacer = Pacer::new(&job, 1);
    let request = drawn(&job, 1)[0];
    let last = (0..10_001).map(|_| pacer.earliest(0, &request)).last().unwrap();
    assert!((9_700_000_000..10_300_000_000).contains(&last), "{last}");
}

#[test]
fn thinktime_pauses_after_its_blocks() {
    let job = job("thinktime=1ms\nthinktime_blocks=2\nsize=1m");
    let mut pacer = Pacer::new(&job, 1);
    let request = drawn(&job, 1)[0];
    let times: Vec<u64> = (0..5).map(|_| pacer.earliest(0, &request)).collect();
    assert_eq!(times, [0, 0, 1_000_000, 0, 1_000_000]);
}

#[test]
fn own_logarithm_and_power_are_those_of_the_library_but_for_rounding() {
    for k in 1..1000_u32 {
        let x = f64::from(k) * 0.37;
        assert!((math::ln(x) - x.ln()).abs() < 1e-13 * (1.0 + x.ln().abs()));
        let (ours, library) = (math::pow(x, -1.7), x.powf(-1.7));
        assert!((ours - library).abs() < 1e-12 * library, "{x}");
    }
}

#[test]
fn the_table_has_no_name_twice_for_one_engine() {
    for row in options::all() {
        for name in row.aliases.iter().chain([&row.name]) {
            let found =
                if row.engines.is_empty() { options::find_common(name) } else { options::find(name, row.engines[0]) };
            assert_eq!(found.map(|found| found.name), Some(row.name));
        }
    }
}

/// Lines that are nearly right, to get past the first check.
fn line() -> impl Strategy<Value = String> {
    let names: Vec<&'static str> = options::all().map(|row| row.name).collect();
    let value = prop_oneof![
        "[-0-9kmgtpz%:,./()*+ ]{0,12}",
        "(zipf|zoned|zoned_abs|rand|randrw|iops|normal):[-0-9kmg%:,./]{0,12}",
        "\\PC{0,8}",
        "\\$(pagesize|\\{X\\}|ncpus)[-+*/0-9]{0,4}",
    ];
    (prop::sample::select(names), value, any::<bool>())
        .prop_map(|(name, value, bare)| if bare { name.to_owned() } else { format!("{name}={value}") })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
        let _ = read(&text);
        let _ = read(&format!("[j]\n{text}"));
    }

    #[test]
    fn no_options_make_the_planner_or_the_generator_panic(lines in prop::collection::vec(line(), 0..4)) {
        if let Ok(plan) = read(&format!("[j]\n{}\n", lines.join("\n"))).and_then(|file| file.plan()) {
            for job in plan.jobs.iter().take(2).filter(|job| job.files < 1000) {
                let mut pacer = Pacer::new(job, 3);
                for request in drawn(job, 20) {
                    pacer.earliest(1, &request);
                    prop_assert!(request.offset + u64::from(request.len) <= plan.device_bytes);
                    prop_assert!(request.len > 0);
                }
            }
        }
    }
}

//! The recorded sequences of a real kernel against the whole path, operation by operation.

use std::path::Path;

use hvmmio::kvm_hv::{CacheDesign, PolicyKind};
use hvmmio::workload::sequence::{Sequence, SequenceConfig, SequenceReport, run};

const FILES: [&str; 5] = ["churn", "cyclic5", "edge", "hot", "uniform16"];

fn replay(file: &str, config: &SequenceConfig) -> SequenceReport {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/oracle/{file}.txt"));
    run(&Sequence::read(&path).unwrap(), config).unwrap()
}

#[test]
fn every_labelled_operation_of_every_recording_does_what_the_real_kernel_did() {
    let (mut operations, mut labelled) = (0, 0);
    for file in FILES {
        let report = replay(file, &SequenceConfig::default());
        let first = report.first_disagreement.as_ref().map(|d| d.describe());
        assert!(report.agrees(), "{file}: {}", first.unwrap_or_default());
        assert_eq!(report.ram_as_mmio.count, 0);
        operations += report.counts.operations;
        labelled += report.counts.labelled;
    }
    assert_eq!((operations, labelled), (5_100, 4_987));
}

#[test]
fn a_cache_of_five_entries_or_of_another_policy_disagrees_with_the_recordings() {
    for (entries, policy) in [(5, PolicyKind::RoundRobin), (3, PolicyKind::RoundRobin), (4, PolicyKind::Lru)] {
        let config = SequenceConfig { cache: CacheDesign::new(entries, policy).unwrap(), ..SequenceConfig::default() };
        let report = replay("uniform16", &config);
        assert!(!report.agrees(), "{entries} entries, {policy}");
        let first = report.first_disagreement.unwrap();
        assert_eq!(u64::try_from(first.cache.len()).unwrap(), entries);
        let text = first.describe();
        assert!(text.contains(&format!("line {}", first.step.line)) && text.contains("slot 0: EA 0x"), "{text}");
    }
}

#[test]
fn five_pages_round_robin_never_hit_in_the_cyclic_recording() {
    let report = replay("cyclic5", &SequenceConfig::default());
    assert_eq!((report.counts.hits, report.counts.misses), (0, 300));
}

#[test]
fn the_recordings_agree_for_every_page_and_segment_size() {
    use hvmmio::book3s::PageSizes;
    use hvmmio::book3s::slb::SegmentSize;
    use hvmmio::workload::guest::Guest;
    for sizes in PageSizes::ALL {
        for segment in [SegmentSize::M256, SegmentSize::T1] {
            if sizes.actual.shift() > segment.shift() {
                continue;
            }
            let guest = Guest { segment, sizes, ..Guest::default() };
            let report = replay("churn", &SequenceConfig { guest, ..SequenceConfig::default() });
            assert!(report.agrees(), "{sizes:?} {segment:?}: {:?}", report.first_disagreement);
        }
    }
}

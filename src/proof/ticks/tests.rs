use super::*;
use crate::kvm_hv::PolicyKind;

/// A kernel whose stores take so many ticks, with a cache of its own.
struct Kernel {
    cache: CacheDesign,
    hit: f64,
    miss: f64,
    /// What a list's mean is off by, alternately.
    noise: f64,
}

impl TickMeter for Kernel {
    type Error = ShareError;

    fn ticks_per_store(&mut self, way: StoreWay, list: &[u16]) -> Result<f64, ShareError> {
        let more = match way {
            StoreWay::UserExit => 9000.0,
            StoreWay::EventfdAny => 0.0,
            StoreWay::EventfdWord => 120.0,
        };
        self.noise = -self.noise;
        let hits = share_of_hits(self.cache, list)?;
        Ok(more + self.noise + self.miss - hits * (self.miss - self.hit))
    }
}

const KERNEL: Kernel = Kernel { cache: CacheDesign::KERNEL, hit: 1933.0, miss: 2176.0, noise: 3.0 };

#[test]
fn up_to_four_pages_round_robin_hit_and_five_never_do() {
    for (pages, hits) in [(1, 1.0), (4, 1.0), (5, 0.0), (16, 0.0)] {
        assert_eq!(share_of_hits(CacheDesign::KERNEL, &round_robin(pages, 80)), Ok(hits), "{pages} pages");
    }
    let eight = CacheDesign::new(8, PolicyKind::RoundRobin).unwrap();
    assert_eq!(share_of_hits(eight, &round_robin(8, 80)), Ok(1.0));
}

#[test]
fn hit_and_miss_come_out_of_the_table_and_predict_mixes_within_the_noise() {
    let model = calibrate_ticks(&mut { KERNEL }, CacheDesign::KERNEL, (7, 2000)).unwrap();
    assert_eq!((model.rows.len(), model.costs.len(), model.mixes.len()), (24, 3, 15));
    for costs in &model.costs {
        assert!((costs.miss - costs.hit - 243.0).abs() < 7.0, "{costs:?}");
        assert!(costs.greatest_rest <= 6.5, "{costs:?}");
    }
    for row in &model.mixes {
        assert!(row.error_percent.abs() < 4.0, "{row:?}");
        assert!(row.hits > 0.05 && row.hits < 0.95, "a mix that is all hits or none tells nothing: {row:?}");
    }
}

#[test]
fn a_model_of_another_cache_is_told_by_its_errors() {
    let mut kernel = Kernel { cache: CacheDesign::new(8, PolicyKind::RoundRobin).unwrap(), ..KERNEL };
    let model = calibrate_ticks(&mut kernel, CacheDesign::KERNEL, (7, 2000)).unwrap();
    assert!(model.costs.iter().any(|costs| costs.greatest_rest > 50.0));
    assert!(model.mixes.iter().any(|row| row.error_percent.abs() > 10.0));
}

#[test]
fn rows_that_all_hit_tell_no_miss() {
    let row = |pages| TickRow { pages, way: StoreWay::EventfdAny, hits: 1.0, ticks: 1933.0 };
    let error = fit(&[row(1), row(2)]).unwrap_err();
    assert_eq!(error, TickFitError::Undetermined { way: StoreWay::EventfdAny });
    assert!(share_of_hits(CacheDesign::KERNEL, &[]).is_err() && share_of_hits(CacheDesign::KERNEL, &[16]).is_err());
}

#[test]
fn mixes_are_their_seed() {
    assert_eq!(mixes(1, 100), mixes(1, 100));
    assert_ne!(mixes(1, 100), mixes(2, 100));
}

//! The published figures and the fit.

use hvmmio::machine::{self, Machine};
use hvmmio::proof::{Benchmark, Standing, calibrate, reproduce};

#[test]
fn fio_is_fitted_within_0_3_percent_and_netperf_after_predicted_within_0_5() {
    let machine = Machine::built_in("power8-2016").unwrap();
    let fio = reproduce(Benchmark::Fio, &machine, &mut |_| {}).unwrap();
    for figure in &fio.figures {
        assert!(figure.error_percent.unwrap().abs() < 0.3, "{figure:?}");
        assert_eq!(figure.standing, Standing::Fitted);
    }
    let netperf = reproduce(Benchmark::Netperf, &machine, &mut |_| {}).unwrap();
    let [before, after] = &netperf.figures[..] else { panic!("before and after") };
    let off_percent = after.error_percent.unwrap().abs();
    assert_eq!((before.standing, after.standing), (Standing::Fitted, Standing::Predicted));
    assert!(off_percent < 0.5, "{after:?}");
    // A prediction that met its rows to the last digit would be no prediction.
    assert!(off_percent > 0.01, "{after:?}");
}

#[test]
fn the_shipped_model_is_what_the_fit_gives_from_it_and_from_a_spoilt_one() {
    let (name, shipped) = machine::BUILT_IN[0];
    assert_eq!(calibrate(name, shipped).unwrap().text, shipped);
    let lines = shipped.lines().scan(false, |fitted, line| {
        *fitted =
            if line.starts_with('[') { line.contains("hpt-search]") || line.contains("net-send") } else { *fitted };
        Some(if *fitted && line.starts_with("ns = ") { "ns = 5.0" } else { line })
    });
    let spoilt = lines.collect::<Vec<_>>().join("\n") + "\n";
    assert_ne!(spoilt, shipped);
    assert_eq!(calibrate(name, &spoilt).unwrap().text, shipped);
}

#[test]
fn a_model_that_leaves_nothing_to_fit_is_refused_in_words() {
    let shipped = machine::BUILT_IN[0].1;
    let slow = shipped.replace("[stage.host-entry]\nns = 900.0", "[stage.host-entry]\nns = 90000.0");
    let error = calibrate("slow.toml", &slow).unwrap_err().to_string();
    assert!(error.contains("more than the published rows allow"), "{error}");
    let bare = shipped.split("[fit]").next().unwrap();
    assert!(calibrate("bare.toml", bare).unwrap_err().to_string().contains("no [fit] table"));
}

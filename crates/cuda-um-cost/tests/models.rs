//! The built-in models, the guess of the link, and figures by name.

use cuda_um_cost::{CostError, CostModel, Figure, Link};
use std::time::Duration;

fn built_in() -> Vec<CostModel> {
    vec![
        CostModel::h200(),
        CostModel::gh200(),
        CostModel::ampere(),
        CostModel::pascal(),
        CostModel::maxwell(),
        CostModel::integrated(),
    ]
}

#[test]
fn built_in_models_are_allowed_and_say_what_they_are() {
    for model in built_in() {
        model.check().unwrap();
        let others = built_in().into_iter().filter(|one| one.name == model.name);
        assert_eq!(others.count(), 1, "{} names one model", model.name);
    }
}

#[test]
fn only_the_h200_was_measured() {
    for model in built_in() {
        let measured = model.assumed().count() == 0;
        assert_eq!(measured, model == CostModel::h200(), "{}", model.name);
        assert_eq!(
            measured,
            !model.source.contains("measured nowhere"),
            "{}",
            model.source
        );
    }
}

#[test]
fn links_are_guessed_by_generation() {
    for (capability, host_tables, link) in [
        ((5, 2), false, Link::Pcie3),
        ((7, 5), false, Link::Pcie3),
        ((7, 0), true, Link::Pcie3),
        ((8, 0), false, Link::Pcie4),
        ((8, 9), false, Link::Pcie4),
        ((9, 0), false, Link::Pcie5),
        ((9, 0), true, Link::NvlinkC2c),
        ((12, 0), false, Link::Pcie5),
    ] {
        assert_eq!(Link::of(capability, host_tables), link, "{capability:?}");
    }
}

#[test]
fn a_faster_link_copies_faster_in_every_way() {
    let links = [Link::Pcie3, Link::Pcie4, Link::Pcie5, Link::NvlinkC2c].map(CostModel::built_in);
    for pair in links.windows(2) {
        for rate in [
            |model: &CostModel| model.pinned_rate,
            |model: &CostModel| model.remote_rate,
            |model: &CostModel| model.pageable_rate,
            |model: &CostModel| model.staged_to_device_rate,
            |model: &CostModel| model.staged_to_host_rate,
            |model: &CostModel| model.prefetch_to_device_rate,
            |model: &CostModel| model.prefetch_to_host_rate,
            |model: &CostModel| model.fault_rate,
        ] {
            assert!(rate(&pair[0]) < rate(&pair[1]), "{}", pair[1].name);
        }
    }
}

#[test]
fn staging_is_slower_than_the_link_and_faster_than_one_thread() {
    for model in built_in() {
        for staged in [model.staged_to_device_rate, model.staged_to_host_rate] {
            assert!(staged < model.pinned_rate, "{}", model.name);
            assert!(staged > model.host_copy_rate, "{}", model.name);
        }
    }
}

#[test]
fn a_figure_that_was_set_is_no_longer_assumed() {
    let mut model = CostModel::h200().all_assumed();
    assert_eq!(model.assumed().count(), model.figures().len());
    let launch = Figure::Time(Duration::from_nanos(1_234));
    model.set("launch", launch).unwrap();
    assert_eq!(model.launch, Duration::from_nanos(1_234));
    assert!(model.assumed().all(|name| name != "launch"));
    assert_eq!(model.assumed().count(), model.figures().len() - 1);
}

#[test]
fn a_refused_figure_changes_nothing() {
    let mut model = CostModel::h200().all_assumed();
    let before = model.clone();
    assert!(matches!(
        model.set("lunch", Figure::Rate(1e9)),
        Err(CostError::Unknown { field }) if field == "lunch"
    ));
    assert!(matches!(
        model.set("launch", Figure::Rate(1e9)),
        Err(CostError::Kind { field, wanted: "time" }) if field == "launch"
    ));
    assert!(matches!(
        model.set("pin_rate", Figure::Time(Duration::ZERO)),
        Err(CostError::Kind { wanted: "rate", .. })
    ));
    assert!(matches!(
        model.set("pin_rate", Figure::Rate(f64::INFINITY)),
        Err(CostError::Rate { .. })
    ));
    assert_eq!(model, before);
}

#[test]
fn bytes_at_a_rate() {
    assert_eq!(CostModel::at_rate(0, 1e9), Duration::ZERO);
    assert_eq!(CostModel::at_rate(45_000, 45e9), Duration::from_micros(1));
    // Even the slowest rate that is allowed says when everything has been copied.
    assert!(CostModel::at_rate(u64::MAX, 1e6) > Duration::from_secs(1 << 40));
}

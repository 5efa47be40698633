//! Built-in models, values by key, and JSON of any model.

use cuda_um_cost::{CostError, CostModel, LinkKind, at_rate};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

fn built_in() -> [CostModel; 10] {
    [
        CostModel::h200(),
        CostModel::h100(),
        CostModel::a100(),
        CostModel::gh200(),
        CostModel::gb10(),
        CostModel::hmm(),
        CostModel::pcie4(),
        CostModel::pascal(),
        CostModel::maxwell(),
        CostModel::integrated(),
    ]
}

#[test]
fn built_in_models_can_be_and_only_two_were_measured() {
    for model in built_in() {
        model.check().unwrap();
        let measured = model.source.contains("measured");
        let is_hopper = [CostModel::h200(), CostModel::h100()].contains(&model);
        assert_eq!(measured, is_hopper, "{}", model.source);
        assert_eq!(!measured, model.source.contains("estimated"));
    }
}

#[test]
fn a_faster_link_copies_faster_in_every_way() {
    let links = [
        LinkKind::Pcie3,
        LinkKind::Pcie4,
        LinkKind::Pcie5,
        LinkKind::NvlinkC2c,
    ]
    .map(CostModel::built_in);
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
            assert!(rate(&pair[0]) < rate(&pair[1]), "{}", pair[1].source);
        }
    }
}

#[test]
fn staging_is_no_faster_than_the_link_and_faster_than_one_thread() {
    for model in built_in() {
        for staged in [model.staged_to_device_rate, model.staged_to_host_rate] {
            assert!(staged <= model.pinned_rate, "{}", model.source);
            assert!(staged > model.host_copy_rate, "{}", model.source);
        }
    }
}

#[test]
fn the_name_and_the_link_of_a_gpu_select_a_model() {
    for (name, capability, tables, expected) in [
        ("NVIDIA H100 80GB HBM3", (9, 0), false, CostModel::h100()),
        ("NVIDIA H100 PCIe", (9, 0), false, CostModel::h100()),
        ("NVIDIA H200", (9, 0), false, CostModel::h200()),
        ("NVIDIA H800", (9, 0), false, CostModel::h200()),
        ("NVIDIA GH200 480GB", (9, 0), true, CostModel::gh200()),
        ("NVIDIA GB10", (12, 1), true, CostModel::gb10()),
        ("NVIDIA A100-SXM4-80GB", (8, 0), false, CostModel::a100()),
        ("NVIDIA A10", (8, 6), false, CostModel::pcie4()),
        ("Tesla V100", (7, 0), false, CostModel::pascal()),
        ("NVIDIA B200", (10, 0), false, CostModel::h200()),
        ("", (99, 0), false, CostModel::h200()),
    ] {
        let found = CostModel::of_gpu(name, capability, tables);
        assert_eq!(found.source, expected.source, "{name}");
    }
}

#[test]
fn every_value_has_a_key_of_its_own() {
    let model = CostModel::h200();
    let keys: BTreeSet<_> = model.values().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys.len(), model.values().len());
    for key in keys {
        assert!(
            key.ends_with("_us") != key.ends_with("_bytes_per_s"),
            "{key}"
        );
    }
}

#[test]
fn a_value_is_set_by_its_key() {
    let mut model = CostModel::h200();
    model.set("launch_us", 1.2345).unwrap();
    model.set("pin_bytes_per_s", 2e9).unwrap();
    assert_eq!(model.launch, Duration::from_nanos(1_235));
    assert_eq!(model.pin_rate, 2e9);
}

#[test]
fn a_refused_value_is_named_and_changes_nothing() {
    let mut model = CostModel::h200();
    for (key, value, allowed) in [
        ("launch_us", -1.0, "microseconds, from 0 to an hour"),
        ("launch_us", f64::NAN, "microseconds, from 0 to an hour"),
        ("pin_bytes_per_s", 0.0, "bytes a second, from 1e6 to 1e15"),
        (
            "pin_bytes_per_s",
            1e-300,
            "bytes a second, from 1e6 to 1e15",
        ),
        (
            "pin_bytes_per_s",
            f64::NAN,
            "bytes a second, from 1e6 to 1e15",
        ),
        (
            "pin_bytes_per_s",
            f64::INFINITY,
            "bytes a second, from 1e6 to 1e15",
        ),
    ] {
        let refused = model.set(key, value).unwrap_err().to_string();
        let text = format!("{key:?} of the cost model is {value}; allowed is {allowed}");
        assert_eq!(refused, text);
    }
    assert_eq!(
        model.set("pin_rate", 1e9),
        Err(CostError::Unknown {
            field: "pin_rate".to_owned()
        })
    );
    assert_eq!(model, CostModel::h200());
}

#[test]
fn a_file_is_read_up_to_a_bound() {
    let error = |path: &str| CostModel::from_file(path).unwrap_err().to_string();
    assert!(error("/no/such/file").contains("No such file"));
    assert!(error("/").contains("directory"));
    assert!(error("/dev/null").contains("an object in JSON"));
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path();
    let spaces = |text: &str, bytes: usize| " ".repeat(bytes - text.len());
    let text = CostModel::pascal().to_json();
    std::fs::write(path, spaces(&text, 64 << 10) + &text).unwrap();
    let whole = CostModel::from_file(path);
    std::fs::write(path, spaces(&text, (64 << 10) + 1) + &text).unwrap();
    let larger = CostModel::from_file(path);
    assert_eq!(whole, Ok(CostModel::pascal()));
    assert!(matches!(larger, Err(CostError::File { .. })), "{larger:?}");
    // This case is last: without a limit it takes all memory.
    assert_eq!(error("/dev/zero"), "it is larger than 65536 bytes");
}

#[test]
fn a_field_that_is_not_a_number_is_found() {
    let mut model = CostModel::h200();
    model.fault_rate = f64::NAN;
    let error = model.check().unwrap_err().to_string();
    assert!(
        error.starts_with("\"fault_bytes_per_s\" of the cost model is NaN"),
        "{error}"
    );
    // JSON has no NaN.
    let error = CostModel::from_json(&model.to_json()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("\"fault_bytes_per_s\" of the cost model is null")
    );
}

#[test]
fn bytes_at_a_rate() {
    for rate in [0.0, -1.0, f64::NAN] {
        assert_eq!(at_rate(1, rate), Duration::MAX, "no machine has {rate}");
    }
    assert_eq!(at_rate(0, 1e9), Duration::ZERO);
    assert_eq!(at_rate(45_000, 45e9), Duration::from_micros(1));
    // At the slowest allowed rate, the time of all copies still fits into a `Duration`.
    assert!(at_rate(u64::MAX, 1e6) > Duration::from_secs(1 << 40));
}

proptest! {
    #[test]
    fn whatever_is_allowed_comes_back_to_the_bit(
        nanoseconds in prop::collection::vec(0u64..=3_600_000_000_000, 64),
        rates in prop::collection::vec(1e6f64..=1e15, 64),
        source in any::<String>(),
    ) {
        let mut model = CostModel::h200();
        for (at, (key, _)) in CostModel::h200().values().into_iter().enumerate() {
            let value = match key.ends_with("_us") {
                true => nanoseconds[at] as f64 / 1e3,
                false => rates[at],
            };
            model.set(key, value).unwrap();
        }
        model.source = source;
        prop_assert_eq!(CostModel::from_json(&model.to_json()), Ok(model));
    }
}

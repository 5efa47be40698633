//! Models as JSON: what is written comes back, and what makes no sense is refused by name.

use cuda_um_cost::{CostError, CostModel, Figure, Link};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::time::Duration;

/// The H200's model as JSON, changed.
fn changed(change: impl FnOnce(&mut Value)) -> Result<CostModel, CostError> {
    let mut value: Value = serde_json::from_str(&CostModel::h200().to_json()).unwrap();
    change(&mut value);
    CostModel::from_json(&value.to_string())
}

fn refusal(change: impl FnOnce(&mut Value)) -> String {
    changed(change).expect_err("refused").to_string()
}

#[test]
fn units_and_values_stand_in_the_text() {
    let value: Value = serde_json::from_str(&CostModel::h200().to_json()).unwrap();
    assert_eq!(value["format"], 1);
    assert_eq!(value["microseconds"]["launch"], 2.8);
    assert_eq!(value["bytes_per_second"]["pinned_rate"], 55.5e9);
    assert_eq!(value["name"], "H200, PCIe 5 x16");
    assert_eq!(value["assumed"], json!([]));
}

#[test]
fn every_built_in_model_comes_back() {
    for link in [Link::Pcie3, Link::Pcie4, Link::Pcie5, Link::NvlinkC2c] {
        let model = CostModel::built_in(link);
        assert_eq!(CostModel::from_json(&model.to_json()).unwrap(), model);
    }
}

#[test]
fn a_field_too_many_is_named() {
    let text = refusal(|value| value["colour"] = json!("green"));
    assert_eq!(text, "a cost model has no field `colour`");
    let text = refusal(|value| value["microseconds"]["lunch"] = json!(1));
    assert_eq!(text, "a cost model has no field `microseconds.lunch`");
    let text = refusal(|value| value["assumed"] = json!(["lunch"]));
    assert_eq!(text, "a cost model has no field `lunch`");
}

#[test]
fn every_field_must_be_there() {
    for field in ["format", "name", "source", "assumed", "microseconds"] {
        let text = refusal(|value| drop(value.as_object_mut().unwrap().remove(field)));
        assert_eq!(text, format!("field `{field}` is missing"));
    }
    for (name, figure) in CostModel::h200().figures() {
        let group = match figure {
            Figure::Time(_) => "microseconds",
            Figure::Rate(_) => "bytes_per_second",
        };
        let text = refusal(|value| drop(value[group].as_object_mut().unwrap().remove(name)));
        assert_eq!(text, format!("field `{group}.{name}` is missing"));
    }
}

#[test]
fn a_value_that_no_machine_has_is_named_with_what_is_allowed() {
    for rate in [0.0, -1.0, 1.0, 1e300] {
        let refused = changed(|value| value["bytes_per_second"]["pin_rate"] = json!(rate));
        let Err(CostError::Rate {
            field,
            bytes_per_second,
        }) = &refused
        else {
            panic!("{rate}: {refused:?}");
        };
        assert_eq!((field.as_str(), *bytes_per_second), ("pin_rate", rate));
    }
    let text = refusal(|value| value["bytes_per_second"]["pin_rate"] = json!(0));
    assert_eq!(
        text,
        "`pin_rate` is 0 bytes a second; 1000000 to 10000000000000000 are allowed"
    );
    let text = refusal(|value| value["microseconds"]["launch"] = json!(-2.5));
    assert_eq!(
        text,
        "`launch` is -2.5 microseconds; 0 to 1000000000 are allowed"
    );
}

#[test]
fn a_rate_that_is_not_a_number_does_not_come_back() {
    let mut model = CostModel::h200();
    model.fault_rate = f64::NAN;
    let error = model.check().unwrap_err().to_string();
    assert!(
        error.starts_with("`fault_rate` is NaN bytes a second"),
        "{error}"
    );
    // JSON has no NaN.
    let error = CostModel::from_json(&model.to_json())
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "`bytes_per_second.fault_rate` is null; a number is allowed"
    );
}

#[test]
fn other_types_and_formats_are_refused() {
    assert_eq!(
        refusal(|value| value["format"] = json!(2)),
        "`format` is 2; this version reads format 1"
    );
    assert_eq!(
        refusal(|value| value["format"] = json!("1")),
        "`format` is \"1\"; a whole number is allowed"
    );
    assert_eq!(
        refusal(|value| value["microseconds"]["copy"] = json!("6 us")),
        "`microseconds.copy` is \"6 us\"; a number is allowed"
    );
    assert_eq!(
        refusal(|value| value["name"] = json!(7)),
        "`name` is 7; a text is allowed"
    );
    assert_eq!(
        CostModel::from_json("[]").unwrap_err().to_string(),
        "`the text` is []; an object is allowed"
    );
    assert!(matches!(
        CostModel::from_json("{"),
        Err(CostError::Syntax(_))
    ));
}

proptest! {
    #[test]
    fn whatever_is_allowed_comes_back(
        nanoseconds in prop::collection::vec(0u64..=1_000_000_000_000, 64),
        rates in prop::collection::vec(1e6f64..=1e16, 64),
        assumed in any::<bool>(),
        name in any::<String>(),
        source in any::<String>(),
    ) {
        let mut model = CostModel::h200();
        if assumed {
            model = model.all_assumed();
        }
        // A third stays as it is, so that `assumed` is a part of all.
        for (at, (field, figure)) in model.figures().into_iter().enumerate().filter(|(at, _)| at % 3 > 0) {
            let other = match figure {
                Figure::Time(_) => Figure::Time(Duration::from_nanos(nanoseconds[at])),
                Figure::Rate(_) => Figure::Rate(rates[at]),
            };
            model.set(field, other).unwrap();
        }
        model.name = name;
        model.source = source;
        prop_assert_eq!(CostModel::from_json(&model.to_json()).unwrap(), model);
    }
}

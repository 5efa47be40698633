//! A model as JSON: `{"format": 1, "name", "source", "assumed": [], "microseconds": {}, "bytes_per_second": {}}`.

use crate::model::figure;
use crate::{CostError, CostModel};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

/// The format that is written, and the only one that is read.
const FORMAT: u64 = 1;
const FIELDS: &[&str] = &[
    "format",
    "name",
    "source",
    "assumed",
    "microseconds",
    "bytes_per_second",
];

impl CostModel {
    /// As JSON, times in microseconds and rates in bytes a second, in the order of the fields, with a newline at the end.
    pub fn to_json(&self) -> String {
        // Writing into a `String` cannot fail, and all keys are strings.
        let mut text = serde_json::to_string_pretty(&Written(self)).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Reads what [`to_json`](Self::to_json) wrote.
    ///
    /// # Errors
    /// The text is no JSON, has another format's number, a field too many or too few, or a figure that no machine can have.
    pub fn from_json(text: &str) -> Result<CostModel, CostError> {
        let value: Value = serde_json::from_str(text)?;
        let all = object("the text", &value)?;
        // Another version's fields may be others: the format comes first.
        let format = member(all, "format")?;
        match format.as_u64() {
            Some(FORMAT) => {}
            Some(found) => {
                return Err(CostError::Format {
                    found,
                    known: FORMAT,
                });
            }
            None => return Err(wrong("format", format, "a whole number")),
        }
        only(all, "", FIELDS)?;
        let mut model = CostModel::h200();
        model.name = string(all, "name")?;
        model.source = string(all, "source")?;
        for (group, names) in [
            ("microseconds", CostModel::TIMES),
            ("bytes_per_second", CostModel::RATES),
        ] {
            let figures = object(group, member(all, group)?)?;
            only(figures, &format!("{group}."), names)?;
            for name in names {
                let place = format!("{group}.{name}");
                let value = figures.get(*name).ok_or(CostError::Missing {
                    field: place.clone(),
                })?;
                let number = value
                    .as_f64()
                    .ok_or_else(|| wrong(&place, value, "a number"))?;
                model.set(name, figure(name, number)?)?;
            }
        }
        model.assumed = assumed(member(all, "assumed")?)?;
        Ok(model)
    }
}

fn assumed(value: &Value) -> Result<std::collections::BTreeSet<&'static str>, CostError> {
    let list = value
        .as_array()
        .ok_or_else(|| wrong("assumed", value, "a list of figures' names"))?;
    let known = |value: &Value| {
        let name = value
            .as_str()
            .ok_or_else(|| wrong("assumed", value, "a list of figures' names"))?;
        let all = CostModel::TIMES.iter().chain(CostModel::RATES);
        all.copied()
            .find(|known| *known == name)
            .ok_or_else(|| CostError::Unknown {
                field: name.to_owned(),
            })
    };
    list.iter().map(known).collect()
}

fn member<'a>(map: &'a Map<String, Value>, name: &str) -> Result<&'a Value, CostError> {
    map.get(name).ok_or_else(|| CostError::Missing {
        field: name.to_owned(),
    })
}

fn object<'a>(name: &str, value: &'a Value) -> Result<&'a Map<String, Value>, CostError> {
    value
        .as_object()
        .ok_or_else(|| wrong(name, value, "an object"))
}

fn string(map: &Map<String, Value>, name: &str) -> Result<String, CostError> {
    let value = member(map, name)?;
    let text = value.as_str().ok_or_else(|| wrong(name, value, "a text"))?;
    Ok(text.to_owned())
}

/// Refuses fields that are not in the list.
fn only(map: &Map<String, Value>, prefix: &str, names: &[&str]) -> Result<(), CostError> {
    match map.keys().find(|name| !names.contains(&name.as_str())) {
        Some(name) => Err(CostError::Unknown {
            field: format!("{prefix}{name}"),
        }),
        None => Ok(()),
    }
}

fn wrong(field: &str, found: &Value, wanted: &'static str) -> CostError {
    CostError::Type {
        field: field.to_owned(),
        found: found.to_string(),
        wanted,
    }
}

/// Writes a model in the order of its fields, which a map of `serde_json` would sort.
struct Written<'a>(&'a CostModel);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let model = self.0;
        let mut map = serializer.serialize_map(Some(FIELDS.len()))?;
        map.serialize_entry("format", &FORMAT)?;
        map.serialize_entry("name", &model.name)?;
        map.serialize_entry("source", &model.source)?;
        map.serialize_entry("assumed", &model.assumed)?;
        map.serialize_entry("microseconds", &Group(model, CostModel::TIMES))?;
        map.serialize_entry("bytes_per_second", &Group(model, CostModel::RATES))?;
        map.end()
    }
}

/// The figures of one unit.
struct Group<'a>(&'a CostModel, &'static [&'static str]);

impl Serialize for Group<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.1.len()))?;
        for (name, figure) in self.0.figures() {
            if self.1.contains(&name) {
                map.serialize_entry(name, &figure.number())?;
            }
        }
        map.end()
    }
}

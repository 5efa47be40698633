//! Puts the items that are equal in all versions into one file, and the others into one file for each version.

use super::items::{Body, Entry, Items};
use super::spec::{END_MARKERS, NEWEST_SERVES, OLDEST_SERVES};
use anyhow::{Result, bail};
use std::collections::BTreeSet;

/// The result: `versions` are 11, 12 and 13.
pub struct Split {
    pub common: Items,
    pub versions: [Items; 3],
}

/// An item is common if all versions *that have it* are equal: an item that 12 adds is not a difference from 11.
pub fn split(mut versions: [Items; 3]) -> Result<Split> {
    versions.iter_mut().for_each(drop_parts);
    let names: BTreeSet<String> = versions
        .iter()
        .flat_map(|items| items.0.keys().cloned())
        .collect();
    let mut common = Items::default();
    for name in names {
        let forms: Vec<&Entry> = versions
            .iter()
            .filter_map(|items| items.0.get(&name))
            .collect();
        let agreed = forms.iter().all(|form| form.identity == forms[0].identity);
        if !agreed && matches!(forms[0].body, Body::Constant { .. }) {
            bail!("{name} has different values in different versions, and no rule in spec.rs");
        }
        let chosen = if agreed || NEWEST_SERVES.contains(&name.as_str()) {
            forms.last()
        } else if OLDEST_SERVES.contains(&name.as_str()) {
            forms.first()
        } else {
            None
        };
        if let Some(&chosen) = chosen {
            common.0.insert(name.clone(), chosen.clone());
            versions
                .iter_mut()
                .for_each(|items| drop(items.0.remove(&name)));
        }
    }
    Ok(Split { common, versions })
}

/// Removes end markers, and the union inside a newer form of a type if the oldest form of this type is used.
fn drop_parts(items: &mut Items) {
    items.0.retain(|name, _| {
        if END_MARKERS.contains(&name.as_str()) {
            return false;
        }
        !OLDEST_SERVES
            .iter()
            .any(|whole| name.starts_with(&format!("{whole}__bindgen")))
    });
}

//! Puts what the versions agree on into one file, and the rest into a file each.

use super::items::{Body, Entry, Items};
use super::spec::{NEWEST_SERVES, OLDEST_SERVES};
use anyhow::Result;
use quote::{ToTokens, format_ident, quote};
use std::collections::{BTreeMap, BTreeSet};

/// The outcome: `versions` are 11, 12 and 13.
pub struct Split {
    pub common: Items,
    pub versions: [Items; 3],
}

/// An item is common when all versions *that have it* agree: an addition of 12 is no disagreement with 11.
pub fn split(mut versions: [Items; 3]) -> Result<Split> {
    for items in &mut versions {
        restore_constants(items)?;
        drop_parts(items);
    }
    let names: BTreeSet<String> = versions.iter().flat_map(|items| items.0.keys().cloned()).collect();
    let mut common = Items::default();
    for name in names {
        let forms: Vec<&Entry> = versions.iter().filter_map(|items| items.0.get(&name)).collect();
        let agreed = forms.iter().all(|form| form.identity == forms[0].identity);
        let chosen = if agreed || NEWEST_SERVES.contains(&name.as_str()) {
            forms.last()
        } else if OLDEST_SERVES.contains(&name.as_str()) {
            forms.first()
        } else {
            None
        };
        if let Some(&chosen) = chosen {
            common.0.insert(name.clone(), chosen.clone());
            versions.iter_mut().for_each(|items| drop(items.0.remove(&name)));
        }
    }
    for items in &mut versions {
        free_constants(items)?;
    }
    Ok(Split { common, versions })
}

/// The union inside a newer form of a type whose oldest form serves.
fn drop_parts(items: &mut Items) {
    items.0.retain(|name, _| {
        !OLDEST_SERVES.iter().any(|whole| name.starts_with(&format!("{whole}__bindgen")))
    });
}

/// A constant whose value differs cannot be in an `impl` twice: it becomes a free constant of its version.
fn free_constants(items: &mut Items) -> Result<()> {
    let mut free = BTreeMap::new();
    for (name, entry) in std::mem::take(&mut items.0) {
        let Body::Constant { owner, constant, .. } = &entry.body else {
            free.insert(name, entry);
            continue;
        };
        let (ident, expr) = (&constant.ident, &constant.expr);
        let item: syn::Item = syn::parse2(quote!(pub const #ident: #owner = #expr;))?;
        let identity = item.to_token_stream().to_string();
        free.insert(ident.to_string(), Entry { identity, body: Body::Items(vec![item]) });
    }
    items.0 = free;
    Ok(())
}

/// The other way round, for files that were read back.
fn restore_constants(items: &mut Items) -> Result<()> {
    let mut found = Vec::new();
    items.0.retain(|_, entry| {
        if let Body::Items(list) = &entry.body
            && let [syn::Item::Const(constant)] = list.as_slice()
            && let syn::Type::Path(ty) = &*constant.ty
            && let (Some(owner), syn::Expr::Call(_)) = (ty.path.get_ident(), &*constant.expr)
        {
            found.push((owner.clone(), constant.clone()));
            return false;
        }
        true
    });
    for (owner, constant) in found {
        let (ident, expr) = (&constant.ident, &constant.expr);
        let owner = format_ident!("{owner}");
        items.extend(Items::of_file(syn::parse2(quote!(impl #owner { pub const #ident: #owner = #expr; }))?)?);
    }
    Ok(())
}

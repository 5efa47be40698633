//! The items of one version, with a name and in a form that allows comparison between versions.

use anyhow::{Result, bail};
use quote::{ToTokens, format_ident, quote};
use std::collections::{BTreeMap, BTreeSet};

/// A type, an enum's constant, a macro or a function's pointer type.
#[derive(Clone)]
pub struct Entry {
    /// Two entries with the same name are equal if this text is equal.
    pub identity: String,
    pub body: Body,
}

/// The Rust items of an entry.
#[allow(clippy::large_enum_variant, reason = "only a few hundred values, once")]
#[derive(Clone)]
pub enum Body {
    /// A type with its derives and its trait implementations, a constant, a function's pointer type.
    Items(Vec<syn::Item>),
    /// `const name: owner = …` of the enum `owner`.
    Constant {
        owner: syn::Ident,
        constant: syn::ImplItemConst,
        value: i64,
    },
}

/// All declarations of one version.
#[derive(Clone, Default)]
pub struct Items(pub BTreeMap<String, Entry>);

impl Items {
    /// Splits the output of bindgen, or the output of [`Items::to_file`], into items.
    pub fn of_file(file: syn::File) -> Result<Self> {
        let mut items = Self::default();
        for item in file.items {
            items.add(item)?;
        }
        Ok(items)
    }

    /// Adds all of `other`.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// These items; an item that is also in `newer` takes its form from there.
    #[allow(dead_code, reason = "used only by the build script")]
    pub fn replaced_by(mut self, newer: &Self) -> Self {
        self.extend(newer.clone());
        self
    }

    /// Adds the functions of `other` that are missing here.
    pub fn add_missing_functions(&mut self, other: Self) {
        for (name, entry) in other.0 {
            if name.starts_with("PFN_") {
                self.0.entry(name).or_insert(entry);
            }
        }
    }

    /// The declarations that another target has in another form. Enums are signed on Windows and unsigned on Linux, with the same
    /// size, and CUDA has no negative values in them: this is no difference.
    #[allow(dead_code, reason = "used only by xtask")]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let form = |entry: Option<&Entry>| {
            let text = &entry?.identity;
            Some(match text.contains("#[repr(transparent)]") {
                true => text.replace("::c_int)", "::c_uint)"),
                false => text.clone(),
            })
        };
        let names: BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        names
            .into_iter()
            .filter(|name| form(self.0.get(*name)) != form(other.0.get(*name)))
            .cloned()
            .collect()
    }

    fn add(&mut self, item: syn::Item) -> Result<()> {
        match item {
            syn::Item::ForeignMod(block) => {
                for foreign in block.items {
                    if let syn::ForeignItem::Fn(function) = foreign {
                        let name = format_ident!("PFN_{}", function.sig.ident);
                        let (inputs, output) = (&function.sig.inputs, &function.sig.output);
                        let alias = quote!(pub type #name = unsafe extern "C" fn(#inputs) #output;);
                        self.add(syn::parse2(alias)?)?;
                    }
                }
            }
            syn::Item::Type(alias) => {
                let mut compared = alias.clone();
                // Names of parameters change between versions and have no meaning.
                if let syn::Type::FnPtr(pointer) = &mut *compared.ty {
                    pointer
                        .inputs
                        .iter_mut()
                        .for_each(|input| input.name = None);
                }
                self.insert(
                    alias.ident.to_string(),
                    text(&compared),
                    syn::Item::Type(alias),
                );
            }
            syn::Item::Struct(ref it) => self.insert_item(it.ident.to_string(), item),
            syn::Item::Union(ref it) => self.insert_item(it.ident.to_string(), item),
            syn::Item::Const(ref it) => self.insert_item(it.ident.to_string(), item),
            // `pub use self::cudaError as cudaError_t;`, and the `use super::common::*` of our own files.
            syn::Item::Use(ref it) => {
                if let Some(name) = renamed(&it.tree) {
                    self.insert_item(name, item);
                }
            }
            syn::Item::Impl(block) => self.add_impl(block)?,
            other => bail!("unexpected item from bindgen: {}", other.to_token_stream()),
        }
        Ok(())
    }

    fn add_impl(&mut self, block: syn::ItemImpl) -> Result<()> {
        let owner: syn::Ident = syn::parse2(block.self_ty.to_token_stream())?;
        if block.trait_.is_some() {
            // Belongs to its type, which bindgen writes first.
            self.insert_item(owner.to_string(), syn::Item::Impl(block));
            return Ok(());
        }
        for item in block.items {
            let syn::ImplItem::Const(constant) = item else {
                bail!(
                    "{owner} has an item that is not a constant: {}",
                    item.to_token_stream()
                );
            };
            let value = value_of(&constant.expr);
            let identity = text(&constant);
            let body = Body::Constant {
                owner: owner.clone(),
                constant,
                value,
            };
            let Body::Constant { constant, .. } = &body else {
                unreachable!()
            };
            self.0.insert(
                format!("{owner}::{}", constant.ident),
                Entry { identity, body },
            );
        }
        Ok(())
    }

    fn insert_item(&mut self, name: String, item: syn::Item) {
        self.insert(name, text(&item), item);
    }

    fn insert(&mut self, name: String, identity: String, item: syn::Item) {
        let entry = self.0.entry(name).or_insert_with(|| Entry {
            identity: String::new(),
            body: Body::Items(Vec::new()),
        });
        entry.identity.push_str(&identity);
        if let Body::Items(items) = &mut entry.body {
            items.push(item);
        }
    }
}

/// The new name of `use self::old as new`.
fn renamed(tree: &syn::UseTree) -> Option<String> {
    match tree {
        syn::UseTree::Path(path) => renamed(&path.tree),
        syn::UseTree::Rename(rename) => Some(rename.rename.to_string()),
        _ => None,
    }
}

/// The number in `owner(number)`; constants are written in its order.
fn value_of(expr: &syn::Expr) -> i64 {
    let text = expr.to_token_stream().to_string();
    let digits: String = text
        .chars()
        .filter(|c| c.is_ascii_digit() || *c == '-')
        .collect();
    digits.parse().unwrap_or(i64::MAX)
}

/// The text for the comparison of two items. A written file that is read again has a comma after the last entry of a long list.
fn text(item: &impl ToTokens) -> String {
    let text: String = item
        .to_token_stream()
        .to_string()
        .split_whitespace()
        .collect();
    [")", ">", "]", "}"]
        .iter()
        .fold(text, |text, end| text.replace(&format!(",{end}"), end))
}

//! Writes the function tables: the structs, and the look-up of each field by name.

use super::items::{Body, Items};
use super::major::Major;
use super::spec::{DRIVER, RUNTIME, Since, VARIANTS, Variant};
use super::split::Split;
use anyhow::{Context, Result, bail};
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};
use std::ffi::CString;

/// The parts of a table, one for each function.
#[derive(Default)]
struct Table {
    fields: Vec<TokenStream>,
    /// The look-ups of the fields.
    found: Vec<TokenStream>,
    /// Rows for the optional fields.
    late: Vec<TokenStream>,
}

impl Table {
    fn add(&mut self, field: &str, doc: &str, ty: &TokenStream, found: &TokenStream) {
        let (ident, doc) = (format_ident!("{field}"), format!(" {doc}"));
        self.fields.push(quote!(#[doc = #doc] pub #ident: #ty));
        self.found.push(quote!(#ident: #found));
    }

    fn add_since(&mut self, split: &Split, name: &str, since: Since) -> Result<()> {
        match since {
            Since::Always => self.add_required(split, name),
            Since::Version(major, minor) => self.add_late(split, name, (major, minor)),
        }
    }

    /// Adds a function that every version has.
    fn add_required(&mut self, split: &Split, name: &str) -> Result<()> {
        let (ty, symbol) = (function_type(&split.common, name)?, c_string(name));
        let found = quote!(symbols.required(#symbol)?);
        self.add(name, &format!("`{name}`"), &ty, &found);
        Ok(())
    }

    fn add_late(&mut self, split: &Split, name: &str, (major, minor): (u32, u32)) -> Result<()> {
        let (ty, symbol) = (function_type(&split.common, name)?, c_string(name));
        let doc = format!("`{name}`, from CUDA {major}.{minor} on");
        let found = quote!(symbols.late(#symbol));
        self.add(name, &doc, &quote!(Option<#ty>), &found);
        self.late.push(late_row(name, major, minor));
        Ok(())
    }

    /// Adds one of several signatures of a function.
    fn add_variant(&mut self, split: &Split, variant: &Variant) -> Result<()> {
        let (module, name) = match variant.major {
            Major::V11 => (0, "v11"),
            Major::V12 => (1, "v12"),
            Major::V13 => (2, "v13"),
        };
        let pointer = format_ident!("PFN_{}", variant.function);
        if !split.versions[module].0.contains_key(&pointer.to_string()) {
            bail!(
                "{}: {} does not differ between the versions as stated in spec.rs",
                variant.field,
                variant.function
            );
        }
        check_renamed(split, variant)?;
        let changed = Literal::u32_unsuffixed(variant.changed);
        let before = variant.before.map(c_string);
        let since = variant.from.map(c_string);
        let found = match (before, since) {
            (Some(before), None) => quote!(symbols.before(#changed, #before)),
            (None, Some(since)) => quote!(symbols.since(#changed, #since)),
            (Some(before), Some(since)) => {
                quote!(symbols.before(#changed, #before).or_else(|| symbols.since(#changed, #since)))
            }
            (None, None) => bail!("{}: no symbol given", variant.field),
        };
        let module = format_ident!("{name}");
        let doc = format!("`{}`, {}", variant.function, variant.versions);
        self.add(
            variant.field,
            &doc,
            &quote!(Option<#module::#pointer>),
            &found,
        );
        let (major, minor) = variant.since;
        self.late.push(late_row(variant.field, major, minor));
        Ok(())
    }
}

/// The file `table.rs`.
pub fn table(split: &Split) -> Result<syn::File> {
    let (mut runtime, mut driver) = (Table::default(), Table::default());
    for &(name, since) in RUNTIME {
        runtime.add_since(split, name, since)?;
    }
    for variant in VARIANTS {
        runtime.add_variant(split, variant)?;
    }
    for &(name, since) in DRIVER {
        driver.add_since(split, name, since)?;
    }
    let Table {
        fields,
        found,
        late,
    } = runtime;
    let (driver_fields, driver_found, driver_late) = (driver.fields, driver.found, driver.late);
    syn::parse2(quote! {
        use crate::bindings::{common, v11, v12, v13};
        use crate::error::LoadError;
        use crate::symbols::{DriverSymbols, Symbols};

        #[doc = " The functions of the CUDA runtime, each under its C name."]
        #[doc = ""]
        #[doc = " A function that every version has is a plain pointer. A function that was added"]
        #[doc = " later, or that has several signatures, is an `Option`: it is present if the library has it."]
        #[derive(Clone, Copy, Debug)]
        #[non_exhaustive]
        pub struct Functions { #(#fields,)* }

        impl Functions {
            pub(crate) fn find(symbols: &mut Symbols<'_>) -> Result<Self, LoadError> {
                Ok(Self { #(#found,)* })
            }
        }

        #[doc = " The functions of the CUDA driver without an equivalent in the runtime, each under its C name."]
        #[derive(Clone, Copy, Debug)]
        #[non_exhaustive]
        pub struct DriverTable { #(#driver_fields,)* }

        impl DriverTable {
            pub(crate) fn find(symbols: &DriverSymbols) -> Result<Self, LoadError> {
                Ok(Self { #(#driver_found,)* })
            }
        }

        #[doc = " The optional fields of [`Functions`] and [`DriverTable`], and the first version that has each."]
        pub(crate) const LATE: &[(&str, u32, u32)] = &[ #(#late,)* #(#driver_late,)* ];
    })
    .context("the table is not Rust")
}

/// Checks that a `_v2` or `_v3` name of 12 has exactly the signature of the plain name in 13.
fn check_renamed(split: &Split, variant: &Variant) -> Result<()> {
    let (Some(old), Some(new)) = (variant.before, variant.from) else {
        return Ok(());
    };
    let find =
        |items: &Items, name: &str| Some(pointer(items, name)?.to_string().replace(name, ""));
    let old_name = format!("PFN_{old}");
    let old = find(&split.common, &old_name).or_else(|| find(&split.versions[1], &old_name));
    let new = find(&split.versions[2], &format!("PFN_{new}"));
    if old != new {
        bail!(
            "{}: the signature before 13 differs from the one of 13",
            variant.field
        );
    }
    Ok(())
}

/// The unnamed signature of a function's pointer type.
fn pointer(items: &Items, name: &str) -> Option<TokenStream> {
    let entry = items.0.get(name)?;
    matches!(entry.body, Body::Items(_))
        .then(|| entry.identity.parse().expect("tokens stay tokens"))
}

fn function_type(common: &Items, name: &str) -> Result<TokenStream> {
    let pointer = format_ident!("PFN_{name}");
    if !common.0.contains_key(&pointer.to_string()) {
        bail!("{name}: not the same in all versions, and no rule in spec.rs");
    }
    Ok(quote!(common::#pointer))
}

fn late_row(name: &str, major: u32, minor: u32) -> TokenStream {
    let (major, minor) = (
        Literal::u32_unsuffixed(major),
        Literal::u32_unsuffixed(minor),
    );
    quote!((#name, #major, #minor))
}

fn c_string(name: &str) -> Literal {
    Literal::c_string(&CString::new(name).expect("names have no NUL"))
}

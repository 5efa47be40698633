//! Writes the function tables: the structs, and the look-up of each field by name.

use super::items::{Body, Items};
use super::major::Major;
use super::spec::{DRIVER, RUNTIME, Since, VARIANTS};
use super::split::Split;
use anyhow::{Context, Result, bail};
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};
use std::ffi::CString;

/// The file `table.rs`.
pub fn table(split: &Split) -> Result<syn::File> {
    let (mut fields, mut found, mut late) = (Vec::new(), Vec::new(), Vec::new());
    for &(name, since) in RUNTIME {
        let ty = function_type(&split.common, name).with_context(|| {
            format!("{name}: not the same in all versions, and no rule in spec.rs")
        })?;
        let (ident, symbol) = (format_ident!("{name}"), c_string(name));
        match since {
            Since::Always => {
                let doc = format!(" `{name}`");
                fields.push(quote!(#[doc = #doc] pub #ident: #ty));
                found.push(quote!(#ident: symbols.required(#symbol)?));
            }
            Since::Version(major, minor) => {
                let doc = format!(" `{name}`, from CUDA {major}.{minor} on");
                fields.push(quote!(#[doc = #doc] pub #ident: Option<#ty>));
                found.push(quote!(#ident: symbols.late(#symbol)));
                late.push(late_row(name, major, minor));
            }
        }
    }
    for variant in VARIANTS {
        let module = match variant.major {
            Major::V11 => 0,
            Major::V12 => 1,
            Major::V13 => 2,
        };
        let items = &split.versions[module];
        let pointer = format_ident!("PFN_{}", variant.function);
        if !items.0.contains_key(&pointer.to_string()) {
            bail!(
                "{}: {} does not differ between the versions as stated in spec.rs",
                variant.field,
                variant.function
            );
        }
        check_renamed(split, variant)?;
        let module = format_ident!("{}", ["v11", "v12", "v13"][module]);
        let ident = format_ident!("{}", variant.field);
        let doc = format!(" `{}`, {}", variant.function, variant.versions);
        fields.push(quote!(#[doc = #doc] pub #ident: Option<#module::#pointer>));
        let sides = [
            ("before_13", variant.before_13),
            ("since_13", variant.from_13),
        ]
        .into_iter();
        let calls: Vec<_> = sides
            .filter_map(|(side, symbol)| Some((format_ident!("{side}"), c_string(symbol?))))
            .map(|(side, symbol)| quote!(symbols.#side(#symbol)))
            .collect();
        found.push(match calls.as_slice() {
            [one] => quote!(#ident: #one),
            [one, two] => quote!(#ident: #one.or_else(|| #two)),
            _ => bail!("{}: no symbol given", variant.field),
        });
        late.push(late_row(variant.field, variant.since.0, variant.since.1));
    }
    let (mut driver_fields, mut driver_found) = (Vec::new(), Vec::new());
    for name in DRIVER {
        let ty = function_type(&split.common, name).with_context(|| {
            format!("{name}: not the same in all versions, and no rule in spec.rs")
        })?;
        let (ident, symbol, doc) = (
            format_ident!("{name}"),
            c_string(name),
            format!(" `{name}`"),
        );
        driver_fields.push(quote!(#[doc = #doc] pub #ident: #ty));
        driver_found.push(quote!(#ident: symbols.required(#symbol)?));
    }
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

        #[doc = " The optional fields of [`Functions`] and the first version that has each."]
        pub(crate) const LATE: &[(&str, u32, u32)] = &[ #(#late,)* ];
    })
    .context("the table is not Rust")
}

/// Checks that a `_v2` name of 12 has exactly the signature of the plain name in 13.
fn check_renamed(split: &Split, variant: &super::spec::Variant) -> Result<()> {
    let (Some(old), Some(new)) = (variant.before_13, variant.from_13) else {
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

fn function_type(common: &Items, name: &str) -> Option<TokenStream> {
    let pointer = format_ident!("PFN_{name}");
    common
        .0
        .contains_key(&pointer.to_string())
        .then(|| quote!(common::#pointer))
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

//! The modules of one target: the file of each module, the names that it declares, and the paths in its code.

use super::paths::{self, Segments};
use anyhow::{Context, Result, ensure};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, Meta, TraitItem, UseTree, Visibility};

/// A module: a file, or an inline module in a file.
pub struct Module {
    pub file: PathBuf,
    pub parent: usize,
    pub children: HashMap<String, usize>,
    /// The items that the module itself defines.
    pub items: HashSet<String>,
    /// The names that `use` declares in this module, with their paths.
    pub aliases: HashMap<String, Segments>,
    pub globs: Vec<Segments>,
    pub uses: Vec<Use>,
    /// The paths in its code.
    pub mentions: Vec<Segments>,
}

/// One leaf of a `use` declaration.
pub struct Use {
    pub path: Segments,
    pub glob: bool,
    /// True for a `use` with a visibility: `pub use`, `pub(crate) use`.
    pub reexport: bool,
}

/// All modules of a library or a program. The first one is its root.
pub struct Target {
    pub modules: Vec<Module>,
    /// Macros by name; every module below their definition can use them without a path.
    pub macros: HashMap<String, usize>,
}

type Read<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// Reads the module tree below `root`.
pub fn load(root: &Path, read: Read<'_>) -> Result<Target> {
    let mut target = Target {
        modules: Vec::new(),
        macros: HashMap::new(),
    };
    let folder = root.parent().unwrap_or(Path::new("")).to_path_buf();
    load_file(&mut target, root, 0, folder, read)?;
    Ok(target)
}

/// Adds the module of a whole file; the files of its children are in `folder`.
fn load_file(
    target: &mut Target,
    file: &Path,
    parent: usize,
    folder: PathBuf,
    read: Read<'_>,
) -> Result<usize> {
    let text = read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let parsed = syn::parse_file(&text).with_context(|| format!("in {}", file.display()))?;
    let module = new_module(target, file, parent);
    if !is_test(&parsed.attrs) {
        load_items(target, module, &parsed.items, folder, read)?;
    }
    Ok(module)
}

fn new_module(target: &mut Target, file: &Path, parent: usize) -> usize {
    target.modules.push(Module {
        file: file.to_path_buf(),
        parent,
        children: HashMap::new(),
        items: HashSet::new(),
        aliases: HashMap::new(),
        globs: Vec::new(),
        uses: Vec::new(),
        mentions: Vec::new(),
    });
    target.modules.len() - 1
}

fn load_items(
    target: &mut Target,
    module: usize,
    items: &[Item],
    folder: PathBuf,
    read: Read<'_>,
) -> Result<()> {
    for item in items.iter().filter(|item| !is_test(attributes(item))) {
        if let Item::Mod(declared) = item {
            let name = declared.ident.to_string();
            let below = folder.join(&name);
            let child = if let Some((_, items)) = &declared.content {
                let file = target.modules[module].file.clone();
                let child = new_module(target, &file, module);
                load_items(target, child, items, below, read)?;
                child
            } else {
                let (file, folder) = file_of(target, module, item, &folder, &name, read);
                load_file(target, &file, module, folder, read)?
            };
            let old = target.modules[module].children.insert(name.clone(), child);
            let file = &target.modules[module].file;
            ensure!(old.is_none(), "{} has `{name}` twice", file.display());
            continue;
        }
        if let Some(name) = defined(item) {
            if matches!(item, Item::Macro(_)) {
                target.macros.insert(name.clone(), module);
            }
            target.modules[module].items.insert(name);
        }
        Collector(&mut target.modules[module]).visit_item(item);
    }
    Ok(())
}

/// The file of a module that is declared with `mod name;`, and the folder of its children.
fn file_of(
    target: &Target,
    module: usize,
    item: &Item,
    folder: &Path,
    name: &str,
    read: Read<'_>,
) -> (PathBuf, PathBuf) {
    if let Some(path) = path_attribute(attributes(item)) {
        let declaring = target.modules[module].file.parent();
        let file = declaring.unwrap_or(Path::new("")).join(path);
        let folder = file.parent().unwrap_or(Path::new("")).to_path_buf();
        return (file, folder);
    }
    let flat = folder.join(format!("{name}.rs"));
    let below = folder.join(name);
    if read(&flat).is_some() {
        (flat, below)
    } else {
        (below.join("mod.rs"), below)
    }
}

/// Collects the `use` declarations and the paths of a module's code.
struct Collector<'a>(&'a mut Module);

impl Collector<'_> {
    fn declare(&mut self, tree: &UseTree, prefix: &[String], reexport: bool) {
        let mut path = prefix.to_vec();
        let mut glob = false;
        let name = match tree {
            UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                return self.declare(&inner.tree, &path, reexport);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.declare(tree, prefix, reexport);
                }
                return;
            }
            UseTree::Name(leaf) => {
                if leaf.ident != "self" {
                    path.push(leaf.ident.to_string());
                }
                path.last().cloned()
            }
            UseTree::Rename(leaf) => {
                if leaf.ident != "self" {
                    path.push(leaf.ident.to_string());
                }
                Some(leaf.rename.to_string()).filter(|name| name != "_")
            }
            _ => {
                glob = true;
                self.0.globs.push(path.clone());
                None
            }
        };
        if let Some(name) = name {
            self.0.aliases.insert(name, path.clone());
        }
        self.0.uses.push(Use {
            path,
            glob,
            reexport,
        });
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes = match item {
            ImplItem::Const(item) => &*item.attrs,
            ImplItem::Fn(item) => &*item.attrs,
            ImplItem::Type(item) => &*item.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        let attributes = match item {
            TraitItem::Fn(item) => &*item.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !is_test(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let reexport = !matches!(item.vis, Visibility::Inherited);
        self.declare(&item.tree, &[], reexport);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let segments = path.segments.iter();
            let path = segments.map(|segment| segment.ident.to_string()).collect();
            self.0.mentions.push(path);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        visit::visit_macro(self, called);
        // The code in `quote!` belongs to another crate.
        let name = called
            .path
            .segments
            .last()
            .map(|last| last.ident.to_string());
        if !name.is_some_and(|name| matches!(&*name, "quote" | "parse_quote" | "stringify")) {
            self.0
                .mentions
                .extend(paths::of_tokens(called.tokens.clone()));
        }
    }

    // `pub(in crate::module)` is not an import, and neither are attributes.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

fn defined(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// `#[cfg(test)]`, also within `all(..)`.
fn is_test(attributes: &[Attribute]) -> bool {
    fn needs_test(meta: &Meta) -> bool {
        match meta {
            Meta::Path(path) => path.is_ident("test"),
            Meta::List(list) if list.path.is_ident("all") => {
                let conditions = list.parse_args_with(
                    syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated,
                );
                conditions.is_ok_and(|all| all.iter().any(needs_test))
            }
            _ => false,
        }
    }
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args()
                .is_ok_and(|meta: Meta| needs_test(&meta))
    })
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let Meta::NameValue(meta) = &attribute.meta else {
            return None;
        };
        match &meta.value {
            syn::Expr::Lit(syn::ExprLit {
                lit: syn::Lit::Str(path),
                ..
            }) if meta.path.is_ident("path") => Some(path.value()),
            _ => None,
        }
    })
}

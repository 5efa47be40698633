//! Finds the module that defines the item of a path. Re-exports are followed.

use super::paths::Segments;
use super::source::{Module, Target, Use};

/// Longer chains of re-exports than this count as circular.
const MAX_DEPTH: usize = 16;

/// The target of a path.
enum Found {
    Module(usize),
    /// An item with this name, which the module defines or re-exports from another crate.
    Item(usize, String),
}

/// An import of `name` from the module `to`, which defines it.
pub struct Import {
    pub to: usize,
    pub name: String,
}

impl Target {
    /// All imports of a module's code.
    pub fn imports(&self, module: usize) -> Vec<Import> {
        let this = &self.modules[module];
        let of_uses = this
            .uses
            .iter()
            .filter_map(|used| self.of_use(module, used));
        let of_code = this
            .mentions
            .iter()
            .filter_map(|path| self.of_path(module, path));
        of_uses.chain(of_code).collect()
    }

    fn of_use(&self, module: usize, used: &Use) -> Option<Import> {
        let import = if used.glob {
            let Found::Module(to) = self.resolve(module, &used.path, 0)? else {
                return None;
            };
            let name = "*".to_owned();
            Import { to, name }
        } else {
            self.of_path(module, &used.path)?
        };
        let reexports_child = used.reexport && self.is_below(import.to, module);
        (!reexports_child).then_some(import)
    }

    /// A path to a module is not an import; uses of its items are.
    fn of_path(&self, module: usize, path: &[String]) -> Option<Import> {
        match self.resolve(module, path, 0)? {
            Found::Item(to, name) => Some(Import { to, name }),
            Found::Module(_) => None,
        }
    }

    fn is_below(&self, mut module: usize, ancestor: usize) -> bool {
        while module != ancestor && module != 0 {
            module = self.modules[module].parent;
        }
        module == ancestor
    }

    /// The target of a path in a module; `None` outside of the crate.
    fn resolve(&self, module: usize, path: &[String], depth: usize) -> Option<Found> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut here = module;
        for (index, name) in path.iter().enumerate() {
            let last = index + 1 == path.len();
            let found = match name.as_str() {
                "crate" => Found::Module(0),
                "self" => Found::Module(here),
                "super" => Found::Module(self.modules[here].parent),
                _ => match self.look_up(here, name, last, depth) {
                    Some(found) => found,
                    None if index == 0 => Found::Item(*self.macros.get(name)?, name.clone()),
                    // A macro or `include!` defines it.
                    None => Found::Item(here, name.clone()),
                },
            };
            match found {
                Found::Module(module) => here = module,
                Found::Item(..) => return Some(found),
            }
        }
        Some(Found::Module(here))
    }

    /// Looks up a name in a module. The end of a path is an item rather than a module of the same name; the other segments are
    /// modules.
    fn look_up(&self, module: usize, name: &str, last: bool, depth: usize) -> Option<Found> {
        let this = &self.modules[module];
        let child = this.children.get(name).copied().map(Found::Module);
        let item = || Found::Item(module, name.to_owned());
        let item = this.items.contains(name).then(item);
        let declared = if last { item.or(child) } else { child.or(item) };
        declared
            .or_else(|| self.alias(module, this.aliases.get(name)?, name, depth))
            .or_else(|| self.of_globs(this, module, name, last, depth))
    }

    fn alias(&self, module: usize, path: &Segments, name: &str, depth: usize) -> Option<Found> {
        let itself = || Found::Item(module, name.to_owned());
        // `use name;` with the name of another crate.
        if path.len() == 1 && path[0] == name {
            return Some(itself());
        }
        Some(self.resolve(module, path, depth + 1).unwrap_or_else(itself))
    }

    fn of_globs(
        &self,
        this: &Module,
        module: usize,
        name: &str,
        last: bool,
        depth: usize,
    ) -> Option<Found> {
        if depth > MAX_DEPTH {
            return None;
        }
        this.globs.iter().find_map(|glob| {
            let Found::Module(from) = self.resolve(module, glob, depth + 1)? else {
                return None;
            };
            if from == module {
                return None;
            }
            self.look_up(from, name, last, depth + 1)
        })
    }
}

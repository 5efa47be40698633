//! The imports between the files of a package, and cycles among them.

use super::source::Target;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

/// The names that one file imports from another.
pub type Names = BTreeSet<String>;

/// Imports by `(from, to)`.
pub type Edges = BTreeMap<(String, String), Names>;

/// The files of a package and their imports. A file is named by its path below `src/`.
#[derive(Default)]
pub struct Imports {
    pub files: BTreeSet<String>,
    pub edges: Edges,
}

impl Imports {
    /// Adds the files of a library or a program of the package in `folder`.
    pub fn add(&mut self, target: &Target, folder: &Path) {
        let source = folder.join("src");
        let name = |module: usize| {
            let file = &*target.modules[module].file;
            let shown = file.strip_prefix(&source).unwrap_or(file);
            shown.to_string_lossy().into_owned()
        };
        for module in 0..target.modules.len() {
            let from = name(module);
            self.files.insert(from.clone());
            for import in target.imports(module) {
                let to = name(import.to);
                if from != to {
                    let names = self.edges.entry((from.clone(), to)).or_default();
                    names.insert(import.name);
                }
            }
        }
    }
}

/// The graph of imports between files. Several files can be one node.
pub struct Graph<'a> {
    concept: &'a BTreeMap<String, String>,
    out: BTreeMap<String, BTreeSet<String>>,
}

impl<'a> Graph<'a> {
    /// `concept` gives a common name to files that count as one.
    pub fn new<'e>(
        edges: impl Iterator<Item = &'e (String, String)>,
        concept: &'a BTreeMap<String, String>,
    ) -> Self {
        let out = BTreeMap::new();
        let mut graph = Self { concept, out };
        edges.for_each(|edge| graph.insert(edge));
        graph
    }

    fn node<'n>(&'n self, file: &'n String) -> &'n String {
        self.concept.get(file).unwrap_or(file)
    }

    fn insert(&mut self, (from, to): &(String, String)) {
        let (from, to) = (self.node(from).clone(), self.node(to).clone());
        if from != to {
            self.out.entry(from).or_default().insert(to);
        }
    }

    /// The shortest path from one file to another, both included.
    pub fn path(&self, from: &String, to: &String) -> Option<Vec<String>> {
        let (from, to) = (self.node(from), self.node(to));
        let mut before: BTreeMap<&String, &String> = BTreeMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for next in self.out.get(node).into_iter().flatten() {
                if before.contains_key(next) {
                    continue;
                }
                before.insert(next, node);
                if next == to {
                    let mut path = vec![to.clone()];
                    let mut at = to;
                    while let Some(previous) = before.get(at) {
                        path.push((*previous).clone());
                        at = previous;
                        if at == from {
                            break;
                        }
                    }
                    path.reverse();
                    return Some(path);
                }
                queue.push_back(next);
            }
        }
        None
    }

    /// The files that are on a cycle, with their names in the graph.
    pub fn cyclic(&self) -> BTreeSet<String> {
        let nodes = self.out.keys();
        let cyclic = nodes.filter(|node| self.path(node, node).is_some());
        cyclic.cloned().collect()
    }

    /// The pairs of files that import each other.
    pub fn mutual(&self) -> usize {
        let pairs = self
            .out
            .iter()
            .flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
        let back = |from, to| {
            self.out
                .get(to)
                .is_some_and(|out: &BTreeSet<String>| out.contains(from))
        };
        pairs
            .filter(|(from, to)| from < to && back(*from, *to))
            .count()
    }
}

//! Checks the imports of a package against the rules.

use super::graph::{Edges, Graph, Imports, Names};
use super::table::Table;
use std::collections::BTreeSet;

/// The result: numbers, and one line for each failure.
pub struct Outcome {
    pub upward: usize,
    /// Pairs of files that import each other.
    pub mutual: usize,
    /// Files that are part of a cycle of any length.
    pub cyclic: usize,
    pub failures: Vec<String>,
}

/// Checks a package.
pub fn check(imports: &Imports, table: &Table) -> Outcome {
    let mut failures = Vec::new();
    rooms(imports, table, &mut failures);
    let upward = upward(imports, table);
    for (edge, names) in &upward {
        let (from, to) = (place(table, &edge.0), place(table, &edge.1));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        failures.push(format!(
            "{from} imports {} of {to}: imports point down only",
            names.join(", ")
        ));
    }
    cycles(imports, table, &upward, &mut failures);

    let concepts = table.concepts();
    let all = Graph::new(imports.edges.keys(), &concepts);
    Outcome {
        upward: upward.len(),
        mutual: all.mutual(),
        cyclic: all.cyclic().len(),
        failures,
    }
}

/// Checks that each file has a room, and that each line of the table has a file.
fn rooms(imports: &Imports, table: &Table, failures: &mut Vec<String>) {
    for line in table.unused(&imports.files) {
        failures.push(format!("floors.toml names {line}, which does not exist"));
    }
    if table.has_rooms() {
        let homeless = imports
            .files
            .iter()
            .filter(|file| table.room(file).is_none());
        failures.extend(homeless.map(|file| format!("{file} has no room in floors.toml")));
    }
}

/// The imports between rooms that do not point down.
fn upward(imports: &Imports, table: &Table) -> Edges {
    let points_up = |(from, to): &(String, String)| {
        let (Some(from), Some(to)) = (table.room(from), table.room(to)) else {
            return false;
        };
        from.name != to.name && to.floor >= from.floor
    };
    let edges = imports.edges.iter().filter(|(edge, _)| points_up(edge));
    edges
        .map(|(edge, names)| (edge.clone(), names.clone()))
        .collect()
}

fn place(table: &Table, file: &str) -> String {
    match table.room(file) {
        Some(room) => format!("{file} ({}, floor {})", room.name, room.floor),
        None => file.to_owned(),
    }
}

/// Checks that there is no cycle without an import that points up.
fn cycles(imports: &Imports, table: &Table, upward: &Edges, failures: &mut Vec<String>) {
    let others = imports.edges.keys();
    let others = others.filter(|edge| !upward.contains_key(*edge));
    let concepts = table.concepts();
    let graph = Graph::new(others, &concepts);

    // One cycle for each group of connected files is sufficient.
    let mut told = BTreeSet::new();
    for node in graph.cyclic() {
        if told.contains(&node) {
            continue;
        }
        if let Some(cycle) = graph.path(&node, &node) {
            failures.push(describe(&cycle, imports));
            told.extend(cycle);
        }
    }
}

/// Describes a cycle, with the imported names.
fn describe(cycle: &[String], imports: &Imports) -> String {
    let steps = cycle.windows(2).map(|pair| {
        let (from, to) = (&pair[0], &pair[1]);
        let is_in = |file: &str, node: &str| node.split(" + ").any(|part| part == file);
        let names: Names = imports
            .edges
            .iter()
            .filter(|(edge, _)| is_in(&edge.0, from) && is_in(&edge.1, to))
            .flat_map(|(_, names)| names.iter().cloned())
            .collect();
        let names: Vec<String> = names.into_iter().collect();
        format!("{from} imports {} of {to}", names.join(", "))
    });
    format!("a cycle: {}", steps.collect::<Vec<_>>().join("; "))
}

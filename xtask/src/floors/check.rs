//! Checks the imports of a package against the rules, and the table against the imports.

use super::graph::{Edges, Graph, Imports, Names};
use super::table::{Known, Table, key};
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
        let new = new_names(&table.upward, edge, names);
        if !new.is_empty() {
            let (from, to) = (place(table, &edge.0), place(table, &edge.1));
            failures.push(format!(
                "{from} imports {new} of {to}: imports point down only"
            ));
        }
    }
    gone(&table.upward, &upward, "upward", &mut failures);
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
pub fn upward(imports: &Imports, table: &Table) -> Edges {
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

/// The names that are not in the list.
fn new_names(known: &Known, edge: &(String, String), names: &Names) -> String {
    let known = known.get(&key(edge));
    let new = names
        .iter()
        .filter(|name| known.is_none_or(|known| !known.contains(*name)));
    new.map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Lines of the list with an import that is no longer in the sources.
fn gone(known: &Known, edges: &Edges, list: &str, failures: &mut Vec<String>) {
    for (line, names) in known {
        let found = edges.iter().find(|(edge, _)| key(edge) == *line);
        let gone: Vec<&str> = names
            .iter()
            .filter(|name| found.is_none_or(|(_, found)| !found.contains(*name)))
            .map(String::as_str)
            .collect();
        if !gone.is_empty() {
            let gone = gone.join(", ");
            failures.push(format!(
                "[{list}] of floors.toml lists {gone} of \"{line}\", which is gone: remove it"
            ));
        }
    }
}

/// Checks that every cycle contains an upward import or a listed import, and that every listed import closes a cycle.
fn cycles(imports: &Imports, table: &Table, upward: &Edges, failures: &mut Vec<String>) {
    let concepts = table.concepts();
    let (listed, other): (Vec<_>, Vec<_>) = imports
        .edges
        .iter()
        .filter(|(edge, _)| !upward.contains_key(*edge))
        .partition(|(edge, _)| table.cyclic.contains_key(&key(edge)));
    let mut graph = Graph::new(other.iter().map(|(edge, _)| *edge), &concepts);

    let mut in_cycles = Edges::new();
    for (edge, names) in listed {
        if graph.path(&edge.1, &edge.0).is_some() {
            in_cycles.insert(edge.clone(), names.clone());
            let new = new_names(&table.cyclic, edge, names);
            if !new.is_empty() {
                failures.push(format!(
                    "{} imports {new} of {}, which closes a cycle",
                    edge.0, edge.1
                ));
            }
        } else {
            graph.insert(edge);
        }
    }
    gone(&table.cyclic, &in_cycles, "cyclic", failures);

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

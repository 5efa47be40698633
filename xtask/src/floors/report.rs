//! The output of the check.

use super::check::{self, Outcome};
use super::graph::{Edges, Graph, Imports};
use super::table::{Table, key};
use anyhow::Result;

/// The head of the summary.
pub const HEAD: &str = "\
package             files  imports  upward  mutual  in cycles
                                            pairs   (files)";

/// One line of the summary.
pub fn print_summary(package: &str, imports: &Imports, outcome: &Outcome) {
    println!(
        "{package:<18} {:>6} {:>8} {:>7} {:>7} {:>10}",
        imports.files.len(),
        imports.edges.len(),
        outcome.upward,
        outcome.mutual,
        outcome.cyclic
    );
}

/// All imports of a package.
pub fn print_imports(package: &str, imports: &Imports) {
    for (edge, names) in &imports.edges {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        println!("{package}: {}: {}", key(edge), names.join(", "));
    }
}

/// Prints lists that match the present sources of a package.
pub fn print_lists(package: &str, imports: &Imports, table: &Table) -> Result<()> {
    let upward = check::upward(imports, table);
    let cyclic = cuts(imports, table, &upward);
    for (list, edges) in [("upward", upward), ("cyclic", cyclic)] {
        if !edges.is_empty() {
            println!("\n# {package}\n[{list}]");
        }
        for (edge, names) in edges {
            println!("\"{}\" = {}", key(&edge), serde_json::to_string(&names)?);
        }
    }
    Ok(())
}

/// A small set of imports without which the package has no cycle: those of the table that still close one, and further ones if
/// necessary.
fn cuts(imports: &Imports, table: &Table, upward: &Edges) -> Edges {
    let concepts = table.concepts();
    let mut rest = imports.edges.clone();
    rest.retain(|edge, _| !upward.contains_key(edge) && !table.cyclic.contains_key(&key(edge)));
    let mut cut: Vec<(String, String)> = imports.edges.keys().cloned().collect();
    cut.retain(|edge| !upward.contains_key(edge) && !rest.contains_key(edge));

    while Graph::new(rest.keys(), &concepts).cycle().is_some() {
        let left = |edge: &(String, String)| {
            let others = rest.keys().filter(|other| *other != edge);
            Graph::new(others, &concepts).cyclic().len()
        };
        let tangled = Graph::new(rest.keys(), &concepts).cyclic();
        let candidates = rest.iter().filter(|((from, to), _)| {
            let is_tangled = |file| tangled.contains(concepts.get(file).unwrap_or(file));
            is_tangled(from) && is_tangled(to)
        });
        let best = candidates.min_by_key(|(edge, names)| (left(edge), names.len()));
        let Some(best) = best.map(|(edge, _)| edge.clone()) else {
            break;
        };
        rest.remove(&best);
        cut.push(best);
    }
    let mut graph = Graph::new(rest.keys(), &concepts);
    cut.retain(|edge| {
        let needed = graph.path(&edge.1, &edge.0).is_some();
        if !needed {
            graph.insert(edge);
        }
        needed
    });
    cut.into_iter()
        .map(|edge| (edge.clone(), imports.edges[&edge].clone()))
        .collect()
}

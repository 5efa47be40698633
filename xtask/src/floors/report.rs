//! The output of the check.

use super::check::Outcome;
use super::graph::Imports;

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
    for ((from, to), names) in &imports.edges {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        println!("{package}: {from} -> {to}: {}", names.join(", "));
    }
}

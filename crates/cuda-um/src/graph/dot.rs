//! Pictures of graphs.

use crate::graph::contents::Contents;
use std::fmt::Write;

/// The recorded work as Graphviz: a box for each piece, with the buffers that it reads and writes.
pub(super) fn draw(contents: &Contents) -> String {
    let mut text = String::from("digraph graph_of_cuda_um {\n    node [shape=box];\n");
    for (index, node) in contents.nodes.iter().enumerate() {
        let mut label = node.kind.name().to_owned();
        for (slot, access) in &node.uses {
            let how = if access.is_write() { "writes" } else { "reads" };
            let _ = write!(label, "\n{how} {}", contents.slots[*slot].memory.title);
        }
        // The escapes of Rust's strings are those of Graphviz.
        let _ = writeln!(text, "    {index} [label={label:?}];");
        for (other, before) in contents.nodes[..index].iter().enumerate() {
            if before
                .nodes
                .iter()
                .any(|node_before| node.after.contains(node_before))
            {
                let _ = writeln!(text, "    {other} -> {index};");
            }
        }
    }
    text.push_str("}\n");
    text
}

//! Pictures of graphs.

use crate::context::capture::{Kind, Node};
use crate::graph::contents::Contents;
use std::fmt::Write;

/// The recorded work as Graphviz: a box for each piece, with the buffers that it reads and writes, and one around the body of a condition.
pub(super) fn draw(contents: &Contents) -> String {
    let mut text = String::from("digraph graph_of_cuda_um {\n    node [shape=box];\n");
    draw_nodes(&mut text, contents, &contents.nodes, "");
    text.push_str("}\n");
    text
}

/// `prefix` begins the names of the boxes.
fn draw_nodes(text: &mut String, contents: &Contents, nodes: &[Node], prefix: &str) {
    for (index, node) in nodes.iter().enumerate() {
        let mut label = node.kind.name().to_owned();
        for (slot, access) in &node.uses {
            let how = if access.is_write() { "writes" } else { "reads" };
            let _ = write!(label, "\n{how} {}", contents.slots[*slot].memory.title);
        }
        // The escapes of Rust's strings are those of Graphviz.
        let _ = writeln!(text, "    {prefix}{index} [label={label:?}];");
        for (other, before) in nodes[..index].iter().enumerate() {
            if before
                .nodes
                .iter()
                .any(|node_before| node.after.contains(node_before))
            {
                let _ = writeln!(text, "    {prefix}{other} -> {prefix}{index};");
            }
        }
        if let Kind::Body { nodes, .. } = &node.kind {
            let name = node.kind.name();
            let _ = writeln!(
                text,
                "    subgraph cluster_{prefix}{index} {{ label=\"{name} {prefix}{index}\";"
            );
            draw_nodes(text, contents, nodes, &format!("{prefix}{index}_"));
            text.push_str("    }\n");
        }
    }
}

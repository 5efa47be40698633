//! The order of a function's blocks, in which divergent lanes meet again without a search for post-dominators.
//!
//! Among the groups of lanes of a warp the one with the least program counter runs first, and groups at the same place become one
//! (thread frontiers: Diamos et al., MICRO 2011). That is best if a block comes after all blocks from which it is reached, and the
//! blocks of a loop lie side by side, so that lanes which have left the loop wait for the others: a weak topological order
//! (Bourdoncle, 1993).

use std::collections::HashMap;
use std::mem::take;

use super::Decoder;
use crate::program::{Code, Inst};

fn jumps(inst: &Inst) -> bool {
    matches!(
        inst.code,
        Code::Branch | Code::Indexed | Code::Return | Code::Exit
    )
}

impl Decoder<'_> {
    /// Blocks in their order, appended to the program.
    pub(super) fn lay_out(&mut self, index: usize) {
        let (code, places) = (take(&mut self.code), take(&mut self.code_places));
        let (targets, program) = (&self.targets, &mut self.program);
        let mut leader = vec![false; code.len() + 1];
        leader[0] = true;
        for &target in targets {
            leader[target.min(code.len() - 1)] = true;
        }
        for (at, inst) in code.iter().enumerate() {
            leader[at + 1] |= jumps(inst);
        }
        let starts: Vec<usize> = (0..code.len()).filter(|&at| leader[at]).collect();
        let end = |block: usize| starts.get(block + 1).copied().unwrap_or(code.len());
        let block_of =
            |label: u32| starts.partition_point(|&start| start <= targets[label as usize]) - 1;
        let falls = |block: usize| {
            let last = &code[end(block) - 1];
            (!jumps(last) || last.guard != 0) && block + 1 < starts.len()
        };
        let successors = |block: usize| {
            let last = &code[end(block) - 1];
            let labels = match last.code {
                Code::Branch => std::slice::from_ref(&last.d),
                Code::Indexed => &program.tables[last.d as usize],
                _ => &[],
            };
            let next = labels.iter().map(|&label| block_of(label));
            next.chain(falls(block).then_some(block + 1)).collect()
        };
        let order = order(&(0..starts.len()).map(successors).collect::<Vec<_>>());
        let mut position = vec![u32::MAX; starts.len()];
        let mut at = program.code.len() as u32;
        let joined = |rank: usize, block| falls(block) && order.get(rank + 1) != Some(&(block + 1));
        for (rank, &block) in order.iter().enumerate() {
            position[block] = at;
            at += (end(block) - starts[block]) as u32 + u32::from(joined(rank, block));
        }
        for (rank, &block) in order.iter().enumerate() {
            for at in starts[block]..end(block) {
                let mut inst = code[at];
                if inst.code == Code::Branch {
                    inst.d = position[block_of(inst.d)];
                } else if inst.code == Code::Indexed {
                    for label in &mut program.tables[inst.d as usize] {
                        *label = position[block_of(*label)];
                    }
                }
                program.code.push(inst);
                program.places.push(places[at]);
            }
            if joined(rank, block) {
                // What comes next in the text is elsewhere.
                let (code, d) = (Code::Branch, position[block + 1]);
                program.code.push(Inst {
                    code,
                    d,
                    ..Inst::default()
                });
                program.places.push(places[end(block) - 1]);
            }
        }
        self.functions[index].start = position[0];
    }
}

/// The blocks that are reached from block 0, in their order.
fn order(successors: &[Vec<usize>]) -> Vec<usize> {
    let mut ordered = Vec::with_capacity(successors.len());
    // `owner[block]` is the set that a block belongs to at the moment: a loop without its header, or the whole function.
    let mut owner = vec![0u32; successors.len()];
    let mut sets = 0;
    let mut work = vec![Task::Split(0, reached(successors))];
    while let Some(task) = work.pop() {
        match task {
            Task::Emit(block) => ordered.push(block),
            Task::Split(set, blocks) => {
                // Tarjan gives components in reverse topological order, which is the order for a stack.
                for mut component in components(successors, &blocks, &owner, set) {
                    let header = component[0];
                    if component.len() == 1 {
                        work.push(Task::Emit(header));
                        continue;
                    }
                    sets += 1;
                    component.remove(0);
                    for &block in &component {
                        owner[block] = sets;
                    }
                    owner[header] = u32::MAX;
                    work.push(Task::Split(sets, component));
                    work.push(Task::Emit(header));
                }
            }
        }
    }
    ordered
}

enum Task {
    Emit(usize),
    Split(u32, Vec<usize>),
}

fn reached(successors: &[Vec<usize>]) -> Vec<usize> {
    let (mut seen, mut work) = (vec![false; successors.len()], vec![0]);
    let mut blocks = Vec::new();
    while let Some(block) = work.pop() {
        if !std::mem::replace(&mut seen[block], true) {
            blocks.push(block);
            work.extend(&successors[block]);
        }
    }
    blocks.sort_unstable();
    blocks
}

/// The strongly connected components of the blocks of one set, each with its first block in the order of the text in front.
fn components(
    successors: &[Vec<usize>],
    blocks: &[usize],
    owner: &[u32],
    set: u32,
) -> Vec<Vec<usize>> {
    const NEW: u32 = u32::MAX;
    let local: HashMap<usize, usize> = blocks
        .iter()
        .enumerate()
        .map(|(index, &block)| (block, index))
        .collect();
    let (mut number, mut low) = (vec![NEW; blocks.len()], vec![0u32; blocks.len()]);
    let (mut stacked, mut stack, mut found) = (vec![false; blocks.len()], Vec::new(), Vec::new());
    let mut next = 0;
    for root in 0..blocks.len() {
        if number[root] != NEW {
            continue;
        }
        let mut path = vec![(root, 0)];
        while let Some(&mut (node, ref mut edge)) = path.last_mut() {
            if *edge == 0 {
                (number[node], low[node]) = (next, next);
                next += 1;
                stacked[node] = true;
                stack.push(node);
            }
            // The last successor first: what is visited first comes last in the order, and the way that falls through is the last.
            let edges = &successors[blocks[node]];
            let Some(&target) = edges.get(*edge) else {
                path.pop();
                if let Some(&(parent, _)) = path.last() {
                    low[parent] = low[parent].min(low[node]);
                }
                if low[node] == number[node] {
                    let mut component = Vec::new();
                    while let Some(member) = stack.pop() {
                        stacked[member] = false;
                        component.push(blocks[member]);
                        if member == node {
                            break;
                        }
                    }
                    component.sort_unstable();
                    found.push(component);
                }
                continue;
            };
            *edge += 1;
            if owner[target] != set {
                continue;
            }
            let target = local[&target];
            if number[target] == NEW {
                path.push((target, 0));
            } else if stacked[target] {
                low[node] = low[node].min(number[target]);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn joins_come_after_both_ways_and_exits_after_loops() {
        // 0 → 1 → {2, 3}, 2 → {1, 4}, 3 → {1, 5}, 4 → 5.
        let graph = [vec![1], vec![3, 2], vec![1, 4], vec![1, 5], vec![5], vec![]];
        let order = order(&graph);
        let rank = |block| order.iter().position(|&other| other == block).unwrap();
        assert_eq!(order.len(), 6);
        assert!(rank(1) < rank(2) && rank(1) < rank(3));
        assert!(rank(4) > rank(2) && rank(4) > rank(3) && rank(5) > rank(4));
    }

    #[test]
    fn a_long_chain_needs_no_stack() {
        let graph: Vec<_> = (0..100_000)
            .map(|block| {
                if block == 99_999 {
                    vec![]
                } else {
                    vec![block + 1]
                }
            })
            .collect();
        assert!(order(&graph).iter().copied().eq(0..100_000));
    }
}

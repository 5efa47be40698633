//! 9.7.12 control flow, 9.7.13 barriers, votes and shuffles, 9.7.19 miscellaneous.

use super::{Code, Decoder, Form, Op, Operand, Result, Statement, Text, Type};
use crate::math::{self, Mode};
use crate::program::{Reduce, Shuffle, Vote};

/// 9.7.9.6: which lane another one reads from, by the operand and the lane's segment.
const SHUFFLES: [(&str, Shuffle); 4] = [
    ("up", |lane, by, _| lane.wrapping_sub(by)),
    ("down", |lane, by, _| lane + by),
    ("bfly", |lane, by, _| lane ^ by),
    ("idx", |lane, by, segment| lane & segment | by & !segment),
];
/// 9.7.13.9: by the lanes whose predicate holds, and all that vote.
const VOTES: [(&str, Vote); 4] = [
    ("all", |votes, all| u32::from(votes == all)),
    ("any", |votes, _| u32::from(votes != 0)),
    ("uni", |votes, all| u32::from(votes == all || votes == 0)),
    ("ballot", |votes, _| votes),
];
/// 9.7.13.1: by the number of threads whose predicate holds, and of all.
const REDUCTIONS: [(&str, Reduce); 3] = [
    ("popc", |count, _| count),
    ("and", |count, all| u32::from(count == all)),
    ("or", |count, _| u32::from(count != 0)),
];

impl<'m> Decoder<'m> {
    pub(super) fn control(&mut self, form: &Form) -> Result<bool> {
        match form.name {
            "bra" => {
                let Operand::Name(label) = self.at(form, 0)? else {
                    return self.bad("a label is expected");
                };
                let label = self.label_number(*label)?;
                self.emit(Code::Branch, label, 0, 0, 0);
            }
            "brx" => return self.indexed(form),
            "call" => return self.call(form),
            "ret" => self.leave(),
            "exit" => self.emit(Code::Exit, 0, 0, 0, 0),
            "trap" | "brkpt" => _ = self.emit_op(Op::Trap, &[], &[]),
            "nanosleep" => _ = self.emit_op(Op::Sleep, &[], &[]),
            "membar" | "fence" => _ = self.emit_op(Op::Fence, &[], &[]),
            "pmevent" | "setmaxnreg" | "griddepcontrol" => {}
            "bar" | "barrier" => return self.barrier(form),
            "shfl" => {
                let from = form.pick(&SHUFFLES).unwrap_or(SHUFFLES[3].1);
                let op = Op::Shuffle {
                    from,
                    up: form.has("up"),
                };
                return self.together(form, op, &[32; 3]);
            }
            "vote" => {
                let op = Op::Vote(form.pick(&VOTES).unwrap_or(VOTES[3].1));
                return self.together(form, op, &[1]);
            }
            "match" => {
                let (all, bits) = (form.has("all"), form.kind().map_or(32, Type::bits));
                return self.together(form, Op::Match { all }, &[bits]);
            }
            "redux" => return self.redux(form),
            "activemask" => {
                let d = self.result(form)?;
                self.emit_op(Op::ActiveMask, &[Some(d)], &[]);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn label_number(&self, label: Text) -> Result<u32> {
        let name = self.str(label);
        for scope in self.scopes.iter().rev() {
            if let Some(&number) = self.labels.get(&(scope.block, name)) {
                return Ok(number as u32);
            }
        }
        self.bad(format!("there is no label `{name}`"))
    }

    /// 9.7.12.4 brx.idx.
    fn indexed(&mut self, form: &Form) -> Result<bool> {
        let (index, Operand::Name(list)) = (self.read(form, 0, 32)?, self.at(form, 1)?) else {
            return self.bad("a list of labels is expected");
        };
        let body = self.functions[self.current].function.body.iter();
        let names = body.flatten().find_map(|statement| match statement {
            Statement::Targets { label, names } if self.str(*label) == self.str(*list) => {
                Some(names)
            }
            _ => None,
        });
        let Some(names) = names else {
            return self.bad("there is no such list of labels");
        };
        let table = names.iter().map(|name| self.label_number(*name));
        let table = table.collect::<Result<Vec<_>>>()?;
        let number = self.program.tables.len() as u32;
        self.program.tables.push(table);
        self.emit(Code::Indexed, number, index.index, 0, 0);
        Ok(true)
    }

    /// 9.7.13.1 bar, barrier; 9.7.13.2 bar.warp.sync; 9.7.13.3 barrier.cluster of clusters of one block.
    fn barrier(&mut self, form: &Form) -> Result<bool> {
        if form.has("warp") {
            let members = self.read(form, 0, 32)?;
            self.emit_op(Op::WarpBarrier, &[], &[]).members = Some(members);
            return Ok(true);
        }
        let zero = self.word_value(0)?;
        if form.has("cluster") {
            if form.has("wait") {
                let (arrive, reduce) = (false, None);
                self.emit_op(Op::Barrier { arrive, reduce }, &[], &[zero; 2]);
            }
            return Ok(true);
        }
        let reduce = form.pick(&REDUCTIONS).filter(|_| form.has("red"));
        if form.has("red") && reduce.is_none() {
            return Ok(false);
        }
        let mut operands = form.operands;
        let (mut d, mut sources) = (None, Vec::new());
        if let (Some(_), [first, middle @ .., last]) = (reduce, operands) {
            (d, operands) = (Some(self.target(first)?), middle);
            sources.push(self.condition(last)?);
        }
        // The number, and how many threads; 0 is all.
        for index in [1, 0] {
            let slot = match operands.get(index) {
                Some(operand) => self.source(operand, 32)?,
                None if index == 1 => zero,
                None => return self.bad("an operand is missing"),
            };
            sources.insert(0, slot);
        }
        let arrive = form.has("arrive");
        self.emit_op(Op::Barrier { arrive, reduce }, &[d], &sources);
        Ok(true)
    }

    /// An instruction that lanes execute together: `d[|p]`, sources of these sizes, and (with `.sync`) the members.
    fn together(&mut self, form: &Form, op: Op, sizes: &[u32]) -> Result<bool> {
        let d = match self.at(form, 0)? {
            Operand::Pair(d, p) => {
                let p = self.predicate(*p)?;
                let d = if d.start == d.end {
                    None
                } else {
                    Some(self.target(&Operand::Name(*d))?)
                };
                [d, Some(p)]
            }
            operand => [Some(self.target(operand)?), None],
        };
        let mut sources = Vec::new();
        for (index, &bits) in sizes.iter().enumerate() {
            let operand = self.at(form, index + 1)?;
            sources.push(if bits == 1 {
                self.condition(operand)?
            } else {
                self.source(operand, bits)?
            });
        }
        let members = match form.operands.get(sizes.len() + 1) {
            Some(operand) if form.has("sync") => Some(self.source(operand, 32)?),
            _ if form.has("sync") => return self.bad("an operand is missing"),
            _ => None,
        };
        self.emit_op(op, &d, &sources).members = members;
        Ok(true)
    }

    /// 9.7.13.11 redux.sync.
    fn redux(&mut self, form: &Form) -> Result<bool> {
        let op = ["add", "min", "max", "and", "or", "xor"]
            .into_iter()
            .find(|op| form.has(op));
        let kind = form
            .kind()
            .filter(|kind| kind.bits() == 32 && !form.has("abs"));
        let (Some(op), Some(kind)) = (op, kind) else {
            return Ok(false);
        };
        let Some((_, function)) = math::function(op, 2, kind, Mode::of(form.modifiers)) else {
            return Ok(false);
        };
        self.together(form, Op::Redux(function), &[32])
    }
}

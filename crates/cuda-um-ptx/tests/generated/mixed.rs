//! Programs of many statements: arithmetic of all forms, divergence, memory of all spaces, and what the threads of a warp or a block do
//! together. Each thread has a state of 4 + 6 + 4 registers (`%h`, `%s`, `%l`), which it writes at the end.
//!
//! Everything is defined: threads meet in order, sums do not depend on it, and a thread reads only what was written.

mod memory;
mod statement;
mod together;

use super::Program;
use super::forms::Form;
use super::values::{Draw, Random};
use std::fmt::Write;

/// Words of a thread's output: the state.
const WORDS: usize = 20;
/// Words of sums behind them.
const SUMS: usize = 12;
const INPUT: usize = 4096;

struct Writer<'a> {
    random: Random,
    forms: Vec<&'a Form>,
    body: String,
    indent: usize,
    labels: usize,
    /// Registers for the counters of loops and masks of branches.
    scratch: usize,
    target: u32,
    block: usize,
}

/// Where a statement stands.
#[derive(Clone, Copy)]
struct Place {
    depth: usize,
    /// All threads of the block come here together.
    together: bool,
    /// Calls, and votes of single lanes, may stand here: not in a loop whose count differs between threads, where the driver's compiler
    /// (580) takes the threads for together, with wrong addresses or a hang for the result.
    calls: bool,
}

pub fn program(seed: u64, forms: &[Form]) -> Program {
    let mut random = Random::new(seed);
    let (grid, block) = (
        1 + random.below(4) as u32,
        32 * (1 + random.below(4) as u32),
    );
    let target = if random.chance(35) { 90 } else { 80 };
    // A NaN's sign and payload are not defined where only the sign changes, or where two operands of f64 may be one; approximations have
    // programs of their own.
    let usable = |form: &&Form| {
        let payloads = form.operands.iter().filter(|draw| **draw == Draw::F64);
        form.target <= target
            && form.bound.is_none()
            && (form.result != Draw::F64 || payloads.count() < 2)
            && !form.operands.iter().any(|draw| is_number(*draw))
    };
    let forms: Vec<&Form> = forms.iter().filter(usable).collect();
    let input: Vec<u32> = (0..INPUT)
        .map(|_| match random.below(4) {
            0 => Draw::F32.draw(&mut random),
            1 => Draw::F16X2.draw(&mut random),
            _ => Draw::I32.draw(&mut random),
        } as u32)
        .collect();
    let mut writer = Writer {
        random,
        forms,
        body: String::new(),
        indent: 1,
        labels: 0,
        scratch: 0,
        target,
        block: block as usize,
    };
    let functions = writer.functions();
    let mut place = Place {
        depth: 0,
        together: true,
        calls: true,
    };
    for _ in 0..8 + writer.random.below(8) {
        if place.together && writer.random.chance(2) {
            // Some threads leave; the others are never again together.
            let left = writer.predicate();
            writer.line(format!("@{left} bra EXIT;"));
            place.together = false;
        }
        writer.statement(place);
    }
    let table: Vec<String> = (0..16)
        .map(|_| (writer.random.next() as u32).to_string())
        .collect();
    let Writer { body, scratch, .. } = writer;
    let words = (grid * block) as usize * WORDS;
    let version = if target == 90 { "8.3" } else { "7.8" };
    let text = format!(
        ".version {version}
.target sm_{target}
.address_size 64

.const .align 4 .u32 fixed[16] = {{{table}}};
.global .align 4 .u32 table[16] = {{{table}}};

{functions}
.visible .entry main(.param .u64 input, .param .u64 output)
{{
    .reg .pred %p<8>, %q<{scratch}>;
    .reg .b16 %h<4>, %w<4>;
    .reg .b32 %r<8>, %s<6>, %t<16>, %c<{scratch}>, %me, %gid;
    .reg .b64 %d<8>, %l<4>, %u<8>, %input, %output, %sums;
    .shared .align 16 .b8 slots[{slots}];
    .shared .align 8 .b8 sums[16];
    .shared .align 8 .b64 meeting;
    .local .align 16 .b8 own[64];
    ld.param.u64 %input, [input];
    ld.param.u64 %output, [output];
    cvta.to.global.u64 %input, %input;
    cvta.to.global.u64 %output, %output;
    mov.u32 %me, %tid.x;
    mov.u32 %t0, %ctaid.x;
    mov.u32 %t1, %ntid.x;
    mad.lo.u32 %gid, %t0, %t1, %me;
    add.u64 %sums, %output, {sums_at};
    and.b32 %t0, %gid, 127;
    mul.wide.u32 %u0, %t0, 64;
    add.u64 %u0, %u0, %input;
    ld.global.v4.u32 {{%s0, %s1, %s2, %s3}}, [%u0];
    ld.global.v2.u32 {{%s4, %s5}}, [%u0+16];
    ld.global.v2.u64 {{%l0, %l1}}, [%u0+32];
    ld.global.nc.v2.u64 {{%l2, %l3}}, [%u0+48];
    ld.global.v4.u16 {{%h0, %h1, %h2, %h3}}, [%u0+24];
    mov.u32 %t2, 0;
    st.local.v4.u32 [own], {{%t2, %t2, %t2, %t2}};
    st.local.v4.u32 [own+16], {{%t2, %t2, %t2, %t2}};
    st.local.v4.u32 [own+32], {{%t2, %t2, %t2, %t2}};
    st.local.v4.u32 [own+48], {{%t2, %t2, %t2, %t2}};
{body}EXIT:
    mul.wide.u32 %u0, %gid, {thread_bytes};
    add.u64 %u0, %u0, %output;
    st.global.v4.u32 [%u0], {{%s0, %s1, %s2, %s3}};
    st.global.v2.u32 [%u0+16], {{%s4, %s5}};
    st.global.v4.u16 [%u0+24], {{%h0, %h1, %h2, %h3}};
    st.global.v2.u64 [%u0+32], {{%l0, %l1}};
    st.global.u64 [%u0+48], %l2;
    st.global.u64 [%u0+56], %l3;
    ld.local.v4.u32 {{%t0, %t1, %t2, %t3}}, [own+16];
    st.global.v4.u32 [%u0+64], {{%t0, %t1, %t2, %t3}};
    ret;
}}
",
        table = table.join(", "),
        scratch = scratch + 1,
        slots = block * 16,
        sums_at = words * 4,
        thread_bytes = WORDS * 4,
    );
    Program {
        name: "mixed".into(),
        text,
        grid,
        block,
        input,
        words: words + SUMS,
        expected: None,
        bound: None,
    }
}

fn is_number(draw: Draw) -> bool {
    use Draw::*;
    matches!(
        draw,
        NumF16 | NumF16x2 | NumBf16 | NumBf16x2 | NumF32 | NumF64
    )
}

impl Writer<'_> {
    fn line(&mut self, text: impl AsRef<str>) {
        _ = writeln!(
            self.body,
            "{:width$}{}",
            "",
            text.as_ref(),
            width = 4 * self.indent
        );
    }

    fn lines(&mut self, text: impl AsRef<str>) {
        text.as_ref()
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .for_each(|line| self.line(line));
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!("L{}", self.labels)
    }

    fn h(&mut self) -> String {
        format!("%h{}", self.random.below(4))
    }

    fn s(&mut self) -> String {
        format!("%s{}", self.random.below(6))
    }

    fn l(&mut self) -> String {
        format!("%l{}", self.random.below(4))
    }

    /// A register of the state.
    fn state(&mut self, bits: u32) -> String {
        match bits {
            16 => self.h(),
            32 => self.s(),
            _ => self.l(),
        }
    }

    /// A predicate of the state, in a register of its own.
    fn predicate(&mut self) -> String {
        self.scratch += 1;
        let (register, a, b) = (format!("%q{}", self.scratch), self.s(), self.s());
        let number = self.random.below(64);
        let text = match self.random.below(8) {
            0 => format!("setp.lt.s32 {register}, {a}, {b};"),
            1 => format!("setp.hi.u32 {register}, {a}, {b};"),
            2 => format!("setp.gtu.f32 {register}, {a}, {b};"),
            3 => format!("and.b32 %t0, %me, {number};\nsetp.ne.u32 {register}, %t0, 0;"),
            4 => format!("setp.lt.u32 {register}, %me, {number};"),
            5 => {
                format!("setp.lt.s32 %p1, {a}, 0;\nsetp.ge.xor.u32 {register}|%p2, {a}, {b}, %p1;")
            }
            6 => format!(
                "setp.eq.s64 %p1, {}, {};\nsetp.lt.and.f32 %p2|{register}, {a}, {b}, !%p1;",
                self.l(),
                self.l()
            ),
            _ => format!(
                "and.b32 %t0, {a}, {};\nsetp.eq.u32 {register}, %t0, 0;",
                1 + self.random.below(3)
            ),
        };
        self.lines(text);
        register
    }

    /// A form of an instruction on the state.
    fn form(&mut self) -> String {
        let index = self.random.below(self.forms.len());
        let form = self.forms[index];
        let names = ["$a", "$b", "$c", "$e"];
        let mut text = form.text.clone();
        if !text.contains('$') {
            text = format!("{text} $d, {};", names[..form.operands.len()].join(", "));
        }
        let mut taken = Vec::new();
        for (draw, name) in form.operands.iter().zip(names) {
            // Sometimes a constant instead of a register.
            let simple = !form.text.contains('$')
                && !form.text.starts_with('v')
                && *draw == Draw::I32
                && self.random.chance(15);
            let operand = match simple {
                true if text.contains(".s32") => (draw.draw(&mut self.random) as i32).to_string(),
                true if text.contains(".u32") => (draw.draw(&mut self.random) as u32).to_string(),
                // Of the same number twice a compiler makes a simpler instruction, with another NaN.
                _ => loop {
                    let register = self.state(draw.bits());
                    if !taken.contains(&register) {
                        break register;
                    }
                },
            };
            taken.push(operand.clone());
            text = text.replace(name, &operand);
        }
        text.replace("$d", &self.state(form.result.bits()))
    }

    /// Three functions, by the state of their own.
    fn functions(&mut self) -> String {
        let mut texts = String::new();
        for (head, load, store) in [
            (
                ".func (.reg .b32 back) first(.reg .b32 a, .reg .b32 b)",
                "mov.b32 %s0, a; mov.b32 %s1, b; mov.b32 %s2, a;",
                "mov.b32 back, %s0;",
            ),
            (
                ".func (.param .b64 back) second(.param .align 8 .b8 pair[16])",
                "ld.param.b64 %l0, [pair]; ld.param.b32 %s0, [pair+8]; ld.param.b32 %s1, [pair+12]; mov.b32 %s2, %s0;",
                "mov.b64 %l1, {%s0, %s1}; xor.b64 %l0, %l0, %l1; st.param.b64 [back], %l0;",
            ),
        ] {
            self.lines(load.replace("; ", ";\n"));
            self.lines("mov.b32 %s3, %s0;\nmov.b32 %s4, %s1;\nmov.b32 %s5, 77;\nmov.b32 {%h0, %h1}, %s0;\nmov.b32 {%h2, %h3}, %s1;");
            if !load.contains("%l0") {
                self.lines("mov.b64 %l0, {%s0, %s1};");
            }
            self.lines("not.b64 %l1, %l0;\nmov.b64 %l2, 1234567;\nmov.b64 %l3, {%s1, %s0};");
            for _ in 0..1 + self.random.below(5) {
                let text = self.form();
                self.line(text);
            }
            self.lines(store.replace("; ", ";\n"));
            let body = std::mem::take(&mut self.body);
            _ = writeln!(
                texts,
                "{head}\n{{\n    .reg .pred %p<8>;\n    .reg .b16 %h<4>;\n    .reg .b32 %r<8>, %s<6>;\n    .reg .b64 %d<8>, %l<4>;\n{body}    ret;\n}}\n"
            );
        }
        // It calls itself.
        texts
            + ".func (.param .b32 back) third(.param .b32 number)
{
    .reg .pred %p;
    .reg .b32 %s<3>;
    ld.param.b32 %s0, [number];
    mov.b32 %s1, 1;
    setp.eq.u32 %p, %s0, 0;
    @%p bra DONE;
    sub.u32 %s2, %s0, 1;
    {
        .param .b32 less;
        .param .b32 result;
        st.param.b32 [less], %s2;
        call (result), third, (less);
        ld.param.b32 %s1, [result];
    }
    mad.lo.u32 %s1, %s1, %s0, 3;
DONE:
    st.param.b32 [back], %s1;
    ret;
}
"
    }
}

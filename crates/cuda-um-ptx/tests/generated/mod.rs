//! Programs in PTX, made from a seed, and the answers of a GPU to them (`answers.txt`: seed and hash, recorded by
//! `examples/ptx_answers.rs`).
//!
//! A program has one entry `main(input, output)`; it reads `input`, and writes `words` words of `output` for each thread, and sums of
//! all threads behind them.

mod forms;
mod matrix;
mod mixed;
pub mod values;

use cuda_um_ptx::math::{Mode, function};
use forms::{Bound, Form};
use std::fmt::Write;
use values::Random;

/// Seeds below this are programs of many statements; from here on each is one form of an instruction, those of `mma` last.
pub const FORMS: u64 = 1200;

pub struct Program {
    pub name: String,
    pub text: String,
    pub grid: u32,
    pub block: u32,
    pub input: Vec<u32>,
    /// Words of output.
    pub words: usize,
    /// What is right, for an approximation; each thread has as many words.
    pub expected: Option<Vec<u32>>,
    /// How near an approximation must be.
    pub bound: Option<Bound>,
}

/// Makes programs.
pub struct Generator {
    forms: Vec<Form>,
}

impl Generator {
    pub fn new() -> Self {
        Self {
            forms: forms::forms(),
        }
    }

    pub fn seeds(&self) -> std::ops::Range<u64> {
        0..FORMS + (self.forms.len() + matrix::COUNT) as u64
    }

    pub fn program(&self, seed: u64) -> Program {
        match seed.checked_sub(FORMS) {
            Some(form) if form < self.forms.len() as u64 => {
                single(seed, &self.forms[form as usize])
            }
            Some(form) => matrix::program(seed, form as usize - self.forms.len()),
            None => mixed::program(seed, &self.forms),
        }
    }
}

/// What is recorded of an output: FNV-1a over its words. Of approximations only whether each is within its bound.
pub fn hash(program: &Program, output: &[u32]) -> u64 {
    if let (Some(bound), Some(expected)) = (program.bound, &program.expected) {
        return differences(bound, expected, output).len() as u64;
    }
    output.iter().fold(0xcbf2_9ce4_8422_2325, |hash, word| {
        (hash ^ u64::from(*word)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Programs without an answer: `fns` is not defined for a base beyond 31, and in two programs the driver's compiler (580) stores the
/// operand of an instruction with `.ftz` as that flushes it.
pub fn is_open(seed: u64, program: &Program) -> bool {
    seed < FORMS && program.text.contains("fns.") || [151, 535].contains(&seed)
}

/// Evaluations of a form in each thread.
pub const EACH: usize = 4;

fn single(seed: u64, form: &Form) -> Program {
    let (grid, block) = (4, 128);
    let mut random = Random::new(seed);
    let count = (grid * block) as usize * EACH;
    let result_words = form.result.bits().max(32) as usize / 32;
    let mut input = Vec::new();
    let mut expected = Vec::new();
    // Approximations are compared with the exact value, rounded once.
    let exact = form.bound.map(|bound| {
        let (name, modifiers) = form.text.split_once('.').expect("a type");
        let mode = Mode::of(&modifiers.split('.').collect::<Vec<_>>());
        function(name, form.operands.len(), bound.of, mode)
            .expect("a function")
            .1
    });
    for _ in 0..count {
        let mut operands = [0; 4];
        for (operand, draw) in operands.iter_mut().zip(&form.operands) {
            *operand = draw.draw(&mut random);
            input.extend([*operand as u32, (*operand >> 32) as u32]);
        }
        if let Some(exact) = &exact {
            let value = exact(operands);
            expected.extend(
                [value as u32, (value >> 32) as u32]
                    .iter()
                    .take(result_words),
            );
        }
    }
    let register = |bits: u32, index: usize| match bits {
        16 => format!("%h{index}"),
        32 => format!("%s{index}"),
        _ => format!("%l{index}"),
    };
    let names = ["$a", "$b", "$c", "$e"];
    let result = register(form.result.bits(), 4);
    let mut statement = form.text.clone();
    if !statement.contains('$') {
        statement = format!(
            "{statement} $d, {};",
            names[..form.operands.len()].join(", ")
        );
    }
    statement = statement.replace("$d", &result);
    let mut body = String::new();
    for (index, (draw, name)) in form.operands.iter().zip(names).enumerate() {
        statement = statement.replace(name, &register(draw.bits(), index));
    }
    for each in 0..EACH {
        for (index, draw) in form.operands.iter().enumerate() {
            let (bits, offset) = (draw.bits(), 8 * (each * form.operands.len() + index));
            _ = writeln!(
                body,
                "    ld.global.b{bits} {}, [%d8+{offset}];",
                register(bits, index)
            );
        }
        _ = writeln!(body, "    {statement}");
        let offset = 4 * each * result_words;
        _ = match form.result.bits() {
            16 => writeln!(
                body,
                "    cvt.u32.u16 %s4, %h4;\n    st.global.b32 [%d9+{offset}], %s4;"
            ),
            bits => writeln!(body, "    st.global.b{bits} [%d9+{offset}], {result};"),
        };
    }
    let version = if form.target > 86 { "8.3" } else { "7.8" };
    let text = format!(
        ".version {version}
.target sm_{target}
.address_size 64

.visible .entry main(.param .u64 input, .param .u64 output)
{{
    .reg .pred %p<2>;
    .reg .b16 %h<5>;
    .reg .b32 %r<16>, %s<5>;
    .reg .b64 %d<16>, %l<5>;
    ld.param.u64 %d8, [input];
    ld.param.u64 %d9, [output];
    cvta.to.global.u64 %d8, %d8;
    cvta.to.global.u64 %d9, %d9;
    mov.u32 %r8, %ctaid.x;
    mov.u32 %r9, %ntid.x;
    mov.u32 %r10, %tid.x;
    mad.lo.u32 %r8, %r8, %r9, %r10;
    mul.wide.u32 %d10, %r8, {read};
    add.u64 %d8, %d8, %d10;
    mul.wide.u32 %d10, %r8, {written};
    add.u64 %d9, %d9, %d10;
{body}    ret;
}}
",
        target = form.target,
        read = 8 * EACH * form.operands.len(),
        written = 4 * EACH * result_words,
    );
    Program {
        name: form.text.clone(),
        text,
        grid,
        block,
        input,
        words: count * result_words,
        expected: form.bound.map(|_| expected),
        bound: form.bound,
    }
}

/// The indices of the results that differ by more than the bound.
pub fn differences(bound: Bound, expected: &[u32], output: &[u32]) -> Vec<usize> {
    use cuda_um_ptx::math::Type;
    use cuda_um_ptx::math::float::{Bf16, F16, Float};
    let wide = bound.of == Type::F64;
    let step = if wide { 2 } else { 1 };
    let value = |words: &[u32]| match bound.of {
        Type::F16 => (i64::from(words[0] & 0x7fff), F16(words[0] as u16).to_f64()),
        Type::Bf16 => (i64::from(words[0] & 0x7fff), Bf16(words[0] as u16).to_f64()),
        Type::F32 => (
            i64::from(words[0] & 0x7fff_ffff),
            f32::from_bits(words[0]).into(),
        ),
        _ => {
            let bits = u64::from(words[1]) << 32 | u64::from(words[0]);
            ((bits & (u64::MAX >> 1)) as i64, f64::from_bits(bits))
        }
    };
    let near = |(expected, output): (&[u32], &[u32])| {
        let ((a, x), (b, y)) = (value(expected), value(output));
        let units = x.is_sign_negative() == y.is_sign_negative() && a.abs_diff(b) <= bound.units;
        x.is_nan() && y.is_nan()
            || !x.is_nan() && !y.is_nan() && (units || (x - y).abs() <= bound.absolute)
    };
    let pairs = expected.chunks(step).zip(output.chunks(step));
    pairs
        .enumerate()
        .filter(|(_, pair)| !near(*pair))
        .map(|(index, _)| index)
        .collect()
}

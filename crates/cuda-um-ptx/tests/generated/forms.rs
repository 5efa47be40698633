//! Forms of instructions: their text and what they read.

mod integers;

use super::values::Draw::{self, *};
use cuda_um_ptx::math::Type;

/// How near an approximation must be: in units of the last place, or absolutely.
#[derive(Clone, Copy)]
pub struct Bound {
    pub units: u64,
    pub absolute: f64,
    pub of: Type,
}

pub struct Form {
    /// An opcode, or statements with `$d`, `$a`, `$b`, `$c`, `$e`; `%p0`, `%r0` to `%r5` and `%d0` to `%d2` are free.
    pub text: String,
    pub result: Draw,
    pub operands: Vec<Draw>,
    /// The compute capability that it needs, times ten.
    pub target: u32,
    pub bound: Option<Bound>,
}

#[derive(Default)]
struct Forms(Vec<Form>);

impl Forms {
    fn since(&mut self, target: u32, text: impl Into<String>, result: Draw, operands: &[Draw]) {
        let (text, operands) = (text.into(), operands.to_vec());
        self.0.push(Form {
            text,
            result,
            operands,
            target,
            bound: None,
        });
    }

    fn add(&mut self, text: impl Into<String>, result: Draw, operands: &[Draw]) {
        self.since(80, text, result, operands);
    }

    /// Compared within the manual's bound, and half a unit.
    fn near(&mut self, of: Type, text: &str, operands: &[Draw], units: u64, absolute: f64) {
        let (result, target) = match of {
            Type::F16 => (F16H, 80),
            Type::Bf16 => (BF16H, 90),
            Type::F32 => (F32, 80),
            _ => (F64, 80),
        };
        self.since(target, text, result, operands);
        self.0.last_mut().expect("it was pushed").bound = Some(Bound {
            units,
            absolute,
            of,
        });
    }
}

const ROUNDS: [&str; 4] = [".rn", ".rz", ".rm", ".rp"];
const ALWAYS: &[&str] = &[""];
const FTZ: &[&str] = &["", ".ftz"];
const SAT: &[&str] = &["", ".sat"];
const RELU: &[&str] = &["", ".relu"];
const COMPARISONS: [&str; 14] = [
    "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
];
const TEST: &str = "selp.b32 $d, 1, 0, %p0;";

/// All forms; new ones go to the end of the list of their function, and answers are recorded again.
pub fn forms() -> Vec<Form> {
    let mut forms = Forms::default();
    floats(&mut forms, "f32", F32);
    floats(&mut forms, "f64", F64);
    roots(&mut forms, "f32", F32, FTZ);
    roots(&mut forms, "f64", F64, ALWAYS);
    small(&mut forms, "f16", F16H, 80);
    small(&mut forms, "f16x2", F16X2, 80);
    small(&mut forms, "bf16", BF16H, 90);
    small(&mut forms, "bf16x2", BF16X2, 90);
    conversions(&mut forms);
    integers::integers(&mut forms);
    integers::bits(&mut forms);
    integers::videos(&mut forms);
    approximations(&mut forms);
    forms.0
}

/// `add`, `sub`, `mul`, `fma` in all modes, and the comparisons.
fn floats(forms: &mut Forms, name: &str, draw: Draw) {
    let (ftzs, sats) = if name == "f32" {
        (FTZ, SAT)
    } else {
        (ALWAYS, ALWAYS)
    };
    for rounding in ROUNDS {
        for flush in ftzs {
            for saturate in sats {
                for op in ["add", "sub", "mul"] {
                    forms.add(
                        format!("{op}{rounding}{flush}{saturate}.{name}"),
                        draw,
                        &[draw; 2],
                    );
                }
                forms.add(
                    format!("fma{rounding}{flush}{saturate}.{name}"),
                    draw,
                    &[draw; 3],
                );
            }
        }
    }
    for flush in ftzs {
        extremes(forms, name, draw, flush, name == "f32");
        forms.add(format!("abs{flush}.{name}"), draw, &[draw.number()]);
        forms.add(format!("neg{flush}.{name}"), draw, &[draw.number()]);
    }
    comparisons(forms, name, draw, ftzs, 80);
    forms.add(format!("copysign.{name}"), draw, &[draw; 2]);
    for class in [
        "finite",
        "infinite",
        "number",
        "notanumber",
        "normal",
        "subnormal",
    ] {
        forms.add(
            format!("testp.{class}.{name} %p0, $a; {TEST}"),
            I32,
            &[draw],
        );
    }
}

fn comparisons(forms: &mut Forms, name: &str, draw: Draw, ftzs: &[&str], target: u32) {
    for comparison in COMPARISONS {
        for flush in ftzs {
            let text = format!("setp.{comparison}{flush}.{name} %p0, $a, $b; {TEST}");
            forms.since(target, text, I32, &[draw; 2]);
            if name == "f32" {
                forms.add(format!("set.{comparison}{flush}.f32.f32"), F32, &[draw; 2]);
                forms.add(format!("set.{comparison}{flush}.u32.f32"), I32, &[draw; 2]);
            }
        }
    }
}

/// `min` and `max`.
fn extremes(forms: &mut Forms, name: &str, draw: Draw, flush: &str, modifiers: bool) {
    for tail in if modifiers {
        &["", ".xorsign.abs", ".NaN", ".NaN.xorsign.abs"][..]
    } else {
        ALWAYS
    } {
        let target = if tail.ends_with("abs") { 86 } else { 80 };
        for op in ["min", "max"] {
            forms.since(
                target,
                format!("{op}{flush}{tail}.{name}"),
                draw,
                &[draw; 2],
            );
        }
    }
}

/// `div`, `rcp`, `sqrt` in all roundings.
fn roots(forms: &mut Forms, name: &str, draw: Draw, ftzs: &[&str]) {
    for rounding in ROUNDS {
        for flush in ftzs {
            forms.add(format!("div{rounding}{flush}.{name}"), draw, &[draw; 2]);
            forms.add(format!("rcp{rounding}{flush}.{name}"), draw, &[draw]);
            forms.add(format!("sqrt{rounding}{flush}.{name}"), draw, &[draw]);
        }
    }
}

/// The arithmetic of 16 bits. `bf16` has `fma` since sm_80, and the rest since sm_90.
fn small(forms: &mut Forms, name: &str, draw: Draw, target: u32) {
    let (ftzs, sats) = if name.starts_with('f') {
        (FTZ, SAT)
    } else {
        (ALWAYS, ALWAYS)
    };
    for flush in ftzs {
        for saturate in sats {
            for op in ["add", "sub", "mul"] {
                forms.since(
                    target,
                    format!("{op}.rn{flush}{saturate}.{name}"),
                    draw,
                    &[draw; 2],
                );
            }
        }
        for tail in ["", ".sat", ".relu"] {
            if tail != ".sat" || sats.len() > 1 {
                forms.add(format!("fma.rn{flush}{tail}.{name}"), draw, &[draw; 3]);
            }
        }
        extremes(forms, name, draw, flush, true);
        forms.add(format!("abs{flush}.{name}"), draw, &[draw.number()]);
        forms.add(format!("neg{flush}.{name}"), draw, &[draw.number()]);
    }
    for relu in RELU {
        forms.since(90, format!("fma.rn.oob{relu}.{name}"), draw, &[draw; 3]);
    }
    if !name.ends_with("x2") {
        comparisons(forms, name, draw, ftzs, target);
    }
}

const INTEGERS: [(&str, Draw); 8] = [
    ("u8", I16),
    ("s8", I16),
    ("u16", I16),
    ("s16", I16),
    ("u32", I32),
    ("s32", I32),
    ("u64", I64),
    ("s64", I64),
];
/// By their size.
const FLOATS: [(&str, Draw); 4] = [("f16", F16H), ("bf16", BF16H), ("f32", F32), ("f64", F64)];

fn conversions(forms: &mut Forms) {
    let mut one = |text: String, (to, draw): (&str, Draw), (from, source): (&str, Draw)| {
        // bf16 with other types than f32 came with sm_90.
        let late = to == "bf16" && from != "f32" || from == "bf16" && to != "f32";
        forms.since(
            if late { 90 } else { 80 },
            format!("cvt{text}.{to}.{from}"),
            draw,
            &[source],
        );
    };
    for to in INTEGERS {
        for from in INTEGERS {
            one(String::new(), to, from);
            if narrower(to.0, from.0) {
                one(".sat".into(), to, from);
            }
        }
        for from in FLOATS {
            // ptxas has no conversions between these.
            if from.0 == "bf16" && matches!(to.0, "u8" | "s8") {
                continue;
            }
            for rounding in ROUNDS {
                one(rounding.into(), from, to);
                for flush in if from.0 == "f32" { FTZ } else { ALWAYS } {
                    one(format!("{rounding}i{flush}"), to, from);
                }
            }
        }
    }
    for (to_size, to) in FLOATS.into_iter().enumerate() {
        for (from_size, from) in FLOATS.into_iter().enumerate() {
            let bf16 = to.0 == "bf16" || from.0 == "bf16";
            let ftzs = if to.0 == "f32" || from.0 == "f32" {
                FTZ
            } else {
                ALWAYS
            };
            for tail in ftzs
                .iter()
                .flat_map(|ftz| SAT.iter().map(move |sat| format!("{ftz}{sat}")))
            {
                if bf16 && !tail.is_empty() {
                    continue;
                }
                // Between the halves both ways round.
                if to_size > from_size && to_size > 1 {
                    one(tail, to, from);
                    continue;
                }
                let integer = if to_size == from_size { "i" } else { "" };
                for rounding in ROUNDS {
                    one(format!("{rounding}{integer}{tail}"), to, from);
                }
            }
        }
    }
    for relu in RELU {
        for rounding in &ROUNDS[..2] {
            for finite in ["", ".satfinite"] {
                let (head, target) = (
                    format!("cvt{rounding}{relu}{finite}"),
                    if finite.is_empty() { 80 } else { 90 },
                );
                for (name, single, packed) in [("f16", F16H, F16X2), ("bf16", BF16H, BF16X2)] {
                    forms.since(target, format!("{head}.{name}.f32"), single, &[F32]);
                    forms.since(target, format!("{head}.{name}x2.f32"), packed, &[F32; 2]);
                }
                if finite.is_empty() {
                    forms.since(90, format!("{head}.tf32.f32"), F32, &[F32]);
                }
            }
        }
        for name in ["e4m3x2", "e5m2x2"] {
            forms.since(
                89,
                format!("cvt.rn.satfinite{relu}.{name}.f32"),
                I16,
                &[SMALL32; 2],
            );
            forms.since(
                89,
                format!("cvt.rn.satfinite{relu}.{name}.f16x2"),
                I16,
                &[F16X2],
            );
            forms.since(89, format!("cvt.rn{relu}.f16x2.{name}"), F16X2, &[I16]);
        }
    }
    forms.add("cvt.rna.tf32.f32", F32, &[F32]);
    for name in ["u16", "s16"] {
        forms.add(format!("cvt.pack.sat.{name}.s32"), I32, &[I32; 2]);
    }
    for name in ["u8", "s8", "u4", "s4"] {
        forms.add(format!("cvt.pack.sat.{name}.s32.b32"), I32, &[I32; 3]);
    }
}

/// Whether a conversion of integers can saturate.
fn narrower(to: &str, from: &str) -> bool {
    let digits = |name: &str| name[1..].parse::<u32>().expect("a size");
    let signed = [to, from].map(|name| name.starts_with('s'));
    match signed {
        [false, true] => true,
        [true, false] => digits(to) <= digits(from),
        _ => digits(to) < digits(from),
    }
}

fn approximations(forms: &mut Forms) {
    for flush in FTZ {
        for (name, operands, units, absolute) in [
            ("div.approx", &[Middle; 2][..], 3, 0.0),
            ("div.full", &[Middle; 2], 3, 0.0),
            ("rcp.approx", &[F32], 2, 0.0),
            ("sqrt.approx", &[F32], 3, 0.0),
            ("rsqrt.approx", &[F32], 3, 0.0),
            ("ex2.approx", &[Exponent], 4, 0.0),
            ("lg2.approx", &[F32], 4, 0.5_f64.powi(22)),
            ("sin.approx", &[Angle], 1, 0.5_f64.powf(20.5)),
            ("cos.approx", &[Angle], 1, 0.5_f64.powf(20.5)),
        ] {
            forms.near(
                Type::F32,
                &format!("{name}{flush}.f32"),
                operands,
                units,
                absolute,
            );
        }
    }
    forms.near(Type::F32, "tanh.approx.f32", &[F32], 1 << 13, 0.0);
    forms.near(Type::F16, "tanh.approx.f16", &[F16H], 2, 0.5_f64.powf(10.9));
    forms.near(Type::Bf16, "tanh.approx.bf16", &[BF16H], 2, 0.0);
    forms.near(Type::F16, "ex2.approx.f16", &[F16H], 3, 0.0);
    forms.near(Type::Bf16, "ex2.approx.ftz.bf16", &[BF16H], 2, 0.0);
    forms.near(Type::F64, "rcp.approx.ftz.f64", &[F64], 1 << 33, 0.0);
    forms.near(Type::F64, "rsqrt.approx.ftz.f64", &[F64], 1 << 33, 0.0);
    forms.near(Type::F64, "rsqrt.approx.f64", &[F64], 1 << 20, 0.0);
}

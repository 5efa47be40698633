//! Forms of instructions: their text, what they read, and what `math` says that they compute.

use super::values::Draw::{self, *};
use cuda_um_ptx::math::convert::{self, Rules};
use cuda_um_ptx::math::float::{self, Bf16, Class, Compare, Extreme, F16, Float};
use cuda_um_ptx::math::int::{self, Int, Permute};
use cuda_um_ptx::math::video::{self, Part, Scalar, Secondary, Simd, Video, Vmad};
use cuda_um_ptx::math::{Mode, Round, Type, approx, halves};

/// How near an approximation must be: in units of the last place, or absolutely.
#[derive(Clone, Copy)]
pub struct Bound {
    pub units: u64,
    pub absolute: f64,
    pub of: Type,
}

/// What a form gives for its operands.
pub type Evaluate<T> = Box<dyn Fn(&[u64]) -> T>;

pub struct Form {
    /// An opcode, or statements with `$d`, `$a`, `$b`, `$c`, `$e`; `%p0`, `%r0` to `%r5` and `%d0` to `%d2` are free.
    pub text: String,
    pub result: Draw,
    pub operands: Vec<Draw>,
    /// The compute capability that it needs, times ten.
    pub target: u32,
    pub bound: Option<Bound>,
    pub evaluate: Evaluate<u64>,
}

type Operation = fn(i32, i32) -> i32;

#[derive(Default)]
struct Forms(Vec<Form>);

impl Forms {
    fn add(
        &mut self,
        text: impl Into<String>,
        result: Draw,
        operands: &[Draw],
        evaluate: impl Fn(&[u64]) -> u64 + 'static,
    ) -> &mut Form {
        let (text, operands) = (text.into(), operands.to_vec());
        self.0.push(Form {
            text,
            result,
            operands,
            target: 80,
            bound: None,
            evaluate: Box::new(evaluate),
        });
        self.0.last_mut().expect("it was pushed")
    }
}

const ROUNDS: [(&str, Round); 4] = [
    (".rn", Round::Near),
    (".rz", Round::Zero),
    (".rm", Round::Down),
    (".rp", Round::Up),
];
const ALWAYS: &[(&str, bool)] = &[("", false)];
const FTZ: &[(&str, bool)] = &[("", false), (".ftz", true)];
const SAT: &[(&str, bool)] = &[("", false), (".sat", true)];
const RELU: &[(&str, bool)] = &[("", false), (".relu", true)];
const COMPARISONS: [(&str, Compare); 14] = [
    ("eq", Compare::Eq),
    ("ne", Compare::Ne),
    ("lt", Compare::Lt),
    ("le", Compare::Le),
    ("gt", Compare::Gt),
    ("ge", Compare::Ge),
    ("equ", Compare::Equ),
    ("neu", Compare::Neu),
    ("ltu", Compare::Ltu),
    ("leu", Compare::Leu),
    ("gtu", Compare::Gtu),
    ("geu", Compare::Geu),
    ("num", Compare::Num),
    ("nan", Compare::Nan),
];

/// All forms; new ones go to the end of the list of their function, and answers are recorded again.
pub fn forms() -> Vec<Form> {
    let mut forms = Forms::default();
    floats::<f32>(&mut forms, "f32", F32, 80);
    floats::<f64>(&mut forms, "f64", F64, 80);
    roots::<f32>(&mut forms, "f32", F32, FTZ);
    roots::<f64>(&mut forms, "f64", F64, ALWAYS);
    small::<F16>(&mut forms, "f16", F16H, false, 80);
    small::<F16>(&mut forms, "f16x2", F16X2, true, 80);
    small::<Bf16>(&mut forms, "bf16", BF16H, false, 90);
    small::<Bf16>(&mut forms, "bf16x2", BF16X2, true, 90);
    conversions(&mut forms);
    integers(&mut forms);
    bits(&mut forms);
    videos(&mut forms);
    approximations(&mut forms);
    forms.0
}

fn get<F: Float>(bits: u64) -> F {
    F::from_bits(bits)
}

/// `add`, `sub`, `mul`, `fma` in all modes, and the comparisons.
fn floats<F: Float + PartialOrd + 'static>(forms: &mut Forms, name: &str, draw: Draw, target: u32) {
    let (ftzs, sats) = if name == "f32" {
        (FTZ, SAT)
    } else {
        (ALWAYS, ALWAYS)
    };
    for (rounding, round) in ROUNDS {
        for (flush, ftz) in ftzs {
            for (saturate, sat) in sats {
                let (mode, tail) = (
                    Mode {
                        round,
                        ftz: *ftz,
                        sat: *sat,
                        relu: false,
                    },
                    format!("{rounding}{flush}{saturate}.{name}"),
                );
                let operation =
                    |f: fn(F, F, Mode) -> F| move |s: &[u64]| f(get(s[0]), get(s[1]), mode).bits();
                forms.add(
                    format!("add{tail}"),
                    draw,
                    &[draw; 2],
                    operation(float::add),
                );
                forms.add(
                    format!("sub{tail}"),
                    draw,
                    &[draw; 2],
                    operation(float::sub),
                );
                forms.add(
                    format!("mul{tail}"),
                    draw,
                    &[draw; 2],
                    operation(float::mul),
                );
                forms.add(format!("fma{tail}"), draw, &[draw; 3], move |s| {
                    float::fma::<F>(get(s[0]), get(s[1]), get(s[2]), mode).bits()
                });
            }
        }
    }
    for (flush, ftz) in ftzs {
        extremes::<F>(
            forms,
            name,
            draw,
            false,
            flush,
            *ftz,
            if name == "f32" { 80 } else { 0 },
        );
        forms
            .add(format!("abs{flush}.{name}"), draw, &[draw], |s| {
                float::abs::<F>(get(s[0])).bits()
            })
            .operands = vec![draw.number()];
        forms
            .add(format!("neg{flush}.{name}"), draw, &[draw], |s| {
                float::neg::<F>(get(s[0])).bits()
            })
            .operands = vec![draw.number()];
        if *ftz {
            for form in forms.0.iter_mut().rev().take(2) {
                let inner = std::mem::replace(&mut form.evaluate, Box::new(|_| 0));
                form.evaluate = Box::new(move |s| inner(&[get::<F>(s[0]).flush(true).bits()]));
            }
        }
    }
    comparisons::<F>(forms, name, draw, ftzs, target);
    forms.add(format!("copysign.{name}"), draw, &[draw; 2], |s| {
        float::copysign::<F>(get(s[0]), get(s[1])).bits()
    });
    for (class, which) in [
        ("finite", Class::Finite),
        ("infinite", Class::Infinite),
        ("number", Class::Number),
        ("notanumber", Class::NotANumber),
        ("normal", Class::Normal),
        ("subnormal", Class::Subnormal),
    ] {
        let text = format!("testp.{class}.{name} %p0, $a; selp.b32 $d, 1, 0, %p0;");
        forms.add(text, I32, &[draw], move |s| {
            float::testp::<F>(get(s[0]), which).into()
        });
    }
}

fn comparisons<F: Float + PartialOrd + 'static>(
    forms: &mut Forms,
    name: &str,
    draw: Draw,
    ftzs: &[(&str, bool)],
    target: u32,
) {
    for (comparison, op) in COMPARISONS {
        for (flush, ftz) in ftzs {
            let ftz = *ftz;
            let holds = move |s: &[u64]| float::compare_float::<F>(op, get(s[0]), get(s[1]), ftz);
            let text =
                format!("setp.{comparison}{flush}.{name} %p0, $a, $b; selp.b32 $d, 1, 0, %p0;");
            forms
                .add(text, I32, &[draw; 2], move |s| holds(s).into())
                .target = target;
            if name == "f32" {
                let one = |holds: bool| if holds { 1.0_f32.to_bits().into() } else { 0 };
                forms.add(
                    format!("set.{comparison}{flush}.f32.f32"),
                    F32,
                    &[draw; 2],
                    move |s| one(holds(s)),
                );
                forms.add(
                    format!("set.{comparison}{flush}.u32.f32"),
                    I32,
                    &[draw; 2],
                    move |s| if holds(s) { 0xffff_ffff } else { 0 },
                );
            }
        }
    }
}

/// `min` and `max`; `target` is 0 for a type without modifiers.
fn extremes<F: Float + PartialOrd + 'static>(
    forms: &mut Forms,
    name: &str,
    draw: Draw,
    packed: bool,
    flush: &str,
    ftz: bool,
    target: u32,
) {
    for (nan_name, nan) in [("", false), (".NaN", true)] {
        for (abs_name, xorsign_abs) in [("", false), (".xorsign.abs", true)] {
            if target == 0 && (nan || xorsign_abs) {
                continue;
            }
            let mode = Extreme {
                ftz,
                nan,
                xorsign_abs,
            };
            let operation = |f: fn(F, F, Extreme) -> F| {
                move |s: &[u64]| each(packed, s, |[a, b]: [F; 2]| f(a, b, mode))
            };
            let tail = format!("{flush}{nan_name}{abs_name}.{name}");
            let target = if xorsign_abs { 86 } else { 80 };
            forms
                .add(
                    format!("min{tail}"),
                    draw,
                    &[draw; 2],
                    operation(float::min),
                )
                .target = target;
            forms
                .add(
                    format!("max{tail}"),
                    draw,
                    &[draw; 2],
                    operation(float::max),
                )
                .target = target;
        }
    }
}

/// Applies `f` to operands, or to both halves of packed ones.
fn each<F: Float, const N: usize>(packed: bool, operands: &[u64], f: impl Fn([F; N]) -> F) -> u64 {
    let operands: [u64; N] = operands.try_into().expect("the form has as many operands");
    match packed {
        false => f(operands.map(F::from_bits)).bits(),
        true => halves(operands.map(|o| o as u32), |o| {
            f(o.map(|o| F::from_bits(o.into()))).bits() as u16
        })
        .into(),
    }
}

/// `div`, `rcp`, `sqrt` in all roundings.
fn roots<F: Float + std::ops::Div<Output = F> + 'static>(
    forms: &mut Forms,
    name: &str,
    draw: Draw,
    ftzs: &[(&str, bool)],
) {
    for (rounding, round) in ROUNDS {
        for (flush, ftz) in ftzs {
            let (mode, tail) = (
                Mode {
                    round,
                    ftz: *ftz,
                    ..Mode::default()
                },
                format!("{rounding}{flush}.{name}"),
            );
            forms.add(format!("div{tail}"), draw, &[draw; 2], move |s| {
                float::div::<F>(get(s[0]), get(s[1]), mode).bits()
            });
            forms.add(format!("rcp{tail}"), draw, &[draw], move |s| {
                float::rcp::<F>(get(s[0]), mode).bits()
            });
            forms.add(format!("sqrt{tail}"), draw, &[draw], move |s| {
                float::sqrt::<F>(get(s[0]), mode).bits()
            });
        }
    }
}

/// The arithmetic of 16 bits. `bf16` has `fma` since sm_80, and the rest since sm_90.
fn small<F: Float + PartialOrd + 'static>(
    forms: &mut Forms,
    name: &str,
    draw: Draw,
    packed: bool,
    target: u32,
) {
    let (ftzs, sats) = if name.starts_with('f') {
        (FTZ, SAT)
    } else {
        (ALWAYS, ALWAYS)
    };
    for (flush, ftz) in ftzs {
        for (saturate, sat) in sats {
            let mode = Mode {
                ftz: *ftz,
                sat: *sat,
                ..Mode::default()
            };
            let operation = |f: fn(F, F, Mode) -> F| {
                move |s: &[u64]| each(packed, s, |[a, b]: [F; 2]| f(a, b, mode))
            };
            let tail = format!(".rn{flush}{saturate}.{name}");
            forms
                .add(
                    format!("add{tail}"),
                    draw,
                    &[draw; 2],
                    operation(float::add),
                )
                .target = target;
            forms
                .add(
                    format!("sub{tail}"),
                    draw,
                    &[draw; 2],
                    operation(float::sub),
                )
                .target = target;
            forms
                .add(
                    format!("mul{tail}"),
                    draw,
                    &[draw; 2],
                    operation(float::mul),
                )
                .target = target;
        }
        for (tail, sat, relu) in [
            ("", false, false),
            (".sat", true, false),
            (".relu", false, true),
        ] {
            if sat && sats.len() == 1 {
                continue;
            }
            let mode = Mode {
                ftz: *ftz,
                sat,
                relu,
                ..Mode::default()
            };
            let operation =
                move |s: &[u64]| each(packed, s, |[a, b, c]: [F; 3]| float::fma(a, b, c, mode));
            forms.add(
                format!("fma.rn{flush}{tail}.{name}"),
                draw,
                &[draw; 3],
                operation,
            );
        }
        extremes::<F>(forms, name, draw, packed, flush, *ftz, 80);
        let (number, ftz) = (draw.number(), *ftz);
        let operation =
            |f: fn(F) -> F| move |s: &[u64]| each(packed, s, |[a]: [F; 1]| f(a.flush(ftz)));
        forms.add(
            format!("abs{flush}.{name}"),
            draw,
            &[number],
            operation(float::abs),
        );
        forms.add(
            format!("neg{flush}.{name}"),
            draw,
            &[number],
            operation(float::neg),
        );
    }
    for (relu_name, relu) in RELU {
        let mode = Mode {
            relu: *relu,
            ..Mode::default()
        };
        let operation =
            move |s: &[u64]| each(packed, s, |[a, b, c]: [F; 3]| float::fma_oob(a, b, c, mode));
        forms
            .add(
                format!("fma.rn.oob{relu_name}.{name}"),
                draw,
                &[draw; 3],
                operation,
            )
            .target = 90;
    }
    if !packed {
        comparisons::<F>(forms, name, draw, ftzs, target);
    }
}

const INTEGERS: [(&str, Type, Draw); 8] = [
    ("u8", Type::U8, I16),
    ("s8", Type::S8, I16),
    ("u16", Type::U16, I16),
    ("s16", Type::S16, I16),
    ("u32", Type::U32, I32),
    ("s32", Type::S32, I32),
    ("u64", Type::U64, I64),
    ("s64", Type::S64, I64),
];
const FLOATS: [(&str, Type, Draw); 4] = [
    ("f16", Type::F16, F16H),
    ("bf16", Type::Bf16, BF16H),
    ("f32", Type::F32, F32),
    ("f64", Type::F64, F64),
];

fn conversions(forms: &mut Forms) {
    let plain = Rules::default();
    let mut one =
        |text: String, (to, draw): (Type, Draw), (from, source): (Type, Draw), rules: Rules| {
            // bf16 with other types than f32 came with sm_90.
            let late =
                (to == Type::Bf16 && from != Type::F32) || (from == Type::Bf16 && to != Type::F32);
            forms
                .add(text, draw, &[source], move |s| {
                    convert::cvt(s[0], from, to, rules)
                })
                .target = if late { 90 } else { 80 };
        };
    for (to_name, to, to_draw) in INTEGERS {
        for (from_name, from, from_draw) in INTEGERS {
            one(
                format!("cvt.{to_name}.{from_name}"),
                (to, to_draw),
                (from, from_draw),
                plain,
            );
            if narrower(to, from) {
                one(
                    format!("cvt.sat.{to_name}.{from_name}"),
                    (to, to_draw),
                    (from, from_draw),
                    Rules { sat: true, ..plain },
                );
            }
        }
        for (from_name, from, from_draw) in FLOATS {
            // ptxas has no conversions between these.
            if from == Type::Bf16 && matches!(to, Type::U8 | Type::S8) {
                continue;
            }
            for (rounding, round) in ROUNDS {
                one(
                    format!("cvt{rounding}.{from_name}.{to_name}"),
                    (from, from_draw),
                    (to, to_draw),
                    Rules { round, ..plain },
                );
                for (flush, ftz) in if from == Type::F32 { FTZ } else { ALWAYS } {
                    let rules = Rules {
                        round,
                        ftz: *ftz,
                        ..plain
                    };
                    one(
                        format!("cvt{rounding}i{flush}.{to_name}.{from_name}"),
                        (to, to_draw),
                        (from, from_draw),
                        rules,
                    );
                }
            }
        }
    }
    for (to_name, to, to_draw) in FLOATS {
        for (from_name, from, from_draw) in FLOATS {
            let ftzs = if to == Type::F32 || from == Type::F32 {
                FTZ
            } else {
                ALWAYS
            };
            for ((flush, ftz), (saturate, sat)) in ftzs
                .iter()
                .flat_map(|ftz| SAT.iter().map(move |sat| (ftz, sat)))
            {
                let rules = Rules {
                    ftz: *ftz,
                    sat: *sat,
                    ..plain
                };
                let bits = |of: Type| {
                    [Type::Bf16, Type::F16, Type::F32, Type::F64]
                        .iter()
                        .position(|each| *each == of)
                };
                let half = |of: Type| matches!(of, Type::F16 | Type::Bf16);
                if (to == Type::Bf16 || from == Type::Bf16) && (*sat || *ftz) {
                    continue;
                }
                let tail = format!("{flush}{saturate}.{to_name}.{from_name}");
                if to == from {
                    for (rounding, round) in ROUNDS {
                        one(
                            format!("cvt{rounding}i{tail}"),
                            (to, to_draw),
                            (from, from_draw),
                            Rules {
                                round,
                                integer: true,
                                ..rules
                            },
                        );
                    }
                } else if bits(to) > bits(from) && !(half(to) && half(from)) {
                    one(
                        format!("cvt{tail}"),
                        (to, to_draw),
                        (from, from_draw),
                        rules,
                    );
                } else {
                    for (rounding, round) in ROUNDS {
                        one(
                            format!("cvt{rounding}{tail}"),
                            (to, to_draw),
                            (from, from_draw),
                            Rules { round, ..rules },
                        );
                    }
                }
            }
        }
    }
    for (relu_name, relu) in RELU {
        for (rounding, round) in &ROUNDS[..2] {
            for (finite_name, finite) in [("", false), (".satfinite", true)] {
                let rules = Rules {
                    round: *round,
                    relu: *relu,
                    finite,
                    ..plain
                };
                let target = if finite { 90 } else { 80 };
                for (name, to, single, packed) in [
                    ("f16", Type::F16, F16H, F16X2),
                    ("bf16", Type::Bf16, BF16H, BF16X2),
                ] {
                    let text = format!("cvt{rounding}{relu_name}{finite_name}.{name}.f32");
                    forms
                        .add(text, single, &[F32], move |s| {
                            convert::cvt(s[0], Type::F32, to, rules)
                        })
                        .target = target;
                    let text = format!("cvt{rounding}{relu_name}{finite_name}.{name}x2.f32");
                    forms
                        .add(text, packed, &[F32; 2], move |s| {
                            convert::pack(s[0], s[1], Type::F32, to, rules).into()
                        })
                        .target = target;
                }
                if !finite {
                    let text = format!("cvt{rounding}{relu_name}.tf32.f32");
                    forms
                        .add(text, F32, &[F32], move |s| {
                            convert::cvt(s[0], Type::F32, Type::Tf32, rules)
                        })
                        .target = 90;
                }
            }
        }
        for (name, to) in [("e4m3x2", Type::E4m3), ("e5m2x2", Type::E5m2)] {
            let rules = Rules {
                relu: *relu,
                finite: true,
                ..plain
            };
            let text = format!("cvt.rn.satfinite{relu_name}.{name}.f32");
            forms
                .add(text, I16, &[SMALL32; 2], move |s| {
                    convert::pack(s[0], s[1], Type::F32, to, rules).into()
                })
                .target = 89;
            let text = format!("cvt.rn.satfinite{relu_name}.{name}.f16x2");
            forms
                .add(text, I16, &[F16X2], move |s| {
                    convert::repack(s[0] as u32, Type::F16, to, rules).into()
                })
                .target = 89;
            let rules = Rules {
                relu: *relu,
                ..plain
            };
            let text = format!("cvt.rn{relu_name}.f16x2.{name}");
            forms
                .add(text, F16X2, &[I16], move |s| {
                    convert::repack(s[0] as u32 & 0xffff, to, Type::F16, rules).into()
                })
                .target = 89;
        }
    }
    let away = Rules {
        round: Round::Away,
        ..plain
    };
    forms.add("cvt.rna.tf32.f32", F32, &[F32], move |s| {
        convert::cvt(s[0], Type::F32, Type::Tf32, away)
    });
    for (name, to) in [("u16", Type::U16), ("s16", Type::S16)] {
        let text = format!("cvt.pack.sat.{name}.s32");
        forms.add(text, I32, &[I32; 2], move |s| {
            convert::cvt_pack(s[0] as u32, s[1] as u32, 0, to).into()
        });
    }
    for (name, to) in [
        ("u8", Type::U8),
        ("s8", Type::S8),
        ("u4", Type::U4),
        ("s4", Type::S4),
    ] {
        let text = format!("cvt.pack.sat.{name}.s32.b32");
        forms.add(text, I32, &[I32; 3], move |s| {
            convert::cvt_pack(s[0] as u32, s[1] as u32, s[2] as u32, to).into()
        });
    }
}

/// Whether a conversion of integers can saturate.
fn narrower(to: Type, from: Type) -> bool {
    let range = |of: Type| -> (i128, i128) {
        match of {
            Type::U8 => (0, (1_i128 << 8) - 1),
            Type::U16 => (0, (1 << 16) - 1),
            Type::U32 => (0, (1 << 32) - 1),
            Type::U64 => (0, (1 << 64) - 1),
            Type::S8 => (-1 << 7, (1 << 7) - 1),
            Type::S16 => (-1 << 15, (1 << 15) - 1),
            Type::S32 => (-1 << 31, (1 << 31) - 1),
            _ => (-1 << 63, (1 << 63) - 1),
        }
    };
    range(to).0 > range(from).0 || range(to).1 < range(from).1
}

trait Bits: Int + 'static {
    fn get(bits: u64) -> Self;
    fn put(self) -> u64;
}

macro_rules! bits {
    ($($type:ident)*) => {$(
        impl Bits for $type {
            fn get(bits: u64) -> Self {
                bits as $type
            }
            fn put(self) -> u64 {
                self as u64
            }
        }
    )*};
}

bits!(u16 i16 u32 i32 u64 i64);

fn integers(forms: &mut Forms) {
    integer::<u16>(forms, "u16", I16);
    integer::<i16>(forms, "s16", I16);
    integer::<u32>(forms, "u32", I32);
    integer::<i32>(forms, "s32", I32);
    integer::<u64>(forms, "u64", I64);
    integer::<i64>(forms, "s64", I64);
    forms.add("mul.wide.u16", I32, &[I16; 2], |s| {
        (s[0] as u16).wide(s[1] as u16).into()
    });
    forms.add("mul.wide.s16", I32, &[I16; 2], |s| {
        (s[0] as i16).wide(s[1] as i16) as u64
    });
    forms.add("mul.wide.u32", I64, &[I32; 2], |s| {
        (s[0] as u32).wide(s[1] as u32)
    });
    forms.add("mul.wide.s32", I64, &[I32; 2], |s| {
        (s[0] as i32).wide(s[1] as i32) as u64
    });
    forms.add("mad.wide.u16", I32, &[I16, I16, I32], |s| {
        ((s[0] as u16).wide(s[1] as u16))
            .wrapping_add(s[2] as u32)
            .into()
    });
    forms.add("mad.wide.s32", I64, &[I32, I32, I64], |s| {
        ((s[0] as i32).wide(s[1] as i32) as u64).wrapping_add(s[2])
    });
    forms.add("mad.hi.sat.s32", I32, &[I32; 3], |s| {
        int::mad_hi_sat(s[0] as i32, s[1] as i32, s[2] as i32) as u64
    });
    forms.add("add.sat.s32", I32, &[I32; 2], |s| {
        (s[0] as i32).saturating_add(s[1] as i32) as u64
    });
    forms.add("sub.sat.s32", I32, &[I32; 2], |s| {
        (s[0] as i32).saturating_sub(s[1] as i32) as u64
    });
    for (sign, signed) in [("u32", false), ("s32", true)] {
        for (half, high) in [("lo", false), ("hi", true)] {
            let text = format!("mul24.{half}.{sign}");
            forms.add(text, I32, &[I32; 2], move |s| {
                int::mul24(s[0] as u32, s[1] as u32, signed, high).into()
            });
            let text = format!("mad24.{half}.{sign}");
            forms.add(text, I32, &[I32; 3], move |s| {
                int::mad24(s[0] as u32, s[1] as u32, s[2] as u32, signed, high, false).into()
            });
        }
    }
    forms.add("mad24.hi.sat.s32", I32, &[I32; 3], |s| {
        int::mad24(s[0] as u32, s[1] as u32, s[2] as u32, true, true, true).into()
    });
    // Chains: sums and products of 64 bits from words.
    let words = "mov.b64 {%r0, %r1}, $a; mov.b64 {%r2, %r3}, $b; ";
    let chain = |low: &str, high: &str| {
        format!("{words}{low} %r4, %r0, %r2; {high} %r5, %r1, %r3; mov.b64 $d, {{%r4, %r5}};")
    };
    forms.add(chain("add.cc.u32", "addc.u32"), I64, &[I64; 2], |s| {
        let (low, carry) = (s[0] as u32).add_carry(s[1] as u32, false);
        u64::from(
            ((s[0] >> 32) as u32)
                .add_carry((s[1] >> 32) as u32, carry)
                .0,
        ) << 32
            | u64::from(low)
    });
    forms.add(chain("sub.cc.u32", "subc.u32"), I64, &[I64; 2], |s| {
        let (low, borrow) = (s[0] as u32).sub_borrow(s[1] as u32, false);
        u64::from(
            ((s[0] >> 32) as u32)
                .sub_borrow((s[1] >> 32) as u32, borrow)
                .0,
        ) << 32
            | u64::from(low)
    });
    forms.add("add.cc.u32 %r0, $a, $b; addc.cc.u32 %r1, $a, $c; addc.u32 %r2, 0, 0; xor.b32 %r0, %r0, %r1; xor.b32 $d, %r0, %r2;", I32, &[I32; 3], |s| {
        let (low, carry) = (s[0] as u32).add_carry(s[1] as u32, false);
        let (high, carry) = (s[0] as u32).add_carry(s[2] as u32, carry);
        u64::from(low ^ high ^ u32::from(carry))
    });
    forms.add("sub.cc.u32 %r0, $a, $b; subc.cc.u32 %r1, $a, $c; subc.u32 %r2, 0, 0; xor.b32 %r0, %r0, %r1; xor.b32 $d, %r0, %r2;", I32, &[I32; 3], |s| {
        let (low, borrow) = (s[0] as u32).sub_borrow(s[1] as u32, false);
        let (high, borrow) = (s[0] as u32).sub_borrow(s[2] as u32, borrow);
        u64::from(low ^ high ^ 0_u32.sub_borrow(0, borrow).0)
    });
    forms.add("add.cc.u64 %d0, $a, $b; addc.cc.u64 %d1, $a, $c; addc.u64 %d2, 0, 0; xor.b64 %d0, %d0, %d1; xor.b64 $d, %d0, %d2;", I64, &[I64; 3], |s| {
        let (low, carry) = s[0].add_carry(s[1], false);
        let (high, carry) = s[0].add_carry(s[2], carry);
        low ^ high ^ u64::from(carry)
    });
    forms.add("mad.lo.cc.u32 %r0, $a, $b, $c; madc.hi.cc.u32 %r1, $a, $b, $c; addc.u32 %r2, 0, 0; xor.b32 %r0, %r0, %r1; xor.b32 $d, %r0, %r2;", I32, &[I32; 3], |s| {
        let (a, b, c) = (s[0] as u32, s[1] as u32, s[2] as u32);
        let [low, high] = a.mul(b);
        let (low, carry) = low.add_carry(c, false);
        let (high, carry) = high.add_carry(c, carry);
        u64::from(low ^ high ^ u32::from(carry))
    });
    for (a_name, a_signed) in [("u32", false), ("s32", true)] {
        for (b_name, b_signed) in [("u32", false), ("s32", true)] {
            forms.add(
                format!("dp4a.{a_name}.{b_name}"),
                I32,
                &[I32; 3],
                move |s| {
                    int::dp4a(s[0] as u32, s[1] as u32, s[2] as u32, a_signed, b_signed).into()
                },
            );
            for (half, high) in [("lo", false), ("hi", true)] {
                forms.add(
                    format!("dp2a.{half}.{a_name}.{b_name}"),
                    I32,
                    &[I32; 3],
                    move |s| {
                        int::dp2a(
                            s[0] as u32,
                            s[1] as u32,
                            s[2] as u32,
                            a_signed,
                            b_signed,
                            high,
                        )
                        .into()
                    },
                );
            }
        }
    }
    // Two halves, since sm_90.
    for (name, signed) in [("u16x2", false), ("s16x2", true)] {
        let operations: [(&str, Operation); 3] = [
            ("add", |a, b| a + b),
            ("min", |a, b| a.min(b)),
            ("max", |a, b| a.max(b)),
        ];
        for (op, f) in operations {
            for (relu_name, relu) in if signed && op != "add" { RELU } else { ALWAYS } {
                let relu = *relu;
                let extend = move |a: u16| {
                    if signed {
                        i32::from(a as i16)
                    } else {
                        i32::from(a)
                    }
                };
                let half = move |[a, b]: [u16; 2]| {
                    f(extend(a), extend(b)).max(if relu { 0 } else { i32::MIN }) as u16
                };
                let text = format!("{op}{relu_name}.{name}");
                forms
                    .add(text, I32, &[I32; 2], move |s| {
                        halves([s[0] as u32, s[1] as u32], half).into()
                    })
                    .target = 90;
            }
        }
    }
    forms
        .add("min.relu.s32", I32, &[I32; 2], |s| {
            (s[0] as i32).min(s[1] as i32).max(0) as u64
        })
        .target = 90;
    forms
        .add("max.relu.s32", I32, &[I32; 2], |s| {
            (s[0] as i32).max(s[1] as i32).max(0) as u64
        })
        .target = 90;
}

fn integer<T: Bits>(forms: &mut Forms, name: &str, draw: Draw) {
    let get = |bits: u64| T::get(bits);
    let signed = name.starts_with('s');
    let (two, three) = ([draw; 2], [draw; 3]);
    forms.add(format!("add.{name}"), draw, &two, move |s| {
        s[0].wrapping_add(s[1])
    });
    forms.add(format!("sub.{name}"), draw, &two, move |s| {
        s[0].wrapping_sub(s[1])
    });
    forms.add(format!("mul.lo.{name}"), draw, &two, move |s| {
        get(s[0]).mul(get(s[1]))[0].put()
    });
    forms.add(format!("mul.hi.{name}"), draw, &two, move |s| {
        get(s[0]).mul(get(s[1]))[1].put()
    });
    forms.add(format!("mad.lo.{name}"), draw, &three, move |s| {
        get(s[0]).mul(get(s[1]))[0].put().wrapping_add(s[2])
    });
    forms.add(format!("mad.hi.{name}"), draw, &three, move |s| {
        get(s[0]).mul(get(s[1]))[1].put().wrapping_add(s[2])
    });
    forms.add(format!("sad.{name}"), draw, &three, move |s| {
        get(s[0]).sad(get(s[1]), get(s[2])).put()
    });
    forms.add(format!("div.{name}"), draw, &two, move |s| {
        get(s[0]).div(get(s[1])).put()
    });
    forms.add(format!("rem.{name}"), draw, &two, move |s| {
        get(s[0]).rem(get(s[1])).put()
    });
    forms.add(format!("min.{name}"), draw, &two, move |s| {
        get(s[0]).min(get(s[1])).put()
    });
    forms.add(format!("max.{name}"), draw, &two, move |s| {
        get(s[0]).max(get(s[1])).put()
    });
    forms.add(format!("shr.{name}"), draw, &[draw, Shift], move |s| {
        get(s[0]).shr(s[1] as u32).put()
    });
    let names: &[(&str, &str)] = match signed {
        true => &[
            ("eq", "eq"),
            ("ne", "ne"),
            ("lt", "lt"),
            ("le", "le"),
            ("gt", "gt"),
            ("ge", "ge"),
        ],
        false => &[
            ("eq", "eq"),
            ("ne", "ne"),
            ("lo", "lt"),
            ("ls", "le"),
            ("hi", "gt"),
            ("hs", "ge"),
            ("lt", "lt"),
            ("ge", "ge"),
        ],
    };
    for (comparison, like) in names {
        let op = COMPARISONS
            .iter()
            .find(|(name, _)| name == like)
            .map(|(_, op)| *op)
            .expect("it is listed");
        let holds = move |s: &[u64]| float::compare(op, T::get(s[0]), T::get(s[1]));
        forms.add(
            format!("setp.{comparison}.{name} %p0, $a, $b; selp.b32 $d, 1, 0, %p0;"),
            I32,
            &two,
            move |s| holds(s).into(),
        );
        forms.add(
            format!("set.{comparison}.u32.{name}"),
            I32,
            &two,
            move |s| if holds(s) { 0xffff_ffff } else { 0 },
        );
    }
    if signed {
        let zero = T::get(0);
        forms.add(format!("neg.{name}"), draw, &[draw], move |s| {
            s[0].wrapping_neg()
        });
        forms.add(format!("abs.{name}"), draw, &[draw], move |s| {
            if get(s[0]) < zero {
                s[0].wrapping_neg()
            } else {
                s[0]
            }
        });
    }
    if T::BITS > 16 {
        forms.add(format!("bfind.{name}"), I32, &[draw], move |s| {
            get(s[0]).bfind(false).into()
        });
        forms.add(format!("bfind.shiftamt.{name}"), I32, &[draw], move |s| {
            get(s[0]).bfind(true).into()
        });
        forms.add(
            format!("bfe.{name}"),
            draw,
            &[draw, Shift, Shift],
            move |s| get(s[0]).bfe(s[1] as u32, s[2] as u32).put(),
        );
    }
}

fn bits(forms: &mut Forms) {
    for (name, draw, bits) in [("b16", I16, 16), ("b32", I32, 32), ("b64", I64, 64)] {
        forms.add(format!("and.{name}"), draw, &[draw; 2], |s| s[0] & s[1]);
        forms.add(format!("or.{name}"), draw, &[draw; 2], |s| s[0] | s[1]);
        forms.add(format!("xor.{name}"), draw, &[draw; 2], |s| s[0] ^ s[1]);
        forms.add(format!("not.{name}"), draw, &[draw], |s| !s[0]);
        forms.add(format!("cnot.{name}"), draw, &[draw], |s| {
            (s[0] == 0).into()
        });
        forms.add(format!("shl.{name}"), draw, &[draw, Shift], move |s| {
            if s[1] < bits { s[0] << s[1] } else { 0 }
        });
        forms.add(format!("slct.{name}.s32"), draw, &[draw, draw, I32], |s| {
            if s[2] as i32 >= 0 { s[0] } else { s[1] }
        });
        forms.add(format!("slct.{name}.f32"), draw, &[draw, draw, F32], |s| {
            if f32::from_bits(s[2] as u32) >= 0.0 {
                s[0]
            } else {
                s[1]
            }
        });
        if bits > 16 {
            forms.add(format!("popc.{name}"), I32, &[draw], |s| {
                s[0].count_ones().into()
            });
            forms.add(format!("clz.{name}"), I32, &[draw], move |s| {
                u64::from(s[0].leading_zeros()) + bits - 64
            });
            forms.add(format!("brev.{name}"), draw, &[draw], move |s| {
                s[0].reverse_bits() >> (64 - bits)
            });
            forms.add(
                format!("bfi.{name} $d, $a, $b, $c, $e;"),
                draw,
                &[draw, draw, Shift, Shift],
                move |s| int::bfi(s[0], s[1], s[2] as u32, s[3] as u32, bits as u32),
            );
        }
    }
    for (mode, wrap) in [("clamp", false), ("wrap", true)] {
        for (side, left) in [("l", true), ("r", false)] {
            forms.add(
                format!("shf.{side}.{mode}.b32"),
                I32,
                &[I32, I32, Shift],
                move |s| int::shf(s[0] as u32, s[1] as u32, s[2] as u32, left, !wrap).into(),
            );
        }
        for (name, signed) in [("u32", false), ("s32", true)] {
            forms.add(
                format!("szext.{mode}.{name}"),
                I32,
                &[I32, Shift],
                move |s| int::szext(s[0] as u32, s[1] as u32, signed, wrap).into(),
            );
        }
        forms.add(format!("bmsk.{mode}.b32"), I32, &[Shift, Shift], move |s| {
            int::bmsk(s[0] as u32, s[1] as u32, wrap).into()
        });
    }
    forms.add("fns.b32", I32, &[I32, Lane, Signed], |s| {
        int::fns(s[0] as u32, s[1] as u32, s[2] as i32).into()
    });
    for (name, mode) in [
        ("", Permute::Any),
        (".f4e", Permute::F4e),
        (".b4e", Permute::B4e),
        (".rc8", Permute::Rc8),
        (".ecl", Permute::Ecl),
        (".ecr", Permute::Ecr),
        (".rc16", Permute::Rc16),
    ] {
        forms.add(format!("prmt.b32{name}"), I32, &[I32; 3], move |s| {
            int::prmt(s[0] as u32, s[1] as u32, s[2] as u32, mode).into()
        });
    }
    for table in [0x1b_u8, 0x80, 0x96, 0xca, 0xe8, 0xfe, 0x2d] {
        forms.add(
            format!("lop3.b32 $d, $a, $b, $c, {table:#x};"),
            I32,
            &[I32; 3],
            move |s| int::lop3(s[0] as u32, s[1] as u32, s[2] as u32, table).into(),
        );
    }
}

const SIGNS: [(&str, bool); 2] = [("u32", false), ("s32", true)];
const PARTS: [(&str, Part); 7] = [
    ("", Part::ALL),
    (".b0", Part { shift: 0, bits: 8 }),
    (".b1", Part { shift: 8, bits: 8 }),
    (".b2", Part { shift: 16, bits: 8 }),
    (".b3", Part { shift: 24, bits: 8 }),
    (".h0", Part { shift: 0, bits: 16 }),
    (
        ".h1",
        Part {
            shift: 16,
            bits: 16,
        },
    ),
];

fn videos(forms: &mut Forms) {
    let ops = [
        ("vadd", Video::Add),
        ("vsub", Video::Sub),
        ("vabsdiff", Video::Absdiff),
        ("vmin", Video::Min),
        ("vmax", Video::Max),
    ];
    let comparisons = [
        ("eq", Video::Eq),
        ("ne", Video::Ne),
        ("lt", Video::Lt),
        ("le", Video::Le),
        ("gt", Video::Gt),
        ("ge", Video::Ge),
    ];
    let secondaries = [
        (".add", Secondary::Add),
        (".min", Secondary::Min),
        (".max", Secondary::Max),
    ];
    // A selection of the combinations, by their number. Hopper has none of these instructions; what the driver makes of some of them is
    // not what the manual says: `.sat` of a part or of `vshl`, `.h1` of the result, and in `vmad` `.sat` and the shifts, unless all types are signed.
    for number in 0..40_usize {
        let ((d_name, signed), (a_name, a), (b_name, b)) = (
            SIGNS[number % 2],
            SIGNS[number / 2 % 2],
            SIGNS[number / 4 % 2],
        );
        let ((a_part, first), (b_part, second)) = (PARTS[number * 3 % 7], PARTS[number * 5 % 7]);
        let (saturate, sat) = SAT[number / 3 % 2];
        let mode = Scalar {
            signed,
            sources: [a, b],
            parts: [first, second],
            into: None,
            sat,
            wrap: false,
            secondary: Secondary::None,
        };
        let run = move |op, mode| {
            move |s: &[u64]| {
                u64::from(video::scalar(
                    op,
                    s[0] as u32,
                    s[1] as u32,
                    s.get(2).map_or(0, |c| *c as u32),
                    mode,
                ))
            }
        };
        let (name, op) = ops[number % 5];
        let head = format!("{name}.{d_name}.{a_name}.{b_name}{saturate}");
        match number % 3 {
            0 => forms.add(
                format!("{head} $d, $a{a_part}, $b{b_part};"),
                I32,
                &[I32; 2],
                run(op, mode),
            ),
            1 => {
                let (op2, secondary) = secondaries[number / 3 % 3];
                forms.add(
                    format!("{head}{op2} $d, $a{a_part}, $b{b_part}, $c;"),
                    I32,
                    &[I32; 3],
                    run(op, Scalar { secondary, ..mode }),
                )
            }
            _ => {
                let (d_part, into) = PARTS[1 + number / 3 % 5];
                let head = format!("{name}.{d_name}.{a_name}.{b_name}");
                let text = format!("{head} $d{d_part}, $a{a_part}, $b{b_part}, $c;");
                forms.add(
                    text,
                    I32,
                    &[I32; 3],
                    run(
                        op,
                        Scalar {
                            into: Some(into),
                            sat: false,
                            ..mode
                        },
                    ),
                )
            }
        };
        let (name, op) = if number % 2 == 0 {
            ("vshl", Video::Shl)
        } else {
            ("vshr", Video::Shr)
        };
        let (kind, wrap) = if number / 2 % 2 == 0 {
            (".clamp", false)
        } else {
            (".wrap", true)
        };
        let mode = Scalar {
            sources: [a, false],
            parts: [first, Part::ALL],
            wrap,
            sat: false,
            ..mode
        };
        forms.add(
            format!("{name}.{d_name}.{a_name}.u32{kind} $d, $a{a_part}, $b;"),
            I32,
            &[I32, Shift],
            run(op, mode),
        );
        let (name, op) = comparisons[number % 6];
        let mode = Scalar {
            signed: false,
            sources: [a, b],
            parts: [first, second],
            sat: false,
            ..mode
        };
        forms.add(
            format!("vset.{a_name}.{b_name}.{name} $d, $a{a_part}, $b{b_part};"),
            I32,
            &[I32; 2],
            run(op, mode),
        );
        let kinds = [("", 0), (".shr7", 7), (".shr15", 15)];
        let (shift_name, shift) = kinds[if a && b { number % 3 } else { 0 }];
        let (saturate, sat) = if a && b { (saturate, sat) } else { ("", false) };
        let (plus, plus_one) = if number % 4 == 1 {
            (".po", true)
        } else {
            ("", false)
        };
        let (negate_product, negate_c) = match number % 4 {
            2 => (true, false),
            3 => (false, true),
            _ => (false, false),
        };
        let minus = |negate: bool| if negate { "-" } else { "" };
        let mode = Vmad {
            sources: [a, b],
            parts: [first, second],
            negate_product,
            negate_c,
            plus_one,
            sat,
            shift,
        };
        let d_name = if a || b || negate_product || negate_c {
            "s32"
        } else {
            "u32"
        };
        let (product, c) = (minus(negate_product), minus(negate_c));
        let text = format!(
            "vmad.{d_name}.{a_name}.{b_name}{plus}{saturate}{shift_name} $d, {product}$a{a_part}, $b{b_part}, {c}$c;"
        );
        forms.add(text, I32, &[I32; 3], move |s| {
            video::vmad(s[0] as u32, s[1] as u32, s[2] as u32, mode).into()
        });
    }
    lanes::<2>(forms, [0, 1], [2, 3]);
    lanes::<4>(forms, [0, 1, 2, 3], [4, 5, 6, 7]);
}

fn lanes<const N: usize>(forms: &mut Forms, low: [u32; N], high: [u32; N]) {
    let ops = [
        ("vadd", Video::Add),
        ("vsub", Video::Sub),
        ("vavrg", Video::Average),
        ("vabsdiff", Video::Absdiff),
        ("vmin", Video::Min),
        ("vmax", Video::Max),
    ];
    for number in 0..48_usize {
        let ((d_name, signed), (a_name, a), (b_name, b)) = (
            SIGNS[number / 6 % 2],
            SIGNS[number / 12 % 2],
            SIGNS[number / 24 % 2],
        );
        let (name, op) = ops[number % 6];
        let (tail, sat, accumulate) = [
            ("", false, false),
            (".sat", true, false),
            (".add", false, true),
        ][number % 3];
        let mut mode = Simd {
            signed,
            sources: [a, b],
            select: [low, high],
            mask: [true; N],
            sat,
            accumulate,
        };
        let (mut mask, mut selects) = (String::new(), [String::new(), String::new()]);
        if number % 4 == 3 {
            let letter = if N == 2 { 'h' } else { 'b' };
            mode.mask = std::array::from_fn(|lane| lane == number / 4 % N);
            mask = format!(".{letter}{}", number / 4 % N);
            for (operand, text) in selects.iter_mut().enumerate() {
                mode.select[operand] = std::array::from_fn(|lane| {
                    ((number * 3 + lane * 5 + operand) % (2 * N)) as u32
                });
                let digits: String = mode.select[operand]
                    .iter()
                    .rev()
                    .map(u32::to_string)
                    .collect();
                *text = format!(".{letter}{digits}");
            }
        }
        let [first, second] = selects;
        let text = format!(
            "{name}{N}.{d_name}.{a_name}.{b_name}{tail} $d{mask}, $a{first}, $b{second}, $c;"
        );
        forms.add(text, I32, &[I32; 3], move |s| {
            video::simd(op, s[0] as u32, s[1] as u32, s[2] as u32, mode).into()
        });
        if number < 12 {
            let (name, op) = [
                ("eq", Video::Eq),
                ("ne", Video::Ne),
                ("lt", Video::Lt),
                ("le", Video::Le),
                ("gt", Video::Gt),
                ("ge", Video::Ge),
            ][number % 6];
            let mode = Simd {
                signed: false,
                sources: [number < 6; 2],
                select: [low, high],
                mask: [true; N],
                sat: false,
                accumulate: number % 2 == 0,
            };
            let (sign, tail) = (
                if number < 6 { "s32" } else { "u32" },
                if number % 2 == 0 { ".add" } else { "" },
            );
            let text = format!("vset{N}.{sign}.{sign}.{name}{tail}");
            forms.add(text, I32, &[I32; 3], move |s| {
                video::simd(op, s[0] as u32, s[1] as u32, s[2] as u32, mode).into()
            });
        }
    }
}

/// Compared within the manual's bound, and half a unit.
fn approximations(forms: &mut Forms) {
    let f = |bits: u64| f32::from_bits(bits as u32);
    for (flush, ftz) in FTZ {
        let ftz = *ftz;
        let mut one =
            |name: &str, draws: &[Draw], units: u64, absolute: f64, evaluate: Evaluate<f32>| {
                let form = forms.add(format!("{name}{flush}.f32"), F32, draws, move |s| {
                    evaluate(s).to_bits().into()
                });
                form.bound = Some(Bound {
                    units,
                    absolute,
                    of: Type::F32,
                });
            };
        one(
            "div.approx",
            &[Middle; 2],
            3,
            0.0,
            Box::new(move |s| approx::div(f(s[0]), f(s[1]), ftz, false)),
        );
        one(
            "div.full",
            &[Middle; 2],
            3,
            0.0,
            Box::new(move |s| approx::div(f(s[0]), f(s[1]), ftz, true)),
        );
        one(
            "rcp.approx",
            &[F32],
            2,
            0.0,
            Box::new(move |s| approx::rcp(f(s[0]), ftz)),
        );
        one(
            "sqrt.approx",
            &[F32],
            3,
            0.0,
            Box::new(move |s| approx::sqrt(f(s[0]), ftz)),
        );
        one(
            "rsqrt.approx",
            &[F32],
            3,
            0.0,
            Box::new(move |s| approx::rsqrt(f(s[0]), ftz)),
        );
        one(
            "ex2.approx",
            &[Exponent],
            4,
            0.0,
            Box::new(move |s| approx::ex2(f(s[0]), ftz)),
        );
        one(
            "lg2.approx",
            &[F32],
            4,
            0.5_f64.powi(22),
            Box::new(move |s| approx::lg2(f(s[0]), ftz)),
        );
        one(
            "sin.approx",
            &[Angle],
            1,
            0.5_f64.powf(20.5),
            Box::new(move |s| approx::sin(f(s[0]), ftz)),
        );
        one(
            "cos.approx",
            &[Angle],
            1,
            0.5_f64.powf(20.5),
            Box::new(move |s| approx::cos(f(s[0]), ftz)),
        );
    }
    let bound = |units, absolute, of| {
        Some(Bound {
            units,
            absolute,
            of,
        })
    };
    forms
        .add("tanh.approx.f32", F32, &[F32], move |s| {
            approx::tanh(f(s[0])).to_bits().into()
        })
        .bound = bound(1 << 13, 0.0, Type::F32);
    forms
        .add("tanh.approx.f16", F16H, &[F16H], |s| {
            approx::tanh(F16(s[0] as u16)).bits()
        })
        .bound = bound(2, 0.5_f64.powf(10.9), Type::F16);
    let form = forms.add("tanh.approx.bf16", BF16H, &[BF16H], |s| {
        approx::tanh(Bf16(s[0] as u16)).bits()
    });
    (form.bound, form.target) = (bound(2, 0.0, Type::Bf16), 90);
    forms
        .add("ex2.approx.f16", F16H, &[F16H], |s| {
            approx::ex2(F16(s[0] as u16), false).bits()
        })
        .bound = bound(3, 0.0, Type::F16);
    let form = forms.add("ex2.approx.ftz.bf16", BF16H, &[BF16H], |s| {
        approx::ex2(Bf16(s[0] as u16), true).bits()
    });
    (form.bound, form.target) = (bound(2, 0.0, Type::Bf16), 90);
    let coarse = 1 << 33;
    forms
        .add("rcp.approx.ftz.f64", F64, &[F64], |s| {
            approx::rcp_f64(f64::from_bits(s[0])).to_bits()
        })
        .bound = bound(coarse, 0.0, Type::F64);
    forms
        .add("rsqrt.approx.ftz.f64", F64, &[F64], |s| {
            approx::rsqrt_coarse(f64::from_bits(s[0])).to_bits()
        })
        .bound = bound(coarse, 0.0, Type::F64);
    forms
        .add("rsqrt.approx.f64", F64, &[F64], |s| {
            approx::rsqrt_f64(f64::from_bits(s[0])).to_bits()
        })
        .bound = bound(1 << 20, 0.0, Type::F64);
}

//! Forms on integers: arithmetic, bits, and the instructions for video.

use super::*;

pub fn integers(forms: &mut Forms) {
    for (name, draw) in &INTEGERS[2..] {
        integer(forms, name, *draw);
    }
    forms.add("mul.wide.u16", I32, &[I16; 2]);
    forms.add("mul.wide.s16", I32, &[I16; 2]);
    forms.add("mul.wide.u32", I64, &[I32; 2]);
    forms.add("mul.wide.s32", I64, &[I32; 2]);
    forms.add("mad.wide.u16", I32, &[I16, I16, I32]);
    forms.add("mad.wide.s32", I64, &[I32, I32, I64]);
    forms.add("mad.hi.sat.s32", I32, &[I32; 3]);
    forms.add("add.sat.s32", I32, &[I32; 2]);
    forms.add("sub.sat.s32", I32, &[I32; 2]);
    for sign in SIGNS {
        for half in ["lo", "hi"] {
            forms.add(format!("mul24.{half}.{sign}"), I32, &[I32; 2]);
            forms.add(format!("mad24.{half}.{sign}"), I32, &[I32; 3]);
        }
    }
    forms.add("mad24.hi.sat.s32", I32, &[I32; 3]);
    // Chains: sums and products of 64 bits from words.
    let words = "mov.b64 {%r0, %r1}, $a; mov.b64 {%r2, %r3}, $b; ";
    for op in ["add", "sub"] {
        let text = format!(
            "{words}{op}.cc.u32 %r4, %r0, %r2; {op}c.u32 %r5, %r1, %r3; mov.b64 $d, {{%r4, %r5}};"
        );
        forms.add(text, I64, &[I64; 2]);
    }
    let end = "xor.b32 %r0, %r0, %r1; xor.b32 $d, %r0, %r2;";
    for op in ["add", "sub"] {
        let text = format!(
            "{op}.cc.u32 %r0, $a, $b; {op}c.cc.u32 %r1, $a, $c; {op}c.u32 %r2, 0, 0; {end}"
        );
        forms.add(text, I32, &[I32; 3]);
    }
    forms.add("add.cc.u64 %d0, $a, $b; addc.cc.u64 %d1, $a, $c; addc.u64 %d2, 0, 0; xor.b64 %d0, %d0, %d1; xor.b64 $d, %d0, %d2;", I64, &[I64; 3]);
    let text = format!(
        "mad.lo.cc.u32 %r0, $a, $b, $c; madc.hi.cc.u32 %r1, $a, $b, $c; addc.u32 %r2, 0, 0; {end}"
    );
    forms.add(text, I32, &[I32; 3]);
    for a in SIGNS {
        for b in SIGNS {
            for op in ["dp4a", "dp2a.lo", "dp2a.hi"] {
                forms.add(format!("{op}.{a}.{b}"), I32, &[I32; 3]);
            }
        }
    }
    // Two halves, since sm_90.
    for text in [
        "add.u16x2",
        "min.u16x2",
        "max.u16x2",
        "add.s16x2",
        "min.s16x2",
        "min.relu.s16x2",
        "max.s16x2",
        "max.relu.s16x2",
        "min.relu.s32",
        "max.relu.s32",
    ] {
        forms.since(90, text, I32, &[I32; 2]);
    }
}

fn integer(forms: &mut Forms, name: &str, draw: Draw) {
    let (two, three) = ([draw; 2], [draw; 3]);
    let signed = name.starts_with('s');
    for op in [
        "add", "sub", "mul.lo", "mul.hi", "mad.lo", "mad.hi", "sad", "div", "rem", "min", "max",
    ] {
        let operands = if op.starts_with("mad") || op == "sad" {
            &three[..]
        } else {
            &two
        };
        forms.add(format!("{op}.{name}"), draw, operands);
    }
    forms.add(format!("shr.{name}"), draw, &[draw, Shift]);
    let names: &[&str] = match signed {
        true => &COMPARISONS[..6],
        false => &["eq", "ne", "lo", "ls", "hi", "hs", "lt", "ge"],
    };
    for comparison in names {
        forms.add(
            format!("setp.{comparison}.{name} %p0, $a, $b; {TEST}"),
            I32,
            &two,
        );
        forms.add(format!("set.{comparison}.u32.{name}"), I32, &two);
    }
    if signed {
        forms.add(format!("neg.{name}"), draw, &[draw]);
        forms.add(format!("abs.{name}"), draw, &[draw]);
    }
    if draw != I16 {
        forms.add(format!("bfind.{name}"), I32, &[draw]);
        forms.add(format!("bfind.shiftamt.{name}"), I32, &[draw]);
        forms.add(format!("bfe.{name}"), draw, &[draw, Shift, Shift]);
    }
}

pub fn bits(forms: &mut Forms) {
    for (name, draw) in [("b16", I16), ("b32", I32), ("b64", I64)] {
        for op in ["and", "or", "xor"] {
            forms.add(format!("{op}.{name}"), draw, &[draw; 2]);
        }
        forms.add(format!("not.{name}"), draw, &[draw]);
        forms.add(format!("cnot.{name}"), draw, &[draw]);
        forms.add(format!("shl.{name}"), draw, &[draw, Shift]);
        forms.add(format!("slct.{name}.s32"), draw, &[draw, draw, I32]);
        forms.add(format!("slct.{name}.f32"), draw, &[draw, draw, F32]);
        if draw != I16 {
            forms.add(format!("popc.{name}"), I32, &[draw]);
            forms.add(format!("clz.{name}"), I32, &[draw]);
            forms.add(format!("brev.{name}"), draw, &[draw]);
            forms.add(
                format!("bfi.{name} $d, $a, $b, $c, $e;"),
                draw,
                &[draw, draw, Shift, Shift],
            );
        }
    }
    for mode in ["clamp", "wrap"] {
        for side in ["l", "r"] {
            forms.add(format!("shf.{side}.{mode}.b32"), I32, &[I32, I32, Shift]);
        }
        for sign in SIGNS {
            forms.add(format!("szext.{mode}.{sign}"), I32, &[I32, Shift]);
        }
        forms.add(format!("bmsk.{mode}.b32"), I32, &[Shift, Shift]);
    }
    forms.add("fns.b32", I32, &[I32, Lane, Signed]);
    for mode in ["", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"] {
        forms.add(format!("prmt.b32{mode}"), I32, &[I32; 3]);
    }
    for table in [0x1b_u8, 0x80, 0x96, 0xca, 0xe8, 0xfe, 0x2d] {
        forms.add(
            format!("lop3.b32 $d, $a, $b, $c, {table:#x};"),
            I32,
            &[I32; 3],
        );
    }
}

const SIGNS: [&str; 2] = ["u32", "s32"];
const PARTS: [&str; 7] = ["", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1"];

pub fn videos(forms: &mut Forms) {
    // A selection of the combinations, by their number. Hopper has none of these instructions; what the driver makes of some of them is
    // not what the manual says: `.sat` of a part or of `vshl`, `.h1` of the result, and in `vmad` `.sat` and the shifts, unless all types are signed.
    for number in 0..40_usize {
        let [d, a, b] = [number, number / 2, number / 4].map(|index| SIGNS[index % 2]);
        let (a_part, b_part) = (PARTS[number * 3 % 7], PARTS[number * 5 % 7]);
        let saturate = SAT[number / 3 % 2];
        let head = format!(
            "{}.{d}.{a}.{b}",
            ["vadd", "vsub", "vabsdiff", "vmin", "vmax"][number % 5]
        );
        match number % 3 {
            0 => forms.add(
                format!("{head}{saturate} $d, $a{a_part}, $b{b_part};"),
                I32,
                &[I32; 2],
            ),
            1 => {
                let op = [".add", ".min", ".max"][number / 3 % 3];
                forms.add(
                    format!("{head}{saturate}{op} $d, $a{a_part}, $b{b_part}, $c;"),
                    I32,
                    &[I32; 3],
                );
            }
            _ => {
                let part = PARTS[1 + number / 3 % 5];
                forms.add(
                    format!("{head} $d{part}, $a{a_part}, $b{b_part}, $c;"),
                    I32,
                    &[I32; 3],
                );
            }
        }
        let (name, kind) = (
            ["vshl", "vshr"][number % 2],
            [".clamp", ".wrap"][number / 2 % 2],
        );
        forms.add(
            format!("{name}.{d}.{a}.u32{kind} $d, $a{a_part}, $b;"),
            I32,
            &[I32, Shift],
        );
        let comparison = COMPARISONS[number % 6];
        forms.add(
            format!("vset.{a}.{b}.{comparison} $d, $a{a_part}, $b{b_part};"),
            I32,
            &[I32; 2],
        );
        let signed = a == "s32" && b == "s32";
        let shift = ["", ".shr7", ".shr15"][if signed { number % 3 } else { 0 }];
        let saturate = if signed { saturate } else { "" };
        let (plus, product, c) =
            [("", "", ""), (".po", "", ""), ("", "-", ""), ("", "", "-")][number % 4];
        let d = if a == b && a == "u32" && product == c {
            "u32"
        } else {
            "s32"
        };
        let text = format!(
            "vmad.{d}.{a}.{b}{plus}{saturate}{shift} $d, {product}$a{a_part}, $b{b_part}, {c}$c;"
        );
        forms.add(text, I32, &[I32; 3]);
    }
    lanes(forms, 2, 'h');
    lanes(forms, 4, 'b');
}

fn lanes(forms: &mut Forms, count: usize, letter: char) {
    for number in 0..48_usize {
        let [d, a, b] = [number / 6, number / 12, number / 24].map(|index| SIGNS[index % 2]);
        let name = ["vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"][number % 6];
        let tail = ["", ".sat", ".add"][number % 3];
        let (mut mask, mut selects) = (String::new(), [String::new(), String::new()]);
        if number % 4 == 3 {
            mask = format!(".{letter}{}", number / 4 % count);
            selects = [0, 1].map(|operand| {
                let digit =
                    |lane: usize| ((number * 3 + lane * 5 + operand) % (2 * count)).to_string();
                format!(
                    ".{letter}{}",
                    (0..count).rev().map(digit).collect::<String>()
                )
            });
        }
        let [first, second] = selects;
        let text = format!("{name}{count}.{d}.{a}.{b}{tail} $d{mask}, $a{first}, $b{second}, $c;");
        forms.add(text, I32, &[I32; 3]);
        if number < 12 {
            let (sign, comparison) = (SIGNS[usize::from(number < 6)], COMPARISONS[number % 6]);
            let tail = [".add", ""][number % 2];
            forms.add(
                format!("vset{count}.{sign}.{sign}.{comparison}{tail}"),
                I32,
                &[I32; 3],
            );
        }
    }
}

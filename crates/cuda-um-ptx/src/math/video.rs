//! Video instructions: scalar (9.7.19.1), SIMD of two halves and of four bytes (9.7.19.2).

/// The operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of PTX")]
pub enum Video {
    Add,
    Sub,
    Absdiff,
    Min,
    Max,
    Average,
    Shl,
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// A part of a register: `shift` and `bits` of `.b0` to `.b3`, `.h0`, `.h1`; 0 and 32 for all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "see above")]
pub struct Part {
    pub shift: u32,
    pub bits: u32,
}

impl Part {
    /// The whole register.
    pub const ALL: Self = Self { shift: 0, bits: 32 };

    #[inline(always)]
    fn of(self, value: u32, signed: bool) -> i64 {
        let value = u64::from(value) << (64 - self.bits - self.shift);
        if signed {
            value as i64 >> (64 - self.bits)
        } else {
            (value >> (64 - self.bits)) as i64
        }
    }

    fn merge(self, value: u32, into: u32) -> u32 {
        let mask = ((1_u64 << self.bits) - 1) as u32;
        into & !(mask << self.shift) | (value & mask) << self.shift
    }
}

/// `.op2`: the result with `c`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of PTX")]
pub enum Secondary {
    #[default]
    None,
    Add,
    Min,
    Max,
}

/// The modifiers of a scalar video instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scalar {
    /// The type of the result is signed. For comparisons it is not.
    pub signed: bool,
    /// The types of `a` and `b` are signed.
    pub sources: [bool; 2],
    /// The parts of `a` and `b`.
    pub parts: [Part; 2],
    /// The part of `d` that is replaced in `c`.
    pub into: Option<Part>,
    /// `.sat`
    pub sat: bool,
    /// `.wrap` of shifts; otherwise `.clamp`.
    pub wrap: bool,
    /// `.op2`
    pub secondary: Secondary,
}

#[inline(always)]
fn operate(op: Video, a: i64, b: i64, wrap: bool) -> i64 {
    let by = if wrap { b & 31 } else { b.min(32) };
    match op {
        Video::Add => a + b,
        Video::Sub => a - b,
        Video::Absdiff => (a - b).abs(),
        Video::Min => a.min(b),
        Video::Max => a.max(b),
        Video::Average => (a + b + i64::from(a + b >= 0)) >> 1,
        Video::Shl => a << by,
        Video::Shr => a >> by,
        Video::Eq => (a == b).into(),
        Video::Ne => (a != b).into(),
        Video::Lt => (a < b).into(),
        Video::Le => (a <= b).into(),
        Video::Gt => (a > b).into(),
        Video::Ge => (a >= b).into(),
    }
}

#[inline(always)]
fn clamp(value: i64, bits: u32, signed: bool) -> i64 {
    if signed {
        value.clamp(-1 << (bits - 1), (1 << (bits - 1)) - 1)
    } else {
        value.clamp(0, (1 << bits) - 1)
    }
}

/// `vadd`, `vsub`, `vabsdiff`, `vmin`, `vmax`, `vshl`, `vshr`, `vset`: 9.7.19.1.1 to 9.7.19.1.4.
pub fn scalar(op: Video, a: u32, b: u32, c: u32, mode: Scalar) -> u32 {
    let [first, second] = mode.parts;
    let mut value = operate(
        op,
        first.of(a, mode.sources[0]),
        second.of(b, mode.sources[1]),
        mode.wrap,
    );
    if mode.sat {
        value = clamp(value, mode.into.map_or(32, |part| part.bits), mode.signed);
    }
    // The comparison sees all bits of the value.
    let other = Part::ALL.of(c, mode.signed);
    let value = match mode.secondary {
        Secondary::None => value,
        Secondary::Add => value + other,
        Secondary::Min => value.min(other),
        Secondary::Max => value.max(other),
    } as u32;
    mode.into.map_or(value, |part| part.merge(value, c))
}

/// The modifiers of `vmad`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vmad {
    /// The types of `a` and `b` are signed.
    pub sources: [bool; 2],
    /// The parts of `a` and `b`.
    pub parts: [Part; 2],
    /// Exactly one of `a` and `b` is negated.
    pub negate_product: bool,
    /// `c` is negated.
    pub negate_c: bool,
    /// `.po`: plus one.
    pub plus_one: bool,
    /// `.sat`
    pub sat: bool,
    /// 0, or 7 and 15 of `.shr7` and `.shr15`.
    pub shift: u32,
}

/// `vmad`: 9.7.19.1.3.
pub fn vmad(a: u32, b: u32, c: u32, mode: Vmad) -> u32 {
    let [first, second] = mode.parts;
    let signed = mode.sources[0] || mode.sources[1] || mode.negate_product || mode.negate_c;
    let product =
        i128::from(first.of(a, mode.sources[0])) * i128::from(second.of(b, mode.sources[1]));
    let c = if signed {
        i128::from(c as i32)
    } else {
        i128::from(c)
    };
    let sum = if mode.negate_product {
        -product
    } else {
        product
    } + if mode.negate_c { -c } else { c };
    let scaled = ((sum + i128::from(mode.plus_one)) >> mode.shift) as i64;
    (if mode.sat {
        clamp(scaled, 32, signed)
    } else {
        scaled
    }) as u32
}

/// The modifiers of a SIMD video instruction of `N` (2 or 4) lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Simd<const N: usize> {
    /// The type of the result is signed.
    pub signed: bool,
    /// The types of `a` and `b` are signed.
    pub sources: [bool; 2],
    /// For each lane, from the lowest, the part of `b:a` that it takes as `a` and as `b`.
    pub select: [[u32; N]; 2],
    /// The lanes of `d` that are computed; the others are those of `c`, or are not added.
    pub mask: [bool; N],
    /// `.sat`
    pub sat: bool,
    /// `.add`: the sum of the lanes and `c`.
    pub accumulate: bool,
}

/// `vadd2`, `vsub2`, `vavrg2`, `vabsdiff2`, `vmin2`, `vmax2`, `vset2`, and those of four lanes: 9.7.19.2.
pub fn simd<const N: usize>(op: Video, a: u32, b: u32, c: u32, mode: Simd<N>) -> u32 {
    let bits = 32 / N as u32;
    let pair = u64::from(b) << 32 | u64::from(a);
    let mut d = c;
    for lane in 0..N {
        let take = |operand: usize| {
            let value = (pair >> (mode.select[operand][lane] * bits)) as u32;
            Part { shift: 0, bits }.of(value, mode.sources[operand])
        };
        let value = operate(op, take(0), take(1), false);
        let value = if mode.sat {
            clamp(value, bits, mode.signed)
        } else {
            value
        } as u32;
        if mode.mask[lane] {
            d = if mode.accumulate {
                d.wrapping_add(value)
            } else {
                Part {
                    shift: lane as u32 * bits,
                    bits,
                }
                .merge(value, d)
            };
        }
    }
    d
}

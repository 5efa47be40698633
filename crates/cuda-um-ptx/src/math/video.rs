//! Video instructions: scalar (9.7.19.1), SIMD of two halves and of four bytes (9.7.19.2).

/// What a lane computes of two parts.
pub type Operation = Box<dyn Fn(i64, i64) -> i64 + Send + Sync>;

/// Some bits of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub shift: u32,
    pub bits: u32,
}

impl Part {
    #[inline(always)]
    fn of(self, value: u64, signed: bool) -> i64 {
        let value = value << (64 - self.bits - self.shift);
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

fn clamp(value: i64, bits: u32, signed: bool) -> i64 {
    if signed {
        value.clamp(-1 << (bits - 1), (1 << (bits - 1)) - 1)
    } else {
        value.clamp(0, (1 << bits) - 1)
    }
}

/// A video instruction but `vmad`.
pub struct Video {
    pub operation: Operation,
    /// The types of `a` and `b` are signed.
    pub sources: [bool; 2],
    /// The type of the result is signed. For comparisons it is not.
    pub signed: bool,
    /// For each lane the parts of `b:a` that it takes, and the part of `c` that its result replaces.
    pub lanes: Vec<[Part; 3]>,
    /// `.sat`
    pub sat: bool,
    /// What is done with the result and `c`, in place of a replacement.
    pub secondary: Option<fn(i64, i64) -> i64>,
}

impl Video {
    pub fn run(&self, a: u32, b: u32, c: u32) -> u32 {
        let pair = u64::from(b) << 32 | u64::from(a);
        self.lanes.iter().fold(c, |d, [first, second, into]| {
            let (a, b) = (
                first.of(pair, self.sources[0]),
                second.of(pair, self.sources[1]),
            );
            let value = (self.operation)(a, b);
            let value = if self.sat {
                clamp(value, into.bits, self.signed)
            } else {
                value
            };
            // The second operation sees all bits of the value.
            let other = if self.signed {
                i64::from(d as i32)
            } else {
                i64::from(d)
            };
            match self.secondary {
                Some(operation) => operation(value, other) as u32,
                None => into.merge(value as u32, d),
            }
        })
    }
}

/// `vmad`: 9.7.19.1.3.
#[derive(Clone, Copy, Debug)]
pub struct Vmad {
    /// The types of `a` and `b` are signed.
    pub sources: [bool; 2],
    /// The parts of `a` and `b`.
    pub parts: [Part; 2],
    /// The product, and `c`, are negated.
    pub negative: [bool; 2],
    /// `.po`
    pub plus_one: bool,
    /// `.sat`
    pub sat: bool,
    /// 0, or 7 and 15 of `.shr7` and `.shr15`.
    pub shift: u32,
}

impl Vmad {
    pub fn run(&self, a: u32, b: u32, c: u32) -> u32 {
        let signed = self.sources.contains(&true) || self.negative.contains(&true);
        let [a, b] = [(a, 0), (b, 1)]
            .map(|(word, i)| i128::from(self.parts[i].of(word.into(), self.sources[i])));
        let c = if signed {
            i128::from(c as i32)
        } else {
            i128::from(c)
        };
        let sign = |number: i128, negative: bool| if negative { -number } else { number };
        let sum =
            sign(a * b, self.negative[0]) + sign(c, self.negative[1]) + i128::from(self.plus_one);
        let scaled = (sum >> self.shift) as i64;
        (if self.sat {
            clamp(scaled, 32, signed)
        } else {
            scaled
        }) as u32
    }
}

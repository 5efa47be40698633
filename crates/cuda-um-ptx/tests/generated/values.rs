//! Random numbers and operands, mostly the values at which rules change.

/// A generator of random numbers (xorshift64*).
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d | 1);
        (0..4).for_each(|_| _ = random.next());
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }
}

/// What an operand is drawn from; the width is that of its register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    I16,
    I32,
    I64,
    /// Around the widths of registers.
    Shift,
    Lane,
    /// From −33 to 33.
    Signed,
    F16H,
    F16X2,
    BF16H,
    BF16X2,
    F32,
    F64,
    /// As above, without NaN.
    NumF16,
    NumF16x2,
    NumBf16,
    NumBf16x2,
    NumF32,
    NumF64,
    /// f32 in the range of the 8-bit formats.
    SMALL32,
    /// f32 whose quotients are normal.
    Middle,
    /// f32 from −150 to 150.
    Exponent,
    /// f32 from −2π to 2π.
    Angle,
}

use Draw::*;

impl Draw {
    pub fn bits(self) -> u32 {
        match self {
            I16 | F16H | BF16H | NumF16 | NumBf16 => 16,
            I64 | F64 | NumF64 => 64,
            _ => 32,
        }
    }

    /// The same without NaN.
    pub fn number(self) -> Self {
        match self {
            F16H => NumF16,
            F16X2 => NumF16x2,
            BF16H => NumBf16,
            BF16X2 => NumBf16x2,
            F32 => NumF32,
            F64 => NumF64,
            other => other,
        }
    }

    pub fn draw(self, random: &mut Random) -> u64 {
        let unit =
            |random: &mut Random| (random.next() >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0;
        let single = |value: f64| u64::from((value as f32).to_bits());
        match self {
            I16 => integer(random, 16),
            I32 => integer(random, 32),
            I64 => integer(random, 64),
            Shift => match random.below(8) {
                0 => integer(random, 32),
                1 => [0, 1, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 255, 256][random.below(14)],
                _ => random.below(70) as u64,
            },
            Lane => random.below(34) as u64,
            Signed => u64::from((random.below(67) as i32 - 33) as u32),
            F16H => float(random, 5, 10, true),
            BF16H => float(random, 8, 7, true),
            F32 => float(random, 8, 23, true),
            F64 => float(random, 11, 52, true),
            NumF16 => float(random, 5, 10, false),
            NumBf16 => float(random, 8, 7, false),
            NumF32 => float(random, 8, 23, false),
            NumF64 => float(random, 11, 52, false),
            F16X2 => F16H.draw(random) << 16 | F16H.draw(random),
            BF16X2 => BF16H.draw(random) << 16 | BF16H.draw(random),
            NumF16x2 => NumF16.draw(random) << 16 | NumF16.draw(random),
            NumBf16x2 => NumBf16.draw(random) << 16 | NumBf16.draw(random),
            SMALL32 => match random.below(4) {
                0 => F32.draw(random),
                // Ties between neighbours of 2 and 3 bits of fraction.
                1 => single(
                    (random.below(1024) as f64 - 512.0) * 0.5_f64.powi(random.below(20) as i32),
                ),
                _ => single(unit(random) * 2_f64.powi(random.below(32) as i32 - 15)),
            },
            Middle => single((unit(random) + 2.0) * 2_f64.powi(random.below(100) as i32 - 50)),
            Exponent => match random.below(8) {
                0 => F32.draw(random),
                _ => single(unit(random) * 150.0),
            },
            Angle => match random.below(8) {
                0 => single(unit(random) * 2_f64.powi(-(random.below(30) as i32))),
                #[allow(
                    clippy::approx_constant,
                    reason = "the recorded answers are for these operands"
                )]
                _ => single(unit(random) * 6.283),
            },
        }
    }
}

fn integer(random: &mut Random, bits: u32) -> u64 {
    let word = random.next();
    let value = match random.below(8) {
        0 => random.below(4) as u64,
        1 => (random.below(4) as u64).wrapping_neg(),
        // Near a power of two, with either sign.
        2 | 3 => (1_u64 << random.below(64))
            .wrapping_add(random.below(3) as u64)
            .wrapping_sub(1),
        4 => (1_u64 << random.below(bits as usize)).wrapping_neg(),
        5 => word >> random.below(64),
        _ => word,
    };
    value & (u64::MAX >> (64 - bits))
}

/// The bits of a float: edges of exponent and fraction, near one, or any.
fn float(random: &mut Random, exponent_bits: u32, fraction_bits: u32, nan: bool) -> u64 {
    let (ones, all) = ((1_u64 << exponent_bits) - 1, (1_u64 << fraction_bits) - 1);
    let bias = ones >> 1;
    let word = random.next();
    let fraction = match random.below(6) {
        0 => 0,
        1 => random.below(4) as u64,
        2 => all - random.below(4) as u64,
        // Half, and near it.
        3 => (1 << (fraction_bits - 1)) + random.below(3) as u64 - 1,
        4 => word & all & (all << random.below(fraction_bits as usize)),
        _ => word & all,
    } & all;
    let near = |random: &mut Random, width: u64| {
        bias + random.below(2 * width as usize + 1) as u64 - width
    };
    let exponent = match random.below(12) {
        0 | 1 => random.below(2) as u64,
        2 => ones - 1 - random.below(2) as u64,
        3 => ones,
        4..=6 => near(random, 2),
        7 | 8 => near(random, u64::from(fraction_bits + 3).min(bias)),
        9 => near(random, 64.min(bias)),
        _ => word >> 20 & ones,
    };
    let fraction = match exponent == ones {
        true if !nan || random.chance(50) => 0,
        // The mark of `fma.oob`.
        true if random.chance(20) => all & !8,
        _ => fraction,
    };
    random.next() >> 63 << (exponent_bits + fraction_bits) | exponent << fraction_bits | fraction
}

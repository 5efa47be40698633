//! Matrix instructions of a warp: `mma` (9.7.14.5), the layouts of `ldmatrix` and `stmatrix` (9.7.14.5.15, 9.7.14.5.16).
//!
//! PTX leaves the order of the sums open. Here, as on Hopper: the products of a row are exact; they and the accumulator are cut off
//! below 2^-25 of the largest exponent among them and summed exactly; the sum is cut off to f32, or rounded to nearest to f16. The
//! error is below `(k + 2) · 2^-24` of the largest magnitude.

use super::float::{self, Float};
use super::int::extend;
use super::soft::Number;
use super::{Mode, Round, Type};

/// A form of `mma.sync.aligned.mMn8kK.row.col`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mma {
    /// Rows of `a` and of the result: 8 or 16.
    pub m: usize,
    /// Columns of `a`.
    pub k: usize,
    /// The type of `a`.
    pub a: Type,
    /// The type of `b`.
    pub b: Type,
    /// The type of `c` and `d`: F16, F32, S32.
    pub d: Type,
    /// `.satfinite` of integers: sums are clamped.
    pub sat: bool,
}

/// Element `index` of row `row` of a matrix whose rows lie in groups of four lanes: register, lane and bit.
fn place(rows: usize, width: usize, row: usize, index: usize) -> (usize, usize, usize) {
    let each = 32 / width;
    let (chunk, rest) = (index / (4 * each), index % (4 * each));
    (
        chunk * (rows / 8) + row / 8,
        row % 8 * 4 + rest / each,
        rest % each * width,
    )
}

/// A row of `a` or a column of `b`, unpacked once for all products.
#[derive(Clone, Copy)]
struct Line {
    significands: [i64; 64],
    /// Of the last places; zeros have the least.
    exponents: [i32; 64],
    /// Signed 0, 1, infinity or NaN.
    classes: [f32; 64],
    is_finite: bool,
}

impl Line {
    fn of(of: Type, elements: impl Iterator<Item = u64>) -> Self {
        let mut line = Self {
            significands: [0; 64],
            exponents: [ZERO; 64],
            classes: [0.0; 64],
            is_finite: true,
        };
        for (index, bits) in elements.enumerate() {
            if !of.integer() {
                let class = class(of, bits);
                line.classes[index] = class;
                line.is_finite &= class.is_finite();
                (line.significands[index], line.exponents[index]) = unpack(of, bits);
            } else {
                line.significands[index] = extend(bits, of.bits(), of.signed()) as i64;
            }
        }
        line
    }
}

/// The exponent of a zero, below that of every product.
const ZERO: i32 = i32::MIN / 4;

/// The bits of an element; tf32 is in the upper bits of an f32.
fn read(of: Type, bits: u64) -> u64 {
    let drop = if of == Type::Tf32 { 13 } else { 0 };
    (bits >> drop) & (of.format().sign() | of.format().nan())
}

fn class(of: Type, bits: u64) -> f32 {
    let (format, bits) = (of.format(), read(of, bits));
    let magnitude = match bits & format.nan() {
        _ if format.is_nan(bits) => f32::NAN,
        magnitude if magnitude == format.infinity() => f32::INFINITY,
        0 => 0.0,
        _ => 1.0,
    };
    if bits & format.sign() != 0 {
        -magnitude
    } else {
        magnitude
    }
}

/// A significand with its sign, and the exponent of its last place.
fn unpack(of: Type, bits: u64) -> (i64, i32) {
    let number = Number::unpack(of.format(), read(of, bits));
    match number.significand as i64 {
        0 => (0, ZERO),
        significand if number.negative => (-significand, number.exponent),
        significand => (significand, number.exponent),
    }
}

/// `mma.sync`: the registers of `a`, `b` and `c` for each lane, in the order of the instruction; returns those of `d`.
pub fn mma(form: Mma, a: &[[u32; 32]], b: &[[u32; 32]], c: &[[u32; 32]]) -> [[u32; 32]; 4] {
    let mut d = [[0; 32]; 4];
    let line = |registers: &[[u32; 32]], of: Type, rows, row| {
        let elements = (0..form.k).map(|index| {
            let (register, lane, bit) = place(rows, of.bits() as usize, row, index);
            u64::from(registers[register][lane] >> bit)
        });
        Line::of(of, elements)
    };
    let columns: [Line; 8] = std::array::from_fn(|n| line(b, form.b, 8, n));
    for row in 0..form.m {
        let values = line(a, form.a, form.m, row);
        for (n, column) in columns.iter().enumerate() {
            // The accumulator's rows lie like those of a matrix with 8 columns, the halves of the rows one after the other.
            let (_, lane, _) = place(8, 16, row % 8, n);
            let (register, bit) = match form.d {
                Type::F16 => (row / 8, n % 2 * 16),
                _ => (row / 8 * 2 + n % 2, 0),
            };
            let start = c[register][lane] >> bit;
            let sum = match form.d {
                Type::S32 => integers(form, &values, column, start),
                _ => floats(form, &values, column, start),
            };
            d[register][lane] |= sum << bit;
        }
    }
    d
}

fn integers(form: Mma, a: &Line, b: &Line, c: u32) -> u32 {
    let products = a.significands.iter().zip(&b.significands);
    let sum = products.map(|(a, b)| a * b).sum::<i64>() + i64::from(c as i32);
    (if form.sat {
        sum.clamp(i32::MIN.into(), i32::MAX.into())
    } else {
        sum
    }) as u32
}

fn floats(form: Mma, a: &Line, b: &Line, c: u32) -> u32 {
    let (format, start) = (form.d.format(), class(form.d, c.into()));
    if !(a.is_finite && b.is_finite && start.is_finite()) {
        let products = a.classes.iter().zip(&b.classes).map(|(a, b)| a * b);
        let special: Vec<f32> = products
            .chain([start])
            .filter(|term| !term.is_finite())
            .collect();
        // A special element times zero is NaN, so there is one.
        return match special.iter().sum::<f32>() {
            sum if sum.is_nan() => format.nan() as u32,
            sum => ((if sum < 0.0 { format.sign() } else { 0 }) | format.infinity()) as u32,
        };
    }
    // The exponents of the leading places, of which a product may have another one.
    let (start, start_exponent) = unpack(form.d, c.into());
    let fraction = (form.a.format().fraction + form.b.format().fraction) as i32;
    let mut exponents = [0; 64];
    for (sum, (a, b)) in exponents
        .iter_mut()
        .zip(a.exponents.iter().zip(&b.exponents))
    {
        *sum = a + b;
    }
    let products = exponents.iter().copied().max().unwrap_or(ZERO) + fraction;
    let last = products.max(start_exponent + format.fraction as i32) - 25;
    let mut sum = cut(start, start_exponent - last);
    for (index, exponent) in exponents.iter().enumerate().take(form.k) {
        sum += cut(
            a.significands[index] * b.significands[index],
            exponent - last,
        );
    }
    let number = Number {
        negative: sum < 0,
        exponent: last,
        significand: sum.unsigned_abs().into(),
    };
    let round = match form.d {
        Type::F16 => Round::Near,
        _ => Round::Zero,
    };
    number.round(format, round) as u32
}

/// `significand × 2^shift` toward zero.
fn cut(significand: i64, shift: i32) -> i64 {
    let magnitude = match shift {
        0.. => significand.unsigned_abs() << shift.min(38),
        -63..0 => significand.unsigned_abs() >> -shift,
        _ => 0,
    };
    magnitude as i64 * significand.signum()
}

/// `mma.sync.aligned.mMn8kK.row.col.f64`: a chain of `fma` from the first column on.
pub fn mma_f64(
    m: usize,
    k: usize,
    a: &[[u64; 32]],
    b: &[[u64; 32]],
    c: &[[u64; 32]],
) -> [[u64; 32]; 4] {
    let mut d = [[0; 32]; 4];
    for row in 0..m {
        for n in 0..8 {
            let (register, lane) = (row / 8 * 2 + n % 2, row % 8 * 4 + n / 2);
            let value = |registers: &[[u64; 32]], rows, row, index| {
                let (register, lane, _) = place(rows, 32, row, index);
                f64::from_bits(registers[register][lane])
            };
            let sum = (0..k).fold(f64::from_bits(c[register][lane]), |sum, index| {
                float::fma(
                    value(a, m, row, index),
                    value(b, 8, n, index),
                    sum,
                    Mode::PLAIN,
                )
            });
            d[register][lane] = sum.bits();
        }
    }
    d
}

/// `ldmatrix`, `stmatrix` of 8 × 8 matrices of 16 bits: the rows and columns of the two elements that a lane holds, the lower first.
pub fn matrix_elements(lane: usize, transposed: bool) -> [(usize, usize); 2] {
    let (row, column) = (lane / 4, lane % 4 * 2);
    [column, column + 1].map(|column| {
        if transposed {
            (column, row)
        } else {
            (row, column)
        }
    })
}

//! Matrix instructions of a warp: `mma` (9.7.14.5), the layouts of `ldmatrix` and `stmatrix` (9.7.14.5.15, 9.7.14.5.16).
//!
//! PTX leaves the order of the sums open. Here, as on Hopper: the products of a row are exact; they and the accumulator are cut off
//! below 2^-25 of the largest exponent among them and summed exactly; the sum is cut off to f32, or rounded to nearest to f16. The
//! error is below `(k + 2) · 2^-24` of the largest magnitude.

use super::float::{self, Float};
use super::int::extend;
use super::soft::{self, Format, Number};
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

/// `mma.sync`: the registers of `a`, `b` and `c` for each lane, in the order of the instruction; returns those of `d`.
pub fn mma(form: Mma, a: &[[u32; 32]], b: &[[u32; 32]], c: &[[u32; 32]]) -> [[u32; 32]; 4] {
    let mut d = [[0; 32]; 4];
    let element = |registers: &[[u32; 32]], of: Type, rows, row, index| {
        let (register, lane, bit) = place(rows, of.bits() as usize, row, index);
        u64::from(registers[register][lane] >> bit)
    };
    let mut columns = [[0_u64; 64]; 8];
    for (n, column) in columns.iter_mut().enumerate() {
        for (k, value) in column.iter_mut().enumerate().take(form.k) {
            *value = element(b, form.b, 8, n, k);
        }
    }
    for row in 0..form.m {
        let mut values = [0_u64; 64];
        for (k, value) in values.iter_mut().enumerate().take(form.k) {
            *value = element(a, form.a, form.m, row, k);
        }
        for (n, column) in columns.iter().enumerate() {
            // The accumulator's rows lie like those of a matrix with 8 columns, the halves of the rows one after the other.
            let (_, lane, _) = place(8, 16, row % 8, n);
            let (register, bit) = match form.d {
                Type::F16 => (row / 8, n % 2 * 16),
                _ => (row / 8 * 2 + n % 2, 0),
            };
            let start = c[register][lane] >> bit;
            let sum = match form.d {
                Type::S32 => integers(form, &values[..form.k], &column[..form.k], start),
                _ => floats(form, &values[..form.k], &column[..form.k], start),
            };
            d[register][lane] |= sum << bit;
        }
    }
    d
}

fn integers(form: Mma, a: &[u64], b: &[u64], c: u32) -> u32 {
    let sum: i64 = a
        .iter()
        .zip(b)
        .map(|(a, b)| {
            (extend(*a, form.a.bits(), form.a.signed())
                * extend(*b, form.b.bits(), form.b.signed())) as i64
        })
        .sum();
    let sum = sum + i64::from(c as i32);
    (if form.sat {
        sum.clamp(i32::MIN.into(), i32::MAX.into())
    } else {
        sum
    }) as u32
}

fn floats(form: Mma, a: &[u64], b: &[u64], c: u32) -> u32 {
    let (a_format, b_format, d_format) = (form.a.format(), form.b.format(), form.d.format());
    // In the upper bits of an f32.
    let drop = |of: Type| if of == Type::Tf32 { 13 } else { 0 };
    let (a_drop, b_drop) = (drop(form.a), drop(form.b));
    let read =
        |format: Format, drop: u32, bits: u64| (bits >> drop) & (format.sign() | format.nan());
    // Every term as a significand of at most 24 bits, and the exponent of its last bit; special ones are summed apart.
    let mut terms = [(0_i64, i32::MIN / 2, 0); 65];
    let mut special = None;
    for (term, (a, b)) in terms.iter_mut().zip(a.iter().zip(b)) {
        let (a, b) = (read(a_format, a_drop, *a), read(b_format, b_drop, *b));
        if let Some(value) = infinite(a_format, a, b_format, b) {
            special = Some(special.unwrap_or(0.0) + value);
            continue;
        }
        let product = Number::unpack(a_format, a).mul(Number::unpack(b_format, b));
        *term = align(product, (a_format.fraction + b_format.fraction) as i32);
    }
    let c = read(d_format, 0, c.into());
    if let Some(value) = infinite(d_format, c, soft::F32, 1.0_f32.to_bits().into()) {
        special = Some(special.unwrap_or(0.0) + value);
    } else {
        terms[64] = align(Number::unpack(d_format, c), d_format.fraction as i32);
    }
    if let Some(value) = special {
        return match () {
            () if value.is_nan() => d_format.nan() as u32,
            () => ((if value < 0.0 { d_format.sign() } else { 0 }) | d_format.infinity()) as u32,
        };
    }
    let largest = terms.iter().map(|term| term.1).max().unwrap_or(0);
    let last = largest - 25;
    let sum: i64 = terms
        .iter()
        .map(|(significand, _, exponent)| cut(*significand, exponent - last))
        .sum();
    let number = Number {
        negative: sum < 0,
        exponent: last,
        significand: sum.unsigned_abs().into(),
    };
    number.round(
        d_format,
        if form.d == Type::F16 {
            Round::Near
        } else {
            Round::Zero
        },
    ) as u32
}

/// A significand with its sign, the exponent of its leading place (which may be 0 or, in a product, followed by another one), and that
/// of its last place.
fn align(number: Number, fraction: i32) -> (i64, i32, i32) {
    let significand = number.significand as i64;
    match significand {
        0 => (0, i32::MIN / 2, 0),
        _ => (
            if number.negative {
                -significand
            } else {
                significand
            },
            number.exponent + fraction,
            number.exponent,
        ),
    }
}

/// `significand × 2^shift` toward zero.
fn cut(significand: i64, shift: i32) -> i64 {
    match shift {
        0.. => significand << shift.min(38),
        -63..0 => significand / (1 << -shift),
        _ => 0,
    }
}

/// The product of two floats, if one is not finite.
fn infinite(a_format: Format, a: u64, b_format: Format, b: u64) -> Option<f32> {
    let value = |format: Format, bits: u64| match bits & format.nan() {
        _ if format.is_nan(bits) => f32::NAN,
        magnitude if magnitude == format.infinity() => f32::INFINITY,
        0 => 0.0,
        _ => 1.0,
    };
    let product = value(a_format, a) * value(b_format, b);
    let negative = (a & a_format.sign() != 0) != (b & b_format.sign() != 0);
    (!product.is_finite()).then_some(if negative { -product } else { product })
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

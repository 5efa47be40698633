//! What each PTX instruction computes, on scalars. To the bit where PTX defines it, and as an H200 answers where PTX leaves it open
//! (the bits of a NaN); the approximations are within the bounds of the manual. Section numbers are those of the PTX ISA 9.0.
//!
//! [`function`] is the table of the instructions that are a function of one lane.

#![allow(missing_docs, reason = "public for this crate's tests")]

pub mod convert;
pub mod float;
pub mod int;
pub mod mma;
mod numbers;
mod soft;
mod types;
pub mod video;

pub use types::{Class, Type};

/// A function of one lane: up to four operands and the result, each in the lower bits.
pub type Scalar = Box<dyn Fn([u64; 4]) -> u64 + Send + Sync>;

/// The rounding of a result: `.rn`, `.rz`, `.rm`, `.rp`, `.rna`; with an `i` (`.rni`) the result is an integer as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Round {
    /// To nearest, ties to even.
    #[default]
    Near,
    /// Toward zero.
    Zero,
    /// Toward negative infinity.
    Down,
    /// Toward positive infinity.
    Up,
    /// To nearest, ties away from zero.
    Away,
}

macro_rules! mode {
    ($($field:ident $($name:literal)|+;)*) => {
        /// The modifiers of an instruction, as far as they decide what it computes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Mode {
            pub round: Round,
            $(pub $field: bool,)*
        }

        impl Mode {
            pub const PLAIN: Self = Self { round: Round::Near, $($field: false,)* };

            pub fn of(modifiers: &[&str]) -> Self {
                let mut mode = Self::PLAIN;
                for modifier in modifiers {
                    match *modifier {
                        "rz" | "rzi" => mode.round = Round::Zero,
                        "rm" | "rmi" => mode.round = Round::Down,
                        "rp" | "rpi" => mode.round = Round::Up,
                        "rna" => mode.round = Round::Away,
                        _ => {}
                    }
                    match *modifier {
                        $($($name)|+ => mode.$field = true,)*
                        _ => {}
                    }
                }
                mode
            }
        }
    };
}

mode! {
    integer "rni" | "rzi" | "rmi" | "rpi";
    ftz "ftz";
    sat "sat";
    relu "relu";
    finite "satfinite";
    nan "NaN";
    xorsign "xorsign";
    approx "approx";
    full "full";
    oob "oob";
    high "hi";
    wide "wide";
    wrap "wrap";
    clamp "clamp";
    left "l";
    amount "shiftamt";
}

/// What instruction `name` with `count` operands computes on a type, and what its operands are: `t` has the type, `w` 32 bits, and `x`
/// the type of the result, which `.wide` makes twice as wide.
pub fn function(
    name: &str,
    count: usize,
    kind: Type,
    mode: Mode,
) -> Option<(&'static str, Scalar)> {
    let (element, two) = kind.element();
    if element.bits() > 64 || mode.wide && element.bits() > 32 {
        return None;
    }
    let rows = match element.class() {
        Class::Float(_) => float::rows(element),
        _ => [int::ROWS, &[]],
    };
    let fits = |row: &&Row| row.0 == name && row.1.len() == count;
    let (_, operands, make) = rows.into_iter().flatten().find(fits)?;
    let function = make(element, mode);
    Some((
        operands,
        if two {
            pairs(element.bits(), function)
        } else {
            function
        },
    ))
}

/// Both halves of packed operands, of `bits` bits each.
pub fn pairs(bits: u32, function: Scalar) -> Scalar {
    let mask = (1 << bits) - 1;
    Box::new(move |v| {
        let low = function(v.map(|value| value & mask)) & mask;
        low | (function(v.map(|value| value >> bits & mask)) & mask) << bits
    })
}

/// A row of a table: the name of an instruction, its operands, and what makes its function.
type Row = (&'static str, &'static str, fn(Type, Mode) -> Scalar);

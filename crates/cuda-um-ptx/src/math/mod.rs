//! What each PTX instruction computes, on scalars. To the bit where PTX defines it, and as an H200 answers where PTX leaves it open
//! (the bits of a NaN); the approximations are within the bounds of the manual. Section numbers are those of the PTX ISA 9.0.
//!
//! Arguments that do not change in a kernel (`Mode`, `Round`, `Type`, flags) are constant in a loop over lanes: the functions are
//! inlined there, and with [`Mode::default`] the arithmetic of `f32` and `f64` is one operation of the CPU and a selection of the NaN.

pub mod approx;
pub mod convert;
pub mod float;
pub mod int;
pub mod mma;
mod soft;
pub mod video;

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

/// The modifiers of floating-point arithmetic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mode {
    /// How results are rounded.
    pub round: Round,
    /// `.ftz`: subnormal inputs and results become zeros of their sign.
    pub ftz: bool,
    /// `.sat`: results are clamped to 0 to 1; a NaN becomes 0.
    pub sat: bool,
    /// `.relu`: negative results become 0; a NaN stays one.
    pub relu: bool,
}

/// A type of an operand, where the type decides what is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of PTX")]
pub enum Type {
    U4,
    U8,
    U16,
    U32,
    U64,
    S4,
    S8,
    S16,
    S32,
    S64,
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
    E4m3,
    E5m2,
}

/// Applies `f` to the two halves of a packed register (`.f16x2`, `.bf16x2`, `.u16x2`, `.s16x2`).
#[inline(always)]
pub fn halves<const N: usize>(packed: [u32; N], f: impl Fn([u16; N]) -> u16) -> u32 {
    let low = f(packed.map(|word| word as u16));
    let high = f(packed.map(|word| (word >> 16) as u16));
    u32::from(high) << 16 | u32::from(low)
}

//! Approximations: 9.7.3.8 (div), 9.7.3.13 to 9.7.3.22, 9.7.4.9, 9.7.4.10. Each is the exact value rounded once, so that the error is
//! half a unit in the last place, within every bound of the manual; the device's results differ from these in the last bits.

use super::float::Float;
use super::soft;

/// The result of an operation whose value is `exact`; NaN is the canonical one.
#[inline(always)]
fn result<F: Float>(exact: f64, ftz: bool) -> F {
    if exact.is_nan() {
        F::from_bits(F::FORMAT.nan())
    } else {
        F::near(exact).flush(ftz)
    }
}

/// `div.approx` (at most 2 units, and 0 or NaN by a divisor above 2^126), and `div.full` with `full`.
#[inline(always)]
pub fn div(a: f32, b: f32, ftz: bool, full: bool) -> f32 {
    let [a, b] = [a.flush(ftz), b.flush(ftz)];
    if !full && b.abs() > 2_f32.powi(126) && b.is_finite() {
        return result(
            if a.is_infinite() {
                f64::NAN
            } else {
                f64::from(a) * 0_f64.copysign(b.into())
            },
            ftz,
        );
    }
    result(f64::from(a) / f64::from(b), ftz)
}

/// `rcp.approx`.
#[inline(always)]
pub fn rcp(a: f32, ftz: bool) -> f32 {
    result(1.0 / f64::from(a.flush(ftz)), ftz)
}

/// `sqrt.approx`.
#[inline(always)]
pub fn sqrt(a: f32, ftz: bool) -> f32 {
    result(f64::from(a.flush(ftz)).sqrt(), ftz)
}

/// `rsqrt.approx`.
#[inline(always)]
pub fn rsqrt(a: f32, ftz: bool) -> f32 {
    result(1.0 / f64::from(a.flush(ftz)).sqrt(), ftz)
}

/// `rcp.approx.ftz.f64`, `rsqrt.approx.ftz.f64`: only the upper 32 bits of operand and result are used.
fn coarse(a: f64, function: impl Fn(f64) -> f64) -> f64 {
    let exact = function(f64::from_bits(a.to_bits() & !0xffff_ffff).flush(true)).flush(true);
    if exact.is_nan() {
        f64::from_bits(soft::F64.nan() & !0xffff_ffff)
    } else {
        f64::from_bits(exact.to_bits() & !0xffff_ffff)
    }
}

/// `rcp.approx.ftz.f64`.
pub fn rcp_f64(a: f64) -> f64 {
    coarse(a, |a| 1.0 / a)
}

/// `rsqrt.approx.ftz.f64`.
pub fn rsqrt_coarse(a: f64) -> f64 {
    coarse(a, |a| 1.0 / a.sqrt())
}

/// `rsqrt.approx.f64`.
pub fn rsqrt_f64(a: f64) -> f64 {
    result(1.0 / a.sqrt(), false)
}

/// `ex2.approx`, of f32, f16 and bf16.
#[inline(always)]
pub fn ex2<F: Float>(a: F, ftz: bool) -> F {
    result(a.flush(ftz).to_f64().exp2(), ftz)
}

/// `lg2.approx`.
#[inline(always)]
pub fn lg2(a: f32, ftz: bool) -> f32 {
    result(f64::from(a.flush(ftz)).log2(), ftz)
}

/// `sin.approx`.
#[inline(always)]
pub fn sin(a: f32, ftz: bool) -> f32 {
    result(f64::from(a.flush(ftz)).sin(), ftz)
}

/// `cos.approx`.
#[inline(always)]
pub fn cos(a: f32, ftz: bool) -> f32 {
    result(f64::from(a.flush(ftz)).cos(), ftz)
}

/// `tanh.approx`, of f32, f16 and bf16.
#[inline(always)]
pub fn tanh<F: Float>(a: F) -> F {
    result(a.to_f64().tanh(), false)
}

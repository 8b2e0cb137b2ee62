//! exp, tanh, erf on the 16-lane vector: the same polynomial everywhere, so that no platform's libm decides our bits.

use super::Simd;

const LOG2E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts, the first exact in few bits (Cephes expf).
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// 1.5·2²³: adding it rounds to an integer that then sits in the low bits of the pattern.
const ROUND: f32 = 12_582_912.0;

/// e^x for any finite x; below −87 it stays at e^−87 ≈ 1.6e-38, above 88 at e^88.
#[inline(always)]
pub unsafe fn exp<S: Simd>(x: S::V) -> S::V {
    unsafe { exp_neg::<S>(S::min(x, S::splat(88.0))) }
}

/// `exp` for x ≤ 88.
#[inline(always)]
pub unsafe fn exp_neg<S: Simd>(x: S::V) -> S::V {
    unsafe {
        let x = S::max(x, S::splat(-87.0));
        let t = S::fma(x, S::splat(LOG2E), S::splat(ROUND));
        let n = S::sub(t, S::splat(ROUND));
        let r = S::fma(n, S::splat(-LN2_HIGH), x);
        let r = S::fma(n, S::splat(-LN2_LOW), r);
        let p = S::splat(1.987_569_1e-4);
        let p = S::fma(p, r, S::splat(1.398_2e-3));
        let p = S::fma(p, r, S::splat(8.333_452e-3));
        let p = S::fma(p, r, S::splat(4.166_579_6e-2));
        let p = S::fma(p, r, S::splat(1.666_666_5e-1));
        let p = S::fma(p, r, S::splat(0.5));
        let p = S::fma(p, S::mul(r, r), S::add(r, S::splat(1.0)));
        S::add_exponent(p, t)
    }
}

/// 1 / (1 + e^−x)
#[inline(always)]
pub unsafe fn sigmoid<S: Simd>(x: S::V) -> S::V {
    unsafe {
        let one = S::splat(1.0);
        S::div(one, S::add(one, exp::<S>(S::sub(S::zero(), x))))
    }
}

/// 1 − 2 / (e^2x + 1)
#[inline(always)]
pub unsafe fn tanh<S: Simd>(x: S::V) -> S::V {
    unsafe {
        let e = exp::<S>(S::add(x, x));
        S::sub(S::splat(1.0), S::div(S::splat(2.0), S::add(e, S::splat(1.0))))
    }
}

/// Abramowitz and Stegun 7.1.26, absolute error below 1.5e-7.
#[inline(always)]
pub unsafe fn erf<S: Simd>(x: S::V) -> S::V {
    unsafe {
        let one = S::splat(1.0);
        let a = S::max(x, S::sub(S::zero(), x));
        let t = S::div(one, S::fma(a, S::splat(0.327_591_1), one));
        let p = S::splat(1.061_405_4);
        let p = S::fma(p, t, S::splat(-1.453_152));
        let p = S::fma(p, t, S::splat(1.421_413_8));
        let p = S::fma(p, t, S::splat(-0.284_496_74));
        let p = S::fma(p, t, S::splat(0.254_829_6));
        let e = exp_neg::<S>(S::sub(S::zero(), S::mul(a, a)));
        let y = S::sub(one, S::mul(S::mul(p, t), e));
        S::if_negative(x, S::sub(S::zero(), y), y)
    }
}

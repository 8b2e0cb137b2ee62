//! SwiGLU, GELU and the gated GELU. Backward turns, in place, (pre-activations, dA) into (their derivatives, A): the layer
//! needs A again for the weight's gradient and has no further use for the rest.

use crate::config::Mlp;
use crate::simd::{self, LANES, Simd};
use crate::simd_dispatch;

const SQRT_2_OVER_PI: f32 = 0.797_884_6;
const CUBIC: f32 = 0.044_715;

/// gelu and its slope.
#[inline(always)]
unsafe fn gelu<S: Simd>(kind: Mlp, x: S::V) -> (S::V, S::V) {
    unsafe {
        let (half, one) = (S::splat(0.5), S::splat(1.0));
        if kind == Mlp::GeluTanh {
            let x2 = S::mul(x, x);
            let u = S::mul(S::mul(S::splat(SQRT_2_OVER_PI), x), S::fma(S::splat(CUBIC), x2, one));
            let t = simd::tanh::<S>(u);
            let cdf = S::mul(half, S::add(one, t));
            let du = S::mul(S::splat(SQRT_2_OVER_PI), S::fma(S::splat(3.0 * CUBIC), x2, one));
            let slope = S::mul(S::mul(half, S::sub(one, S::mul(t, t))), du);
            (S::mul(x, cdf), S::fma(x, slope, cdf))
        } else {
            let cdf = S::mul(half, S::add(one, simd::erf::<S>(S::mul(x, S::splat(std::f32::consts::FRAC_1_SQRT_2)))));
            let density = S::mul(S::splat(0.398_942_3), simd::exp_neg::<S>(S::mul(S::splat(-0.5), S::mul(x, x))));
            (S::mul(x, cdf), S::fma(x, density, cdf))
        }
    }
}

/// `gate` is null for the GELUs. Rows are contiguous, `len` a multiple of 16.
#[inline(always)]
unsafe fn forward<S: Simd>(kind: Mlp, len: usize, gate: *const f32, up: *const f32, out: *mut f32) {
    unsafe {
        let mut i = 0;
        while i < len {
            let u = S::load(up.add(i));
            let v = match kind {
                Mlp::SwiGlu => {
                    let g = S::load(gate.add(i));
                    S::mul(S::mul(g, simd::sigmoid::<S>(g)), u)
                }
                Mlp::GeGlu => S::mul(gelu::<S>(Mlp::GeluTanh, S::load(gate.add(i))).0, u),
                Mlp::GeluTanh | Mlp::Gelu => gelu::<S>(kind, u).0,
            };
            S::store(out.add(i), v);
            i += LANES;
        }
    }
}

#[inline(always)]
unsafe fn backward<S: Simd>(kind: Mlp, len: usize, gate: *mut f32, up: *mut f32, da: *mut f32) {
    unsafe {
        let one = S::splat(1.0);
        let mut i = 0;
        while i < len {
            let (u, d) = (S::load(up.add(i)), S::load(da.add(i)));
            if kind.is_gated() {
                let g = S::load(gate.add(i));
                let (value, slope) = if kind == Mlp::SwiGlu {
                    let s = simd::sigmoid::<S>(g);
                    // silu' = s·(1 + g·(1 − s))
                    (S::mul(g, s), S::mul(s, S::fma(g, S::sub(one, s), one)))
                } else {
                    gelu::<S>(Mlp::GeluTanh, g)
                };
                S::store(gate.add(i), S::mul(S::mul(d, u), slope));
                S::store(up.add(i), S::mul(d, value));
                S::store(da.add(i), S::mul(value, u));
            } else {
                let (value, slope) = gelu::<S>(kind, u);
                S::store(up.add(i), S::mul(d, slope));
                S::store(da.add(i), value);
            }
            i += LANES;
        }
    }
}

#[inline(always)]
unsafe fn add_all<S: Simd>(len: usize, x: *const f32, by: f32, to: *mut f32) {
    unsafe {
        let by = S::splat(by);
        let mut i = 0;
        while i < len {
            S::store(to.add(i), S::fma(by, S::load(to.add(i)), S::load(x.add(i))));
            i += LANES;
        }
    }
}

#[inline(always)]
unsafe fn scale_all<S: Simd>(len: usize, by: f32, x: *mut f32) {
    unsafe {
        let by = S::splat(by);
        let mut i = 0;
        while i < len {
            S::store(x.add(i), S::mul(S::load(x.add(i)), by));
            i += LANES;
        }
    }
}

simd_dispatch! {
    pub unsafe fn activate = forward(kind: Mlp, len: usize, gate: *const f32, up: *const f32, out: *mut f32);
    pub unsafe fn activate_backward = backward(kind: Mlp, len: usize, gate: *mut f32, up: *mut f32, da: *mut f32);
    /// `to = x + by·to`; `len` a multiple of 16.
    pub unsafe fn add_scaled = add_all(len: usize, x: *const f32, by: f32, to: *mut f32);
    /// `len` a multiple of 16.
    pub unsafe fn scale = scale_all(len: usize, by: f32, x: *mut f32);
}

//! NEON: four registers of four lanes.

use super::{LANES, Simd};
use std::arch::aarch64::*;

#[derive(Clone, Copy)]
pub struct Neon;

type V = [float32x4_t; 4];

macro_rules! each {
    ($i:ident => $e:expr) => {
        unsafe {
            let f = |$i: usize| $e;
            [f(0), f(1), f(2), f(3)]
        }
    };
}

impl Simd for Neon {
    type V = V;
    const MR: usize = 6;
    const NP: usize = 1;
    const UR: usize = 6;
    const UP: usize = 1;

    #[inline(always)]
    unsafe fn splat(x: f32) -> V {
        each!(_i => vdupq_n_f32(x))
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> V {
        each!(i => vld1q_f32(p.add(4 * i)))
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: V) {
        for (i, x) in v.into_iter().enumerate() {
            unsafe { vst1q_f32(p.add(4 * i), x) }
        }
    }
    #[inline(always)]
    unsafe fn add(a: V, b: V) -> V {
        each!(i => vaddq_f32(a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn sub(a: V, b: V) -> V {
        each!(i => vsubq_f32(a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn mul(a: V, b: V) -> V {
        each!(i => vmulq_f32(a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn div(a: V, b: V) -> V {
        each!(i => vdivq_f32(a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn sqrt(a: V) -> V {
        each!(i => vsqrtq_f32(a[i]))
    }
    #[inline(always)]
    unsafe fn fma(a: V, b: V, c: V) -> V {
        each!(i => vfmaq_f32(c[i], a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn max(a: V, b: V) -> V {
        each!(i => vbslq_f32(vcgtq_f32(a[i], b[i]), a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn min(a: V, b: V) -> V {
        each!(i => vbslq_f32(vcltq_f32(a[i], b[i]), a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn add_exponent(p: V, n: V) -> V {
        each!(i => vreinterpretq_f32_u32(vaddq_u32(
            vreinterpretq_u32_f32(p[i]),
            vshlq_n_u32::<23>(vreinterpretq_u32_f32(n[i]))
        )))
    }
    #[inline(always)]
    unsafe fn select(v: V, lo: usize, hi: usize, other: V) -> V {
        unsafe {
            let (mut a, mut b) = ([0f32; LANES], [0f32; LANES]);
            Self::store(a.as_mut_ptr(), v);
            Self::store(b.as_mut_ptr(), other);
            b[lo..hi.max(lo)].copy_from_slice(&a[lo..hi.max(lo)]);
            Self::load(b.as_ptr())
        }
    }
    #[inline(always)]
    unsafe fn if_negative(x: V, a: V, b: V) -> V {
        each!(i => vbslq_f32(vcltzq_s32(vreinterpretq_s32_f32(x[i])), a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn reduce_add(v: V) -> f32 {
        unsafe {
            let f = vaddq_f32(vaddq_f32(v[0], v[2]), vaddq_f32(v[1], v[3]));
            let g = vadd_f32(vget_low_f32(f), vget_high_f32(f));
            vget_lane_f32::<0>(g) + vget_lane_f32::<1>(g)
        }
    }
    #[inline(always)]
    unsafe fn reduce_max(v: V) -> f32 {
        unsafe { vmaxvq_f32(vmaxq_f32(vmaxq_f32(v[0], v[1]), vmaxq_f32(v[2], v[3]))) }
    }
}

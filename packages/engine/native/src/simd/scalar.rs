//! The reference implementation: plain arrays.

use super::{LANES, Simd};

#[derive(Clone, Copy)]
pub struct Scalar;

#[inline(always)]
fn map2(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl Simd for Scalar {
    type V = [f32; LANES];
    const MR: usize = 4;
    const NP: usize = 1;
    const UR: usize = 4;
    const UP: usize = 1;
    const FUSES: bool = false;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        [x; LANES]
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::V {
        unsafe { p.cast::<Self::V>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: Self::V) {
        unsafe { p.cast::<Self::V>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        map2(a, b, |x, y| x + y)
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        map2(a, b, |x, y| x - y)
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        map2(a, b, |x, y| x * y)
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        map2(a, b, |x, y| x / y)
    }
    #[inline(always)]
    unsafe fn sqrt(a: Self::V) -> Self::V {
        a.map(f32::sqrt)
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        map2(a, b, |x, y| if x > y { x } else { y })
    }
    #[inline(always)]
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V {
        map2(a, b, |x, y| if x < y { x } else { y })
    }
    #[inline(always)]
    unsafe fn add_exponent(p: Self::V, n: Self::V) -> Self::V {
        map2(p, n, |x, y| f32::from_bits(x.to_bits().wrapping_add(y.to_bits() << 23)))
    }
    #[inline(always)]
    unsafe fn select(v: Self::V, lo: usize, hi: usize, other: Self::V) -> Self::V {
        std::array::from_fn(|i| if i >= lo && i < hi { v[i] } else { other[i] })
    }
    #[inline(always)]
    unsafe fn if_negative(x: Self::V, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| if x[i].to_bits() >> 31 == 1 { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn reduce_add(v: Self::V) -> f32 {
        let e: [f32; 8] = std::array::from_fn(|i| v[i] + v[i + 8]);
        let f: [f32; 4] = std::array::from_fn(|i| e[i] + e[i + 4]);
        (f[0] + f[2]) + (f[1] + f[3])
    }
    #[inline(always)]
    unsafe fn reduce_max(v: Self::V) -> f32 {
        v.into_iter().fold(v[0], |m, x| if x > m { x } else { m })
    }
}

//! AVX2 with FMA: two registers of eight lanes.

use super::chance::{FACTORS, LANE_STEP};
use super::{LANES, Simd};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub struct Avx2;

/// Window into this gives a mask of lanes `lo..hi`: see `lane_mask`.
static STEP: [i32; 3 * LANES] = {
    let mut t = [0; 3 * LANES];
    let mut i = LANES;
    while i < 2 * LANES {
        t[i] = -1;
        i += 1;
    }
    t
};

#[inline(always)]
unsafe fn lane_mask(lo: usize, hi: usize) -> (__m256, __m256) {
    unsafe {
        let above = STEP.as_ptr().add(LANES - lo);
        let below = STEP.as_ptr().add(2 * LANES - hi);
        let read = |p: *const i32| _mm256_castsi256_ps(_mm256_loadu_si256(p.cast()));
        (_mm256_and_ps(read(above), read(below)), _mm256_and_ps(read(above.add(8)), read(below.add(8))))
    }
}

macro_rules! both {
    ($f:ident, $a:expr, $b:expr) => {
        unsafe { ($f($a.0, $b.0), $f($a.1, $b.1)) }
    };
}

impl Simd for Avx2 {
    type V = (__m256, __m256);
    const MR: usize = 6;
    const NP: usize = 1;
    const UR: usize = 6;
    const UP: usize = 1;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        unsafe {
            let v = _mm256_set1_ps(x);
            (v, v)
        }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::V {
        unsafe { (_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: Self::V) {
        unsafe {
            _mm256_storeu_ps(p, v.0);
            _mm256_storeu_ps(p.add(8), v.1)
        }
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        both!(_mm256_add_ps, a, b)
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        both!(_mm256_sub_ps, a, b)
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        both!(_mm256_mul_ps, a, b)
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        both!(_mm256_div_ps, a, b)
    }
    #[inline(always)]
    unsafe fn sqrt(a: Self::V) -> Self::V {
        unsafe { (_mm256_sqrt_ps(a.0), _mm256_sqrt_ps(a.1)) }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        unsafe { (_mm256_fmadd_ps(a.0, b.0, c.0), _mm256_fmadd_ps(a.1, b.1, c.1)) }
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        both!(_mm256_max_ps, a, b)
    }
    #[inline(always)]
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V {
        both!(_mm256_min_ps, a, b)
    }
    #[inline(always)]
    unsafe fn add_exponent(p: Self::V, n: Self::V) -> Self::V {
        #[inline(always)]
        unsafe fn one(p: __m256, n: __m256) -> __m256 {
            unsafe {
                let shifted = _mm256_slli_epi32::<23>(_mm256_castps_si256(n));
                _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), shifted))
            }
        }
        both!(one, p, n)
    }
    #[inline(always)]
    unsafe fn select(v: Self::V, lo: usize, hi: usize, other: Self::V) -> Self::V {
        unsafe {
            let m = lane_mask(lo, hi);
            (_mm256_blendv_ps(other.0, v.0, m.0), _mm256_blendv_ps(other.1, v.1, m.1))
        }
    }
    #[inline(always)]
    unsafe fn if_negative(x: Self::V, a: Self::V, b: Self::V) -> Self::V {
        unsafe { (_mm256_blendv_ps(b.0, a.0, x.0), _mm256_blendv_ps(b.1, a.1, x.1)) }
    }
    #[inline(always)]
    unsafe fn reduce_add(v: Self::V) -> f32 {
        unsafe {
            let e = _mm256_add_ps(v.0, v.1);
            let f = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps::<1>(e));
            let g = _mm_add_ps(f, _mm_movehl_ps(f, f));
            _mm_cvtss_f32(_mm_add_ss(g, _mm_shuffle_ps::<1>(g, g)))
        }
    }
    #[inline(always)]
    unsafe fn reduce_max(v: Self::V) -> f32 {
        unsafe {
            let e = _mm256_max_ps(v.0, v.1);
            let f = _mm_max_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps::<1>(e));
            let g = _mm_max_ps(f, _mm_movehl_ps(f, f));
            _mm_cvtss_f32(_mm_max_ss(g, _mm_shuffle_ps::<1>(g, g)))
        }
    }
    #[inline(always)]
    unsafe fn from_bf16(p: *const u16) -> Self::V {
        #[inline(always)]
        unsafe fn one(p: *const u16) -> __m256 {
            unsafe { _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast())))) }
        }
        unsafe { (one(p), one(p.add(8))) }
    }
    #[inline(always)]
    unsafe fn from_f16(p: *const u16) -> Self::V {
        unsafe { (_mm256_cvtph_ps(_mm_loadu_si128(p.cast())), _mm256_cvtph_ps(_mm_loadu_si128(p.add(8).cast()))) }
    }
    #[inline(always)]
    unsafe fn from_u8(p: *const u8) -> Self::V {
        unsafe { wide(_mm_loadu_si128(p.cast())) }
    }
    #[inline(always)]
    unsafe fn from_i8(p: *const i8) -> Self::V {
        unsafe {
            let bytes = _mm_loadu_si128(p.cast());
            let upper = _mm_unpackhi_epi64(bytes, bytes);
            (_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(upper)))
        }
    }
    #[inline(always)]
    unsafe fn nibbles(p: *const u8) -> (Self::V, Self::V) {
        unsafe {
            let (both, mask) = (_mm_loadu_si128(p.cast()), _mm_set1_epi8(15));
            (wide(_mm_and_si128(both, mask)), wide(_mm_and_si128(_mm_srli_epi16::<4>(both), mask)))
        }
    }
    #[inline(always)]
    unsafe fn store_bf16_by_chance(to_a: *mut u16, a: Self::V, to_b: *mut u16, b: Self::V, key: u32) {
        #[inline(always)]
        unsafe fn chance(key: u32, lanes: __m256i) -> __m256i {
            unsafe {
                let factor = |at: usize| _mm256_set1_epi32(FACTORS[at] as i32);
                let mut x = _mm256_add_epi32(_mm256_set1_epi32(key as i32), _mm256_mullo_epi32(lanes, _mm256_set1_epi32(LANE_STEP as i32)));
                x = _mm256_mullo_epi32(_mm256_xor_si256(x, _mm256_srli_epi32::<16>(x)), factor(0));
                x = _mm256_mullo_epi32(_mm256_xor_si256(x, _mm256_srli_epi32::<15>(x)), factor(1));
                _mm256_xor_si256(x, _mm256_srli_epi32::<16>(x))
            }
        }
        unsafe {
            let low = chance(key, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
            let high = chance(key, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15));
            let round = |v, chance| _mm256_srli_epi32::<16>(_mm256_add_epi32(_mm256_castps_si256(v), chance));
            // Packing goes by halves of a register: they are put in order after it.
            let store = |to: *mut u16, low, high| {
                let packed = _mm256_permute4x64_epi64::<0xd8>(_mm256_packus_epi32(low, high));
                _mm256_storeu_si256(to.cast(), packed)
            };
            store(to_a, round(a.0, _mm256_srli_epi32::<16>(low)), round(a.1, _mm256_srli_epi32::<16>(high)));
            let mask = _mm256_set1_epi32(0xffff);
            store(to_b, round(b.0, _mm256_and_si256(low, mask)), round(b.1, _mm256_and_si256(high, mask)));
        }
    }
    #[inline(always)]
    unsafe fn add_where(bits: u16, v: Self::V, x: f32) -> Self::V {
        unsafe {
            let (bits, x) = (_mm256_set1_epi32(i32::from(bits)), _mm256_set1_ps(x));
            let part = |of: __m256i| _mm256_and_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(bits, of), of)), x);
            let low = part(_mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128));
            let high = part(_mm256_setr_epi32(256, 512, 1024, 2048, 4096, 8192, 16384, 32768));
            (_mm256_add_ps(v.0, low), _mm256_add_ps(v.1, high))
        }
    }
    #[inline(always)]
    unsafe fn transpose(src: *const f32, src_stride: usize, dst: *mut f32, dst_stride: usize) {
        for (i, j) in [(0, 0), (0, 8), (8, 0), (8, 8)] {
            unsafe { transpose8(src.add(i * src_stride + j), src_stride, dst.add(j * dst_stride + i), dst_stride) }
        }
    }
}

/// 16 bytes as numbers.
#[inline(always)]
unsafe fn wide(bytes: __m128i) -> (__m256, __m256) {
    unsafe {
        let upper = _mm_unpackhi_epi64(bytes, bytes);
        (_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(upper)))
    }
}

#[inline(always)]
unsafe fn transpose8(src: *const f32, src_stride: usize, dst: *mut f32, dst_stride: usize) {
    unsafe {
        let mut r = [_mm256_setzero_ps(); 8];
        for (i, x) in r.iter_mut().enumerate() {
            *x = _mm256_loadu_ps(src.add(i * src_stride));
        }
        let mut t = r;
        for i in 0..4 {
            t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
            t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
        }
        for i in 0..2 {
            r[4 * i] = _mm256_shuffle_ps::<0x44>(t[4 * i], t[4 * i + 2]);
            r[4 * i + 1] = _mm256_shuffle_ps::<0xee>(t[4 * i], t[4 * i + 2]);
            r[4 * i + 2] = _mm256_shuffle_ps::<0x44>(t[4 * i + 1], t[4 * i + 3]);
            r[4 * i + 3] = _mm256_shuffle_ps::<0xee>(t[4 * i + 1], t[4 * i + 3]);
        }
        for c in 0..4 {
            _mm256_storeu_ps(dst.add(c * dst_stride), _mm256_permute2f128_ps::<0x20>(r[c], r[4 + c]));
            _mm256_storeu_ps(dst.add((4 + c) * dst_stride), _mm256_permute2f128_ps::<0x31>(r[c], r[4 + c]));
        }
    }
}

//! AVX-512: one register.

use super::chance::{FACTORS, LANE_STEP};
use super::{LANES, Simd};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub struct Avx512;

impl Simd for Avx512 {
    type V = __m512;
    // Eleven loads for 24 multiply-adds: some processors manage no more than one load for two of them.
    const MR: usize = 8;
    const NP: usize = 3;
    const UR: usize = 6;
    const UP: usize = 4;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::V {
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: Self::V) {
        unsafe { _mm512_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sqrt(a: Self::V) -> Self::V {
        unsafe { _mm512_sqrt_ps(a) }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V {
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn add_exponent(p: Self::V, n: Self::V) -> Self::V {
        unsafe {
            let shifted = _mm512_slli_epi32::<23>(_mm512_castps_si512(n));
            _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), shifted))
        }
    }
    #[inline(always)]
    unsafe fn select(v: Self::V, lo: usize, hi: usize, other: Self::V) -> Self::V {
        let mask = (((1u32 << hi) - 1) & !((1u32 << lo) - 1)) as u16;
        unsafe { _mm512_mask_blend_ps(mask, other, v) }
    }
    #[inline(always)]
    unsafe fn if_negative(x: Self::V, a: Self::V, b: Self::V) -> Self::V {
        unsafe {
            let mask = _mm512_movepi32_mask(_mm512_castps_si512(x));
            _mm512_mask_blend_ps(mask, b, a)
        }
    }
    #[inline(always)]
    unsafe fn reduce_add(v: Self::V) -> f32 {
        unsafe {
            let e = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps::<1>(v));
            let f = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps::<1>(e));
            let g = _mm_add_ps(f, _mm_movehl_ps(f, f));
            _mm_cvtss_f32(_mm_add_ss(g, _mm_shuffle_ps::<1>(g, g)))
        }
    }
    #[inline(always)]
    unsafe fn reduce_max(v: Self::V) -> f32 {
        unsafe {
            let e = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps::<1>(v));
            let f = _mm_max_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps::<1>(e));
            let g = _mm_max_ps(f, _mm_movehl_ps(f, f));
            _mm_cvtss_f32(_mm_max_ss(g, _mm_shuffle_ps::<1>(g, g)))
        }
    }
    #[inline(always)]
    unsafe fn from_bf16(p: *const u16) -> Self::V {
        unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast())))) }
    }
    #[inline(always)]
    unsafe fn from_f16(p: *const u16) -> Self::V {
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
    }
    #[inline(always)]
    unsafe fn from_u8(p: *const u8) -> Self::V {
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn from_i8(p: *const i8) -> Self::V {
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn nibbles(p: *const u8) -> (Self::V, Self::V) {
        unsafe {
            // The permutation looks at the lowest four bits alone.
            let table = _mm512_setr_ps(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0);
            let both = _mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast()));
            // The upper half within the last bits of 2¹⁹, whose unit is a sixteenth.
            let upper = _mm512_ternarylogic_epi32::<0xf8>(_mm512_set1_epi32(0x4900_0000), both, _mm512_set1_epi32(0xf0));
            (_mm512_permutexvar_ps(both, table), _mm512_sub_ps(_mm512_castsi512_ps(upper), _mm512_set1_ps(524_288.0)))
        }
    }
    #[inline(always)]
    unsafe fn store_bf16_by_chance(to_a: *mut u16, a: Self::V, to_b: *mut u16, b: Self::V, key: u32) {
        unsafe {
            let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            let factor = |at: usize| _mm512_set1_epi32(FACTORS[at] as i32);
            let mut x = _mm512_add_epi32(_mm512_set1_epi32(key as i32), _mm512_mullo_epi32(lanes, _mm512_set1_epi32(LANE_STEP as i32)));
            x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32::<16>(x)), factor(0));
            x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32::<15>(x)), factor(1));
            x = _mm512_xor_si512(x, _mm512_srli_epi32::<16>(x));
            let round = |v, chance| _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(_mm512_add_epi32(_mm512_castps_si512(v), chance)));
            _mm256_storeu_si256(to_a.cast(), round(a, _mm512_srli_epi32::<16>(x)));
            _mm256_storeu_si256(to_b.cast(), round(b, _mm512_and_si512(x, _mm512_set1_epi32(0xffff))));
        }
    }
    #[inline(always)]
    unsafe fn add_where(bits: u16, v: Self::V, x: f32) -> Self::V {
        unsafe { _mm512_mask_add_ps(v, bits, v, _mm512_set1_ps(x)) }
    }
    #[inline(always)]
    unsafe fn transpose(src: *const f32, src_stride: usize, dst: *mut f32, dst_stride: usize) {
        unsafe {
            let mut r = [_mm512_setzero_ps(); LANES];
            for (i, x) in r.iter_mut().enumerate() {
                *x = _mm512_loadu_ps(src.add(i * src_stride));
            }
            let mut t = [_mm512_setzero_pd(); LANES];
            for i in 0..8 {
                t[2 * i] = _mm512_castps_pd(_mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]));
                t[2 * i + 1] = _mm512_castps_pd(_mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]));
            }
            // r[4i + c]: column c of each 4×4 block of rows 4i..4i+4
            for i in 0..4 {
                r[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(t[4 * i], t[4 * i + 2]));
                r[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(t[4 * i], t[4 * i + 2]));
                r[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(t[4 * i + 1], t[4 * i + 3]));
                r[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(t[4 * i + 1], t[4 * i + 3]));
            }
            for c in 0..4 {
                let a = _mm512_shuffle_f32x4::<0x88>(r[c], r[4 + c]);
                let b = _mm512_shuffle_f32x4::<0xdd>(r[c], r[4 + c]);
                let d = _mm512_shuffle_f32x4::<0x88>(r[8 + c], r[12 + c]);
                let e = _mm512_shuffle_f32x4::<0xdd>(r[8 + c], r[12 + c]);
                _mm512_storeu_ps(dst.add(c * dst_stride), _mm512_shuffle_f32x4::<0x88>(a, d));
                _mm512_storeu_ps(dst.add((4 + c) * dst_stride), _mm512_shuffle_f32x4::<0x88>(b, e));
                _mm512_storeu_ps(dst.add((8 + c) * dst_stride), _mm512_shuffle_f32x4::<0xdd>(a, d));
                _mm512_storeu_ps(dst.add((12 + c) * dst_stride), _mm512_shuffle_f32x4::<0xdd>(b, e));
            }
        }
    }
}

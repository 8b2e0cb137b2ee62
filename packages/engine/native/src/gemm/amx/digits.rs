//! Rows of f32 as three balanced base-256 digits each: `x = s·(65536·d₁ + 256·d₂ + d₃)` with one scale `s` a row, so that the largest
//! magnitude of the row has 23 bits and the digits are signed bytes.

use std::arch::x86_64::*;

/// Along the contraction, covered by one tile.
pub const STEP: usize = 64;
/// Bytes of one tile (16 rows of 64), and of one step: the tiles of d₁, d₂, d₃.
pub const TILE: usize = 1024;
pub const STEP_BYTES: usize = 3 * TILE;

pub fn steps(k: usize) -> usize {
    k.div_ceil(STEP)
}

/// A little below the largest value three balanced digits hold, so that rounding cannot pass that.
const LARGEST: f32 = (127 * 65536 + 127 * 256 + 120) as f32;
/// Rows below this are taken for zero, so that the inverse of the scale is finite.
const TINY: f32 = 1e-30;

/// `(1/s, s)` for rows whose largest magnitudes have the bits `largest`. A NaN or an infinity makes the scale one, and so all that is computed with it.
#[inline(always)]
unsafe fn scales(largest: __m512i) -> (__m512, __m512) {
    unsafe {
        let largest = _mm512_castsi512_ps(largest);
        // "Not less": NaN counts as large.
        let present = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(largest, _mm512_set1_ps(TINY));
        let limit = _mm512_set1_ps(LARGEST);
        (_mm512_maskz_div_ps(present, limit, largest), _mm512_maskz_div_ps(present, largest, limit))
    }
}

/// Bits of the magnitude: as integers they order like the floats, with NaN above infinity.
#[inline(always)]
unsafe fn magnitude(x: __m512) -> __m512i {
    unsafe { _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fff_ffff)) }
}

/// The digits in the low three bytes of each lane, d₃ lowest.
#[inline(always)]
unsafe fn digits(x: __m512, inverse: __m512) -> __m512i {
    unsafe {
        let q = _mm512_cvtps_epi32(_mm512_mul_ps(x, inverse));
        // Adding 128 to every digit carries as it should; flipping the top bit of each takes it off again.
        let half = _mm512_set1_epi32(0x0080_8080);
        _mm512_xor_si512(_mm512_add_epi32(q, half), half)
    }
}

/// 16 floats starting at `p`, of which the first `valid` exist.
#[inline(always)]
unsafe fn load(p: *const f32, valid: usize) -> __m512 {
    unsafe { if valid >= 16 { _mm512_loadu_ps(p) } else { _mm512_maskz_loadu_ps(((1u32 << valid) - 1) as __mmask16, p) } }
}

/// Byte `32·half + i` of the result: digit `first − half` of lane i, the lanes of two registers in turn.
const fn picks(first: u8, second: u8) -> [u8; 64] {
    let mut t = [0u8; 64];
    let mut i = 0;
    while i < 32 {
        t[i] = 4 * i as u8 + first;
        t[32 + i] = 4 * i as u8 + second;
        i += 1;
    }
    t
}
static UPPER: [u8; 64] = picks(2, 1);
static LOWER: [u8; 64] = picks(0, 0);

/// Left operand: up to 16 rows of `source` (`[rows][k]`) as tiles of 16 rows × 64, step after step at `to`, and their scales. Absent rows are zero.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub unsafe fn rows(source: *const f32, stride: usize, rows: usize, k: usize, to: *mut u8, scale: *mut f32) {
    unsafe {
        let (upper, lower) = (_mm512_loadu_si512(UPPER.as_ptr().cast()), _mm512_loadu_si512(LOWER.as_ptr().cast()));
        for i in 0..16 {
            let mut largest = _mm512_setzero_si512();
            let row = source.wrapping_add(i * stride);
            let there = if i < rows { k } else { 0 };
            for at in (0..there).step_by(16) {
                largest = _mm512_max_epu32(largest, magnitude(load(row.add(at), there - at)));
            }
            let (inverse, back) = scales(_mm512_set1_epi32(_mm512_reduce_max_epu32(largest) as i32));
            *scale.add(i) = _mm512_cvtss_f32(back);
            for step in 0..steps(k) {
                let to = to.add(step * STEP_BYTES + i * 64);
                let part = |j: usize| {
                    let at = step * STEP + j * 16;
                    if at < there { digits(load(row.add(at), there - at), inverse) } else { _mm512_setzero_si512() }
                };
                let (a, b, c, d) = (part(0), part(1), part(2), part(3));
                let (ab, cd) = (_mm512_permutex2var_epi8(a, upper, b), _mm512_permutex2var_epi8(c, upper, d));
                let (ab3, cd3) = (_mm512_permutex2var_epi8(a, lower, b), _mm512_permutex2var_epi8(c, lower, d));
                _mm512_store_si512(to.cast(), _mm512_shuffle_i64x2::<0x44>(ab, cd));
                _mm512_store_si512(to.add(TILE).cast(), _mm512_shuffle_i64x2::<0xee>(ab, cd));
                _mm512_store_si512(to.add(2 * TILE).cast(), _mm512_shuffle_i64x2::<0x44>(ab3, cd3));
            }
        }
    }
}

/// Right operand: one weight panel `[k][16]` as tiles whose row i holds, for its 16 outputs, k = 4i … 4i + 3; and the 16 scales.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub unsafe fn panel(source: *const f32, k: usize, to: *mut u8, scale: *mut f32) {
    unsafe {
        let mut largest = [_mm512_setzero_si512(); 4];
        for at in 0..k {
            largest[at % 4] = _mm512_max_epu32(largest[at % 4], magnitude(_mm512_loadu_ps(source.add(at * 16))));
        }
        let both = |a, b| _mm512_max_epu32(a, b);
        let (inverse, back) = scales(both(both(largest[0], largest[1]), both(largest[2], largest[3])));
        _mm512_storeu_ps(scale, back);
        for step in 0..steps(k) {
            for i in 0..16 {
                let line = |j: usize| {
                    let at = step * STEP + 4 * i + j;
                    if at < k { digits(_mm512_loadu_ps(source.add(at * 16)), inverse) } else { _mm512_setzero_si512() }
                };
                let (a, b, c, d) = (line(0), line(1), line(2), line(3));
                // Pairs of words (a, b) and (c, d) by byte, then the wanted byte of all four.
                let low = |x, y| {
                    _mm512_or_si512(
                        _mm512_and_si512(x, _mm512_set1_epi32(0x00ff_00ff)),
                        _mm512_slli_epi32::<8>(_mm512_and_si512(y, _mm512_set1_epi32(0x00ff_00ff))),
                    )
                };
                let (ab, cd) = (low(a, b), low(c, d));
                let middle = |x| _mm512_and_si512(_mm512_srli_epi32::<8>(x), _mm512_set1_epi32(0xff));
                let words = _mm512_set1_epi32(0xffff);
                let d3 = _mm512_or_si512(_mm512_and_si512(ab, words), _mm512_slli_epi32::<16>(cd));
                let d1 = _mm512_or_si512(_mm512_srli_epi32::<16>(ab), _mm512_andnot_si512(words, cd));
                let d2 = _mm512_or_si512(
                    _mm512_or_si512(middle(a), _mm512_slli_epi32::<8>(middle(b))),
                    _mm512_or_si512(_mm512_slli_epi32::<16>(middle(c)), _mm512_slli_epi32::<24>(middle(d))),
                );
                let to = to.add(step * STEP_BYTES + i * 64);
                _mm512_store_si512(to.cast(), d1);
                _mm512_store_si512(to.add(TILE).cast(), d2);
                _mm512_store_si512(to.add(2 * TILE).cast(), d3);
            }
        }
    }
}

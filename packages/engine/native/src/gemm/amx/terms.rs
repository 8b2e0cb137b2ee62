//! Splitting f32 into two bf16 terms, or rounding it to one (`TERMS`), laid out as tiles.

use std::arch::x86_64::*;

use super::backward::TILE;

/// 16 floats starting at `p`, of which the first `valid` exist.
#[inline(always)]
unsafe fn load(p: *const f32, valid: usize) -> __m512 {
    unsafe { if valid >= 16 { _mm512_loadu_ps(p) } else { _mm512_maskz_loadu_ps(((1u32 << valid) - 1) as __mmask16, p) } }
}

/// Rounded to bf16 (halves away from zero), still in f32.
#[inline(always)]
unsafe fn round(x: __m512) -> __m512 {
    unsafe {
        let up = _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000));
        _mm512_castsi512_ps(_mm512_and_si512(up, _mm512_set1_epi32(0xffff_0000_u32 as i32)))
    }
}

/// 32 floats as two rows of bf16: the rounded values and what the rounding left.
#[inline(always)]
unsafe fn split32(low: __m512, high: __m512) -> (__m512i, __m512i) {
    unsafe {
        let (low_h, high_h) = (round(low), round(high));
        let row = |high, low| std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low));
        (row(high_h, low_h), row(_mm512_sub_ps(high, high_h), _mm512_sub_ps(low, low_h)))
    }
}

/// As `split32`, with the two inputs interleaved: lane i holds the pair (even[i], odd[i]).
#[inline(always)]
unsafe fn split_pairs(even: __m512, odd: __m512) -> (__m512i, __m512i) {
    unsafe {
        let (even_h, odd_h) = (round(even), round(odd));
        // Both are rounded: the upper halves are the values.
        let pair = |even, odd| _mm512_or_si512(_mm512_srli_epi32::<16>(_mm512_castps_si512(even)), _mm512_castps_si512(odd));
        (pair(even_h, odd_h), pair(round(_mm512_sub_ps(even, even_h)), round(_mm512_sub_ps(odd, odd_h))))
    }
}

/// Where half `half` of a step has its h tile and its m tile, of which there is none with one term.
#[inline(always)]
unsafe fn tiles_of<const TERMS: usize>(step: *mut u16, half: usize) -> (*mut u16, Option<*mut u16>) {
    unsafe { (step.add(half * TILE), (TERMS == 2).then(|| step.add((2 + half) * TILE))) }
}

#[inline(always)]
unsafe fn store_row(tile: *mut u16, row: usize, v: __m512i) {
    unsafe { _mm512_store_si512(tile.add(row * 32).cast(), v) }
}

/// A left-hand tile whose rows are rows of `source`: 16 rows × 32 along the contraction, both as far as they exist.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub unsafe fn rows<const TERMS: usize>(source: *const f32, stride: usize, rows: usize, depth: usize, step: *mut u16, half: usize) {
    unsafe {
        let (h, m) = tiles_of::<TERMS>(step, half);
        for i in 0..16 {
            let (h_row, m_row) = if i < rows {
                let p = source.add(i * stride);
                split32(load(p, depth), load(p.wrapping_add(16), depth.saturating_sub(16)))
            } else {
                (_mm512_setzero_si512(), _mm512_setzero_si512())
            };
            store_row(h, i, h_row);
            if let Some(m) = m {
                store_row(m, i, m_row);
            }
        }
    }
}

/// A right-hand tile from weight panels: contraction over 32 outputs (two panels), columns are 16 inputs.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub unsafe fn turned_panels<const TERMS: usize>(source: *const f32, panel: usize, cols: usize, depth: usize, step: *mut u16, half: usize) {
    unsafe {
        let mut h = [_mm512_setzero_si512(); 16];
        let mut m = h;
        for i in 0..cols.min(16) {
            let p = source.add(i * 16);
            // A panel is padded with zeros, so whole panels can be read.
            let second = if depth > 16 { _mm512_loadu_ps(p.add(panel)) } else { _mm512_setzero_ps() };
            (h[i], m[i]) = split32(_mm512_loadu_ps(p), second);
        }
        store_turned::<TERMS>(&mut h, &mut m, step, half);
    }
}

/// A tile of pairs of rows: contraction over 32 rows of `source`, 16 columns. Turned, it is a left operand; as it is, a right one.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub unsafe fn row_pairs<const TERMS: usize>(
    source: *const f32,
    stride: usize,
    depth: usize,
    cols: usize,
    step: *mut u16,
    half: usize,
    turned: bool,
) {
    unsafe {
        let mut h = [_mm512_setzero_si512(); 16];
        let mut m = h;
        for i in 0..16 {
            if 2 * i >= depth || cols == 0 {
                break;
            }
            let even = load(source.add(2 * i * stride), cols);
            let odd = if 2 * i + 1 < depth { load(source.add((2 * i + 1) * stride), cols) } else { _mm512_setzero_ps() };
            (h[i], m[i]) = split_pairs(even, odd);
        }
        if turned {
            store_turned::<TERMS>(&mut h, &mut m, step, half);
            return;
        }
        let tiles = tiles_of::<TERMS>(step, half);
        for (rows, tile) in [(&h, Some(tiles.0)), (&m, tiles.1)] {
            let Some(tile) = tile else { continue };
            for i in 0..16 {
                store_row(tile, i, rows[i]);
            }
        }
    }
}

#[inline(always)]
unsafe fn store_turned<const TERMS: usize>(h: &mut [__m512i; 16], m: &mut [__m512i; 16], step: *mut u16, half: usize) {
    unsafe {
        let tiles = tiles_of::<TERMS>(step, half);
        for (rows, tile) in [(h, Some(tiles.0)), (m, tiles.1)] {
            let Some(tile) = tile else { continue };
            turn(rows);
            for i in 0..16 {
                store_row(tile, i, rows[i]);
            }
        }
    }
}

/// 16×16 words, turned in place.
#[inline(always)]
unsafe fn turn(r: &mut [__m512i; 16]) {
    unsafe {
        let mut t = *r;
        for i in 0..8 {
            t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
            t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
        }
        for i in 0..4 {
            r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
            r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
            r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
            r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
        }
        for i in 0..4 {
            t[i] = _mm512_shuffle_i32x4::<0x88>(r[i], r[i + 4]);
            t[i + 4] = _mm512_shuffle_i32x4::<0xdd>(r[i], r[i + 4]);
            t[i + 8] = _mm512_shuffle_i32x4::<0x88>(r[i + 8], r[i + 12]);
            t[i + 12] = _mm512_shuffle_i32x4::<0xdd>(r[i + 8], r[i + 12]);
        }
        for i in 0..8 {
            r[i] = _mm512_shuffle_i32x4::<0x88>(t[i], t[i + 8]);
            r[i + 8] = _mm512_shuffle_i32x4::<0xdd>(t[i], t[i + 8]);
        }
    }
}

//! Gradient products of bf16 operands by the instruction of AVX-512 that multiplies two and adds both to a sum in f32.
//!
//! Operands are rounded to bf16 and lie in pairs along the contraction, one pair in the four bytes of an f32, so what moves f32 (packing, turning) moves pairs too.
//! A step of the tile takes one pair where that of `tile.rs` takes one number. The contraction order of an output is fixed by the shapes: threads change no bit.
//! The instruction takes numbers below 2⁻¹²⁶ for zero, and adds the products of a pair one after the other.

use std::arch::x86_64::*;

use super::Exec;
use super::backward::square_of;
use super::tile::{Tile, begin, end};
use crate::buffer::Shared;
use crate::form::Matrix;
use crate::simd::{Avx512, LANES, Simd};

/// Whether this machine has the instruction.
pub fn available() -> bool {
    crate::simd::Level::available()[0] == crate::simd::Level::Avx512 && is_x86_feature_detected!("avx512bf16")
}

/// Pairs of a contraction over `n`; the last number of an odd one has a zero beside it.
pub fn pairs(n: usize) -> usize {
    n.div_ceil(2)
}

/// 32 numbers of bf16 in the bytes of 16 of f32.
#[target_feature(enable = "avx512f,avx512bf16")]
fn joined(low: __m512, high: __m512) -> __m512 {
    // SAFETY: both types are 64 bytes without a meaning of their own.
    unsafe { std::mem::transmute(_mm512_cvtne2ps_pbh(high, low)) }
}

/// The first `len` of 16 numbers, and zeros; none of the others is read.
#[target_feature(enable = "avx512f")]
unsafe fn first_of(from: *const f32, len: usize) -> __m512 {
    let mask = if len >= LANES { u16::MAX } else { (1u16 << len) - 1 };
    unsafe { _mm512_maskz_loadu_ps(mask, from) }
}

/// Pairs of neighbours in a row of `n`.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn pair_row(from: *const f32, n: usize, to: *mut f32) {
    for at in (0..n).step_by(2 * LANES) {
        unsafe {
            let low = first_of(from.add(at), n - at);
            let high = if n - at > LANES { first_of(from.add(at + LANES), n - at - LANES) } else { _mm512_setzero_ps() };
            let mask = (u32::MAX >> (32 - pairs(n - at).min(LANES))) as u16;
            _mm512_mask_storeu_ps(to.add(at / 2), mask, joined(low, high));
        }
    }
}

/// Pairs of two rows, number by number.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn pair_of_rows(a: *const f32, b: *const f32, columns: usize, to: *mut f32) {
    // Number i of the first row is the i-th of 32, that of the second the (16 + i)-th.
    let order = _mm512_add_epi32(
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
        _mm512_slli_epi32::<16>(_mm512_setr_epi32(16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31)),
    );
    for at in (0..columns).step_by(LANES) {
        unsafe {
            let len = columns - at;
            let low = first_of(a.add(at), len);
            let high = if b.is_null() { _mm512_setzero_ps() } else { first_of(b.add(at), len) };
            let mask = (u32::MAX >> (32 - len.min(LANES))) as u16;
            let both = _mm512_permutexvar_epi16(order, _mm512_castps_si512(joined(low, high)));
            _mm512_mask_storeu_ps(to.add(at), mask, _mm512_castsi512_ps(both));
        }
    }
}

/// `x [m, n]` to pairs along its rows, `[m, pairs(n)]`, by all threads.
///
/// # Safety
/// `x` holds m rows of n, `to` as many of `pairs(n)`.
pub unsafe fn pair_along_rows(exec: &Exec, x: *const f32, x_row: usize, (m, n): (usize, usize), to: *mut f32) {
    let per = m.div_ceil(4 * exec.pool.threads());
    let (x, to) = (Shared(x.cast_mut()), Shared(to));
    exec.pool.run(m.div_ceil(per), |chunk, _| {
        for row in chunk * per..((chunk + 1) * per).min(m) {
            unsafe { pair_row(x.at(row * x_row), n, to.at(row * pairs(n))) };
        }
    });
}

/// `x [m, n]` to pairs of one row and the next, `[pairs(m), n]`, by all threads.
///
/// # Safety
/// `x` holds m rows of n, `to` `pairs(m)` of them.
pub unsafe fn pair_across_rows(exec: &Exec, x: *const f32, x_row: usize, (m, n): (usize, usize), to: *mut f32) {
    let per = pairs(m).div_ceil(4 * exec.pool.threads());
    let (x, to) = (Shared(x.cast_mut()), Shared(to));
    exec.pool.run(pairs(m).div_ceil(per), |chunk, _| {
        for pair in chunk * per..((chunk + 1) * per).min(pairs(m)) {
            unsafe { pair_here(x.at(0), x_row, (m, n), pair, to.at(pair * n)) };
        }
    });
}

/// One row of those.
///
/// # Safety
/// As there.
pub unsafe fn pair_here(x: *const f32, x_row: usize, (m, n): (usize, usize), pair: usize, to: *mut f32) {
    unsafe {
        let a = x.add(2 * pair * x_row);
        let b = if 2 * pair + 1 < m { a.add(x_row) } else { std::ptr::null() };
        pair_of_rows(a, b, n, to);
    }
}

/// Rows `n0..n0+len` (n0 a multiple of 32), columns `16·panel..` of `W [n, k]`, whose panels have 16 rows: to `[pairs(len)][16]`.
///
/// # Safety
/// `w` holds panels for these rows, `to` `pairs(len)` vectors.
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c,bmi1,bmi2,avx512bf16")]
pub unsafe fn turn_pairs(w: Matrix, k: usize, panel: usize, n0: usize, len: usize, to: *mut f32) {
    let columns = LANES.min(k - LANES * panel);
    let (mut low, mut high, mut block) = ([0f32; 256], [0f32; 256], [0f32; 256]);
    for n in (0..len).step_by(2 * LANES) {
        unsafe {
            let square =
                |at: usize, to: &mut [f32; 256]| square_of::<Avx512>(w.from_panel((n0 + at) / LANES, k), LANES * panel, columns, to);
            let first = square(n, &mut low);
            let second = (len - n > LANES).then(|| square(n + LANES, &mut high));
            for c in 0..columns {
                let a = first_of(first.add(c * LANES), len - n);
                let b = second.map_or(_mm512_setzero_ps(), |second| first_of(second.add(c * LANES), len - n - LANES));
                _mm512_storeu_ps(block.as_mut_ptr().add(c * LANES), joined(a, b));
            }
            if pairs(len - n) >= LANES {
                Avx512::transpose(block.as_ptr(), LANES, to.add(n / 2 * LANES), LANES);
            } else {
                Avx512::transpose(block.as_ptr(), LANES, low.as_mut_ptr(), LANES);
                std::ptr::copy_nonoverlapping(low.as_ptr(), to.add(n / 2 * LANES), pairs(len - n) * LANES);
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn tile<const R: usize, const P: usize>(t: &Tile, panel: usize) {
    unsafe {
        let mut acc = begin::<Avx512, R, P>(t, panel);
        let (mut x, mut w) = (t.x, t.w.add(panel * t.w_panel));
        for _ in 0..t.k {
            let mut wv = [_mm512_setzero_ps(); P];
            for p in 0..P {
                wv[p] = _mm512_loadu_ps(w.add(p * t.w_panel));
            }
            for r in 0..R {
                let b: __m512bh = std::mem::transmute(_mm512_set1_ps(*x.add(r)));
                for p in 0..P {
                    acc[r][p] = _mm512_dpbf16_ps(acc[r][p], b, std::mem::transmute::<__m512, __m512bh>(wv[p]));
                }
            }
            x = x.add(R);
            w = w.add(t.w_step);
        }
        end::<Avx512, R, P>(t, panel, acc);
    }
}

#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn by_panels<const R: usize>(t: &Tile, count: usize) {
    match count {
        1 => unsafe { tile::<R, 1>(t, 0) },
        2 => unsafe { tile::<R, 2>(t, 0) },
        3 => unsafe { tile::<R, 3>(t, 0) },
        _ => unreachable!("a tile has 1 to 3 panels"),
    }
}

/// As `tile_packed`, for operands in pairs; `t.k` counts them. At most three panels.
///
/// # Safety
/// As the tiles: all pointers valid for the shape.
pub unsafe fn tile_pairs(rows: usize, count: usize, t: &Tile) {
    macro_rules! run {
        ($($r:literal),*) => {
            match rows {
                $($r => unsafe { by_panels::<$r>(t, count) },)*
                _ => unreachable!("a tile has 1 to 8 rows"),
            }
        };
    }
    run!(1, 2, 3, 4, 5, 6, 7, 8)
}

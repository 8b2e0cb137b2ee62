//! The register tile every matrix product is made of: `C[r, lane] (+)= Σ_k x(r, k) · w[k, lane]` for a few rows and
//! a few panels of 16 lanes. One accumulator per output, k ascending, fused multiply-add: the bits of an output
//! depend on its row and its panel only, never on the tile it was computed in.

use crate::simd::Simd;
use crate::simd_dispatch;

/// What happens to C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `C = Σ (+ bias)`
    Set,
    /// The accumulator starts from C: a product continued over a further range of k.
    Chain,
}

#[derive(Clone, Copy)]
pub struct Tile {
    pub x: *const f32,
    /// Stride of x between rows (`tile_rows`) or between steps of k (`tile_columns`); unused when packed.
    pub x_stride: usize,
    pub w: *const f32,
    /// Floats between panels and between steps of k.
    pub w_panel: usize,
    pub w_step: usize,
    pub k: usize,
    pub c: *mut f32,
    pub c_row: usize,
    pub c_panel: usize,
    /// Null for none; 16 floats a panel.
    pub bias: *const f32,
    /// Null, or a residual with C's strides: `C = add + (Σ + bias)`.
    pub add: *const f32,
    pub mode: Mode,
    /// Floats from these panels to those needed next, which are fetched meanwhile (`tile_streamed` only).
    pub ahead: usize,
}

/// How x is addressed: `x[k·R + r]`, `x[k·stride + r]`, `x[r·stride + k]`.
const PACKED: u8 = 0;
const COLUMNS: u8 = 1;
const ROWS: u8 = 2;
/// As `PACKED`, fetching the panels of the next tile from memory on the way.
const STREAMED: u8 = 3;

#[inline(always)]
fn prefetch(p: *const f32) {
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(p.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// The sums of a tile as they begin.
#[inline(always)]
pub(super) unsafe fn begin<S: Simd, const R: usize, const P: usize>(t: &Tile, panel: usize) -> [[S::V; P]; R] {
    unsafe {
        let c = t.c.add(panel * t.c_panel);
        let mut acc = [[S::zero(); P]; R];
        if t.mode == Mode::Chain {
            for r in 0..R {
                for p in 0..P {
                    acc[r][p] = S::load(c.add(r * t.c_row + p * t.c_panel));
                }
            }
        }
        acc
    }
}

/// Puts them where they belong.
#[inline(always)]
pub(super) unsafe fn end<S: Simd, const R: usize, const P: usize>(t: &Tile, panel: usize, acc: [[S::V; P]; R]) {
    unsafe {
        let c = t.c.add(panel * t.c_panel);
        for p in 0..P {
            let bias = if t.bias.is_null() { S::zero() } else { S::load(t.bias.add((panel + p) * 16)) };
            for r in 0..R {
                let to = c.add(r * t.c_row + p * t.c_panel);
                let mut v = acc[r][p];
                if !t.bias.is_null() {
                    v = S::add(v, bias);
                }
                if !t.add.is_null() {
                    v = S::add(S::load(t.add.add((panel + p) * t.c_panel + r * t.c_row)), v);
                }
                S::store(to, v);
            }
        }
    }
}

#[inline(always)]
unsafe fn tile<S: Simd, const A: u8, const R: usize, const P: usize>(t: &Tile, panel: usize) {
    unsafe {
        let mut acc = begin::<S, R, P>(t, panel);
        let (mut x, mut w) = (t.x, t.w.add(panel * t.w_panel));
        let (w_panel, w_step, x_stride, ahead) = (t.w_panel, t.w_step, t.x_stride, t.ahead);
        for _ in 0..t.k {
            let mut wv = [S::zero(); P];
            for p in 0..P {
                wv[p] = S::load(w.add(p * w_panel));
                if A == STREAMED {
                    prefetch(w.wrapping_add(p * w_panel + ahead));
                }
            }
            for r in 0..R {
                let offset = if A == ROWS { r * x_stride } else { r };
                let b = S::splat(*x.add(offset));
                for p in 0..P {
                    acc[r][p] = S::fma(b, wv[p], acc[r][p]);
                }
            }
            x = x.add(match A {
                PACKED | STREAMED => R,
                COLUMNS => x_stride,
                _ => 1,
            });
            w = w.add(w_step);
        }
        end::<S, R, P>(t, panel, acc);
    }
}

/// Wide first, then what is left; none alone where that can be.
#[inline(always)]
unsafe fn panels<S: Simd, const A: u8, const R: usize, const P: usize>(t: &Tile, count: usize) {
    let mut panel = 0;
    unsafe {
        while panel + P <= count && !(P == 3 && panel + 4 == count) {
            tile::<S, A, R, P>(t, panel);
            panel += P;
        }
        if P > 4 && panel + 4 <= count {
            tile::<S, A, R, 4>(t, panel);
            panel += 4;
        }
        if P > 3 && panel + 3 == count {
            tile::<S, A, R, 3>(t, panel);
            panel += 3;
        }
        while P > 2 && panel + 2 <= count {
            tile::<S, A, R, 2>(t, panel);
            panel += 2;
        }
        while panel < count {
            tile::<S, A, R, 1>(t, panel);
            panel += 1;
        }
    }
}

#[inline(always)]
unsafe fn by_rows<S: Simd, const A: u8>(rows: usize, count: usize, t: &Tile) {
    // With few rows, more panels at once, so that enough independent chains hide the latency of the multiply-add.
    macro_rules! run {
        ($($r:literal: $wide:literal / $narrow:literal),*) => {
            match rows {
                $($r => unsafe {
                    if S::NP >= 2 { panels::<S, A, $r, $wide>(t, count) }
                    else if $r <= S::MR { panels::<S, A, $r, $narrow>(t, count) }
                },)*
                _ => unreachable!("a tile has 1 to 8 rows"),
            }
        };
    }
    run!(1: 8/4, 2: 4/2, 3: 4/2, 4: 4/1, 5: 4/1, 6: 4/1, 7: 3/1, 8: 3/1)
}

#[inline(always)]
unsafe fn packed<S: Simd>(rows: usize, count: usize, t: &Tile) {
    unsafe { by_rows::<S, PACKED>(rows, count, t) }
}

#[inline(always)]
unsafe fn streamed<S: Simd>(rows: usize, count: usize, t: &Tile) {
    unsafe { by_rows::<S, STREAMED>(rows, count, t) }
}

#[inline(always)]
unsafe fn columns<S: Simd>(rows: usize, count: usize, t: &Tile) {
    unsafe { by_rows::<S, COLUMNS>(rows, count, t) }
}

#[inline(always)]
unsafe fn rows_of<S: Simd>(rows: usize, count: usize, t: &Tile) {
    macro_rules! run {
        ($($r:literal: $wide:literal),*) => {
            match rows {
                $($r => unsafe {
                    if S::UP >= 2 { panels::<S, ROWS, $r, $wide>(t, count) } else { panels::<S, ROWS, $r, 1>(t, count) }
                },)*
                _ => unreachable!("an unpacked tile has 1 to 6 rows"),
            }
        };
    }
    run!(1: 4, 2: 4, 3: 4, 4: 4, 5: 4, 6: 4)
}

#[inline(always)]
unsafe fn rows_pair<S: Simd>(rows: usize, count: usize, t: &Tile) {
    macro_rules! run {
        ($($r:literal),*) => {
            match rows {
                $($r => unsafe {
                    if S::UP >= 2 { panels::<S, ROWS, $r, 2>(t, count) } else { panels::<S, ROWS, $r, 1>(t, count) }
                },)*
                _ => unreachable!("an unpacked tile has 1 to 6 rows"),
            }
        };
    }
    run!(1, 2, 3, 4, 5, 6)
}

simd_dispatch! {
    /// `rows` ≤ MR rows packed as `[k][rows]`, `count` panels.
    pub unsafe fn tile_packed = packed(rows: usize, count: usize, t: &Tile);
    /// As `tile_packed`, for weights that come from memory: meanwhile fetches the panels `ahead`.
    pub unsafe fn tile_streamed = streamed(rows: usize, count: usize, t: &Tile);
    /// x is `[k][x_stride]`, the rows of the tile are consecutive columns of it.
    pub unsafe fn tile_columns = columns(rows: usize, count: usize, t: &Tile);
    unsafe fn tile_rows_wide = rows_of(rows: usize, count: usize, t: &Tile);
    unsafe fn tile_rows_pair = rows_pair(rows: usize, count: usize, t: &Tile);
}

/// x is row-major with `x_stride` between rows; any number of rows.
///
/// # Safety
/// As the tiles: all pointers valid for the shape.
pub unsafe fn tile_rows(level: crate::simd::Level, rows: usize, count: usize, t: &Tile) {
    const STEP: usize = 6;
    let mut r = 0;
    while r < rows {
        let n = STEP.min(rows - r);
        unsafe {
            debug_assert!(t.add.is_null());
            let part = Tile { x: t.x.add(r * t.x_stride), c: t.c.add(r * t.c_row), ..*t };
            if count.is_multiple_of(4) || count > 4 {
                tile_rows_wide(level, n, count, &part);
            } else {
                tile_rows_pair(level, n, count, &part);
            }
        }
        r += n;
    }
}

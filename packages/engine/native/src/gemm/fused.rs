//! The tile with weights in a small form: they are turned into f32 in registers and used at once. Decoding beside the multiply-adds, and
//! reading memory beside both, hides most of what it costs. One accumulator per output, k ascending: the bits of `tile`.

use std::ptr::null_mut;

use super::tile::{Tile, begin, end};
use crate::form::{Form, Matrix, Part, Sink, walk};
use crate::simd::{LANES, Level, Simd};
use crate::{by_form, simd_dispatch};

struct Product<S: Simd, const R: usize, const P: usize> {
    x: *const f32,
    acc: [[S::V; P]; R],
    /// Where the weights are kept as f32, for the groups of rows that follow; null for nowhere.
    keep: *mut f32,
    keep_panel: usize,
}

impl<S: Simd, const R: usize, const P: usize> Sink<S, P> for Product<S, R, P> {
    #[inline(always)]
    unsafe fn step(&mut self, k: usize, w: [S::V; P]) {
        unsafe {
            // Rows are split into groups of nearly equal size: a small one is the only one.
            if 2 * R >= S::MR && !self.keep.is_null() {
                for p in 0..P {
                    S::store(self.keep.add(p * self.keep_panel + k * LANES), w[p]);
                }
            }
            for r in 0..R {
                let x = S::splat(*self.x.add(k * R + r));
                for p in 0..P {
                    self.acc[r][p] = S::fma(x, w[p], self.acc[r][p]);
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn panels<S: Simd, const R: usize, const P: usize, const F: usize>(w: Matrix, count: usize, part: Part, t: &Tile) {
    let mut panel = 0;
    while panel < count {
        unsafe {
            let keep = if t.w.is_null() { null_mut() } else { t.w.cast_mut().add(panel * t.w_panel) };
            let mut product = Product::<S, R, P> { x: t.x, acc: begin::<S, R, P>(t, panel), keep, keep_panel: t.w_panel };
            let next = if panel + P < count { P } else { part.next };
            walk::<S, P, F>(w.from_panel(panel, part.k).at, Part { next, ..part }, &mut product);
            end::<S, R, P>(t, panel, product.acc);
        }
        panel += P;
    }
}

/// Panels done at once: enough independent chains to hide the latency of the multiply-add, few enough for the registers, of which scales,
/// shifts and two steps of nibbles need some. 0 where the instruction set has no vectors that decode.
const fn wide<S: Simd>(form: Form, rows: usize) -> usize {
    if !S::FUSES {
        return 0;
    }
    match (rows, S::NP >= 2, form.blocks().is_some()) {
        (..=3, true, _) | (..=6, true, false) | (1, false, false) => 4,
        (7.., true, false) => 3,
        (4.., true, true) | (1, false, true) | (..=3, false, false) => 2,
        _ => 1,
    }
}

#[inline(always)]
unsafe fn rows_of<S: Simd, const F: usize, const R: usize>(w: Matrix, count: usize, part: Part, t: &Tile) {
    unsafe {
        match const { if R > S::MR { 0 } else { wide::<S>(Form::numbered(F), R) } } {
            4 => panels::<S, R, 4, F>(w, count, part, t),
            3 => panels::<S, R, 3, F>(w, count, part, t),
            2 => panels::<S, R, 2, F>(w, count, part, t),
            1 => panels::<S, R, 1, F>(w, count, part, t),
            _ => unreachable!("no tile of so many rows"),
        }
    }
}

#[inline(always)]
unsafe fn width_of<S: Simd>(form: Form, rows: usize) -> usize {
    wide::<S>(form, rows)
}

simd_dispatch! {
    unsafe fn fused<F, R> = rows_of(w: Matrix, count: usize, part: Part, t: &Tile);
    unsafe fn width = width_of(form: Form, rows: usize) -> usize;
}

/// Whether so many panels can be done at once.
pub fn fuses(level: Level, form: Form, rows: usize, panels: usize) -> bool {
    let width = unsafe { width(level, form, rows) };
    width > 0 && panels.is_multiple_of(width)
}

/// As `tile_packed`, with `count` panels of a matrix in a small form. Where `t.w` is not null, the weights are kept there as f32.
///
/// # Safety
/// As `tile_packed`; `fuses` must have said so.
pub unsafe fn tile_fused(level: Level, rows: usize, count: usize, w: Matrix, part: Part, t: &Tile) {
    macro_rules! run {
        ($($r:literal),*) => {
            by_form!(w.form, F => match rows {
                $($r => unsafe { fused::<F, $r>(level, w, count, part, t) },)*
                _ => unreachable!("a tile has 1 to 8 rows"),
            })
        };
    }
    run!(1, 2, 3, 4, 5, 6, 7, 8)
}

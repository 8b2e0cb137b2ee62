//! A few rows times weights in a small form: they are turned into f32 in registers and used at once. Sampling does this for every token,
//! when reading the weights is most of the work. One accumulator per output, k ascending: the bits of `tile`.

use super::tile::Mode;
use crate::form::{Matrix, Part, Sink, walk};
use crate::simd::{LANES, Simd};
use crate::simd_dispatch;

/// With more rows, decoding into the cache first costs less than decoding in each of the tiles.
pub const FEW: usize = 4;
/// Panels done together, so that their chains hide the latency of the multiply-add.
const WIDE: usize = 4;

#[derive(Clone, Copy)]
pub struct Few {
    /// `[k][rows]`.
    pub x: *const f32,
    pub rows: usize,
    pub w: Matrix,
    pub k: usize,
    pub c: *mut f32,
    pub c_row: usize,
    /// Null for none; 16 floats a panel.
    pub bias: *const f32,
    /// Null, or a residual with C's strides.
    pub add: *const f32,
    pub mode: Mode,
    /// Panels there are after these.
    pub left: usize,
}

struct Product<S: Simd, const R: usize, const P: usize> {
    x: *const f32,
    acc: [[S::V; P]; R],
}

impl<S: Simd, const R: usize, const P: usize> Sink<S, P> for Product<S, R, P> {
    #[inline(always)]
    unsafe fn step(&mut self, k: usize, w: [S::V; P]) {
        for r in 0..R {
            unsafe {
                let x = S::splat(*self.x.add(k * R + r));
                for p in 0..P {
                    self.acc[r][p] = S::fma(x, w[p], self.acc[r][p]);
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn tile<S: Simd, const R: usize, const P: usize>(f: &Few, panel: usize, ahead: usize) {
    unsafe {
        let bytes = f.w.form.panel_bytes(f.k);
        let c = |r: usize, p: usize| r * f.c_row + (panel + p) * LANES;
        let mut acc = [[S::zero(); P]; R];
        if f.mode == Mode::Chain {
            for r in 0..R {
                for p in 0..P {
                    acc[r][p] = S::load(f.c.add(c(r, p)));
                }
            }
        }
        let part = Part { panel: bytes, k0: 0, len: f.k, ahead: ahead * bytes };
        let mut product = Product::<S, R, P> { x: f.x, acc };
        walk::<S, P>(f.w.from_panel(panel, f.k), part, &mut product);
        let acc = product.acc;
        for r in 0..R {
            for p in 0..P {
                let mut v = acc[r][p];
                if !f.bias.is_null() {
                    v = S::add(v, S::load(f.bias.add((panel + p) * LANES)));
                }
                if !f.add.is_null() {
                    v = S::add(S::load(f.add.add(c(r, p))), v);
                }
                S::store(f.c.add(c(r, p)), v);
            }
        }
    }
}

#[inline(always)]
unsafe fn panels<S: Simd, const R: usize>(count: usize, f: &Few) {
    let mut panel = 0;
    unsafe {
        while panel + WIDE <= count {
            let ahead = if panel + 2 * WIDE <= count + f.left { WIDE } else { 0 };
            tile::<S, R, WIDE>(f, panel, ahead);
            panel += WIDE;
        }
        while panel < count {
            tile::<S, R, 1>(f, panel, 0);
            panel += 1;
        }
    }
}

#[inline(always)]
unsafe fn rows_of<S: Simd>(count: usize, f: &Few) {
    unsafe {
        match f.rows {
            1 => panels::<S, 1>(count, f),
            2 => panels::<S, 2>(count, f),
            3 => panels::<S, 3>(count, f),
            4 => panels::<S, 4>(count, f),
            _ => unreachable!("few are 1 to 4 rows"),
        }
    }
}

simd_dispatch! {
    /// `count` panels of the product.
    pub unsafe fn few = rows_of(count: usize, f: &Few);
}

//! RMS norm and layer norm over rows of `h` floats (rows padded to 16 with zeros).
//! rms: `y = x·r·w`, `r = 1/√(mean x² + ε)` (plus one: `y = x·r·(1 + w)`);  layer: `y = (x − μ)·r·w + b`, `r = 1/√(var x + ε)`.

use crate::config::Norm;
use crate::simd::{LANES, Simd};
use crate::simd_dispatch;

#[derive(Clone, Copy)]
pub struct NormRow {
    pub kind: Norm,
    pub h: usize,
    pub eps: f32,
    pub weight: *const f32,
    /// Null for none.
    pub bias: *const f32,
}
unsafe impl Sync for NormRow {}

/// What a row is multiplied by.
#[inline(always)]
unsafe fn factor<S: Simd>(n: &NormRow, at: usize) -> S::V {
    unsafe {
        let w = S::load(n.weight.add(at));
        if n.kind == Norm::RmsPlusOne { S::add(S::splat(1.0), w) } else { w }
    }
}

/// Mean and reciprocal deviation of one row.
#[inline(always)]
unsafe fn row_stats<S: Simd>(n: &NormRow, x: *const f32) -> (f32, f32) {
    unsafe {
        let vectors = n.h.div_ceil(LANES);
        let tail = n.h - (vectors - 1) * LANES;
        let inv_h = 1.0 / n.h as f32;
        let mut mean = 0.0;
        if n.kind == Norm::Layer {
            let mut sum = S::zero();
            for i in 0..vectors {
                sum = S::add(sum, S::load(x.add(i * LANES)));
            }
            mean = S::reduce_add(sum) * inv_h;
        }
        let m = S::splat(mean);
        let mut sum = S::zero();
        for i in 0..vectors {
            let mut d = S::sub(S::load(x.add(i * LANES)), m);
            if i + 1 == vectors {
                d = S::select(d, 0, tail, S::zero());
            }
            sum = S::fma(d, d, sum);
        }
        (mean, 1.0 / (S::reduce_add(sum) * inv_h + n.eps).sqrt())
    }
}

#[inline(always)]
unsafe fn forward<S: Simd>(n: &NormRow, rows: usize, x: *const f32, x_row: usize, y: *mut f32, y_row: usize, stats: *mut f32) {
    unsafe {
        for t in 0..rows {
            let (x, y) = (x.add(t * x_row), y.add(t * y_row));
            let (mean, rstd) = row_stats::<S>(n, x);
            if !stats.is_null() {
                *stats.add(2 * t) = mean;
                *stats.add(2 * t + 1) = rstd;
            }
            apply::<S>(n, x, y, mean, rstd);
        }
    }
}

#[inline(always)]
unsafe fn apply<S: Simd>(n: &NormRow, x: *const f32, y: *mut f32, mean: f32, rstd: f32) {
    unsafe {
        let (m, r) = (S::splat(mean), S::splat(rstd));
        for i in 0..n.h.div_ceil(LANES) {
            let at = i * LANES;
            let hat = S::mul(S::sub(S::load(x.add(at)), m), r);
            let mut v = S::mul(hat, factor::<S>(n, at));
            if !n.bias.is_null() {
                v = S::add(v, S::load(n.bias.add(at)));
            }
            S::store(y.add(at), v);
        }
    }
}

#[inline(always)]
unsafe fn again<S: Simd>(n: &NormRow, rows: usize, x: *const f32, x_row: usize, stats: *const f32, y: *mut f32, y_row: usize) {
    unsafe {
        for t in 0..rows {
            apply::<S>(n, x.add(t * x_row), y.add(t * y_row), *stats.add(2 * t), *stats.add(2 * t + 1));
        }
    }
}

/// `dx += r·(g − mean(g) − x̂·mean(g·x̂))` with `g = dy·w`, or `dy·(1 + w)` (the rms norm has no `mean(g)`).
#[inline(always)]
unsafe fn backward<S: Simd>(
    n: &NormRow,
    rows: usize,
    x: *const f32,
    x_row: usize,
    stats: *const f32,
    dy: *const f32,
    dy_row: usize,
    dx: *mut f32,
    dx_row: usize,
) {
    unsafe {
        let vectors = n.h.div_ceil(LANES);
        let inv_h = 1.0 / n.h as f32;
        for t in 0..rows {
            let (x, dy, dx) = (x.add(t * x_row), dy.add(t * dy_row), dx.add(t * dx_row));
            let (mean, rstd) = (S::splat(*stats.add(2 * t)), S::splat(*stats.add(2 * t + 1)));
            let (mut sum, mut dot) = (S::zero(), S::zero());
            for i in 0..vectors {
                let at = i * LANES;
                let hat = S::mul(S::sub(S::load(x.add(at)), mean), rstd);
                let g = S::mul(S::load(dy.add(at)), factor::<S>(n, at));
                sum = S::add(sum, g);
                dot = S::fma(g, hat, dot);
            }
            let mean_g = if n.kind == Norm::Layer { S::reduce_add(sum) * inv_h } else { 0.0 };
            let (mean_g, mean_dot) = (S::splat(mean_g), S::splat(S::reduce_add(dot) * inv_h));
            let tail = n.h - (vectors - 1) * LANES;
            for i in 0..vectors {
                let at = i * LANES;
                let hat = S::mul(S::sub(S::load(x.add(at)), mean), rstd);
                let g = S::mul(S::load(dy.add(at)), factor::<S>(n, at));
                let inner = S::sub(S::sub(g, mean_g), S::mul(hat, mean_dot));
                let mut v = S::fma(inner, rstd, S::load(dx.add(at)));
                if i + 1 == vectors {
                    v = S::select(v, 0, tail, S::zero());
                }
                S::store(dx.add(at), v);
            }
        }
    }
}

/// `dw += Σ_t dy·x̂`, `db += Σ_t dy` for columns `first..first+count` (multiples of 16), t ascending.
#[inline(always)]
unsafe fn parameters<S: Simd>(
    first: usize,
    count: usize,
    rows: usize,
    x: *const f32,
    x_row: usize,
    stats: *const f32,
    dy: *const f32,
    dy_row: usize,
    dw: *mut f32,
    db: *mut f32,
) {
    unsafe {
        let mut at = first;
        while at < first + count {
            let mut w = S::load(dw.add(at));
            let mut b = if db.is_null() { S::zero() } else { S::load(db.add(at)) };
            for t in 0..rows {
                let (mean, rstd) = (S::splat(*stats.add(2 * t)), S::splat(*stats.add(2 * t + 1)));
                let g = S::load(dy.add(t * dy_row + at));
                let hat = S::mul(S::sub(S::load(x.add(t * x_row + at)), mean), rstd);
                w = S::fma(g, hat, w);
                b = S::add(b, g);
            }
            S::store(dw.add(at), w);
            if !db.is_null() {
                S::store(db.add(at), b);
            }
            at += LANES;
        }
    }
}

/// `to[c] += Σ_t dy[t, c]`, t ascending: a bias' derivative.
#[inline(always)]
unsafe fn columns<S: Simd>(first: usize, count: usize, rows: usize, dy: *const f32, dy_row: usize, to: *mut f32) {
    unsafe {
        let mut at = first;
        while at < first + count {
            let mut b = S::load(to.add(at));
            for t in 0..rows {
                b = S::add(b, S::load(dy.add(t * dy_row + at)));
            }
            S::store(to.add(at), b);
            at += LANES;
        }
    }
}

simd_dispatch! {
    /// `stats` (null, or two floats a row) receives mean and reciprocal deviation.
    pub unsafe fn norm_forward = forward(n: &NormRow, rows: usize, x: *const f32, x_row: usize, y: *mut f32, y_row: usize, stats: *mut f32);
    /// The forward again from saved statistics: the same bits.
    pub unsafe fn norm_again = again(n: &NormRow, rows: usize, x: *const f32, x_row: usize, stats: *const f32, y: *mut f32, y_row: usize);
    pub unsafe fn norm_backward = backward(n: &NormRow, rows: usize, x: *const f32, x_row: usize, stats: *const f32, dy: *const f32, dy_row: usize, dx: *mut f32, dx_row: usize);
    pub unsafe fn norm_parameters = parameters(first: usize, count: usize, rows: usize, x: *const f32, x_row: usize, stats: *const f32, dy: *const f32, dy_row: usize, dw: *mut f32, db: *mut f32);
    pub unsafe fn column_sums = columns(first: usize, count: usize, rows: usize, dy: *const f32, dy_row: usize, to: *mut f32);
}

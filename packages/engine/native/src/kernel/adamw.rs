//! AdamW (decoupled weight decay, torch's formula) and the global norm of the gradient.

use crate::buffer::Shared;
use crate::pool::Pool;
use crate::simd::{LANES, Level, Simd};
use crate::simd_dispatch;

#[derive(Clone, Copy)]
pub struct Update {
    pub rate: f32,
    pub beta1: f32,
    pub beta2: f32,
    pub eps: f32,
    pub decay: f32,
    /// Multiplies the gradient (clipping).
    pub gradient_scale: f32,
    /// 1 − β₁ᵗ and √(1 − β₂ᵗ).
    pub correction1: f32,
    pub correction2_sqrt: f32,
}

/// A contiguous range of parameters with one weight decay and one rate.
#[derive(Clone, Copy)]
pub struct Range {
    pub data: *mut f32,
    pub grad: *mut f32,
    pub m: *mut f32,
    pub v: *mut f32,
    /// A multiple of 16.
    pub len: usize,
    pub update: Update,
}
unsafe impl Sync for Range {}

/// Floats of one chunk; also fixes the order in which squares are added up.
const CHUNK: usize = 1 << 16;

/// Clears the gradient on the way.
#[inline(always)]
unsafe fn update<S: Simd>(r: &Range, first: usize, len: usize) {
    unsafe {
        let u = &r.update;
        let (b1, b2) = (S::splat(u.beta1), S::splat(u.beta2));
        let (c1, c2) = (S::splat(1.0 - u.beta1), S::splat(1.0 - u.beta2));
        let keep = S::splat(1.0 - u.rate * u.decay);
        let step = S::splat(-u.rate / u.correction1);
        let root = S::splat(1.0 / u.correction2_sqrt);
        let (eps, scale) = (S::splat(u.eps), S::splat(u.gradient_scale));
        let mut i = first;
        while i < first + len {
            let g = S::mul(S::load(r.grad.add(i)), scale);
            let m = S::fma(S::load(r.m.add(i)), b1, S::mul(c1, g));
            let v = S::fma(S::load(r.v.add(i)), b2, S::mul(S::mul(c2, g), g));
            let denominator = S::fma(S::sqrt(v), root, eps);
            let p = S::fma(step, S::div(m, denominator), S::mul(S::load(r.data.add(i)), keep));
            S::store(r.data.add(i), p);
            S::store(r.m.add(i), m);
            S::store(r.v.add(i), v);
            S::store(r.grad.add(i), S::zero());
            i += LANES;
        }
    }
}

simd_dispatch! {
    unsafe fn update_range = update(r: &Range, first: usize, len: usize);
}

/// Chunks of all ranges: `(range, first, len)`.
fn chunks(lens: impl Iterator<Item = usize>) -> Vec<(usize, usize, usize)> {
    let mut all = Vec::new();
    for (i, len) in lens.enumerate() {
        let mut at = 0;
        while at < len {
            all.push((i, at, CHUNK.min(len - at)));
            at += CHUNK;
        }
    }
    all
}

/// # Safety
/// The ranges must be valid and disjoint.
pub unsafe fn adamw(level: Level, pool: &Pool, ranges: &[Range]) {
    let all = chunks(ranges.iter().map(|r| r.len));
    pool.run(all.len(), |c, _| {
        let (i, first, len) = all[c];
        unsafe { update_range(level, &ranges[i], first, len) }
    });
}

/// Σ g² in f64: eight running sums within a chunk, chunks in order.
pub fn sum_of_squares(pool: &Pool, slices: &[&[f32]]) -> f64 {
    let all = chunks(slices.iter().map(|s| s.len()));
    let mut sums = vec![0f64; all.len()];
    let to = Shared(sums.as_mut_ptr());
    pool.run(all.len(), |c, _| {
        let (i, first, len) = all[c];
        let mut lanes = [0f64; 8];
        for block in slices[i][first..first + len].chunks(8) {
            for (lane, &x) in lanes.iter_mut().zip(block) {
                *lane += f64::from(x) * f64::from(x);
            }
        }
        unsafe { *to.at(c) = lanes.iter().sum() };
    });
    sums.iter().sum()
}

//! AdamW (decoupled weight decay, torch's formula) and the global norm of the gradient.

use super::counter_random;
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
    pub moments: At,
    /// A multiple of 16.
    pub len: usize,
    pub update: Update,
}
unsafe impl Sync for Range {}

/// Where a range's moments lie, and as what.
#[derive(Clone, Copy)]
pub enum At {
    F32 { m: *mut f32, v: *mut f32 },
    Bf16 { m: *mut u16, v: *mut u16, chance: Chance },
}

/// What decides which way moments are rounded. It is counted and not drawn, so that threads do not matter and a run that goes on rounds as
/// it would have.
#[derive(Clone, Copy)]
pub struct Chance {
    pub step: u64,
    pub store: usize,
    /// Where the range begins in its store.
    pub first: usize,
}

/// Floats of one chunk; also fixes the order in which squares are added up.
const CHUNK: usize = 1 << 16;

impl At {
    #[inline(always)]
    unsafe fn load<S: Simd>(&self, i: usize) -> (S::V, S::V) {
        unsafe {
            match *self {
                At::F32 { m, v } => (S::load(m.add(i)), S::load(v.add(i))),
                At::Bf16 { m, v, .. } => (S::from_bf16(m.add(i)), S::from_bf16(v.add(i))),
            }
        }
    }

    #[inline(always)]
    unsafe fn store<S: Simd>(&self, i: usize, new_m: S::V, new_v: S::V) {
        unsafe {
            match *self {
                At::F32 { m, v } => {
                    S::store(m.add(i), new_m);
                    S::store(v.add(i), new_v);
                }
                At::Bf16 { m, v, chance } => {
                    let vector = ((chance.first + i) / LANES) as u64;
                    let key = (counter_random(chance.step, chance.store as u64, vector) >> 32) as u32;
                    S::store_bf16_by_chance(m.add(i), new_m, v.add(i), new_v, key);
                }
            }
        }
    }
}

/// Clears the gradient on the way. The parameters move by the moments as they are before they are rounded.
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
            let (m, v) = r.moments.load::<S>(i);
            let m = S::fma(m, b1, S::mul(c1, g));
            let v = S::fma(v, b2, S::mul(S::mul(c2, g), g));
            let denominator = S::fma(S::sqrt(v), root, eps);
            let p = S::fma(step, S::div(m, denominator), S::mul(S::load(r.data.add(i)), keep));
            S::store(r.data.add(i), p);
            r.moments.store::<S>(i, m, v);
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

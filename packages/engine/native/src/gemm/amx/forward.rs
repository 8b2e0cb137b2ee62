//! `Y = X·Wᵀ (+ bias) (+ residual)` with every f32 as three base-256 digits and one scale a row (`digits`): the six products that count
//! are summed exactly in integers, and what is left out is below 2⁻²² of (largest of the row of X)·(largest of the row of W), about what
//! rounding costs f32 itself. (The idea is Ozaki's: error-free splitting for matrix products.) Exact sums have no order, so the bits of an output
//! depend on its row of X and its row of W only: sampling and scoring agree whatever the batch and the threads.
//!
//! Weights are split as they are read, unless the job has them split already: for many rows that costs little, and the copy takes memory.

use std::arch::x86_64::*;

use super::digit_block::{SUMS, two_panels, two_rows};
use super::digits::{self, STEP_BYTES, steps};
use super::with_tiles;
use crate::buffer::Shared;
use crate::error::EngineError;
use crate::gemm::forward::Job;
use crate::gemm::{Exec, Mode};

/// Rows done together when there are more than 16, and rows of a block that shares the weights an item splits.
const PAIR: usize = 32;
const BLOCK: usize = 512;
/// Bytes of the split panels of an item: they stay in the second-level cache.
const ITEM_BYTES: usize = 512 << 10;

/// A split panel: its steps, then 16 scales.
fn panel_bytes(k: usize) -> usize {
    steps(k) * STEP_BYTES + 64
}

/// Floats of `W[n, k]` split.
pub fn split_floats(n: usize, k: usize) -> usize {
    n.div_ceil(16) * panel_bytes(k) / 4
}

unsafe fn split_panel(w: *const f32, k: usize, panel: usize, to: *mut u8) {
    unsafe { digits::panel(w.add(panel * k * 16), k, to, to.add(steps(k) * STEP_BYTES).cast()) }
}

/// Splits whole matrices: `(panels, n, k, to)`.
///
/// # Safety
/// Panels valid for their shapes, `to` for `split_floats(n, k)`.
pub unsafe fn split_weights(exec: &Exec, matrices: &[(*const f32, usize, usize, *mut f32)]) {
    let items: Vec<(Shared<f32>, usize, usize, Shared<u8>)> = matrices
        .iter()
        .flat_map(|&(w, n, k, to)| (0..n.div_ceil(16)).map(move |panel| (Shared(w.cast_mut()), k, panel, Shared(to.cast()))))
        .collect();
    let per = items.len().div_ceil(8 * exec.pool.threads()).max(1);
    exec.pool.run(items.len().div_ceil(per), |chunk, _| {
        for (w, k, panel, to) in &items[chunk * per..((chunk + 1) * per).min(items.len())] {
            unsafe { split_panel(w.get(), *k, *panel, to.at(panel * panel_bytes(*k))) }
        }
    });
}

/// # Safety
/// As `gemm::forward`.
pub unsafe fn forward(exec: &mut Exec, x: *const f32, stride: usize, m: usize, k: usize, jobs: &[Job]) -> Result<(), EngineError> {
    let tile_bytes = steps(k) * STEP_BYTES;
    let tiles = m.div_ceil(16);
    // The digits of all rows (an even number of tiles), then their scales.
    exec.pack.reserve((tiles + tiles % 2) * (tile_bytes / 4 + 16), "split activations")?;
    // Even, as small batches take the panels two at a time.
    let most = (ITEM_BYTES / panel_bytes(k)).clamp(2, 16) & !1;
    let locals = exec.local(SUMS + most * panel_bytes(k) / 4)?;
    let left = Left {
        digits: Shared(exec.pack.pointer().cast()),
        tile_bytes,
        scales: Shared(exec.pack.pointer().wrapping_add((tiles + tiles % 2) * tile_bytes / 4)),
    };
    let x = Shared(x.cast_mut());
    let per = if m * k < 1 << 14 { tiles } else { tiles.div_ceil(4 * exec.pool.threads()) };
    exec.pool.run(tiles.div_ceil(per), |chunk, _| unsafe {
        for tile in chunk * per..((chunk + 1) * per).min(tiles) {
            digits::rows(x.at(tile * 16 * stride), stride, m - tile * 16, k, left.tile(tile), left.scales.at(tile * 16));
        }
    });
    let blocks = m.div_ceil(BLOCK);
    let panels: usize = jobs.iter().map(|j| j.n.div_ceil(16)).sum();
    // Enough items to balance the threads.
    let width = panels.div_ceil((8 * exec.pool.threads()).div_ceil(blocks)).min(most).next_multiple_of(2);
    let mut items = Vec::new();
    for (j, job) in jobs.iter().enumerate() {
        let count = job.n.div_ceil(16);
        items.extend((0..count).step_by(width).map(|first| (j, first, width.min(count - first))));
    }
    exec.pool.run(blocks * items.len(), |item, thread| unsafe {
        let (j, first, count) = items[item % items.len()];
        let block = item / items.len() * BLOCK;
        let sums = locals.of(thread);
        let work = Item { job: &jobs[j], left: &left, k, m, first, count, sums: sums.cast(), scratch: sums.add(SUMS).cast() };
        if m <= 16 { work.small() } else { work.large(block..(block + BLOCK).min(m)) }
    });
    Ok(())
}

struct Left {
    digits: Shared<u8>,
    tile_bytes: usize,
    scales: Shared<f32>,
}

impl Left {
    unsafe fn tile(&self, tile: usize) -> *mut u8 {
        unsafe { self.digits.at(tile * self.tile_bytes) }
    }
}

/// Some panels of one job.
struct Item<'a> {
    job: &'a Job,
    left: &'a Left,
    k: usize,
    m: usize,
    first: usize,
    count: usize,
    sums: *mut i32,
    scratch: *mut u8,
}

impl Item<'_> {
    /// Panel `p` of the item, split. `split_all` comes first where the job has no copy.
    unsafe fn panel(&self, p: usize) -> *const u8 {
        let (from, at) = if self.job.split.is_null() { (self.scratch.cast_const(), p) } else { (self.job.split, self.first + p) };
        from.wrapping_add(at * panel_bytes(self.k))
    }

    unsafe fn split_all(&self) {
        if self.job.split.is_null() {
            for p in 0..self.count {
                unsafe { split_panel(self.job.w.at, self.k, self.first + p, self.scratch.add(p * panel_bytes(self.k))) }
            }
        }
    }

    /// At most 16 rows: the panels two at a time.
    unsafe fn small(&self) {
        unsafe {
            self.split_all();
            let rows = self.m as u8;
            with_tiles([rows, rows, rows, rows, rows, rows, 16, rows], || {
                for p in (0..self.count).step_by(2) {
                    // Without a second panel the first one stands in; what comes of it is not used.
                    let second = if p + 1 < self.count { p + 1 } else { p };
                    let panels = [self.panel(p), self.panel(second)];
                    two_panels(self.left.tile(0), panels, steps(self.k), !self.job.split.is_null(), self.sums);
                    self.finish(0, p, self.sums);
                    if second > p {
                        self.finish(0, second, self.sums.add(SUMS / 2));
                    }
                }
            });
        }
    }

    /// Two tiles of rows at a time: their digits stay in the first-level cache while the panels go by.
    unsafe fn large(&self, rows: std::ops::Range<usize>) {
        unsafe {
            self.split_all();
            let first = rows.start;
            with_tiles([16; 8], || {
                for row in rows.step_by(PAIR) {
                    let tile = row / 16;
                    // Weights from memory are fetched ahead; later rows find them in the cache.
                    let fetch = row == first && !self.job.split.is_null();
                    // The second tile may not exist: what the memory then holds is computed with and not used.
                    for p in 0..self.count {
                        two_rows([self.left.tile(tile), self.left.tile(tile + 1)], self.panel(p), steps(self.k), fetch, self.sums);
                        self.finish(row, p, self.sums);
                        if row + 16 < self.m {
                            self.finish(row + 16, p, self.sums.add(SUMS / 2));
                        }
                    }
                }
            });
        }
    }

    unsafe fn finish(&self, row: usize, p: usize, sums: *const i32) {
        unsafe {
            let scales = self.panel(p).add(steps(self.k) * STEP_BYTES).cast();
            finish(self.job, row, 16.min(self.m - row), (self.first + p) * 16, sums, self.left.scales.at(row), scales)
        }
    }
}

/// Sums to outputs: scaled, with bias and residual as the vector path adds them.
#[target_feature(enable = "avx512f")]
unsafe fn finish(job: &Job, first: usize, rows: usize, column: usize, sums: *const i32, row_scales: *const f32, scales: *const f32) {
    unsafe {
        // The last of the three sums counts 256², so this is the unit.
        let scales = _mm512_mul_ps(_mm512_loadu_ps(scales), _mm512_set1_ps(65536.0));
        let bias = if job.bias.is_null() { _mm512_setzero_ps() } else { _mm512_loadu_ps(job.bias.add(column)) };
        for row in 0..rows {
            let sum = |tile: usize| _mm512_cvtepi32_ps(_mm512_load_si512(sums.add(tile * 256 + row * 16).cast()));
            let low = _mm512_fmadd_ps(sum(1), _mm512_set1_ps(256.0), sum(2));
            let all = _mm512_fmadd_ps(sum(0), _mm512_set1_ps(65536.0), low);
            let mut v = _mm512_mul_ps(_mm512_mul_ps(all, scales), _mm512_set1_ps(*row_scales.add(row)));
            let at = (first + row) * job.c_row + column;
            if job.mode == Mode::Chain {
                v = _mm512_add_ps(_mm512_loadu_ps(job.c.add(at)), v);
            }
            if !job.bias.is_null() {
                v = _mm512_add_ps(v, bias);
            }
            if !job.add.is_null() {
                v = _mm512_add_ps(_mm512_loadu_ps(job.add.add(at)), v);
            }
            _mm512_storeu_ps(job.c.add(at), v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;
    use crate::gemm::amx::available;
    use crate::kernel::counter_uniform;
    use crate::simd::Level;

    fn noise(n: usize, stream: u64) -> Buffer {
        let mut buffer = Buffer::zeroed(n, "noise").unwrap();
        buffer.iter_mut().enumerate().for_each(|(i, v)| *v = counter_uniform(1, stream, i as u64) - 0.5);
        buffer
    }

    #[test]
    fn an_output_has_the_same_bits_in_any_batch_split_beforehand_or_not_and_is_right() {
        if !available() {
            eprintln!("no AMX on this machine: nothing to check");
            return;
        }
        for (n, k) in [(32usize, 32usize), (48, 70), (864, 320), (100, 300)] {
            let (np, most) = (n.div_ceil(16) * 16, 70);
            let (x, mut w, bias, residual) = (noise(most * k, 1), noise(np * k, 2), noise(np, 3), noise(most * np, 4));
            // The padding of a panel is zero.
            for at in 0..np * k {
                if at / (16 * k) * 16 + at % 16 >= n {
                    w[at] = 0.0;
                }
            }
            let mut first: Option<Vec<f32>> = None;
            for threads in [1, 2] {
                let mut exec = Exec::new(Level::available()[0], threads);
                let copy = Buffer::zeroed(split_floats(n, k), "split").unwrap();
                unsafe { split_weights(&exec, &[(w.as_ptr(), n, k, copy.pointer())]) };
                for split in [std::ptr::null(), copy.pointer().cast_const().cast()] {
                    // Largest first: the smaller batches are compared with its rows.
                    for m in [most, 33, 32, 17, 16, 3, 1] {
                        let mut y = vec![0f32; m * np];
                        let job = Job { split, bias: bias.as_ptr(), add: residual.as_ptr(), ..Job::of(w.as_ptr(), n, y.as_mut_ptr(), np) };
                        unsafe { forward(&mut exec, x.as_ptr(), k, m, k, &[job]).unwrap() };
                        match &first {
                            None => first = Some(y),
                            Some(all) => assert!(all[..m * np] == y, "n {n} k {k} m {m} threads {threads} split {}", !split.is_null()),
                        }
                    }
                }
            }
            let y = first.unwrap();
            let mut worst = 0f64;
            for row in 0..most {
                for col in 0..n {
                    let weight = |i: usize| f64::from(w[(col / 16) * k * 16 + i * 16 + col % 16]);
                    let exact = (0..k).map(|i| f64::from(x[row * k + i]) * weight(i)).sum::<f64>()
                        + f64::from(bias[col])
                        + f64::from(residual[row * np + col]);
                    worst = worst.max((f64::from(y[row * np + col]) - exact).abs());
                }
            }
            assert!(worst < 1.5e-7 * (k as f64).sqrt(), "n {n} k {k}: {worst:e}");
        }
    }

    #[test]
    fn what_is_not_finite_stays_so_and_tiny_rows_are_zero() {
        if !available() {
            eprintln!("no AMX on this machine: nothing to check");
            return;
        }
        let (n, k) = (32, 64);
        let mut exec = Exec::new(Level::available()[0], 1);
        for (value, expected) in [(f32::NAN, false), (f32::INFINITY, false), (1e-35, true)] {
            let (mut x, w) = (noise(2 * k, 1), noise(n * k, 2));
            x[..k].fill(if expected { value } else { 0.5 });
            x[7] = value;
            let mut y = vec![0f32; 2 * n];
            unsafe { forward(&mut exec, x.as_ptr(), k, 2, k, &[Job::of(w.as_ptr(), n, y.as_mut_ptr(), n)]).unwrap() };
            assert!(y[..n].iter().all(|v| if expected { *v == 0.0 } else { !v.is_finite() }), "{value}: {y:?}");
            assert!(y[n..].iter().all(|v| v.is_finite()));
        }
    }
}

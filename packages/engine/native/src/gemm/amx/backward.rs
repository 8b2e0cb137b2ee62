//! `dX = dY·W` and `dW += dYᵀ·X`.
//!
//! Each f32 operand is split into two bf16 terms, `x ≈ h + m` (relative error ≤ 2⁻¹⁷), and `m·h + h·h + h·m` is accumulated in f32 by the tile
//! unit: a relative error near 1e-5 per product, far below the noise of a policy gradient.
//! Contraction order per output element is fixed by the shapes, so gradients do not depend on the number of threads.
//!
//! An operand is packed into strips of 32 rows (or columns) of the output. A strip is a run of steps of 32 along the contraction, a step is four
//! 16×32 tiles: h of the first 16, h of the second, m of the first, m of the second; 4 KiB in all.
//!
//! With `TERMS` = 1 operands are rounded to h alone, there is one product for three, and a step has two tiles.

use super::term_block::{Target, block};
use super::terms;
use super::with_tiles;
use crate::buffer::Shared;
use crate::error::EngineError;
use crate::form::decode;
use crate::gemm::{Exec, GradInput, GradWeight};
use crate::simd::Level;

/// Rows or columns of the output in one strip.
pub const STRIP: usize = 32;
/// Contraction covered by one step.
const STEP: usize = 32;
/// u16 values of one tile, and of one step of a strip.
pub const TILE: usize = 512;
const fn step_len(terms: usize) -> usize {
    2 * terms * TILE
}
/// f32-sized words of one step.
const fn step_words(terms: usize) -> usize {
    step_len(terms) / 2
}
/// Steps of one contraction chunk: the chunk of a right-hand strip stays in the first-level cache.
const CHUNK: usize = 6;
/// Strips of one block of output rows / columns: both blocks sit in the second-level cache.
const ROW_STRIPS: usize = 16;
const COL_STRIPS: usize = 4;

fn strips(n: usize) -> usize {
    n.div_ceil(STRIP)
}

fn steps(n: usize) -> usize {
    n.div_ceil(STEP)
}

/// `dx[m, k] (+)= Σ_jobs Σ_n dy[m, n]·w[n, k]`: the jobs are one long contraction.
///
/// # Safety
/// Every dy is valid for `m` rows of its stride, every w for `pad16(n)·k` floats, `dx` for `m` rows of stride `dx_row`.
pub unsafe fn input_gradient<const TERMS: usize>(
    exec: &mut Exec,
    (m, k): (usize, usize),
    jobs: &[GradInput],
    (dx, dx_row): (*mut f32, usize),
    add: bool,
) -> Result<(), EngineError> {
    // Steps of all jobs, one after another: `(job, first n)`.
    let along: Vec<(usize, usize)> = jobs.iter().enumerate().flat_map(|(j, job)| (0..steps(job.n)).map(move |s| (j, s * STEP))).collect();
    let (row_strips, col_strips, depth) = (strips(m), strips(k), along.len());
    exec.pack.reserve(row_strips * depth * step_words(TERMS), "split derivatives")?;
    exec.split.reserve(col_strips * depth * step_words(TERMS), "split weights")?;
    let (left, right) = (Shared(exec.pack.pointer().cast::<u16>()), Shared(exec.split.pointer().cast::<u16>()));
    let level = exec.level;
    exec.pool.run(row_strips + col_strips, |item, _| unsafe {
        let mut square = [0f32; 512];
        for (step, &(j, n0)) in along.iter().enumerate() {
            let job = &jobs[j];
            for half in 0..2 {
                if item < row_strips {
                    let (row, out) = (item * STRIP + half * 16, left.at((item * depth + step) * step_len(TERMS)));
                    terms::rows::<TERMS>(
                        job.dy.wrapping_add(row * job.dy_row + n0),
                        job.dy_row,
                        m.saturating_sub(row),
                        job.n - n0,
                        out,
                        half,
                    );
                } else {
                    let strip = item - row_strips;
                    let (column, out) = (strip * STRIP + half * 16, right.at((strip * depth + step) * step_len(TERMS)));
                    let cols = k.saturating_sub(column);
                    let (w, panel) = squares(level, job, n0, k, (column, cols.min(16)), &mut square);
                    terms::turned_panels::<TERMS>(w, panel, cols, job.n - n0, out, half);
                }
            }
        }
    });
    let dx = Shared(dx);
    // Padding of a row is written too, with zeros.
    let width = dx_row.min(k.div_ceil(16) * 16);
    let target = |row: usize, col: usize| unsafe {
        Target {
            base: dx.at(row * STRIP * dx_row + col * STRIP),
            stride: dx_row,
            col_step: 16,
            rows: m - row * STRIP,
            cols: width - col * STRIP,
        }
    };
    unsafe { product::<TERMS>(exec, left, row_strips, right, col_strips, depth, target, add) };
    Ok(())
}

/// Two panels from row `n0` on, columns from `column` on: where they lie and how far apart, or decoded into `square`.
unsafe fn squares(
    level: Level,
    job: &GradInput,
    n0: usize,
    k: usize,
    (column, cols): (usize, usize),
    square: &mut [f32; 512],
) -> (*const f32, usize) {
    if job.w.is_plain() {
        return (job.w.at.wrapping_add(n0 * k + column * 16), k * 16);
    }
    for panel in (0..2).filter(|panel| n0 + 16 * panel < job.n && cols > 0) {
        unsafe { decode(level, job.w.from_panel(n0 / 16 + panel, k), column, cols, square.as_mut_ptr().add(256 * panel)) };
    }
    (square.as_ptr(), 256)
}

/// `dw[n, k] += Σ_m dy[m, n]·x[m, k]` for each job, with dw in panels of 16 outputs: `[n/16][k][16]`. x is split once for all of them.
///
/// # Safety
/// Every dy and x are valid for `m` rows of their strides, every dw for `pad16(n)·k` floats.
pub unsafe fn weight_gradients<const TERMS: usize>(
    exec: &mut Exec,
    (m, k): (usize, usize),
    (x, x_row): (*const f32, usize),
    jobs: &[GradWeight],
) -> Result<(), EngineError> {
    let (row_strips, depth) = (strips(k), steps(m));
    // Strips of all jobs, one after another: `(job, strip)`.
    let columns: Vec<(usize, usize)> = jobs.iter().enumerate().flat_map(|(j, job)| (0..strips(job.n)).map(move |s| (j, s))).collect();
    exec.pack.reserve(row_strips * depth * step_words(TERMS), "split activations")?;
    exec.split.reserve(columns.len() * depth * step_words(TERMS), "split derivatives")?;
    let (left, right) = (Shared(exec.pack.pointer().cast::<u16>()), Shared(exec.split.pointer().cast::<u16>()));
    let x = Shared(x.cast_mut());
    // By step: its rows are read from end to end.
    exec.pool.run(depth, |step, _| unsafe {
        let pack = |source: *const f32, stride: usize, width: usize, strip: usize, out: *mut u16, turned: bool| {
            for half in 0..2 {
                let column = strip * STRIP + half * 16;
                let from = source.wrapping_add(step * STEP * stride + column);
                terms::row_pairs::<TERMS>(
                    from,
                    stride,
                    m - step * STEP,
                    width.saturating_sub(column),
                    out.add(step * step_len(TERMS)),
                    half,
                    turned,
                );
            }
        };
        for strip in 0..row_strips {
            pack(x.get(), x_row, k, strip, left.at(strip * depth * step_len(TERMS)), true);
        }
        for (at, &(j, strip)) in columns.iter().enumerate() {
            pack(jobs[j].dy, jobs[j].dy_row, jobs[j].n, strip, right.at(at * depth * step_len(TERMS)), false);
        }
    });
    let panel = k * 16;
    let target = |row: usize, at: usize| unsafe {
        let (j, col) = columns[at];
        Target {
            base: jobs[j].dw.add(col * 2 * panel + row * STRIP * 16),
            stride: 16,
            col_step: panel,
            rows: k - row * STRIP,
            cols: jobs[j].n.div_ceil(16) * 16 - col * STRIP,
        }
    };
    unsafe { product::<TERMS>(exec, left, row_strips, right, columns.len(), depth, target, true) };
    Ok(())
}

/// All 32×32 blocks of `rows` left-hand by `cols` right-hand strips, each `depth` steps long.
#[allow(clippy::too_many_arguments)]
unsafe fn product<const TERMS: usize>(
    exec: &Exec,
    left: Shared<u16>,
    rows: usize,
    right: Shared<u16>,
    cols: usize,
    depth: usize,
    target: impl Fn(usize, usize) -> Target + Sync,
    add: bool,
) {
    let (row_blocks, col_blocks) = (rows.div_ceil(ROW_STRIPS), cols.div_ceil(COL_STRIPS));
    exec.pool.run(row_blocks * col_blocks, |unit, _| unsafe {
        let part = |at: usize, blocks: usize, count: usize| at * count / blocks..(at + 1) * count / blocks;
        let (rows, cols) = (part(unit % row_blocks, row_blocks, rows), part(unit / row_blocks, col_blocks, cols));
        with_tiles([16; 8], || {
            for chunk in (0..depth).step_by(CHUNK) {
                let length = CHUNK.min(depth - chunk);
                for col in cols.clone() {
                    let b = right.at((col * depth + chunk) * step_len(TERMS));
                    for row in rows.clone() {
                        block::<TERMS>(left.at((row * depth + chunk) * step_len(TERMS)), b, length, &target(row, col), add || chunk > 0);
                    }
                }
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::amx::available;
    use crate::simd::Level;

    fn noise(n: usize, seed: u64) -> Vec<f32> {
        let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..n)
            .map(|_| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                (x >> 40) as f32 / (1u64 << 23) as f32 - 1.0
            })
            .collect()
    }

    /// Shapes that leave every kind of edge.
    const SHAPES: [(usize, usize, usize); 6] = [(1, 16, 16), (33, 48, 40), (70, 100, 37), (64, 64, 64), (600, 320, 290), (31, 8, 172)];

    #[test]
    fn both_products_agree_with_double_precision_for_any_number_of_threads() {
        check::<2>(3e-5);
    }

    /// Of the operands' roundings, each up to 2⁻⁹.
    #[test]
    fn both_products_of_rounded_operands_are_within_their_rounding() {
        check::<1>(6e-3);
    }

    fn check<const TERMS: usize>(tolerance: f64) {
        if !available() {
            eprintln!("no AMX on this machine: nothing to check");
            return;
        }
        for (m, n, k) in SHAPES {
            let (dy, x, w) = (noise(m * n, 1), noise(m * k, 2), noise(n * k, 3));
            let padded = n.div_ceil(16) * 16;
            let mut panels = vec![0f32; padded * k];
            for row in 0..n {
                for col in 0..k {
                    panels[(row / 16) * k * 16 + col * 16 + row % 16] = w[row * k + col];
                }
            }
            let mut first: Option<(Vec<f32>, Vec<f32>)> = None;
            for threads in [1, 2, 3] {
                let mut exec = Exec::new(Level::available()[0], threads);
                let (mut dx, mut dw) = (vec![1f32; m * k], vec![1f32; padded * k]);
                unsafe {
                    let job = GradInput::of(panels.as_ptr(), n, dy.as_ptr(), n);
                    input_gradient::<TERMS>(&mut exec, (m, k), &[job], (dx.as_mut_ptr(), k), true).unwrap();
                    let job = GradWeight { dy: dy.as_ptr(), dy_row: n, n, dw: dw.as_mut_ptr() };
                    weight_gradients::<TERMS>(&mut exec, (m, k), (x.as_ptr(), k), &[job]).unwrap();
                }
                for row in 0..m {
                    for col in 0..k {
                        let exact: f64 = 1.0 + (0..n).map(|i| f64::from(dy[row * n + i]) * f64::from(w[i * k + col])).sum::<f64>();
                        assert!((f64::from(dx[row * k + col]) - exact).abs() < tolerance * (n as f64).sqrt(), "dx {m} {n} {k}");
                    }
                }
                for row in 0..n {
                    for col in 0..k {
                        let exact: f64 = 1.0 + (0..m).map(|i| f64::from(dy[i * n + row]) * f64::from(x[i * k + col])).sum::<f64>();
                        let got = dw[(row / 16) * k * 16 + col * 16 + row % 16];
                        assert!((f64::from(got) - exact).abs() < tolerance * (m as f64).sqrt(), "dw {m} {n} {k}");
                    }
                }
                match &first {
                    None => first = Some((dx, dw)),
                    Some((dx1, dw1)) => assert!(*dx1 == dx && *dw1 == dw, "threads change bits at {m} {n} {k}"),
                }
            }
        }
    }
}

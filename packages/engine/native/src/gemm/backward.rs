//! `dX = dY·W` and `dW += dYᵀ·X`.

use super::Exec;
use super::forward::{Groups, row_groups, shares};
use super::operands::Operands;
use super::tile::{Mode, Tile};
use crate::buffer::Shared;
#[cfg(target_arch = "x86_64")]
use crate::config::Precision;
use crate::error::EngineError;
use crate::form::{Matrix, decode_panel};
use crate::simd::{Level, Simd};
use crate::simd_dispatch;

/// One matrix whose output derivative flows back into the shared input.
#[derive(Clone, Copy)]
pub struct GradInput {
    /// `[n, k]`.
    pub w: Matrix,
    pub n: usize,
    pub dy: *const f32,
    pub dy_row: usize,
}
unsafe impl Sync for GradInput {}

impl GradInput {
    pub fn of(w: impl Into<Matrix>, n: usize, dy: *const f32, dy_row: usize) -> GradInput {
        GradInput { w: w.into(), n, dy, dy_row }
    }
}

/// Rows of weights that are turned at a time: the panels of a tile stay in the second-level cache.
const N_BLOCK: usize = 1024;
/// Panels that one tile takes at the most.
const WIDEST: usize = 3;

#[inline(always)]
unsafe fn turn_weights<S: Simd>(w: Matrix, k: usize, panel: usize, n0: usize, len: usize, to: *mut f32) {
    let columns = 16.min(k - 16 * panel);
    let mut n = 0;
    let mut square = [0f32; 256];
    while n < len {
        unsafe {
            let from = square_of::<S>(w.from_panel((n0 + n) / 16, k), 16 * panel, columns, &mut square);
            let to = to.add(n * 16);
            let lanes = 16.min(len - n);
            if lanes == 16 && columns == 16 {
                S::transpose(from, 16, to, 16);
            } else {
                for i in 0..lanes {
                    for c in 0..16 {
                        *to.add(i * 16 + c) = if c < columns { *from.add(c * 16 + i) } else { 0.0 };
                    }
                }
            }
        }
        n += 16;
    }
}

/// Steps `k0..k0+len` of the first panel as f32, at most 16: where they lie, or decoded into `square`.
#[inline(always)]
pub(super) unsafe fn square_of<S: Simd>(w: Matrix, k0: usize, len: usize, square: &mut [f32; 256]) -> *const f32 {
    unsafe {
        if w.is_plain() {
            return w.at.add(k0 * 16);
        }
        decode_panel::<S>(w, k0, len, square.as_mut_ptr());
        square.as_ptr()
    }
}

simd_dispatch! {
    unsafe fn gather_columns = gather(x: *const f32, x_row: usize, tokens: usize, groups: Groups, from: usize, until: usize, to: *mut f32);
    /// Rows `n0..n0+len` (n0 a multiple of 16), columns `16·panel..` of W: to `[len][16]`.
    pub unsafe fn turn = turn_weights(w: Matrix, k: usize, panel: usize, n0: usize, len: usize, to: *mut f32);
}

/// `dX[m, k] (mode)= Σ_jobs dY·W`, each product chained after the one before.
///
/// # Safety
/// Every pointer must be valid for its shape; `dx_row` at least k padded to 16.
pub unsafe fn grad_input(
    exec: &mut Exec,
    jobs: &[GradInput],
    m: usize,
    k: usize,
    dx: *mut f32,
    dx_row: usize,
    mode: Mode,
) -> Result<(), EngineError> {
    if m == 0 {
        return Ok(());
    }
    #[cfg(target_arch = "x86_64")]
    if exec.amx && m >= 32 && k >= 32 {
        let (shape, to, add) = ((m, k), (dx, dx_row), mode == Mode::Chain);
        return match exec.gradients {
            Precision::F32 => unsafe { super::amx::input_gradient::<2>(exec, shape, jobs, to, add) },
            Precision::Bf16 => unsafe { super::amx::input_gradient::<1>(exec, shape, jobs, to, add) },
        };
    }
    let operands = Operands::of(exec);
    let steps: Vec<usize> = jobs.iter().map(|job| operands.steps(job.n)).collect();
    let total: usize = steps.iter().sum();
    // Behind what is packed, what it is packed from.
    let widest = steps.iter().max().map_or(0, |steps| operands.scratch(m * steps));
    exec.pack.reserve(m * total + widest + 16, "packed derivatives")?;
    let packed = exec.pack.pointer();
    let level = exec.level;
    let groups = row_groups(m, level.mr());
    let mut offset = 0;
    for (job, steps) in jobs.iter().zip(&steps) {
        unsafe { operands.pack_rows(exec, (job.dy, job.dy_row), groups, job.n, packed.add(offset), packed.add(m * total)) };
        offset += m * steps;
    }
    let locals = exec.local(WIDEST * N_BLOCK * 16)?;
    let columns: Vec<(usize, usize)> = shares(k.div_ceil(16), level.together()).collect();
    let threads = exec.pool.threads();
    // With few panels the rows are split too.
    let splits = (4 * threads).div_ceil(columns.len()).clamp(1, groups.count);
    let per_split = groups.count.div_ceil(splits);
    let (packed, dx) = (Shared(packed), Shared(dx));
    exec.pool.run(columns.len() * splits, |chunk, thread| {
        let (first, count) = columns[chunk / splits];
        let range = chunk % splits * per_split..((chunk % splits + 1) * per_split).min(groups.count);
        let turned = locals.of(thread);
        let mut offset = 0;
        let mut fresh = mode;
        for (job, steps) in jobs.iter().zip(&steps) {
            let mut n0 = 0;
            while n0 < job.n {
                let len = N_BLOCK.min(job.n - n0);
                unsafe {
                    for p in 0..count {
                        operands.turn(level, job.w, k, first + p, n0, len, turned.add(p * N_BLOCK * 16));
                    }
                    for g in range.clone() {
                        let (start, rows) = groups.get(g);
                        let tile = Tile {
                            x: packed.at(offset + start * steps + operands.steps(n0) * rows),
                            x_stride: 0,
                            w: turned,
                            w_panel: N_BLOCK * 16,
                            w_step: 16,
                            k: operands.steps(len),
                            c: dx.at(start * dx_row + first * 16),
                            c_row: dx_row,
                            c_panel: 16,
                            bias: std::ptr::null(),
                            add: std::ptr::null(),
                            mode: fresh,
                            ahead: 0,
                        };
                        operands.multiply(level, rows, count, &tile);
                    }
                }
                fresh = Mode::Chain;
                n0 += len;
            }
            offset += m * steps;
        }
    });
    Ok(())
}

/// Tokens whose derivatives (a tile's panels) are packed at a time: they stay in the first-level cache.
const T_BLOCK: usize = 160;

/// x to `[group][token][columns of the group]`; group `i` starts at `start(i)·tokens`.
pub(super) unsafe fn pack_columns(exec: &Exec, x: *const f32, x_row: usize, tokens: usize, groups: Groups, to: *mut f32) {
    let level = exec.level;
    let per = groups.count.div_ceil(4 * exec.pool.threads());
    let (x, to) = (Shared(x.cast_mut()), Shared(to));
    exec.pool.run(groups.count.div_ceil(per), |chunk, _| unsafe {
        let range = chunk * per..((chunk + 1) * per).min(groups.count);
        gather_columns(level, x.get(), x_row, tokens, groups, range.start, range.end, to.get())
    });
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn gather<S: Simd>(x: *const f32, x_row: usize, tokens: usize, groups: Groups, from: usize, until: usize, to: *mut f32) {
    for t in 0..tokens {
        for g in from..until {
            let (start, rows) = groups.get(g);
            unsafe {
                let (source, target) = (x.add(t * x_row + start), to.add(start * tokens + t * rows));
                // A whole vector where the next tokens overwrite what is too much, and the row has that many floats.
                if (tokens - t) * rows >= 16 && start + 16 <= x_row {
                    S::store(target, S::load(source));
                } else {
                    std::ptr::copy_nonoverlapping(source, target, rows);
                }
            }
        }
    }
}

/// One matrix whose gradient comes from the shared input.
#[derive(Clone, Copy)]
pub struct GradWeight {
    /// Columns between n and its padding must be zero.
    pub dy: *const f32,
    pub dy_row: usize,
    pub n: usize,
    /// Panels `[n/16][k][16]`.
    pub dw: *mut f32,
}
unsafe impl Sync for GradWeight {}

/// `dW[n, k] += Σ_t dY[t, n]·X[t, k]` for each job, t ascending for every element.
///
/// # Safety
/// Every pointer must be valid for its shape.
pub unsafe fn grad_weight(
    exec: &mut Exec,
    x: *const f32,
    x_row: usize,
    tokens: usize,
    k: usize,
    jobs: &[GradWeight],
) -> Result<(), EngineError> {
    if tokens == 0 {
        return Ok(());
    }
    #[cfg(target_arch = "x86_64")]
    let plain: Vec<GradWeight> = if exec.amx && tokens >= 32 && k >= 32 {
        let (tiled, plain): (Vec<GradWeight>, Vec<GradWeight>) = jobs.iter().partition(|j| j.n >= 32);
        if !tiled.is_empty() {
            match exec.gradients {
                Precision::F32 => unsafe { super::amx::weight_gradients::<2>(exec, (tokens, k), (x, x_row), &tiled)? },
                Precision::Bf16 => unsafe { super::amx::weight_gradients::<1>(exec, (tokens, k), (x, x_row), &tiled)? },
            }
        }
        plain
    } else {
        jobs.to_vec()
    };
    #[cfg(not(target_arch = "x86_64"))]
    let plain = jobs.to_vec();
    if plain.is_empty() {
        return Ok(());
    }
    let operands = Operands::of(exec);
    let size = operands.steps(tokens) * k;
    exec.pack.reserve(size + operands.scratch(size) + 16, "packed activations")?;
    let packed = exec.pack.pointer();
    let locals = exec.local(WIDEST * T_BLOCK * 16)?;
    let level = exec.level;
    let groups = row_groups(k, level.mr());
    unsafe { operands.pack_columns(exec, (x, x_row), tokens, groups, packed, packed.add(size)) };
    // Panels of all jobs, as tiles take them.
    let of_job = |(j, job): (usize, &GradWeight)| shares(job.n.div_ceil(16), level.together()).map(move |panels| (j, panels));
    let columns: Vec<(usize, (usize, usize))> = plain.iter().enumerate().flat_map(of_job).collect();
    let threads = exec.pool.threads();
    let splits = (4 * threads).div_ceil(columns.len()).clamp(1, groups.count);
    let per_split = groups.count.div_ceil(splits);
    let tiles = WeightTiles { level, operands, x: Shared(packed), tokens, k, groups };
    exec.pool.run(columns.len() * splits, |chunk, thread| {
        let (j, panels) = columns[chunk / splits];
        let range = chunk % splits * per_split..((chunk % splits + 1) * per_split).min(groups.count);
        unsafe { tiles.add(&plain[j], panels, range, locals.of(thread)) };
    });
    Ok(())
}

/// What is the same for all tiles of some matrices' gradients.
struct WeightTiles {
    level: Level,
    operands: Operands,
    /// Packed: `[group][token][columns of the group]`.
    x: Shared<f32>,
    tokens: usize,
    k: usize,
    groups: Groups,
}

impl WeightTiles {
    /// Panels `first..first + count` of a matrix, of these groups of columns.
    ///
    /// # Safety
    /// As `grad_weight`; `local` has room for a block of tokens of these panels, and no other thread uses it.
    unsafe fn add(&self, job: &GradWeight, (first, count): (usize, usize), range: std::ops::Range<usize>, local: *mut f32) {
        let WeightTiles { level, operands, ref x, tokens, k, groups } = *self;
        let mut t0 = 0;
        while t0 < tokens {
            let len = T_BLOCK.min(tokens - t0);
            unsafe {
                operands.pack_panels(level, (job.dy.add(t0 * job.dy_row + first * 16), job.dy_row), len, count * 16, local);
                for g in range.clone() {
                    let (start, rows) = groups.get(g);
                    let tile = Tile {
                        x: x.at(start * operands.steps(tokens) + operands.steps(t0) * rows),
                        x_stride: 0,
                        w: local,
                        w_panel: 16,
                        w_step: count * 16,
                        k: operands.steps(len),
                        c: job.dw.add((first * k + start) * 16),
                        c_row: 16,
                        c_panel: k * 16,
                        bias: std::ptr::null(),
                        add: std::ptr::null(),
                        mode: Mode::Chain,
                        ahead: 0,
                    };
                    operands.multiply(level, rows, count, &tile);
                }
            }
            t0 += len;
        }
    }
}

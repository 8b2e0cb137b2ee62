//! Linear layers with their adapters: `y = W x + b + (alpha/rank)·B(A x̃)`, x̃ being x after dropout.

use super::layer::Net;
use super::params::{ADAPTERS, BASE, Linear, Lora};
use crate::buffer::Shared;
use crate::error::EngineError;
use crate::gemm::{self, Exec, GradInput, GradWeight, Job, Mode};
use crate::kernel::{activation, counter_uniform, norm, parallel_rows};
use crate::simd::{LANES, pad16};

/// One projection of a shared input.
#[derive(Clone, Copy)]
pub struct Output<'a> {
    pub linear: &'a Linear,
    /// Index into `TARGETS`, which also selects the stream of dropout numbers.
    pub target: usize,
    /// y, or dy in the backward pass.
    pub y: *mut f32,
    /// Null, or the residual.
    pub add: *const f32,
}

impl Output<'_> {
    fn row(&self) -> usize {
        pad16(self.linear.n)
    }
}

/// Where the adapters of a layer keep `(alpha/rank)·A x̃` (and, in backward, its derivative): `[rows, rank padded]` by target.
#[derive(Clone, Copy)]
pub struct LoraSpace {
    pub low: [*mut f32; 7],
    /// `[rows, widest input]`, for x̃ and its derivative; null without dropout.
    pub dropped: *mut f32,
}

#[derive(Clone, Copy)]
pub struct Input {
    pub x: *const f32,
    pub row: usize,
    pub rows: usize,
}

/// `x̃ = x·keep/(1 − p)` (or, adding, `to += …`), from numbers that depend on (seed, layer, target, row, column) only.
unsafe fn dropout(
    exec: &Exec,
    net: &Net<'_>,
    layer: usize,
    target: usize,
    rows: usize,
    k: usize,
    from: *const f32,
    to: *mut f32,
    add: bool,
) {
    let Some((seed, p)) = net.dropout else { return };
    let scale = 1.0 / (1.0 - p);
    let stream = (layer * 8 + target) as u64;
    let row = pad16(k);
    let (from, to) = (Shared(from.cast_mut()), Shared(to));
    parallel_rows(&exec.pool, rows, 4 * k, |range, _| {
        for t in range {
            for i in 0..k {
                let kept = counter_uniform(seed, stream, (t * k + i) as u64) >= p;
                unsafe {
                    let v = if kept { *from.at(t * row + i) * scale } else { 0.0 };
                    let at = to.at(t * row + i);
                    *at = if add { *at + v } else { v };
                }
            }
        }
    });
}

/// All projections of one input.
///
/// # Safety
/// Pointers valid for the shapes.
pub unsafe fn forward(
    exec: &mut Exec,
    net: &Net<'_>,
    layer: usize,
    input: Input,
    outputs: &[Output<'_>],
    space: &LoraSpace,
) -> Result<(), EngineError> {
    let k = outputs[0].linear.k;
    let mut jobs = Vec::with_capacity(2 * outputs.len());
    for o in outputs {
        unsafe {
            jobs.push(Job {
                split: net.split_at(BASE, o.linear.w),
                bias: o.linear.bias.map_or(std::ptr::null(), |b| net.data(BASE, b)),
                add: o.add,
                ..Job::of(net.matrix(o.linear.w, o.linear.form), o.linear.n, o.y, o.row())
            });
        }
    }
    let adapted = |o: &&Output<'_>| net.adapters && o.linear.lora.is_some();
    let Some(lora) = net.params.lora.filter(|_| outputs.iter().any(|o| adapted(&o))) else {
        return unsafe { gemm::forward(exec, input.x, input.row, input.rows, k, &jobs) };
    };
    let rank_row = pad16(lora.rank);
    let low_job = |o: &Output<'_>, a: usize| unsafe {
        Job { split: net.split_at(ADAPTERS, a), ..Job::of(net.data(ADAPTERS, a), lora.rank, space.low[o.target], rank_row) }
    };
    unsafe {
        if net.dropout.is_none() {
            jobs.extend(outputs.iter().filter_map(|o| o.linear.lora.map(|(a, _)| low_job(o, a))));
        }
        gemm::forward(exec, input.x, input.row, input.rows, k, &jobs)?;
        for o in outputs.iter().filter(adapted) {
            let Some((a, b)) = o.linear.lora else {
                continue;
            };
            if net.dropout.is_some() {
                dropout(exec, net, layer, o.target, input.rows, k, input.x, space.dropped, false);
                gemm::forward(exec, space.dropped, input.row, input.rows, k, &[low_job(o, a)])?;
            }
            activation::scale(exec.level, input.rows * rank_row, lora.scale[o.target], space.low[o.target]);
            let split = net.split_at(ADAPTERS, b);
            let up = Job { split, mode: Mode::Chain, ..Job::of(net.data(ADAPTERS, b), o.linear.n, o.y, o.row()) };
            gemm::forward(exec, space.low[o.target], rank_row, input.rows, lora.rank, &[up])?;
        }
    }
    Ok(())
}

/// `dx = Σ dy·W + …` (null to skip), and the derivative of the adapters' inner values into `slopes`.
///
/// # Safety
/// Pointers valid for the shapes.
#[allow(clippy::too_many_arguments)]
pub unsafe fn backward_input(
    exec: &mut Exec,
    net: &Net<'_>,
    layer: usize,
    rows: usize,
    outputs: &[Output<'_>],
    slopes: &LoraSpace,
    dx: *mut f32,
) -> Result<(), EngineError> {
    let k = outputs[0].linear.k;
    let mut jobs: Vec<GradInput> = Vec::with_capacity(2 * outputs.len());
    for o in outputs {
        unsafe { jobs.push(GradInput::of(net.matrix(o.linear.w, o.linear.form), o.linear.n, o.y, o.row())) };
    }
    let mut dropped = Vec::new();
    if let Some(lora) = net.params.lora.filter(|_| net.adapters) {
        let rank_row = pad16(lora.rank);
        for o in outputs {
            let Some((a, b)) = o.linear.lora else {
                continue;
            };
            unsafe {
                let up = GradInput::of(net.data(ADAPTERS, b), o.linear.n, o.y, o.row());
                gemm::grad_input(exec, &[up], rows, lora.rank, slopes.low[o.target], rank_row, Mode::Set)?;
                activation::scale(exec.level, rows * rank_row, lora.scale[o.target], slopes.low[o.target]);
                let down = GradInput::of(net.data(ADAPTERS, a), lora.rank, slopes.low[o.target], rank_row);
                if net.dropout.is_some() {
                    dropped.push((o.target, down));
                } else {
                    jobs.push(down);
                }
            }
        }
    }
    if dx.is_null() {
        return Ok(());
    }
    unsafe {
        gemm::grad_input(exec, &jobs, rows, k, dx, pad16(k), Mode::Set)?;
        for (target, job) in dropped {
            gemm::grad_input(exec, &[job], rows, k, slopes.dropped, pad16(k), Mode::Set)?;
            dropout(exec, net, layer, target, rows, k, slopes.dropped, dx, true);
        }
    }
    Ok(())
}

/// Adds to the gradients of whatever is trained. `slopes` is what `backward_input` left.
///
/// # Safety
/// Pointers valid for the shapes.
pub unsafe fn backward_weights(
    exec: &mut Exec,
    net: &Net<'_>,
    layer: usize,
    input: Input,
    outputs: &[Output<'_>],
    space: &LoraSpace,
    slopes: &LoraSpace,
) -> Result<(), EngineError> {
    let k = outputs[0].linear.k;
    let lora = net.params.lora.filter(|_| net.train_adapters);
    let rank_row = lora.map_or(0, |l| pad16(l.rank));
    let adapted = || outputs.iter().filter_map(|o| Some((o, lora?, o.linear.lora?)));
    let inner = |target: usize, lora: Lora, a: usize| unsafe {
        GradWeight { dy: slopes.low[target], dy_row: rank_row, n: lora.rank, dw: net.grad(ADAPTERS, a) }
    };
    let mut jobs = Vec::with_capacity(2 * outputs.len());
    unsafe {
        if net.train_base {
            for o in outputs {
                jobs.push(GradWeight { dy: o.y, dy_row: o.row(), n: o.linear.n, dw: net.grad(BASE, o.linear.w) });
                if let Some(bias) = o.linear.bias {
                    add_columns(exec, input.rows, o.linear.n, o.y, o.row(), net.grad(BASE, bias));
                }
            }
        }
        if net.dropout.is_none() {
            jobs.extend(adapted().map(|(o, lora, (a, _))| inner(o.target, lora, a)));
        }
        if !jobs.is_empty() {
            gemm::grad_weight(exec, input.x, input.row, input.rows, k, &jobs)?;
        }
        for (o, lora, (a, b)) in adapted() {
            let outer = GradWeight { dy: o.y, dy_row: o.row(), n: o.linear.n, dw: net.grad(ADAPTERS, b) };
            gemm::grad_weight(exec, space.low[o.target], rank_row, input.rows, lora.rank, &[outer])?;
            if net.dropout.is_some() {
                dropout(exec, net, layer, o.target, input.rows, k, input.x, slopes.dropped, false);
                gemm::grad_weight(exec, slopes.dropped, input.row, input.rows, k, &[inner(o.target, lora, a)])?;
            }
        }
    }
    Ok(())
}

/// `to[c] += Σ_t dy[t, c]`.
///
/// # Safety
/// Pointers valid for the shapes.
pub unsafe fn add_columns(exec: &Exec, rows: usize, n: usize, dy: *const f32, dy_row: usize, to: *mut f32) {
    const WIDTH: usize = 4 * LANES;
    let level = exec.level;
    let (dy, to) = (Shared(dy.cast_mut()), Shared(to));
    exec.pool.run(pad16(n).div_ceil(WIDTH), |chunk, _| unsafe {
        norm::column_sums(level, chunk * WIDTH, WIDTH.min(pad16(n) - chunk * WIDTH), rows, dy.get(), dy_row, to.get())
    });
}

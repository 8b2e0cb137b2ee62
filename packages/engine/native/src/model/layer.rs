//! One transformer layer, written once: sampling and training run this same forward, which is what makes their bits equal.

use super::branch::{self, Branch};
use super::linear::{self, Input, LoraSpace, Output};
use super::optimiser::Learning;
use super::params::{BASE, Layer, NormParams, Params};
use super::rows::{Late, Rows};
use super::split::Splits;
use super::weights::Weights;
use crate::buffer::Shared;
use crate::config::{Config, Norm};
use crate::error::EngineError;
use crate::form::{Form, Matrix};
use crate::gemm::Exec;
use crate::kernel::activation::activate;
use crate::kernel::attention::{self, Shape, write_cache};
use crate::kernel::norm::{NormRow, norm_forward};
use crate::kernel::parallel_rows;
use crate::kernel::rope::Ropes;
use crate::simd::pad16;

/// The weights and how this pass uses them.
pub struct Net<'a> {
    pub config: &'a Config,
    pub params: &'a Params,
    pub weights: &'a Weights,
    /// By store: where backward adds its gradients.
    pub learning: &'a [Learning; 3],
    /// The weights split for the AMX unit, where that is kept.
    pub split: Option<&'a Splits>,
    pub ropes: &'a Ropes,
    pub shape: Shape,
    pub adapters: bool,
    pub train_base: bool,
    pub train_adapters: bool,
    /// Seed and probability.
    pub dropout: Option<(u64, f32)>,
}

/// Activations of one layer; rows padded to 16.
#[derive(Clone, Copy)]
pub struct Acts {
    /// `[rows, hidden]`: the stream entering, after attention, leaving. `out` may be `x`.
    pub x: *mut f32,
    pub mid: *mut f32,
    pub out: *mut f32,
    pub normed: *mut f32,
    /// Before q/k norm; `q` and `q_raw` are the same buffer without it.
    pub q_raw: *mut f32,
    pub k_raw: *mut f32,
    pub q: *mut f32,
    pub v: *mut f32,
    pub attended: *mut f32,
    pub gate: *mut f32,
    pub up: *mut f32,
    pub active: *mut f32,
    /// `[rows, 2]` each, and `[rows, heads, 2]`; null when nothing is kept for backward.
    pub attn_norm: *mut f32,
    pub mlp_norm: *mut f32,
    pub attention: *mut f32,
    /// With post-norms, `[rows, hidden]`: what attention and the feed-forward block give before them. Otherwise `mid` and `out`.
    pub attn_branch: *mut f32,
    pub mlp_branch: *mut f32,
    /// `[rows, 2]` of the post-norms; null without them, or when nothing is kept.
    pub attn_post_norm: *mut f32,
    pub mlp_post_norm: *mut f32,
    pub lora: LoraSpace,
}
unsafe impl Sync for Acts {}

/// A buffer of a layer that backward reads.
pub struct Part {
    pub at: *mut f32,
    /// Floats a row.
    pub width: usize,
    /// It holds every row of a step, also in a layer that only late rows leave.
    pub every: bool,
}

impl Acts {
    /// All that `layer_backward` reads beside the stream that enters the layer. A pass that goes on from sampling has these and no others.
    pub fn parts(&self, c: &Config, params: &Params) -> Vec<Part> {
        let (hp, qp, kvp, ip) = (pad16(c.hidden), pad16(c.q_width()), pad16(c.kv_width()), pad16(c.inter));
        let rank = params.lora.map_or(0, |lora| pad16(lora.rank));
        let adapted = params.layers[0].linear.map(|linear| linear.is_some_and(|linear| linear.lora.is_some()));
        let (late, every) = (false, true);
        let lows = (0..adapted.len()).map(|target| (adapted[target], self.lora.low[target], rank, target == K || target == V));
        let buffers = [
            (true, self.mid, hp, late),
            (true, self.q, qp, late),
            (c.qk_norm, self.q_raw, qp, late),
            (c.qk_norm, self.k_raw, kvp, every),
            (true, self.attended, qp, late),
            (c.mlp.is_gated(), self.gate, ip, late),
            (true, self.up, ip, late),
            (true, self.attn_norm, 2, every),
            (true, self.mlp_norm, 2, late),
            (true, self.attention, 2 * c.heads, late),
            (c.post_norm, self.attn_branch, hp, late),
            (c.post_norm, self.mlp_branch, hp, late),
            (c.post_norm, self.attn_post_norm, 2, late),
            (c.post_norm, self.mlp_post_norm, 2, late),
        ];
        let kept = buffers.into_iter().chain(lows).filter(|&(kept, ..)| kept);
        kept.map(|(_, at, width, every)| Part { at, width, every }).collect()
    }

    /// The same with another place for the stream that leaves the layer.
    pub fn leaving_in(&self, out: *mut f32) -> Acts {
        let mlp_branch = if self.mlp_branch == self.out { out } else { self.mlp_branch };
        Acts { out, mlp_branch, ..*self }
    }
}

pub const Q: usize = 0;
pub const K: usize = 1;
pub const V: usize = 2;
pub const O: usize = 3;
pub const GATE: usize = 4;
pub const UP: usize = 5;
pub const DOWN: usize = 6;

impl Net<'_> {
    /// # Safety
    /// `offset` must be one of a parameter of that store.
    pub unsafe fn data(&self, store: usize, offset: usize) -> *const f32 {
        unsafe { self.weights.at(store, offset) }
    }

    /// A matrix of the base model.
    ///
    /// # Safety
    /// As `data`.
    pub unsafe fn matrix(&self, offset: usize, form: Form) -> Matrix {
        unsafe { self.weights.matrix(offset, form) }
    }

    /// # Safety
    /// As `data`; the store must have gradients.
    pub unsafe fn grad(&self, store: usize, offset: usize) -> *mut f32 {
        unsafe { self.learning[store].gradient(offset) }
    }

    /// Null, or the split of the matrix at this offset of a store.
    pub fn split_at(&self, store: usize, offset: usize) -> *const u8 {
        self.split.map_or(std::ptr::null(), |split| split.at(store, offset))
    }

    /// As this layer attends.
    pub fn shape_of(&self, index: usize) -> Shape {
        Shape { window: self.config.window_of(index), ..self.shape }
    }

    pub fn norm_row(&self, p: NormParams) -> NormRow {
        unsafe {
            NormRow {
                kind: self.config.norm,
                h: self.config.hidden,
                eps: self.config.norm_eps,
                weight: self.data(BASE, p.weight),
                bias: p.bias.map_or(std::ptr::null(), |b| self.data(BASE, b)),
            }
        }
    }

    pub fn head_norm(&self, weight: usize) -> NormRow {
        let weight = unsafe { self.data(BASE, weight) };
        let kind = if self.config.norm == Norm::Layer { Norm::Rms } else { self.config.norm };
        NormRow { kind, h: self.shape.head_dim, eps: self.config.norm_eps, weight, bias: std::ptr::null() }
    }

    pub fn outputs<'b>(&self, layer: &'b Layer, list: &[(usize, *mut f32)], add: *const f32) -> Vec<Output<'b>> {
        list.iter().map(|&(target, y)| Output { linear: layer.get(target), target, y, add }).collect()
    }

    /// What attention gives, where more is done to it than to add it to the stream.
    pub fn attn_branch(&self, layer: &Layer, a: &Acts) -> Option<Branch> {
        self.branch(Branch { norm: layer.attn_post_norm, scale: self.config.residual_scale, given: a.attn_branch, stats: a.attn_post_norm })
    }

    /// The same of the feed-forward block.
    pub fn mlp_branch(&self, layer: &Layer, a: &Acts) -> Option<Branch> {
        self.branch(Branch { norm: layer.mlp_post_norm, scale: self.config.residual_scale, given: a.mlp_branch, stats: a.mlp_post_norm })
    }

    fn branch(&self, b: Branch) -> Option<Branch> {
        (b.norm.is_some() || b.scale != 1.0).then_some(b)
    }

    pub fn mlp_inputs(&self, a: &Acts) -> Vec<(usize, *mut f32)> {
        if self.config.mlp.is_gated() { vec![(GATE, a.gate), (UP, a.up)] } else { vec![(UP, a.up)] }
    }
}

/// # Safety
/// `from`/`to` hold `rows` padded rows.
pub unsafe fn norm_rows(exec: &Exec, n: NormRow, rows: usize, from: *const f32, to: *mut f32, stats: *mut f32) {
    let hp = pad16(n.h);
    let level = exec.level;
    let (from, to, stats) = (Shared(from.cast_mut()), Shared(to), Shared(stats));
    let n = &n;
    parallel_rows(&exec.pool, rows, hp, |r, _| unsafe {
        let stats = if stats.get().is_null() { stats.get() } else { stats.at(2 * r.start) };
        norm_forward(level, n, r.len(), from.at(r.start * hp), hp, to.at(r.start * hp), hp, stats)
    });
}

unsafe fn gather_rows(rows: &[usize], from: *const f32, to: *mut f32, width: usize) {
    for (i, &row) in rows.iter().enumerate() {
        unsafe { std::ptr::copy_nonoverlapping(from.add(row * width), to.add(i * width), width) };
    }
}

/// With `late`, only those rows leave the layer, moved together at the start of `a.out`; nothing is kept for backward.
///
/// # Safety
/// All of `a` valid for the rows; the rows' spans have room.
pub unsafe fn layer_forward(
    exec: &mut Exec,
    net: &Net<'_>,
    rows: &Rows,
    index: usize,
    a: &Acts,
    late: Option<&Late>,
) -> Result<(), EngineError> {
    let layer = &net.params.layers[index];
    let c = net.config;
    let (hp, qp) = (pad16(c.hidden), pad16(c.q_width()));
    unsafe {
        norm_rows(exec, net.norm_row(layer.attn_norm), rows.len(), a.x, a.normed, a.attn_norm);
        let all = Input { x: a.normed, row: hp, rows: rows.len() };
        let none = std::ptr::null();
        if let Some(late) = late {
            linear::forward(exec, net, index, all, &net.outputs(layer, &[(K, a.k_raw), (V, a.v)], none), &a.lora)?;
            // `mid` is free until the attention's output; afterwards `normed` holds the residual.
            gather_rows(&late.rows, a.normed, a.mid, hp);
            let queries = Input { x: a.mid, row: hp, rows: late.rows.len() };
            linear::forward(exec, net, index, queries, &net.outputs(layer, &[(Q, a.q_raw)], none), &a.lora)?;
            gather_rows(&late.rows, a.x, a.normed, hp);
        } else {
            let outputs = net.outputs(layer, &[(Q, a.q_raw), (K, a.k_raw), (V, a.v)], none);
            linear::forward(exec, net, index, all, &outputs, &a.lora)?;
        }
        place_keys(exec, net, layer, rows, index, a, late)?;
        let f = attention::Forward {
            shape: net.shape_of(index),
            groups: late.map_or(&rows.groups, |l| &l.groups),
            spans: &rows.spans,
            layer: index,
            q: a.q,
            q_row: qp,
            o: a.attended,
            o_row: qp,
            stats: a.attention,
        };
        attention::attention(exec, &f, late.map_or(&rows.tiles, |l| &l.tiles))?;
        let m = late.map_or(rows.len(), |l| l.rows.len());
        let before = if late.is_some() { a.normed } else { a.x };
        let joined = net.attn_branch(layer, a);
        let outputs = net.outputs(layer, &[(O, a.attn_branch)], if joined.is_some() { none } else { before });
        linear::forward(exec, net, index, Input { x: a.attended, row: qp, rows: m }, &outputs, &a.lora)?;
        if let Some(branch) = joined {
            branch::join(exec, net, branch, m, before, a.mid);
        }
        norm_rows(exec, net.norm_row(layer.mlp_norm), m, a.mid, a.normed, a.mlp_norm);
        let outputs = net.outputs(layer, &net.mlp_inputs(a), none);
        linear::forward(exec, net, index, Input { x: a.normed, row: hp, rows: m }, &outputs, &a.lora)?;
        let ip = pad16(c.inter);
        let (level, acts) = (exec.level, a);
        parallel_rows(&exec.pool, m, 4 * ip, |r, _| {
            let at = r.start * ip;
            let gate = if c.mlp.is_gated() { acts.gate.add(at) } else { std::ptr::null_mut() };
            activate(level, c.mlp, r.len() * ip, gate, acts.up.add(at), acts.active.add(at))
        });
        let joined = net.mlp_branch(layer, a);
        let outputs = net.outputs(layer, &[(DOWN, a.mlp_branch)], if joined.is_some() { none } else { a.mid });
        linear::forward(exec, net, index, Input { x: a.active, row: ip, rows: m }, &outputs, &a.lora)?;
        if let Some(branch) = joined {
            branch::join(exec, net, branch, m, a.mid, a.out);
        }
        Ok(())
    }
}

/// q/k norm, rotation, and the rows' keys and values into their spans.
unsafe fn place_keys(
    exec: &mut Exec,
    net: &Net<'_>,
    layer: &Layer,
    rows: &Rows,
    index: usize,
    a: &Acts,
    late: Option<&Late>,
) -> Result<(), EngineError> {
    let s = &net.shape;
    let (hd, hdp) = (s.head_dim, pad16(s.head_dim));
    let (qp, kvp) = (pad16(s.heads * hd), pad16(s.kv_heads * hd));
    let locals = exec.local(2 * hdp + kvp)?;
    let level = exec.level;
    let rope = net.ropes.of(index);
    parallel_rows(&exec.pool, rows.len(), 2 * (qp + 2 * kvp), |range, thread| unsafe {
        let temp = locals.of(thread);
        let k_row = temp.add(2 * hdp);
        let prepare = |from: *const f32, to: *mut f32, norm: Option<usize>, position: usize| {
            if let Some(weight) = norm {
                std::ptr::write_bytes(temp.add(hd), 0, hdp - hd);
                std::ptr::copy_nonoverlapping(from, temp, hd);
                norm_forward(level, &net.head_norm(weight), 1, temp, hdp, temp.add(hdp), hdp, std::ptr::null_mut());
                std::ptr::copy_nonoverlapping(temp.add(hdp), to, hd);
            } else if !std::ptr::eq(from, to) {
                std::ptr::copy_nonoverlapping(from, to, hd);
            }
            if let Some(rope) = rope {
                rope.rotate(std::slice::from_raw_parts_mut(to, hd), position);
            }
        };
        for row in range {
            let position = rows.positions[row] as usize;
            let query = late.map_or(Some(row), |l| l.index[row]);
            for head in 0..query.map_or(0, |_| s.heads) {
                let at = query.unwrap_or(0) * qp + head * hd;
                prepare(a.q_raw.add(at), a.q.add(at), layer.q_norm, position);
            }
            for head in 0..s.kv_heads {
                prepare(a.k_raw.add(row * kvp + head * hd), k_row.add(head * hd), layer.k_norm, position);
            }
            let (span, slot) = rows.slot(row);
            write_cache(s, span, index, slot, k_row, a.v.add(row * kvp));
        }
    });
    Ok(())
}

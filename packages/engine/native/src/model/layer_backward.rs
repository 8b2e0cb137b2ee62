//! The backward pass of one layer.

use super::branch;
use super::layer::{Acts, DOWN, K, Net, O, Q, V};
use super::linear::{self, Input, LoraSpace};
use super::params::{BASE, Layer, NormParams};
use super::rows::Rows;
use crate::buffer::Shared;
use crate::error::EngineError;
use crate::gemm::Exec;
use crate::kernel::activation::activate_backward;
use crate::kernel::attention_backward::{self, Turned};
use crate::kernel::norm::{norm_again, norm_backward, norm_forward, norm_parameters};
use crate::kernel::parallel_rows;
use crate::simd::{LANES, pad16};

/// Scratch of the backward pass.
#[derive(Clone, Copy)]
pub struct Grads<'a> {
    /// `[rows, hidden]`: derivative of the stream, updated in place from the layer's output to its input.
    pub stream: *mut f32,
    pub d_normed: *mut f32,
    pub d_attended: *mut f32,
    pub dq: *mut f32,
    pub dk: *mut f32,
    pub dv: *mut f32,
    pub d_active: *mut f32,
    pub turned: &'a [Turned],
    pub lora: LoraSpace,
}
unsafe impl Sync for Grads<'_> {}

/// Adds the layer's gradients; with `need_input` also turns `g.stream` into the derivative of the layer's input.
///
/// # Safety
/// `a` holds what `layer_forward` left, with statistics. Overwrites `a.gate`, `a.up`, `a.normed`.
pub unsafe fn layer_backward(
    exec: &mut Exec,
    net: &Net<'_>,
    rows: &Rows,
    index: usize,
    a: &Acts,
    g: &Grads<'_>,
    need_input: bool,
) -> Result<(), EngineError> {
    let layer = &net.params.layers[index];
    let (c, m) = (net.config, rows.len());
    let (hp, qp, ip) = (pad16(c.hidden), pad16(c.q_width()), pad16(c.inter));
    unsafe {
        let d_mlp = net.mlp_branch(layer, a).map_or(g.stream, |b| branch::slope(exec, net, b, m, g));
        let down = net.outputs(layer, &[(DOWN, d_mlp)], std::ptr::null());
        linear::backward_input(exec, net, index, m, &down, &g.lora, g.d_active)?;
        let (level, acts, grads) = (exec.level, a, g);
        parallel_rows(&exec.pool, m, 6 * ip, |r, _| {
            let at = r.start * ip;
            let gate = if c.mlp.is_gated() { acts.gate.add(at) } else { std::ptr::null_mut() };
            activate_backward(level, c.mlp, r.len() * ip, gate, acts.up.add(at), grads.d_active.add(at))
        });
        let input = Input { x: g.d_active, row: ip, rows: m };
        linear::backward_weights(exec, net, index, input, &down, &a.lora, &g.lora)?;
        let outputs = net.outputs(layer, &net.mlp_inputs(a), std::ptr::null());
        linear::backward_input(exec, net, index, m, &outputs, &g.lora, g.d_normed)?;
        norm_step(exec, net, layer.mlp_norm, m, a.mid, a.mlp_norm, a.normed, g, true);
        linear::backward_weights(exec, net, index, Input { x: a.normed, row: hp, rows: m }, &outputs, &a.lora, &g.lora)?;

        let d_attn = net.attn_branch(layer, a).map_or(g.stream, |b| branch::slope(exec, net, b, m, g));
        let out = net.outputs(layer, &[(O, d_attn)], std::ptr::null());
        linear::backward_input(exec, net, index, m, &out, &g.lora, g.d_attended)?;
        linear::backward_weights(exec, net, index, Input { x: a.attended, row: qp, rows: m }, &out, &a.lora, &g.lora)?;
        if qp != c.q_width() {
            std::ptr::write_bytes(g.dq, 0, m * qp);
        }
        let b = attention_backward::Backward {
            shape: net.shape_of(index),
            groups: &rows.groups,
            spans: &rows.spans,
            layer: index,
            q: a.q,
            o: a.attended,
            d_o: g.d_attended,
            dq: g.dq,
            row: qp,
            stats: a.attention,
            turned: g.turned,
        };
        attention_backward::attention_backward(exec, &b, &rows.own, &rows.tiles, &rows.trees, &rows.span_node)?;
        unplace_keys(exec, net, layer, rows, index, a, g)?;
        let outputs = net.outputs(layer, &[(Q, g.dq), (K, g.dk), (V, g.dv)], std::ptr::null());
        let needed = need_input || net.train_base;
        linear::backward_input(exec, net, index, m, &outputs, &g.lora, if needed { g.d_normed } else { std::ptr::null_mut() })?;
        norm_step(exec, net, layer.attn_norm, m, a.x, a.attn_norm, a.normed, g, needed);
        linear::backward_weights(exec, net, index, Input { x: a.normed, row: hp, rows: m }, &outputs, &a.lora, &g.lora)
    }
}

/// Recomputes the norm's output into `normed`, and (unless skipped) adds its derivative to the stream and its parameters.
#[allow(clippy::too_many_arguments)]
unsafe fn norm_step(
    exec: &Exec,
    net: &Net<'_>,
    p: NormParams,
    rows: usize,
    x: *const f32,
    stats: *const f32,
    normed: *mut f32,
    g: &Grads<'_>,
    flow: bool,
) {
    unsafe {
        again_rows(exec, net, p, rows, x, stats, normed);
        if flow {
            norm_gradient(exec, net, p, rows, x, stats, g.d_normed, g.stream);
        }
    }
}

unsafe fn again_rows(exec: &Exec, net: &Net<'_>, p: NormParams, rows: usize, x: *const f32, stats: *const f32, to: *mut f32) {
    let hp = pad16(net.config.hidden);
    let level = exec.level;
    let (x, stats, to) = (Shared(x.cast_mut()), Shared(stats.cast_mut()), Shared(to));
    parallel_rows(&exec.pool, rows, hp, |r, _| unsafe {
        let n = net.norm_row(p);
        norm_again(level, &n, r.len(), x.at(r.start * hp), hp, stats.at(2 * r.start), to.at(r.start * hp), hp)
    });
}

/// `dx += norm'(dy)`; adds to the norm's own gradients when the base is trained.
///
/// # Safety
/// Pointers valid for `rows` padded rows.
#[allow(clippy::too_many_arguments)]
pub unsafe fn norm_gradient(
    exec: &Exec,
    net: &Net<'_>,
    p: NormParams,
    rows: usize,
    x: *const f32,
    stats: *const f32,
    dy: *const f32,
    dx: *mut f32,
) {
    let hp = pad16(net.config.hidden);
    let level = exec.level;
    let (x, stats, dy, dx) = (Shared(x.cast_mut()), Shared(stats.cast_mut()), Shared(dy.cast_mut()), Shared(dx));
    if !dx.get().is_null() {
        parallel_rows(&exec.pool, rows, 2 * hp, |r, _| unsafe {
            let n = net.norm_row(p);
            let at = r.start * hp;
            norm_backward(level, &n, r.len(), x.at(at), hp, stats.at(2 * r.start), dy.at(at), hp, dx.at(at), hp)
        });
    }
    if net.train_base {
        const WIDTH: usize = 2 * LANES;
        exec.pool.run(hp.div_ceil(WIDTH), |chunk, _| unsafe {
            let first = chunk * WIDTH;
            let dw = net.grad(BASE, p.weight);
            let db = p.bias.map_or(std::ptr::null_mut(), |b| net.grad(BASE, b));
            norm_parameters(level, first, WIDTH.min(hp - first), rows, x.get(), hp, stats.get(), dy.get(), hp, dw, db)
        });
    }
}

/// Derivatives of keys and values back to rows, through rotation and q/k norm.
unsafe fn unplace_keys(
    exec: &mut Exec,
    net: &Net<'_>,
    layer: &Layer,
    rows: &Rows,
    index: usize,
    a: &Acts,
    g: &Grads<'_>,
) -> Result<(), EngineError> {
    let s = &net.shape;
    let (hd, hdp) = (s.head_dim, pad16(s.head_dim));
    let (qp, kvp) = (pad16(s.heads * hd), pad16(s.kv_heads * hd));
    let (acts, grads) = (a, g);
    let rope = net.ropes.of(index);
    parallel_rows(&exec.pool, rows.len(), 2 * (qp + 2 * kvp), |range, _| unsafe {
        for row in range {
            let position = rows.positions[row] as usize;
            let node = rows.group_of[row] as usize;
            let span = &rows.own[node];
            let slot = position - span.start;
            let turned = &grads.turned[node];
            std::ptr::write_bytes(grads.dk.add(row * kvp), 0, kvp);
            std::ptr::write_bytes(grads.dv.add(row * kvp), 0, kvp);
            for head in 0..s.kv_heads {
                let from = head * span.capacity * hdp + slot * hdp;
                let to = row * kvp + head * hd;
                std::ptr::copy_nonoverlapping(turned.d_values.add(from), grads.dv.add(to), hd);
                std::ptr::copy_nonoverlapping(turned.d_keys.add(from), grads.dk.add(to), hd);
                if let Some(rope) = rope {
                    rope.rotate_back(std::slice::from_raw_parts_mut(grads.dk.add(to), hd), position);
                }
            }
            if let Some(rope) = rope {
                for head in 0..s.heads {
                    rope.rotate_back(std::slice::from_raw_parts_mut(grads.dq.add(row * qp + head * hd), hd), position);
                }
            }
        }
    });
    if let (Some(qn), Some(kn)) = (layer.q_norm, layer.k_norm) {
        unsafe {
            head_norm_backward(exec, net, qn, rows.len(), s.heads, acts.q_raw, grads.dq)?;
            head_norm_backward(exec, net, kn, rows.len(), s.kv_heads, acts.k_raw, grads.dk)?;
        }
    }
    Ok(())
}

/// Backward of the norm over each head, in place in `d`; its weight's gradient is added in (row, head) order.
unsafe fn head_norm_backward(
    exec: &mut Exec,
    net: &Net<'_>,
    weight: usize,
    rows: usize,
    heads: usize,
    raw: *const f32,
    d: *mut f32,
) -> Result<(), EngineError> {
    let (hd, hdp) = (net.shape.head_dim, pad16(net.shape.head_dim));
    let row = pad16(heads * hd);
    // Fixed blocks of rows, so that the order of the weight's sum does not depend on the threads.
    const BLOCK: usize = 64;
    let blocks = rows.div_ceil(BLOCK);
    let mut sums = vec![0f32; blocks * hdp];
    let locals = exec.local(5 * hdp + 2)?;
    let level = exec.level;
    let (raw, d, sums_at) = (Shared(raw.cast_mut()), Shared(d), Shared(sums.as_mut_ptr()));
    exec.pool.run(blocks, |block, thread| unsafe {
        let x = locals.of(thread);
        let (y, dy, dx, stats) = (x.add(hdp), x.add(2 * hdp), x.add(3 * hdp), x.add(4 * hdp));
        std::ptr::write_bytes(x, 0, 4 * hdp);
        let n = net.head_norm(weight);
        for t in block * BLOCK..((block + 1) * BLOCK).min(rows) {
            for head in 0..heads {
                let at = t * row + head * hd;
                std::ptr::copy_nonoverlapping(raw.at(at), x, hd);
                std::ptr::copy_nonoverlapping(d.at(at), dy, hd);
                std::ptr::write_bytes(dx, 0, hdp);
                norm_forward(level, &n, 1, x, hdp, y, hdp, stats);
                norm_backward(level, &n, 1, x, hdp, stats, dy, hdp, dx, hdp);
                norm_parameters(level, 0, hdp, 1, x, hdp, stats, dy, hdp, sums_at.at(block * hdp), std::ptr::null_mut());
                std::ptr::copy_nonoverlapping(dx, d.at(at), hd);
            }
        }
    });
    if net.train_base {
        for block in sums.chunks(hdp) {
            for (i, s) in block[..hd].iter().enumerate() {
                unsafe { *net.grad(BASE, weight).add(i) += s };
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "head_norm_tests.rs"]
mod head_norm_tests;

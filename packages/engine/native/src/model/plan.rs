//! Where the activations of a pass lie in one block of memory, and what starts it: the embeddings.

use super::layer::{Acts, Net};
use super::linear::LoraSpace;
use super::params::{BASE, Params};
use super::rows::Rows;
use crate::buffer::Shared;
use crate::config::Config;
use crate::form::Form;
use crate::gemm::Exec;
use crate::kernel::embedding::{Table, read_row};
use crate::kernel::parallel_rows;
use crate::simd::{LANES, pad16};

/// What stays for backward.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    Nothing,
    /// Each layer's input; the rest is recomputed.
    Inputs,
    /// One layer's at a time, which are copied elsewhere or come from there.
    Layer,
    All,
}

/// Pointers for every layer into one block of memory.
pub struct Plan {
    pub layers: Vec<Acts>,
    /// The stream after the last layer.
    pub last: *mut f32,
    pub kv: *mut f32,
    pub kv_stride: usize,
    pub floats: usize,
}

/// Hands out memory from a base; from a null one it only counts.
pub struct Bump {
    pub base: *mut f32,
    pub used: usize,
}

impl Bump {
    pub fn take(&mut self, floats: usize) -> *mut f32 {
        let at = self.base.wrapping_add(self.used);
        // A cache line between buffers: rows of power-of-two width would otherwise all fall on the same sets.
        // More than there can be, where it would not fit: reserving it fails.
        self.used = self.used.saturating_add(floats.checked_next_multiple_of(LANES).unwrap_or(usize::MAX)).saturating_add(LANES);
        at
    }
    pub fn take_if(&mut self, wanted: bool, floats: usize) -> *mut f32 {
        if wanted { self.take(floats) } else { std::ptr::null_mut() }
    }
}

/// Lays out a pass; with a null base it only measures.
pub fn lay_out(c: &Config, params: &Params, rows: &Rows, keep: Keep, dropout: bool, base: *mut f32) -> Plan {
    let mut b = Bump { base, used: 0 };
    let t = rows.len();
    let (hp, qp, kvp, ip) = (pad16(c.hidden), pad16(c.q_width()), pad16(c.kv_width()), pad16(c.inter));
    let stats = keep != Keep::Nothing;
    let branches = c.post_norm && stats;
    let normed = b.take(t * hp);
    let (k_shared, v) = (b.take(t * kvp), b.take(t * kvp));
    let active = b.take(t * ip);
    let dropped = b.take_if(dropout, t * hp.max(qp).max(ip));
    let layer_floats: usize = rows.own.iter().map(|s| c.kv_heads * s.capacity * (c.head_dim + pad16(c.head_dim))).sum();
    let kv_stride = if keep == Keep::All { layer_floats } else { 0 };
    let kv = b.take(if keep == Keep::All { c.layers.saturating_mul(layer_floats) } else { layer_floats });
    let mut x = b.take(t * hp);
    let mut layers: Vec<Acts> = Vec::with_capacity(c.layers);
    for index in 0..c.layers {
        let own = index == 0 || keep == Keep::All;
        let mut acts = if own {
            let q = b.take(t * qp);
            let lora = params.layers[index].linear.map(|l| {
                let rank = params.lora.map_or(0, |l| pad16(l.rank));
                b.take_if(l.is_some_and(|l| l.lora.is_some()), t * rank)
            });
            Acts {
                x,
                mid: b.take(t * hp),
                out: x,
                normed,
                q,
                q_raw: if c.qk_norm { b.take(t * qp) } else { q },
                k_raw: if c.qk_norm { b.take(t * kvp) } else { k_shared },
                v,
                attended: b.take(t * qp),
                gate: b.take_if(c.mlp.is_gated(), t * ip),
                up: b.take(t * ip),
                active,
                attn_norm: b.take_if(stats, 2 * t),
                mlp_norm: b.take_if(stats, 2 * t),
                attention: b.take_if(stats, 2 * t * c.heads),
                attn_branch: b.take_if(branches, t * hp),
                mlp_branch: b.take_if(branches, t * hp),
                attn_post_norm: b.take_if(branches, 2 * t),
                mlp_post_norm: b.take_if(branches, 2 * t),
                lora: LoraSpace { low: lora, dropped },
            }
        } else {
            layers[0]
        };
        acts.x = x;
        if matches!(keep, Keep::Inputs | Keep::All) || (keep == Keep::Layer && index + 1 == c.layers) {
            x = b.take(t * hp);
        }
        acts.out = x;
        if !branches {
            (acts.attn_branch, acts.mlp_branch) = (acts.mid, acts.out);
        }
        layers.push(acts);
    }
    Plan { layers, last: x, kv, kv_stride, floats: b.used }
}

/// Token embeddings, scaled, (and position embeddings) into the stream.
///
/// # Safety
/// `x` holds the rows.
pub unsafe fn embed(exec: &Exec, net: &Net<'_>, rows: &Rows, x: *mut f32) {
    let c = net.config;
    let hp = pad16(c.hidden);
    let small = net.params.embed_form != Form::F32;
    let matrix = unsafe { net.matrix(net.params.embed, net.params.embed_form) };
    let tokens = Table { at: matrix.at.cast_mut(), h: c.hidden, panels: c.tied };
    let level = exec.level;
    let positions = net.params.position.map(|p| unsafe { Table { at: net.data(BASE, p).cast_mut(), h: c.hidden, panels: false } });
    let x = Shared(x);
    let (tokens, positions) = (&tokens, &positions);
    parallel_rows(&exec.pool, rows.len(), 4 * hp, |range, _| {
        for row in range {
            unsafe {
                let to = x.at(row * hp);
                std::ptr::write_bytes(to.add(c.hidden), 0, hp - c.hidden);
                let token = rows.tokens[row] as usize;
                if small {
                    read_row(level, matrix, token, c.hidden, to);
                } else {
                    tokens.read(token, to, false);
                }
                if c.embedding_scale != 1.0 {
                    std::slice::from_raw_parts_mut(to, c.hidden).iter_mut().for_each(|x| *x *= c.embedding_scale);
                }
                if let Some(table) = positions {
                    table.read(rows.positions[row] as usize, to, true);
                }
            }
        }
    });
}

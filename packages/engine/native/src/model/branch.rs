//! Where a branch (attention, the feed-forward block) joins the stream. Most models add it in the branch's last product;
//! Gemma norms it first, Granite scales it: `stream = before + scale·norm(branch)`.

use super::layer::Net;
use super::layer_backward::{Grads, norm_gradient};
use super::params::NormParams;
use crate::buffer::Shared;
use crate::gemm::Exec;
use crate::kernel::activation::{add_scaled, scale};
use crate::kernel::norm::norm_forward;
use crate::kernel::parallel_rows;
use crate::simd::pad16;

/// One of a layer's two.
#[derive(Clone, Copy)]
pub struct Branch {
    pub norm: Option<NormParams>,
    pub scale: f32,
    /// `[rows, hidden]`: what the branch gave.
    pub given: *mut f32,
    /// `[rows, 2]` of the norm, or null.
    pub stats: *mut f32,
}

/// `out = before + scale·norm(branch)`; the branch may lie in `out`, and without a norm it does.
///
/// # Safety
/// Pointers valid for `rows` padded rows.
pub unsafe fn join(exec: &Exec, net: &Net<'_>, b: Branch, rows: usize, before: *const f32, out: *mut f32) {
    let hp = pad16(net.config.hidden);
    let level = exec.level;
    let (given, stats, before, out) = (Shared(b.given), Shared(b.stats), Shared(before.cast_mut()), Shared(out));
    let n = &b.norm.map(|norm| net.norm_row(norm));
    parallel_rows(&exec.pool, rows, hp, |r, _| unsafe {
        let at = r.start * hp;
        let stats = if stats.get().is_null() { stats.get() } else { stats.at(2 * r.start) };
        if let Some(n) = n {
            norm_forward(level, n, r.len(), given.at(at), hp, out.at(at), hp, stats);
        }
        add_scaled(level, r.len() * hp, before.at(at), b.scale, out.at(at))
    });
}

/// The derivative of what the branch gave, from that of the stream (which also goes past the branch, and so stays as it is).
/// It lies in `g.d_normed`, which is free until the branch's first norm.
///
/// # Safety
/// As `join`, with statistics.
pub unsafe fn slope(exec: &Exec, net: &Net<'_>, b: Branch, rows: usize, g: &Grads<'_>) -> *mut f32 {
    let hp = pad16(net.config.hidden);
    unsafe {
        if let Some(norm) = b.norm {
            std::ptr::write_bytes(g.d_normed, 0, rows * hp);
            norm_gradient(exec, net, norm, rows, b.given, b.stats, g.stream, g.d_normed);
            return g.d_normed;
        }
    }
    let (level, from, to) = (exec.level, Shared(g.stream), Shared(g.d_normed));
    parallel_rows(&exec.pool, rows, hp, |r, _| unsafe {
        let (at, floats) = (r.start * hp, r.len() * hp);
        std::ptr::copy_nonoverlapping(from.at(at), to.at(at), floats);
        scale(level, floats, b.scale, to.at(at))
    });
    g.d_normed
}

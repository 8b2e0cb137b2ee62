//! Attention backward. With `P` the normalised weights: `dV_j = Σ_r P_rj dO_r`, `dP = dO·Vᵀ`,
//! `dS = P·(dP − Σ_d dO·O)·scale`, `dQ = dS·K`, `dK_j = Σ_r dS_rj q_r`. Scores are recomputed tile by tile.
//! A chunk is one tree and one key/value head, so every sum has one owner and one order.

use super::attention::{Group, QueryTile, Shape, Span, path_products, path_sums, row_length};
use crate::error::EngineError;
use crate::gemm::tile::tile_columns;
use crate::gemm::{Exec, Mode, Tile, row_groups};
use crate::simd::{self, LANES, Level, Simd, pad16};
use crate::simd_dispatch;

#[derive(Clone, Copy)]
pub struct Backward<'a> {
    pub shape: Shape,
    pub groups: &'a [Group],
    pub spans: &'a [Span],
    pub layer: usize,
    pub q: *const f32,
    pub o: *const f32,
    pub d_o: *const f32,
    pub dq: *mut f32,
    /// Row stride of q, o, d_o, dq.
    pub row: usize,
    pub stats: *const f32,
    /// Turned copies and derivatives, one region a span, laid out by `Turned`.
    pub turned: &'a [Turned],
}
unsafe impl Sync for Backward<'_> {}

/// Per span and key/value head, `[capacity][head_dim padded]` each unless said otherwise.
#[derive(Clone, Copy)]
pub struct Turned {
    pub key_rows: *mut f32,
    /// Blocks `[capacity/16][head_dim][16]`.
    pub value_panels: *mut f32,
    pub d_keys: *mut f32,
    pub d_values: *mut f32,
}

impl Turned {
    /// Floats of the four parts for one layer of a span.
    pub fn floats(s: &Shape, capacity: usize) -> usize {
        s.kv_heads * capacity * (3 * pad16(s.head_dim) + s.head_dim)
    }
    /// # Safety
    /// `base` must have `floats` floats.
    pub unsafe fn at(s: &Shape, capacity: usize, base: *mut f32) -> Turned {
        let rows = s.kv_heads * capacity * pad16(s.head_dim);
        unsafe { Turned { key_rows: base, d_keys: base.add(rows), d_values: base.add(2 * rows), value_panels: base.add(3 * rows) } }
    }
}

/// `tiles[first..]` of one tree.
pub struct Tree {
    pub tiles: std::ops::Range<usize>,
    /// Spans of the tree (every node's own span).
    pub spans: std::ops::Range<usize>,
}

/// # Safety
/// Pointers valid for the shapes; `own[i]` (the tree's spans) index both `own` and `turned`.
pub unsafe fn attention_backward(
    exec: &mut Exec,
    b: &Backward<'_>,
    own: &[Span],
    tiles: &[QueryTile],
    trees: &[Tree],
    span_index: &[usize],
) -> Result<(), EngineError> {
    let s = b.shape;
    let (hd, hdp, repeat) = (s.head_dim, pad16(s.head_dim), s.repeat());
    let most = tiles
        .iter()
        .map(|t| {
            let rows = t.rows * repeat;
            rows * (2 * row_length(b.groups[t.group].start + t.first + t.rows) + 3 * hdp + 4) + 32 * hdp + 96
        })
        .max()
        .unwrap_or(0);
    let locals = exec.local(most)?;
    let level = exec.level;
    exec.pool.run(trees.len() * s.kv_heads, |chunk, thread| {
        let (tree, head) = (&trees[chunk / s.kv_heads], chunk % s.kv_heads);
        unsafe {
            for i in tree.spans.clone() {
                let (span, t) = (&own[i], &b.turned[i]);
                let at = head * span.capacity * hdp;
                turn_span(
                    level,
                    span.capacity,
                    hd,
                    span.keys(&s, b.layer, head),
                    span.values(&s, b.layer, head),
                    t.key_rows.add(at),
                    t.value_panels.add(head * span.capacity * hd),
                );
                std::ptr::write_bytes(t.d_keys.add(at), 0, span.capacity * hdp);
                std::ptr::write_bytes(t.d_values.add(at), 0, span.capacity * hdp);
            }
            for t in &tiles[tree.tiles.clone()] {
                backward_tile(level, b, t, head, span_index, locals.of(thread));
            }
        }
    });
    Ok(())
}

unsafe fn backward_tile(level: Level, b: &Backward<'_>, t: &QueryTile, head: usize, span_index: &[usize], local: *mut f32) {
    let (s, group) = (&b.shape, &b.groups[t.group]);
    let (repeat, hd, hdp) = (s.repeat(), s.head_dim, pad16(s.head_dim));
    let rows = t.rows * repeat;
    let first = group.start + t.first;
    let (low, end) = (s.first_visible(first), first + t.rows);
    let length = row_length(end);
    let spans = &b.spans[group.spans.clone()];
    let turned = |i: usize| &b.turned[span_index[group.spans.start + i]];
    unsafe {
        let p = local;
        let ds = p.add(rows * length);
        let q = ds.add(rows * length);
        let d_o = q.add(rows * hdp);
        let dq = d_o.add(rows * hdp);
        let packed = dq.add(rows * hdp);
        let dots = packed.add(32 * hdp + 32);
        let offset = |r: usize| (group.row + t.first + r / repeat) * b.row + (head * repeat + r % repeat) * hd;
        for r in 0..rows {
            for (to, from) in [(q, b.q), (d_o, b.d_o)] {
                std::ptr::copy_nonoverlapping(from.add(offset(r)), to.add(r * hdp), hd);
                std::ptr::write_bytes(to.add(r * hdp + hd), 0, hdp - hd);
            }
            *dots.add(r) = row_dot(level, b.d_o.add(offset(r)), b.o.add(offset(r)), hd);
        }
        let range = (low, end);
        let rows_of = |x: *mut f32| move |r: usize| x.add(r * hdp).cast_const();
        path_products(level, spans, |i| spans[i].keys(s, b.layer, head), hd, rows_of(q), rows, range, p, length, packed);
        let panels = |i: usize| turned(i).value_panels.add(head * spans[i].capacity * hd).cast_const();
        path_products(level, spans, panels, hd, rows_of(d_o), rows, range, ds, length, packed);
        for r in 0..rows {
            let position = first + r / repeat;
            let stats = b.stats.add(((group.row + t.first + r / repeat) * s.heads + head * repeat + r % repeat) * 2);
            let visible = (s.first_visible(position), position + 1);
            softmax_slope(level, p.add(r * length), ds.add(r * length), visible, range, s.scale, (*stats, *stats.add(1)), *dots.add(r));
        }
        let key_rows = |i: usize| turned(i).key_rows.add(head * spans[i].capacity * hdp).cast_const();
        path_sums(level, spans, key_rows, hdp, rows, range, ds, length, dq);
        for r in 0..rows {
            std::ptr::copy_nonoverlapping(dq.add(r * hdp), b.dq.add(offset(r)), hd);
        }
        for (i, span) in spans.iter().enumerate() {
            let at = head * span.capacity * hdp;
            scatter(level, span, range, p, length, rows, d_o, hdp, turned(i).d_values.add(at));
            scatter(level, span, range, ds, length, rows, q, hdp, turned(i).d_keys.add(at));
        }
    }
}

/// `to[j, ·] += Σ_r weights[r, j] · x[r, ·]` for the span's positions in range.
#[allow(clippy::too_many_arguments)]
unsafe fn scatter(
    level: Level,
    span: &Span,
    (low, end): (usize, usize),
    weights: *const f32,
    length: usize,
    rows: usize,
    x: *const f32,
    width: usize,
    to: *mut f32,
) {
    let from = low.saturating_sub(span.start);
    let until = span.len.min(end.saturating_sub(span.start));
    if from >= until {
        return;
    }
    let groups = row_groups(until - from, level.mr());
    for g in 0..groups.count {
        let (start, count) = groups.get(g);
        unsafe {
            let tile = Tile {
                x: weights.add(span.start + from + start),
                x_stride: length,
                w: x,
                w_panel: LANES,
                w_step: width,
                k: rows,
                c: to.add((from + start) * width),
                c_row: width,
                c_panel: LANES,
                bias: std::ptr::null(),
                add: std::ptr::null(),
                mode: Mode::Chain,
                ahead: 0,
            };
            tile_columns(level, count, width / LANES, &tile);
        }
    }
}

/// Scores and dP become P and dS, zero where not visible.
#[inline(always)]
unsafe fn slope<S: Simd>(
    p: *mut f32,
    ds: *mut f32,
    (lo, hi): (usize, usize),
    (low, end): (usize, usize),
    scale: f32,
    (max, inverse): (f32, f32),
    dot: f32,
) {
    unsafe {
        let (first, last) = (lo / LANES, (hi - 1) / LANES);
        let (scale, shift, inverse, dot) = (S::splat(scale), S::splat(-max), S::splat(inverse), S::splat(dot));
        for i in first..=last {
            let (at, d) = (p.add(i * LANES), ds.add(i * LANES));
            let mut e = S::mul(simd::exp_neg::<S>(S::fma(S::load(at), scale, shift)), inverse);
            let mut g = S::mul(S::mul(e, S::sub(S::load(d), dot)), scale);
            if i == first || i == last {
                let (a, b) = (lo.saturating_sub(i * LANES), (hi - i * LANES).min(LANES));
                e = S::select(e, a, b, S::zero());
                g = S::select(g, a, b, S::zero());
            }
            S::store(at, e);
            S::store(d, g);
        }
        for j in ((low / LANES * LANES)..first * LANES).chain((last + 1) * LANES..end.max((last + 1) * LANES)) {
            *p.add(j) = 0.0;
            *ds.add(j) = 0.0;
        }
    }
}

#[inline(always)]
unsafe fn dot<S: Simd>(a: *const f32, b: *const f32, n: usize) -> f32 {
    unsafe {
        let mut sum = S::zero();
        let mut i = 0;
        while i + LANES <= n {
            sum = S::fma(S::load(a.add(i)), S::load(b.add(i)), sum);
            i += LANES;
        }
        let mut total = S::reduce_add(sum);
        for i in i..n {
            total += *a.add(i) * *b.add(i);
        }
        total
    }
}

/// Keys to rows, values to panels.
#[inline(always)]
unsafe fn turn_one<S: Simd>(capacity: usize, hd: usize, keys: *const f32, values: *const f32, key_rows: *mut f32, value_panels: *mut f32) {
    let hdp = pad16(hd);
    for block in 0..capacity / LANES {
        unsafe {
            let (k, v) = (keys.add(block * LANES * hd), values.add(block * LANES * hdp));
            let (kr, vp) = (key_rows.add(block * LANES * hdp), value_panels.add(block * LANES * hd));
            let mut d = 0;
            while d + LANES <= hd {
                S::transpose(k.add(d * LANES), LANES, kr.add(d), hdp);
                S::transpose(v.add(d), hdp, vp.add(d * LANES), LANES);
                d += LANES;
            }
            for d in d..hdp {
                for j in 0..LANES {
                    *kr.add(j * hdp + d) = if d < hd { *k.add(d * LANES + j) } else { 0.0 };
                    if d < hd {
                        *vp.add(d * LANES + j) = *v.add(j * hdp + d);
                    }
                }
            }
        }
    }
}

simd_dispatch! {
    pub unsafe fn row_dot = dot(a: *const f32, b: *const f32, n: usize) -> f32;
    unsafe fn softmax_slope = slope(p: *mut f32, ds: *mut f32, visible: (usize, usize), range: (usize, usize), scale: f32, stats: (f32, f32), dot: f32);
    unsafe fn turn_span = turn_one(capacity: usize, hd: usize, keys: *const f32, values: *const f32, key_rows: *mut f32, value_panels: *mut f32);
}

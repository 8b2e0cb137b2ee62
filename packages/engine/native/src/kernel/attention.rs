//! Causal attention of new rows over a path of key/value spans. Sampling and training both come through here.
//! Keys of a span lie in blocks of 16 positions `[block][head_dim][16]`, values as `[position][head_dim padded to 16]`.
//! The scores of one query form a row indexed by absolute position; `o = Σ_j e^(s_j − m)·v_j / Σ_j e^(s_j − m)`, j ascending.

use std::ops::Range;

use crate::error::EngineError;
use crate::gemm::tile::{tile_packed, tile_rows};
use crate::gemm::{Exec, Mode, Tile, pack_group, row_groups};
use crate::simd::{self, LANES, Level, Simd, pad16};
use crate::simd_dispatch;

/// A run of cached tokens at consecutive positions.
#[derive(Clone, Copy)]
pub struct Span {
    /// Layer 0; all layers follow with `layer_stride`.
    pub base: *mut f32,
    pub layer_stride: usize,
    /// Positions there is room for, a multiple of 16.
    pub capacity: usize,
    /// Absolute position of the first token.
    pub start: usize,
    pub len: usize,
}
unsafe impl Send for Span {}
unsafe impl Sync for Span {}

/// Rows of the batch at consecutive positions that share a context; the last of its spans is the one they are appended to.
#[derive(Clone)]
pub struct Group {
    pub row: usize,
    pub rows: usize,
    /// Position of the first row.
    pub start: usize,
    pub spans: Range<usize>,
}

#[derive(Clone, Copy)]
pub struct Shape {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// What scores are multiplied by.
    pub scale: f32,
    pub window: usize,
}

impl Shape {
    pub fn repeat(&self) -> usize {
        self.heads / self.kv_heads
    }
    /// Floats of keys and values of one layer for `capacity` positions.
    pub fn layer_floats(&self, capacity: usize) -> usize {
        self.kv_heads * capacity * (self.head_dim + pad16(self.head_dim))
    }
    /// First position a query at `position` sees.
    pub fn first_visible(&self, position: usize) -> usize {
        (position + 1).saturating_sub(self.window)
    }
}

impl Span {
    /// # Safety
    /// The span must have that layer and head.
    pub unsafe fn keys(&self, s: &Shape, layer: usize, head: usize) -> *mut f32 {
        unsafe { self.base.add(layer * self.layer_stride + head * self.capacity * s.head_dim) }
    }
    /// # Safety
    /// As `keys`.
    pub unsafe fn values(&self, s: &Shape, layer: usize, head: usize) -> *mut f32 {
        let offset = s.kv_heads * self.capacity * s.head_dim + head * self.capacity * pad16(s.head_dim);
        unsafe { self.base.add(layer * self.layer_stride + offset) }
    }
}

/// Rows of queries that are worked on together, all heads that share a key/value head interleaved.
#[derive(Clone, Copy)]
pub struct QueryTile {
    pub group: usize,
    /// First row within the group.
    pub first: usize,
    pub rows: usize,
}

/// Score rows kept at a time, in floats: they stay in the second-level cache.
const SCORE_FLOATS: usize = 1 << 16;

pub fn query_tiles(groups: &[Group], s: &Shape) -> Vec<QueryTile> {
    let mut tiles = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        let mut first = 0;
        while first < group.rows {
            let length = row_length(group.start + (first + 48).min(group.rows));
            let most = (SCORE_FLOATS / length / s.repeat()).clamp(1, 48);
            let rows = most.min(group.rows - first);
            tiles.push(QueryTile { group: index, first, rows });
            first += rows;
        }
    }
    tiles
}

/// Floats of a score row that reaches positions below `end`, with room for a whole block past any span's end.
pub fn row_length(end: usize) -> usize {
    pad16(end) + LANES
}

/// Scratch floats one tile needs in the forward pass.
fn scratch(tile_rows: usize, length: usize, head_dim: usize) -> usize {
    tile_rows * (length + pad16(head_dim) + 2) + 32 * head_dim + 96
}

#[derive(Clone, Copy)]
pub struct Forward<'a> {
    pub shape: Shape,
    pub groups: &'a [Group],
    pub spans: &'a [Span],
    pub layer: usize,
    pub q: *const f32,
    pub q_row: usize,
    pub o: *mut f32,
    pub o_row: usize,
    /// Null, or `[row][head][2]`: largest scaled score and reciprocal sum.
    pub stats: *mut f32,
}
unsafe impl Sync for Forward<'_> {}

/// # Safety
/// Pointers valid for the shapes; the rows' own keys and values are already in their spans.
pub unsafe fn attention(exec: &mut Exec, f: &Forward<'_>, tiles: &[QueryTile]) -> Result<(), EngineError> {
    let repeat = f.shape.repeat();
    let most = tiles
        .iter()
        .map(|t| scratch(t.rows * repeat, row_length(f.groups[t.group].start + t.first + t.rows), f.shape.head_dim))
        .max()
        .unwrap_or(0);
    let locals = exec.local(most)?;
    let level = exec.level;
    exec.pool.run(tiles.len() * f.shape.kv_heads, |chunk, thread| {
        let (head, tile) = (chunk / tiles.len(), &tiles[chunk % tiles.len()]);
        unsafe { forward_tile(level, f, tile, head, locals.of(thread)) }
    });
    Ok(())
}

/// The blocks of `span` that hold positions `low..end`, as `(first block, blocks)`.
pub fn visible_blocks(span: &Span, low: usize, end: usize) -> (usize, usize) {
    let last = span.len.min(end.saturating_sub(span.start));
    let first = low.saturating_sub(span.start) / LANES;
    (first, last.div_ceil(LANES).saturating_sub(first))
}

/// `scores[r, j] = q_r · k_j` for positions `low..end` of the path.
///
/// # Safety
/// As `attention`; `scores` has `rows` rows of `length` floats, `packed` room for 32·head_dim + 32.
#[allow(clippy::too_many_arguments)]
pub unsafe fn path_products(
    level: Level,
    spans: &[Span],
    panels: impl Fn(usize) -> *const f32,
    head_dim: usize,
    q: impl Fn(usize) -> *const f32,
    rows: usize,
    (low, end): (usize, usize),
    scores: *mut f32,
    length: usize,
    packed: *mut f32,
) {
    let groups = row_groups(rows, level.mr());
    for g in 0..groups.count {
        let (start, count) = groups.get(g);
        unsafe {
            let gathered = packed.add(16 * head_dim + 16);
            for r in 0..count {
                std::ptr::copy_nonoverlapping(q(start + r), gathered.add(r * head_dim), head_dim);
            }
            pack_group(level, gathered, head_dim, count, head_dim, packed);
            for (i, span) in spans.iter().enumerate() {
                let (first, blocks) = visible_blocks(span, low, end);
                let tile = Tile {
                    x: packed,
                    x_stride: 0,
                    w: panels(i).add(first * LANES * head_dim),
                    w_panel: LANES * head_dim,
                    w_step: LANES,
                    k: head_dim,
                    c: scores.add(start * length + span.start + first * LANES),
                    c_row: length,
                    c_panel: LANES,
                    bias: std::ptr::null(),
                    add: std::ptr::null(),
                    mode: Mode::Set,
                    ahead: 0,
                };
                tile_packed(level, count, blocks, &tile);
            }
        }
    }
}

/// `out[r, ·] = Σ_j p[r, j] · rows_j` over positions `low..end`, j ascending.
///
/// # Safety
/// As `path_products`; `rows_of(i)` is `[position][width]` of span i.
#[allow(clippy::too_many_arguments)]
pub unsafe fn path_sums(
    level: Level,
    spans: &[Span],
    rows_of: impl Fn(usize) -> *const f32,
    width: usize,
    rows: usize,
    (low, end): (usize, usize),
    p: *const f32,
    length: usize,
    out: *mut f32,
) {
    let mut mode = Mode::Set;
    for (i, span) in spans.iter().enumerate() {
        let from = low.saturating_sub(span.start);
        let to = span.len.min(end.saturating_sub(span.start));
        if from >= to {
            continue;
        }
        unsafe {
            let tile = Tile {
                x: p.add(span.start + from),
                x_stride: length,
                w: rows_of(i).add(from * width),
                w_panel: LANES,
                w_step: width,
                k: to - from,
                c: out,
                c_row: width,
                c_panel: LANES,
                bias: std::ptr::null(),
                add: std::ptr::null(),
                mode,
                ahead: 0,
            };
            tile_rows(level, rows, width / LANES, &tile);
        }
        mode = Mode::Chain;
    }
}

unsafe fn forward_tile(level: Level, f: &Forward<'_>, t: &QueryTile, head: usize, local: *mut f32) {
    let (s, group) = (&f.shape, &f.groups[t.group]);
    let (repeat, hd, hdp) = (s.repeat(), s.head_dim, pad16(s.head_dim));
    let rows = t.rows * repeat;
    let first = group.start + t.first;
    let (low, end) = (s.first_visible(first), first + t.rows);
    let length = row_length(end);
    let spans = &f.spans[group.spans.clone()];
    unsafe {
        let scores = local;
        let out = scores.add(rows * length);
        let packed = out.add(rows * hdp);
        let q = |r: usize| f.q.add((group.row + t.first + r / repeat) * f.q_row + (head * repeat + r % repeat) * hd);
        path_products(level, spans, |i| spans[i].keys(s, f.layer, head), hd, q, rows, (low, end), scores, length, packed);
        let sums = packed.add(32 * hd + 32);
        for r in 0..rows {
            let position = first + r / repeat;
            let (max, sum) = softmax_row(level, scores.add(r * length), s.first_visible(position), position + 1, low, end, s.scale);
            let inverse = 1.0 / sum;
            *sums.add(r) = inverse;
            if !f.stats.is_null() {
                let at = f.stats.add(((group.row + t.first + r / repeat) * s.heads + head * repeat + r % repeat) * 2);
                *at = max;
                *at.add(1) = inverse;
            }
        }
        path_sums(level, spans, |i| spans[i].values(s, f.layer, head), hdp, rows, (low, end), scores, length, out);
        for r in 0..rows {
            let to = f.o.add((group.row + t.first + r / repeat) * f.o_row + (head * repeat + r % repeat) * hd);
            let inverse = *sums.add(r);
            for d in 0..hd {
                *to.add(d) = *out.add(r * hdp + d) * inverse;
            }
        }
    }
}

/// Scores of positions `lo..hi` become `e^(scale·s − m)`; the rest of `low..end` becomes 0. Returns m and the sum.
#[inline(always)]
unsafe fn softmax<S: Simd>(row: *mut f32, lo: usize, hi: usize, low: usize, end: usize, scale: f32) -> (f32, f32) {
    unsafe {
        let (first, last) = (lo / LANES, (hi - 1) / LANES);
        let least = S::splat(f32::MIN);
        let mut max = least;
        for i in first..=last {
            let v = S::load(row.add(i * LANES));
            let v =
                if i == first || i == last { S::select(v, lo.saturating_sub(i * LANES), (hi - i * LANES).min(LANES), least) } else { v };
            max = S::max(v, max);
        }
        let m = S::reduce_max(max) * scale;
        let (scale, shift) = (S::splat(scale), S::splat(-m));
        let mut sum = S::zero();
        for i in first..=last {
            let at = row.add(i * LANES);
            let mut e = simd::exp_neg::<S>(S::fma(S::load(at), scale, shift));
            if i == first || i == last {
                e = S::select(e, lo.saturating_sub(i * LANES), (hi - i * LANES).min(LANES), S::zero());
            }
            sum = S::add(sum, e);
            S::store(at, e);
        }
        for j in (low / LANES * LANES)..first * LANES {
            *row.add(j) = 0.0;
        }
        for j in (last + 1) * LANES..end.max((last + 1) * LANES) {
            *row.add(j) = 0.0;
        }
        (m, S::reduce_add(sum))
    }
}

simd_dispatch! {
    unsafe fn softmax_row = softmax(row: *mut f32, lo: usize, hi: usize, low: usize, end: usize, scale: f32) -> (f32, f32);
}

/// Puts one row's keys and values (all heads) into its span.
///
/// # Safety
/// `k` and `v` hold `kv_heads · head_dim` floats; `slot` is below the span's capacity.
pub unsafe fn write_cache(s: &Shape, span: &Span, layer: usize, slot: usize, k: *const f32, v: *const f32) {
    let (hd, hdp) = (s.head_dim, pad16(s.head_dim));
    for head in 0..s.kv_heads {
        unsafe {
            let keys = span.keys(s, layer, head).add(slot / LANES * LANES * hd + slot % LANES);
            for d in 0..hd {
                *keys.add(d * LANES) = *k.add(head * hd + d);
            }
            std::ptr::copy_nonoverlapping(v.add(head * hd), span.values(s, layer, head).add(slot * hdp), hd);
        }
    }
}

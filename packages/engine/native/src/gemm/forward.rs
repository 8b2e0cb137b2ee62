//! `Y = X·Wᵀ (+ bias)`.

use std::ops::Range;
use std::ptr::{null, null_mut};

use super::fused::{fuses, tile_fused};
use super::tile::{Mode, Tile, tile_packed, tile_streamed};
use super::{Exec, Locals};
use crate::buffer::Shared;
use crate::error::EngineError;
use crate::form::{Matrix, Part, decode};
use crate::simd::{LANES, Level, Simd};
use crate::simd_dispatch;

/// One weight matrix applied to the shared input.
#[derive(Clone, Copy)]
pub struct Job {
    /// `[n, k]`.
    pub w: Matrix,
    /// Null, or the same split for the AMX unit.
    pub split: *const u8,
    pub n: usize,
    /// Null, or `n` padded to 16.
    pub bias: *const f32,
    pub c: *mut f32,
    /// At least `n` padded to 16.
    pub c_row: usize,
    /// Null, or a residual laid out like C that is added at the end.
    pub add: *const f32,
    pub mode: Mode,
}
unsafe impl Sync for Job {}

impl Job {
    /// `C = X·Wᵀ`, nothing added.
    pub fn of(w: impl Into<Matrix>, n: usize, c: *mut f32, c_row: usize) -> Job {
        Job { w: w.into(), split: null(), n, bias: null(), c, c_row, add: null(), mode: Mode::Set }
    }
}

/// Splits `m` rows into groups of nearly equal size, none above `mr`: `(start, rows)` of group `i`.
#[derive(Clone, Copy)]
pub struct Groups {
    pub count: usize,
    base: usize,
    extra: usize,
}

pub fn row_groups(m: usize, mr: usize) -> Groups {
    let count = m.div_ceil(mr);
    if count == 0 {
        return Groups { count: 0, base: 0, extra: 0 };
    }
    Groups { count, base: m / count, extra: m % count }
}

/// How many of the panels that are left one tile takes: none stays behind alone where three go together.
pub fn share(left: usize, together: usize) -> usize {
    if together == 3 && left == 4 { 2 } else { together.min(left) }
}

/// Panels `first..first+count` for one tile after the other.
pub fn shares(panels: usize, together: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut first = 0;
    std::iter::from_fn(move || {
        let (at, count) = (first, share(panels - first, together));
        first += count;
        (count > 0).then_some((at, count))
    })
}

impl Groups {
    pub fn rows(self) -> usize {
        self.count * self.base + self.extra
    }

    pub fn get(self, i: usize) -> (usize, usize) {
        (i * self.base + i.min(self.extra), self.base + usize::from(i < self.extra))
    }
}

/// `[rows][k]` with `stride` to `[k][rows]`.
#[inline(always)]
unsafe fn pack<S: Simd>(x: *const f32, stride: usize, rows: usize, k: usize, to: *mut f32) {
    unsafe {
        if rows == 1 {
            std::ptr::copy_nonoverlapping(x, to, k);
            return;
        }
        let mut at = 0;
        // 16 columns at a time through a turned block; rows beyond the group are not read.
        let (mut square, mut block) = ([0f32; 256], [0f32; 256]);
        while at + 16 <= k {
            for r in 0..rows {
                S::store(square.as_mut_ptr().add(r * 16), S::load(x.add(r * stride + at)));
            }
            S::transpose(square.as_ptr(), 16, block.as_mut_ptr(), 16);
            for j in 0..16 {
                // Writes 16 floats, of which later steps overwrite those beyond the rows; at the group's end exactly the rows.
                let (from, start) = (block.as_ptr().add(j * 16), (at + j) * rows);
                if start + 16 <= k * rows {
                    S::store(to.add(start), S::load(from));
                } else {
                    std::ptr::copy_nonoverlapping(from, to.add(start), rows);
                }
            }
            at += 16;
        }
        for j in at..k {
            for r in 0..rows {
                *to.add(j * rows + r) = *x.add(r * stride + j);
            }
        }
    }
}

simd_dispatch! {
    /// `[rows][k]` with `stride` to `[k][rows]`; `rows` ≤ 16.
    pub unsafe fn pack_group = pack(x: *const f32, stride: usize, rows: usize, k: usize, to: *mut f32);
}

/// Floats from which packing is worth more than one thread.
const PACK_ALONE: usize = 1 << 14;

/// Packs all row groups of `x[m, k]`, in parallel when it pays. Group `i` starts at `start(i)·k`.
///
/// # Safety
/// `x` must hold the groups' rows of k, `to` as many floats.
pub unsafe fn pack_rows(exec: &Exec, x: *const f32, stride: usize, groups: Groups, k: usize, to: *mut f32) {
    let level = exec.level;
    let (x, to) = (Shared(x.cast_mut()), Shared(to));
    // Groups where there are enough, else pieces of k as well.
    let shares = if groups.rows() * k < PACK_ALONE { 1 } else { 4 * exec.pool.threads() };
    let per_chunk = groups.count.div_ceil(shares).max(1);
    let width = k.div_ceil(shares.div_ceil(groups.count.max(1))).next_multiple_of(LANES);
    let across = k.div_ceil(width);
    exec.pool.run(groups.count.div_ceil(per_chunk) * across, |chunk, _| {
        let (chunk, from) = (chunk / across, chunk % across * width);
        for g in chunk * per_chunk..((chunk + 1) * per_chunk).min(groups.count) {
            let (start, rows) = groups.get(g);
            unsafe { pack_group(level, x.at(start * stride + from), stride, rows, width.min(k - from), to.at(start * k + from * rows)) }
        }
    });
}

/// # Safety
/// Every pointer must be valid for its shape; outputs must not overlap inputs.
pub unsafe fn forward(exec: &mut Exec, x: *const f32, stride: usize, m: usize, k: usize, jobs: &[Job]) -> Result<(), EngineError> {
    let (tiled, plain): (Vec<Job>, Vec<Job>) = jobs.iter().partition(|j| exec.on_amx(j.n, k) && j.w.is_plain());
    unsafe {
        forward_on(exec, true, x, stride, m, k, &tiled)?;
        forward_on(exec, false, x, stride, m, k, &plain)
    }
}

/// As `forward`, with the unit chosen by the caller.
///
/// # Safety
/// As `forward`.
pub unsafe fn forward_on(
    exec: &mut Exec,
    amx: bool,
    x: *const f32,
    stride: usize,
    m: usize,
    k: usize,
    jobs: &[Job],
) -> Result<(), EngineError> {
    if m == 0 || jobs.is_empty() {
        return Ok(());
    }
    #[cfg(target_arch = "x86_64")]
    if amx {
        return unsafe { super::amx::forward(exec, x, stride, m, k, jobs) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = amx;
    let groups = row_groups(m, exec.level.mr());
    exec.pack.reserve(m * k + 16, "packed activations")?;
    let packed = if m == 1 { x.cast_mut() } else { exec.pack.pointer() };
    if m > 1 {
        unsafe { pack_rows(exec, x, stride, groups, k, packed) };
    }
    let locals = exec.local(DECODED)?;
    unsafe { run_packed(exec, &locals, packed, groups, k, jobs) };
    Ok(())
}

/// Floats of weights that are decoded at a time: they stay in the first-level cache.
pub const DECODED: usize = 4096;
/// Floats of weights that several groups of rows take one after the other.
const L1_WEIGHTS: usize = 7680;

/// With more rows than these the multiply-adds take so long that the weights come in time by themselves.
pub const STREAMED_ROWS: usize = 24;

/// A range of row groups times a range of panels.
pub struct Strip {
    pub level: Level,
    /// `DECODED` floats.
    pub local: *mut f32,
    /// All groups, packed.
    pub x: *const f32,
    pub k: usize,
    pub groups: Groups,
    pub range: Range<usize>,
    /// From the first panel on.
    pub w: Matrix,
    pub panels: usize,
    /// Panels there are after these.
    pub left: usize,
    /// From the first row of the range and the first panel on, as `bias` and `add`, which may be null.
    pub c: *mut f32,
    pub c_row: usize,
    pub bias: *const f32,
    pub add: *const f32,
    pub mode: Mode,
    /// Whether the weights come from memory, so that the next ones are fetched while these are used.
    pub streamed: bool,
}

impl Strip {
    /// Steps `from..from+len` of group `g` with the panels from `p` on, whose weights as f32 are at `w`.
    fn tile(&self, g: usize, p: usize, from: usize, len: usize, w: *const f32, w_panel: usize) -> Tile {
        let (start, rows) = self.groups.get(g);
        let at = (start - self.groups.get(self.range.start).0) * self.c_row + p * LANES;
        let last = from + len == self.k;
        Tile {
            x: self.x.wrapping_add(start * self.k + from * rows),
            x_stride: 0,
            w,
            w_panel,
            w_step: LANES,
            k: len,
            c: self.c.wrapping_add(at),
            c_row: self.c_row,
            c_panel: LANES,
            bias: if last && !self.bias.is_null() { self.bias.wrapping_add(p * LANES) } else { null() },
            add: if last && !self.add.is_null() { self.add.wrapping_add(at) } else { null() },
            mode: if from == 0 { self.mode } else { Mode::Chain },
            ahead: 0,
        }
    }

    /// # Safety
    /// Every pointer must be valid for its shape.
    pub unsafe fn run(&self) {
        let rows = self.groups.get(self.range.start).1;
        let step = match rows {
            1 if self.w.is_plain() => 8,
            1..=6 => 4,
            _ if self.w.form.blocks().is_some() => 2,
            _ => self.level.together(),
        };
        let mut p = 0;
        while p < self.panels {
            let n = share(self.panels - p, step);
            let follow = if p + 2 * n <= self.panels + self.left { n } else { 0 };
            unsafe { if self.w.is_plain() { self.plain(p, n, follow) } else { self.small(p, n, follow, rows) } }
            p += n;
        }
    }

    /// Several groups take the weights in pieces of k that stay in the first-level cache.
    unsafe fn plain(&self, p: usize, n: usize, follow: usize) {
        let panel = LANES * self.k;
        let most = if self.range.len() > 1 { L1_WEIGHTS / LANES / n } else { self.k };
        for from in (0..self.k).step_by(most) {
            let w = self.w.at.wrapping_add(p * panel + from * LANES);
            for g in self.range.clone() {
                let tile = Tile { ahead: follow * panel, ..self.tile(g, p, from, most.min(self.k - from), w, panel) };
                let rows = self.groups.get(g).1;
                unsafe {
                    if self.streamed && g == self.range.start {
                        tile_streamed(self.level, rows, n, &tile);
                    } else {
                        tile_packed(self.level, rows, n, &tile);
                    }
                }
            }
        }
    }

    /// Weights in a small form are decoded by the first group as it goes, for all of them.
    unsafe fn small(&self, p: usize, n: usize, follow: usize, rows: usize) {
        let w = self.w.from_panel(p, self.k);
        let fuses = fuses(self.level, w.form, rows, n);
        let keeps = self.range.len() > 1 || !fuses;
        // Whole blocks of every form but the families.
        let most = if keeps { DECODED / LANES / n / 32 * 32 } else { self.k };
        let kept = if keeps { self.local } else { null_mut() };
        let mut from = 0;
        while from < self.k {
            let len = most.min(self.k - from);
            unsafe {
                let mut rest = self.range.clone();
                if fuses {
                    let g = rest.start;
                    let part = Part { k: self.k, from, len, next: follow };
                    tile_fused(self.level, rows, n, w, part, &self.tile(g, p, from, len, kept, most * LANES));
                    rest.start += 1;
                } else {
                    for i in 0..n {
                        decode(self.level, w.from_panel(i, self.k), from, len, kept.add(i * most * LANES));
                    }
                }
                for g in rest {
                    tile_packed(self.level, self.groups.get(g).1, n, &self.tile(g, p, from, len, kept, most * LANES));
                }
            }
            from += len;
        }
    }
}

/// Work item: a block of row groups (its packed rows stay in the second-level cache) times a range of panels.
unsafe fn run_packed(exec: &Exec, locals: &Locals, packed: *mut f32, groups: Groups, k: usize, jobs: &[Job]) {
    let (level, m) = (exec.level, groups.rows());
    let threads = exec.pool.threads();
    let block = ((1 << 18) / (level.mr() * k).max(1)).clamp(1, groups.count.max(1));
    let blocks = groups.count.div_ceil(block);
    let panels: usize = jobs.iter().map(|j| j.n.div_ceil(16)).sum();
    // Panels per item: enough items to balance the threads, at least ~64 k multiply-adds each.
    let wanted = (8 * threads).div_ceil(blocks).max(1);
    let least = (4096 / (k * m.min(block * level.mr())).max(1)).max(1);
    let mut width = panels.div_ceil(wanted).max(least).next_multiple_of(level.together());
    if m <= 6 {
        width = width.next_multiple_of(if m <= 4 { 8 } else { 4 });
    }
    let mut items = Vec::new();
    for (j, job) in jobs.iter().enumerate() {
        let count = job.n.div_ceil(16);
        // Pieces of nearly equal size: with few rows and few panels there are only two or three.
        let width = if m <= 6 { count.div_ceil(count.div_ceil(width)).next_multiple_of(4) } else { width };
        let mut p = 0;
        while p < count {
            items.push((j, p, width.min(count - p)));
            p += width;
        }
    }
    let x = Shared(packed);
    exec.pool.run(blocks * items.len(), |chunk, thread| {
        let (j, first, count) = items[chunk % items.len()];
        let b = chunk / items.len();
        let job = &jobs[j];
        let range = b * block..((b + 1) * block).min(groups.count);
        let at = groups.get(range.start).0 * job.c_row + first * LANES;
        let strip = Strip {
            level,
            local: locals.of(thread),
            x: x.get(),
            k,
            groups,
            range,
            w: job.w.from_panel(first, k),
            panels: count,
            left: job.n.div_ceil(LANES) - first - count,
            c: job.c.wrapping_add(at),
            c_row: job.c_row,
            bias: if job.bias.is_null() { null() } else { job.bias.wrapping_add(first * LANES) },
            add: if job.add.is_null() { null() } else { job.add.wrapping_add(at) },
            mode: job.mode,
            streamed: m <= STREAMED_ROWS,
        };
        unsafe { strip.run() };
    });
}

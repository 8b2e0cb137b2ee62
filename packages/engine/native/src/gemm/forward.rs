//! `Y = X·Wᵀ (+ bias)`.

use std::ptr::null;

use super::few::{FEW, Few, few};
use super::tile::{Mode, Tile, tile_packed, tile_streamed};
use super::{Exec, Locals};
use crate::buffer::Shared;
use crate::error::EngineError;
use crate::form::{Matrix, decode};
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

impl Groups {
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
        let mut block = [0f32; 256];
        let mut at = 0;
        // 16 columns at a time through a turned block; rows beyond the group are not read.
        while at + 16 <= k {
            let mut square = [0f32; 256];
            for r in 0..rows {
                S::store(square.as_mut_ptr().add(r * 16), S::load(x.add(r * stride + at)));
            }
            S::transpose(square.as_ptr(), 16, block.as_mut_ptr(), 16);
            for j in 0..16 {
                // Writes 16 floats, of which later steps overwrite all but `rows`; at the group's end exactly `rows`.
                let (from, to) = (block.as_ptr().add(j * 16), to.add((at + j) * rows));
                if (at + j) * rows + 16 <= k * rows {
                    S::store(to, S::load(from));
                } else {
                    std::ptr::copy_nonoverlapping(from, to, rows);
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

/// Packs all row groups of `x[m, k]`, in parallel when it pays. Group `i` starts at `start(i)·k`.
///
/// # Safety
/// `x` must hold m rows of k, `to` m·k floats.
pub unsafe fn pack_rows(exec: &Exec, x: *const f32, stride: usize, m: usize, k: usize, to: *mut f32) {
    let groups = row_groups(m, exec.level.mr());
    let level = exec.level;
    let per_chunk = if m * k < 1 << 15 { groups.count } else { groups.count.div_ceil(4 * exec.pool.threads()) }.max(1);
    let (x, to) = (Shared(x.cast_mut()), Shared(to));
    exec.pool.run(groups.count.div_ceil(per_chunk), |chunk, _| {
        for g in chunk * per_chunk..((chunk + 1) * per_chunk).min(groups.count) {
            let (start, rows) = groups.get(g);
            unsafe { pack_group(level, x.at(start * stride), stride, rows, k, to.at(start * k)) }
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
    exec.pack.reserve(m * k + 16, "packed activations")?;
    let packed = if m == 1 { x.cast_mut() } else { exec.pack.pointer() };
    if m > 1 {
        unsafe { pack_rows(exec, x, stride, m, k, packed) };
    }
    let locals = exec.local(DECODED)?;
    unsafe { run_packed(exec, &locals, packed, m, k, jobs) };
    Ok(())
}

/// Floats of weights that are decoded at a time: they stay in the first-level cache.
pub const DECODED: usize = 4096;

/// Calls `work` with pieces of `count` panels of `w` as f32: steps `from..` of k, so many of them, where they lie and how far apart
/// the panels are. Weights that are f32 already come in one piece.
///
/// # Safety
/// `w` begins with the panels; `local` holds `DECODED` floats.
pub unsafe fn decoded(
    level: Level,
    w: Matrix,
    k: usize,
    count: usize,
    local: *mut f32,
    mut work: impl FnMut(usize, usize, *const f32, usize),
) {
    if w.is_plain() {
        return work(0, k, w.at, LANES * k);
    }
    // Whole blocks of every form but the families.
    let most = DECODED / LANES / count / 32 * 32;
    let mut from = 0;
    while from < k {
        let len = most.min(k - from);
        for p in 0..count {
            unsafe { decode(level, w.from_panel(p, k), from, len, local.add(p * most * LANES)) };
        }
        work(from, len, local, most * LANES);
        from += len;
    }
}

/// Work item: a block of row groups (its packed rows stay in the second-level cache) times a range of panels.
unsafe fn run_packed(exec: &Exec, locals: &Locals, packed: *mut f32, m: usize, k: usize, jobs: &[Job]) {
    let level = exec.level;
    let groups = row_groups(m, level.mr());
    let threads = exec.pool.threads();
    let block = ((1 << 18) / (level.mr() * k).max(1)).clamp(1, groups.count.max(1));
    let blocks = groups.count.div_ceil(block);
    let panels: usize = jobs.iter().map(|j| j.n.div_ceil(16)).sum();
    // Panels per item: enough items to balance the threads, at least ~64 k multiply-adds each.
    let wanted = (8 * threads).div_ceil(blocks).max(1);
    let least = (4096 / (k * m.min(block * level.mr())).max(1)).max(1);
    let mut width = panels.div_ceil(wanted).max(least).next_multiple_of(2);
    if m <= 4 {
        width = width.next_multiple_of(8);
    }
    let mut items = Vec::new();
    for (j, job) in jobs.iter().enumerate() {
        let count = job.n.div_ceil(16);
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
        // Few rows: the weights come from memory, and the next panels are fetched while these are used.
        let streamed = m <= 2 * level.mr();
        let step = match m {
            1 => 8,
            2..=6 => 4,
            _ => 2,
        };
        if m <= FEW && !job.w.is_plain() {
            let at = |pointer: *const f32| if pointer.is_null() { pointer } else { pointer.wrapping_add(first * LANES) };
            let part = Few {
                x: x.get(),
                rows: m,
                w: job.w.from_panel(first, k),
                k,
                c: job.c.wrapping_add(first * LANES),
                c_row: job.c_row,
                bias: at(job.bias),
                add: at(job.add),
                mode: job.mode,
                left: job.n.div_ceil(LANES) - first - count,
            };
            return unsafe { few(level, count, &part) };
        }
        let mut p = first;
        while p < first + count {
            let n = step.min(first + count - p);
            let work = |from: usize, len: usize, w: *const f32, w_panel: usize| {
                let last = from + len == k;
                for g in b * block..((b + 1) * block).min(groups.count) {
                    let (start, rows) = groups.get(g);
                    unsafe {
                        let tile = Tile {
                            x: x.at(start * k + from * rows),
                            x_stride: 0,
                            w,
                            w_panel,
                            w_step: LANES,
                            k: len,
                            c: job.c.add(start * job.c_row + p * LANES),
                            c_row: job.c_row,
                            c_panel: LANES,
                            bias: if last && !job.bias.is_null() { job.bias.add(p * LANES) } else { null() },
                            add: if last && !job.add.is_null() { job.add.add(start * job.c_row + p * LANES) } else { null() },
                            mode: if from == 0 { job.mode } else { Mode::Chain },
                            ahead: if p + 2 * n <= job.n / LANES { n * LANES * k } else { 0 },
                        };
                        if streamed && job.w.is_plain() {
                            tile_streamed(level, rows, n, &tile);
                        } else {
                            tile_packed(level, rows, n, &tile);
                        }
                    }
                }
            };
            unsafe { decoded(level, job.w.from_panel(p, k), k, n, locals.of(thread), work) };
            p += n;
        }
    });
}

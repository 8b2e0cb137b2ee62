//! Log-softmax over the vocabulary, in chunks of fixed width: each chunk gives (largest z, Σ e^(z−m), Σ (z−m)·e^(z−m)) with
//! `z = logit / temperature`, and the chunks are combined in order. Sampling and scoring use the same functions.

mod known;

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::buffer::Shared;
use crate::error::EngineError;
use crate::form::Matrix;
use crate::gemm::{DECODED, Exec, Job, Mode, STREAMED_ROWS, Strip, forward_on, pack_rows, row_groups};
use crate::simd::{self, LANES, Level, Simd, pad16};
use crate::simd_dispatch;
pub use known::head_of;

/// Vocabulary entries per chunk.
pub const CHUNK: usize = 1024;

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Part {
    /// The largest logit, and the largest z.
    largest: f32,
    max: f32,
    sum: f32,
    weighted: f32,
    /// Σ logits, for nothing but to be NaN when one of them is.
    total: f32,
}

/// What a row's distribution comes to.
#[derive(Clone, Copy, Default)]
pub struct RowStats {
    /// ln Σ e^z
    pub log_sum: f32,
    pub entropy: f32,
}

#[inline(always)]
unsafe fn part_of<S: Simd>(logits: *const f32, n: usize, inverse_temperature: f32, entropy: bool) -> Part {
    unsafe {
        let vectors = n.div_ceil(LANES);
        let tail = n - (vectors - 1) * LANES;
        let scale = S::splat(inverse_temperature);
        let least = S::splat(f32::MIN);
        let (mut a, mut b, mut total) = (least, least, S::zero());
        for i in 0..vectors {
            let mut l = S::load(logits.add(i * LANES));
            if i + 1 == vectors {
                total = S::add(total, S::select(l, 0, tail, S::zero()));
                l = S::select(l, 0, tail, least);
            } else {
                total = S::add(total, l);
            }
            if i % 2 == 0 {
                a = S::max(l, a);
            } else {
                b = S::max(l, b);
            }
        }
        let largest = S::reduce_max(S::max(a, b));
        // Rounding keeps order: the z of the largest logit is the largest z.
        let max = (largest * inverse_temperature).max(f32::MIN);
        let m = S::splat(max);
        let (mut sum, mut weighted) = (S::zero(), S::zero());
        for i in 0..vectors {
            let d = S::sub(S::mul(S::load(logits.add(i * LANES)), scale), m);
            let mut e = simd::exp_neg::<S>(d);
            if i + 1 == vectors {
                e = S::select(e, 0, tail, S::zero());
            }
            sum = S::add(sum, e);
            if entropy {
                let mut w = S::mul(d, e);
                if i + 1 == vectors {
                    w = S::select(w, 0, tail, S::zero());
                }
                weighted = S::add(weighted, w);
            }
        }
        let weighted = if entropy { S::reduce_add(weighted) } else { 0.0 };
        Part { largest, max, sum: S::reduce_add(sum), weighted, total: S::reduce_add(total) }
    }
}

/// dlogits in place: `(g·(δ − p) − h·p·(ln p + H)) / temperature`, without the δ term; the padding becomes zero.
#[inline(always)]
unsafe fn slope<S: Simd>(logits: *mut f32, n: usize, inverse_temperature: f32, stats: RowStats, g: f32, h: f32) {
    unsafe {
        let vectors = n.div_ceil(LANES);
        let tail = n - (vectors - 1) * LANES;
        let (scale, shift) = (S::splat(inverse_temperature), S::splat(-stats.log_sum));
        let (minus_g, minus_h, entropy) = (S::splat(-g), S::splat(-h), S::splat(stats.entropy));
        for i in 0..vectors {
            let at = logits.add(i * LANES);
            let log_p = S::fma(S::load(at), scale, shift);
            let p = simd::exp::<S>(log_p);
            let factor = if h == 0.0 { minus_g } else { S::fma(minus_h, S::add(log_p, entropy), minus_g) };
            let mut d = S::mul(S::mul(p, factor), scale);
            if i + 1 == vectors {
                d = S::select(d, 0, tail, S::zero());
            }
            S::store(at, d);
        }
    }
}

simd_dispatch! {
    unsafe fn chunk_part = part_of(logits: *const f32, n: usize, inverse_temperature: f32, entropy: bool) -> Part;
    unsafe fn chunk_slope = slope(logits: *mut f32, n: usize, inverse_temperature: f32, stats: RowStats, g: f32, h: f32);
}

fn combine(parts: &[Part]) -> RowStats {
    let max = parts.iter().fold(f32::MIN, |m, p| if p.max > m { p.max } else { m });
    let (mut sum, mut weighted) = (0f64, 0f64);
    for p in parts {
        let shift = f64::from(p.max) - f64::from(max);
        let factor = shift.exp();
        sum += factor * f64::from(p.sum);
        weighted += factor * (f64::from(p.weighted) + shift * f64::from(p.sum));
    }
    RowStats { log_sum: (f64::from(max) + sum.ln()) as f32, entropy: (sum.ln() - weighted / sum) as f32 }
}

fn log_prob(logit: f32, inverse_temperature: f32, stats: RowStats) -> f32 {
    logit * inverse_temperature - stats.log_sum
}

/// One row of logits as a distribution.
pub struct RowLogProbs {
    inverse_temperature: f32,
    stats: RowStats,
}

impl RowLogProbs {
    pub fn of(level: Level, logits: &[f32], temperature: f32) -> RowLogProbs {
        let inverse_temperature = 1.0 / temperature;
        // A chunk is read in whole vectors; the last one may end inside a vector, so it is copied.
        let mut parts = Vec::with_capacity(logits.len().div_ceil(CHUNK));
        for chunk in logits.chunks(CHUNK) {
            let mut padded = [0f32; CHUNK];
            let from = if chunk.len() % LANES == 0 {
                chunk.as_ptr()
            } else {
                padded[..chunk.len()].copy_from_slice(chunk);
                padded.as_ptr()
            };
            parts.push(unsafe { chunk_part(level, from, chunk.len(), inverse_temperature, false) });
        }
        RowLogProbs { inverse_temperature, stats: combine(&parts) }
    }

    /// Of a row whose parts are known.
    pub fn of_parts(parts: &[Part], temperature: f32) -> RowLogProbs {
        RowLogProbs { inverse_temperature: 1.0 / temperature, stats: combine(parts) }
    }

    /// The log-probability of the token that has this logit.
    pub fn at(&self, logit: f32) -> f32 {
        log_prob(logit, self.inverse_temperature, self.stats)
    }
}

/// The largest logit of a row; NaN when one of them is.
pub fn largest(parts: &[Part]) -> f32 {
    parts.iter().fold(f32::MIN, |largest, part| if part.total.is_nan() || largest.is_nan() { f32::NAN } else { largest.max(part.largest) })
}

/// The log-probability of `token` under one row of logits.
pub fn log_softmax_at(level: Level, logits: &[f32], temperature: f32, token: usize) -> f32 {
    RowLogProbs::of(level, logits, temperature).at(logits[token])
}

/// Rows of one block of the head: their logits for one chunk stay in the second-level cache.
const ROW_BLOCK: usize = 96;

pub struct HeadForward<'a> {
    pub hidden: *const f32,
    pub hidden_row: usize,
    pub rows: usize,
    /// `[vocab, k]`.
    pub w: Matrix,
    /// Null, or the same split for the AMX unit; then the logits are kept.
    pub split: *const u8,
    pub vocab: usize,
    pub k: usize,
    /// Of each row.
    pub temperatures: &'a [f32],
    pub entropy: bool,
    /// Null, or `[rows][vocab padded]` to keep the logits in.
    pub keep: *mut f32,
}
unsafe impl Sync for HeadForward<'_> {}

/// Log-probs of `targets` (one a row), the rows' statistics.
///
/// # Safety
/// Pointers valid for the shapes.
pub unsafe fn head_forward(exec: &mut Exec, f: &HeadForward<'_>, targets: &[u32]) -> Result<(Vec<f32>, Vec<RowStats>), EngineError> {
    let (parts, picked) = unsafe { head_parts(exec, f, Some(targets))? };
    let stats: Vec<RowStats> = parts.chunks(f.chunks()).map(combine).collect();
    let log_probs = (0..f.rows).map(|row| log_prob(picked[row], f.inverse(row), stats[row])).collect();
    Ok((log_probs, stats))
}

/// Of rows that tokens are drawn from: the parts of each, `[rows][chunks]`. The logits are kept.
///
/// # Safety
/// As `head_forward`.
pub unsafe fn head_rows(exec: &mut Exec, f: &HeadForward<'_>) -> Result<Vec<Part>, EngineError> {
    Ok(unsafe { head_parts(exec, f, None)?.0 })
}

impl HeadForward<'_> {
    fn chunks(&self) -> usize {
        self.vocab.div_ceil(CHUNK)
    }

    fn inverse(&self, row: usize) -> f32 {
        1.0 / self.temperatures[row]
    }

    /// Of one chunk of one row, whose logits have just been made; and the target's, when it lies there.
    unsafe fn note(&self, level: Level, (row, chunk): (usize, usize), logits: *const f32, targets: Option<&[u32]>, found: &Found) {
        let width = CHUNK.min(self.vocab - chunk * CHUNK);
        unsafe {
            *found.parts.at(row * self.chunks() + chunk) = chunk_part(level, logits, width, self.inverse(row), self.entropy);
            match targets.map(|targets| targets[row] as usize) {
                Some(target) if target / CHUNK == chunk => *found.picked.at(row) = *logits.add(target % CHUNK),
                _ => {}
            }
        }
    }
}

/// Where the parts go, `[rows][chunks]`, and the targets' logits.
struct Found {
    parts: Shared<Part>,
    picked: Shared<f32>,
}

/// Products and statistics chunk by chunk, while a chunk's logits are in the cache.
unsafe fn head_parts(exec: &mut Exec, f: &HeadForward<'_>, targets: Option<&[u32]>) -> Result<(Vec<Part>, Vec<f32>), EngineError> {
    let chunks = f.chunks();
    let mut parts = vec![Part::default(); f.rows * chunks];
    let mut picked = vec![0f32; if targets.is_some() { f.rows } else { 0 }];
    let found = Found { parts: Shared(parts.as_mut_ptr()), picked: Shared(picked.as_mut_ptr()) };
    if exec.on_amx(f.vocab, f.k) && f.w.is_plain() {
        unsafe { parts_by_blocks(exec, f, targets, &found)? };
        return Ok((parts, picked));
    }
    exec.pack.reserve(f.rows * f.k + 16, "packed activations")?;
    let packed = exec.pack.pointer();
    let kept = if f.keep.is_null() { ROW_BLOCK * CHUNK } else { 0 };
    let locals = exec.local(kept + DECODED)?;
    let level = exec.level;
    let groups = row_groups(f.rows, level.mr());
    unsafe { pack_rows(exec, f.hidden, f.hidden_row, groups, f.k, packed) };
    let per_block = (ROW_BLOCK / level.mr()).max(1);
    let blocks = groups.count.div_ceil(per_block);
    // Where there are few chunks for the threads, several share one, and the last of them makes its statistics.
    let all = CHUNK / LANES;
    let wanted = if f.keep.is_null() { 1 } else { (8 * exec.pool.threads()).div_ceil((blocks * chunks).max(1)).min(all / 8) };
    let width = all.div_ceil(wanted).next_multiple_of(8);
    let pieces = all.div_ceil(width);
    let made: Vec<AtomicUsize> = (0..blocks * chunks).map(|_| AtomicUsize::new(0)).collect();
    let x = Shared(packed);
    let (row_floats, panels) = (pad16(f.vocab), f.vocab.div_ceil(LANES));
    exec.pool.run(blocks * chunks * pieces, |item, thread| {
        let (piece, item) = (item % pieces, item / pieces);
        let (block, chunk) = (item / chunks, item % chunks);
        let range = block * per_block..((block + 1) * per_block).min(groups.count);
        let (first_row, (last_start, last_rows)) = (groups.get(range.start).0, groups.get(range.end - 1));
        let first = piece * width;
        // None where the last chunk is narrow.
        let count = width.min((panels - chunk * all).saturating_sub(first));
        unsafe {
            let (c, c_row) = if f.keep.is_null() {
                (locals.of(thread), CHUNK)
            } else {
                (f.keep.add(first_row * row_floats + chunk * CHUNK), row_floats)
            };
            let strip = Strip {
                level,
                local: locals.of(thread).add(kept),
                x: x.get(),
                k: f.k,
                groups,
                range,
                w: f.w.from_panel(chunk * all + first, f.k),
                panels: count,
                left: panels - (chunk * all + first + count).min(panels),
                c: c.wrapping_add(first * LANES),
                c_row,
                bias: std::ptr::null(),
                add: std::ptr::null(),
                mode: Mode::Set,
                streamed: f.rows <= STREAMED_ROWS,
            };
            strip.run();
            if made[item].fetch_add(1, Ordering::AcqRel) + 1 < pieces {
                return;
            }
            for row in first_row..last_start + last_rows {
                f.note(level, (row, chunk), c.add((row - first_row) * c_row), targets, &found);
            }
        }
    });
    Ok((parts, picked))
}

/// The same with the AMX unit: a block of the vocabulary for all rows, then its statistics.
unsafe fn parts_by_blocks(exec: &mut Exec, f: &HeadForward<'_>, targets: Option<&[u32]>, found: &Found) -> Result<(), EngineError> {
    // What is split already is taken as a whole.
    let block = if f.split.is_null() { 4 * CHUNK } else { f.vocab.next_multiple_of(CHUNK) };
    if f.keep.is_null() {
        exec.logits.reserve(f.rows * block, "logits")?;
    }
    let mut first = 0;
    while first < f.vocab {
        let width = block.min(f.vocab - first);
        let (c, c_row) = if f.keep.is_null() { (exec.logits.pointer(), block) } else { (f.keep.wrapping_add(first), pad16(f.vocab)) };
        unsafe {
            let job = Job { split: f.split, ..Job::of(f.w.from_panel(first / LANES, f.k), width, c, c_row) };
            forward_on(exec, true, f.hidden, f.hidden_row, f.rows, f.k, &[job])?;
        }
        let (level, c) = (exec.level, Shared(c));
        super::parallel_rows(&exec.pool, f.rows, 4 * width, |range, _| {
            for row in range {
                for at in (0..width).step_by(CHUNK) {
                    unsafe { f.note(level, (row, (first + at) / CHUNK), c.at(row * c_row + at), targets, found) };
                }
            }
        });
        first += width;
    }
    Ok(())
}

/// Turns logits of vocabulary entries `first..first+width` into derivatives, in place or on the way from where they are.
///
/// # Safety
/// `logits`, with the floats from one row to the next, and `from` point at column `first`.
pub unsafe fn head_slopes(
    exec: &Exec,
    (logits, row_floats): (*mut f32, usize),
    from: Option<&[Shared<f32>]>,
    (first, width): (usize, usize),
    (temperature, stats, targets): (f32, &[RowStats], &[u32]),
    g: &[f32],
    h: Option<&[f32]>,
) {
    let level = exec.level;
    let inverse = 1.0 / temperature;
    let at = Shared(logits);
    super::parallel_rows(&exec.pool, stats.len(), 4 * width, |range, _| {
        for row in range {
            let h = h.map_or(0.0, |h| h[row]);
            unsafe {
                let logits = at.at(row * row_floats);
                if g[row] == 0.0 && h == 0.0 {
                    std::ptr::write_bytes(logits, 0, pad16(width));
                    continue;
                }
                if let Some(from) = from {
                    std::ptr::copy_nonoverlapping(from[row].get(), logits, pad16(width));
                }
                chunk_slope(level, logits, width, inverse, stats[row], g[row], h);
                let target = targets[row] as usize;
                if target >= first && target < first + width {
                    *logits.add(target - first) += g[row] * inverse;
                }
            }
        }
    });
}

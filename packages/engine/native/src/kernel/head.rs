//! Log-softmax over the vocabulary, in chunks of fixed width: each chunk gives (largest z, Σ e^(z−m), Σ (z−m)·e^(z−m)) with
//! `z = logit / temperature`, and the chunks are combined in order. Sampling and scoring use the same functions.

use crate::buffer::Shared;
use crate::error::EngineError;
use crate::form::Matrix;
use crate::gemm::{DECODED, Exec, Job, Mode, Strip, forward_on, pack_rows, row_groups};
use crate::simd::{self, LANES, Level, Simd, pad16};
use crate::simd_dispatch;

/// Vocabulary entries per chunk.
pub const CHUNK: usize = 1024;

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Part {
    max: f32,
    sum: f32,
    weighted: f32,
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
        let (mut a, mut b) = (least, least);
        for i in 0..vectors {
            let mut z = S::mul(S::load(logits.add(i * LANES)), scale);
            if i + 1 == vectors {
                z = S::select(z, 0, tail, least);
            }
            if i % 2 == 0 {
                a = S::max(z, a);
            } else {
                b = S::max(z, b);
            }
        }
        let max = S::reduce_max(S::max(a, b));
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
        Part { max, sum: S::reduce_add(sum), weighted: if entropy { S::reduce_add(weighted) } else { 0.0 } }
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

    /// The log-probability of the token that has this logit.
    pub fn at(&self, logit: f32) -> f32 {
        log_prob(logit, self.inverse_temperature, self.stats)
    }
}

/// The log-probability of `token` under one row of logits.
pub fn log_softmax_at(level: Level, logits: &[f32], temperature: f32, token: usize) -> f32 {
    RowLogProbs::of(level, logits, temperature).at(logits[token])
}

/// Rows of one block of the head: their logits for one chunk stay in the second-level cache.
const ROW_BLOCK: usize = 96;

pub struct HeadForward {
    pub hidden: *const f32,
    pub hidden_row: usize,
    pub rows: usize,
    /// `[vocab, k]`.
    pub w: Matrix,
    pub vocab: usize,
    pub k: usize,
    pub temperature: f32,
    pub entropy: bool,
    /// Null, or `[rows][vocab padded]` to keep the logits in.
    pub keep: *mut f32,
}
unsafe impl Sync for HeadForward {}

/// Log-probs of `targets` (one a row), the rows' statistics.
///
/// # Safety
/// Pointers valid for the shapes.
pub unsafe fn head_forward(exec: &mut Exec, f: &HeadForward, targets: &[u32]) -> Result<(Vec<f32>, Vec<RowStats>), EngineError> {
    if exec.on_amx(f.vocab, f.k) && f.w.is_plain() {
        return unsafe { head_by_blocks(exec, f, targets) };
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
    let chunks = f.vocab.div_ceil(CHUNK);
    let mut parts = vec![Part::default(); f.rows * chunks];
    let mut picked = vec![0f32; f.rows];
    let (parts_at, picked_at, x) = (Shared(parts.as_mut_ptr()), Shared(picked.as_mut_ptr()), Shared(packed));
    let row_floats = pad16(f.vocab);
    exec.pool.run(blocks * chunks, |item, thread| {
        let (block, chunk) = (item / chunks, item % chunks);
        let width = CHUNK.min(f.vocab - chunk * CHUNK);
        let range = block * per_block..((block + 1) * per_block).min(groups.count);
        let first_row = groups.get(range.start).0;
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
                range: range.clone(),
                w: f.w.from_panel(chunk * CHUNK / LANES, f.k),
                panels: width.div_ceil(LANES),
                left: 0,
                c,
                c_row,
                bias: std::ptr::null(),
                add: std::ptr::null(),
                mode: Mode::Set,
                streamed: false,
            };
            strip.run();
            let (last_start, last_rows) = groups.get(range.end - 1);
            for row in first_row..last_start + last_rows {
                let logits = c.add((row - first_row) * c_row);
                *parts_at.at(row * chunks + chunk) = chunk_part(level, logits, width, 1.0 / f.temperature, f.entropy);
                let target = targets[row] as usize;
                if target / CHUNK == chunk {
                    *picked_at.at(row) = *logits.add(target % CHUNK);
                }
            }
        }
    });
    Ok(finish(f, &parts, &picked))
}

fn finish(f: &HeadForward, parts: &[Part], picked: &[f32]) -> (Vec<f32>, Vec<RowStats>) {
    let stats: Vec<RowStats> = parts.chunks(f.vocab.div_ceil(CHUNK)).map(combine).collect();
    let inverse = 1.0 / f.temperature;
    let log_probs = picked.iter().zip(&stats).map(|(&logit, &s)| log_prob(logit, inverse, s)).collect();
    (log_probs, stats)
}

/// The same with the AMX unit: a block of the vocabulary for all rows, then its statistics.
unsafe fn head_by_blocks(exec: &mut Exec, f: &HeadForward, targets: &[u32]) -> Result<(Vec<f32>, Vec<RowStats>), EngineError> {
    const BLOCK: usize = 4 * CHUNK;
    let chunks = f.vocab.div_ceil(CHUNK);
    let mut parts = vec![Part::default(); f.rows * chunks];
    let mut picked = vec![0f32; f.rows];
    if f.keep.is_null() {
        exec.logits.reserve(f.rows * BLOCK, "logits")?;
    }
    let mut first = 0;
    while first < f.vocab {
        let width = BLOCK.min(f.vocab - first);
        let (c, c_row) = if f.keep.is_null() { (exec.logits.pointer(), BLOCK) } else { (f.keep.wrapping_add(first), pad16(f.vocab)) };
        unsafe {
            let job = Job::of(f.w.from_panel(first / LANES, f.k), width, c, c_row);
            forward_on(exec, true, f.hidden, f.hidden_row, f.rows, f.k, &[job])?;
        }
        let level = exec.level;
        let (c, parts_at, picked_at) = (Shared(c), Shared(parts.as_mut_ptr()), Shared(picked.as_mut_ptr()));
        super::parallel_rows(&exec.pool, f.rows, 4 * width, |range, _| {
            for row in range {
                for at in (0..width).step_by(CHUNK) {
                    unsafe {
                        let (logits, chunk) = (c.at(row * c_row + at), (first + at) / CHUNK);
                        let len = CHUNK.min(width - at);
                        *parts_at.at(row * chunks + chunk) = chunk_part(level, logits, len, 1.0 / f.temperature, f.entropy);
                        let target = targets[row] as usize;
                        if target / CHUNK == chunk {
                            *picked_at.at(row) = *logits.add(target % CHUNK);
                        }
                    }
                }
            }
        });
        first += width;
    }
    Ok(finish(f, &parts, &picked))
}

/// Turns logits of vocabulary entries `first..first+width` into derivatives, in place.
///
/// # Safety
/// `logits` points at column `first` of row 0.
#[allow(clippy::too_many_arguments)]
pub unsafe fn head_slopes(
    exec: &Exec,
    logits: *mut f32,
    row_floats: usize,
    (first, width): (usize, usize),
    temperature: f32,
    stats: &[RowStats],
    targets: &[u32],
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
                chunk_slope(level, logits, width, inverse, stats[row], g[row], h);
                let target = targets[row] as usize;
                if target >= first && target < first + width {
                    *logits.add(target - first) += g[row] * inverse;
                }
            }
        }
    });
}

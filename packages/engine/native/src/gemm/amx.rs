//! AMX products for the backward pass: `dX = dY·W` and `dW += dYᵀ·X`.
//!
//! Each f32 operand is split into two bf16 terms, `x ≈ h + m` (relative error ≤ 2⁻¹⁷), and `h·h + h·m + m·h` is accumulated in f32 by the
//! tile unit: about 5× the multiply-adds of AVX-512 at a relative error near 1e-5 per product, far below the noise of a
//! policy gradient. The forward pass never comes here: its bits must be the same on every machine (DESIGN.md).
//! Contraction order per output element is fixed by the shapes, so gradients do not depend on the number of threads.
//!
//! An operand is packed into strips of 32 rows (or columns) of the output. A strip is a run of steps of 32 along the contraction, a step is four
//! 16×32 tiles: h of the first 16, h of the second, m of the first, m of the second; 4 KiB in all.

use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::OnceLock;

use super::backward::GradWeight;
use crate::buffer::{Buffer, Shared};
use crate::error::EngineError;
use crate::pool::Pool;

/// Rows or columns of the output in one strip.
const STRIP: usize = 32;
/// Contraction covered by one step.
const STEP: usize = 32;
/// u16 values in one step of a strip.
const STEP_LEN: usize = 4 * 512;
/// f32-sized words of one step.
const STEP_WORDS: usize = STEP_LEN / 2;
/// Strips of one block of output rows / columns, and steps of one contraction chunk: sized so that both blocks sit in L2.
const ROW_STRIPS: usize = 16;
const COL_STRIPS: usize = 4;
const CHUNK_STEPS: usize = 8;

#[repr(C, align(64))]
struct TileConfig([u8; 64]);

/// Whether this machine has AMX-BF16 and the system lets us use it (asked once a process).
pub fn available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        if !is_x86_feature_detected!("avx512f") || !is_x86_feature_detected!("avx512bw") || !is_x86_feature_detected!("avx512bf16") {
            return false;
        }
        let leaf = __cpuid_count(7, 0);
        leaf.edx & (1 << 22) != 0 && leaf.edx & (1 << 24) != 0 && request_permission()
    })
}

#[cfg(target_os = "linux")]
fn request_permission() -> bool {
    unsafe extern "C" {
        fn syscall(number: i64, ...) -> i64;
    }
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
    const XTILEDATA: i64 = 18;
    unsafe { syscall(ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn request_permission() -> bool {
    false
}

/// Buffers kept between calls.
pub struct Scratch {
    left: Buffer,
    right: Buffer,
    per_thread: Vec<Buffer>,
}

impl Scratch {
    pub const fn new() -> Scratch {
        Scratch { left: Buffer::empty(), right: Buffer::empty(), per_thread: Vec::new() }
    }
}

fn strips(n: usize) -> usize {
    n.div_ceil(STRIP)
}

fn steps(n: usize) -> usize {
    n.div_ceil(STEP)
}

/// `dx[m, k] (+)= Σ_n dy[m, n]·w[n, k]`, with w in panels of 16 outputs: `[n/16][k][16]`.
///
/// # Safety
/// `dy` is valid for `m` rows of stride `dy_stride`, `w` for `pad16(n)·k` floats, `dx` for `m` rows of stride `dx_stride`.
#[allow(clippy::too_many_arguments)]
pub unsafe fn input_gradient(
    pool: &Pool,
    scratch: &mut Scratch,
    (m, n, k): (usize, usize, usize),
    (dy, dy_stride): (*const f32, usize),
    w: *const f32,
    (dx, dx_stride): (*mut f32, usize),
    accumulate: bool,
) -> Result<(), EngineError> {
    let (row_strips, col_strips, depth) = (strips(m), strips(k), steps(n));
    scratch.left.reserve(row_strips * depth * STEP_WORDS, "AMX operand")?;
    while scratch.per_thread.len() < pool.threads() {
        scratch.per_thread.push(Buffer::empty());
    }
    for buffer in &mut scratch.per_thread {
        buffer.reserve(COL_STRIPS * CHUNK_STEPS * STEP_WORDS, "AMX operand")?;
    }
    let left = Shared(scratch.left.pointer().cast::<u16>());
    let right: Vec<Shared<u16>> = scratch.per_thread.iter().map(|b| Shared(b.pointer().cast())).collect();
    let (dy, w, dx) = (Shared(dy.cast_mut()), Shared(w.cast_mut()), Shared(dx));
    pool.run(row_strips, |strip, _| unsafe {
        for step in 0..depth {
            let out = left.at((strip * depth + step) * STEP_LEN);
            for half in 0..2 {
                let row = strip * STRIP + half * 16;
                pack_rows(dy.at(row * dy_stride + step * STEP), dy_stride, m.saturating_sub(row), n - step * STEP, out, half);
            }
        }
    });
    let (row_blocks, col_blocks) = (row_strips.div_ceil(ROW_STRIPS), col_strips.div_ceil(COL_STRIPS));
    pool.run(row_blocks * col_blocks, |unit, thread| unsafe {
        let (row_block, col_block) = (unit % row_blocks, unit / row_blocks);
        let rows = row_block * ROW_STRIPS..row_strips.min((row_block + 1) * ROW_STRIPS);
        let cols = col_block * COL_STRIPS..col_strips.min((col_block + 1) * COL_STRIPS);
        configure();
        for chunk in (0..depth).step_by(CHUNK_STEPS) {
            let length = CHUNK_STEPS.min(depth - chunk);
            for (i, col) in cols.clone().enumerate() {
                for step in 0..length {
                    let out = right[thread].at((i * CHUNK_STEPS + step) * STEP_LEN);
                    for half in 0..2 {
                        let column = col * STRIP + half * 16;
                        let first = (chunk + step) * STEP;
                        pack_panels(w.at(first * k + column * 16), k * 16, k.saturating_sub(column), n - first, out, half);
                    }
                }
            }
            for (i, col) in cols.clone().enumerate() {
                for row in rows.clone() {
                    let target = Target {
                        base: dx.at(row * STRIP * dx_stride + col * STRIP),
                        stride: dx_stride,
                        col_step: 16,
                        rows: m - row * STRIP,
                        // Padding of a row is written too, with zeros.
                        cols: dx_stride.min(k.div_ceil(16) * 16) - col * STRIP,
                    };
                    block(
                        left.at((row * depth + chunk) * STEP_LEN),
                        right[thread].at(i * CHUNK_STEPS * STEP_LEN),
                        length,
                        &target,
                        accumulate || chunk > 0,
                    );
                }
            }
        }
        release();
    });
    Ok(())
}

/// `dw[n, k] += Σ_m dy[m, n]·x[m, k]` for each job, with dw in panels of 16 outputs: `[n/16][k][16]`. x is split once for all of them.
///
/// # Safety
/// Every dy and x are valid for `m` rows of their strides, every dw for `pad16(n)·k` floats.
pub unsafe fn weight_gradients(
    pool: &Pool,
    scratch: &mut Scratch,
    (m, k): (usize, usize),
    (x, x_stride): (*const f32, usize),
    jobs: &[GradWeight],
) -> Result<(), EngineError> {
    let (row_strips, depth) = (strips(k), steps(m));
    // Strips of all jobs, one after another: `(job, strip)`.
    let columns: Vec<(usize, usize)> = jobs.iter().enumerate().flat_map(|(j, job)| (0..strips(job.n)).map(move |s| (j, s))).collect();
    scratch.left.reserve(row_strips * depth * STEP_WORDS, "AMX operand")?;
    scratch.right.reserve(columns.len() * depth * STEP_WORDS, "AMX operand")?;
    let left = Shared(scratch.left.pointer().cast::<u16>());
    let right = Shared(scratch.right.pointer().cast::<u16>());
    let x = Shared(x.cast_mut());
    pool.run(row_strips + columns.len(), |item, _| unsafe {
        let turned = item < row_strips;
        let (source, stride, width, strip, out) = if turned {
            (x.get().cast_const(), x_stride, k, item, left.at(item * depth * STEP_LEN))
        } else {
            let (j, strip) = columns[item - row_strips];
            (jobs[j].dy, jobs[j].dy_row, jobs[j].n, strip, right.at((item - row_strips) * depth * STEP_LEN))
        };
        for step in 0..depth {
            for half in 0..2 {
                let column = strip * STRIP + half * 16;
                let from = source.add(step * STEP * stride + column);
                pack_pairs(from, stride, m - step * STEP, width.saturating_sub(column), out.add(step * STEP_LEN), half, turned);
            }
        }
    });
    let panel = k * 16;
    let (row_blocks, col_blocks) = (row_strips.div_ceil(ROW_STRIPS), columns.len().div_ceil(COL_STRIPS));
    pool.run(row_blocks * col_blocks, |unit, _| unsafe {
        let (row_block, col_block) = (unit % row_blocks, unit / row_blocks);
        let rows = row_block * ROW_STRIPS..row_strips.min((row_block + 1) * ROW_STRIPS);
        let cols = col_block * COL_STRIPS..columns.len().min((col_block + 1) * COL_STRIPS);
        configure();
        for chunk in (0..depth).step_by(CHUNK_STEPS) {
            let length = CHUNK_STEPS.min(depth - chunk);
            for at in cols.clone() {
                let (j, col) = columns[at];
                for row in rows.clone() {
                    let target = Target {
                        base: jobs[j].dw.add(col * 2 * panel + row * STRIP * 16),
                        stride: 16,
                        col_step: panel,
                        rows: k - row * STRIP,
                        cols: jobs[j].n.div_ceil(16) * 16 - col * STRIP,
                    };
                    block(left.at((row * depth + chunk) * STEP_LEN), right.at((at * depth + chunk) * STEP_LEN), length, &target, true);
                }
            }
        }
        release();
    });
    Ok(())
}

/// Where a 32×32 block of the output lives: two column halves `col_step` floats apart, rows `stride` floats apart.
struct Target {
    base: *mut f32,
    stride: usize,
    col_step: usize,
    rows: usize,
    cols: usize,
}

/// One 32×32 output block over `length` steps.
#[inline(always)]
unsafe fn block(a: *const u16, b: *const u16, length: usize, target: &Target, accumulate: bool) {
    unsafe {
        if target.rows >= STRIP && target.cols >= STRIP {
            tiles(a, b, length, target.base, target.stride, target.col_step, accumulate);
            return;
        }
        // At the edge: through a whole block on the stack.
        let mut edge = [0f32; STRIP * STRIP];
        let (rows, cols) = (target.rows.min(STRIP), target.cols.min(STRIP));
        let place = |row: usize, col: usize| target.base.add(row * target.stride + (col / 16) * target.col_step + col % 16);
        if accumulate {
            for row in 0..rows {
                for col in 0..cols {
                    edge[row * STRIP + col] = *place(row, col);
                }
            }
        }
        tiles(a, b, length, edge.as_mut_ptr(), STRIP, 16, true);
        for row in 0..rows {
            for col in 0..cols {
                *place(row, col) = edge[row * STRIP + col];
            }
        }
    }
}

pub(super) unsafe fn configure() {
    unsafe { configure_rows([16; 8]) }
}

/// Rows of each of the eight tiles.
pub(super) unsafe fn configure_rows(rows: [u8; 8]) {
    let mut config = TileConfig([0; 64]);
    config.0[0] = 1;
    for tile in 0..8 {
        config.0[16 + 2 * tile] = 64; // bytes a row
        config.0[48 + tile] = rows[tile];
    }
    unsafe { asm!("ldtilecfg [{}]", in(reg) &config, options(nostack, readonly)) }
}

pub(super) unsafe fn release() {
    unsafe { asm!("tilerelease", options(nostack, nomem)) }
}

/// Tiles 0–3 hold the block, 4 and 5 the left operand, 6 and 7 the right one.
#[inline(always)]
unsafe fn tiles(a: *const u16, b: *const u16, length: usize, c: *mut f32, stride: usize, col_step: usize, accumulate: bool) {
    unsafe {
        let c01 = c.add(col_step);
        let c10 = c.add(16 * stride);
        let c11 = c10.add(col_step);
        if accumulate {
            asm!(
                "tileloadd tmm0, [{c00} + {s}]",
                "tileloadd tmm1, [{c01} + {s}]",
                "tileloadd tmm2, [{c10} + {s}]",
                "tileloadd tmm3, [{c11} + {s}]",
                c00 = in(reg) c, c01 = in(reg) c01, c10 = in(reg) c10, c11 = in(reg) c11, s = in(reg) stride * 4,
                options(nostack, readonly)
            );
        } else {
            asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nostack, nomem));
        }
        asm!(
            "2:",
            "tileloadd tmm4, [{a} + {s} + 2048]", // left m
            "tileloadd tmm6, [{b} + {s}]",        // right h
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b} + {s} + 1024]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{a} + {s} + 3072]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm4, [{a} + {s}]", // left h
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{a} + {s} + 1024]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm6, [{b} + {s} + 2048]", // right m
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b} + {s} + 3072]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {a}, 4096",
            "add {b}, 4096",
            "dec {n}",
            "jnz 2b",
            a = inout(reg) a => _, b = inout(reg) b => _, n = inout(reg) length => _, s = in(reg) 64usize,
            options(nostack, readonly)
        );
        asm!(
            "tilestored [{c00} + {s}], tmm0",
            "tilestored [{c01} + {s}], tmm1",
            "tilestored [{c10} + {s}], tmm2",
            "tilestored [{c11} + {s}], tmm3",
            c00 = in(reg) c, c01 = in(reg) c01, c10 = in(reg) c10, c11 = in(reg) c11, s = in(reg) stride * 4,
            options(nostack)
        );
    }
}

/// 16 floats starting at `p`, of which the first `valid` exist.
#[inline(always)]
pub(super) unsafe fn load(p: *const f32, valid: usize) -> __m512 {
    unsafe { if valid >= 16 { _mm512_loadu_ps(p) } else { _mm512_maskz_loadu_ps(((1u32 << valid) - 1) as __mmask16, p) } }
}

/// 32 floats as two rows of bf16: the rounded values and what the rounding left.
#[inline(always)]
unsafe fn split32(low: __m512, high: __m512) -> (__m512i, __m512i) {
    unsafe {
        let h: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(high, low));
        let back = |half: __m256i| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(half)));
        let low_rest = _mm512_sub_ps(low, back(_mm512_castsi512_si256(h)));
        let high_rest = _mm512_sub_ps(high, back(_mm512_extracti64x4_epi64::<1>(h)));
        (h, std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high_rest, low_rest)))
    }
}

/// As `split32`, with the two inputs interleaved: lane i holds the pair (even[i], odd[i]).
#[inline(always)]
unsafe fn split_pairs(even: __m512, odd: __m512) -> (__m512i, __m512i) {
    unsafe {
        let (h, m) = split32(even, odd);
        let interleave = |v: __m512i| {
            let low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(v));
            let high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64::<1>(v));
            _mm512_or_si512(low, _mm512_slli_epi32::<16>(high))
        };
        (interleave(h), interleave(m))
    }
}

#[inline(always)]
unsafe fn store_tile(rows: &[__m512i; 16], tile: *mut u16) {
    for (i, row) in rows.iter().enumerate() {
        unsafe { _mm512_store_si512(tile.add(i * 32).cast(), *row) }
    }
}

/// A tile whose rows are rows of `source`: 16 rows × 32 along the contraction.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn pack_rows(source: *const f32, stride: usize, rows: usize, depth: usize, out: *mut u16, half: usize) {
    unsafe {
        let mut h = [_mm512_setzero_si512(); 16];
        let mut m = h;
        for i in 0..rows.min(16) {
            let p = source.add(i * stride);
            (h[i], m[i]) = split32(load(p, depth), load(p.wrapping_add(16), depth.saturating_sub(16)));
        }
        store_tile(&h, out.add(half * 512));
        store_tile(&m, out.add(1024 + half * 512));
    }
}

/// A right-hand tile from weight panels: contraction over 32 outputs (two panels), columns are 16 inputs.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn pack_panels(source: *const f32, panel: usize, cols: usize, depth: usize, out: *mut u16, half: usize) {
    unsafe {
        let mut h = [_mm512_setzero_si512(); 16];
        let mut m = h;
        for i in 0..cols.min(16) {
            let p = source.add(i * 16);
            // A panel is padded with zeros, so whole panels can be read.
            let second = if depth > 16 { _mm512_loadu_ps(p.add(panel)) } else { _mm512_setzero_ps() };
            (h[i], m[i]) = split32(_mm512_loadu_ps(p), second);
        }
        transpose(&mut h);
        transpose(&mut m);
        store_tile(&h, out.add(half * 512));
        store_tile(&m, out.add(1024 + half * 512));
    }
}

/// A tile of pairs of rows: contraction over 32 rows of `source`, 16 columns. Turned, it is a left operand; as it is, a right one.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn pack_pairs(source: *const f32, stride: usize, depth: usize, cols: usize, out: *mut u16, half: usize, turned: bool) {
    unsafe {
        let mut h = [_mm512_setzero_si512(); 16];
        let mut m = h;
        for i in 0..16 {
            if 2 * i >= depth || cols == 0 {
                break;
            }
            let even = load(source.add(2 * i * stride), cols);
            let odd = if 2 * i + 1 < depth { load(source.add((2 * i + 1) * stride), cols) } else { _mm512_setzero_ps() };
            (h[i], m[i]) = split_pairs(even, odd);
        }
        if turned {
            transpose(&mut h);
            transpose(&mut m);
        }
        store_tile(&h, out.add(half * 512));
        store_tile(&m, out.add(1024 + half * 512));
    }
}

/// 16×16 words, turned in place.
#[inline(always)]
unsafe fn transpose(r: &mut [__m512i; 16]) {
    unsafe {
        let mut t = *r;
        for i in 0..8 {
            t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
            t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
        }
        for i in 0..4 {
            r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
            r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
            r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
            r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
        }
        for i in 0..4 {
            t[i] = _mm512_shuffle_i32x4::<0x88>(r[i], r[i + 4]);
            t[i + 4] = _mm512_shuffle_i32x4::<0xdd>(r[i], r[i + 4]);
            t[i + 8] = _mm512_shuffle_i32x4::<0x88>(r[i + 8], r[i + 12]);
            t[i + 12] = _mm512_shuffle_i32x4::<0xdd>(r[i + 8], r[i + 12]);
        }
        for i in 0..8 {
            r[i] = _mm512_shuffle_i32x4::<0x88>(t[i], t[i + 8]);
            r[i + 8] = _mm512_shuffle_i32x4::<0xdd>(t[i], t[i + 8]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(n: usize, seed: u64) -> Vec<f32> {
        let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..n)
            .map(|_| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                (x >> 40) as f32 / (1u64 << 23) as f32 - 1.0
            })
            .collect()
    }

    /// Shapes that leave every kind of edge.
    const SHAPES: [(usize, usize, usize); 6] = [(1, 16, 16), (33, 48, 40), (70, 100, 37), (64, 64, 64), (600, 320, 290), (31, 8, 172)];

    #[test]
    fn both_products_agree_with_double_precision_for_any_number_of_threads() {
        if !available() {
            eprintln!("no AMX on this machine: nothing to check");
            return;
        }
        for (m, n, k) in SHAPES {
            let (dy, x, w) = (noise(m * n, 1), noise(m * k, 2), noise(n * k, 3));
            let padded = n.div_ceil(16) * 16;
            let mut panels = vec![0f32; padded * k];
            for row in 0..n {
                for col in 0..k {
                    panels[(row / 16) * k * 16 + col * 16 + row % 16] = w[row * k + col];
                }
            }
            let mut first: Option<(Vec<f32>, Vec<f32>)> = None;
            for threads in [1, 2, 3] {
                let pool = Pool::new(threads);
                let mut scratch = Scratch::new();
                let (mut dx, mut dw) = (vec![1f32; m * k], vec![1f32; padded * k]);
                unsafe {
                    input_gradient(&pool, &mut scratch, (m, n, k), (dy.as_ptr(), n), panels.as_ptr(), (dx.as_mut_ptr(), k), true).unwrap();
                    let job = GradWeight { dy: dy.as_ptr(), dy_row: n, n, dw: dw.as_mut_ptr() };
                    weight_gradients(&pool, &mut scratch, (m, k), (x.as_ptr(), k), &[job]).unwrap();
                }
                for row in 0..m {
                    for col in 0..k {
                        let exact: f64 = 1.0 + (0..n).map(|i| f64::from(dy[row * n + i]) * f64::from(w[i * k + col])).sum::<f64>();
                        assert!((f64::from(dx[row * k + col]) - exact).abs() < 3e-5 * (n as f64).sqrt(), "dx {m} {n} {k}");
                    }
                }
                for row in 0..n {
                    for col in 0..k {
                        let exact: f64 = 1.0 + (0..m).map(|i| f64::from(dy[i * n + row]) * f64::from(x[i * k + col])).sum::<f64>();
                        let got = dw[(row / 16) * k * 16 + col * 16 + row % 16];
                        assert!((f64::from(got) - exact).abs() < 3e-5 * (m as f64).sqrt(), "dw {m} {n} {k}");
                    }
                }
                match &first {
                    None => first = Some((dx, dw)),
                    Some((dx1, dw1)) => assert!(*dx1 == dx && *dw1 == dw, "threads change bits at {m} {n} {k}"),
                }
            }
        }
    }
}

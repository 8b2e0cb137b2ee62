//! `Y = X·Wᵀ (+ bias) (+ residual)` on the AMX unit, to the precision of f32.
//!
//! Each f32 is exactly the sum of three bf16 terms, `x = h + m + l`. The six products `l·h, m·h, h·h, h·m, m·m, h·l` are accumulated in f32 by the tile
//! unit, 32 steps of k at a time; what is left out is below 2⁻²⁴ of a product. An output depends on its row of X and its row of W only:
//! tiles hold whole rows, k goes up in steps of 32 and the six products have one order, so the bits are the same in any batch.

use std::arch::asm;
use std::arch::x86_64::*;

use super::amx::{configure, configure_rows, load, release};
use super::forward::Job;
use super::{Exec, Locals};
use crate::buffer::Shared;
use crate::error::EngineError;

/// Rows of a strip, and outputs of a pair of panels.
const STRIP: usize = 32;
const STEP: usize = 32;
/// u16 values of one 16×32 tile.
const TILE: usize = 512;
/// Tiles of one step: h, m, l of the first 16 rows, then of the second 16.
const STEP_LEN: usize = 6 * TILE;
/// Steps whose weights are split at a time.
const CHUNK: usize = 8;
/// Strips of one block of rows: its split rows stay in the second-level cache.
const ROW_STRIPS: usize = 8;
/// Panels done together when there are at most 16 rows.
const NARROW: usize = 4;
const NARROW_CHUNK: usize = 2;

/// Products this small stay on the vector unit. Depends on the weights alone, never on the batch.
pub fn worthwhile(n: usize, k: usize) -> bool {
    n >= 32 && k >= 32
}

/// # Safety
/// As `gemm::forward`.
pub unsafe fn forward(exec: &mut Exec, x: *const f32, stride: usize, m: usize, k: usize, jobs: &[Job]) -> Result<(), EngineError> {
    let depth = k.div_ceil(STEP);
    let strips = m.div_ceil(STRIP);
    exec.pack.reserve(strips * depth * STEP_LEN / 2, "split activations")?;
    let locals = exec.local(STEP_LEN / 2 * CHUNK.max(NARROW * NARROW_CHUNK / 2))?;
    let left = Shared(exec.pack.pointer().cast::<u16>());
    let x = Shared(x.cast_mut());
    // Split the rows of X.
    let halves = if m <= 16 { 1 } else { 2 * strips };
    let per = if m * k < 1 << 14 { halves } else { halves.div_ceil(4 * exec.pool.threads()) };
    exec.pool.run(halves.div_ceil(per), |chunk, _| unsafe {
        for half in chunk * per..((chunk + 1) * per).min(halves) {
            for step in 0..depth {
                let out = left.at((half / 2 * depth + step) * STEP_LEN + half % 2 * 3 * TILE);
                split_rows(x.at(half * 16 * stride + step * STEP), stride, m.saturating_sub(half * 16), k - step * STEP, out);
            }
        }
    });
    if m <= 16 {
        unsafe { narrow(exec, &locals, left, m, k, jobs) }
    } else {
        unsafe { wide(exec, &locals, left, m, k, jobs) }
    }
    Ok(())
}

/// Pairs of panels of all jobs, `width` pairs an item: `(job, first pair, pairs)`.
fn items(jobs: &[Job], panels_each: usize, width: usize) -> Vec<(usize, usize, usize)> {
    let mut items = Vec::new();
    for (j, job) in jobs.iter().enumerate() {
        let count = job.n.div_ceil(16 * panels_each);
        let mut p = 0;
        while p < count {
            items.push((j, p, width.min(count - p)));
            p += width;
        }
    }
    items
}

unsafe fn wide(exec: &Exec, locals: &Locals, left: Shared<u16>, m: usize, k: usize, jobs: &[Job]) {
    let (depth, strips) = (k.div_ceil(STEP), m.div_ceil(STRIP));
    let blocks = strips.div_ceil(ROW_STRIPS);
    let pairs: usize = jobs.iter().map(|j| j.n.div_ceil(32)).sum();
    let width = pairs.div_ceil((8 * exec.pool.threads()).div_ceil(blocks)).max(1);
    let items = items(jobs, 2, width);
    exec.pool.run(blocks * items.len(), |chunk, thread| unsafe {
        let (j, first, count) = items[chunk % items.len()];
        let block = chunk / items.len();
        let job = &jobs[j];
        let right = locals.of(thread).cast::<u16>();
        let rows = block * ROW_STRIPS..((block + 1) * ROW_STRIPS).min(strips);
        configure();
        for pair in first..first + count {
            let panels = 2.min(job.n.div_ceil(16) - 2 * pair);
            for from in (0..depth).step_by(CHUNK) {
                let length = CHUNK.min(depth - from);
                for p in 0..2 {
                    for step in 0..length {
                        let out = right.add(step * STEP_LEN + p * 3 * TILE);
                        let k0 = (from + step) * STEP;
                        let present = if p < panels { k - k0 } else { 0 };
                        split_panel(job.w.wrapping_add(((2 * pair + p) * k + k0) * 16), present, out);
                    }
                }
                let fresh = from == 0 && job.mode == super::Mode::Set;
                for strip in rows.clone() {
                    let a = left.at((strip * depth + from) * STEP_LEN);
                    let c = job.c.add(strip * STRIP * job.c_row + pair * 32);
                    block_2x2(a, right, length, c, job.c_row, m - strip * STRIP, panels, fresh);
                }
            }
            for row in rows.start * STRIP..(rows.end * STRIP).min(m) {
                finish(job, row, 2 * pair, panels);
            }
        }
        release();
    });
}

unsafe fn narrow(exec: &Exec, locals: &Locals, left: Shared<u16>, m: usize, k: usize, jobs: &[Job]) {
    let depth = k.div_ceil(STEP);
    let quads: usize = jobs.iter().map(|j| j.n.div_ceil(16 * NARROW)).sum();
    let width = quads.div_ceil(8 * exec.pool.threads()).max(1);
    let items = items(jobs, NARROW, width);
    exec.pool.run(items.len(), |chunk, thread| unsafe {
        let (j, first, count) = items[chunk];
        let job = &jobs[j];
        let right = locals.of(thread).cast::<u16>();
        let rows = m as u8;
        configure_rows([rows, rows, rows, rows, rows, rows, rows, 16]);
        let mut edge = [0f32; 16 * 16 * NARROW];
        for quad in first..first + count {
            let panels = NARROW.min(job.n.div_ceil(16) - NARROW * quad);
            let edge_row = 16 * NARROW;
            if job.mode == super::Mode::Chain {
                for row in 0..m {
                    let c = job.c.add(row * job.c_row + quad * edge_row);
                    std::ptr::copy_nonoverlapping(c, edge.as_mut_ptr().add(row * edge_row), 16 * panels);
                }
                load_narrow(edge.as_mut_ptr(), edge_row);
            } else {
                asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nostack, nomem));
            }
            for from in (0..depth).step_by(NARROW_CHUNK) {
                let length = NARROW_CHUNK.min(depth - from);
                for step in 0..length {
                    let k0 = (from + step) * STEP;
                    for p in 0..NARROW {
                        let out = right.add((step * NARROW + p) * 3 * TILE);
                        let present = if p < panels { k - k0 } else { 0 };
                        let source = job.w.wrapping_add(((NARROW * quad + p) * k + k0) * 16);
                        prefetch_panel(source.wrapping_add(NARROW * k * 16));
                        split_panel(source, present, out);
                    }
                }
                for step in 0..length {
                    step_narrow(left.at((from + step) * STEP_LEN), right.add(step * NARROW * 3 * TILE));
                }
            }
            store_narrow(edge.as_mut_ptr(), edge_row);
            for row in 0..m {
                let c = job.c.add(row * job.c_row + quad * edge_row);
                std::ptr::copy_nonoverlapping(edge.as_ptr().add(row * edge_row), c, 16 * panels);
                finish(job, row, NARROW * quad, panels);
            }
        }
        release();
    });
}

/// Bias and residual of one row, added as the vector path does.
#[inline(always)]
unsafe fn finish(job: &Job, row: usize, panel: usize, panels: usize) {
    if job.bias.is_null() && job.add.is_null() {
        return;
    }
    unsafe { finish_row(job, row * job.c_row + panel * 16, panel * 16, panels) }
}

#[target_feature(enable = "avx512f")]
unsafe fn finish_row(job: &Job, at: usize, column: usize, panels: usize) {
    for p in 0..panels {
        unsafe {
            let to = job.c.add(at + p * 16);
            let mut v = _mm512_loadu_ps(to);
            if !job.bias.is_null() {
                v = _mm512_add_ps(v, _mm512_loadu_ps(job.bias.add(column + p * 16)));
            }
            if !job.add.is_null() {
                v = _mm512_add_ps(_mm512_loadu_ps(job.add.add(at + p * 16)), v);
            }
            _mm512_storeu_ps(to, v);
        }
    }
}

/// 32 floats as three rows of bf16 whose sum they are.
#[inline(always)]
unsafe fn split32(low: __m512, high: __m512) -> [__m512i; 3] {
    unsafe {
        let rest = |x: __m512, half: __m256i| _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(half))));
        let h: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(high, low));
        let (low, high) = (rest(low, _mm512_castsi512_si256(h)), rest(high, _mm512_extracti64x4_epi64::<1>(h)));
        let m: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(high, low));
        let (low, high) = (rest(low, _mm512_castsi512_si256(m)), rest(high, _mm512_extracti64x4_epi64::<1>(m)));
        [h, m, std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low))]
    }
}

/// Three tiles (h, m, l) of 16 rows × 32 of X.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn split_rows(source: *const f32, stride: usize, rows: usize, depth: usize, out: *mut u16) {
    for i in 0..16 {
        let parts = if i < rows {
            unsafe {
                let p = source.add(i * stride);
                split32(load(p, depth), load(p.wrapping_add(16), depth.saturating_sub(16)))
            }
        } else {
            [_mm512_setzero_si512(); 3]
        };
        for (t, part) in parts.into_iter().enumerate() {
            unsafe { _mm512_store_si512(out.add(t * TILE + i * 32).cast(), part) };
        }
    }
}

/// Three tiles of a panel: row i holds, for its 16 outputs, the pair of weights of k = 2i and 2i + 1.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn split_panel(source: *const f32, depth: usize, out: *mut u16) {
    // Words of the low and the high half of a register, taken in turn.
    let turn = unsafe { _mm512_loadu_si512(PAIRS.as_ptr().cast()) };
    for i in 0..16 {
        unsafe {
            let row = |at: usize| if at < depth { _mm512_loadu_ps(source.add(at * 16)) } else { _mm512_setzero_ps() };
            let parts = split32(row(2 * i), row(2 * i + 1));
            for (t, part) in parts.into_iter().enumerate() {
                _mm512_store_si512(out.add(t * TILE + i * 32).cast(), _mm512_permutexvar_epi16(turn, part));
            }
        }
    }
}

static PAIRS: [u16; 32] = {
    let mut t = [0u16; 32];
    let mut i = 0;
    while i < 16 {
        t[2 * i] = i as u16;
        t[2 * i + 1] = 16 + i as u16;
        i += 1;
    }
    t
};

/// The 32 lines of one step of a panel.
#[inline(always)]
fn prefetch_panel(source: *const f32) {
    for i in 0..STEP {
        unsafe { _mm_prefetch::<_MM_HINT_T1>(source.wrapping_add(i * 16).cast()) };
    }
}

/// 32 rows × two panels over `length` steps; rows beyond `rows` are not stored.
#[allow(clippy::too_many_arguments)]
unsafe fn block_2x2(a: *const u16, b: *const u16, length: usize, c: *mut f32, c_row: usize, rows: usize, panels: usize, fresh: bool) {
    unsafe {
        if rows >= STRIP && panels == 2 {
            tiles_2x2(a, b, length, c, c_row, fresh);
            return;
        }
        let mut edge = [0f32; STRIP * STRIP];
        for row in 0..if fresh { 0 } else { rows.min(STRIP) } {
            std::ptr::copy_nonoverlapping(c.add(row * c_row), edge.as_mut_ptr().add(row * STRIP), 16 * panels);
        }
        tiles_2x2(a, b, length, edge.as_mut_ptr(), STRIP, fresh);
        for row in 0..rows.min(STRIP) {
            std::ptr::copy_nonoverlapping(edge.as_ptr().add(row * STRIP), c.add(row * c_row), 16 * panels);
        }
    }
}

/// Tiles 0–3 hold the block, 4 and 5 two terms of X, 6 and 7 two terms of W. A step of either operand is
/// h₀ m₀ l₀ h₁ m₁ l₁, 1 KiB each.
#[inline(always)]
unsafe fn tiles_2x2(a: *const u16, b: *const u16, length: usize, c: *mut f32, c_row: usize, fresh: bool) {
    unsafe {
        let (c01, c10) = (c.add(16), c.add(16 * c_row));
        let c11 = c10.add(16);
        if fresh {
            asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nostack, nomem));
        } else {
            asm!(
                "tileloadd tmm0, [{c00} + {s}]",
                "tileloadd tmm1, [{c01} + {s}]",
                "tileloadd tmm2, [{c10} + {s}]",
                "tileloadd tmm3, [{c11} + {s}]",
                c00 = in(reg) c, c01 = in(reg) c01, c10 = in(reg) c10, c11 = in(reg) c11, s = in(reg) c_row * 4,
                options(nostack, readonly)
            );
        }
        asm!(
            "2:",
            "tileloadd tmm4, [{a} + {s} + 2048]", // l₀ of X
            "tileloadd tmm6, [{b} + {s}]",        // h₀ of W
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b} + {s} + 3072]", // h₁ of W
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{a} + {s} + 5120]", // l₁ of X
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm4, [{a} + {s} + 1024]", // m₀
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{a} + {s} + 4096]", // m₁
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm4, [{a} + {s}]", // h₀
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{a} + {s} + 3072]", // h₁
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm6, [{b} + {s} + 1024]", // m₀ of W
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tileloadd tmm7, [{b} + {s} + 4096]", // m₁ of W
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm4, [{a} + {s} + 1024]", // m₀
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{a} + {s} + 4096]", // m₁
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm4, [{a} + {s}]",        // h₀
            "tileloadd tmm6, [{b} + {s} + 2048]", // l₀ of W
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b} + {s} + 5120]", // l₁ of W
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{a} + {s} + 3072]", // h₁
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {a}, 6144",
            "add {b}, 6144",
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
            c00 = in(reg) c, c01 = in(reg) c01, c10 = in(reg) c10, c11 = in(reg) c11, s = in(reg) c_row * 4,
            options(nostack)
        );
    }
}

/// One step for 16 rows × four panels: tiles 0–3 hold the block, 4–6 h, m, l of X, 7 a term of W. The order of the six
/// products is that of `tiles_2x2`.
#[inline(always)]
unsafe fn step_narrow(a: *const u16, b: *const u16) {
    macro_rules! panel {
        ($c:literal, $at:literal) => {
            concat!(
                "tileloadd tmm7, [{b} + {s} + ",
                $at,
                "]\n",
                "tdpbf16ps ",
                $c,
                ", tmm6, tmm7\n",
                "tdpbf16ps ",
                $c,
                ", tmm5, tmm7\n",
                "tdpbf16ps ",
                $c,
                ", tmm4, tmm7\n",
                "tileloadd tmm7, [{b} + {s} + ",
                $at,
                " + 1024]\n",
                "tdpbf16ps ",
                $c,
                ", tmm4, tmm7\n",
                "tdpbf16ps ",
                $c,
                ", tmm5, tmm7\n",
                "tileloadd tmm7, [{b} + {s} + ",
                $at,
                " + 2048]\n",
                "tdpbf16ps ",
                $c,
                ", tmm4, tmm7\n",
            )
        };
    }
    unsafe {
        asm!(
            "tileloadd tmm4, [{a} + {s}]",
            "tileloadd tmm5, [{a} + {s} + 1024]",
            "tileloadd tmm6, [{a} + {s} + 2048]",
            panel!("tmm0", "0"),
            panel!("tmm1", "3072"),
            panel!("tmm2", "6144"),
            panel!("tmm3", "9216"),
            a = in(reg) a, b = in(reg) b, s = in(reg) 64usize,
            options(nostack, readonly)
        );
    }
}

#[inline(always)]
unsafe fn load_narrow(c: *mut f32, c_row: usize) {
    unsafe {
        asm!(
            "tileloadd tmm0, [{c} + {s}]",
            "tileloadd tmm1, [{c} + {s} + 64]",
            "tileloadd tmm2, [{c} + {s} + 128]",
            "tileloadd tmm3, [{c} + {s} + 192]",
            c = in(reg) c, s = in(reg) c_row * 4, options(nostack, readonly)
        );
    }
}

#[inline(always)]
unsafe fn store_narrow(c: *mut f32, c_row: usize) {
    unsafe {
        asm!(
            "tilestored [{c} + {s}], tmm0",
            "tilestored [{c} + {s} + 64], tmm1",
            "tilestored [{c} + {s} + 128], tmm2",
            "tilestored [{c} + {s} + 192], tmm3",
            c = in(reg) c, s = in(reg) c_row * 4, options(nostack)
        );
    }
}

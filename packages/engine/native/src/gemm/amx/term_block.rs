//! The tile kernel of the backward products: 32×32 outputs from operands split into two bf16 terms, or rounded to one.

use std::arch::asm;

use super::backward::STRIP;

/// Where a 32×32 block of the output lives: two column halves `col_step` floats apart, rows `stride` floats apart.
pub struct Target {
    pub base: *mut f32,
    pub stride: usize,
    pub col_step: usize,
    /// Beyond these nothing is read or written.
    pub rows: usize,
    pub cols: usize,
}

/// One 32×32 output block over `length` steps, set or added to.
#[inline(always)]
pub unsafe fn block<const TERMS: usize>(a: *const u16, b: *const u16, length: usize, target: &Target, add: bool) {
    unsafe {
        through_edge(target, add, |c, stride, col_step| {
            begin(c, stride, col_step, add);
            if TERMS == 2 {
                run_split(a, b, length);
            } else {
                run_rounded(a, b, length);
            }
            end(c, stride, col_step);
        });
    }
}

/// Calls `work` with a whole block: the target's, or at the edge one on the stack, copied a half row at a time.
#[inline(always)]
unsafe fn through_edge(target: &Target, add: bool, work: impl FnOnce(*mut f32, usize, usize)) {
    if target.rows >= STRIP && target.cols >= STRIP {
        return work(target.base, target.stride, target.col_step);
    }
    let mut edge = [0f32; STRIP * STRIP];
    let at_edge = edge.as_mut_ptr();
    let copy = |out: bool| {
        for row in 0..target.rows.min(STRIP) {
            for (half, width) in [target.cols.min(16), target.cols.clamp(16, STRIP) - 16].into_iter().enumerate() {
                unsafe {
                    let (place, edge) =
                        (target.base.wrapping_add(row * target.stride + half * target.col_step), at_edge.add(row * STRIP + half * 16));
                    let (from, to) = if out { (edge, place) } else { (place, edge) };
                    std::ptr::copy_nonoverlapping(from, to, width);
                }
            }
        }
    };
    if add {
        copy(false);
    }
    work(at_edge, STRIP, 16);
    copy(true);
}

/// Tiles 0–3 hold the block, 4 and 5 the left operand, 6 and 7 the right one.
#[inline(always)]
unsafe fn begin(c: *mut f32, stride: usize, col_step: usize, add: bool) {
    unsafe {
        if add {
            let (c01, c10) = (c.add(col_step), c.add(16 * stride));
            let c11 = c10.add(col_step);
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
    }
}

#[inline(always)]
unsafe fn run_split(a: *const u16, b: *const u16, length: usize) {
    unsafe {
        asm!(
            "2:",
            "tileloaddt1 tmm4, [{a} + {s} + 2048]", // left m
            "tileloadd tmm6, [{b} + {s}]",        // right h
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b} + {s} + 1024]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloaddt1 tmm5, [{a} + {s} + 3072]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloaddt1 tmm4, [{a} + {s}]", // left h
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloaddt1 tmm5, [{a} + {s} + 1024]",
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
    }
}

/// Steps of half the length: there are no m tiles.
#[inline(always)]
unsafe fn run_rounded(a: *const u16, b: *const u16, length: usize) {
    unsafe {
        asm!(
            "2:",
            "tileloaddt1 tmm4, [{a} + {s}]",
            "tileloadd tmm6, [{b} + {s}]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b} + {s} + 1024]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloaddt1 tmm5, [{a} + {s} + 1024]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {a}, 2048",
            "add {b}, 2048",
            "dec {n}",
            "jnz 2b",
            a = inout(reg) a => _, b = inout(reg) b => _, n = inout(reg) length => _, s = in(reg) 64usize,
            options(nostack, readonly)
        );
    }
}

#[inline(always)]
unsafe fn end(c: *mut f32, stride: usize, col_step: usize) {
    unsafe {
        let (c01, c10) = (c.add(col_step), c.add(16 * stride));
        let c11 = c10.add(col_step);
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

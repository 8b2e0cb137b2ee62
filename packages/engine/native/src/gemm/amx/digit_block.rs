//! The tile kernel of the forward product. Of the nine products of digits the six that count are summed by their weight,
//! `d₁d₁`, `d₁d₂ + d₂d₁`, `d₁d₃ + d₂d₂ + d₃d₁`, in three int32 accumulators an output: exactly, so no order of summation can change a bit.

use std::arch::asm;
use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

use super::digits::STEP_BYTES;

/// Values of the six accumulator tiles of one call.
pub const SUMS: usize = 6 * 256;

/// Steps between fetching weights and using them: enough to cover the way to memory.
const AHEAD: usize = 6;

#[inline(always)]
fn fetch_step(step: *const u8) {
    for line in 0..STEP_BYTES / 64 {
        unsafe { _mm_prefetch::<_MM_HINT_T1>(step.wrapping_add(line * 64).cast()) };
    }
}

/// One step: the digits of one operand (`f`, in tile 7) by those of two others (`x` and `y`, in tile 6), into tiles 0–2 and 3–5.
macro_rules! step {
    ($left:literal, $right:literal, $f:expr, $x:expr, $y:expr) => {
        asm!(
            "tileloaddt1 tmm7, [{f} + {s}]", // d₁
            "tileloadd tmm6, [{x} + {s}]",
            concat!("tdpbssd tmm0, ", $left, ", ", $right),
            "tileloadd tmm6, [{y} + {s}]",
            concat!("tdpbssd tmm3, ", $left, ", ", $right),
            "tileloadd tmm6, [{x} + {s} + 1024]",
            concat!("tdpbssd tmm1, ", $left, ", ", $right),
            "tileloadd tmm6, [{y} + {s} + 1024]",
            concat!("tdpbssd tmm4, ", $left, ", ", $right),
            "tileloadd tmm6, [{x} + {s} + 2048]",
            concat!("tdpbssd tmm2, ", $left, ", ", $right),
            "tileloadd tmm6, [{y} + {s} + 2048]",
            concat!("tdpbssd tmm5, ", $left, ", ", $right),
            "tileloaddt1 tmm7, [{f} + {s} + 1024]", // d₂
            "tileloadd tmm6, [{x} + {s}]",
            concat!("tdpbssd tmm1, ", $left, ", ", $right),
            "tileloadd tmm6, [{y} + {s}]",
            concat!("tdpbssd tmm4, ", $left, ", ", $right),
            "tileloadd tmm6, [{x} + {s} + 1024]",
            concat!("tdpbssd tmm2, ", $left, ", ", $right),
            "tileloadd tmm6, [{y} + {s} + 1024]",
            concat!("tdpbssd tmm5, ", $left, ", ", $right),
            "tileloaddt1 tmm7, [{f} + {s} + 2048]", // d₃
            "tileloadd tmm6, [{x} + {s}]",
            concat!("tdpbssd tmm2, ", $left, ", ", $right),
            "tileloadd tmm6, [{y} + {s}]",
            concat!("tdpbssd tmm5, ", $left, ", ", $right),
            f = in(reg) $f, x = in(reg) $x, y = in(reg) $y, s = in(reg) 64usize,
            options(nostack, readonly)
        )
    };
}

#[inline(always)]
unsafe fn zero() {
    unsafe {
        asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", "tilezero tmm4", "tilezero tmm5", options(nostack, nomem));
    }
}

#[inline(always)]
unsafe fn store(sums: *mut i32) {
    unsafe {
        asm!(
            "tilestored [{c} + {s}], tmm0",
            "tilestored [{c} + {s} + 1024], tmm1",
            "tilestored [{c} + {s} + 2048], tmm2",
            "tilestored [{c} + {s} + 3072], tmm3",
            "tilestored [{c} + {s} + 4096], tmm4",
            "tilestored [{c} + {s} + 5120], tmm5",
            c = in(reg) sums, s = in(reg) 64usize, options(nostack)
        );
    }
}

/// Two tiles of rows by one panel: the three sums of the first tile at `sums`, then those of the second.
pub unsafe fn two_rows(rows: [*const u8; 2], panel: *const u8, steps: usize, fetch: bool, sums: *mut i32) {
    unsafe {
        zero();
        for step in 0..steps {
            let at = step * STEP_BYTES;
            if fetch {
                fetch_step(panel.wrapping_add(at + AHEAD * STEP_BYTES));
            }
            step!("tmm6", "tmm7", panel.add(at), rows[0].add(at), rows[1].add(at));
        }
        store(sums);
    }
}

/// One tile of rows by two panels.
pub unsafe fn two_panels(rows: *const u8, panels: [*const u8; 2], steps: usize, fetch: bool, sums: *mut i32) {
    unsafe {
        zero();
        for step in 0..steps {
            let at = step * STEP_BYTES;
            if fetch {
                fetch_step(panels[0].wrapping_add(at + AHEAD * STEP_BYTES));
                fetch_step(panels[1].wrapping_add(at + AHEAD * STEP_BYTES));
            }
            step!("tmm7", "tmm6", rows.add(at), panels[0].add(at), panels[1].add(at));
        }
        store(sums);
    }
}

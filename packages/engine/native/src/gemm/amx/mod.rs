//! Matrix products on the AMX unit: the forward product from integer digits (`forward`), the two of the backward pass from bf16 terms (`backward`).

mod backward;
mod digit_block;
mod digits;
mod forward;
#[cfg(test)]
mod outlier_tests;
mod term_block;
mod terms;

pub use backward::{input_gradient, weight_gradients};
pub use forward::{forward, split_floats, split_weights};

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;

#[repr(C, align(64))]
struct TileConfig([u8; 64]);

/// Runs `work` with the unit switched on; `rows` of each tile, of 64 bytes.
unsafe fn with_tiles(rows: [u8; 8], work: impl FnOnce()) {
    let mut config = TileConfig([0; 64]);
    config.0[0] = 1;
    for tile in 0..8 {
        config.0[16 + 2 * tile] = 64;
        config.0[48 + tile] = rows[tile];
    }
    unsafe { asm!("ldtilecfg [{}]", in(reg) &config, options(nostack, readonly)) }
    work();
    unsafe { asm!("tilerelease", options(nostack, nomem)) }
}

/// Whether this machine has AMX for bf16 and int8, and the system lets us use it (asked once a process).
pub fn available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let vectors = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512bf16");
        let unit = || {
            let bits = __cpuid_count(7, 0).edx;
            // bf16, tiles, int8
            [22, 24, 25].iter().all(|bit| bits & (1 << bit) != 0)
        };
        vectors && unit() && request_permission()
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

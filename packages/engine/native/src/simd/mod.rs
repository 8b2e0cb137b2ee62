//! One abstract vector of 16 f32 lanes. Every kernel is generic over `Simd` and entered through a `#[target_feature]`
//! wrapper made by `simd_dispatch!`, so all instruction sets run the same operations in the same order: the same bits.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod chance;
mod instructions;
mod math;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
pub use instructions::Instructions;
pub use math::{erf, exp, exp_neg, sigmoid, tanh};
#[cfg(target_arch = "aarch64")]
pub use neon::Neon;
pub use scalar::Scalar;

use crate::form::{from_bf16, from_f16};

/// Lanes of the abstract vector, and outputs per weight panel.
pub const LANES: usize = 16;

pub const fn pad16(n: usize) -> usize {
    n.div_ceil(LANES) * LANES
}

/// # Safety
/// Every method needs the instruction set of its implementation; pointers must be valid for 16 floats.
pub trait Simd: Copy + Send + Sync + 'static {
    type V: Copy;
    /// Rows and panels of the main matrix-product tile; `MR * NP` accumulators must fit the registers.
    const MR: usize;
    const NP: usize;
    /// Rows of the tile whose left operand is not packed (one pointer a row).
    const UR: usize;
    const UP: usize;
    /// Whether weights in a small form are decoded in the tile itself, and not before it.
    const FUSES: bool = true;

    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(p: *const f32) -> Self::V;
    unsafe fn store(p: *mut f32, v: Self::V);
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sqrt(a: Self::V) -> Self::V;
    /// `a·b + c`, rounded once.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a > b ? a : b`; operands must not be NaN.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    /// Adds the low bits of `n`'s pattern to the exponent of `p` (see `exp`).
    unsafe fn add_exponent(p: Self::V, n: Self::V) -> Self::V;
    /// Lanes `lo..hi` of `v`, the others from `other`.
    unsafe fn select(v: Self::V, lo: usize, hi: usize, other: Self::V) -> Self::V;
    /// `x < 0 ? a : b`, lane by lane.
    unsafe fn if_negative(x: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// Fixed tree: lane i + lane i+8, then +4, +2, +1.
    unsafe fn reduce_add(v: Self::V) -> f32;
    unsafe fn reduce_max(v: Self::V) -> f32;

    /// 16 numbers of two bytes, or of one.
    #[inline(always)]
    unsafe fn from_bf16(p: *const u16) -> Self::V {
        unsafe { lanes::<Self>(|i| from_bf16(p.add(i).read_unaligned())) }
    }
    #[inline(always)]
    unsafe fn from_f16(p: *const u16) -> Self::V {
        unsafe { lanes::<Self>(|i| from_f16(p.add(i).read_unaligned())) }
    }
    #[inline(always)]
    unsafe fn from_u8(p: *const u8) -> Self::V {
        unsafe { lanes::<Self>(|i| f32::from(*p.add(i))) }
    }
    #[inline(always)]
    unsafe fn from_i8(p: *const i8) -> Self::V {
        unsafe { lanes::<Self>(|i| f32::from(*p.add(i))) }
    }
    /// The lower halves of 16 bytes, and the upper ones.
    #[inline(always)]
    unsafe fn nibbles(p: *const u8) -> (Self::V, Self::V) {
        unsafe { (lanes::<Self>(|i| f32::from(*p.add(i) & 15)), lanes::<Self>(|i| f32::from(*p.add(i) >> 4))) }
    }
    /// Two vectors as numbers of two bytes, rounded by chance: of a lane's 32 bits the upper half is `a`'s, the lower one `b`'s.
    #[inline(always)]
    unsafe fn store_bf16_by_chance(to_a: *mut u16, a: Self::V, to_b: *mut u16, b: Self::V, key: u32) {
        let (mut wide_a, mut wide_b) = ([0f32; LANES], [0f32; LANES]);
        unsafe {
            Self::store(wide_a.as_mut_ptr(), a);
            Self::store(wide_b.as_mut_ptr(), b);
            for lane in 0..LANES {
                let chance = chance::lane_chance(key, lane);
                to_a.add(lane).write_unaligned(chance::bf16_by_chance(wide_a[lane], chance >> 16));
                to_b.add(lane).write_unaligned(chance::bf16_by_chance(wide_b[lane], chance & 0xffff));
            }
        }
    }
    /// `v + x` in the lanes whose bit is set.
    #[inline(always)]
    unsafe fn add_where(bits: u16, v: Self::V, x: f32) -> Self::V {
        unsafe { Self::add(v, lanes::<Self>(|i| if bits >> i & 1 == 1 { x } else { 0.0 })) }
    }

    #[inline(always)]
    unsafe fn zero() -> Self::V {
        unsafe { Self::splat(0.0) }
    }
    /// 16 rows of 16 floats, turned.
    #[inline(always)]
    unsafe fn transpose(src: *const f32, src_stride: usize, dst: *mut f32, dst_stride: usize) {
        for i in 0..LANES {
            for j in 0..LANES {
                unsafe { *dst.add(j * dst_stride + i) = *src.add(i * src_stride + j) }
            }
        }
    }
}

/// A vector of what `of` gives for each lane.
#[inline(always)]
unsafe fn lanes<S: Simd>(of: impl Fn(usize) -> f32) -> S::V {
    let values: [f32; LANES] = std::array::from_fn(of);
    unsafe { S::load(values.as_ptr()) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Level::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "avx512",
            #[cfg(target_arch = "aarch64")]
            Level::Neon => "neon",
        }
    }

    /// What this machine can run, best first.
    pub fn available() -> Vec<Level> {
        let mut levels = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let fma = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
            if fma
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
            {
                levels.push(Level::Avx512);
            }
            if fma {
                levels.push(Level::Avx2);
            }
        }
        #[cfg(target_arch = "aarch64")]
        levels.push(Level::Neon);
        levels.push(Level::Scalar);
        levels
    }

    /// Panels that a tile of many rows takes at once; where that is one, two share what is made ready for them.
    pub fn together(self) -> usize {
        let at_once = match self {
            Level::Scalar => Scalar::NP,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => Avx2::NP,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => Avx512::NP,
            #[cfg(target_arch = "aarch64")]
            Level::Neon => Neon::NP,
        };
        at_once.max(2)
    }

    /// Rows per packed group of the matrix product.
    pub fn mr(self) -> usize {
        match self {
            Level::Scalar => Scalar::MR,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => Avx2::MR,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => Avx512::MR,
            #[cfg(target_arch = "aarch64")]
            Level::Neon => Neon::MR,
        }
    }
}

/// `simd_dispatch! { pub unsafe fn name<R> = generic(args…) -> ret; }` makes `name::<R>(level, args…)`, which runs
/// `generic::<S, R>(args…)` compiled for the instruction set of `level`. The parameters, where there are any, are numbers known beforehand.
#[macro_export]
macro_rules! simd_dispatch {
    ($($(#[$meta:meta])* $vis:vis unsafe fn $name:ident $(<$($number:ident),+>)? = $generic:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => { $(
        $crate::simd_dispatch! { @one [$(#[$meta])* $vis] $name [$($(const $number: usize),+)?] [$($($number),+)?] $generic [$($arg: $ty),*] [$($arg),*] [$($ret)?] }
    )* };
    (@one [$($head:tt)*] $name:ident [$($const:tt)*] [$($number:ident),*] $generic:ident [$($arg:tt)*] [$($value:ident),*] [$($ret:ty)?]) => {
        #[allow(clippy::too_many_arguments, clippy::missing_safety_doc)]
        $($head)* unsafe fn $name<$($const)*>(level: $crate::simd::Level, $($arg)*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx512<$($const)*>($($arg)*) $(-> $ret)? {
                unsafe { $generic::<$crate::simd::Avx512, $($number),*>($($value),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx2<$($const)*>($($arg)*) $(-> $ret)? {
                unsafe { $generic::<$crate::simd::Avx2, $($number),*>($($value),*) }
            }
            unsafe {
                match level {
                    #[cfg(target_arch = "x86_64")]
                    $crate::simd::Level::Avx512 => avx512::<$($number),*>($($value),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::simd::Level::Avx2 => avx2::<$($number),*>($($value),*),
                    #[cfg(target_arch = "aarch64")]
                    $crate::simd::Level::Neon => $generic::<$crate::simd::Neon, $($number),*>($($value),*),
                    $crate::simd::Level::Scalar => $generic::<$crate::simd::Scalar, $($number),*>($($value),*),
                }
            }
        }
    };
}

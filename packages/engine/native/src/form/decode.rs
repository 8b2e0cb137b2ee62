//! From any form to f32.

use super::{Blocks, Form, Matrix};
use crate::simd::{LANES, Simd};
use crate::simd_dispatch;

/// Fetches `bytes` from `at` on.
#[inline(always)]
fn fetch(at: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..bytes).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, bytes);
}

/// The whole numbers of one block of each panel times its scale, plus its shift where there is one.
#[derive(Clone, Copy)]
struct Block<S: Simd, const P: usize> {
    numbers: [*const u8; P],
    scale: [S::V; P],
    shift: [S::V; P],
}

impl<S: Simd, const P: usize> Block<S, P> {
    /// Steps `from..until`, both even, of a block of `len`.
    #[inline(always)]
    unsafe fn walk<const BITS: usize, const SHIFTED: bool>(
        &self,
        len: usize,
        from: usize,
        until: usize,
        mut sink: impl FnMut(usize, [S::V; P]),
    ) {
        let place = |p: usize, q: S::V| unsafe { if SHIFTED { S::fma(q, self.scale[p], self.shift[p]) } else { S::mul(q, self.scale[p]) } };
        unsafe {
            if BITS == 8 {
                for i in from..until {
                    sink(i - from, std::array::from_fn(|p| place(p, S::from_i8(self.numbers[p].add(i * LANES).cast()))));
                }
                return;
            }
            let upper = |p: usize, q: S::V, i: usize| {
                let planes = self.numbers[p].add(LANES * len / 2).cast::<u16>();
                let mut q = q;
                if BITS > 4 {
                    q = S::add_where(planes.add(i).read_unaligned(), q, 16.0);
                }
                if BITS > 5 {
                    q = S::add_where(planes.add(len + i).read_unaligned(), q, 32.0);
                }
                place(p, q)
            };
            let mut i = from;
            while i < until {
                let pairs: [_; P] = std::array::from_fn(|p| S::nibbles(self.numbers[p].add(i * LANES / 2)));
                sink(i - from, std::array::from_fn(|p| upper(p, pairs[p].0, i)));
                sink(i + 1 - from, std::array::from_fn(|p| upper(p, pairs[p].1, i + 1)));
                i += 2;
            }
        }
    }

    /// The block at `at` of the records at `record`.
    #[inline(always)]
    unsafe fn of(b: Blocks, record: [*const u8; P], at: usize, shifted: bool) -> Block<S, P> {
        let mut numbers = record;
        let (mut scale, mut shift) = unsafe { ([S::zero(); P], [S::zero(); P]) };
        for p in 0..P {
            unsafe {
                let at = record[p].add(at);
                numbers[p] = at;
                scale[p] = S::from_f16(record[p].cast());
                if b.least {
                    shift[p] = S::from_f16(record[p].add(2 * LANES).cast());
                }
                if b.family > 1 {
                    numbers[p] = at.add(LANES * b.scales());
                    if b.least {
                        scale[p] = S::mul(scale[p], S::from_u8(at));
                        // The file holds what is to be taken off.
                        shift[p] = S::sub(S::zero(), S::mul(shift[p], S::from_u8(at.add(LANES))));
                    } else {
                        scale[p] = S::mul(scale[p], S::from_i8(at.cast()));
                    }
                }
                if shifted && !b.least {
                    shift[p] = S::mul(scale[p], S::splat(-(b.zero as f32)));
                }
            }
        }
        Block { numbers, scale, shift }
    }
}

/// Which part of which panels is read.
#[derive(Clone, Copy)]
pub struct Part {
    /// Bytes from a panel to the next.
    pub panel: usize,
    /// Steps `k0..k0+len`. In forms of blocks both are even.
    pub k0: usize,
    pub len: usize,
    /// Bytes from these panels to those that are fetched meanwhile; 0 for none.
    pub ahead: usize,
}

#[inline(always)]
unsafe fn blocks<S: Simd, const P: usize, const BITS: usize, const SHIFTED: bool>(
    b: Blocks,
    first: *const u8,
    part: Part,
    mut sink: impl FnMut(usize, [S::V; P]),
) {
    let (mut k, end) = (part.k0, part.k0 + part.len);
    unsafe {
        while k < end {
            let offset = k / b.steps() * b.record();
            let at = b.head() + k % b.steps() / b.len * b.block();
            let record: [_; P] = std::array::from_fn(|p| first.add(p * part.panel + offset));
            if part.ahead > 0 {
                for record in record {
                    fetch(record.wrapping_add(part.ahead + if b.family > 1 { at } else { 0 }), b.record() / b.family);
                }
            }
            let from = k % b.len;
            let until = b.len.min(from + end - k);
            let done = k - part.k0;
            Block::<S, P>::of(b, record, at, SHIFTED).walk::<BITS, SHIFTED>(b.len, from, until, |i, v| sink(done + i, v));
            k += until - from;
        }
    }
}

/// Calls `sink` with each step of `P` panels: its number from `k0` on, and 16 weights of each panel.
#[inline(always)]
pub unsafe fn walk<S: Simd, const P: usize>(m: Matrix, part: Part, mut sink: impl FnMut(usize, [S::V; P])) {
    let first = m.at.cast::<u8>();
    // Sizes of blocks are constants of the code made for each form.
    macro_rules! blocks {
        ($form:ident, $bits:literal, $shifted:literal) => {
            blocks::<S, P, $bits, $shifted>(const { Form::$form.blocks().unwrap() }, first, part, sink)
        };
    }
    macro_rules! single {
        ($read:ident, $bytes:literal) => {
            for k in 0..part.len {
                let at = |p: usize| first.add(p * part.panel + $bytes * LANES * (part.k0 + k));
                if part.ahead > 0 && k * $bytes * LANES % 64 == 0 {
                    (0..P).for_each(|p| fetch(at(p).wrapping_add(part.ahead), 64));
                }
                sink(k, std::array::from_fn(|p| S::$read(at(p).cast())));
            }
        };
    }
    unsafe {
        match m.form {
            Form::F32 => single!(load, 4),
            Form::Bf16 => single!(from_bf16, 2),
            Form::F16 => single!(from_f16, 2),
            Form::Q8_0 => blocks!(Q8_0, 8, false),
            Form::Q4_0 => blocks!(Q4_0, 4, true),
            Form::Q4_1 => blocks!(Q4_1, 4, true),
            Form::Q5_0 => blocks!(Q5_0, 5, true),
            Form::Q5_1 => blocks!(Q5_1, 5, true),
            Form::Q4K => blocks!(Q4K, 4, true),
            Form::Q5K => blocks!(Q5K, 5, true),
            Form::Q6K => blocks!(Q6K, 6, true),
        }
    }
}

/// Steps `k0..k0+len` of the first panel as `[len][16]` floats.
#[inline(always)]
pub unsafe fn decode_panel<S: Simd>(m: Matrix, k0: usize, len: usize, to: *mut f32) {
    let part = Part { panel: 0, k0, len, ahead: 0 };
    unsafe { walk::<S, 1>(m, part, |k, [v]| S::store(to.add(k * LANES), v)) }
}

simd_dispatch! {
    /// Steps `k0..k0+len` of the first panel as `[len][16]` floats. In forms of blocks both are even.
    pub unsafe fn decode = decode_panel(m: Matrix, k0: usize, len: usize, to: *mut f32);
}

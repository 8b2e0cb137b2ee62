//! From any form to f32.

use super::{Blocks, Form, Matrix};
use crate::simd::{LANES, Simd};
use crate::simd_dispatch;

/// Whole numbers `from..until` of a block times `scale`, plus `shift` where there is one. Both bounds are even.
#[inline(always)]
unsafe fn block<S: Simd, const BITS: usize, const SHIFTED: bool>(
    numbers: *const u8,
    len: usize,
    from: usize,
    until: usize,
    scale: S::V,
    shift: S::V,
    to: *mut f32,
) {
    let place = |q: S::V| unsafe { if SHIFTED { S::fma(q, scale, shift) } else { S::mul(q, scale) } };
    unsafe {
        if BITS == 8 {
            for i in from..until {
                S::store(to.add((i - from) * LANES), place(S::from_i8(numbers.add(i * LANES).cast())));
            }
            return;
        }
        let planes = numbers.add(LANES * len / 2).cast::<u16>();
        let upper = |q: S::V, i: usize| {
            let mut q = q;
            if BITS > 4 {
                q = S::add_where(planes.add(i).read_unaligned(), q, 16.0);
            }
            if BITS > 5 {
                q = S::add_where(planes.add(len + i).read_unaligned(), q, 32.0);
            }
            q
        };
        let mut i = from;
        while i < until {
            let (low, high) = S::nibbles(numbers.add(i * LANES / 2));
            S::store(to.add((i - from) * LANES), place(upper(low, i)));
            S::store(to.add((i + 1 - from) * LANES), place(upper(high, i + 1)));
            i += 2;
        }
    }
}

/// Steps `k0..k0+len` of a panel of blocks.
#[inline(always)]
unsafe fn panel_of_blocks<S: Simd, const BITS: usize, const SHIFTED: bool>(
    b: Blocks,
    panel: *const u8,
    k0: usize,
    len: usize,
    to: *mut f32,
) {
    let mut k = k0;
    unsafe {
        while k < k0 + len {
            let record = panel.add(k / b.steps() * b.record());
            let at = record.add(b.head() + k % b.steps() / b.len * b.block());
            let mut scale = S::from_f16(record.cast());
            let mut shift = if b.least { S::from_f16(record.add(2 * LANES).cast()) } else { S::zero() };
            let mut numbers = at;
            if b.family > 1 {
                if b.least {
                    scale = S::mul(scale, S::from_u8(at));
                    // The file holds what is to be taken off.
                    shift = S::sub(S::zero(), S::mul(shift, S::from_u8(at.add(LANES))));
                } else {
                    scale = S::mul(scale, S::from_i8(at.cast()));
                }
                numbers = at.add(LANES * b.scales());
            }
            if SHIFTED && !b.least {
                shift = S::mul(scale, S::splat(-(b.zero as f32)));
            }
            let from = k % b.len;
            let until = b.len.min(from + k0 + len - k);
            block::<S, BITS, SHIFTED>(numbers, b.len, from, until, scale, shift, to.add((k - k0) * LANES));
            k += until - from;
        }
    }
}

#[inline(always)]
pub unsafe fn decode_panel<S: Simd>(m: Matrix, k0: usize, len: usize, to: *mut f32) {
    let bytes = m.at.cast::<u8>();
    // Sizes of blocks are constants of the code made for each form.
    macro_rules! blocks {
        ($form:ident, $bits:literal, $shifted:literal) => {
            panel_of_blocks::<S, $bits, $shifted>(const { Form::$form.blocks().unwrap() }, bytes, k0, len, to)
        };
    }
    unsafe {
        match m.form {
            Form::F32 => std::ptr::copy_nonoverlapping(m.at.add(k0 * LANES), to, len * LANES),
            Form::Bf16 => {
                for k in 0..len {
                    S::store(to.add(k * LANES), S::from_bf16(bytes.add(2 * LANES * (k0 + k)).cast()));
                }
            }
            Form::F16 => {
                for k in 0..len {
                    S::store(to.add(k * LANES), S::from_f16(bytes.add(2 * LANES * (k0 + k)).cast()));
                }
            }
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

simd_dispatch! {
    /// Steps `k0..k0+len` of the first panel as `[len][16]` floats. In forms of blocks both are even.
    pub unsafe fn decode = decode_panel(m: Matrix, k0: usize, len: usize, to: *mut f32);
}

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

/// What is done with each step of `P` panels: its number and 16 weights of each. A closure would not do, since one that is called in
/// several places may be compiled apart, without the instruction set.
pub trait Sink<S: Simd, const P: usize> {
    /// # Safety
    /// As the implementation says.
    unsafe fn step(&mut self, k: usize, w: [S::V; P]);
}

impl<S: Simd, const P: usize> Block<S, P> {
    #[inline(always)]
    unsafe fn place<const SHIFTED: bool>(&self, mut q: [S::V; P]) -> [S::V; P] {
        for p in 0..P {
            unsafe { q[p] = if SHIFTED { S::fma(q[p], self.scale[p], self.shift[p]) } else { S::mul(q[p], self.scale[p]) } };
        }
        q
    }

    /// The bits above the fourth, of step `i` of a block of `len`.
    #[inline(always)]
    unsafe fn upper<const BITS: usize>(&self, mut q: [S::V; P], len: usize, i: usize) -> [S::V; P] {
        for p in 0..P {
            unsafe {
                let planes = self.numbers[p].add(LANES * len / 2).cast::<u16>();
                if BITS > 4 {
                    q[p] = S::add_where(planes.add(i).read_unaligned(), q[p], 16.0);
                }
                if BITS > 5 {
                    q[p] = S::add_where(planes.add(len + i).read_unaligned(), q[p], 32.0);
                }
            }
        }
        q
    }

    /// Steps `from..until`, both even, of a block of `len`; the first of them is step `k` for the sink.
    #[inline(always)]
    unsafe fn walk<const BITS: usize, const SHIFTED: bool>(
        &self,
        len: usize,
        (from, until): (usize, usize),
        k: usize,
        sink: &mut impl Sink<S, P>,
    ) {
        unsafe {
            let (mut low, mut high) = ([S::zero(); P], [S::zero(); P]);
            if BITS == 8 {
                for i in from..until {
                    for p in 0..P {
                        low[p] = S::from_i8(self.numbers[p].add(i * LANES).cast());
                    }
                    sink.step(k + i - from, self.place::<SHIFTED>(low));
                }
                return;
            }
            let mut i = from;
            while i < until {
                for p in 0..P {
                    (low[p], high[p]) = S::nibbles(self.numbers[p].add(i * LANES / 2));
                }
                sink.step(k + i - from, self.place::<SHIFTED>(self.upper::<BITS>(low, len, i)));
                sink.step(k + i + 1 - from, self.place::<SHIFTED>(self.upper::<BITS>(high, len, i + 1)));
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
    sink: &mut impl Sink<S, P>,
) {
    let (mut k, end) = (part.k0, part.k0 + part.len);
    unsafe {
        while k < end {
            let offset = k / b.steps() * b.record();
            let at = b.head() + k % b.steps() / b.len * b.block();
            let mut record = [first; P];
            for p in 0..P {
                record[p] = first.add(p * part.panel + offset);
                if part.ahead > 0 {
                    fetch(record[p].wrapping_add(part.ahead + if b.family > 1 { at } else { 0 }), b.record() / b.family);
                }
            }
            let from = k % b.len;
            let until = b.len.min(from + end - k);
            Block::<S, P>::of(b, record, at, SHIFTED).walk::<BITS, SHIFTED>(b.len, (from, until), k - part.k0, sink);
            k += until - from;
        }
    }
}

/// Gives the sink each step of `P` panels, numbered from `k0` on.
#[inline(always)]
pub unsafe fn walk<S: Simd, const P: usize>(m: Matrix, part: Part, sink: &mut impl Sink<S, P>) {
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
                let mut w = [S::zero(); P];
                for p in 0..P {
                    let at = first.add(p * part.panel + $bytes * LANES * (part.k0 + k));
                    if part.ahead > 0 && k * $bytes * LANES % 64 == 0 {
                        fetch(at.wrapping_add(part.ahead), 64);
                    }
                    w[p] = S::$read(at.cast());
                }
                sink.step(k, w);
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

struct Store(*mut f32);

impl<S: Simd> Sink<S, 1> for Store {
    #[inline(always)]
    unsafe fn step(&mut self, k: usize, [w]: [S::V; 1]) {
        unsafe { S::store(self.0.add(k * LANES), w) }
    }
}

/// Steps `k0..k0+len` of the first panel as `[len][16]` floats.
#[inline(always)]
pub unsafe fn decode_panel<S: Simd>(m: Matrix, k0: usize, len: usize, to: *mut f32) {
    unsafe { walk::<S, 1>(m, Part { panel: 0, k0, len, ahead: 0 }, &mut Store(to)) }
}

simd_dispatch! {
    /// Steps `k0..k0+len` of the first panel as `[len][16]` floats. In forms of blocks both are even.
    pub unsafe fn decode = decode_panel(m: Matrix, k0: usize, len: usize, to: *mut f32);
}

//! From any form to f32.

use super::{Blocks, Form, Matrix};
use crate::simd::{LANES, Simd};
use crate::{by_form, simd_dispatch};

/// Bytes ahead of its use at which each panel is fetched, into the second-level cache: of the first, too few lines can be on their way.
const AHEAD: usize = 2048;

/// Fetches the line at `ahead` bytes after `at`, if any.
#[inline(always)]
fn fetch(at: *const u8, ahead: usize) {
    #[cfg(target_arch = "x86_64")]
    if ahead > 0 {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(ahead).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, ahead);
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
        ahead: usize,
        sink: &mut impl Sink<S, P>,
    ) {
        unsafe {
            let (mut low, mut high) = ([S::zero(); P], [S::zero(); P]);
            if BITS == 8 {
                for i in from..until {
                    for p in 0..P {
                        let at = self.numbers[p].add(i * LANES);
                        if i % 4 == 0 {
                            fetch(at, ahead);
                        }
                        low[p] = S::from_i8(at.cast());
                    }
                    sink.step(k + i - from, self.place::<SHIFTED>(low));
                }
                return;
            }
            let mut i = from;
            while i < until {
                for p in 0..P {
                    let at = self.numbers[p].add(i * LANES / 2);
                    if i % 8 == 0 {
                        fetch(at, ahead);
                    }
                    (low[p], high[p]) = S::nibbles(at);
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
    /// Columns of the matrix.
    pub k: usize,
    /// Steps `from..from+len`. In forms of blocks both are even.
    pub from: usize,
    pub len: usize,
    /// Panels to those that are read next, which are fetched meanwhile; 0 for none.
    pub next: usize,
}

impl Part {
    /// Bytes from `offset` in a panel of so many to what is fetched when it is read: later in the panel, or in the panel that is next.
    #[inline(always)]
    fn ahead(self, offset: usize, panel: usize) -> usize {
        if offset + AHEAD < panel {
            AHEAD
        } else if self.next > 0 {
            AHEAD + (self.next - 1) * panel
        } else {
            0
        }
    }
}

#[inline(always)]
unsafe fn blocks<S: Simd, const P: usize, const BITS: usize, const SHIFTED: bool>(
    b: Blocks,
    first: *const u8,
    part: Part,
    sink: &mut impl Sink<S, P>,
) {
    let (mut k, end) = (part.from, part.from + part.len);
    let panel = part.k / b.steps() * b.record();
    unsafe {
        while k < end {
            let offset = k / b.steps() * b.record();
            let at = b.head() + k % b.steps() / b.len * b.block();
            let ahead = part.ahead(offset + at, panel);
            let mut record = [first; P];
            for p in 0..P {
                record[p] = first.add(p * panel + offset);
                fetch(record[p].add(at - b.head()), ahead);
            }
            let from = k % b.len;
            let until = b.len.min(from + end - k);
            Block::<S, P>::of(b, record, at, SHIFTED).walk::<BITS, SHIFTED>(b.len, (from, until), k - part.from, ahead, sink);
            k += until - from;
        }
    }
}

#[inline(always)]
unsafe fn single<S: Simd, const P: usize, const F: usize>(first: *const u8, part: Part, sink: &mut impl Sink<S, P>) {
    let step = Form::numbered(F).panel_bytes(1);
    for k in 0..part.len {
        let offset = (part.from + k) * step;
        let ahead = part.ahead(offset, part.k * step);
        unsafe {
            let mut w = [S::zero(); P];
            for p in 0..P {
                let at = first.add(p * part.k * step + offset);
                if (k * step).is_multiple_of(64) {
                    fetch(at, ahead);
                }
                w[p] = match Form::numbered(F) {
                    Form::F16 => S::from_f16(at.cast()),
                    Form::Bf16 => S::from_bf16(at.cast()),
                    _ => S::load(at.cast()),
                };
            }
            sink.step(k, w);
        }
    }
}

/// Gives the sink each step of `P` panels in the form that is number `F`, numbered from 0 on.
#[inline(always)]
pub unsafe fn walk<S: Simd, const P: usize, const F: usize>(first: *const f32, part: Part, sink: &mut impl Sink<S, P>) {
    let first = first.cast::<u8>();
    // Sizes of blocks are constants of the code made for each form.
    macro_rules! blocks {
        ($form:ident, $bits:literal, $shifted:literal) => {
            blocks::<S, P, $bits, $shifted>(const { Form::$form.blocks().unwrap() }, first, part, sink)
        };
    }
    unsafe {
        match Form::numbered(F) {
            Form::F32 | Form::Bf16 | Form::F16 => single::<S, P, F>(first, part, sink),
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

/// Steps `from..from+len` of the first panel as `[len][16]` floats.
#[inline(always)]
pub unsafe fn decode_panel<S: Simd>(m: Matrix, from: usize, len: usize, to: *mut f32) {
    // Of a panel whose end is not said nothing is fetched ahead.
    by_form!(m.form, F => unsafe { walk::<S, 1, F>(m.at, Part { k: 0, from, len, next: 0 }, &mut Store(to)) })
}

simd_dispatch! {
    /// Steps `from..from+len` of the first panel as `[len][16]` floats. In forms of blocks both are even.
    pub unsafe fn decode = decode_panel(m: Matrix, from: usize, len: usize, to: *mut f32);
}

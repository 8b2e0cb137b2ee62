//! From the blocks of a GGUF file, or from f32, into panels. A file holds a matrix row by row, each row as a run of blocks; a panel
//! holds the blocks of 16 rows side by side.

use std::borrow::Cow;

use super::half::{from_f16, is_finite_f16, to_bf16, to_f16};
use super::{Blocks, Form};
use crate::error::EngineError;
use crate::simd::LANES;

/// What one record of one row holds, whatever the file's way of packing it: at most 256 numbers.
struct Record {
    scale: u16,
    least: u16,
    /// Of a family: what the scale and the least value are multiplied by, block by block.
    multiples: [u8; 16],
    leasts: [u8; 16],
    numbers: [u8; 256],
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Bytes of one record of one row in a file.
pub const fn file_record(form: Form) -> usize {
    match form {
        Form::F32 => 4,
        Form::Bf16 | Form::F16 => 2,
        Form::Q8_0 => 34,
        Form::Q4_0 => 18,
        Form::Q4_1 => 20,
        Form::Q5_0 => 22,
        Form::Q5_1 => 24,
        Form::Q4K => 144,
        Form::Q5K => 176,
        Form::Q6K => 210,
    }
}

/// 32 numbers: the lower halves of 16 bytes, then the upper ones; a fifth bit of each where there is one.
fn halves(numbers: &mut [u8], bytes: &[u8], fifth: u32) {
    for i in 0..16 {
        numbers[i] = bytes[i] & 15 | (fifth >> i & 1) as u8 * 16;
        numbers[i + 16] = bytes[i] >> 4 | (fifth >> (i + 16) & 1) as u8 * 16;
    }
}

/// Six bits for each scale and each least value of eight blocks, in twelve bytes.
fn family_scales(record: &mut Record, packed: &[u8]) {
    for j in 0..4 {
        record.multiples[j] = packed[j] & 63;
        record.leasts[j] = packed[j + 4] & 63;
        record.multiples[j + 4] = packed[j + 8] & 15 | packed[j] >> 6 << 4;
        record.leasts[j + 4] = packed[j + 8] >> 4 | packed[j + 4] >> 6 << 4;
    }
}

fn unpack(form: Form, bytes: &[u8]) -> Record {
    let mut r = Record { scale: 0, least: 0, multiples: [0; 16], leasts: [0; 16], numbers: [0; 256] };
    r.scale = word(bytes, if form == Form::Q6K { 208 } else { 0 });
    if form.blocks().is_some_and(|b| b.least) {
        r.least = word(bytes, 2);
    }
    let fifth = |at: usize| u32::from(word(bytes, at)) | u32::from(word(bytes, at + 2)) << 16;
    match form {
        Form::Q8_0 => r.numbers[..32].copy_from_slice(&bytes[2..]),
        Form::Q4_0 => halves(&mut r.numbers, &bytes[2..], 0),
        Form::Q4_1 => halves(&mut r.numbers, &bytes[4..], 0),
        Form::Q5_0 => halves(&mut r.numbers, &bytes[6..], fifth(2)),
        Form::Q5_1 => halves(&mut r.numbers, &bytes[8..], fifth(4)),
        Form::Q4K | Form::Q5K => {
            family_scales(&mut r, &bytes[4..16]);
            let (upper, lower) = if form == Form::Q5K { (&bytes[16..48], &bytes[48..]) } else { (&[0; 32][..], &bytes[16..]) };
            for (i, number) in r.numbers.iter_mut().enumerate() {
                let (block, at) = (i / 32, i % 32);
                let pair = lower[block / 2 * 32 + at];
                *number = (if block % 2 == 0 { pair & 15 } else { pair >> 4 }) | (upper[at] >> block & 1) * 16;
            }
        }
        Form::Q6K => {
            let (lower, upper) = (&bytes[..128], &bytes[128..192]);
            r.multiples.copy_from_slice(&bytes[192..208]);
            for (i, number) in r.numbers.iter_mut().enumerate() {
                let (half, quarter, at) = (i / 128, i / 32 % 4, i % 32);
                let pair = lower[half * 64 + quarter % 2 * 32 + at];
                let four = if quarter < 2 { pair & 15 } else { pair >> 4 };
                *number = four | (upper[half * 32 + at] >> (2 * quarter) & 3) << 4;
            }
        }
        Form::F32 | Form::Bf16 | Form::F16 => {}
    }
    r
}

/// Puts one row's record into its lane of the panel's.
fn place(b: Blocks, r: &Record, lane: usize, to: &mut [u8]) {
    to[2 * lane..2 * lane + 2].copy_from_slice(&r.scale.to_le_bytes());
    if b.least {
        to[2 * (LANES + lane)..][..2].copy_from_slice(&r.least.to_le_bytes());
    }
    for block in 0..b.family {
        let mut at = b.head() + block * b.block();
        if b.family > 1 {
            to[at + lane] = r.multiples[block];
            if b.least {
                to[at + LANES + lane] = r.leasts[block];
            }
            at += LANES * b.scales();
        }
        let planes = at + LANES * b.len / 2;
        for i in 0..b.len {
            let number = r.numbers[block * b.len + i];
            if b.bits == 8 {
                to[at + i * LANES + lane] = number;
                continue;
            }
            to[at + i / 2 * LANES + lane] |= (number & 15) << (4 * (i % 2));
            for bit in 4..b.bits {
                to[planes + 2 * ((bit - 4) * b.len + i) + lane / 8] |= (number >> bit & 1) << (lane % 8);
            }
        }
    }
}

/// One row into its lane of a panel.
fn pack_row(form: Form, cols: usize, lane: usize, bytes: &[u8], panel: &mut [u8]) -> bool {
    let Some(b) = form.blocks() else {
        let infinite = if form == Form::F16 { 0x7c00 } else { 0x7f80 };
        for (pair, to) in bytes.chunks_exact(2).zip(panel.chunks_exact_mut(2 * LANES)) {
            if word(pair, 0) & infinite == infinite {
                return false;
            }
            to[2 * lane..2 * lane + 2].copy_from_slice(pair);
        }
        return true;
    };
    debug_assert_eq!(bytes.len(), cols / b.steps() * file_record(form));
    for (record, to) in bytes.chunks_exact(file_record(form)).zip(panel.chunks_exact_mut(b.record())) {
        let r = unpack(form, record);
        if !is_finite_f16(r.scale) || !is_finite_f16(r.least) {
            return false;
        }
        place(b, &r, lane, to);
    }
    true
}

/// Rows, each given as the bytes of a file, into panels.
fn pack_rows<'a>(form: Form, name: &str, cols: usize, rows: impl Iterator<Item = Cow<'a, [u8]>>, to: &mut [u8]) -> Result<(), EngineError> {
    let panel_bytes = form.panel_bytes(cols);
    to.fill(0);
    for (row, bytes) in rows.enumerate() {
        if !pack_row(form, cols, row % LANES, &bytes, &mut to[row / LANES * panel_bytes..][..panel_bytes]) {
            return Err(EngineError::new(
                "NOT_FINITE",
                format!(
                    "Tensor \"{name}\" holds a number that is not finite in row {row}. The weight file is damaged or the model diverged."
                ),
            ));
        }
    }
    Ok(())
}

/// Bytes of one row in a file.
pub fn file_row(form: Form, cols: usize) -> usize {
    cols / form.blocks().map_or(1, Blocks::steps) * file_record(form)
}

/// Fills a matrix of `cols` columns from the bytes of a file, row after row, in the form itself. `to` holds its panels.
pub fn pack_bytes(form: Form, name: &str, cols: usize, bytes: &[u8], to: &mut [u8]) -> Result<(), EngineError> {
    pack_rows(form, name, cols, bytes.chunks_exact(file_row(form, cols)).map(Cow::Borrowed), to)
}

/// Fills it from f32, rounded to the nearest number the form has. Forms that need a search for good scales are not made here.
pub fn pack_floats(form: Form, name: &str, cols: usize, data: &[f32], to: &mut [u8]) -> Result<(), EngineError> {
    let row = |values: &[f32]| -> Vec<u8> {
        match form {
            Form::Bf16 => values.iter().flat_map(|&x| to_bf16(x).to_le_bytes()).collect(),
            Form::F16 => values.iter().flat_map(|&x| to_f16(x).to_le_bytes()).collect(),
            _ => values.chunks_exact(32).flat_map(quantise).collect(),
        }
    };
    if !matches!(form, Form::Bf16 | Form::F16 | Form::Q8_0) {
        return Err(EngineError::input(format!(
            "\"{name}\" is kept as {}, which is read from a file and not made from f32. Keep it as q8_0, bf16 or f32.",
            form.name()
        )));
    }
    pack_rows(form, name, cols, data.chunks_exact(cols).map(|values| Cow::Owned(row(values))), to)
}

/// 32 numbers as one scale and whole numbers from −127 to 127.
fn quantise(block: &[f32]) -> [u8; 34] {
    let largest = block.iter().fold(0f32, |m, x| m.max(x.abs()));
    let bits = to_f16(largest / 127.0);
    // With the scale as it is kept: its own rounding is then part of what is rounded.
    let scale = from_f16(bits);
    let mut out = [0; 34];
    out[..2].copy_from_slice(&bits.to_le_bytes());
    for (to, &x) in out[2..].iter_mut().zip(block) {
        *to = if scale == 0.0 { 0 } else { (x / scale).round_ties_even().clamp(-127.0, 127.0) as i8 as u8 };
    }
    out
}

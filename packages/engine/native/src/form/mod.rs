//! How the numbers of a matrix lie in memory. Frozen weights may be kept smaller than f32: in two bytes, or as small whole numbers
//! with a scale for every few of them, as GGUF files hold them. They are turned into f32 as they are read, in registers or in pieces
//! that stay in the first-level cache, and the product is that of f32 weights: the same bits as if they had been turned beforehand.

mod decode;
mod ggml;
mod half;

pub use decode::{Part, Sink, decode, decode_panel, walk};
pub use ggml::{file_row, pack_bytes, pack_floats};
pub use half::{from_bf16, from_f16, to_bf16};

use crate::error::EngineError;
use crate::simd::LANES;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    F32,
    Bf16,
    F16,
    Q8_0,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q4K,
    Q5K,
    Q6K,
}

/// Whole numbers with a scale (and a least value) for each block of steps along a row.
#[derive(Clone, Copy)]
pub struct Blocks {
    /// 4, 5, 6 or 8. Of 5 and 6 the upper bits lie apart from the lower four.
    pub bits: usize,
    /// Steps that share a scale.
    pub len: usize,
    /// Blocks whose scales are small multiples of one; 1 where every block has a scale of its own.
    pub family: usize,
    /// Whether a block has a least value beside its scale.
    pub least: bool,
    /// What the whole number 0 stands for, where there is no least value.
    pub zero: usize,
}

impl Blocks {
    /// Steps of one record of a panel.
    pub const fn steps(self) -> usize {
        self.len * self.family
    }

    /// Bytes of the whole numbers of one block: nibbles (or bytes) first, then one plane of 16 bits a step for each further bit.
    const fn numbers(self) -> usize {
        if self.bits == 8 { LANES * self.len } else { LANES * self.len / 2 + 2 * self.len * (self.bits - 4) }
    }

    /// Vectors of scales: one, or with least values two.
    const fn scales(self) -> usize {
        1 + self.least as usize
    }

    /// Bytes of what lies before the first block of a record: scales of two bytes.
    const fn head(self) -> usize {
        2 * LANES * self.scales()
    }

    /// Bytes of a block, with its multiples where the scale is the family's.
    const fn block(self) -> usize {
        self.numbers() + if self.family > 1 { LANES * self.scales() } else { 0 }
    }

    const fn record(self) -> usize {
        self.head() + self.family * self.block()
    }
}

const NAMES: [(&str, Form); 11] = [
    ("f32", Form::F32),
    ("bf16", Form::Bf16),
    ("f16", Form::F16),
    ("q8_0", Form::Q8_0),
    ("q4_0", Form::Q4_0),
    ("q4_1", Form::Q4_1),
    ("q5_0", Form::Q5_0),
    ("q5_1", Form::Q5_1),
    ("q4_k", Form::Q4K),
    ("q5_k", Form::Q5K),
    ("q6_k", Form::Q6K),
];

/// Runs code made for each form by itself: `$f` is its place in the list of names, a constant.
#[macro_export]
macro_rules! by_form {
    ($form:expr, $f:ident => $code:expr) => {
        $crate::by_form!(@each $form, $f => $code; F32, Bf16, F16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4K, Q5K, Q6K)
    };
    (@each $form:expr, $f:ident => $code:expr; $($name:ident),*) => {
        match $form {
            $($crate::form::Form::$name => {
                const $f: usize = $crate::form::Form::$name as usize;
                $code
            })*
        }
    };
}

impl Form {
    /// The form at this place in the list of names.
    pub const fn numbered(f: usize) -> Form {
        NAMES[f].1
    }

    pub fn of(name: &str) -> Result<Form, EngineError> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|&(_, form)| form).ok_or_else(|| {
            let known: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
            EngineError::config(format!("Weights cannot be kept as \"{name}\". Use one of: {}.", known.join(", ")))
        })
    }

    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, form)| *form == self).map_or("", |(name, _)| name)
    }

    /// None where every number is kept by itself.
    pub const fn blocks(self) -> Option<Blocks> {
        let (bits, len, family, least, zero) = match self {
            Form::F32 | Form::Bf16 | Form::F16 => return None,
            Form::Q8_0 => (8, 32, 1, false, 0),
            Form::Q4_0 => (4, 32, 1, false, 8),
            Form::Q4_1 => (4, 32, 1, true, 0),
            Form::Q5_0 => (5, 32, 1, false, 16),
            Form::Q5_1 => (5, 32, 1, true, 0),
            Form::Q4K => (4, 32, 8, true, 0),
            Form::Q5K => (5, 32, 8, true, 0),
            Form::Q6K => (6, 16, 16, false, 32),
        };
        Some(Blocks { bits, len, family, least, zero })
    }

    /// Bytes of a panel of 16 rows of `k` columns.
    pub const fn panel_bytes(self, k: usize) -> usize {
        match (self, self.blocks()) {
            (Form::F32, _) => 4 * LANES * k,
            (_, None) => 2 * LANES * k,
            (_, Some(blocks)) => k / blocks.steps() * blocks.record(),
        }
    }

    /// Refuses a matrix whose rows are not whole blocks.
    pub fn check(self, name: &str, cols: usize) -> Result<(), EngineError> {
        let steps = self.blocks().map_or(1, Blocks::steps);
        if cols.is_multiple_of(steps) {
            return Ok(());
        }
        Err(EngineError::config(format!(
            "\"{name}\" has {cols} columns; kept as {} they must be a multiple of {steps}. Keep it as f32.",
            self.name()
        )))
    }
}

/// A matrix in panels of 16 rows: `[rows/16][columns][16]`, in whatever form.
#[derive(Clone, Copy)]
pub struct Matrix {
    pub at: *const f32,
    pub form: Form,
}
unsafe impl Sync for Matrix {}

impl From<*const f32> for Matrix {
    fn from(at: *const f32) -> Matrix {
        Matrix { at, form: Form::F32 }
    }
}

impl Matrix {
    pub fn is_plain(self) -> bool {
        self.form == Form::F32
    }

    /// The matrix from this panel on; `k` is its number of columns.
    pub fn from_panel(self, panel: usize, k: usize) -> Matrix {
        Matrix { at: self.at.wrapping_byte_add(panel * self.form.panel_bytes(k)), ..self }
    }
}

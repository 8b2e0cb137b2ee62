//! The operands of the gradient products as the vector path takes them, and how they are packed and multiplied.

use super::Exec;
use super::backward::{pack_columns, turn};
use super::forward::{Groups, pack_rows};
#[cfg(target_arch = "x86_64")]
use super::pairs;
use super::rounded::{round, round_here};
use super::tile::{Tile, tile_packed};
use crate::config::Precision;
use crate::form::Matrix;
use crate::simd::Level;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operands {
    F32,
    /// Rounded to bf16 and multiplied as f32: the product of two is exact then and the sums are of f32; the precision of bf16 without its speed.
    Rounded,
    /// Rounded to bf16, two neighbours of the contraction in one f32's place.
    #[cfg(target_arch = "x86_64")]
    Pairs,
}

/// A matrix: where it begins, and the floats from row to row.
type Rows = (*const f32, usize);

impl Operands {
    pub fn of(exec: &Exec) -> Operands {
        match exec.gradients {
            Precision::F32 => Operands::F32,
            #[cfg(target_arch = "x86_64")]
            Precision::Bf16 if exec.pairs() => Operands::Pairs,
            Precision::Bf16 => Operands::Rounded,
        }
    }

    /// Steps of a tile for a contraction over `n`. What `n` begins with must be even where it is one of several parts.
    pub fn steps(self, n: usize) -> usize {
        match self {
            Operands::F32 | Operands::Rounded => n,
            #[cfg(target_arch = "x86_64")]
            Operands::Pairs => pairs::pairs(n),
        }
    }

    /// Floats that packing so many takes besides.
    pub fn scratch(self, floats: usize) -> usize {
        match self {
            Operands::F32 | Operands::Rounded => 0,
            #[cfg(target_arch = "x86_64")]
            Operands::Pairs => floats,
        }
    }

    /// All rows of the groups, n of each: to `[group][step][rows of the group]`.
    pub unsafe fn pack_rows(self, exec: &Exec, (x, x_row): Rows, groups: Groups, n: usize, to: *mut f32, scratch: *mut f32) {
        let m = groups.rows();
        unsafe {
            match self {
                Operands::F32 => pack_rows(exec, x, x_row, groups, n, to),
                Operands::Rounded => {
                    pack_rows(exec, x, x_row, groups, n, to);
                    round(exec, to, m * n);
                }
                #[cfg(target_arch = "x86_64")]
                Operands::Pairs => {
                    pairs::pair_along_rows(exec, x, x_row, (m, n), scratch);
                    pack_rows(exec, scratch, self.steps(n), groups, self.steps(n), to);
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = scratch;
    }

    /// The groups' columns of all tokens: to `[group][step][columns of the group]`.
    pub unsafe fn pack_columns(self, exec: &Exec, (x, x_row): Rows, tokens: usize, groups: Groups, to: *mut f32, scratch: *mut f32) {
        let k = groups.rows();
        unsafe {
            match self {
                Operands::F32 => pack_columns(exec, x, x_row, tokens, groups, to),
                Operands::Rounded => {
                    pack_columns(exec, x, x_row, tokens, groups, to);
                    round(exec, to, tokens * k);
                }
                #[cfg(target_arch = "x86_64")]
                Operands::Pairs => {
                    pairs::pair_across_rows(exec, x, x_row, (tokens, k), scratch);
                    pack_columns(exec, scratch, k, self.steps(tokens), groups, to);
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = scratch;
    }

    /// Rows `n0..n0+len`, columns `16·panel..` of `W [n, k]`: to `[step][16]`.
    #[allow(clippy::too_many_arguments)]
    pub unsafe fn turn(self, level: Level, w: Matrix, k: usize, panel: usize, n0: usize, len: usize, to: *mut f32) {
        unsafe {
            match self {
                Operands::F32 => turn(level, w, k, panel, n0, len, to),
                Operands::Rounded => {
                    turn(level, w, k, panel, n0, len, to);
                    round_here(level, to, 16 * len);
                }
                #[cfg(target_arch = "x86_64")]
                Operands::Pairs => pairs::turn_pairs(w, k, panel, n0, len, to),
            }
        }
    }

    /// `columns` of `len` tokens: to `[step][columns]`.
    pub unsafe fn pack_panels(self, level: Level, (dy, dy_row): Rows, len: usize, columns: usize, to: *mut f32) {
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if self == Operands::Pairs {
                for pair in 0..self.steps(len) {
                    pairs::pair_here(dy, dy_row, (len, columns), pair, to.add(pair * columns));
                }
                return;
            }
            for t in 0..len {
                std::ptr::copy_nonoverlapping(dy.add(t * dy_row), to.add(t * columns), columns);
            }
            if self == Operands::Rounded {
                round_here(level, to, len * columns);
            }
        }
    }

    pub unsafe fn multiply(self, level: Level, rows: usize, panels: usize, tile: &Tile) {
        unsafe {
            match self {
                Operands::F32 | Operands::Rounded => tile_packed(level, rows, panels, tile),
                #[cfg(target_arch = "x86_64")]
                Operands::Pairs => pairs::tile_pairs(rows, panels, tile),
            }
        }
    }
}

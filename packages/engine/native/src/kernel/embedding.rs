//! Token embeddings: looked up from the head's panels when tied, from rows otherwise.

use crate::buffer::Shared;
use crate::form::{Matrix, decode};
use crate::pool::Pool;
use crate::simd::{LANES, Level, pad16};

#[derive(Clone, Copy)]
pub struct Table {
    pub at: *mut f32,
    pub h: usize,
    /// Panels `[vocab/16][h][16]`, else rows of h padded to 16.
    pub panels: bool,
}
unsafe impl Sync for Table {}

impl Table {
    fn entry(&self, row: usize) -> (usize, usize) {
        if self.panels { (row / LANES * LANES * self.h + row % LANES, LANES) } else { (row * pad16(self.h), 1) }
    }

    /// # Safety
    /// `row` must be in the table, `to` hold h floats.
    pub unsafe fn read(&self, row: usize, to: *mut f32, add: bool) {
        let (first, stride) = self.entry(row);
        for i in 0..self.h {
            unsafe {
                let v = *self.at.add(first + i * stride);
                *to.add(i) = if add { *to.add(i) + v } else { v };
            }
        }
    }
}

/// As `Table::read`, from a matrix in whatever form.
///
/// # Safety
/// `row` must be in the matrix, `to` hold h floats.
pub unsafe fn read_row(level: Level, m: Matrix, row: usize, h: usize, to: *mut f32) {
    let (panel, lane) = (m.from_panel(row / LANES, h), row % LANES);
    let mut square = [0f32; LANES * LANES];
    for first in (0..h).step_by(LANES) {
        let len = LANES.min(h - first);
        unsafe {
            decode(level, panel, first, len, square.as_mut_ptr());
            for i in 0..len {
                *to.add(first + i) = square[i * LANES + lane];
            }
        }
    }
}

/// `table[id_t] += d[t]` for t ascending; chunks own ranges of columns, so the order is fixed.
///
/// # Safety
/// Ids in the table; `d` has rows of `d_row` floats.
pub unsafe fn scatter(pool: &Pool, table: Table, ids: impl Fn(usize) -> usize + Sync, tokens: usize, d: *const f32, d_row: usize) {
    let d = Shared(d.cast_mut());
    let columns = table.h.div_ceil(4 * pool.threads()).next_multiple_of(LANES);
    pool.run(table.h.div_ceil(columns), |chunk, _| {
        let range = chunk * columns..((chunk + 1) * columns).min(table.h);
        for t in 0..tokens {
            let (first, stride) = table.entry(ids(t));
            for i in range.clone() {
                unsafe { *table.at.add(first + i * stride) += *d.at(t * d_row + i) };
            }
        }
    });
}

//! The embedding on its own: what is looked up, and the table's gradient against central differences.

use super::embedding::{Table, scatter};
use crate::pool::Pool;
use crate::simd::{LANES, pad16};
use crate::testing::{assert_near, difference, noise, widened};

/// Place of entry (row, column) in a table that is laid out as `Table` says.
fn place(panels: bool, h: usize, row: usize, col: usize) -> usize {
    if panels { (row / LANES * h + col) * LANES + row % LANES } else { row * pad16(h) + col }
}

#[test]
fn every_row_gathers_the_derivatives_of_all_its_tokens() {
    const VOCAB: usize = 19;
    // One token; the same token many times; first and last of the vocabulary; more than a vector of them.
    let batches: [Vec<usize>; 4] = [vec![7], vec![3; 5], vec![0, 18, 0, 17, 18, 16], (0..17).map(|t| t * t % VOCAB).collect()];
    for (ids, h, panels, threads) in
        batches.iter().flat_map(|ids| [(ids, 12, true, 1), (ids, 33, true, 3), (ids, 16, false, 1), (ids, 33, false, 3)])
    {
        let floats = if panels { pad16(VOCAB) * h } else { VOCAB * pad16(h) };
        let (rows, d_row) = (ids.len(), pad16(h) + LANES);
        let (mut table, d) = (noise(1, floats), noise(2, rows * d_row));
        let mut x = vec![0f32; rows * h];
        let t = Table { at: table.as_mut_ptr(), h, panels };
        for (row, &id) in ids.iter().enumerate() {
            unsafe { t.read(id, x[row * h..].as_mut_ptr(), false) };
            for col in 0..h {
                assert_eq!(x[row * h + col].to_bits(), table[place(panels, h, id, col)].to_bits());
            }
        }
        let before = x.clone();
        for (row, &id) in ids.iter().enumerate() {
            unsafe { t.read(id, x[row * h..].as_mut_ptr(), true) };
        }
        assert!(x.iter().zip(&before).all(|(now, was)| *now == was + was), "a second table is added to the first");

        let was = noise(3, floats);
        let mut gradient = was.clone();
        let to = Table { at: gradient.as_mut_ptr(), h, panels };
        unsafe { scatter(&Pool::new(threads), to, |t| ids[t], rows, d.as_ptr(), d_row) };
        // What the model computes with the table, by the very place of each entry: Σ d·table[id].
        let mut reference = widened(&table);
        let loss = |table: &[f64]| -> f64 {
            let of = |(row, &id): (usize, &usize)| -> f64 {
                (0..h).map(|col| f64::from(d[row * d_row + col]) * table[place(panels, h, id, col)]).sum()
            };
            ids.iter().enumerate().map(of).sum()
        };
        let expected: Vec<f64> = (0..floats).map(|i| f64::from(was[i]) + difference(&mut reference, i, loss)).collect();
        assert_near(&gradient, &expected, 1e-6, &format!("ids {ids:?} h {h} panels {panels}"));
    }
}

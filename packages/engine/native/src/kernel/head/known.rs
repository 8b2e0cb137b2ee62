//! The head where rows of logits are there already: the same functions on the same numbers.

use super::{CHUNK, RowStats, chunk_part, combine, log_prob};
use crate::buffer::Shared;
use crate::gemm::Exec;
use crate::kernel::parallel_rows;

/// As `head_forward`, of rows of `vocab` logits each.
///
/// # Safety
/// The rows are padded to 16.
pub unsafe fn head_of(
    exec: &Exec,
    rows: &[Shared<f32>],
    vocab: usize,
    temperature: f32,
    entropy: bool,
    targets: &[u32],
) -> (Vec<f32>, Vec<RowStats>) {
    let (level, inverse) = (exec.level, 1.0 / temperature);
    let mut log_probs = vec![0f32; rows.len()];
    let mut stats = vec![RowStats::default(); rows.len()];
    let (to_log_probs, to_stats) = (Shared(log_probs.as_mut_ptr()), Shared(stats.as_mut_ptr()));
    parallel_rows(&exec.pool, rows.len(), 4 * vocab, |range, _| {
        for row in range {
            let part = |first: usize| unsafe { chunk_part(level, rows[row].at(first), CHUNK.min(vocab - first), inverse, entropy) };
            let found = combine(&(0..vocab).step_by(CHUNK).map(part).collect::<Vec<_>>());
            unsafe {
                *to_stats.at(row) = found;
                *to_log_probs.at(row) = log_prob(*rows[row].at(targets[row] as usize), inverse, found);
            }
        }
    });
    (log_probs, stats)
}

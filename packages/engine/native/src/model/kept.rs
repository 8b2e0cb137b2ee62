//! Activations on their way between the buffers of a step and the pages they are kept in: saved while sampling runs, layer by layer,
//! and loaded by a training pass on its way back.

use std::sync::Arc;

use super::archive::{Archive, PAGE};
use super::arena::Page;
use super::layer::{Acts, Part};
use super::params::Params;
use super::plan::{Keep, lay_out};
use super::rows::{Late, Rows};
use super::{Chunk, Model};
use crate::config::Config;
use crate::gemm::Exec;
use crate::kernel::parallel_rows;
use crate::simd::pad16;

/// Rows that follow one another both in a step and in a page.
pub struct Run {
    pub row: usize,
    pub count: usize,
    pub page: Arc<Page>,
    pub slot: usize,
}

impl Run {
    /// Those of `count` tokens of a segment from `token` on, which are rows from `row` on.
    pub fn of(archive: &Archive, token: usize, row: usize, count: usize, to: &mut Vec<Run>) {
        let mut done = 0;
        while done < count {
            let at = archive.first + token + done;
            let some = (PAGE - at % PAGE).min(count - done);
            to.push(Run { row: row + done, count: some, page: archive.pages[at / PAGE].clone(), slot: at % PAGE });
            done += some;
        }
    }
}

/// Rows of a step and their places in pages. A page holds, by layer, the stream that enters it and each of its parts, then the stream
/// that leaves the last one; of each of these all its tokens.
pub struct Kept {
    pub runs: Vec<Run>,
    hidden: usize,
    /// Floats of a token in a layer.
    layer: usize,
    layers: usize,
}

/// Floats of a token in a layer.
fn layer_floats(c: &Config, params: &Params) -> usize {
    let acts = lay_out(c, params, &Rows::empty(), Keep::Layer, false, std::ptr::null_mut()).layers[0];
    pad16(c.hidden) + acts.parts(c, params).iter().map(|part| part.width).sum::<usize>()
}

/// A buffer of a step and its place in a page.
#[derive(Clone, Copy)]
struct Lane {
    /// Floats of a token before it in a page.
    before: usize,
    at: *mut f32,
    width: usize,
}
unsafe impl Sync for Lane {}

#[derive(Clone, Copy)]
enum Way {
    Save,
    Load,
}

impl Kept {
    pub fn new(c: &Config, params: &Params, runs: Vec<Run>) -> Kept {
        Kept { runs, hidden: pad16(c.hidden), layer: layer_floats(c, params), layers: c.layers }
    }

    /// The rows of those chunks whose segments have room for it, and these chunks. None: of none.
    pub fn of_chunks(c: &Config, params: &Params, rows: &Rows, chunks: &[Chunk<'_>]) -> Option<(Kept, Vec<usize>)> {
        let (mut runs, mut of) = (Vec::new(), Vec::new());
        for (index, (group, chunk)) in rows.groups.iter().zip(chunks).enumerate() {
            let held = chunk.segment.len();
            let archive = chunk.segment.archive();
            if let Some(archive) = archive.as_ref().filter(|archive| archive.rows == held && archive.room() >= held + group.rows) {
                Run::of(archive, held, group.row, group.rows, &mut runs);
                of.push(index);
            }
        }
        (!of.is_empty()).then(|| (Kept::new(c, params, runs), of))
    }

    pub fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        self.runs.iter().flat_map(|run| run.row..run.row + run.count)
    }

    /// # Safety
    /// `x` holds the step's rows.
    pub unsafe fn save_first(&self, exec: &Exec, x: *mut f32) {
        unsafe { self.copy(exec, Way::Save, &[Lane { before: 0, at: x, width: self.hidden }], None) }
    }

    /// After a layer of the step: what was between its ends, and the stream that left it.
    ///
    /// # Safety
    /// `a` holds what `layer_forward` left, with statistics; all of these rows are late where some are.
    pub unsafe fn save(&self, exec: &Exec, c: &Config, params: &Params, index: usize, a: &Acts, late: Option<&Late>) {
        let (mut every, mut own) = (Vec::new(), Vec::new());
        let mut before = index * self.layer + self.hidden;
        for Part { at, width, every: all } in a.parts(c, params) {
            if all && late.is_some() { &mut every } else { &mut own }.push(Lane { before, at, width });
            before += width;
        }
        own.push(Lane { before, at: a.out, width: self.hidden });
        unsafe {
            self.copy(exec, Way::Save, &own, late);
            self.copy(exec, Way::Save, &every, None);
        }
    }

    /// The other way: a layer as it was, the stream that entered it included.
    ///
    /// # Safety
    /// `a` has room for the rows.
    pub unsafe fn load(&self, exec: &Exec, c: &Config, params: &Params, index: usize, a: &Acts) {
        let mut before = index * self.layer;
        let mut all = vec![Lane { before, at: a.x, width: self.hidden }];
        before += self.hidden;
        for Part { at, width, .. } in a.parts(c, params) {
            all.push(Lane { before, at, width });
            before += width;
        }
        unsafe { self.copy(exec, Way::Load, &all, None) }
    }

    /// The stream that left the last layer.
    ///
    /// # Safety
    /// As `load`.
    pub unsafe fn load_last(&self, exec: &Exec, last: *mut f32) {
        unsafe { self.copy(exec, Way::Load, &[Lane { before: self.layers * self.layer, at: last, width: self.hidden }], None) }
    }

    unsafe fn copy(&self, exec: &Exec, way: Way, lanes: &[Lane], late: Option<&Late>) {
        let floats: usize = lanes.iter().map(|lane| lane.width).sum();
        let rows: usize = self.runs.iter().map(|run| run.count).sum();
        parallel_rows(&exec.pool, self.runs.len(), floats * rows.div_ceil(self.runs.len().max(1)), |range, _| {
            for run in &self.runs[range] {
                let row = late.and_then(|late| late.index[run.row]).unwrap_or(run.row);
                for lane in lanes {
                    unsafe {
                        let kept = run.page.at().add(PAGE * lane.before + run.slot * lane.width);
                        let own = lane.at.add(row * lane.width);
                        let (from, to) = match way {
                            Way::Save => (own, kept),
                            Way::Load => (kept, own),
                        };
                        std::ptr::copy_nonoverlapping(from, to, run.count * lane.width);
                    }
                }
            }
        });
    }
}

impl Model {
    /// Floats of a page of activations.
    pub(super) fn page_floats(&self) -> usize {
        PAGE * (self.config.layers * layer_floats(&self.config, &self.params) + pad16(self.config.hidden))
    }
}

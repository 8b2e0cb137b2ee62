//! A training pass that goes on from what sampling computed. Sampling runs the same layers on the same weights, so what it kept of a
//! token is, to the bit, what the pass would compute; only tokens of which nothing was kept are run. The way back takes the
//! layers' buffers from where they are kept, one layer at a time.

use std::sync::Arc;

use super::archive::{Archive, PAGE};
use super::arena::Page;
use super::kept::{Kept, Run};
use super::layer::{Acts, Net};
use super::plan::Plan;
use super::rows::Rows;
use super::{Chunk, Inferred, KvSegment, KvSpan, Model, TreeBatch, Weights};
use crate::buffer::Buffer;
use crate::error::EngineError;
use crate::gemm::Exec;
use crate::kernel::attention::{Shape, Span};
use crate::kernel::parallel_rows;
use crate::simd::{LANES, pad16};

/// Tokens of training passes so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reuse {
    pub tokens: u64,
    /// Of these, those that were not run again.
    pub reused: u64,
    /// Rows of logits that the head did not make again.
    pub logits: u64,
}

/// For the beginning of a sequence: the segments of the present weights that hold it from its first token on, as far as their activations are kept.
pub type Prefixes<'a> = &'a dyn Fn(&[u32]) -> Vec<KvSpan>;

/// Rows of one node, and the tokens of a segment that they are.
struct Source {
    row: usize,
    count: usize,
    segment: Arc<KvSegment>,
    slot: usize,
}

pub struct Recalled {
    /// Tokens that were not run again.
    pub reused: usize,
    /// Held for those that were: their activations, keys and values.
    pub own_bytes: usize,
    sources: Vec<Source>,
    kept: Kept,
    /// Of each row whose logits sampling kept.
    logits: Vec<Option<Arc<Page>>>,
}

/// A node of the tree: what is there of the path to its end.
struct Known {
    spans: Vec<KvSpan>,
    /// Tokens of the path that they hold.
    len: usize,
    /// Where the rest of the node's tokens is run, and after how many others.
    run: Option<(Arc<KvSegment>, usize)>,
}

impl Model {
    /// How many tokens training passes had so far, and how many of them they took from sampling.
    pub fn reuse(&self) -> Reuse {
        self.reuse
    }

    /// All rows of a pass, from sampling or run now. None where less than half of them would come from there, or memory is short.
    pub(super) fn recall(
        &mut self,
        weights: &Weights,
        rows: &Rows,
        batch: &TreeBatch<'_>,
        prefixes: Prefixes<'_>,
    ) -> Result<Option<Recalled>, EngineError> {
        let nodes = know(rows, batch, prefixes);
        let start = |node: usize| rows.groups[node].start;
        let end = |node: usize| start(node) + rows.groups[node].rows;
        let missing: usize = (0..nodes.len()).map(|node| end(node) - nodes[node].len.clamp(start(node), end(node))).sum();
        if 2 * missing > rows.len() {
            return Ok(None);
        }
        let Some(nodes) = self.make_room(nodes, rows, batch, missing) else {
            return Ok(None);
        };
        for wave in 0.. {
            let depth = |node: &&Known| node.run.as_ref().is_some_and(|(_, depth)| *depth == wave);
            if !nodes.iter().any(|node| depth(&node)) {
                break;
            }
            let chunks: Vec<Chunk<'_>> = nodes
                .iter()
                .zip(&rows.groups)
                .filter_map(|(node, group)| {
                    let (segment, _) = node.run.as_ref().filter(|(_, depth)| *depth == wave)?;
                    let tokens = &batch.tokens[group.row + node.len.saturating_sub(group.start)..group.row + group.rows];
                    Some(Chunk { path: &node.spans, segment, tokens, want_logits: None, want_hidden: false })
                })
                .collect();
            self.run_chunks(weights, &chunks, &mut Inferred::default(), false)?;
        }
        Ok(Some(Recalled::of(self, &nodes, rows, missing)))
    }

    /// Segments, with room for their activations, for what is to be run. None where there is no memory for that.
    fn make_room(&self, mut nodes: Vec<Known>, rows: &Rows, batch: &TreeBatch<'_>, missing: usize) -> Option<Vec<Known>> {
        // Of the pass's own memory, of which an ordinary one takes more: what sampling left of its own may be nothing.
        let (count, floats) = (missing.div_ceil(PAGE), self.page_floats());
        let slab = Arc::new(Buffer::unwritten(count * floats, "activations").ok()?);
        let pages: Vec<Arc<Page>> = (0..count).map(|i| Page::lone(slab.clone(), i * floats)).collect();
        let mut at = 0;
        for node in 0..nodes.len() {
            let group = &rows.groups[node];
            let parent = usize::try_from(batch.node_parent[node]).ok();
            // What its parent has to run comes before it.
            let above = parent.and_then(|parent| {
                let (segment, depth) = nodes[parent].run.clone()?;
                let mut spans = nodes[parent].spans.clone();
                spans.push(KvSpan { used: segment.capacity(), segment });
                Some((spans, depth + 1))
            });
            let depth = above.as_ref().map_or(0, |(_, depth)| *depth);
            if let Some((spans, _)) = above {
                nodes[node].len = group.start;
                nodes[node].spans = spans;
            }
            let count = (group.start + group.rows).saturating_sub(nodes[node].len);
            if count == 0 {
                continue;
            }
            let segment = self.new_segment(count).ok()?;
            let own = pages[at / PAGE..(at + count).div_ceil(PAGE)].to_vec();
            *segment.archive() = Some(Archive { pages: own, first: at % PAGE, ..Archive::default() });
            at += count;
            nodes[node].run = Some((segment, depth));
        }
        Some(nodes)
    }
}

fn know(rows: &Rows, batch: &TreeBatch<'_>, prefixes: Prefixes<'_>) -> Vec<Known> {
    let mut nodes: Vec<Known> = Vec::with_capacity(rows.groups.len());
    let mut paths: Vec<Vec<u32>> = Vec::with_capacity(rows.groups.len());
    for (node, group) in rows.groups.iter().enumerate() {
        let parent = usize::try_from(batch.node_parent[node]).ok();
        let mut path = parent.map_or(Vec::new(), |parent| paths[parent].clone());
        path.extend_from_slice(&batch.tokens[group.row..group.row + group.rows]);
        let before = parent.map(|parent| &nodes[parent]);
        // Behind a token that is not there nothing is.
        let known =
            before.filter(|before| before.len < group.start).map(|before| (before.spans.clone(), before.len)).unwrap_or_else(|| {
                let (spans, len) = whole(prefixes(&path), path.len());
                match before {
                    Some(before) if len < group.start => (before.spans.clone(), group.start),
                    _ => (spans, len),
                }
            });
        nodes.push(Known { spans: known.0, len: known.1, run: None });
        paths.push(path);
    }
    nodes
}

/// The beginning of a path of which everything is kept, and its length.
fn whole(spans: Vec<KvSpan>, most: usize) -> (Vec<KvSpan>, usize) {
    let (mut len, mut all) = (0, true);
    let mut kept = Vec::with_capacity(spans.len());
    for span in spans {
        let used = span.used.min(span.segment.kept()).min(most - len);
        if !all || used == 0 {
            break;
        }
        all = used == span.used;
        len += used;
        kept.push(KvSpan { segment: span.segment, used });
    }
    (kept, len)
}

impl Recalled {
    fn of(model: &Model, nodes: &[Known], rows: &Rows, missing: usize) -> Recalled {
        let mut sources = Vec::new();
        let mut runs = Vec::new();
        let mut logits = vec![None; rows.len()];
        for (node, group) in nodes.iter().zip(&rows.groups) {
            let end = group.start + group.rows;
            let mut before = 0;
            let run = node.run.iter().map(|(segment, _)| KvSpan { segment: segment.clone(), used: segment.capacity() });
            for KvSpan { segment, used } in node.spans.iter().cloned().chain(run) {
                let (from, to) = (before.max(group.start), (before + used).min(end));
                if from < to {
                    let (row, slot, count) = (group.row + from - group.start, from - before, to - from);
                    if let Some(archive) = segment.archive().as_ref() {
                        Run::of(archive, slot, row, count, &mut runs);
                        for (token, page) in archive.logits.iter().filter(|(token, _)| (slot..slot + count).contains(token)) {
                            logits[row + token - slot] = Some(page.clone());
                        }
                    }
                    sources.push(Source { row, count, segment, slot });
                }
                before += used;
            }
        }
        let segments: usize = nodes.iter().filter_map(|node| Some(node.run.as_ref()?.0.bytes())).sum();
        let own_bytes = 4 * model.page_floats() * missing.div_ceil(PAGE) + segments;
        Recalled { reused: rows.len() - missing, own_bytes, sources, kept: Kept::new(&model.config, &model.params, runs), logits }
    }

    /// Those of a row, where sampling kept them.
    pub fn logits(&self, row: usize) -> Option<*mut f32> {
        self.logits[row].as_ref().map(|page| page.at())
    }

    /// The stream that left the last layer.
    ///
    /// # Safety
    /// The plan is of these rows.
    pub unsafe fn load_last(&self, exec: &Exec, plan: &Plan) {
        unsafe { self.kept.load_last(exec, plan.last) }
    }

    /// A layer as it was when its rows were run: what the way back reads, and keys and values in the nodes' own spans.
    ///
    /// # Safety
    /// `a` and the spans are of these rows.
    pub unsafe fn load(&self, exec: &Exec, net: &Net<'_>, rows: &Rows, index: usize, a: &Acts) {
        unsafe { self.kept.load(exec, net.config, net.params, index, a) };
        let shape = &net.shape;
        let work = shape.layer_floats(1) * rows.len().div_ceil(self.sources.len().max(1));
        parallel_rows(&exec.pool, self.sources.len(), 4 * work, |range, _| {
            for source in &self.sources[range] {
                let span = source.segment.span(shape, 0, 0);
                let own = &rows.own[rows.group_of[source.row] as usize];
                let slot = rows.positions[source.row] as usize - own.start;
                unsafe { copy_cache(shape, index, (&span, source.slot), (own, slot), source.count) }
            }
        });
    }
}

/// Keys and values of `count` positions.
unsafe fn copy_cache(s: &Shape, layer: usize, (from, first): (&Span, usize), (to, slot): (&Span, usize), count: usize) {
    let (hd, hdp) = (s.head_dim, pad16(s.head_dim));
    for head in 0..s.kv_heads {
        unsafe {
            let (values, own) = (from.values(s, layer, head), to.values(s, layer, head));
            std::ptr::copy_nonoverlapping(values.add(first * hdp), own.add(slot * hdp), count * hdp);
            let mut done = 0;
            while done < count {
                let (a, b) = (first + done, slot + done);
                let some = (count - done).min(LANES - a % LANES).min(LANES - b % LANES);
                let (keys, own) = (from.keys(s, layer, head).add(a / LANES * LANES * hd + a % LANES), to.keys(s, layer, head));
                let own = own.add(b / LANES * LANES * hd + b % LANES);
                for d in 0..hd {
                    std::ptr::copy_nonoverlapping(keys.add(d * LANES), own.add(d * LANES), some);
                }
                done += some;
            }
        }
    }
}

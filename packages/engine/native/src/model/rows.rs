//! A step of work as rows: one row a token, with its position, its context and the place of its keys and values.

use super::{Chunk, TreeBatch};
use crate::config::{Config, Position};
use crate::error::EngineError;
use crate::kernel::attention::{Group, QueryTile, Shape, Span, query_tiles};
use crate::kernel::attention_backward::Tree;
use crate::simd::pad16;

pub struct Rows {
    pub tokens: Vec<u32>,
    pub positions: Vec<u32>,
    /// Group of each row.
    pub group_of: Vec<u32>,
    pub groups: Vec<Group>,
    pub spans: Vec<Span>,
    pub tiles: Vec<QueryTile>,
    /// For trees: each path span's node, and the nodes' own spans.
    pub span_node: Vec<usize>,
    pub own: Vec<Span>,
    pub trees: Vec<Tree>,
    /// Row before each row on its path, −1 for the first of a root.
    pub previous: Vec<i32>,
}

/// The rows of a step whose last hidden state somebody reads. The others end with their keys and values in the last layer.
pub struct Late {
    /// Ascending.
    pub rows: Vec<usize>,
    /// Place of each row of the step among `rows`, or none.
    pub index: Vec<Option<usize>>,
    pub groups: Vec<Group>,
    pub tiles: Vec<QueryTile>,
}

impl Rows {
    /// None when every row (or no row) is needed.
    pub fn late(&self, shape: &Shape, mut rows: Vec<usize>) -> Option<Late> {
        rows.sort_unstable();
        rows.dedup();
        if rows.is_empty() || rows.len() == self.len() {
            return None;
        }
        let mut index = vec![None; self.len()];
        let mut groups: Vec<Group> = Vec::new();
        for (i, &row) in rows.iter().enumerate() {
            index[row] = Some(i);
            let continues = i > 0 && rows[i - 1] + 1 == row && self.group_of[row - 1] == self.group_of[row];
            match groups.last_mut().filter(|_| continues) {
                Some(group) => group.rows += 1,
                None => groups.push(Group {
                    row: i,
                    rows: 1,
                    start: self.positions[row] as usize,
                    spans: self.groups[self.group_of[row] as usize].spans.clone(),
                }),
            }
        }
        let tiles = query_tiles(&groups, shape);
        Some(Late { rows, index, groups, tiles })
    }

    pub fn empty() -> Rows {
        Rows {
            tokens: Vec::new(),
            positions: Vec::new(),
            group_of: Vec::new(),
            groups: Vec::new(),
            spans: Vec::new(),
            tiles: Vec::new(),
            span_node: Vec::new(),
            own: Vec::new(),
            trees: Vec::new(),
            previous: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    pub fn longest(&self) -> usize {
        self.groups.iter().map(|g| g.start + g.rows).max().unwrap_or(0)
    }

    /// The span a row's keys and values go to, and its slot there.
    pub fn slot(&self, row: usize) -> (&Span, usize) {
        let group = &self.groups[self.group_of[row] as usize];
        let span = &self.spans[group.spans.end - 1];
        (span, self.positions[row] as usize - span.start)
    }

    fn push_group(&mut self, tokens: &[u32], start: usize, spans: std::ops::Range<usize>) {
        let row = self.tokens.len();
        self.tokens.extend_from_slice(tokens);
        self.positions.extend((start..start + tokens.len()).map(|p| p as u32));
        self.group_of.extend(std::iter::repeat_n(self.groups.len() as u32, tokens.len()));
        self.groups.push(Group { row, rows: tokens.len(), start, spans });
    }

    pub fn of_chunks(config: &Config, shape: &Shape, chunks: &[Chunk<'_>]) -> Result<Rows, EngineError> {
        let mut rows = Rows::empty();
        for (i, chunk) in chunks.iter().enumerate() {
            if chunk.tokens.is_empty() {
                return Err(EngineError::input(format!("Chunk {i} has no tokens; each needs at least one.")));
            }
            check_tokens(config, chunk.tokens)?;
            if chunks[..i].iter().any(|other| std::ptr::eq(&**other.segment, &**chunk.segment)) {
                return Err(EngineError::input(format!("Chunk {i} appends to a segment that another chunk of the step appends to.")));
            }
            let first_span = rows.spans.len();
            let mut start = 0;
            for span in chunk.path {
                if span.used > span.segment.len() {
                    return Err(EngineError::input(format!(
                        "Chunk {i} uses {} tokens of a segment that holds {}.",
                        span.used,
                        span.segment.len()
                    )));
                }
                if span.used > 0 {
                    rows.spans.push(span.segment.span(shape, start, span.used));
                    start += span.used;
                }
            }
            let held = chunk.segment.len();
            if held + chunk.tokens.len() > chunk.segment.capacity() {
                return Err(EngineError::input(format!(
                    "Chunk {i} appends {} tokens to a segment with room for {}.",
                    chunk.tokens.len(),
                    chunk.segment.capacity() - held
                )));
            }
            rows.spans.push(chunk.segment.span(shape, start, held + chunk.tokens.len()));
            start += held;
            check_length(config, start + chunk.tokens.len())?;
            let spans = first_span..rows.spans.len();
            rows.push_group(chunk.tokens, start, spans);
        }
        rows.tiles = query_tiles(&rows.groups, shape);
        Ok(rows)
    }

    /// Rows of a tree batch; the spans' bases are set by `place`.
    pub fn of_tree(config: &Config, shape: &Shape, batch: &TreeBatch<'_>) -> Result<Rows, EngineError> {
        check_tree(batch)?;
        check_tokens(config, batch.tokens)?;
        if !(batch.temperature > 0.0 && batch.temperature.is_finite()) {
            return Err(EngineError::input(format!("The temperature is {}; it must be above 0.", batch.temperature)));
        }
        let mut rows = Rows::empty();
        let nodes = batch.node_parent.len();
        let mut ends = vec![0usize; nodes];
        for node in 0..nodes {
            let (from, to) = (batch.node_start[node] as usize, batch.node_start[node + 1] as usize);
            let parent = usize::try_from(batch.node_parent[node]).ok();
            let start = parent.map_or(0, |p| ends[p]);
            ends[node] = start + to - from;
            check_length(config, ends[node])?;
            rows.own.push(Span { base: std::ptr::null_mut(), layer_stride: 0, capacity: pad16(to - from), start, len: to - from });
            let first_span = rows.spans.len();
            let mut path = vec![node];
            while let Ok(p) = usize::try_from(batch.node_parent[path[path.len() - 1]]) {
                path.push(p);
            }
            for &n in path.iter().rev() {
                rows.span_node.push(n);
                rows.spans.push(rows.own[n]);
            }
            let spans = first_span..rows.spans.len();
            rows.push_group(&batch.tokens[from..to], start, spans);
            let before = parent.map_or(-1, |p| batch.node_start[p + 1] as i32 - 1);
            rows.previous.extend((from..to).map(|t| if t == from { before } else { t as i32 - 1 }));
        }
        rows.tiles = query_tiles(&rows.groups, shape);
        rows.find_trees(batch);
        Ok(rows)
    }

    /// Nodes of one tree need not be contiguous; trees whose nodes interleave are joined into one.
    fn find_trees(&mut self, batch: &TreeBatch<'_>) {
        let nodes = batch.node_parent.len();
        let mut root = vec![0usize; nodes];
        let mut last = vec![0usize; nodes];
        for node in 0..nodes {
            root[node] = usize::try_from(batch.node_parent[node]).map_or(node, |p| root[p]);
            last[root[node]] = node;
        }
        let mut node = 0;
        while node < nodes {
            let mut end = last[root[node]];
            let mut n = node;
            while n <= end {
                end = end.max(last[root[n]]);
                n += 1;
            }
            let tile = |node: usize| self.tiles.partition_point(|t| t.group < node);
            self.trees.push(Tree { tiles: tile(node)..tile(end + 1), spans: node..end + 1 });
            node = end + 1;
        }
    }

    /// Lays the nodes' keys and values out from `base`.
    ///
    /// # Safety
    /// `base` must have room for all nodes and layers.
    pub unsafe fn place(&mut self, shape: &Shape, base: *mut f32, layer_stride: usize) {
        let mut offset = 0;
        for span in &mut self.own {
            span.base = unsafe { base.add(offset) };
            span.layer_stride = layer_stride;
            offset += shape.layer_floats(span.capacity);
        }
        for (span, &node) in self.spans.iter_mut().zip(&self.span_node) {
            span.base = self.own[node].base;
            span.layer_stride = layer_stride;
        }
    }
}

fn check_tokens(config: &Config, tokens: &[u32]) -> Result<(), EngineError> {
    match tokens.iter().find(|&&t| t as usize >= config.vocab) {
        Some(t) => Err(EngineError::input(format!(
            "Token {t} is outside the vocabulary of {}. The tokenizer and the model do not belong together.",
            config.vocab
        ))),
        None => Ok(()),
    }
}

fn check_length(config: &Config, length: usize) -> Result<(), EngineError> {
    if length > config.max_positions {
        let why = if config.position == Position::Learned { "has position embeddings for" } else { "was made for" };
        return Err(EngineError::new(
            "CONTEXT_LENGTH",
            format!(
                "A sequence of {length} tokens is longer than the {} the model {why}. Shorten the conversation or lower the number of new tokens.",
                config.max_positions
            ),
        ));
    }
    Ok(())
}

fn check_tree(b: &TreeBatch<'_>) -> Result<(), EngineError> {
    let nodes = b.node_parent.len();
    if nodes == 0 || b.tokens.is_empty() {
        return Err(EngineError::input("The batch has no tokens."));
    }
    if b.wanted.len() != b.tokens.len() {
        return Err(EngineError::input(format!("wanted has {} entries for {} tokens.", b.wanted.len(), b.tokens.len())));
    }
    if b.node_start.len() != nodes + 1 || b.node_start[0] != 0 || b.node_start[nodes] as usize != b.tokens.len() {
        return Err(EngineError::input("node_start must have one entry per node plus the end, from 0 to the number of tokens."));
    }
    for node in 0..nodes {
        if b.node_start[node] >= b.node_start[node + 1] {
            return Err(EngineError::input(format!("Node {node} has no tokens, or node_start is not ascending.")));
        }
        if b.node_parent[node] < -1 || b.node_parent[node] >= node as i32 {
            return Err(EngineError::input(format!(
                "Node {node} has parent {}; a parent comes before its child, −1 for none.",
                b.node_parent[node]
            )));
        }
    }
    Ok(())
}

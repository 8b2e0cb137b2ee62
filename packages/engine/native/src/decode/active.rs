//! A sequence that has a slot: its weights, its place in the cache, what it has drawn.

use std::sync::Arc;

use super::cache::NodeId;
use super::constraint::Allowed;
use super::history::History;
use super::prompt::{AboutPrompt, PromptRead};
use super::request::{Drawn, Finish, Outcome, Request};
use crate::model::{Chunk, KvSegment, KvSpan, Weights};

pub struct Active {
    pub request: Request,
    /// Those it began with, to its last token.
    pub weights: Weights,
    pub path: Vec<KvSpan>,
    pub segment: Arc<KvSegment>,
    pub node: NodeId,
    /// Tokens of the prompt whose keys and values exist.
    pub computed: usize,
    pub cached: usize,
    /// Its activations are kept, from its first token to here.
    pub keeps: bool,
    pub queued_ms: f64,
    pub drawn: Vec<Drawn>,
    /// The token drawn last, which has no keys and values yet.
    pub last: [u32; 1],
    pub history: History,
    /// Where in its constraint the reply is.
    pub state: u32,
    pub read: PromptRead,
}

impl Active {
    pub fn version(&self) -> u64 {
        self.weights.version()
    }

    pub fn prefilling(&self) -> bool {
        self.computed < self.request.prompt.len()
    }

    /// Whether the other may use what is computed for this one.
    pub fn shares_with(&self, other: &Request) -> bool {
        other.namespace.is_some() && other.namespace == self.request.namespace
    }

    /// Tokens that may not be drawn next.
    pub fn forbidden(&self) -> &[u32] {
        if self.drawn.len() < self.request.min_tokens { &self.request.stop_tokens } else { &[] }
    }

    /// What its constraint leaves to draw from next. None: everything.
    pub fn allowed(&self) -> Option<Allowed<'_>> {
        self.request.constraint.as_ref()?.allowed(self.state, &self.request.stop_tokens)
    }

    /// The next `count` tokens to run.
    pub fn tokens(&self, count: usize) -> &[u32] {
        if self.prefilling() { &self.request.prompt[self.computed..self.computed + count] } else { &self.last }
    }

    pub fn chunk(&self, count: usize) -> Chunk<'_> {
        let draws = !self.prefilling() || (self.computed + count == self.request.prompt.len() && self.request.max_tokens > 0);
        let want_logits = draws.then(|| self.request.sampling.recorded_temperature());
        let want_hidden = self.prefilling() && self.request.about != AboutPrompt::Nothing;
        Chunk { path: &self.path, segment: &self.segment, tokens: self.tokens(count), want_logits, want_hidden }
    }

    /// Takes a drawn token; tells whether the reply ends with it.
    pub fn take(&mut self, drawn: Drawn, max_positions: usize) -> Option<Finish> {
        let token = drawn.token;
        self.history.note(&self.request.sampling, token);
        self.last = [token];
        if let Some(constraint) = &self.request.constraint {
            self.state = constraint.after(self.state, token);
        }
        self.drawn.push(drawn);
        if self.request.stop_tokens.contains(&token) {
            return Some(Finish::Stop);
        }
        let full = self.drawn.len() >= self.request.max_tokens || self.request.prompt.len() + self.drawn.len() >= max_positions;
        full.then_some(Finish::Length)
    }

    pub fn outcome(self, finish: Finish) -> Outcome {
        Outcome {
            id: self.request.id,
            version: self.version(),
            drawn: self.drawn,
            finish,
            cached: self.cached,
            queued_ms: self.queued_ms,
            read: self.read,
            prompt_tokens: self.computed,
        }
    }
}

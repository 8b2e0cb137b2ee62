//! Continuous batching. Each `step` runs one ragged `infer`: one token for every sequence that is decoding, and a share of the
//! prompts that are not through yet. Sequences leave when they finish and others take their place. What a sequence draws depends on
//! its prompt, sampling and seed alone: the arithmetic does not depend on the batch, nor do the random numbers.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};

use super::cache::{NodeId, PrefixCache, common};
use super::random::uniform;
use super::sampler::{Sampling, Scratch, choose};
use crate::error::EngineError;
use crate::model::{Chunk, KvSegment, KvSpan, Model};

pub struct Request {
    pub id: u64,
    pub prompt: Vec<u32>,
    pub sampling: Sampling,
    pub max_tokens: usize,
    pub stop_tokens: Vec<u32>,
    pub seed: u64,
    /// Report each token as it is drawn.
    pub stream: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// A stop token was drawn (it is the last of the tokens).
    Stop,
    /// `max_tokens` or the end of the context.
    Length,
    Cancelled,
}

/// One token, as it is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampled {
    pub id: u64,
    pub token: u32,
    pub logprob: f32,
}

#[derive(Debug, PartialEq)]
pub struct Outcome {
    pub id: u64,
    pub tokens: Vec<u32>,
    pub logprobs: Vec<f32>,
    pub finish: Finish,
    /// Prompt tokens that did not have to be computed.
    pub cached: usize,
}

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Sequences that decode together.
    pub slots: usize,
    /// Bytes for keys and values, running and cached.
    pub cache_bytes: usize,
}

/// Prompt tokens run in one step, so that long prompts do not stall those that decode.
const PREFILL_TOKENS: usize = 256;
/// A request waits for another's prompt when that saves more than this many tokens.
const WORTH_WAITING: usize = 8;
/// Room for this many new tokens is made at a time.
const GROWTH: usize = 64;

struct Active {
    request: Request,
    path: Vec<KvSpan>,
    segment: Arc<KvSegment>,
    node: NodeId,
    /// Tokens of the prompt whose keys and values exist.
    computed: usize,
    cached: usize,
    tokens: Vec<u32>,
    logprobs: Vec<f32>,
    /// Distinct tokens so far; kept up only when the repetition penalty is on.
    seen: Vec<u32>,
    seen_set: HashSet<u32>,
}

impl Active {
    fn prefilling(&self) -> bool {
        self.computed < self.request.prompt.len()
    }

    fn note(&mut self, token: u32) {
        if self.request.sampling.repetition_penalty != 1.0 && self.seen_set.insert(token) {
            self.seen.push(token);
        }
    }

    fn outcome(self, finish: Finish) -> Outcome {
        Outcome { id: self.request.id, tokens: self.tokens, logprobs: self.logprobs, finish, cached: self.cached }
    }
}

pub struct Scheduler {
    limits: Limits,
    waiting: VecDeque<Request>,
    active: Vec<Active>,
    cache: PrefixCache,
    logits: Vec<f32>,
    /// One a thread.
    scratch: Vec<Mutex<Scratch>>,
}

/// What one step produced.
#[derive(Default)]
pub struct Produced {
    pub sampled: Vec<Sampled>,
    pub finished: Vec<Result<Outcome, (u64, EngineError)>>,
}

impl Scheduler {
    pub fn new(limits: Limits) -> Self {
        Scheduler {
            limits: Limits { slots: limits.slots.max(1), ..limits },
            waiting: VecDeque::new(),
            active: Vec::new(),
            cache: PrefixCache::default(),
            logits: Vec::new(),
            scratch: Vec::new(),
        }
    }

    pub fn idle(&self) -> bool {
        self.waiting.is_empty() && self.active.is_empty()
    }

    pub fn cache_bytes(&self) -> usize {
        self.cache.bytes()
    }

    pub fn submit(&mut self, model: &Model, request: Request) -> Result<(), EngineError> {
        let (vocab, context) = (model.config().vocab, model.config().max_positions);
        if request.prompt.is_empty() {
            return Err(EngineError::input("A prompt needs at least one token."));
        }
        if let Some(token) = request.prompt.iter().find(|&&token| token as usize >= vocab) {
            return Err(EngineError::input(format!("Token {token} is not in the vocabulary of {vocab}.")));
        }
        if request.prompt.len() >= context {
            return Err(EngineError::new(
                "CONTEXT_OVERFLOW",
                format!("The prompt has {} tokens; with a context of {context} there is no room for a reply.", request.prompt.len()),
            ));
        }
        self.waiting.push_back(request);
        Ok(())
    }

    /// The weights changed; only called when idle.
    pub fn forget(&mut self) {
        self.cache.clear();
    }

    /// Takes a request out; None when it is not here (any more).
    pub fn cancel(&mut self, id: u64) -> Option<Outcome> {
        if let Some(at) = self.waiting.iter().position(|request| request.id == id) {
            self.waiting.remove(at);
            return Some(Outcome { id, tokens: Vec::new(), logprobs: Vec::new(), finish: Finish::Cancelled, cached: 0 });
        }
        let at = self.active.iter().position(|active| active.request.id == id)?;
        let active = self.active.remove(at);
        self.cache.settle(active.node);
        Some(active.outcome(Finish::Cancelled))
    }

    pub fn cancel_all(&mut self) -> Vec<u64> {
        let ids: Vec<u64> = self.waiting.iter().chain(self.active.iter().map(|a| &a.request)).map(|r| r.id).collect();
        for &id in &ids {
            self.cancel(id);
        }
        ids
    }

    pub fn step(&mut self, model: &mut Model) -> Produced {
        let mut produced = Produced::default();
        self.admit(model, &mut produced);
        self.grow(model, &mut produced);
        if let Err(error) = self.run(model, &mut produced) {
            for id in self.cancel_all() {
                produced.finished.push(Err((id, error.clone())));
            }
        }
        produced
    }

    /// Fills free slots, oldest request first. A request stays behind while another computes a prefix it can use.
    fn admit(&mut self, model: &Model, produced: &mut Produced) {
        let mut at = 0;
        while at < self.waiting.len() && self.active.len() < self.limits.slots {
            let request = &self.waiting[at];
            // The last token of the prompt is always run: its logits are needed.
            let usable = &request.prompt[..request.prompt.len() - 1];
            let found = self.cache.find(usable);
            let coming = self
                .active
                .iter()
                .filter(|active| active.prefilling())
                .map(|active| common(&active.request.prompt, usable))
                .max()
                .unwrap_or(0);
            if coming > found.len + WORTH_WAITING {
                at += 1;
                continue;
            }
            let room = model.config().max_positions - request.prompt.len();
            let capacity = request.prompt.len() - found.len + request.max_tokens.min(room).min(GROWTH);
            let bytes = model.segment_bytes(capacity);
            self.cache.hold(found.end, true);
            let fits = self.cache.make_room(bytes, self.limits.cache_bytes);
            self.cache.hold(found.end, false);
            // When nothing runs and it still does not fit, try: a prompt larger than the cache is served too.
            if !fits && !self.active.is_empty() {
                return;
            }
            let Some(request) = self.waiting.remove(at) else {
                return;
            };
            let segment = match model.new_segment(capacity) {
                Ok(segment) => segment,
                Err(error) => {
                    produced.finished.push(Err((request.id, error)));
                    continue;
                }
            };
            let path = self.cache.path(found);
            let node = self.cache.insert(found.end, segment.clone());
            let computed: usize = path.iter().map(|span| span.used).sum();
            let mut active = Active {
                path,
                segment,
                node,
                computed,
                cached: computed,
                tokens: Vec::new(),
                logprobs: Vec::new(),
                seen: Vec::new(),
                seen_set: HashSet::new(),
                request,
            };
            for i in 0..active.request.prompt.len() {
                active.note(active.request.prompt[i]);
            }
            self.active.push(active);
        }
    }

    /// Gives sequences whose segment is full a new one behind it.
    fn grow(&mut self, model: &Model, produced: &mut Produced) {
        let mut at = 0;
        while at < self.active.len() {
            let active = &mut self.active[at];
            if active.prefilling() || active.segment.len() < active.segment.capacity() {
                at += 1;
                continue;
            }
            let left = active.request.max_tokens - active.tokens.len();
            let capacity = left.clamp(1, 4 * GROWTH);
            self.cache.make_room(model.segment_bytes(capacity), self.limits.cache_bytes);
            match model.new_segment(capacity) {
                Ok(segment) => {
                    let used = active.segment.len();
                    active.path.push(KvSpan { segment: std::mem::replace(&mut active.segment, segment.clone()), used });
                    let end = (active.node, self.cache.len(active.node));
                    let node = self.cache.insert(Some(end), segment);
                    self.cache.settle(active.node);
                    active.node = node;
                    at += 1;
                }
                Err(error) => {
                    let active = self.active.remove(at);
                    self.cache.settle(active.node);
                    produced.finished.push(Err((active.request.id, error)));
                }
            }
        }
    }

    fn run(&mut self, model: &mut Model, produced: &mut Produced) -> Result<(), EngineError> {
        let mut budget = PREFILL_TOKENS;
        // (index into active, tokens to run)
        let mut work: Vec<(usize, usize)> = Vec::with_capacity(self.active.len());
        for (index, active) in self.active.iter().enumerate() {
            let count = if active.prefilling() { (active.request.prompt.len() - active.computed).min(budget) } else { 1 };
            if active.prefilling() {
                budget -= count;
            }
            if count > 0 {
                work.push((index, count));
            }
        }
        if work.is_empty() {
            return Ok(());
        }
        let chunks: Vec<Chunk<'_>> = work
            .iter()
            .map(|&(index, count)| {
                let active = &self.active[index];
                let (tokens, want_logits) = if active.prefilling() {
                    let end = active.computed + count;
                    (&active.request.prompt[active.computed..end], end == active.request.prompt.len())
                } else {
                    (&active.tokens[active.tokens.len() - 1..], true)
                };
                Chunk { path: &active.path, segment: &active.segment, tokens, want_logits }
            })
            .collect();
        model.infer(&chunks, &mut self.logits)?;
        let wants: Vec<bool> = chunks.iter().map(|chunk| chunk.want_logits).collect();
        drop(chunks);

        let drawing: Vec<usize> = work.iter().zip(&wants).filter(|(_, want)| **want).map(|(&(index, _), _)| index).collect();
        let mut draws = self.draw(model, &drawing).into_iter();
        let mut done: Vec<(usize, Result<Finish, EngineError>)> = Vec::new();
        for (&(index, count), want) in work.iter().zip(wants) {
            let active = &mut self.active[index];
            if active.prefilling() {
                self.cache.append(active.node, &active.request.prompt[active.computed..active.computed + count]);
                active.computed += count;
            } else if let Some(&token) = active.tokens.last() {
                self.cache.append(active.node, &[token]);
            }
            if !want {
                continue;
            }
            let (token, logprob) = match draws.next().flatten() {
                Some(Ok(drawn)) => drawn,
                Some(Err(error)) => {
                    done.push((index, Err(error)));
                    continue;
                }
                None => return Err(EngineError::new("ENGINE_FAILED", "A sequence was left without its next token.")),
            };
            active.tokens.push(token);
            active.logprobs.push(logprob);
            active.note(token);
            if active.request.stream {
                produced.sampled.push(Sampled { id: active.request.id, token, logprob });
            }
            if active.request.stop_tokens.contains(&token) {
                done.push((index, Ok(Finish::Stop)));
            } else if active.tokens.len() >= active.request.max_tokens
                || active.request.prompt.len() + active.tokens.len() >= model.config().max_positions
            {
                done.push((index, Ok(Finish::Length)));
            }
        }
        for (index, finish) in done.into_iter().rev() {
            let active = self.active.remove(index);
            self.cache.settle(active.node);
            produced.finished.push(match finish {
                Ok(finish) => Ok(active.outcome(finish)),
                Err(error) => Err((active.request.id, error)),
            });
        }
        Ok(())
    }

    /// The next token of each of these sequences and its log-prob, from the rows of logits in the same order.
    fn draw(&mut self, model: &Model, drawing: &[usize]) -> Vec<Option<Result<(u32, f32), EngineError>>> {
        let vocab = model.config().vocab;
        let pool = model.pool();
        self.scratch.resize_with(pool.threads().max(self.scratch.len()), Mutex::default);
        let draws: Vec<OnceLock<Result<(u32, f32), EngineError>>> = drawing.iter().map(|_| OnceLock::new()).collect();
        pool.run(drawing.len(), |row, thread| {
            let active = &self.active[drawing[row]];
            let logits = &self.logits[row * vocab..(row + 1) * vocab];
            let sampling = &active.request.sampling;
            let u = uniform(active.request.seed, active.tokens.len() as u64);
            let mut scratch = self.scratch[thread].lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            // Greedy has no temperature of its own: its log-probs are those at temperature 1.
            let temperature = if sampling.temperature == 0.0 { 1.0 } else { sampling.temperature };
            let drawn = choose(logits, sampling, &active.seen, u, &mut scratch);
            let _ = draws[row].set(drawn.map(|token| (token, model.log_softmax_at(logits, temperature, token))));
        });
        draws.into_iter().map(OnceLock::into_inner).collect()
    }
}

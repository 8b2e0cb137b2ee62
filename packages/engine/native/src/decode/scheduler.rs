//! Keeps the model busy. Every step runs one ragged `infer` for each version of the weights that has sequences: one token for every
//! sequence that is decoding, and a share of the prompts that are not through yet. Sequences leave when they finish and others take
//! their place. What a sequence draws depends on its weights, prompt, sampling and seed alone: the arithmetic does not depend on the
//! batch, nor do the random numbers. A request belongs to the weights that were the present ones when it was submitted.

use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock};

use super::active::Active;
use super::cache::common;
use super::caches::Caches;
use super::constraint::{Allowed, Constraint, Masked, stuck};
use super::history::{History, Left};
use super::keeping::begin;
use super::loops::exp;
use super::prompt::{AboutPrompt, PromptRead};
use super::random::uniform;
use super::request::{Counts, Drawn, Finish, Limits, Outcome, Request, Sampled, waited_ms};
use super::sampler::{Scratch, choose, likeliest, not_finite};
use crate::error::EngineError;
use crate::kernel::parallel_rows;
use crate::model::{Chunk, Inferred, KvSpan, Logits, Model, Row, Weights};

/// Prompt tokens run in one step, so that long prompts do not stall those that decode.
const PREFILL_TOKENS: usize = 256;
/// A request waits for another's prompt when that saves more than this many tokens.
const WORTH_WAITING: usize = 8;
/// Room for this many new tokens is made at a time.
const GROWTH: usize = 64;

pub struct Scheduler {
    limits: Limits,
    waiting: VecDeque<(Request, Weights)>,
    pub(super) active: Vec<Active>,
    pub(super) caches: Caches,
    /// The present version when it was last asked.
    pub(super) swept: Option<u64>,
    /// Steps since the last one with a reply that is to be kept.
    pub(super) unkept: u64,
    counts: Counts,
    inferred: Inferred,
    /// Of a few positions of a prompt that is read.
    logits: Logits,
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
            caches: Caches::default(),
            swept: None,
            unkept: 0,
            counts: Counts::default(),
            inferred: Inferred::default(),
            logits: Logits::default(),
            scratch: Vec::new(),
        }
    }

    pub fn idle(&self) -> bool {
        self.waiting.is_empty() && self.active.is_empty()
    }

    pub fn cache_bytes(&self) -> usize {
        self.caches.bytes()
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn running(&self) -> usize {
        self.active.len()
    }

    /// The weights that replies hold on to, one for each of them.
    pub fn held(&self) -> impl Iterator<Item = &Weights> {
        self.active.iter().map(|active| &active.weights).chain(self.waiting.iter().map(|(_, weights)| weights))
    }

    /// Whether replies run or wait that read the same base model.
    pub fn samples_from(&self, weights: &Weights) -> bool {
        self.held().any(|held| held.same_base(weights))
    }

    /// The versions of the weights that replies hold on to.
    pub fn versions(&self) -> Vec<u64> {
        distinct(self.held().map(Weights::version))
    }

    pub fn submit(&mut self, model: &Model, mut request: Request) -> Result<(), EngineError> {
        let (vocab, context) = (model.config().vocab, model.config().max_positions);
        model.weights().check_whole()?;
        if request.prompt.is_empty() {
            return Err(EngineError::input("A prompt needs at least one token."));
        }
        if let Some(known) = request.constraint.as_ref().map(|constraint| constraint.tokens()).filter(|&known| known != vocab) {
            return Err(EngineError::input(format!("The constraint knows {known} tokens, and the model {vocab}.")));
        }
        let biased = request.sampling.bias.iter().map(|(token, _)| token);
        if let Some(token) = request.prompt.iter().chain(biased).find(|&&token| token as usize >= vocab) {
            return Err(EngineError::input(format!("Token {token} is not in the vocabulary of {vocab}.")));
        }
        if request.prompt.len() + request.max_tokens.min(1) > context {
            return Err(EngineError::new(
                "CONTEXT_OVERFLOW",
                format!("The prompt has {} tokens; with a context of {context} there is no room for a reply.", request.prompt.len()),
            ));
        }
        if request.min_tokens > 0 && (0..vocab as u32).all(|token| request.stop_tokens.contains(&token)) {
            return Err(EngineError::input("Every token is a stop token, so a smallest length leaves nothing to choose."));
        }
        if request.about != AboutPrompt::Nothing {
            request.namespace = None;
        }
        self.waiting.push_back((request, model.weights().clone()));
        Ok(())
    }

    /// Takes a request out; None when it is not here (any more).
    pub fn cancel(&mut self, id: u64) -> Option<Outcome> {
        if let Some(at) = self.waiting.iter().position(|(request, _)| request.id == id) {
            let (request, weights) = self.waiting.remove(at)?;
            return Some(Outcome::unheard(&request, weights.version()));
        }
        let at = self.active.iter().position(|active| active.request.id == id)?;
        Some(self.leave(at).outcome(Finish::Cancelled))
    }

    fn leave(&mut self, at: usize) -> Active {
        let active = self.active.remove(at);
        self.caches.of(active.version()).settle(active.node);
        active
    }

    pub fn step(&mut self, model: &mut Model) -> Produced {
        let mut produced = Produced::default();
        self.counts.steps += 1;
        self.admit(model, &mut produced);
        self.rest(model);
        self.grow(model, &mut produced);
        let mut budget = PREFILL_TOKENS;
        for version in distinct(self.active.iter().map(Active::version)) {
            if let Err(error) = self.run(model, version, &mut budget, &mut produced) {
                while let Some(at) = self.active.iter().position(|active| active.version() == version) {
                    produced.finished.push(Err((self.leave(at).request.id, error.clone())));
                }
            }
        }
        self.sweep(Some(model.version()));
        produced
    }

    /// Fills free slots, oldest request first. A request stays behind while another computes a prefix it can use.
    fn admit(&mut self, model: &Model, produced: &mut Produced) {
        let mut at = 0;
        while at < self.waiting.len() && self.active.len() < self.limits.slots {
            let (request, weights) = &self.waiting[at];
            let version = weights.version();
            // The last token of the prompt is always run: its logits are needed.
            let usable = &request.prompt[..request.prompt.len() - 1];
            let cache = self.caches.of(version);
            let (found, keeps) = begin(model, cache, request, version, usable);
            let coming = self
                .active
                .iter()
                .filter(|active| active.version() == version && active.prefilling() && active.shares_with(request))
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
            self.caches.of(version).hold(found.end, true);
            let fits = self.caches.make_room(bytes, self.limits.cache_bytes);
            let cache = self.caches.of(version);
            cache.hold(found.end, false);
            // When nothing runs and it still does not fit, try: a prompt larger than the cache is served too.
            if !fits && !self.active.is_empty() {
                return;
            }
            let Some((request, weights)) = self.waiting.remove(at) else {
                return;
            };
            let segment = match model.new_segment(capacity) {
                Ok(segment) => segment,
                Err(error) => {
                    produced.finished.push(Err((request.id, error)));
                    continue;
                }
            };
            let path = cache.path(found);
            let node = cache.insert(&request.namespace, found.end, segment.clone());
            let computed: usize = path.iter().map(|span| span.used).sum();
            self.counts.prompt_tokens += request.prompt.len() as u64;
            self.counts.cached_tokens += computed as u64;
            self.active.push(Active {
                weights,
                path,
                segment,
                node,
                computed,
                cached: computed,
                keeps,
                queued_ms: waited_ms(&request),
                drawn: Vec::new(),
                last: [0],
                history: History::of_prompt(&request.sampling, &request.prompt),
                state: Constraint::START,
                read: PromptRead::default(),
                request,
            });
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
            let left = active.request.max_tokens - active.drawn.len();
            let capacity = left.clamp(1, 4 * GROWTH);
            self.caches.make_room(model.segment_bytes(capacity), self.limits.cache_bytes);
            match model.new_segment(capacity) {
                Ok(segment) => {
                    let used = active.segment.len();
                    active.path.push(KvSpan { segment: std::mem::replace(&mut active.segment, segment.clone()), used });
                    let cache = self.caches.of(active.version());
                    let end = (active.node, cache.len(active.node));
                    let node = cache.insert(&active.request.namespace, Some(end), segment);
                    cache.settle(active.node);
                    active.node = node;
                    at += 1;
                }
                Err(error) => produced.finished.push(Err((self.leave(at).request.id, error))),
            }
        }
    }

    /// One step of the sequences of one version. `budget`: prompt tokens that are left to this step.
    fn run(&mut self, model: &mut Model, version: u64, budget: &mut usize, produced: &mut Produced) -> Result<(), EngineError> {
        // (index into active, tokens to run)
        let mut work: Vec<(usize, usize)> = Vec::with_capacity(self.active.len());
        for (index, active) in self.active.iter().enumerate().filter(|(_, active)| active.version() == version) {
            let count = if active.prefilling() { (active.request.prompt.len() - active.computed).min(*budget) } else { 1 };
            if active.prefilling() {
                *budget -= count;
            }
            if count > 0 {
                work.push((index, count));
            }
        }
        let Some(&(first, _)) = work.first() else {
            return Ok(());
        };
        self.keep_next(model, &work);
        let chunks: Vec<Chunk<'_>> = work.iter().map(|&(index, count)| self.active[index].chunk(count)).collect();
        model.infer_on(&self.active[first].weights, &chunks, &mut self.inferred)?;
        let wants: Vec<(bool, bool)> = chunks.iter().map(|chunk| (chunk.want_logits.is_some(), chunk.want_hidden)).collect();
        drop(chunks);

        let drawing: Vec<usize> = work.iter().zip(&wants).filter(|(_, (want, _))| *want).map(|(&(index, _), _)| index).collect();
        let mut draws = self.draw(model, &drawing).into_iter();
        let mut done: Vec<(usize, Result<Finish, EngineError>)> = Vec::new();
        let mut hidden = self.inferred.hidden.as_slice();
        for (&(index, count), (want, read)) in work.iter().zip(wants) {
            let active = &mut self.active[index];
            self.caches.of(version).append(active.node, active.tokens(count));
            let at = active.computed;
            if active.prefilling() {
                active.computed += count;
            }
            if read {
                let (own, others) = hidden.split_at(count * model.config().hidden);
                hidden = others;
                let Active { read, request, weights, .. } = active;
                if let Err(error) = read.take(model, weights, request, at, own, &mut self.logits) {
                    // The token it may have drawn is nobody's.
                    if want {
                        draws.next();
                    }
                    done.push((index, Err(error)));
                    continue;
                }
            }
            if !want {
                // A prompt that is through, and nothing was to be drawn.
                if !active.prefilling() {
                    done.push((index, Ok(Finish::Length)));
                }
                continue;
            }
            let drawn = match draws.next().flatten() {
                Some(Ok(drawn)) => drawn,
                Some(Err(error)) => {
                    done.push((index, Err(error)));
                    continue;
                }
                None => return Err(EngineError::new("ENGINE_FAILED", "A sequence was left without its next token.")),
            };
            self.counts.sampled_tokens += 1;
            if active.request.stream {
                produced.sampled.push(Sampled { id: active.request.id, drawn: drawn.clone() });
            }
            if let Some(finish) = active.take(drawn, model.config().max_positions) {
                done.push((index, Ok(finish)));
            }
        }
        for (index, finish) in done.into_iter().rev() {
            let active = self.leave(index);
            produced.finished.push(match finish {
                Ok(finish) => Ok(active.outcome(finish)),
                Err(error) => Err((active.request.id, error)),
            });
        }
        Ok(())
    }

    /// The next token of each of these sequences, from the rows of logits in the same order.
    fn draw(&mut self, model: &Model, drawing: &[usize]) -> Vec<Option<Result<Drawn, EngineError>>> {
        let pool = model.pool();
        self.scratch.resize_with(pool.threads().max(self.scratch.len()), Mutex::default);
        let draws: Vec<OnceLock<Result<Drawn, EngineError>>> = drawing.iter().map(|_| OnceLock::new()).collect();
        parallel_rows(pool, drawing.len(), model.config().vocab, |rows, thread| {
            let mut scratch = self.scratch[thread].lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            for row in rows {
                let _ = draws[row].set(next_token(&self.active[drawing[row]], self.inferred.logits.row(row), &mut scratch));
            }
        });
        draws.into_iter().map(OnceLock::into_inner).collect()
    }
}

fn distinct(versions: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut found = Vec::new();
    for version in versions {
        if !found.contains(&version) {
            found.push(version);
        }
    }
    found
}

fn next_token(active: &Active, row: Row<'_>, scratch: &mut Scratch) -> Result<Drawn, EngineError> {
    let request = &active.request;
    let (sampling, logits) = (&request.sampling, row.logits);
    let allowed = active.allowed();
    // Where nothing but the end is left, a smallest length cannot be kept.
    let forbidden = if allowed.as_ref().is_some_and(Allowed::only_ends) { &[] } else { active.forbidden() };
    let count = allowed.as_ref().map(|allowed| allowed.count(!forbidden.is_empty()));
    if count == Some(0) {
        return Err(stuck());
    }
    let u = uniform(request.seed, active.drawn.len() as u64);
    let choice = choose((logits, row.largest()), sampling, &active.history, Left { forbidden, allowed: allowed.as_ref() }, u, scratch)?;
    let distribution = row.distribution();
    let logprob = distribution.at(logits[choice.token as usize]);
    // A forbidden token may have hidden a broken logit from the choice.
    if !logprob.is_finite() {
        return Err(not_finite());
    }
    let unshaped = sampling.is_plain() && forbidden.is_empty() && allowed.is_none();
    let removed = allowed.map_or(0.0, |allowed| {
        let mut sum = 0.0f64;
        let mut add = |token: usize| sum += exp(distribution.at(logits[token])) as f64;
        if allowed.is_few(logits.len()) {
            allowed.each(logits.len(), &mut add);
            return (1.0 - sum).max(0.0) as f32;
        }
        allowed.others(logits.len(), &mut add);
        sum as f32
    });
    Ok(Drawn {
        token: choice.token,
        logprob,
        sampler_logprob: request.sampler_logprobs.then(|| if unshaped { logprob } else { choice.share.ln() as f32 }),
        top: likeliest(logits, request.top_logprobs).into_iter().map(|token| (token, distribution.at(logits[token as usize]))).collect(),
        masked: request.constraint.is_some().then_some(Masked { forced: count == Some(1), removed }),
    })
}

//! What is asked of the scheduler, and what comes back.

use std::sync::Arc;
use std::time::Instant;

use super::cache::Namespace;
use super::constraint::{Constraint, Masked};
use super::prompt::{AboutPrompt, PromptRead};
use super::sampler::{PLAIN, Sampling};

pub struct Request {
    pub id: u64,
    pub prompt: Vec<u32>,
    /// Who shares with it what is computed. Nobody where something is to be told about the prompt.
    pub namespace: Namespace,
    pub sampling: Sampling,
    /// 0: nothing is drawn, the prompt is only run.
    pub max_tokens: usize,
    /// No stop token is drawn before this many tokens.
    pub min_tokens: usize,
    pub stop_tokens: Vec<u32>,
    pub seed: u64,
    /// Report each token as it is drawn.
    pub stream: bool,
    /// How many of the likeliest tokens to report beside each drawn one.
    pub top_logprobs: usize,
    /// Report the drawn token's log-prob under what it was drawn from, too.
    pub sampler_logprobs: bool,
    /// What the reply may be; none: anything.
    pub constraint: Option<Arc<Constraint>>,
    pub about: AboutPrompt,
    /// Keep its activations, where there is room: a training pass will go on from them.
    pub keep: bool,
    pub submitted: Instant,
}

impl Request {
    /// As plain as can be: the model's own distribution, nothing reported but what was drawn, at the end. Its seed is its id, its namespace the common one.
    pub fn plain(id: u64, prompt: Vec<u32>, max_tokens: usize) -> Request {
        Request {
            id,
            prompt,
            namespace: Some("".into()),
            sampling: PLAIN,
            max_tokens,
            min_tokens: 0,
            stop_tokens: Vec::new(),
            seed: id,
            stream: false,
            top_logprobs: 0,
            sampler_logprobs: false,
            constraint: None,
            about: AboutPrompt::Nothing,
            keep: false,
            submitted: Instant::now(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// A stop token was drawn (it is the last of the tokens).
    Stop,
    /// `max_tokens` or the end of the context; a prompt that was only run.
    Length,
    Cancelled,
}

/// One token, as it is drawn. Log-probs are of the temperature-scaled distribution that nothing else has shaped, bit-equal to scoring.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawn {
    pub token: u32,
    pub logprob: f32,
    /// Under what it was drawn from: penalties, bias and truncation included.
    pub sampler_logprob: Option<f32>,
    /// The likeliest tokens with their log-probs, best first; empty unless asked for.
    pub top: Vec<(u32, f32)>,
    /// Of a request with a constraint.
    pub masked: Option<Masked>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    pub id: u64,
    pub drawn: Drawn,
}

#[derive(Debug, PartialEq)]
pub struct Outcome {
    pub id: u64,
    /// The weights that drew every one of the tokens.
    pub version: u64,
    pub drawn: Vec<Drawn>,
    pub finish: Finish,
    /// Prompt tokens that did not have to be computed.
    pub cached: usize,
    /// From the request's submission to its first place in a step.
    pub queued_ms: f64,
    /// What was asked for about the prompt, of which this much was read.
    pub read: PromptRead,
    pub prompt_tokens: usize,
}

impl Outcome {
    /// Of a request that was cancelled before it had its turn.
    pub fn unheard(request: &Request, version: u64) -> Outcome {
        Outcome {
            id: request.id,
            version,
            drawn: Vec::new(),
            finish: Finish::Cancelled,
            cached: 0,
            queued_ms: waited_ms(request),
            read: PromptRead::default(),
            prompt_tokens: 0,
        }
    }
}

pub fn waited_ms(request: &Request) -> f64 {
    request.submitted.elapsed().as_secs_f64() * 1e3
}

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Sequences that decode together.
    pub slots: usize,
    /// Bytes for keys and values, running and cached.
    pub cache_bytes: usize,
}

/// What has been done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub steps: u64,
    /// Of requests that got their turn.
    pub prompt_tokens: u64,
    /// Of these, what did not have to be computed.
    pub cached_tokens: u64,
    pub sampled_tokens: u64,
}

//! Requests for replies as JavaScript writes them, and the replies as it reads them.

use std::time::Instant;

use super::value::{Arg, Reply};
use super::{Answer, Call};
use crate::decode::{AboutPrompt, Automaton, Drawn, Finish, Outcome, Request, Sampled, Sampling, Vocabulary};
use crate::error::EngineError;

/// (handle, id, request)
pub fn sample(call: &Call) -> Answer {
    let id = call.arg(1, "id").size()? as u64;
    let asked = call.arg(2, "request");
    let constraint = match asked.field("constraint")?.optional() {
        Some(id) => Some(call.engine()?.constraint(id.size()? as u64)?),
        None => None,
    };
    let request = Request { constraint, ..read_request(id, &asked)? };
    unsafe { call.engine()?.sample(call.env, request) }
}

/// (handle, id, tokens): the mean of the hidden states, by the way that prompts go; cancelled as a request is.
pub fn embed(call: &Call) -> Answer {
    let (id, tokens) = (call.arg(1, "id").size()? as u64, call.arg(2, "tokens").tokens()?);
    unsafe { call.engine()?.sample(call.env, Request { about: AboutPrompt::Mean, ..Request::plain(id, tokens, 0) }) }
}

pub fn cancel(call: &Call) -> Answer {
    call.engine()?.cancel(call.arg(1, "id").size()? as u64);
    call.undefined()
}

/// (handle, bytes, ends, kinds): what each token spells, once for all constraints.
pub fn set_vocabulary(call: &Call) -> Answer {
    let (bytes, ends) = (call.arg(1, "bytes").bytes()?, call.arg(2, "ends").tokens()?);
    let kinds = call.arg(3, "kinds").bytes()?;
    call.engine()?.set_vocabulary(Vocabulary::new(bytes, ends, &kinds)?);
    call.undefined()
}

/// (handle, id, { starts, ranges, targets, flags } | undefined): for requests that name it; undefined takes it away.
pub fn set_constraint(call: &Call) -> Answer {
    let (id, table) = (call.arg(1, "id").size()? as u64, call.arg(2, "table"));
    let automaton = match table.optional() {
        Some(t) => {
            let (starts, targets) = (t.field("starts")?.tokens()?, t.field("targets")?.tokens()?);
            Some(Automaton::new(starts, t.field("ranges")?.bytes()?, targets, t.field("flags")?.bytes()?)?)
        }
        None => None,
    };
    call.engine()?.set_constraint(id, automaton)?;
    call.undefined()
}

fn read_request(id: u64, r: &Arg<'_>) -> Result<Request, EngineError> {
    let float = |name| r.field(name)?.optional().map_or(Ok(0.0), |value| value.float());
    let size = |name| r.field(name)?.optional().map_or(Ok(0), |value| value.size());
    Ok(Request {
        id,
        prompt: r.field("tokens")?.tokens()?,
        namespace: Some(r.field("namespace")?.optional().map_or(Ok(String::new()), |name| name.text())?.into()),
        sampling: Sampling {
            temperature: r.field("temperature")?.float()?,
            top_p: r.field("topP")?.float()?,
            top_k: r.field("topK")?.size()?,
            min_p: r.field("minP")?.float()?,
            repetition_penalty: r.field("repetitionPenalty")?.float()?,
            presence_penalty: float("presencePenalty")?,
            frequency_penalty: float("frequencyPenalty")?,
            bias: read_bias(r)?,
        },
        max_tokens: r.field("maxTokens")?.size()?,
        min_tokens: size("minTokens")?,
        stop_tokens: r.field("stopTokens")?.tokens()?,
        seed: r.field("seed")?.size()? as u64,
        stream: r.field("stream")?.flag()?,
        top_logprobs: size("topLogprobs")?,
        sampler_logprobs: r.field("samplerLogprobs")?.optional().map_or(Ok(false), |value| value.flag())?,
        constraint: None,
        about: r.field("promptLogprobs")?.optional().map_or(Ok(AboutPrompt::Nothing), |top| top.size().map(AboutPrompt::Logprobs))?,
        keep: r.field("keepActivations")?.optional().map_or(Ok(false), |value| value.flag())?,
        submitted: Instant::now(),
    })
}

fn read_bias(r: &Arg<'_>) -> Result<Vec<(u32, f32)>, EngineError> {
    let Some(tokens) = r.field("biasTokens")?.optional() else {
        return Ok(Vec::new());
    };
    let (tokens, added) = (tokens.tokens()?, r.field("biasLogits")?.floats()?);
    if tokens.len() != added.len() {
        return Err(EngineError::input(format!("{} tokens have a bias, but {} numbers were given.", tokens.len(), added.len())));
    }
    match added.iter().find(|number| !number.is_finite()) {
        Some(number) => Err(EngineError::input(format!("A bias of {number} cannot be added to a logit."))),
        None => Ok(tokens.into_iter().zip(added).collect()),
    }
}

pub fn outcome_reply(outcome: Outcome) -> Reply {
    let finish = match outcome.finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::Cancelled => "aborted",
    };
    let drawn = &outcome.drawn;
    let mut reply = vec![
        ("tokens", Reply::Ints(drawn.iter().map(|d| d.token).collect())),
        ("logprobs", Reply::Floats(drawn.iter().map(|d| d.logprob).collect())),
        ("finish", Reply::Text(finish.into())),
        ("cached", Reply::Number(outcome.cached as f64)),
        ("queuedMs", Reply::Number(outcome.queued_ms)),
        ("version", Reply::Number(outcome.version as f64)),
    ];
    reply.extend(extras(drawn));
    reply.extend(about_prompt(&outcome));
    Reply::Object(reply)
}

/// The likeliest tokens are those of every position but the first, as many for each.
fn about_prompt(Outcome { read, prompt_tokens, .. }: &Outcome) -> Vec<(&'static str, Reply)> {
    let mut fields = Vec::new();
    if !read.logprobs.is_empty() {
        fields.push(("promptLogprobs", Reply::Floats(read.logprobs.clone())));
        fields.push(("promptTopTokens", Reply::Ints(read.top.iter().map(|&(token, _)| token).collect())));
        fields.push(("promptTopLogprobs", Reply::Floats(read.top.iter().map(|&(_, logprob)| logprob).collect())));
    }
    let mean = read.mean(*prompt_tokens);
    if !mean.is_empty() {
        fields.push(("mean", Reply::Floats(mean)));
    }
    fields
}

/// What was asked for beside tokens and log-probs. The likeliest tokens of all positions follow one another, as many for each.
fn extras(drawn: &[Drawn]) -> Vec<(&'static str, Reply)> {
    let mut fields = Vec::new();
    let sampler: Vec<f32> = drawn.iter().filter_map(|d| d.sampler_logprob).collect();
    if !sampler.is_empty() {
        fields.push(("samplerLogprobs", Reply::Floats(sampler)));
    }
    let masked = || drawn.iter().filter_map(|d| d.masked);
    if masked().next().is_some() {
        fields.push(("forced", Reply::Ints(masked().map(|one| u32::from(one.forced)).collect())));
        fields.push(("removed", Reply::Floats(masked().map(|one| one.removed).collect())));
    }
    let top = || drawn.iter().flat_map(|d| &d.top);
    if top().next().is_some() {
        fields.push(("topTokens", Reply::Ints(top().map(|&(token, _)| token).collect())));
        fields.push(("topLogprobs", Reply::Floats(top().map(|&(_, logprob)| logprob).collect())));
    }
    fields
}

/// The arguments of the token callback: ids, tokens, log-probs, and what else was asked for (by token, or undefined).
pub fn tokens_to_js(sampled: Vec<Sampled>) -> [Reply; 4] {
    let ids = Reply::List(sampled.iter().map(|s| Reply::Number(s.id as f64)).collect());
    let tokens = Reply::Ints(sampled.iter().map(|s| s.drawn.token).collect());
    let logprobs = Reply::Floats(sampled.iter().map(|s| s.drawn.logprob).collect());
    let mut beside: Vec<Reply> = Vec::new();
    if sampled.iter().any(|s| s.drawn.sampler_logprob.is_some() || !s.drawn.top.is_empty()) {
        beside.extend(sampled.iter().map(|s| Reply::Object(extras(std::slice::from_ref(&s.drawn)))));
    }
    let beside = if beside.is_empty() { Reply::None } else { Reply::List(beside) };
    [ids, tokens, logprobs, beside]
}

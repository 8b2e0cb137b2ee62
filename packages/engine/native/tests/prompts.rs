//! What is told of a prompt itself: it is run in pieces beside replies, and gives the bits of a forward pass over all of it.

mod common;
use common::*;
use stateset_engine::decode::{AboutPrompt, Finish, Limits, Outcome, Request, Scheduler};
use stateset_engine::simd::Level;
use stateset_engine::*;

const LIMITS: Limits = Limits { slots: 8, cache_bytes: 64 << 20 };
const LENGTH: usize = 600;

fn long_model(flavour: &str) -> Model {
    let mut m = Model::with_level(Config { max_positions: LENGTH, ..config(flavour) }, 2, Level::available()[0]).unwrap();
    randomise(&mut m);
    m
}

fn prompt(length: usize) -> Vec<u32> {
    (0..length as u32).map(|i| (i * 37 + i * i % 11) % 1070).collect()
}

fn forward(m: &mut Model, tokens: &[u32], temperature: f32) -> Pass {
    let wanted = vec![1; tokens.len()];
    let batch = TreeBatch { tokens, node_start: &[0, tokens.len() as u32], node_parent: &[-1], wanted: &wanted, temperature };
    let want = Want { grad: false, entropy: false, values: false, hidden: true, adapters: true, recompute: false, dropout_seed: None };
    m.forward(&batch, want).unwrap()
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

/// Runs them beside two replies, one of them to the same prompt, and gives their outcomes in the order of the ids.
fn beside_replies(m: &mut Model, requests: Vec<Request>) -> Vec<Outcome> {
    let mut scheduler = Scheduler::new(LIMITS);
    let wanted = requests.len();
    let stream = |id, prompt| Request { stream: true, ..Request::plain(id, prompt, 400) };
    scheduler.submit(m, stream(100, prompt(40))).unwrap();
    scheduler.submit(m, stream(101, prompt(30))).unwrap();
    scheduler.step(m);
    let cache = scheduler.cache_bytes();
    requests.into_iter().for_each(|request| scheduler.submit(m, request).unwrap());
    let mut done = Vec::new();
    while done.len() < wanted {
        let produced = scheduler.step(m);
        let heard: Vec<u64> = produced.sampled.iter().map(|sampled| sampled.id).filter(|&id| id >= 100).collect();
        assert_eq!(heard.len(), 2, "replies draw a token in every step");
        done.extend(produced.finished.into_iter().map(|outcome| outcome.unwrap()));
    }
    [100, 101].into_iter().for_each(|id| drop(scheduler.cancel(id)));
    assert!(scheduler.cache_bytes() <= cache + 4 * m.segment_bytes(256), "nothing of them is kept");
    done.sort_by_key(|outcome: &Outcome| outcome.id);
    done
}

#[test]
fn log_probs_of_a_prompt_are_those_of_a_forward_pass() {
    for flavour in FLAVOURS {
        let mut m = long_model(flavour);
        let tokens = prompt(LENGTH - 20);
        let ask = |id, temperature, top, max_tokens| {
            let mut request = Request::plain(id, tokens.clone(), max_tokens);
            request.sampling.temperature = temperature;
            Request { about: AboutPrompt::Logprobs(top), ..request }
        };
        let done = beside_replies(&mut m, vec![ask(1, 0.7, 0, 0), ask(2, 1.0, 3, 5), ask(3, 0.0, 1, 0)]);
        let (cool, plain) = (forward(&mut m, &tokens, 0.7), forward(&mut m, &tokens, 1.0));
        assert_eq!(bits(&done[0].read.logprobs), bits(&cool.logprobs), "{flavour}");
        assert_eq!(bits(&done[1].read.logprobs), bits(&plain.logprobs), "{flavour}");
        assert_eq!(bits(&done[2].read.logprobs), bits(&plain.logprobs), "{flavour}");
        assert!(done.iter().all(|outcome| outcome.finish == Finish::Length && outcome.cached == 0));
        assert_eq!([0, 1, 2].map(|i| (done[i].drawn.len(), done[i].read.top.len() / (tokens.len() - 1))), [(0, 0), (5, 3), (0, 1)]);
        for (at, best) in done[1].read.top.chunks(3).enumerate() {
            assert!(best.is_sorted_by(|a, b| a.1 >= b.1) && best[0].1 == done[2].read.top[at].1);
            let own = done[1].read.logprobs[at + 1];
            assert!(own <= best[0].1 && best.iter().all(|&(token, logprob)| token != tokens[at + 1] || logprob == own));
        }
        // What is drawn after it is what is drawn without it.
        let mut scheduler = Scheduler::new(LIMITS);
        scheduler.submit(&m, Request::plain(2, tokens.clone(), 5)).unwrap();
        let alone = std::iter::repeat_with(|| scheduler.step(&mut m)).find_map(|mut produced| produced.finished.pop()).unwrap().unwrap();
        assert_eq!(alone.drawn.iter().map(|d| d.token).collect::<Vec<_>>(), done[1].drawn.iter().map(|d| d.token).collect::<Vec<_>>());
    }
}

#[test]
fn the_mean_of_the_hidden_states_is_that_of_a_forward_pass() {
    for flavour in FLAVOURS {
        let mut m = long_model(flavour);
        let lengths = [1, 16, 257, LENGTH];
        let ask = |(id, &length): (usize, &usize)| Request { about: AboutPrompt::Mean, ..Request::plain(id as u64, prompt(length), 0) };
        let done = beside_replies(&mut m, lengths.iter().enumerate().map(ask).collect());
        for (outcome, length) in done.iter().zip(lengths) {
            let Pass { hidden, .. } = forward(&mut m, &prompt(length), 1.0);
            let width = hidden.len() / length;
            let mean: Vec<f32> = (0..width)
                .map(|i| (hidden.iter().skip(i).step_by(width).map(|&x| f64::from(x)).sum::<f64>() / length as f64) as f32)
                .collect();
            assert_eq!(bits(&outcome.read.mean(outcome.prompt_tokens)), bits(&mean), "{flavour}, {length} tokens");
            assert_eq!((outcome.drawn.len(), outcome.cached), (0, 0));
        }
    }
}

#[test]
fn a_broken_prompt_fails_alone() {
    let mut m = long_model("gelu");
    let width = m.config().hidden;
    let mut scheduler = Scheduler::new(LIMITS);
    // So large that its mean is infinite: who says this word has no finite state.
    let mut embed = vec![0.0; 1070 * width];
    m.read_tensor("embed", &mut embed).unwrap();
    embed[7 * width..8 * width].fill(3e38);
    m.set_tensor("embed", &embed).unwrap();
    scheduler.submit(&m, Request { about: AboutPrompt::Mean, ..Request::plain(1, vec![1, 2, 7], 0) }).unwrap();
    scheduler.submit(&m, Request { about: AboutPrompt::Logprobs(0), ..Request::plain(2, vec![1, 7, 2], 0) }).unwrap();
    scheduler.submit(&m, Request { about: AboutPrompt::Mean, ..Request::plain(3, vec![1, 2, 3], 0) }).unwrap();
    let mut codes: Vec<(u64, &str)> = Vec::new();
    while !scheduler.idle() {
        let finished = scheduler.step(&mut m).finished;
        codes.extend(finished.into_iter().map(|one| one.map_or_else(|(id, error)| (id, error.code), |outcome| (outcome.id, "fine"))));
    }
    codes.sort();
    assert_eq!(codes, [(1, "NOT_FINITE"), (2, "NOT_FINITE"), (3, "fine")]);
}

//! What the scheduler keeps of replies for training, and what it is worth to a pass: never other bits.

mod common;
use common::*;
use std::sync::Arc;

use stateset_engine::decode::{Automaton, Constraint, Limits, PLAIN, Request, Sampling, Scheduler, Vocabulary};
use stateset_engine::form::Form;
use stateset_engine::simd::Level;
use stateset_engine::*;

/// Tokens of the prompt, and drawn after it.
const PROMPT: usize = 21;
const REPLY: usize = 9;

/// A group of replies to one prompt, and two that go on after an answer, sampled by the scheduler; less of one that is cancelled.
fn rollout_of(m: &mut Model, scheduler: &mut Scheduler, cancelled: Option<u64>, ask: impl Fn(Request) -> Request) -> Vec<Vec<u32>> {
    let prompt: Vec<u32> = (0..PROMPT as u32).map(|i| 3 * i + 1).collect();
    let mut play = |prompts: Vec<Vec<u32>>, first: u64| -> Vec<Vec<u32>> {
        for (i, prompt) in prompts.iter().enumerate() {
            scheduler.submit(m, ask(Request::plain(first + i as u64, prompt.clone(), REPLY))).unwrap();
        }
        let mut whole = prompts.clone();
        for step in 0.. {
            let stopped = if step == 5 { cancelled.and_then(|id| scheduler.cancel(id)) } else { None };
            for outcome in scheduler.step(m).finished.into_iter().map(Result::unwrap).chain(stopped) {
                whole[(outcome.id - first) as usize].extend(outcome.drawn.iter().map(|drawn| drawn.token));
            }
            if scheduler.idle() {
                break;
            }
        }
        whole
    };
    let mut whole = play(vec![prompt; 6], 1);
    let second: Vec<Vec<u32>> = whole[..2].iter().map(|so_far| [so_far.as_slice(), &[5, 6, 7]].concat()).collect();
    let second = play(second, 10);
    whole.splice(..2, second);
    whole
}

fn rollout(m: &mut Model, scheduler: &mut Scheduler, keep: bool) -> Vec<Vec<u32>> {
    rollout_of(m, scheduler, None, |request| Request { keep, ..request })
}

/// Of the rollout, how many tokens were drawn.
const DRAWN: usize = 8 * REPLY;

/// A prompt and what followed it in each of these.
fn tree(whole: &[Vec<u32>], prompt: usize) -> (Vec<u32>, Vec<u32>, Vec<i32>) {
    let (mut tokens, mut start, mut parent) = (whole[0][..prompt].to_vec(), vec![0, prompt as u32], vec![-1]);
    for one in whole {
        tokens.extend(&one[prompt..]);
        start.push(tokens.len() as u32);
        parent.push(0);
    }
    (tokens, start, parent)
}

/// Trains on a rollout: to the bits of the plain way. Gives how many tokens and how many rows of logits came from it.
fn train_on(m: &mut Model, scheduler: &Scheduler, whole: &[Vec<u32>]) -> (usize, usize) {
    let (tokens, start, parent) = tree(whole, PROMPT);
    let wanted = vec![1; tokens.len()];
    let batch = TreeBatch { tokens: &tokens, node_start: &start, node_parent: &parent, wanted: &wanted, temperature: 1.0 };
    let before = m.reuse();
    let version = m.version();
    let from = learn_from(m, &batch, SCORES, &|tokens| scheduler.kept_path(version, tokens));
    let after = m.reuse();
    let plain = learn_from(m, &batch, SCORES, &|_| Vec::new());
    assert!(from == plain);
    ((after.reused - before.reused) as usize, (after.logits - before.logits) as usize)
}

/// How many of its tokens can come from it: all but the last of each reply.
fn most(whole: &[Vec<u32>]) -> usize {
    tree(whole, PROMPT).0.len() - whole.len()
}

fn scheduler() -> Scheduler {
    Scheduler::new(Limits { slots: 4, cache_bytes: 64 << 20 })
}

#[test]
fn a_rollout_is_kept_where_its_requests_ask_for_it() {
    for lora in [false, true] {
        let mut m = learner("qwen2", lora, Level::available()[0], false);
        let mut on = scheduler();
        let whole = rollout(&mut m, &mut on, true);
        assert_eq!(train_on(&mut m, &on, &whole), (most(&whole), DRAWN));
        let mut off = scheduler();
        assert_eq!(rollout(&mut m, &mut off, false), whole, "what is drawn does not depend on it");
        assert_eq!(train_on(&mut m, &off, &whole), (0, 0));
        // Other weights: nothing is left of it, once the scheduler has seen them.
        m.step(&STEP).unwrap();
        on.sweep(Some(m.version()));
        assert_eq!(train_on(&mut m, &on, &whole), (0, 0));
        m.trim_activations();
        assert_eq!(m.activation_bytes(), 0);
    }
}

#[test]
fn what_an_evaluation_computed_is_computed_again_to_be_kept() {
    let mut m = learner("llama", false, Level::available()[0], false);
    let mut scheduler = scheduler();
    let whole = rollout(&mut m, &mut scheduler, false);
    assert_eq!(rollout(&mut m, &mut scheduler, true), whole);
    assert_eq!(train_on(&mut m, &scheduler, &whole), (most(&whole), DRAWN));
}

#[test]
fn under_a_limit_some_is_kept_and_the_rest_is_made() {
    let mut m = learner("llama", false, Level::available()[0], false);
    let mut full = scheduler();
    let whole = rollout(&mut m, &mut full, true);
    full.forget_activations();
    m.trim_activations();
    let mut seen = Vec::new();
    for limit in (0..=16).map(|share| share * 64 << 10) {
        m.set_activation_bytes(limit);
        let mut scheduler = scheduler();
        assert_eq!(rollout(&mut m, &mut scheduler, true), whole);
        assert!(m.activation_bytes() <= limit);
        seen.push(train_on(&mut m, &scheduler, &whole));
        scheduler.forget_activations();
        m.trim_activations();
    }
    assert_eq!((seen[0], seen[16]), ((0, 0), (most(&whole), DRAWN)));
    let some = |(reused, logits): &(usize, usize)| *reused > 0 && (1..DRAWN).contains(logits);
    assert!(seen.iter().any(some), "rows of logits of some only: {seen:?}");
}

/// Single bytes, of which a reply may hold those below 128.
fn constraint(vocab: usize) -> Arc<Constraint> {
    let (bytes, ends) = ((0..vocab).map(|token| token as u8).collect(), (1..=vocab as u32).collect());
    let vocabulary = Vocabulary::new(bytes, ends, &vec![1; vocab]).unwrap();
    let automaton = Automaton::new(vec![0, 1], vec![0, 127], vec![0], vec![0]).unwrap();
    Arc::new(Constraint::new(Arc::new(vocabulary), automaton))
}

#[test]
fn what_shapes_the_choice_of_tokens_is_not_in_the_logits_that_are_kept() {
    let shaped = Sampling {
        temperature: 0.6,
        top_p: 0.9,
        repetition_penalty: 1.3,
        presence_penalty: 0.4,
        frequency_penalty: 0.2,
        bias: vec![(7, 2.0), (9, f32::NEG_INFINITY)],
        ..PLAIN
    };
    for (flavour, lora) in [("gpt2", false), ("granite", true)] {
        let mut m = learner(flavour, lora, Level::available()[0], false);
        let held = constraint(m.config().vocab);
        let plain = rollout(&mut m, &mut scheduler(), true);
        for constraint in [None, Some(held)] {
            let mut scheduler = scheduler();
            let ask = |request| Request { keep: true, sampling: shaped.clone(), constraint: constraint.clone(), min_tokens: 3, ..request };
            let whole = rollout_of(&mut m, &mut scheduler, None, ask);
            assert!(whole != plain);
            assert_eq!(train_on(&mut m, &scheduler, &whole), (most(&whole), DRAWN));
        }
    }
}

#[test]
fn a_cancelled_reply_is_worth_as_much_as_it_got() {
    let mut m = learner("qwen3", true, Level::available()[0], false);
    let mut scheduler = scheduler();
    let whole = rollout_of(&mut m, &mut scheduler, Some(3), |request| Request { keep: true, ..request });
    let lost = PROMPT + REPLY - whole[2].len();
    assert!((1..REPLY).contains(&lost), "{lost}");
    assert_eq!(train_on(&mut m, &scheduler, &whole), (most(&whole), DRAWN - lost));
}

#[test]
fn adapters_on_small_weights_learn_from_it_too() {
    for form in [Form::Bf16, Form::Q8_0] {
        let c = Config { hidden: 64, inter: 64, head_dim: 16, ..config("llama") };
        let plain = Model::with_level(c.clone(), 1, Level::available()[0]).unwrap();
        let is_matrix = |spec: &&TensorSpec| spec.rows > 1;
        let forms: Forms = plain.tensors().iter().filter(is_matrix).map(|spec| (spec.name.clone(), form)).collect();
        let mut m = Model::with_forms(c, 2, &forms).unwrap();
        let mut staged = m.stage(stateset_engine::model::Purpose::Present);
        for (stream, spec) in m.tensors().iter().filter(is_matrix).enumerate() {
            let data: Vec<f32> = (0..spec.rows * spec.cols).map(|i| 0.2 * uniform(stream as u64, i)).collect();
            m.stage_tensor(&mut staged, &spec.name, Values::Floats(&data), true).unwrap();
        }
        m.commit(staged).unwrap();
        m.add_value_head().unwrap();
        m.add_lora(4, 8.0, 0.0, &["q", "v", "down"], 5).unwrap();
        m.set_activation_bytes(ROOM);
        let mut scheduler = scheduler();
        let whole = rollout(&mut m, &mut scheduler, true);
        assert_eq!(train_on(&mut m, &scheduler, &whole), (most(&whole), DRAWN), "{form:?}");
    }
}

#[test]
fn a_pass_holds_what_it_goes_on_from() {
    let mut m = learner("llama", false, Level::available()[0], false);
    let mut scheduler = scheduler();
    let whole = rollout(&mut m, &mut scheduler, true);
    let (tokens, start, parent) = tree(&whole, PROMPT);
    let wanted = vec![1; tokens.len()];
    let batch = TreeBatch { tokens: &tokens, node_start: &start, node_parent: &parent, wanted: &wanted, temperature: 1.0 };
    let want = Want { grad: true, ..WANT };
    let weights = m.weights().clone();
    let gradients = |m: &mut Model, passes: Vec<Pass>| {
        m.zero_gradients();
        let d: Vec<f32> = (0..tokens.len()).map(|i| uniform(3, i)).collect();
        for pass in passes {
            m.backward(pass, &Derivatives { logprobs: &d, entropy: None, values: None, value_into_trunk: false }).unwrap();
        }
        bits(&m.read_flat(Flat::Gradients).unwrap())
    };
    let plain = vec![m.forward(&batch, want).unwrap(), m.forward(&batch, want).unwrap()];
    let plain = gradients(&mut m, plain);
    // Several at a time, whose tokens are given up before they are used, and their memory asked for by others.
    let passes: Vec<Pass> =
        (0..2).map(|_| m.forward_from(&weights, &batch, want, &|t| scheduler.kept_path(weights.version(), t)).unwrap()).collect();
    assert!(m.reuse().logits > 0);
    scheduler.forget_activations();
    m.trim_activations();
    let held: Vec<Arc<KvSegment>> = (0..4).map(|_| m.new_segment(32).unwrap()).collect();
    for segment in &held {
        assert!(m.keep_next(segment, 32));
        m.infer(&[Chunk { path: &[], segment, tokens: &tokens[..32], want_logits: None, want_hidden: false }], &mut Vec::new()).unwrap();
    }
    assert!(gradients(&mut m, passes) == plain);
}

/// Replies to a prompt that has nothing in common with the rollout's.
fn others(m: &mut Model, scheduler: &mut Scheduler) {
    let prompt: Vec<u32> = (0..PROMPT as u32).map(|i| 5 * i + 2).collect();
    (50..56).for_each(|id| scheduler.submit(m, Request { keep: true, ..Request::plain(id, prompt.clone(), REPLY) }).unwrap());
    while !scheduler.idle() {
        scheduler.step(m);
    }
}

#[test]
fn what_is_kept_of_these_weights_is_not_given_up_for_more_of_it() {
    let mut m = learner("llama", false, Level::available()[0], false);
    let whole = rollout(&mut m, &mut scheduler(), false);
    let all = (most(&whole), DRAWN);
    let mut kept_by = |limit: usize, more: bool| {
        m.trim_activations();
        m.set_activation_bytes(limit);
        let mut scheduler = scheduler();
        rollout(&mut m, &mut scheduler, true);
        if more {
            others(&mut m, &mut scheduler);
        }
        train_on(&mut m, &scheduler, &whole)
    };
    let just_enough = (1..64).map(|share| share << 15).find(|&limit| kept_by(limit, false) == all).unwrap();
    assert_eq!(kept_by(just_enough, true), all);
}

#[test]
fn a_running_reply_whose_beginning_was_given_up_is_computed_anew_and_the_others_are_not() {
    const LONG: usize = 30;
    let mut m = learner("qwen2", false, Level::available()[0], false);
    let mut scheduler = scheduler();
    let prompt: Vec<u32> = (0..PROMPT as u32).map(|i| 3 * i + 1).collect();
    let ask = |id: u64, tokens: usize| Request { keep: true, ..Request::plain(id, prompt.clone(), tokens) };
    scheduler.submit(&m, ask(0, LONG)).unwrap();
    (0..3).for_each(|_| drop(scheduler.step(&mut m)));
    // As before an optimiser step that then changes nothing.
    scheduler.sweep(None);
    (1..4).for_each(|id| scheduler.submit(&m, ask(id, REPLY)).unwrap());
    let mut whole = vec![prompt.clone(); 4];
    while !scheduler.idle() {
        for outcome in scheduler.step(&mut m).finished.into_iter().map(Result::unwrap) {
            whole[outcome.id as usize].extend(outcome.drawn.iter().map(|drawn| drawn.token));
        }
    }
    assert_eq!(train_on(&mut m, &scheduler, &whole).0, most(&whole) - (LONG - 1));
}

#[test]
fn other_weights_learn_nothing_from_it() {
    let moved = |m: &mut Model| {
        let data: Vec<f32> = (0..40).map(|i| uniform(77, i)).collect();
        let mut staged = m.stage(stateset_engine::model::Purpose::Present);
        m.stage_tensor(&mut staged, "final_norm.weight", Values::Floats(&data), false).unwrap();
        m.commit(staged).unwrap();
    };
    // Loaded between sampling and training.
    let mut m = learner("llama", false, Level::available()[0], false);
    let mut scheduler = scheduler();
    let whole = rollout(&mut m, &mut scheduler, true);
    moved(&mut m);
    assert_eq!(train_on(&mut m, &scheduler, &whole), (0, 0));
    // Changed while replies run: these go on with their own weights, and are kept no more.
    scheduler = self::scheduler();
    (0..4).for_each(|id| scheduler.submit(&m, Request { keep: true, ..Request::plain(id, whole[0][..PROMPT].to_vec(), 30) }).unwrap());
    (0..5).for_each(|_| drop(scheduler.step(&mut m)));
    let before = m.version();
    moved(&mut m);
    let mut whole = vec![whole[0][..PROMPT].to_vec(); 4];
    while !scheduler.idle() {
        for outcome in scheduler.step(&mut m).finished.into_iter().map(Result::unwrap) {
            assert_eq!(outcome.version, before);
            whole[outcome.id as usize].extend(outcome.drawn.iter().map(|drawn| drawn.token));
        }
    }
    assert_eq!(train_on(&mut m, &scheduler, &whole), (0, 0));
    m.trim_activations();
    assert_eq!(m.activation_bytes(), 0, "nothing of it is left");
}

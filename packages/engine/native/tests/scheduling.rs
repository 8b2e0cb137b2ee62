//! Replies under changes of the weights, and everything that may shape a draw.

mod common;
use common::*;
use stateset_engine::decode::{Drawn, Finish, Limits, Outcome, Produced, Request, Sampling, Scheduler};
use stateset_engine::simd::Level;
use stateset_engine::*;

const LIMITS: Limits = Limits { slots: 8, cache_bytes: 64 << 20 };

fn long_model() -> Model {
    let mut m = Model::with_level(Config { max_positions: 2048, ..config("llama") }, 2, Level::available()[0]).unwrap();
    randomise(&mut m);
    m
}

fn request(id: u64, prompt: Vec<u32>, max_tokens: usize) -> Request {
    Request { stream: true, ..Request::plain(id, prompt, max_tokens) }
}

fn prompt(length: usize, offset: u32) -> Vec<u32> {
    (0..length as u32).map(|i| (i * 37 + offset) % 1070).collect()
}

/// Moves the weights a little, differently each time.
fn change(m: &mut Model, by: f32) {
    let mut norm = vec![0.0; 40];
    m.read_tensor("final_norm.weight", &mut norm).unwrap();
    norm.iter_mut().enumerate().for_each(|(i, x)| *x += by * (1.0 + i as f32 / 40.0));
    m.set_tensor("final_norm.weight", &norm).unwrap();
}

fn take(produced: Produced, done: &mut Vec<Outcome>) -> Vec<u64> {
    done.extend(produced.finished.into_iter().map(|outcome| outcome.unwrap()));
    produced.sampled.iter().map(|sampled| sampled.id).collect()
}

/// All by itself, with the weights as they are.
fn alone(m: &mut Model, request: Request) -> Outcome {
    let mut scheduler = Scheduler::new(LIMITS);
    scheduler.submit(m, request).unwrap();
    let mut done = Vec::new();
    while !scheduler.idle() {
        take(scheduler.step(m), &mut done);
    }
    done.remove(0)
}

fn words(outcome: &Outcome) -> Vec<(u32, u32)> {
    outcome.drawn.iter().map(|drawn| (drawn.token, drawn.logprob.to_bits())).collect()
}

#[test]
fn the_first_token_behind_a_change_and_a_long_reply_comes_within_three_steps() {
    let mut m = long_model();
    let mut scheduler = Scheduler::new(LIMITS);
    scheduler.submit(&m, request(1, prompt(40, 3), 900)).unwrap();
    let mut done = Vec::new();
    for _ in 0..50 {
        take(scheduler.step(&mut m), &mut done);
    }
    for round in 0..5 {
        change(&mut m, 0.02);
        let id = 10 + round;
        scheduler.submit(&m, request(id, prompt(256, 100 + round as u32), 20)).unwrap();
        let before = scheduler.counts().steps;
        while !take(scheduler.step(&mut m), &mut done).contains(&id) {}
        assert!(scheduler.counts().steps - before <= 3, "{} steps", scheduler.counts().steps - before);
    }
}

#[test]
fn replies_end_with_the_weights_they_began_with_and_old_versions_go_with_the_last_of_them() {
    let mut m = long_model();
    let mut scheduler = Scheduler::new(LIMITS);
    let mut expected = Vec::new();
    let mut done = Vec::new();
    // Four versions, each with replies of different lengths that overlap those of the others.
    for round in 0..4u64 {
        for member in 0..2 {
            let make = || request(10 * round + member, prompt(30, 7), 60 + 40 * round as usize + 10 * member as usize);
            expected.push((make().id, m.version(), words(&alone(&mut m, make()))));
            scheduler.submit(&m, make()).unwrap();
        }
        for _ in 0..15 {
            take(scheduler.step(&mut m), &mut done);
        }
        change(&mut m, 0.05);
    }
    assert_eq!(scheduler.versions().len(), 4);
    let mut known = Vec::new();
    m.weights().bytes_beside(&mut known);
    let beside: usize = scheduler.held().map(|weights| weights.bytes_beside(&mut known)).sum();
    assert!(beside > 0);
    while !scheduler.idle() {
        take(scheduler.step(&mut m), &mut done);
    }
    assert_eq!(done.len(), expected.len());
    for (id, version, words_alone) in expected {
        let outcome = done.iter().find(|outcome| outcome.id == id).unwrap();
        assert_eq!((outcome.version, words(outcome)), (version, words_alone), "request {id}");
    }
    assert_eq!((scheduler.versions().len(), scheduler.cache_bytes()), (0, 0), "nothing of old versions is left");
    assert_eq!(m.change_cost(&[0, 1, 2]), 0, "nobody holds the weights any more");
}

#[test]
fn a_request_belongs_to_the_weights_of_the_moment_it_was_made_also_while_it_waits() {
    let mut m = long_model();
    let mut scheduler = Scheduler::new(Limits { slots: 1, ..LIMITS });
    let old = words(&alone(&mut m, request(2, prompt(10, 5), 12)));
    scheduler.submit(&m, request(1, prompt(10, 3), 30)).unwrap();
    scheduler.submit(&m, request(2, prompt(10, 5), 12)).unwrap();
    let mut done = Vec::new();
    take(scheduler.step(&mut m), &mut done);
    let version = m.version();
    change(&mut m, 0.1);
    while !scheduler.idle() {
        take(scheduler.step(&mut m), &mut done);
    }
    assert_eq!((words(&done[1]), done[1].version), (old, version));
}

#[test]
fn a_prefix_is_shared_inside_a_version_and_never_across() {
    let mut m = long_model();
    let mut scheduler = Scheduler::new(LIMITS);
    let mut done = Vec::new();
    let mut run = |scheduler: &mut Scheduler, m: &mut Model, id: u64| {
        scheduler.submit(m, request(id, prompt(100, 9), 4)).unwrap();
        while !done.iter().any(|outcome: &Outcome| outcome.id == id) {
            take(scheduler.step(m), &mut done);
        }
        done.iter().find(|outcome| outcome.id == id).unwrap().cached
    };
    assert_eq!([run(&mut scheduler, &mut m, 1), run(&mut scheduler, &mut m, 2)], [0, 99]);
    change(&mut m, 0.05);
    assert_eq!([run(&mut scheduler, &mut m, 3), run(&mut scheduler, &mut m, 4)], [0, 99]);
    let counts = scheduler.counts();
    assert_eq!((counts.prompt_tokens, counts.cached_tokens, counts.sampled_tokens), (400, 198, 16));
}

#[test]
fn what_is_recorded_does_not_depend_on_what_shapes_the_draw() {
    let mut m = long_model();
    let mut scheduler = Scheduler::new(LIMITS);
    let count = 200;
    let shaped = |id: u64| {
        let u = |stream: u64| uniform(1000 + stream, id as usize);
        Request {
            sampling: Sampling {
                temperature: [0.0, 0.6, 1.0, 1.4][id as usize % 4],
                top_p: if u(1) > 0.0 { 0.5 + 0.25 * (u(2) + 1.0) } else { 1.0 },
                top_k: if u(3) > 0.0 { 1 + (id % 50) as usize } else { 0 },
                min_p: if u(4) > 0.5 { 0.05 } else { 0.0 },
                repetition_penalty: if u(5) > 0.3 { 1.2 } else { 1.0 },
                presence_penalty: if u(6) > 0.0 { 2.0 * u(7) } else { 0.0 },
                frequency_penalty: if u(8) > 0.0 { 2.0 * u(9) } else { 0.0 },
                bias: (0..id % 5).map(|i| ((id * 31 + i * 7) as u32 % 1070, 100.0 * u(10 + i))).collect(),
            },
            min_tokens: (id % 7) as usize,
            stop_tokens: prompt(400, id as u32),
            top_logprobs: (id % 4) as usize,
            sampler_logprobs: true,
            ..request(id, prompt(5 + (id % 9) as usize, id as u32), 12)
        }
    };
    (0..count).for_each(|id| scheduler.submit(&m, shaped(id)).unwrap());
    let mut done = Vec::new();
    while !scheduler.idle() {
        take(scheduler.step(&mut m), &mut done);
    }
    for outcome in done {
        let request = shaped(outcome.id);
        let tokens: Vec<u32> = request.prompt.iter().copied().chain(outcome.drawn.iter().map(|drawn| drawn.token)).collect();
        let temperature = if request.sampling.temperature == 0.0 { 1.0 } else { request.sampling.temperature };
        let (start, wanted) = ([0, tokens.len() as u32], vec![1; tokens.len()]);
        let batch = TreeBatch { tokens: &tokens, node_start: &start, node_parent: &[-1], wanted: &wanted, temperature };
        let scored = m.forward(&batch, WANT).unwrap().logprobs;
        for (position, drawn) in outcome.drawn.iter().enumerate() {
            assert_eq!(drawn.logprob.to_bits(), scored[request.prompt.len() + position].to_bits(), "request {}", outcome.id);
            assert!(drawn.sampler_logprob.unwrap() <= 0.0);
            assert_eq!(drawn.top.len(), request.top_logprobs);
            assert!(drawn.top.windows(2).all(|pair| pair[0].1 >= pair[1].1));
            // The best of the likeliest, when it is the one drawn, carries the very same number.
            drawn.top.iter().filter(|top| top.0 == drawn.token).for_each(|top| assert_eq!(top.1.to_bits(), drawn.logprob.to_bits()));
            assert!(position + 1 >= request.min_tokens || !request.stop_tokens.contains(&drawn.token), "request {}", outcome.id);
        }
        assert_eq!(outcome.finish == Finish::Stop, outcome.drawn.last().is_some_and(|drawn| request.stop_tokens.contains(&drawn.token)));
    }
}

#[test]
fn the_likeliest_tokens_are_scored_like_any_other() {
    let mut m = long_model();
    let outcome = alone(&mut m, Request { top_logprobs: 20, sampler_logprobs: true, ..request(1, prompt(12, 4), 6) });
    let mut tokens = prompt(12, 4);
    for Drawn { token, logprob, sampler_logprob, top, .. } in &outcome.drawn {
        assert_eq!(sampler_logprob.unwrap().to_bits(), logprob.to_bits(), "an unshaped draw is from the recorded distribution");
        // The prompt as root, each of them a leaf.
        let n = tokens.len() as u32;
        let all: Vec<u32> = tokens.iter().copied().chain(top.iter().map(|top| top.0)).collect();
        let start: Vec<u32> = std::iter::once(0).chain((0..=20).map(|i| n + i)).collect();
        let parent: Vec<i32> = std::iter::once(-1).chain(std::iter::repeat_n(0, 20)).collect();
        let wanted = vec![1; all.len()];
        let batch = TreeBatch { tokens: &all, node_start: &start, node_parent: &parent, wanted: &wanted, temperature: 1.0 };
        let scored = m.forward(&batch, WANT).unwrap().logprobs;
        for (i, (_, logprob)) in top.iter().enumerate() {
            assert_eq!(logprob.to_bits(), scored[n as usize + i].to_bits());
        }
        tokens.push(*token);
    }
}

#[test]
fn every_reply_is_what_its_weights_score_whatever_comes_in_whatever_order() {
    for (seed, cache_bytes) in [(1, 0), (2, 600 << 10), (3, 64 << 20)] {
        let mut m = long_model();
        let mut scheduler = Scheduler::new(Limits { slots: 4, cache_bytes });
        let mut versions = vec![m.weights().clone()];
        let (mut done, mut prompts) = (Vec::new(), Vec::new());
        for turn in 0..400 {
            let chance = |stream: u64| (uniform(seed * 100 + stream, turn) + 1.0) / 2.0;
            if chance(1) < 0.3 {
                // Few different prompts, so that prefixes are found, shared and dropped.
                prompts.push(prompt(4 + (chance(2) * 90.0) as usize, (chance(3) * 3.0) as u32));
                let (id, tokens) = (prompts.len() as u64, prompts[prompts.len() - 1].clone());
                scheduler.submit(&m, request(id, tokens, 1 + (chance(4) * 80.0) as usize)).unwrap();
            }
            if chance(5) < 0.08 {
                change(&mut m, 0.02);
                versions.push(m.weights().clone());
            }
            if chance(6) < 0.05 {
                done.extend(scheduler.cancel(1 + (chance(7) * prompts.len() as f32) as u64));
            }
            take(scheduler.step(&mut m), &mut done);
        }
        while !scheduler.idle() {
            take(scheduler.step(&mut m), &mut done);
        }
        assert_eq!(done.len(), prompts.len());
        assert!(versions.len() > 10);
        let sampled: usize = done.iter().map(|outcome| outcome.drawn.len()).sum();
        assert_eq!(scheduler.counts().sampled_tokens, sampled as u64);
        for outcome in done.iter().filter(|outcome| !outcome.drawn.is_empty()) {
            let mut tokens = prompts[outcome.id as usize - 1].clone();
            let first = tokens.len();
            tokens.extend(outcome.drawn.iter().map(|drawn| drawn.token));
            let (start, wanted) = ([0, tokens.len() as u32], vec![1; tokens.len()]);
            let batch = TreeBatch { tokens: &tokens, node_start: &start, node_parent: &[-1], wanted: &wanted, temperature: 1.0 };
            let weights = versions.iter().find(|weights| weights.version() == outcome.version).unwrap();
            let scored = m.forward_on(weights, &batch, WANT).unwrap().logprobs;
            let recorded: Vec<u32> = outcome.drawn.iter().map(|drawn| drawn.logprob.to_bits()).collect();
            assert_eq!(recorded, scored[first..].iter().map(|x| x.to_bits()).collect::<Vec<u32>>(), "request {}", outcome.id);
        }
    }
}

#[test]
fn replies_beside_training_passes_are_the_same_on_the_amx_unit_with_its_copy_of_the_weights_kept_or_made_again() {
    if !stateset_engine::gemm::amx_available() {
        return;
    }
    for (lora, keep) in [(false, true), (false, false), (true, true), (true, false)] {
        let mut m = long_model();
        m.set_amx(true);
        if lora {
            m.add_lora(4, 8.0, 0.0, &["q", "v", "up"], 5).unwrap();
            randomise(&mut m);
        } else {
            m.set_trainable(Trainable::Full).unwrap();
        }
        let make = || request(1, prompt(40, 3), 90);
        let expected = words(&alone(&mut m, make()));
        let mut scheduler = Scheduler::new(LIMITS);
        scheduler.submit(&m, make()).unwrap();
        let mut done = Vec::new();
        let bytes = |m: &Model| m.weights().bytes_beside(&mut Vec::new());
        for turn in 0.. {
            take(scheduler.step(&mut m), &mut done);
            if scheduler.idle() {
                break;
            }
            let (now, copied) = (m.weights().clone(), bytes(&m));
            if !keep {
                m.reclaim_split(&now);
            }
            add_gradients(&mut m);
            // After a step, all weights are new ones that nobody has sampled from; adapters leave the base as it was.
            let sampled = turn < 30 || lora;
            assert_eq!(scheduler.samples_from(&now), sampled);
            assert_eq!(bytes(&m) < copied, sampled && !keep, "turn {turn} lora {lora} keep {keep}");
            drop(now);
            if turn == 29 {
                m.step(&STEP).unwrap();
            }
        }
        assert_eq!(words(&done[0]), expected, "lora {lora} keep {keep}");
    }
}

#[test]
fn a_base_model_is_sampled_from_while_replies_of_any_of_its_versions_run_or_wait() {
    for lora in [false, true] {
        let mut m = trained("llama", lora);
        let mut scheduler = Scheduler::new(LIMITS);
        assert!(!scheduler.samples_from(m.weights()));
        let before = m.weights().clone();
        scheduler.submit(&m, request(1, prompt(10, 3), 20)).unwrap();
        assert!(scheduler.samples_from(&before), "it waits");
        scheduler.step(&mut m);
        learn(&mut m);
        assert!(scheduler.samples_from(&before), "it runs");
        assert_eq!(scheduler.samples_from(m.weights()), lora);
        scheduler.submit(&m, request(2, prompt(10, 3), 20)).unwrap();
        assert!(scheduler.samples_from(m.weights()));
        while !scheduler.idle() {
            scheduler.step(&mut m);
        }
        assert!(!scheduler.samples_from(&before) && !scheduler.samples_from(m.weights()));
    }
}

#[test]
fn requests_of_another_namespace_share_nothing_neither_running_nor_kept_and_say_the_same() {
    let mut m = long_model();
    let mut scheduler = Scheduler::new(LIMITS);
    let named = |id: u64, name: &str| Request { namespace: Some(name.into()), seed: 7, ..request(id, prompt(300, 3), 12) };
    let mut done = Vec::new();
    // All at once, and once more when they are through.
    for round in 0..2 {
        for (member, name) in ["", "a", "", "a", "b"].into_iter().enumerate() {
            scheduler.submit(&m, named(10 * round + member as u64, name)).unwrap();
        }
        while !scheduler.idle() {
            take(scheduler.step(&mut m), &mut done);
        }
    }
    done.sort_by_key(|outcome| outcome.id);
    let cached: Vec<usize> = done.iter().map(|outcome| outcome.cached).collect();
    assert_eq!(cached, [0, 0, 299, 299, 0, 299, 299, 299, 299, 299]);
    assert!(done.iter().all(|outcome| words(outcome) == words(&done[0])));
}

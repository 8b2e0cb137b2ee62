//! A step of GRPO with its rollout: four questions after one system prompt, eight replies each. With the activations of sampling kept
//! and without, in turn; the fastest of each counts.

use stateset_engine::decode::{Limits, Request, Scheduler};
use stateset_engine::*;

use super::common::{STEP, WANT};
use super::cpu;

const SYSTEM: usize = 14;
const QUESTION: usize = 17;
const REPLY: usize = 48;
const REPLIES: usize = 8;

/// `models`: two that are alike.
pub fn reuse(mut models: [Model; 2], token: impl Fn(usize) -> u32, slots: usize) {
    let system: Vec<u32> = (0..SYSTEM).map(&token).collect();
    let prompts: Vec<Vec<u32>> =
        (0..4).map(|q| system.iter().copied().chain((0..QUESTION).map(|i| token(100 + q * QUESTION + i))).collect()).collect();
    let mut fastest = [[f64::MAX; 4]; 2];
    let mut shares = [0.0; 2];
    let rounds: usize = std::env::var("ROUNDS").map_or(6, |r| r.parse().unwrap());
    let mut schedulers = [0; 2].map(|_| Scheduler::new(Limits { slots, cache_bytes: 1 << 30 }));
    models[1].set_activation_bytes(4 << 30);
    for round in 0..2 * rounds {
        let keep = round % 2 == 1;
        let (m, scheduler) = (&mut models[round % 2], &mut schedulers[round % 2]);
        let c0 = cpu();
        let mut replies = vec![Vec::new(); prompts.len() * REPLIES];
        for id in 0..replies.len() {
            let sampling = Request { keep, ..Request::plain(id as u64, prompts[id / REPLIES].clone(), REPLY) };
            scheduler.submit(m, sampling).unwrap();
        }
        while !scheduler.idle() {
            for outcome in scheduler.step(m).finished {
                let outcome = outcome.unwrap();
                replies[outcome.id as usize] = outcome.drawn.iter().map(|drawn| drawn.token).collect();
            }
        }
        let (mut tokens, mut start, mut parent) = (system.clone(), vec![0, SYSTEM as u32], vec![-1]);
        for prompt in &prompts {
            tokens.extend(&prompt[SYSTEM..]);
            start.push(tokens.len() as u32);
            parent.push(0);
        }
        for (id, reply) in replies.iter().enumerate() {
            tokens.extend(reply);
            start.push(tokens.len() as u32);
            parent.push(1 + (id / REPLIES) as i32);
        }
        let n = tokens.len();
        let wanted: Vec<u8> = (0..n).map(|i| u8::from(i >= SYSTEM + 4 * QUESTION)).collect();
        let batch = TreeBatch { tokens: &tokens, node_start: &start, node_parent: &parent, wanted: &wanted, temperature: 1.0 };
        let c1 = cpu();
        let (weights, before) = (m.weights().clone(), m.reuse());
        let want = Want { grad: true, entropy: true, ..WANT };
        let pass = m.forward_from(&weights, &batch, want, &|tokens| scheduler.kept_path(weights.version(), tokens)).unwrap();
        drop(weights);
        let c2 = cpu();
        let d = vec![1.0 / n as f32; n];
        m.backward(pass, &Derivatives { logprobs: &d, entropy: None, values: None, value_into_trunk: false }).unwrap();
        let c3 = cpu();
        m.step(&StepOptions { learning_rate: 1e-7, ..STEP }).unwrap();
        let c4 = cpu();
        scheduler.sweep(Some(m.version()));
        let now = m.reuse();
        shares[usize::from(keep)] = (now.reused - before.reused) as f64 / (now.tokens - before.tokens) as f64;
        for (best, time) in fastest[usize::from(keep)].iter_mut().zip([c1 - c0, c2 - c1, c3 - c2, c4 - c3]) {
            *best = best.min(time);
        }
    }
    for (keep, name) in ["off", "on"].iter().enumerate() {
        let [rollout, forward, backward, step] = fastest[keep];
        let update = forward + backward + step;
        println!(
            "{name:3}: rollout {rollout:.3} s CPU, update {update:.3} (forward {forward:.3}, backward {backward:.3}, step {step:.3}), all {:.3}; {:.0}% reused",
            rollout + update,
            100.0 * shares[keep],
        );
    }
    let megabytes = |m: &Model| (m.memory_bytes() >> 20, m.activation_bytes() >> 20);
    println!("MB of the model and of activations: off {:?}, on {:?}", megabytes(&models[0]), megabytes(&models[1]));
}

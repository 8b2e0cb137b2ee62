//! A training pass that goes on from what sampling kept gives the bits of one that computes everything: scores, values, hidden states and
//! every gradient, however the tokens were dealt over segments and steps, and however much of them was kept.

mod common;
use common::*;
use std::sync::Arc;

use stateset_engine::decode::{Limits, Request, Scheduler};
use stateset_engine::simd::Level;
use stateset_engine::*;

const ROOM: usize = 64 << 20;

/// What was run: sequences and the segments that hold them.
#[derive(Default)]
struct Ran(Vec<(Vec<u32>, Vec<KvSpan>)>);

fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// The first `len` tokens of a path.
fn cut(spans: &[KvSpan], mut len: usize) -> Vec<KvSpan> {
    let mut kept = Vec::new();
    for span in spans {
        let used = span.used.min(len);
        len -= used;
        if used > 0 {
            kept.push(KvSpan { segment: span.segment.clone(), used });
        }
    }
    kept
}

fn kept(spans: &[KvSpan]) -> usize {
    let mut len = 0;
    for span in spans {
        len += span.used.min(span.segment.kept());
        if span.segment.kept() < span.used {
            break;
        }
    }
    len
}

impl Ran {
    fn longest(&self, tokens: &[u32], usable: impl Fn(&[KvSpan]) -> usize) -> Vec<KvSpan> {
        let of = |(own, spans): &(Vec<u32>, Vec<KvSpan>)| cut(spans, common(own, tokens).min(usable(spans)));
        self.0.iter().map(of).max_by_key(|spans| spans.iter().map(|span| span.used).sum::<usize>()).unwrap_or_default()
    }

    /// Runs a sequence in pieces, beside a lone one that nobody keeps; keeps the first `most` of its tokens. Goes on from the
    /// longest beginning that was run before, less a few tokens now and then.
    fn run(&mut self, m: &mut Model, tokens: &[u32], most: usize, random: &mut impl FnMut(usize) -> usize) {
        let before = self.longest(&tokens[..tokens.len() - 1], |spans| spans.iter().map(|span| span.used).sum());
        let held: usize = before.iter().map(|span| span.used).sum();
        let mut at = held - held.min(random(3));
        let mut path = cut(&before, at);
        let (mut logits, beside) = (Vec::new(), m.new_segment(64).unwrap());
        while at < tokens.len() {
            // Segments end anywhere.
            let segment = m.new_segment((1 + random(20)).min(tokens.len() - at)).unwrap();
            let end = at + segment.capacity();
            while at < end {
                let piece = (1 + random(6)).min(end - at);
                if at + piece <= most {
                    assert!(m.keep_next(&segment, piece));
                }
                let chunk = |segment, tokens, want_logits| Chunk { path: &[], segment, tokens, want_logits, want_hidden: false };
                let own = Chunk { path: &path, ..chunk(&segment, &tokens[at..at + piece], (random(2) == 0).then_some(1.0)) };
                m.infer(&[chunk(&beside, &tokens[..1], (random(2) == 0).then_some(1.0)), own], &mut logits).unwrap();
                at += piece;
            }
            path.push(KvSpan { used: segment.capacity(), segment });
        }
        self.0.push((tokens.to_vec(), path));
    }
}

/// Everything a pass gives, and the gradients after it.
fn learn_from(m: &mut Model, batch: &TreeBatch<'_>, want: Want, prefixes: &dyn Fn(&[u32]) -> Vec<KvSpan>) -> Vec<Vec<u32>> {
    m.zero_gradients();
    let weights = m.weights().clone();
    let pass = m.forward_from(&weights, batch, want, prefixes).unwrap();
    let numbers = [&pass.logprobs, &pass.entropy, &pass.values, &pass.hidden].map(|some| bits(some));
    let d: Vec<Vec<f32>> = (3..6).map(|stream| (0..batch.tokens.len()).map(|i| uniform(stream, i)).collect()).collect();
    let values = want.values.then_some(d[2].as_slice());
    m.backward(pass, &Derivatives { logprobs: &d[0], entropy: Some(&d[1]), values, value_into_trunk: true }).unwrap();
    let gradients = bits(&m.read_flat(Flat::Gradients).unwrap());
    numbers.into_iter().chain([gradients]).collect()
}

/// Random numbers below a bound, one after the other.
fn dice(stream: u64) -> impl FnMut(usize) -> usize {
    let mut at = 0;
    move |below| {
        at += 1;
        ((uniform(stream, at) * 0.5 + 0.5) * below as f32) as usize % below
    }
}

fn learner(flavour: &str, lora: bool, level: Level, amx: bool) -> Model {
    let mut m = model(flavour, 2, level);
    m.set_amx(amx);
    m.add_value_head().unwrap();
    if lora {
        m.add_lora(4, 8.0, 0.0, &["q", "k", "o", "up", "down"], 5).unwrap();
    } else {
        m.set_trainable(Trainable::Full).unwrap();
    }
    randomise(&mut m);
    m.set_activation_bytes(ROOM);
    m
}

const SCORES: Want = Want { grad: true, entropy: true, values: true, hidden: true, ..WANT };

/// Of every path all but the last token, or as many as `most` says, in random pieces. Gives how many tokens were not run again.
fn check(flavour: &str, lora: bool, level: Level, amx: bool, seed: u64) -> u64 {
    let mut m = learner(flavour, lora, level, amx);
    let f = forest(m.config().vocab);
    let mut random = dice(seed);
    let mut ran = Ran::default();
    for path in f.paths() {
        let tokens: Vec<u32> = path.iter().map(|&i| f.tokens[i]).collect();
        let most = if random(3) == 0 { random(tokens.len()) } else { tokens.len() };
        ran.run(&mut m, &tokens[..tokens.len() - 1 + random(2)], most, &mut random);
    }
    let plain = learn_from(&mut m, &f.batch(0.8), SCORES, &|_| Vec::new());
    let before = m.reuse();
    assert_eq!((before.tokens, before.reused), (f.tokens.len() as u64, 0));
    for _ in 0..2 {
        let from = learn_from(&mut m, &f.batch(0.8), SCORES, &|tokens| ran.longest(tokens, kept));
        for (what, (a, b)) in ["log-probs", "entropy", "values", "hidden", "gradients"].iter().zip(plain.iter().zip(&from)) {
            assert!(a == b, "{flavour} lora {lora} {level:?} seed {seed}: {what}");
        }
    }
    let after = m.reuse();
    let reused = (after.reused - before.reused) / 2;
    assert!(reused < f.tokens.len() as u64, "the last token of some path was never run");
    // Where less than half was kept, all of it is run.
    assert!(reused == 0 || 2 * reused >= f.tokens.len() as u64, "{reused}");
    reused
}

#[test]
fn the_same_bits_from_sampling_as_computed_anew() {
    let mut reused = Vec::new();
    for flavour in FLAVOURS {
        for (seed, lora) in [(1, false), (2, true), (3, false), (4, true)] {
            reused.push(check(flavour, lora, Level::available()[0], false, seed));
        }
    }
    reused.sort_unstable();
    reused.dedup();
    assert!(reused.len() > 2, "some of it, and more of it: {reused:?}");
}

#[test]
fn the_same_bits_on_every_instruction_set() {
    for level in Level::available() {
        assert!(check("qwen3", true, level, false, 5) + check("gpt2", false, level, false, 6) > 0);
    }
    if stateset_engine::gemm::amx_available() {
        check("qwen3", true, Level::available()[0], true, 5);
        check("gpt2", false, Level::available()[0], true, 6);
    }
}

#[test]
fn everything_but_the_last_tokens_is_reused_where_all_was_kept() {
    let mut m = learner("llama", false, Level::available()[0], false);
    let f = forest(m.config().vocab);
    let mut ran = Ran::default();
    for path in f.paths() {
        let tokens: Vec<u32> = path.iter().map(|&i| f.tokens[i]).collect();
        ran.run(&mut m, &tokens[..tokens.len() - 1], tokens.len(), &mut |_| 0);
    }
    learn_from(&mut m, &f.batch(1.0), SCORES, &|tokens| ran.longest(tokens, kept));
    let leaves = f.paths().len();
    assert_eq!(m.reuse().reused as usize, f.tokens.len() - leaves);
    // Passes that compute twice, and scores without gradients, do not ask.
    for want in [Want { recompute: true, ..SCORES }, Want { grad: false, ..SCORES }] {
        let weights = m.weights().clone();
        m.forward_from(&weights, &f.batch(1.0), want, &|_| panic!("nobody should ask")).unwrap();
    }
}

/// A group of replies to one prompt, and one that goes on after an answer, sampled by the scheduler.
fn rollout(m: &mut Model, scheduler: &mut Scheduler, keep: bool) -> Vec<Vec<u32>> {
    let prompt: Vec<u32> = (0..21).map(|i| 3 * i + 1).collect();
    let mut play = |prompts: Vec<Vec<u32>>, first: u64| -> Vec<Vec<u32>> {
        for (i, prompt) in prompts.iter().enumerate() {
            scheduler.submit(m, Request { keep, ..Request::plain(first + i as u64, prompt.clone(), 9) }).unwrap();
        }
        let mut whole = prompts.clone();
        while !scheduler.idle() {
            for outcome in scheduler.step(m).finished {
                let outcome = outcome.unwrap();
                whole[(outcome.id - first) as usize].extend(outcome.drawn.iter().map(|drawn| drawn.token));
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

/// Trains on a rollout; how many tokens came from it, of how many, and whether the bits are those of the plain way.
fn train_on(m: &mut Model, scheduler: &Scheduler, whole: &[Vec<u32>]) -> (u64, usize) {
    let (tokens, start, parent) = tree(whole, 21);
    let wanted = vec![1; tokens.len()];
    let batch = TreeBatch { tokens: &tokens, node_start: &start, node_parent: &parent, wanted: &wanted, temperature: 1.0 };
    let want = Want { values: false, hidden: false, ..SCORES };
    let before = m.reuse().reused;
    let version = m.version();
    let from = learn_from(m, &batch, want, &|tokens| scheduler.kept_path(version, tokens));
    let reused = m.reuse().reused - before;
    let plain = learn_from(m, &batch, want, &|_| Vec::new());
    assert!(from == plain);
    (reused, tokens.len())
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
        let (reused, of) = train_on(&mut m, &on, &whole);
        assert_eq!(reused as usize, of - whole.len(), "all but the last token of each reply");
        let mut off = scheduler();
        assert_eq!(rollout(&mut m, &mut off, false), whole, "what is drawn does not depend on it");
        assert_eq!(train_on(&mut m, &off, &whole).0, 0);
        // Other weights: nothing is left of it, once the scheduler has seen them.
        m.step(&STEP).unwrap();
        on.sweep(Some(m.version()));
        assert_eq!(train_on(&mut m, &on, &whole).0, 0);
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
    let (reused, of) = train_on(&mut m, &scheduler, &whole);
    assert_eq!(reused as usize, of - whole.len());
}

#[test]
fn under_a_limit_some_is_kept_and_the_rest_is_run() {
    let mut m = learner("llama", false, Level::available()[0], false);
    let mut full = scheduler();
    let whole = rollout(&mut m, &mut full, true);
    let needed = m.activation_bytes();
    let mut seen = Vec::new();
    for share in [0, 1, 2, 3, 4] {
        full.forget_activations();
        m.trim_activations();
        m.set_activation_bytes(needed * share / 4);
        let mut scheduler = scheduler();
        assert_eq!(rollout(&mut m, &mut scheduler, true), whole);
        assert!(m.activation_bytes() <= needed * share / 4);
        seen.push(train_on(&mut m, &scheduler, &whole).0);
    }
    assert!(seen[0] == 0 && seen.is_sorted() && seen[4] > 0, "{seen:?}");
}

#[test]
fn a_pass_holds_what_it_goes_on_from() {
    let mut m = learner("llama", false, Level::available()[0], false);
    let mut scheduler = scheduler();
    let whole = rollout(&mut m, &mut scheduler, true);
    let (tokens, start, parent) = tree(&whole, 21);
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
    assert!(m.reuse().reused > 0);
    scheduler.forget_activations();
    m.trim_activations();
    let held: Vec<Arc<KvSegment>> = (0..4).map(|_| m.new_segment(32).unwrap()).collect();
    for segment in &held {
        assert!(m.keep_next(segment, 32));
        m.infer(&[Chunk { path: &[], segment, tokens: &tokens[..32], want_logits: None, want_hidden: false }], &mut Vec::new()).unwrap();
    }
    assert!(gradients(&mut m, passes) == plain);
}

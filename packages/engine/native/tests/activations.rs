//! A training pass that goes on from what sampling kept gives the bits of one that computes everything: scores, values, hidden states and
//! every gradient, however the tokens were dealt over segments and steps, and however much of them was kept.

mod common;
use common::*;

use stateset_engine::simd::Level;
use stateset_engine::*;

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

/// Random numbers below a bound, one after the other.
fn dice(stream: u64) -> impl FnMut(usize) -> usize {
    let mut at = 0;
    move |below| {
        at += 1;
        ((uniform(stream, at) * 0.5 + 0.5) * below as f32) as usize % below
    }
}

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
    let rows = ((after.logits - before.logits) / 2) as usize;
    assert!(rows < f.wanted.iter().filter(|&&wanted| wanted != 0).count());
    let reused = (after.reused - before.reused) / 2;
    assert!(reused < f.tokens.len() as u64, "the last token of some path was never run");
    // Where less than half was kept, all of it is run.
    assert!(reused == 0 || 2 * reused >= f.tokens.len() as u64, "{reused}");
    assert_eq!(reused > 0, rows > 0, "of {rows} rows it had the logits");
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

/// All tokens of the forest, each kept.
fn ran_whole(m: &mut Model, f: &Forest) -> Ran {
    let mut ran = Ran::default();
    for path in f.paths() {
        let tokens: Vec<u32> = path.iter().map(|&i| f.tokens[i]).collect();
        ran.run(m, &tokens, tokens.len(), &mut |_| 0);
    }
    ran
}

#[test]
fn what_sampling_did_not_compute_is_not_taken_from_it() {
    for (dropout, want) in [(0.3, Want { dropout_seed: Some(7), ..SCORES }), (0.0, Want { adapters: false, ..SCORES })] {
        let mut m = model("llama", 2, Level::available()[0]);
        m.add_value_head().unwrap();
        m.add_lora(4, 8.0, dropout, &["q", "v", "down"], 5).unwrap();
        randomise(&mut m);
        m.set_activation_bytes(ROOM);
        assert_eq!(m.can_keep(), dropout == 0.0);
        let f = forest(m.config().vocab);
        let ran = ran_whole(&mut m, &f);
        let from = |tokens: &[u32]| ran.longest(tokens, kept);
        let plain = learn_from(&mut m, &f.batch(1.0), want, &|_| Vec::new());
        assert!(learn_from(&mut m, &f.batch(1.0), want, &from) == plain);
        assert_eq!(m.reuse().reused, 0);
        // It was kept: what sampling did compute is taken.
        let sampled = learn_from(&mut m, &f.batch(1.0), SCORES, &from);
        assert!(m.reuse().reused > 0 && sampled != plain);
    }
}

#[test]
fn without_adapters_there_is_nothing_to_turn_off() {
    let mut m = learner("gpt2", false, Level::available()[0], false);
    let f = forest(m.config().vocab);
    let ran = ran_whole(&mut m, &f);
    let want = Want { adapters: false, ..SCORES };
    let plain = learn_from(&mut m, &f.batch(1.0), want, &|_| Vec::new());
    assert!(learn_from(&mut m, &f.batch(1.0), want, &|tokens| ran.longest(tokens, kept)) == plain);
    assert!(m.reuse().reused > 0);
}

#[test]
fn a_pass_says_all_that_it_holds() {
    let mut m = learner("llama", false, Level::available()[0], false);
    let f = forest(m.config().vocab);
    let weights = m.weights().clone();
    let held = |m: &mut Model, ran: &Ran, want: Want| {
        let pass = m.forward_from(&weights, &f.batch(1.0), want, &|tokens| ran.longest(tokens, kept)).unwrap();
        let held = pass.bytes();
        let d = vec![0.0; f.tokens.len()];
        m.backward(pass, &Derivatives { logprobs: &d, entropy: None, values: None, value_into_trunk: false }).unwrap();
        held
    };
    let want = Want { grad: true, ..WANT };
    let logits = 4 * 1072 * f.wanted.iter().filter(|&&wanted| wanted != 0).count();
    // Before the memory of a larger pass is at hand.
    let twice = held(&mut m, &Ran::default(), Want { recompute: true, ..want });
    assert!(twice < logits, "{twice}: a pass that computes twice keeps no logits");
    let whole = ran_whole(&mut m, &f);
    let nothing_missing = held(&mut m, &whole, want);
    let mut lacking = Ran::default();
    for path in f.paths() {
        let tokens: Vec<u32> = path.iter().map(|&i| f.tokens[i]).collect();
        lacking.run(&mut m, &tokens[..tokens.len() - 1], tokens.len(), &mut |_| 0);
    }
    // Keys and values of one token a path, in segments of 16, beside the page of what was run.
    let segments = f.paths().len() * m.segment_bytes(1);
    let some_missing = held(&mut m, &lacking, want);
    assert!(some_missing > nothing_missing + segments, "{some_missing} beside {nothing_missing} and {segments}");
}

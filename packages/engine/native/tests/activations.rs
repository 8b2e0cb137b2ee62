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

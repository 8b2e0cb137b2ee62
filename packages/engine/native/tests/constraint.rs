//! Replies that an automaton holds to what they may be.

mod common;
use std::sync::Arc;

use common::*;
use stateset_engine::decode::{Automaton, Constraint, Finish, Limits, Outcome, Request, Sampling, Scheduler, Vocabulary};
use stateset_engine::simd::Level;
use stateset_engine::*;

const LIMITS: Limits = Limits { slots: 4, cache_bytes: 64 << 20 };
const VOCAB: usize = 1070;
/// Spells "<c>".
const OPEN: u32 = 300;
/// Ends replies.
const STOP: u32 = 301;
/// Control tokens that the automaton has no use for.
const OTHER: u32 = 302;

fn model() -> Model {
    let mut m = Model::with_level(Config { max_positions: 2048, ..config("llama") }, 2, Level::available()[0]).unwrap();
    randomise(&mut m);
    m
}

/// Bytes first, then pairs of letters, control tokens from 300 on; what follows spells nothing.
fn spelling(token: u32) -> Vec<u8> {
    match token {
        0..=255 => vec![token as u8],
        256..=299 => vec![b'a' + (token % 3) as u8, b'a' + (token % 5) as u8],
        OPEN => b"<c>".to_vec(),
        STOP => b"<end>".to_vec(),
        OTHER => b"<o>".to_vec(),
        _ => Vec::new(),
    }
}

fn vocabulary() -> Arc<Vocabulary> {
    let (mut bytes, mut ends, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
    for token in 0..VOCAB as u32 {
        bytes.extend(spelling(token));
        ends.push(bytes.len() as u32);
        kinds.push(if token < 300 {
            1
        } else if token <= OTHER {
            2
        } else {
            0
        });
    }
    Arc::new(Vocabulary::new(bytes, ends, &kinds).unwrap())
}

/// Words until "<c>"; then letters a and b, three at least and five at most, "!", and words again.
fn automaton() -> Automaton {
    let mut states: Vec<(Vec<(u8, u8, u32)>, u8)> = vec![
        (vec![(0, b'<' - 1, 0), (b'<', b'<', 1), (b'<' + 1, 255, 0)], 3),
        (vec![(0, b'<' - 1, 0), (b'<', b'<', 1), (b'<' + 1, b'b', 0), (b'c', b'c', 2), (b'd', 255, 0)], 3),
        (vec![(0, b'<' - 1, 0), (b'<', b'<', 1), (b'=', b'=', 0), (b'>', b'>', 3), (b'?', 255, 0)], 3),
    ];
    for count in 0..=5u32 {
        let mut ranges = Vec::new();
        if count >= 3 {
            ranges.push((b'!', b'!', 0));
        }
        if count < 5 {
            ranges.push((b'a', b'b', 4 + count));
        }
        states.push((ranges, 0));
    }
    let starts = states.iter().scan(0, |at, (ranges, _)| {
        let from = *at;
        *at += ranges.len() as u32;
        Some(from)
    });
    let all: Vec<(u8, u8, u32)> = states.iter().flat_map(|(ranges, _)| ranges.clone()).collect();
    Automaton::new(
        starts.chain([all.len() as u32]).collect(),
        all.iter().flat_map(|&(low, high, _)| [low, high]).collect(),
        all.iter().map(|&(_, _, to)| to).collect(),
        states.iter().map(|&(_, flags)| flags).collect(),
    )
    .unwrap()
}

fn constraint() -> Arc<Constraint> {
    Arc::new(Constraint::new(vocabulary(), automaton()))
}

fn prompt(offset: u32) -> Vec<u32> {
    (0..20).map(|i| (i * 37 + offset) % 1070).collect()
}

/// Opens calls often, and ends sometimes.
fn request(id: u64, constraint: Option<Arc<Constraint>>) -> Request {
    let sampling = Sampling { bias: vec![(OPEN, 6.0), (STOP, 3.0)], ..stateset_engine::decode::PLAIN };
    Request { sampling, stop_tokens: vec![STOP], constraint, ..Request::plain(id, prompt(id as u32), 60) }
}

fn run(m: &mut Model, requests: Vec<Request>) -> Vec<Outcome> {
    let mut scheduler = Scheduler::new(LIMITS);
    requests.into_iter().for_each(|request| scheduler.submit(m, request).unwrap());
    let mut done = Vec::new();
    while !scheduler.idle() {
        done.extend(scheduler.step(m).finished.into_iter().map(|outcome| outcome.unwrap()));
    }
    done.sort_by_key(|outcome| outcome.id);
    done
}

fn bits(outcome: &Outcome) -> Vec<(u32, u32)> {
    outcome.drawn.iter().map(|drawn| (drawn.token, drawn.logprob.to_bits())).collect()
}

/// How many calls a reply holds, each of which must be a whole one unless the limit cut it.
fn check(outcome: &Outcome) -> usize {
    let text: Vec<u8> = outcome.drawn.iter().flat_map(|drawn| spelling(drawn.token)).collect();
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut calls = 0;
    for (at, part) in text.split("<c>").skip(1).enumerate() {
        let letters = part.chars().take_while(|char| matches!(char, 'a' | 'b')).count();
        let last = at + 2 == text.split("<c>").count();
        if last && part.len() == letters {
            assert!(letters <= 5 && outcome.finish == Finish::Length, "{part}");
            continue;
        }
        assert!((3..=5).contains(&letters) && part.as_bytes()[letters] == b'!', "{text}");
        calls += 1;
    }
    calls
}

#[test]
fn a_call_is_what_it_may_be_and_words_are_free_around_it() {
    let mut m = model();
    let constraint = constraint();
    let done = run(&mut m, (1..40).map(|id| request(id, Some(constraint.clone()))).collect());
    let calls: usize = done.iter().map(check).sum();
    assert!(calls > 50, "{calls}");
    assert!(done.iter().any(|outcome| outcome.finish == Finish::Stop));
}

#[test]
fn without_a_constraint_and_where_it_takes_nothing_away_bits_are_the_same() {
    let mut m = model();
    let plain = run(&mut m, (1..12).map(|id| Request { sampling: stateset_engine::decode::PLAIN, ..request(id, None) }).collect());
    // Everything is free: one state, any byte.
    let free = Automaton::new(vec![0, 1], vec![0, 255], vec![0], vec![3]).unwrap();
    let free = Arc::new(Constraint::new(vocabulary(), free));
    let held =
        run(&mut m, (1..12).map(|id| Request { sampling: stateset_engine::decode::PLAIN, ..request(id, Some(free.clone())) }).collect());
    for (a, b) in plain.iter().zip(&held) {
        assert_eq!(bits(a), bits(b));
        assert!(a.drawn.iter().all(|drawn| drawn.masked.is_none()));
        assert!(b.drawn.iter().all(|drawn| drawn.masked.is_some_and(|one| !one.forced && one.removed == 0.0)));
    }
}

#[test]
fn a_reply_depends_on_itself_alone_whoever_decodes_beside_it() {
    let mut m = model();
    let constraint = constraint();
    let mixed: Vec<Request> = (1..12).map(|id| request(id, (id % 2 == 0).then(|| constraint.clone()))).collect();
    let together = run(&mut m, mixed);
    for outcome in &together {
        let id = outcome.id;
        // Its masks made anew, too.
        let alone = run(&mut m, vec![request(id, (id % 2 == 0).then(self::constraint))]);
        assert_eq!(bits(outcome), bits(&alone[0]));
        assert_eq!(outcome.drawn, alone[0].drawn);
    }
}

#[test]
fn forced_tokens_and_what_was_taken_away_are_told_and_log_probs_are_of_the_whole() {
    let mut m = model();
    let constraint = constraint();
    let done = run(&mut m, (1..30).map(|id| request(id, Some(constraint.clone()))).collect());
    let mut seen = (0, 0);
    for outcome in &done {
        // Letters that were written since the opening; none: words.
        let mut letters: Option<usize> = None;
        let mut text: Vec<u8> = Vec::new();
        for (at, drawn) in outcome.drawn.iter().enumerate() {
            let masked = drawn.masked.unwrap();
            let context: Vec<u32> = prompt(outcome.id as u32).into_iter().chain(outcome.drawn[..at].iter().map(|d| d.token)).collect();
            let row = log_probs(&mut m, &context);
            assert_eq!(drawn.logprob.to_bits(), row[drawn.token as usize].to_bits());
            let fits = |token: u32| match letters {
                None => true,
                Some(count) => {
                    let spelt = spelling(token);
                    let own = spelt.iter().take_while(|byte| matches!(byte, b'a' | b'b')).count();
                    let over = own < spelt.len() && spelt[own] == b'!' && (3..=5).contains(&(count + own));
                    token < 300 && count + own <= 5 && (own == spelt.len() || (over && own + 1 == spelt.len()))
                }
            };
            if letters.is_some() {
                let left = (0..VOCAB as u32).filter(|&token| fits(token)).count();
                let gone: f64 = (0..VOCAB as u32).filter(|&token| !fits(token)).map(|token| (row[token as usize] as f64).exp()).sum();
                assert!(fits(drawn.token));
                assert_eq!(masked.forced, left == 1);
                assert!((masked.removed as f64 - gone).abs() < 1e-5, "{} {gone}", masked.removed);
                seen = (seen.0 + 1, seen.1 + usize::from(masked.forced));
            }
            for byte in spelling(drawn.token) {
                text.push(byte);
                letters = match letters {
                    None => text.ends_with(b"<c>").then_some(0),
                    Some(_) if byte == b'!' => None,
                    Some(count) => Some(count + 1),
                };
            }
        }
    }
    assert!(seen.0 > 200 && seen.1 > 10, "{seen:?}");
}

fn log_probs(m: &mut Model, context: &[u32]) -> Vec<f32> {
    let segment = m.new_segment(context.len()).unwrap();
    let mut logits = Vec::new();
    m.infer(&[Chunk { path: &[], segment: &segment, tokens: context, want_logits: Some(1.0), want_hidden: false }], &mut logits).unwrap();
    let row = m.log_softmax(&logits, 1.0);
    logits.iter().map(|&logit| row.at(logit)).collect()
}

#[test]
fn a_cancelled_reply_leaves_the_others_as_they_are() {
    let mut m = model();
    let constraint = constraint();
    let mut scheduler = Scheduler::new(LIMITS);
    for id in 1..4 {
        scheduler.submit(&m, request(id, Some(constraint.clone()))).unwrap();
    }
    let mut done = Vec::new();
    for step in 0..200 {
        if step == 7 {
            assert_eq!(scheduler.cancel(2).unwrap().finish, Finish::Cancelled);
        }
        done.extend(scheduler.step(&mut m).finished.into_iter().map(|outcome| outcome.unwrap()));
    }
    for outcome in &done {
        assert_eq!(bits(outcome), bits(&run(&mut m, vec![request(outcome.id, Some(constraint.clone()))])[0]));
    }
    assert_eq!(done.len(), 2);
}

#[test]
fn where_nothing_is_left_it_says_so_and_the_end_comes_before_a_smallest_length() {
    let mut m = model();
    // Only "q", twice, and then the end.
    let table = |flags: Vec<u8>| Automaton::new(vec![0, 1, 2, 2], vec![b'q', b'q', b'q', b'q'], vec![1, 2], flags).unwrap();
    let held = |flags| Some(Arc::new(Constraint::new(vocabulary(), table(flags))));
    let ended = run(&mut m, vec![Request { min_tokens: 9, ..request(1, held(vec![0, 0, 2])) }]);
    assert_eq!(ended[0].drawn.iter().map(|drawn| drawn.token).collect::<Vec<_>>(), [b'q' as u32, b'q' as u32, STOP]);
    assert!(ended[0].drawn.iter().all(|drawn| drawn.masked.unwrap().forced));
    let mut scheduler = Scheduler::new(LIMITS);
    scheduler.submit(&m, request(1, held(vec![0, 0, 0]))).unwrap();
    let error = (0..4).flat_map(|_| scheduler.step(&mut m).finished).next().unwrap().unwrap_err();
    assert_eq!(error.1.code, "CONSTRAINT_STUCK");
    let small = Arc::new(Vocabulary::new(vec![97], vec![1], &[1]).unwrap());
    let other = Some(Arc::new(Constraint::new(small, table(vec![0, 0, 2]))));
    assert_eq!(scheduler.submit(&m, request(2, other)).unwrap_err().code, "INVALID_INPUT");
}

#[test]
fn a_stop_token_that_spells_the_end_of_a_call_may_end_the_reply_there() {
    let mut m = model();
    let constraint = constraint();
    let asked = |id| Request { stop_tokens: vec![STOP, b'!' as u32], ..request(id, Some(constraint.clone())) };
    let done = run(&mut m, (1..40).map(asked).collect());
    for outcome in done.iter().filter(|outcome| outcome.finish == Finish::Stop) {
        check(outcome);
    }
    let last = |outcome: &Outcome| outcome.drawn.last().map(|drawn| drawn.token);
    assert!(done.iter().any(|outcome| last(outcome) == Some(b'!' as u32) && outcome.drawn.iter().any(|d| d.token == OPEN)));
}

#[test]
fn what_is_no_automaton_is_refused() {
    for (starts, ranges, targets, flags) in [
        (vec![0], vec![], vec![], vec![]),
        (vec![0, 1], vec![0, 255], vec![1], vec![0]),
        (vec![0, 1], vec![0], vec![0], vec![0]),
        (vec![0, 2], vec![0, 255], vec![0], vec![0]),
        (vec![1, 0], vec![0, 255], vec![0], vec![0]),
    ] {
        assert!(Automaton::new(starts, ranges, targets, flags).is_err());
    }
}

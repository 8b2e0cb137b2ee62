//! Rule 3: the same bits whatever the batch, the threads, the instruction set, sampling or scoring.

mod common;
use common::*;
use stateset_engine::simd::Level;
use stateset_engine::*;
use std::sync::Arc;

/// Log-probs of every token of `sequences` as sampling would record them: prefill `prompt`, then one token at a time.
fn decode(model: &mut Model, sequences: &[Vec<u32>], prompt: usize, share: bool, temperature: f32) -> Vec<Vec<f32>> {
    let vocab = model.config().vocab;
    let mut logits = Vec::new();
    let mut result = vec![Vec::new(); sequences.len()];
    let shared = model.new_segment(prompt).unwrap();
    let segments: Vec<Arc<KvSegment>> = sequences.iter().map(|s| model.new_segment(s.len()).unwrap()).collect();
    // With sharing, all but the prompt's last token are computed once and attached at that offset.
    let used = prompt - 1;
    if share {
        let chunk = Chunk { path: &[], segment: &shared, tokens: &sequences[0][..prompt], want_logits: None, want_hidden: false };
        model.infer(&[chunk], &mut logits).unwrap();
    }
    let path = if share { vec![KvSpan { segment: shared.clone(), used }] } else { vec![] };
    let longest = sequences.iter().map(|s| s.len()).max().unwrap();
    for position in prompt..longest {
        let live: Vec<usize> = (0..sequences.len()).filter(|&i| sequences[i].len() > position).collect();
        let chunks: Vec<Chunk> = live
            .iter()
            .map(|&i| {
                let from = if position > prompt {
                    position - 1
                } else if share {
                    used
                } else {
                    0
                };
                Chunk {
                    path: &path,
                    segment: &segments[i],
                    tokens: &sequences[i][from..position],
                    want_logits: Some(1.0),
                    want_hidden: false,
                }
            })
            .collect();
        model.infer(&chunks, &mut logits).unwrap();
        for (row, &i) in live.iter().enumerate() {
            let row = &logits[row * vocab..(row + 1) * vocab];
            result[i].push(model.log_softmax_at(row, temperature, sequences[i][position]));
        }
    }
    result
}

fn score(model: &mut Model, sequences: &[Vec<u32>], prompt: usize, tree: bool, temperature: f32) -> Vec<Vec<f32>> {
    let (mut tokens, mut start, mut parent) = (Vec::new(), vec![0u32], Vec::new());
    if tree {
        tokens.extend(&sequences[0][..prompt]);
        start.push(prompt as u32);
        parent.push(-1);
    }
    for s in sequences {
        tokens.extend(if tree { &s[prompt..] } else { &s[..] });
        start.push(tokens.len() as u32);
        parent.push(if tree { 0 } else { -1 });
    }
    let wanted = vec![1; tokens.len()];
    let batch = TreeBatch { tokens: &tokens, node_start: &start, node_parent: &parent, wanted: &wanted, temperature };
    let pass = model.forward(&batch, WANT).unwrap();
    let first = usize::from(tree);
    (0..sequences.len())
        .map(|i| {
            let from = start[first + i] as usize + if tree { 0 } else { prompt };
            pass.logprobs[from..start[first + i + 1] as usize].to_vec()
        })
        .collect()
}

fn sequences(count: usize, vocab: usize, prompt: usize) -> Vec<Vec<u32>> {
    (0..count)
        .map(|i| {
            (0..prompt + 3 + i % 5)
                .map(|t| {
                    let stream = if t < prompt { 7 } else { 100 + i as u64 };
                    ((uniform(stream, t) * 0.5 + 0.5) * vocab as f32) as u32 % vocab as u32
                })
                .collect()
        })
        .collect()
}

#[test]
fn sampled_log_probs_are_the_scored_ones_for_any_batch_threads_prefix_and_simd() {
    check(&Level::available(), false);
}

#[test]
fn sampled_log_probs_are_the_scored_ones_on_the_amx_unit() {
    if stateset_engine::gemm::amx_available() {
        check(&Level::available()[..1], true);
    } else {
        eprintln!("no AMX on this machine: nothing to check");
    }
}

#[test]
fn sampled_log_probs_under_adapters_of_rank_32_are_the_scored_ones_before_and_after_a_step() {
    for amx in [false, stateset_engine::gemm::amx_available()] {
        let mut m = model("qwen3", 2, Level::available()[0]);
        m.set_amx(amx);
        m.add_lora(32, 8.0, 0.0, &["q", "k", "o", "up", "down"], 5).unwrap();
        common::randomise(&mut m);
        let s = sequences(3, 1070, 19);
        for _ in 0..2 {
            let sampled: Vec<Vec<u32>> = decode(&mut m, &s, 19, true, 1.0).iter().map(|x| bits(x)).collect();
            let scored: Vec<Vec<u32>> = score(&mut m, &s, 19, true, 1.0).iter().map(|x| bits(x)).collect();
            assert_eq!(sampled, scored, "amx {amx}");
            // What was split belongs to the weights it was made from.
            learn(&mut m);
            assert_ne!(sampled, score(&mut m, &s, 19, true, 1.0).iter().map(|x| bits(x)).collect::<Vec<_>>());
        }
    }
}

#[test]
fn the_amx_unit_scores_to_the_precision_of_f32() {
    for flavour in FLAVOURS {
        let scores = [false, true].map(|amx| {
            let mut m = model(flavour, 2, Level::available()[0]);
            m.set_amx(amx);
            score(&mut m, &sequences(3, 1070, 19), 19, true, 1.0).concat()
        });
        let worst = scores[0].iter().zip(&scores[1]).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        assert!(worst < 5e-6, "{flavour}: {worst}");
    }
}

fn check(levels: &[Level], amx: bool) {
    for flavour in FLAVOURS {
        for temperature in [1.0, 0.7] {
            // The AMX unit takes up to 16 rows, up to 32, and more in three different ways.
            let all = sequences(if amx { 40 } else { 16 }, 1070, 19);
            let mut reference: Option<Vec<Vec<u32>>> = None;
            for &level in levels {
                for threads in [1, 2] {
                    let mut m = model(flavour, threads, level);
                    m.set_amx(amx);
                    // The scalar path is slow: fewer sequences.
                    let counts: &[usize] = if level == Level::Scalar {
                        &[3]
                    } else if amx {
                        &[1, 3, 16, 20, 40]
                    } else {
                        &[1, 3, 16]
                    };
                    for &count in counts {
                        let s = &all[..count];
                        let results = [
                            decode(&mut m, s, 19, false, temperature),
                            decode(&mut m, s, 19, true, temperature),
                            score(&mut m, s, 19, false, temperature),
                            score(&mut m, s, 19, true, temperature),
                        ];
                        for (case, r) in results.iter().enumerate() {
                            let r: Vec<Vec<u32>> = r.iter().map(|x| bits(x)).collect();
                            let expected = reference.get_or_insert_with(|| r.clone());
                            for i in 0..count.min(expected.len()) {
                                assert_eq!(
                                    expected[i], r[i],
                                    "{flavour} {level:?} threads {threads} count {count} case {case} sequence {i}"
                                );
                            }
                            if r.len() > expected.len() {
                                *expected = r;
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn scoring_a_few_tokens_gives_the_bits_of_scoring_all_with_or_without_gradients() {
    for flavour in FLAVOURS {
        let mut m = model(flavour, 2, Level::available()[0]);
        m.add_lora(4, 8.0, 0.0, &["q", "k", "o", "up"], 5).unwrap();
        common::randomise(&mut m);
        let f = forest(m.config().vocab);
        let all = vec![1u8; f.tokens.len()];
        let complete =
            m.forward(&TreeBatch { wanted: &all, ..f.batch(1.0) }, Want { values: false, hidden: true, ..WANT }).unwrap().logprobs;
        let trained = m.forward(&f.batch(1.0), Want { grad: true, ..WANT }).unwrap().logprobs;
        let few: Vec<u8> = (0..f.tokens.len()).map(|i| u8::from(i == 5 || i == 10 || i == 11 || i > 50)).collect();
        let some = m.forward(&TreeBatch { wanted: &few, ..f.batch(1.0) }, WANT).unwrap().logprobs;
        for i in 0..f.tokens.len() {
            let expected = |wanted: u8| if wanted != 0 { complete[i].to_bits() } else { 0 };
            assert_eq!(trained[i].to_bits(), expected(f.wanted[i]), "{flavour} token {i}");
            assert_eq!(some[i].to_bits(), expected(few[i]), "{flavour} token {i}");
        }
    }
}

#[test]
fn weights_after_steps_do_not_depend_on_threads_or_simd() {
    for flavour in ["gpt2", "qwen3"] {
        for (lora, precision) in [(false, Precision::F32), (true, Precision::F32), (false, Precision::Bf16)] {
            let mut reference: Option<Vec<u32>> = None;
            for level in Level::available() {
                for threads in [1, 2, 3] {
                    let mut m = model(flavour, threads, level);
                    m.set_moment_precision(precision).unwrap();
                    if lora {
                        m.add_lora(4, 8.0, 0.1, &["q", "v", "o", "up", "down"], 5).unwrap();
                    } else {
                        m.set_trainable(Trainable::Full).unwrap();
                    }
                    let f = forest(m.config().vocab);
                    for step in 0..2 {
                        let pass = m.forward(&f.batch(1.0), Want { grad: true, dropout_seed: Some(step), ..WANT }).unwrap();
                        let d: Vec<f32> = (0..f.tokens.len()).map(|i| uniform(3, i)).collect();
                        m.backward(pass, &Derivatives { logprobs: &d, entropy: None, values: None, value_into_trunk: false }).unwrap();
                        m.step(&STEP).unwrap();
                    }
                    let now = bits(&m.read_flat(Flat::Parameters).unwrap());
                    assert_eq!(
                        *reference.get_or_insert_with(|| now.clone()),
                        now,
                        "{flavour} lora {lora} {precision:?} {level:?} threads {threads}"
                    );
                }
            }
        }
    }
}

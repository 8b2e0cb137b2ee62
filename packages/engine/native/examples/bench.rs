//! `cargo run --release --example bench -- gemm|train|lora|shared|grpo|reuse|reuse-lora|decode|prefill|beside [gpt2|smol|starter] [threads] [forms] [batches]`,
//! such as `decode smol 2 f32,bf16,q8_0 1,16`; more than one form or batch with `decode` and `prefill` alone, ROUNDS as often.
//! Times are CPU seconds of the process, so that a busy machine distorts them less.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "parts/reuse.rs"]
mod reuse;
#[path = "parts/shapes.rs"]
mod shapes;

use common::{STEP, WANT};
use shapes::config;
use stateset_engine::buffer::Buffer;
use stateset_engine::form::Form;
use stateset_engine::gemm::{Exec, GradInput, GradWeight, Job, Mode, forward, grad_input, grad_weight};
use stateset_engine::kernel::counter_uniform;
use stateset_engine::simd::Instructions;
use stateset_engine::*;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}
unsafe extern "C" {
    fn clock_gettime(clock: i32, to: *mut Timespec) -> i32;
}

fn cpu() -> f64 {
    let mut t = Timespec { seconds: 0, nanoseconds: 0 };
    unsafe { clock_gettime(2, &mut t) };
    t.seconds as f64 + t.nanoseconds as f64 * 1e-9
}

fn best(rounds: usize, mut f: impl FnMut()) -> (f64, f64) {
    f();
    let (mut cpu_best, mut wall_best) = (f64::MAX, f64::MAX);
    for _ in 0..rounds {
        let (c, w) = (cpu(), std::time::Instant::now());
        f();
        cpu_best = cpu_best.min(cpu() - c);
        wall_best = wall_best.min(w.elapsed().as_secs_f64());
    }
    (cpu_best, wall_best)
}

/// Aligned, as the engine's own buffers are.
fn noise(n: usize) -> Buffer {
    let mut buffer = Buffer::zeroed(n, "noise").unwrap();
    for (i, v) in buffer.iter_mut().enumerate() {
        *v = counter_uniform(1, 2, i as u64) - 0.5;
    }
    buffer
}

/// Multiply-adds per second with everything in registers: what the core can do at this moment.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn register_fma(rounds: usize) -> f32 {
    use std::arch::x86_64::*;
    let mut acc = [_mm512_set1_ps(0.0); 16];
    let (a, b) = (_mm512_set1_ps(std::hint::black_box(0.5)), _mm512_set1_ps(std::hint::black_box(0.25)));
    for _ in 0..rounds {
        for x in &mut acc {
            *x = _mm512_fmadd_ps(a, *x, b);
        }
    }
    acc.iter().map(|x| _mm512_reduce_add_ps(*x)).sum()
}

fn peak() -> f64 {
    let rounds = 2_000_000;
    let (c, _) = best(3, || {
        std::hint::black_box(unsafe { register_fma(rounds) });
    });
    2.0 * 16.0 * 16.0 * rounds as f64 / c / 1e9
}

fn gemm(threads: usize) {
    let Instructions { level, amx, pairs } = Instructions::choose().unwrap();
    let mut exec = Exec::new(level, threads);
    exec.set_amx(amx);
    exec.set_pairs(pairs);
    let rounds = 8;
    for (m, k, n) in [
        (1024usize, 768usize, 768usize),
        (1024, 768, 3072),
        (1024, 3072, 768),
        (1024, 320, 320),
        (1024, 320, 864),
        (1024, 864, 320),
        (1024, 768, 8),
        (16, 768, 3072),
        (16, 3072, 768),
        (16, 320, 864),
        (4, 768, 3072),
        (1, 768, 3072),
    ] {
        let (x, w, mut y, mut dw) =
            (noise(m * k), noise(n.next_multiple_of(16) * k), noise(m * n.next_multiple_of(16)), noise(n.next_multiple_of(16) * k));
        let np = n.next_multiple_of(16);
        let mut dx = noise(m * k);
        let flop = 2.0 * (m * k * n) as f64 / 1e9;
        let reps = (0.2 / flop).ceil().min(2000.0) as usize;
        let job = Job::of(w.as_ptr(), n, y.as_mut_ptr(), np);
        let f = best(rounds, || {
            for _ in 0..reps {
                unsafe { forward(&mut exec, x.as_ptr(), k, m, k, &[job]).unwrap() }
            }
        });
        let back = GradInput::of(w.as_ptr(), n, y.as_ptr(), np);
        let weight = GradWeight { dy: y.as_ptr(), dy_row: np, n, dw: dw.as_mut_ptr() };
        let [(i, g), (i16, g16)] = [Precision::F32, Precision::Bf16].map(|precision| {
            exec.gradients = precision;
            let of_input = best(rounds, || {
                for _ in 0..reps {
                    unsafe { grad_input(&mut exec, &[back], m, k, dx.as_mut_ptr(), k, Mode::Set).unwrap() }
                }
            });
            let of_weight = best(rounds, || {
                for _ in 0..reps {
                    unsafe { grad_weight(&mut exec, x.as_ptr(), k, m, k, &[weight]).unwrap() }
                }
            });
            (of_input, of_weight)
        });
        let rates = [("forward", f), ("dx", i), ("dw", g), ("bf16 dx", i16), ("dw", g16)].map(|(what, t)| {
            let rate = |seconds| flop * reps as f64 / seconds;
            format!("{what} {:6.0} ({:6.0} wall)", rate(t.0), rate(t.1))
        });
        println!("peak {:4.0}; m {m:5} k {k:5} n {n:5}: {}", peak(), rates.join(" "));
    }
}

/// With its matrices in this form; those of blocks hold noise that a file might.
fn model(shape: &str, threads: usize, form: Form) -> Model {
    let c = config(shape);
    let whole = Model::new(Config { layers: 1, ..c.clone() }, 1).unwrap();
    let is_matrix = |name: &str| name == "embed" || name == "head" || name.ends_with(".weight") && !name.contains("norm");
    let last = |name: &str| name.rsplit_once("layers.0.").map_or(name.to_string(), |(_, rest)| rest.to_string());
    let names = whole.tensors().into_iter().filter(|spec| is_matrix(&spec.name)).map(|spec| spec.name);
    let forms: Forms = names
        .flat_map(|name| {
            if name.starts_with("layers.") { (0..c.layers).map(|i| format!("layers.{i}.{}", last(&name))).collect() } else { vec![name] }
        })
        .map(|name| (name, form))
        .collect();
    let mut m = Model::with_forms(c, threads, &forms).unwrap();
    let mut staged = m.stage(stateset_engine::model::Purpose::Present);
    for (s, spec) in m.tensors().iter().enumerate() {
        if is_matrix(&spec.name) && form.blocks().is_some() {
            let bytes = spec.rows * stateset_engine::form::file_row(form, spec.cols);
            // No byte above 0x1c, so that no scale is infinite.
            let data: Vec<u8> = (0..bytes).map(|i| (28.0 * counter_uniform(9, s as u64, i as u64)) as u8).collect();
            m.stage_tensor(&mut staged, &spec.name, Values::Bytes(&data), true).unwrap();
        }
    }
    m.commit(staged).unwrap();
    for (s, spec) in m.tensors().iter().enumerate() {
        if !spec.name.contains("norm") && !(is_matrix(&spec.name) && form.blocks().is_some()) {
            let data: Vec<f32> = (0..spec.rows * spec.cols).map(|i| 0.07 * (counter_uniform(9, s as u64, i as u64) - 0.5)).collect();
            m.set_tensor(&spec.name, &data).unwrap();
        }
    }
    m
}

/// Milliseconds of a decoding step of eight replies when every eighth is followed by a training pass, with the AMX unit's copy of the
/// weights kept for the replies and with its memory taken by each pass.
fn beside(m: &mut Model, token: impl Fn(usize) -> u32) {
    m.set_trainable(Trainable::Full).unwrap();
    let (replies, length) = (8, 128);
    let (tokens, d) = ((0..1024).map(&token).collect::<Vec<u32>>(), vec![1e-3; 1024]);
    let start = [0, 256, 512, 768, 1024];
    let batch = TreeBatch { tokens: &tokens, node_start: &start, node_parent: &[-1; 4], wanted: &[1; 1024], temperature: 1.0 };
    for keep in [true, false, true, false] {
        let segments: Vec<_> = (0..replies).map(|_| m.new_segment(length).unwrap()).collect();
        let (mut logits, mut decoding, mut training) = (Vec::new(), 0.0, 0.0);
        for t in 0..length {
            let chunks: Vec<Chunk> = segments
                .iter()
                .map(|segment| Chunk { path: &[], segment, tokens: &tokens[t..t + 1], want_logits: Some(1.0), want_hidden: false })
                .collect();
            let w0 = std::time::Instant::now();
            m.infer(&chunks, &mut logits).unwrap();
            decoding += w0.elapsed().as_secs_f64();
            if t % 8 == 7 {
                let w0 = std::time::Instant::now();
                if !keep {
                    let weights = m.weights().clone();
                    m.reclaim_split(&weights);
                }
                let pass = m.forward(&batch, Want { grad: true, ..WANT }).unwrap();
                m.backward(pass, &Derivatives { logprobs: &d, entropy: None, values: None, value_into_trunk: false }).unwrap();
                training += w0.elapsed().as_secs_f64();
            }
        }
        let (decoding, training) = (1e3 * decoding / length as f64, 8e3 * training / length as f64);
        let megabytes = m.memory_bytes() as f64 / 1e6;
        println!("{}: {decoding:.3} ms a step, {training:.1} ms a pass, {megabytes:.0} MB", if keep { "kept" } else { "taken" });
    }
}

/// Tokens a second in each of several forms. They take turns, step by step, and the fastest step of each counts: on a busy machine
/// some of them fall between two interruptions.
fn infer(what: &str, shape: &str, threads: usize, forms: &[Form], batches: &[usize]) {
    let mut models: Vec<Model> = forms.iter().map(|&form| model(shape, threads, form)).collect();
    let vocab = models[0].config().vocab as u64;
    let token = |i: usize| (stateset_engine::kernel::counter_random(5, 5, i as u64) % vocab) as u32;
    let rounds: usize = std::env::var("ROUNDS").map_or(if what == "decode" { 32 } else { 4 }, |r| r.parse().unwrap());
    for &batch in batches {
        let (prompt, step) = if what == "decode" { (32, 1) } else { (0, 512) };
        // One token after another of the same sequences, or ever new sequences from their beginning.
        let (length, moves) = if prompt > 0 { (prompt + rounds, 1) } else { (step, 0) };
        let tokens: Vec<Vec<u32>> = (0..batch).map(|b| (0..length).map(|i| token(b * 977 + i)).collect()).collect();
        let begin = |m: &Model| (0..batch).map(|_| m.new_segment(length).unwrap()).collect::<Vec<_>>();
        let mut segments: Vec<Vec<_>> = models.iter().map(begin).collect();
        let mut fastest = vec![(f64::MAX, f64::MAX); forms.len()];
        let mut out = Inferred::default();
        let mut run = |m: &mut Model, segments: &[std::sync::Arc<KvSegment>], from: usize, to: usize| {
            let chunk = |b: usize| Chunk {
                path: &[],
                segment: &segments[b],
                tokens: &tokens[b][from..to],
                want_logits: Some(1.0),
                want_hidden: false,
            };
            let weights = m.weights().clone();
            m.infer_on(&weights, &(0..batch).map(chunk).collect::<Vec<_>>(), &mut out).unwrap();
        };
        for (m, segments) in models.iter_mut().zip(&segments).filter(|_| prompt > 0) {
            run(m, segments, 0, prompt);
        }
        for round in 0..rounds {
            for (of, m) in models.iter_mut().enumerate() {
                if prompt == 0 {
                    segments[of] = begin(m);
                }
                let (c, w) = (cpu(), std::time::Instant::now());
                let at = prompt + moves * round;
                run(m, &segments[of], at, at + step);
                fastest[of] = (fastest[of].0.min(cpu() - c), fastest[of].1.min(w.elapsed().as_secs_f64()));
            }
        }
        let made = (batch * step) as f64;
        let rate = |(form, (c, w)): (&Form, &(f64, f64))| format!("{} {:.0} ({:.0})", form.name(), made / w, threads as f64 * made / c);
        println!("batch {batch}: {}", forms.iter().zip(&fastest).map(rate).collect::<Vec<_>>().join(", "));
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let get = |i: usize, default: &str| arguments.get(i).cloned().unwrap_or(default.into());
    let (what, shape) = (get(1, "gemm"), get(2, "gpt2"));
    let threads: usize = get(3, "2").parse().unwrap();
    if what == "gemm" {
        return gemm(threads);
    }
    if what == "decode" || what == "prefill" {
        let forms: Vec<Form> = get(4, "f32").split(',').map(|name| Form::of(name).unwrap()).collect();
        let batches = get(5, if what == "decode" { "1,4,8,16,48" } else { "1" });
        println!("{what} {shape} on {threads} threads: tokens a second of wall time (of CPU time)");
        return infer(&what, &shape, threads, &forms, &batches.split(',').map(|b| b.parse().unwrap()).collect::<Vec<_>>());
    }
    let form = Form::of(&get(4, "f32")).unwrap();
    let mut m = model(&shape, threads, form);
    let vocab = m.config().vocab as u64;
    let token = |i: usize| (stateset_engine::kernel::counter_random(5, 5, i as u64) % vocab) as u32;
    println!("{what} {shape} in {} on {} threads, {}, {} MB", form.name(), m.threads(), m.simd_name(), m.memory_bytes() >> 20);
    match what.as_str() {
        "beside" => beside(&mut m, token),
        _ => {
            let learns = |m: &mut Model| {
                if what.ends_with("lora") {
                    m.add_lora(8, 16.0, 0.0, &["q", "k", "v", "o", "up", "down"], 1).unwrap();
                } else {
                    m.set_trainable(Trainable::Full).unwrap();
                }
            };
            learns(&mut m);
            if what.starts_with("reuse") {
                let mut other = model(&shape, threads, form);
                learns(&mut other);
                return reuse::reuse([m, other], token, get(5, "32").parse().unwrap());
            }
            let (start, parent): (Vec<u32>, Vec<i32>) = if what == "grpo" {
                // A system prompt, four questions, eight replies each.
                let lengths: Vec<u32> = [14].into_iter().chain([17; 4]).chain([48; 32]).collect();
                let start = (0..=lengths.len()).map(|i| lengths[..i].iter().sum()).collect();
                (
                    start,
                    (0..37)
                        .map(|i| {
                            if i == 0 {
                                -1
                            } else if i < 5 {
                                0
                            } else {
                                1 + (i - 5) / 8
                            }
                        })
                        .collect(),
                )
            } else if what == "shared" {
                (
                    (0..=17).map(|i| if i == 0 { 0 } else { 900 + 64 * (i - 1) }).collect(),
                    (0..17).map(|i| if i == 0 { -1 } else { 0 }).collect(),
                )
            } else {
                ((0..=4).map(|i| i * 256).collect(), vec![-1; 4])
            };
            let n = start[start.len() - 1] as usize;
            let tokens: Vec<u32> = (0..n).map(token).collect();
            let prompt = match what.as_str() {
                "shared" => 900,
                "grpo" => 82,
                _ => 0,
            };
            let wanted: Vec<u8> = (0..n).map(|i| u8::from(i >= prompt)).collect();
            let batch = TreeBatch { tokens: &tokens, node_start: &start, node_parent: &parent, wanted: &wanted, temperature: 1.0 };
            let want = Want { grad: true, ..WANT };
            let d = vec![1.0 / n as f32; n];
            let options = StepOptions { learning_rate: 1e-5, ..STEP };
            let (mut parts, mut total, mut wall) = ([f64::MAX; 3], f64::MAX, f64::MAX);
            let rounds: usize = std::env::var("ROUNDS").map_or(4, |r| r.parse().unwrap());
            for _ in 0..rounds {
                let (c0, w0) = (cpu(), std::time::Instant::now());
                let pass = m.forward(&batch, want).unwrap();
                let c1 = cpu();
                m.backward(pass, &Derivatives { logprobs: &d, entropy: None, values: None, value_into_trunk: false }).unwrap();
                let c2 = cpu();
                m.step(&options).unwrap();
                let c3 = cpu();
                for (p, t) in parts.iter_mut().zip([c1 - c0, c2 - c1, c3 - c2]) {
                    *p = p.min(t);
                }
                total = total.min(c3 - c0);
                wall = wall.min(w0.elapsed().as_secs_f64());
            }
            println!(
                "{n} tokens: {wall:.3} s wall, {total:.3} s CPU (forward {:.3}, backward {:.3}, step {:.3}); {:.0} tokens/s wall, {:.0} per 2 CPU seconds; {:.0} MB",
                parts[0],
                parts[1],
                parts[2],
                n as f64 / wall,
                2.0 * n as f64 / total,
                m.memory_bytes() as f64 / 1e6
            );
        }
    }
}

//! Weights kept smaller than f32 compute what the same numbers in f32 compute, to the bit.

mod common;
use common::*;
use stateset_engine::form::{Form, Matrix, decode, pack_bytes};
use stateset_engine::gemm::{Exec, Job, Mode, forward};
use stateset_engine::kernel::counter_uniform;
use stateset_engine::simd::Level;
use stateset_engine::*;

const SMALL: [&str; 10] = ["bf16", "f16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k"];

/// Rows of 256 and 512 columns, so that every form fits; more outputs than a panel has, not a multiple of it.
fn shape(tied: bool) -> Config {
    Config { hidden: 256, inter: 512, heads: 4, head_dim: 64, kv_heads: 2, vocab: 1070, layers: 1, tied, ..config("llama") }
}

fn matrices(c: &Config) -> Vec<String> {
    let mut names = vec!["embed".to_string()];
    if !c.tied {
        names.push("head".into());
    }
    for i in 0..c.layers {
        names.extend(["q", "k", "v", "o", "gate", "up", "down"].map(|t| format!("layers.{i}.{t}.weight")));
    }
    names
}

/// Bytes as a file might hold them: anything, but for the places of two-byte floats, which get small finite ones.
fn file_bytes(form: Form, rows: usize, cols: usize, stream: u64) -> Vec<u8> {
    let steps = form.blocks().map_or(1, |b| b.steps());
    let record = stateset_engine::form::file_row(form, cols) / (cols / steps);
    let mut bytes: Vec<u8> = (0..rows * cols / steps * record).map(|i| (counter_uniform(7, stream, i as u64) * 256.0) as u8).collect();
    let scales: &[usize] = match form {
        Form::Bf16 | Form::F16 | Form::Q8_0 | Form::Q4_0 | Form::Q5_0 => &[0],
        Form::Q6K => &[208],
        _ => &[0, 2],
    };
    for (r, record) in bytes.chunks_exact_mut(record).enumerate() {
        for &at in scales {
            // Two thirds of all signs and sizes near 2⁻⁸; bf16 near 2⁻⁴.
            let sign = (counter_uniform(8, stream, r as u64) > 0.66) as u8 * 0x80;
            record[at + 1] = sign | if form == Form::Bf16 { 0x3d } else { 0x1c } | record[at + 1] & 3;
        }
    }
    bytes
}

/// One model with its matrices in the form, one with what they decode to.
fn pair(form: &str, tied: bool, level: Level) -> (Model, Model) {
    let (c, kind) = (shape(tied), Form::of(form).unwrap());
    let forms: Forms = matrices(&c).into_iter().map(|name| (name, kind)).collect();
    let mut small = Model::with_forms_on(c.clone(), 2, level, &forms).unwrap();
    let mut staged = small.stage(stateset_engine::model::Purpose::Present);
    for (stream, spec) in small.tensors().iter().enumerate() {
        if forms.contains_key(&spec.name) {
            let bytes = file_bytes(kind, spec.rows, spec.cols, stream as u64);
            small.stage_tensor(&mut staged, &spec.name, Values::Bytes(&bytes), true).unwrap();
        }
    }
    small.commit(staged).unwrap();
    let mut plain = Model::with_level(c, 1, level).unwrap();
    for spec in plain.tensors() {
        let mut data = vec![0.0; spec.rows * spec.cols];
        small.read_tensor(&spec.name, &mut data).unwrap();
        assert!(data.iter().any(|x| *x != 0.0) && data.iter().all(|x| x.is_finite()), "{form} {}", spec.name);
        plain.set_tensor(&spec.name, &data).unwrap();
    }
    for m in [&mut small, &mut plain] {
        m.add_lora(4, 8.0, 0.0, &["q", "v", "o", "down"], 5).unwrap();
    }
    (small, plain)
}

/// Scores, sampling logits and the adapters' gradients, as bits.
fn outcome(m: &mut Model) -> Vec<Vec<u32>> {
    let mut out = vec![present(m)];
    let mut logits = Vec::new();
    for rows in [1usize, 3, 17] {
        let segments: Vec<_> = (0..rows).map(|_| m.new_segment(8).unwrap()).collect();
        let tokens: Vec<[u32; 2]> = (0..rows as u32).map(|i| [3 * i + 1, 1069 - i]).collect();
        let chunks: Vec<Chunk> = (0..rows)
            .map(|i| Chunk {
                path: &[],
                segment: &segments[i],
                tokens: &tokens[i][..1 + i % 2],
                want_logits: Some(1.0),
                want_hidden: false,
            })
            .collect();
        m.infer(&chunks, &mut logits).unwrap();
        out.push(bits(&logits));
    }
    learn(m);
    out.push(bits(&m.read_flat(Flat::Parameters).unwrap()));
    out
}

#[test]
fn small_weights_compute_what_the_same_numbers_in_f32_do() {
    for (i, level) in Level::available().into_iter().enumerate() {
        for form in SMALL {
            // The slower instruction sets run the same code on other vectors: one kind of head will do.
            for tied in if i == 0 { &[true, false][..] } else { &[true] } {
                let (mut small, mut plain) = pair(form, *tied, level);
                assert!(small.memory_bytes() < plain.memory_bytes());
                assert!(outcome(&mut small) == outcome(&mut plain), "{form} tied {tied} on {}", level.name());
                if i > 0 || !tied {
                    continue;
                }
                for m in [&mut small, &mut plain] {
                    m.set_gradient_precision(Precision::Bf16);
                    m.set_pairs(true);
                }
                assert!(outcome(&mut small) == outcome(&mut plain), "{form} tied {tied} on {}, gradients in bf16", level.name());
            }
        }
    }
}

/// The product of `m` rows with a matrix of so many panels, with all that may be added to it, as bits.
fn product(exec: &mut Exec, w: Matrix, m: usize, k: usize, n: usize) -> Vec<u32> {
    let row = n.next_multiple_of(16);
    let noise = |stream: u64, len: usize| (0..len).map(|i| uniform(stream, i)).collect::<Vec<f32>>();
    let (x, bias, add, mut y) = (noise(1, m * k), noise(2, row), noise(3, m * row), noise(4, m * row));
    let job = Job { bias: bias.as_ptr(), add: add.as_ptr(), mode: Mode::Chain, ..Job::of(w, n, y.as_mut_ptr(), row) };
    unsafe { forward(exec, x.as_ptr(), k, m, k, &[job]).unwrap() };
    bits(&y)
}

#[test]
fn so_does_the_product_with_any_number_of_rows_and_panels() {
    let k = 512;
    for level in Level::available() {
        let mut exec = Exec::new(level, 1);
        for form in SMALL.map(|name| Form::of(name).unwrap()) {
            // Tiles of every width, and panels that are left over.
            for n in [16usize * 9 - 3, 16 * 12] {
                let panels = n.div_ceil(16);
                let mut small = vec![0f32; panels * form.panel_bytes(k) / 4];
                let bytes = unsafe { std::slice::from_raw_parts_mut(small.as_mut_ptr().cast::<u8>(), 4 * small.len()) };
                pack_bytes(form, "w", k, &file_bytes(form, n, k, 1), bytes).unwrap();
                let small = Matrix { at: small.as_ptr(), form };
                let mut plain = vec![0f32; panels * k * 16];
                for (p, to) in plain.chunks_exact_mut(k * 16).enumerate() {
                    unsafe { decode(level, small.from_panel(p, k), 0, k, to.as_mut_ptr()) };
                }
                // The more rows, the same first ones: in a tile of whatever height a row has the bits it has among others.
                let most = product(&mut exec, plain.as_ptr().into(), 48, k, n);
                for m in (1..=14).chain([16, 17, 19, 23, 24, 25, 48]) {
                    let rows = &most[..m * panels * 16];
                    let which = format!("{} rows {m} on {}", form.name(), level.name());
                    assert!(product(&mut exec, small, m, k, n) == rows, "{which}");
                    assert!(product(&mut exec, plain.as_ptr().into(), m, k, n) == rows, "plain {which}");
                }
            }
        }
    }
}

/// The other tests compare with what the same instruction set decodes.
#[test]
fn every_instruction_set_decodes_the_same_numbers() {
    let k = 512;
    for form in SMALL.map(|name| Form::of(name).unwrap()) {
        let mut small = vec![0f32; form.panel_bytes(k) / 4];
        let bytes = unsafe { std::slice::from_raw_parts_mut(small.as_mut_ptr().cast::<u8>(), 4 * small.len()) };
        pack_bytes(form, "w", k, &file_bytes(form, 16, k, 1), bytes).unwrap();
        let decoded = |level: Level| {
            let mut to = vec![0f32; k * 16];
            unsafe { decode(level, Matrix { at: small.as_ptr(), form }, 0, k, to.as_mut_ptr()) };
            bits(&to)
        };
        for level in Level::available() {
            assert!(decoded(level) == decoded(Level::Scalar), "{} on {}", form.name(), level.name());
        }
    }
}

#[test]
fn small_weights_are_rounded_to_the_nearest() {
    let c = shape(false);
    for (form, within) in [("bf16", 2f32.powi(-8)), ("f16", 2f32.powi(-11)), ("q8_0", 0.5 / 126.0)] {
        let forms: Forms = matrices(&c).into_iter().map(|name| (name, Form::of(form).unwrap())).collect();
        let mut m = Model::with_forms_on(c.clone(), 1, Level::available()[0], &forms).unwrap();
        randomise(&mut m);
        for (stream, spec) in m.tensors().into_iter().enumerate().filter(|(_, spec)| forms.contains_key(&spec.name)) {
            let size = 1.2 / (spec.cols as f32).sqrt();
            let mut data = vec![0.0; spec.rows * spec.cols];
            m.read_tensor(&spec.name, &mut data).unwrap();
            for (i, x) in data.iter().enumerate() {
                let was = uniform(stream as u64, i) * size;
                let bound = if form == "q8_0" { size * within } else { (was.abs() * within).max(2f32.powi(-24)) };
                assert!((x - was).abs() <= bound, "{form} {}[{i}]: {was} became {x}", spec.name);
            }
        }
    }
}

#[test]
fn what_small_weights_cannot_do_is_said() {
    let level = Level::available()[0];
    let forms = |name: &str, form: &str| Forms::from([(name.to_string(), Form::of(form).unwrap())]);
    assert_eq!(code(Form::of("q3_k")), "INVALID_CONFIG");
    assert_eq!(code(Model::with_forms_on(shape(true), 1, level, &forms("nothing", "bf16"))), "UNKNOWN_TENSOR");
    assert_eq!(code(Model::with_forms_on(shape(true), 1, level, &forms("final_norm.weight", "bf16"))), "INVALID_CONFIG");
    // 40 columns are no whole blocks of 32.
    assert_eq!(code(Model::with_forms_on(config("llama"), 1, level, &forms("layers.0.q.weight", "q8_0"))), "INVALID_CONFIG");

    let mut m = Model::with_forms_on(shape(true), 1, level, &forms("layers.0.q.weight", "q4_1")).unwrap();
    assert_eq!(code(m.set_trainable(Trainable::Full)), "INVALID_INPUT");
    assert_eq!(code(m.set_tensor("layers.0.q.weight", &[0.5; 256 * 256])), "INVALID_INPUT");
    let mut staged = m.stage(stateset_engine::model::Purpose::Present);
    assert_eq!(code(m.stage_tensor(&mut staged, "layers.0.q.weight", Values::Bytes(&[0; 7]), true)), "INVALID_INPUT");
    assert_eq!(code(m.stage_tensor(&mut staged, "layers.0.k.weight", Values::Bytes(&[0; 128 * 256 * 4]), true)), "INVALID_INPUT");
    let mut bytes = file_bytes(Form::Q4_1, 256, 256, 1);
    bytes[40 + 1] = 0x7c;
    assert_eq!(code(m.stage_tensor(&mut staged, "layers.0.q.weight", Values::Bytes(&bytes), true)), "NOT_FINITE");
}

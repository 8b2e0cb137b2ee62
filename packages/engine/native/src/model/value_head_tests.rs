//! The value head on its own: `v = h·w + b` at every token, its derivatives against central differences.

use super::super::{Model, Trainable};
use super::*;
use crate::config::Config;
use crate::simd::Level;
use crate::testing::{assert_near, difference, noise, widened};

fn plain(hidden: &[f64], w: &[f64], b: f64) -> Vec<f64> {
    hidden.chunks(w.len()).map(|h| h.iter().zip(w).map(|(h, w)| h * w).sum::<f64>() + b).collect()
}

#[test]
fn gradients_of_weight_bias_and_hidden_states_match_differences_on_every_path() {
    for (hidden, tokens) in [(12usize, 1usize), (16, 17), (33, 17), (40, 5)] {
        let (weight, bias) = (noise(1, hidden), 0.25f32);
        // Some tokens without a derivative, as in a batch with prompts.
        let d: Vec<f32> = noise(2, tokens).iter().enumerate().map(|(i, v)| if i % 3 == 1 { 0.0 } else { *v }).collect();
        for level in Level::available() {
            for into_trunk in [true, false] {
                let config = Config { hidden, ..crate::testing::model().config().clone() };
                let mut m = Model::with_level(config, 2, level).unwrap();
                m.set_trainable(Trainable::Full).unwrap();
                m.add_value_head().unwrap();
                for spec in m.tensors() {
                    m.set_tensor(&spec.name, &noise(7, spec.rows * spec.cols)).unwrap();
                }
                m.set_tensor("value.weight", &weight).unwrap();
                m.set_tensor("value.bias", &[bias]).unwrap();
                let ids: Vec<u32> = (0..tokens as u32).map(|i| i * 5 % 32).collect();
                let batch = TreeBatch {
                    tokens: &ids,
                    node_start: &[0, tokens as u32],
                    node_parent: &[-1],
                    wanted: &vec![0; tokens],
                    temperature: 1.0,
                };
                let want =
                    Want { grad: true, entropy: false, values: true, hidden: true, adapters: true, recompute: false, dropout_seed: None };
                let mut pass = m.forward(&batch, want).unwrap();
                let saved = pass.saved.take().unwrap();
                let which = format!("{} hidden {hidden} tokens {tokens}", level.name());

                let (mut h, mut w, mut b) = (widened(&pass.hidden), widened(&weight), vec![f64::from(bias)]);
                assert_near(&pass.values, &plain(&h, &w, b[0]), 1e-6, &format!("{which} values"));
                let total = |h: &[f64], w: &[f64], b: f64| -> f64 { plain(h, w, b).iter().zip(&d).map(|(v, d)| v * f64::from(*d)).sum() };
                let dw: Vec<f64> = (0..hidden).map(|i| difference(&mut w, i, |w| total(&h, w, b[0]))).collect();
                let db = difference(&mut b, 0, |b| total(&h, &w, b[0]));
                let dh: Vec<f64> = (0..h.len()).map(|i| difference(&mut h, i, |h| total(h, &w, b[0]))).collect();

                let hp = pad16(hidden);
                let mut d_normed = vec![0f32; tokens * hp];
                let none = vec![0f32; tokens];
                let given = Derivatives { logprobs: &none, entropy: None, values: Some(&d), value_into_trunk: into_trunk };
                unsafe { m.value_backward(&saved, &given, d_normed.as_mut_ptr()) };
                let read = |m: &Model, name: &str, n: usize| {
                    let mut out = vec![0f32; n];
                    m.read_gradient(name, &mut out).unwrap();
                    out
                };
                assert_near(&read(&m, "value.weight", hidden), &dw, 3e-6, &format!("{which} dw"));
                assert_near(&read(&m, "value.bias", 1), &[db], 3e-6, &format!("{which} db"));
                let got: Vec<f32> = d_normed.chunks(hp).flat_map(|row| row[..hidden].to_vec()).collect();
                let dh = if into_trunk { dh } else { vec![0.0; dh.len()] };
                assert_near(&got, &dh, 3e-6, &format!("{which} dh"));
            }
        }
    }
}

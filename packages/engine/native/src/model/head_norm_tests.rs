//! The norm over each query and key head on its own (Qwen3): derivatives of its input and its weight against central differences.

use super::super::{Model, Trainable};
use super::*;
use crate::config::Config;
use crate::simd::Level;
use crate::testing::{assert_near, difference, noise, widened};

/// `y = x / √(mean x² + ε) · w` for each head.
fn plain(x: &[f64], w: &[f64], eps: f64) -> Vec<f64> {
    let head = |x: &[f64]| -> Vec<f64> {
        let scale = 1.0 / (x.iter().map(|v| v * v).sum::<f64>() / x.len() as f64 + eps).sqrt();
        x.iter().zip(w).map(|(x, w)| x * scale * w).collect()
    };
    x.chunks(w.len()).flat_map(head).collect()
}

#[test]
fn gradients_of_the_norm_over_heads_match_differences_on_every_path() {
    for (head_dim, heads, rows) in [(12usize, 3usize, 1usize), (16, 2, 17), (20, 1, 17), (34, 2, 5), (8, 4, 130)] {
        let (eps, width) = (1e-3f32, heads * head_dim);
        let stride = pad16(width);
        let (x, dy) = (noise(1, rows * width), noise(2, rows * width));
        let weight: Vec<f32> = noise(3, head_dim).iter().map(|v| 1.0 + v).collect();
        let (mut xs, mut ws) = (widened(&x), widened(&weight));
        let total =
            |x: &[f64], w: &[f64], dy: &[f32]| -> f64 { plain(x, w, f64::from(eps)).iter().zip(dy).map(|(y, d)| y * f64::from(*d)).sum() };
        // An entry counts in its own head alone.
        let dx: Vec<f64> = (0..x.len())
            .map(|i| {
                let head = i / head_dim * head_dim..(i / head_dim + 1) * head_dim;
                difference(&mut xs, i, |x| total(&x[head.clone()], &ws, &dy[head.clone()]))
            })
            .collect();
        let dw: Vec<f64> = (0..head_dim).map(|i| difference(&mut ws, i, |w| total(&xs, w, &dy))).collect();
        let y = plain(&xs, &ws, f64::from(eps));
        for level in Level::available() {
            for threads in [1, 3] {
                let config =
                    Config { qk_norm: true, norm_eps: eps, heads, kv_heads: heads, head_dim, ..crate::testing::model().config().clone() };
                let mut m = Model::with_level(config, threads, level).unwrap();
                m.set_trainable(Trainable::Full).unwrap();
                m.set_tensor("layers.0.q_norm.weight", &weight).unwrap();
                let net = Net {
                    config: &m.config,
                    params: &m.params,
                    weights: &m.weights,
                    learning: &m.learning,
                    split: None,
                    ropes: &m.ropes,
                    shape: m.shape,
                    adapters: false,
                    train_base: true,
                    train_adapters: false,
                    dropout: None,
                };
                let offset = net.params.layers[0].q_norm.unwrap();
                let which = format!("{} {heads}x{head_dim} rows {rows}", level.name());
                for row in 0..rows * heads {
                    // As `place_keys` runs it: one head at a time, in padded scratch.
                    let mut from = vec![0f32; pad16(head_dim)];
                    from[..head_dim].copy_from_slice(&x[row * head_dim..][..head_dim]);
                    let mut to = vec![0f32; pad16(head_dim)];
                    let null = std::ptr::null_mut();
                    unsafe { norm_forward(level, &net.head_norm(offset), 1, from.as_ptr(), 0, to.as_mut_ptr(), 0, null) };
                    assert_near(&to[..head_dim], &y[row * head_dim..][..head_dim], 1e-6, &format!("{which} y"));
                }
                let (mut raw, mut d) = (vec![f32::NAN; rows * stride], vec![f32::NAN; rows * stride]);
                for row in 0..rows {
                    raw[row * stride..][..width].copy_from_slice(&x[row * width..][..width]);
                    d[row * stride..][..width].copy_from_slice(&dy[row * width..][..width]);
                }
                unsafe { head_norm_backward(&mut m.exec, &net, offset, rows, heads, raw.as_ptr(), d.as_mut_ptr()).unwrap() };
                let got: Vec<f32> = d.chunks(stride).flat_map(|row| row[..width].to_vec()).collect();
                assert_near(&got, &dx, 3e-6, &format!("{which} dx"));
                let got = unsafe { std::slice::from_raw_parts(net.grad(BASE, offset), head_dim) };
                assert_near(got, &dw, 3e-6, &format!("{which} dw"));
            }
        }
    }
}

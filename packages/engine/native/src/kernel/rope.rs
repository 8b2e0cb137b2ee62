//! Rotary positions, half-split as in Hugging Face: pairs (i, i + d/2). Tables grow with the longest position seen.

use crate::buffer::reserve;
use crate::config::{Config, Position, RopeScaling};
use crate::error::EngineError;

/// The tables of a model: one for all layers, and perhaps another one for those with a window.
pub struct Ropes {
    tables: Vec<Rope>,
    /// By layer.
    table_of: Vec<Option<usize>>,
}

impl Ropes {
    pub fn new(c: &Config) -> Ropes {
        let mut tables = Vec::new();
        if c.position == Position::Rope {
            tables.push(Rope::new(c.rotated(), c.rope_theta, c.rope_scaling));
            tables.extend(c.local_rope_theta.map(|theta| Rope::new(c.rotated(), theta, RopeScaling::None)));
        }
        let local = |layer: usize| c.local_rope_theta.is_some() && c.window_of(layer) != usize::MAX;
        let rotated = |layer: &usize| c.position == Position::Rope && !c.unrotated_layers.contains(layer);
        let table_of = (0..c.layers).map(|layer| Some(layer).filter(rotated).map(|layer| usize::from(local(layer)))).collect();
        Ropes { tables, table_of }
    }

    /// None where a layer does not rotate.
    pub fn of(&self, layer: usize) -> Option<&Rope> {
        self.table_of[layer].map(|table| &self.tables[table])
    }

    pub fn grow(&mut self, positions: usize) -> Result<(), EngineError> {
        self.tables.iter_mut().try_for_each(|table| table.grow(positions))
    }
}

pub struct Rope {
    half: usize,
    frequencies: Vec<f32>,
    /// `[position][half]` cosines and sines.
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl Rope {
    /// Of `dim` numbers at the start of each head.
    pub fn new(dim: usize, theta: f32, scaling: RopeScaling) -> Rope {
        let half = dim / 2;
        let frequencies = (0..half)
            .map(|i| {
                let base = 1.0 / (theta as f64).powf(2.0 * i as f64 / dim as f64);
                scale(base, scaling) as f32
            })
            .collect();
        Rope { half, frequencies, cos: Vec::new(), sin: Vec::new() }
    }

    pub fn grow(&mut self, positions: usize) -> Result<(), EngineError> {
        let have = self.cos.len() / self.half;
        let want = if positions > have { positions.max(2 * have) } else { have };
        let more = (want - have).saturating_mul(self.half);
        for table in [&mut self.cos, &mut self.sin] {
            reserve(table, more, "rotary positions")?;
        }
        for position in have..want {
            for &f in &self.frequencies {
                // The angle is rounded to f32 first, as transformers does.
                let angle = f64::from(position as f32 * f);
                self.cos.push(angle.cos() as f32);
                self.sin.push(angle.sin() as f32);
            }
        }
        Ok(())
    }

    /// Rotates one head in place.
    pub fn rotate(&self, x: &mut [f32], position: usize) {
        let row = position * self.half..(position + 1) * self.half;
        let (a, b) = x[..2 * self.half].split_at_mut(self.half);
        for (((a, b), &c), &s) in a.iter_mut().zip(b).zip(&self.cos[row.clone()]).zip(&self.sin[row]) {
            (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
        }
    }

    /// The transpose of `rotate`, for derivatives.
    pub fn rotate_back(&self, x: &mut [f32], position: usize) {
        let row = position * self.half..(position + 1) * self.half;
        let (a, b) = x[..2 * self.half].split_at_mut(self.half);
        for (((a, b), &c), &s) in a.iter_mut().zip(b).zip(&self.cos[row.clone()]).zip(&self.sin[row]) {
            (*a, *b) = (*a * c + *b * s, *b * c - *a * s);
        }
    }
}

/// Linear: every frequency divided. Llama 3: long waves divided, short ones kept, a ramp between (transformers' `_compute_llama3_parameters`).
fn scale(frequency: f64, scaling: RopeScaling) -> f64 {
    match scaling {
        RopeScaling::None => frequency,
        RopeScaling::Linear { factor } => frequency / factor as f64,
        RopeScaling::Llama3 { factor, low_freq, high_freq, original_max } => {
            let (factor, low, high) = (factor as f64, low_freq as f64, high_freq as f64);
            let wave = 2.0 * std::f64::consts::PI / frequency;
            let context = original_max as f64;
            if wave > context / low {
                frequency / factor
            } else if wave < context / high {
                frequency
            } else {
                let smooth = (context / wave - low) / (high - low);
                (1.0 - smooth) * frequency / factor + smooth * frequency
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama3_scaling_keeps_short_waves_and_divides_long_ones() {
        let s = RopeScaling::Llama3 { factor: 8.0, low_freq: 1.0, high_freq: 4.0, original_max: 8192 };
        assert_eq!(scale(1.0, s), 1.0);
        assert_eq!(scale(1e-5, s), 1e-5 / 8.0);
        let middle = scale(2.0 * std::f64::consts::PI / 4096.0, s);
        assert!(middle < 2.0 * std::f64::consts::PI / 4096.0 && middle > 2.0 * std::f64::consts::PI / 4096.0 / 8.0);
    }
}

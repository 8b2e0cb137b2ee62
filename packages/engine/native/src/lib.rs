//! Transformer inference and training on the CPU, standard library only. See ../DESIGN.md.

pub mod buffer;
pub mod config;
pub mod decode;
pub mod error;
pub mod form;
pub mod gemm;
pub mod kernel;
pub mod model;
pub mod napi;
pub mod pool;
pub mod simd;
#[cfg(test)]
mod testing;

pub use config::{Config, Mlp, Norm, Position, Precision, RopeScaling};
pub use error::EngineError;
pub use model::{
    Chunk, Derivatives, Flat, Forms, Inferred, KvSegment, KvSpan, Logits, Model, Pass, Scope, StepOptions, StepReport, TensorSpec,
    Trainable, TreeBatch, Values, Want, Weights,
};

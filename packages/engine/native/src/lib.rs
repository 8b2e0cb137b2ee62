//! Transformer inference and training on the CPU, standard library only. See ../DESIGN.md.

pub mod config;
pub mod decode;
pub mod error;
pub mod model;
pub mod napi;

pub use config::{Config, Mlp, Norm, Position, RopeScaling};
pub use error::EngineError;
pub use model::{
    Chunk, Derivatives, Flat, KvSegment, KvSpan, Model, Pass, Scope, StepOptions, StepReport, TensorSpec, Trainable,
    TreeBatch, Want,
};

//! The engine.

pub mod options;

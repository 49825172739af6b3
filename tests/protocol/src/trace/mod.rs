//! The library's operations on files, recorded and held to the model.

pub mod decode;
pub mod record;
pub mod replay;
pub mod translate;

//! Tables and numbers as people read them.

mod numbers;
mod table;

pub use numbers::{count, escaped, size, thousands};
pub use table::Table;

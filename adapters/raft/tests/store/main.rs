//! The store: openraft's own suite, what a restart finds, and crashes at every operation.

mod common;
mod crash;
mod restored;
mod suite;

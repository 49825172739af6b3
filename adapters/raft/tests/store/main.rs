//! Tests of the store: openraft's own test suite, the state after a restart, and crashes at every
//! operation.

mod common;
mod contradictions;
mod crash;
mod damage;
mod interrupted;
mod large;
mod observed;
mod restored;
mod sessions;
mod suite;
mod traces;

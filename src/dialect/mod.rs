//! Key formats of programs that use their own comparators.

pub mod indexed_db;

//! Keys of programs that give their databases an order of their own.

pub mod indexed_db;

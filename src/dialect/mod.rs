//! Keys of programs whose databases have a comparator of their own.

pub mod indexed_db;

//! Safe wrapper of the C API of the C++ LevelDB library, with which minikv is compared.

pub mod ffi;
pub mod others;

pub use ffi::{LevelDb, Settings, repair};

/// Returns the value that minikv puts under a key in a workload of `kind`.
pub fn value_of(key: &str, kind: u64, number: u64) -> Vec<u8> {
    let number = number as usize;
    let len = match kind / 3 {
        0 => number * 37 % 300,
        1 => 3000 + number * 701 % 4000,
        2 if number.is_multiple_of(40) => 62_000 + number * 31 % 9000,
        2 => number % 50,
        3 => number * 7919 % 60_000,
        _ if number.is_multiple_of(300) => 2_300_000 + number,
        _ => number * 13 % 5000,
    };
    let mut value = format!("{key} ").into_bytes();
    value.extend((0..len).map(|i| (i * i + number * 31) as u8));
    value
}

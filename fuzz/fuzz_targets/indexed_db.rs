#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| minikv_fuzz::within_bounds(minikv_fuzz::indexed_db, data));

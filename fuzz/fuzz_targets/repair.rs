#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let size = fuzzer_mutate(data, size, max_size);
    if !seed.is_multiple_of(8) {
        minikv_fuzz::mend::directory(&mut data[..size]);
    }
    size
});

fuzz_target!(|data: &[u8]| minikv_fuzz::within_bounds(minikv_fuzz::repair, data));

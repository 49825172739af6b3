//! Replays the corpus of every target on stable Rust, and then runs randomly modified inputs for a
//! while. libFuzzer finds more, but needs nightly Rust.
//!
//! `MINIKV_FUZZ_SECONDS` sets the number of seconds for each target (2 by default), and
//! `MINIKV_SEED` sets the seed of the modifications. A failing input is written to
//! `target/failed-TARGET`. To run a single input, set `MINIKV_FUZZ_INPUT` to its file and run
//! `cargo test TARGET`.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use minikv_fuzz::{TARGETS, Target, mend, within_bounds};
use minikv_support::rng::Rng;

/// Maximum time for one input, even on a busy machine. A higher limit finds fewer slow inputs.
const LIMIT: Duration = Duration::from_secs(10);

/// Held while a target runs: the allocator counts the memory of the whole process, so only one
/// target may run at a time.
static TURN: Mutex<()> = Mutex::new(());

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number")),
        Err(_) => default,
    }
}

/// Returns the inputs in a target's corpus, ordered by name.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|error| panic!("{dir:?}: {error}"));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 5, "{} inputs in {dir:?}", paths.len());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Makes small modifications to an input: changes bytes as on a bad disk, writes a wrong length, or
/// inserts a part of another input.
fn mutate(data: &mut Vec<u8>, others: &[Vec<u8>], rng: &mut Rng) {
    for _ in 0..1 + rng.below(4) {
        let len = data.len();
        match rng.below(9) {
            0 => data.push(rng.next() as u8),
            1 => data.truncate(rng.below(len + 1)),
            2 if len > 0 => {
                let from = rng.below(len);
                let to = (from + 1 + rng.below(16)).min(len);
                data.drain(from..to);
            }
            3 => {
                let at = rng.below(len + 1);
                let other = rng.pick(others);
                if !other.is_empty() {
                    let from = rng.below(other.len());
                    let to = (from + 1 + rng.below(64)).min(other.len());
                    data.splice(at..at, other[from..to].iter().copied());
                }
            }
            4 if len > 0 => {
                let at = rng.below(len);
                data[at] = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff]);
            }
            5 if len > 0 => {
                let at = rng.below(len);
                let bytes = rng.pick(&[[0xff; 4], [0; 4], [0xff, 0xff, 0xff, 0x7f]]);
                let end = (at + 4).min(len);
                data[at..end].copy_from_slice(&bytes[..end - at]);
            }
            6 if len > 0 => {
                let at = rng.below(len);
                data[at] = data[at].wrapping_add(1);
            }
            _ if len > 0 => {
                let at = rng.below(len);
                data[at] ^= 1 << rng.below(8);
            }
            _ => {}
        }
    }
    data.truncate(64 << 10);
}

fn attempt(name: &str, target: Target, data: &[u8], what: &str) {
    let began = Instant::now();
    let failed = std::panic::catch_unwind(|| within_bounds(target, data)).is_err();
    let took = began.elapsed();
    if failed || took > LIMIT {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join(format!("failed-{name}"));
        std::fs::write(&path, data).unwrap();
        panic!(
            "{name}: {what} of {} bytes failed, or took too long ({took:.1?})\n  \
             replay: MINIKV_FUZZ_INPUT={} cargo test --manifest-path fuzz/Cargo.toml {name}",
            data.len(),
            path.display()
        );
    }
}

fn replay(name: &str) {
    let _turn = TURN.lock().unwrap_or_else(|error| error.into_inner());
    let (_, target) = *TARGETS.iter().find(|(other, _)| *other == name).expect("a target");
    if let Some(path) = std::env::var_os("MINIKV_FUZZ_INPUT") {
        return attempt(name, target, &std::fs::read(path).unwrap(), "the input");
    }
    let inputs = corpus(name);
    for (at, data) in inputs.iter().enumerate() {
        attempt(name, target, data, &format!("input {at} of the corpus"));
    }
    let mender: Option<fn(&mut [u8])> = match name {
        "log" => Some(mend::log),
        "table" => Some(mend::table),
        "directory" | "repair" => Some(mend::directory),
        _ => None,
    };
    let seed = setting("MINIKV_SEED", 1);
    let until = Instant::now() + Duration::from_secs(setting("MINIKV_FUZZ_SECONDS", 2));
    let mut rng = Rng::new(seed);
    let mut count = 0u64;
    while Instant::now() < until {
        let mut data = rng.pick(&inputs).clone();
        mutate(&mut data, &inputs, &mut rng);
        if let Some(mender) = mender
            && !rng.one_in(8)
        {
            mender(&mut data);
        }
        attempt(name, target, &data, &format!("change {count} of seed {seed}"));
        count += 1;
    }
    println!(
        "{name}: {} inputs of the corpus, {count} changed ones from seed {seed}",
        inputs.len()
    );
    assert!(count > 0);
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                replay(stringify!($name));
            }
        )*

        #[test]
        fn every_target_is_replayed() {
            let all: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
            assert_eq!(all, [$(stringify!($name)),*]);
            for name in all {
                let file = format!("fuzz_targets/{name}.rs");
                assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(file).exists(), "{name}");
            }
        }
    };
}

targets!(log edit block table batch directory operations repair indexed_db);

/// Checks that inputs with a changed byte can be read again once their checksums are corrected, so
/// that targets reach the code behind the checksums.
#[test]
fn mended_inputs_pass_their_checksums() {
    let read = |data: &[u8]| {
        let fs = minikv_fuzz::files::load(data);
        let options = minikv_fuzz::files::options(&fs);
        minikv::verify(minikv_fuzz::files::DIR, &options)
            .map(|report| report.faults.iter().any(|fault| fault.what.contains("checksum")))
    };
    let (mut broken, mut mended) = (0, 0);
    for mut data in corpus("directory") {
        for (_, _, range) in minikv_fuzz::files::split(&data) {
            if range.len() > 60 {
                data[range.start + 20] ^= 1;
            }
        }
        broken += usize::from(matches!(read(&data), Ok(true)));
        mend::directory(&mut data);
        mended += usize::from(matches!(read(&data), Ok(true)));
    }
    assert!(broken > 0 && mended < broken, "{broken} with a bad checksum, {mended} when mended");
}

/// Checks that an input that allocates too much memory is detected.
#[test]
#[should_panic(expected = "MiB of memory")]
fn an_input_that_takes_too_much_memory_is_told() {
    let _turn = TURN.lock().unwrap_or_else(|error| error.into_inner());
    within_bounds(|_| drop(std::hint::black_box(vec![1u8; 200 << 20])), b"");
}

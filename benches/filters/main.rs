//! Compares whole-table filters by size, build time, probe time and false-positive rate. The
//! command is `cargo bench --bench filters`; its output is in `docs/filters-compared.md`.
//!
//! Every kind of filter gets the same 64-bit hashes. Each round measures all kinds in turn, so that
//! disturbances of the machine affect all kinds alike; each figure is the median of all rounds.

mod blocked;
mod ribbon;

use std::fmt::Debug;
use std::hint::black_box;
use std::time::Instant;

use minikv::filter::{TableFilter, TableFilterBuilder};
use minikv::{BloomFilterPolicy, FilterPolicy};
use minikv_instrument::random::Rng;
use xorf::{BinaryFuse8, BinaryFuse16, Filter as _};

/// A kind of filter.
trait Kind: Sized {
    /// Returns a filter of these hashes, or `None` if this kind of filter cannot have
    /// `bits_per_key` bits per key.
    fn build(hashes: &[u64], bits_per_key: u32) -> Option<Self>;
    fn has(&self, hash: u64) -> bool;
    fn bytes(&self) -> usize;
}

/// LevelDB's bloom filter over all keys. Every probe may be a cache miss.
struct LevelDbBloom(Vec<u8>);

impl Kind for LevelDbBloom {
    fn build(hashes: &[u64], bits_per_key: u32) -> Option<LevelDbBloom> {
        let mut generator = BloomFilterPolicy::new(bits_per_key).generator();
        hashes.iter().for_each(|hash| generator.add_key(&hash.to_le_bytes()));
        let mut filter = Vec::new();
        generator.finish(&mut filter);
        Some(LevelDbBloom(filter))
    }

    fn has(&self, hash: u64) -> bool {
        BloomFilterPolicy::new(1).may_match(&hash.to_le_bytes(), &self.0)
    }

    fn bytes(&self) -> usize {
        self.0.len()
    }
}

/// The filter that minikv writes.
impl Kind for TableFilter {
    fn build(hashes: &[u64], bits_per_key: u32) -> Option<TableFilter> {
        let mut builder = TableFilterBuilder::new(bits_per_key);
        hashes.iter().for_each(|&hash| builder.add_hash(hash));
        TableFilter::decode(builder.finish().into())
    }

    fn has(&self, hash: u64) -> bool {
        self.may_match_hash(hash)
    }

    fn bytes(&self) -> usize {
        self.memory_bytes()
    }
}

impl Kind for BinaryFuse8 {
    fn build(hashes: &[u64], bits_per_key: u32) -> Option<BinaryFuse8> {
        (9..16).contains(&bits_per_key).then(|| BinaryFuse8::try_from(hashes).expect("a filter"))
    }

    fn has(&self, hash: u64) -> bool {
        self.contains(&hash)
    }

    fn bytes(&self) -> usize {
        self.fingerprints.len()
    }
}

impl Kind for BinaryFuse16 {
    fn build(hashes: &[u64], bits_per_key: u32) -> Option<BinaryFuse16> {
        (bits_per_key >= 16).then(|| BinaryFuse16::try_from(hashes).expect("a filter"))
    }

    fn has(&self, hash: u64) -> bool {
        self.contains(&hash)
    }

    fn bytes(&self) -> usize {
        self.fingerprints.len() * 2
    }
}

/// Returns `count` pseudo-random hashes.
fn hashes(rng: &mut Rng, count: usize) -> Vec<u64> {
    (0..count).map(|_| rng.next()).collect()
}

/// A set of tables of the same size, and the keys to look up.
struct Scene {
    keys: usize,
    tables: Vec<Vec<u64>>,
    absent: Vec<u64>,
    /// The number of the table and the hash, for each present key.
    present: Vec<(usize, u64)>,
}

impl Scene {
    fn new(keys: usize, tables: usize, lookups: usize) -> Scene {
        let mut rng = Rng::new(keys as u64);
        let tables: Vec<_> = (0..tables).map(|_| hashes(&mut rng, keys)).collect();
        let present = |rng: &mut Rng| {
            let table = rng.next() as usize % tables.len();
            (table, tables[table][rng.next() as usize % keys])
        };
        let present = (0..lookups).map(|_| present(&mut rng)).collect();
        Scene { keys, absent: hashes(&mut rng, lookups), present, tables }
    }
}

/// The figures of one kind of filter in one round.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    bits_per_key: f64,
    build_ns: f64,
    absent_ns: f64,
    present_ns: f64,
    rate: f64,
}

/// Measures one kind of filter. Each lookup starts only after the previous one has ended, as with a
/// single caller.
fn measure<K: Kind>(scene: &Scene, bits_per_key: u32) -> Option<Figures> {
    let began = Instant::now();
    let filters: Option<Vec<K>> =
        scene.tables.iter().map(|hashes| K::build(hashes, bits_per_key)).collect();
    let build = began.elapsed();
    let filters = filters?;
    let keys = (scene.keys * scene.tables.len()) as f64;
    let lookups = scene.absent.len() as f64;
    let zero = black_box(0);

    let began = Instant::now();
    let (mut found, mut wrong) = (0, 0u64);
    for (i, &hash) in scene.absent.iter().enumerate() {
        let table = scene.present[i].0 ^ (found & zero);
        found = usize::from(filters[table].has(hash ^ (found & zero) as u64));
        wrong += found as u64;
    }
    let absent = began.elapsed();

    let began = Instant::now();
    let (mut found, mut right) = (0, 0);
    for &(table, hash) in &scene.present {
        found = usize::from(filters[table ^ (found & zero)].has(hash ^ (found & zero) as u64));
        right += found;
    }
    let present = began.elapsed();
    assert_eq!(right, scene.present.len(), "a filter denies a key it holds");

    Some(Figures {
        bits_per_key: filters.iter().map(K::bytes).sum::<usize>() as f64 * 8.0 / keys,
        build_ns: build.as_nanos() as f64 / keys,
        absent_ns: absent.as_nanos() as f64 / lookups,
        present_ns: present.as_nanos() as f64 / lookups,
        rate: wrong as f64 / lookups,
    })
}

fn median(rounds: &[Figures], figure: impl Fn(&Figures) -> f64) -> f64 {
    let mut all: Vec<f64> = rounds.iter().map(figure).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

type Measure = fn(&Scene, u32) -> Option<Figures>;

const KINDS: &[(&str, Measure)] = &[
    ("leveldb bloom", measure::<LevelDbBloom>),
    ("binary fuse (kept)", measure::<TableFilter>),
    ("blocked bloom 512", measure::<blocked::Sliced>),
    ("  leaving early", measure::<blocked::LeavingEarly>),
    ("  multiplied probes", measure::<blocked::Multiplied>),
    ("split block 8 x 32", measure::<blocked::Split>),
    ("xorf binary fuse 8", measure::<BinaryFuse8>),
    ("xorf binary fuse 16", measure::<BinaryFuse16>),
    ("ribbon 128", measure::<ribbon::Ribbon>),
];

fn compare(scene: &Scene, rounds: usize) {
    println!(
        "\n{} tables of {} keys, {} lookups",
        scene.tables.len(),
        scene.keys,
        scene.absent.len()
    );
    println!(
        "{:26}{:>6}{:>10}{:>12}{:>12}{:>12}{:>11}",
        "kind", "asked", "bits/key", "build ns", "absent ns", "present ns", "wrong %"
    );
    for bits_per_key in [8, 10, 16] {
        let mut all = vec![Vec::new(); KINDS.len()];
        for _ in 0..rounds {
            for (figures, (_, measure)) in all.iter_mut().zip(KINDS) {
                figures.extend(measure(scene, bits_per_key));
            }
        }
        for (figures, (name, _)) in all.iter().zip(KINDS).filter(|(all, _)| !all.is_empty()) {
            println!(
                "{name:26}{bits_per_key:>6}{:>10.2}{:>12.1}{:>12.1}{:>12.1}{:>11.4}",
                median(figures, |f| f.bits_per_key),
                median(figures, |f| f.build_ns),
                median(figures, |f| f.absent_ns),
                median(figures, |f| f.present_ns),
                median(figures, |f| f.rate) * 100.0,
            );
        }
    }
}

fn hash_times(rounds: usize) {
    println!("\n{:12}{:>14}{:>18}", "key bytes", "xxh3-64 ns", "leveldb hash ns");
    for len in [8, 16, 24, 40, 100] {
        let keys = vec![7u8; len + 4096];
        let time = |hash: &dyn Fn(&[u8]) -> u64| {
            let mut last = 0;
            let began = Instant::now();
            for i in 0..1_000_000 {
                let at = (i + last as usize) & 4095;
                last = hash(&keys[at..at + len]);
            }
            black_box(last);
            began.elapsed().as_nanos() as f64 / 1e6
        };
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            times[0].push(time(&TableFilter::hash));
            times[1].push(time(&|key| BloomFilterPolicy::hash(key).into()));
        }
        times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
        println!("{len:<12}{:>14.1}{:>18.1}", times[0][rounds / 2], times[1][rounds / 2]);
    }
}

fn main() {
    // Cargo passes `--bench` when it runs benchmarks, but not when it runs them as tests.
    if !std::env::args().any(|arg| arg == "--bench") {
        return compare(&Scene::new(1_000, 3, 1_000), 1);
    }
    hash_times(5);
    // The first two comparisons use tables of 2 MiB with entries of 100 bytes. The first comparison
    // uses one table, and the second uses as many tables as a large database has.
    let only = std::env::args().nth(1).filter(|arg| arg != "--bench");
    compare(&Scene::new(20_000, 1, 1_000_000), 7);
    if only.is_some() {
        return;
    }
    compare(&Scene::new(20_000, 1_000, 1_000_000), 5);
    compare(&Scene::new(10_000_000, 1, 1_000_000), 5);
}

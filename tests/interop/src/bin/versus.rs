//! One workload on minikv and on C++ LevelDB: a load in random order, then random gets.
//!
//! ```text
//! cargo run --release --bin versus -- [--entries N] [--gets N] [--repeats N]
//!                                     [--write-buffer-mib N] [--cache-mib N]
//! ```
//!
//! Keys have 16 bytes, values 100 that snappy halves; blocks are 4 KiB, filters 10 bits a key,
//! checksums are verified by both, and nothing is synced. Every value read is compared. Each run
//! is a process of its own, so that its peak memory (`VmHWM`) is its own too; the engines take
//! turns. LevelDB maps its tables, so its peak counts pages of the page cache that it touched.

#[path = "../../../support/rng.rs"]
#[expect(dead_code, reason = "the tests use the rest of it")]
mod rng;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use minikv::{BloomFilterPolicy, Db, Options};
use minikv_interop::{LevelDb, Settings, ffi::version};
use rng::Rng;

/// What is done, from the command line.
#[derive(Clone, Debug)]
struct Plan {
    entries: usize,
    gets: usize,
    repeats: usize,
    write_buffer_bytes: usize,
    cache_bytes: usize,
    /// In a child: which engine, and where.
    child: Option<(String, String)>,
}

impl Plan {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Plan {
        let mut plan = Plan {
            entries: 2_000_000,
            gets: 1_000_000,
            repeats: 3,
            write_buffer_bytes: 64 << 20,
            cache_bytes: 512 << 20,
            child: None,
        };
        while let Some(name) = arguments.next() {
            let mut text = || arguments.next().unwrap_or_else(|| panic!("{name} needs a value"));
            let number = |text: String| text.parse::<usize>().expect("a number");
            match name.as_str() {
                "--entries" => plan.entries = number(text()),
                "--gets" => plan.gets = number(text()),
                "--repeats" => plan.repeats = number(text()),
                "--write-buffer-mib" => plan.write_buffer_bytes = number(text()) << 20,
                "--cache-mib" => plan.cache_bytes = number(text()) << 20,
                "--child" => plan.child = Some((text(), text())),
                _ => panic!("unknown argument {name}"),
            }
        }
        plan
    }

    fn arguments(&self) -> Vec<String> {
        let numbers = [
            ("--entries", self.entries),
            ("--gets", self.gets),
            ("--write-buffer-mib", self.write_buffer_bytes >> 20),
            ("--cache-mib", self.cache_bytes >> 20),
        ];
        numbers.iter().flat_map(|(name, n)| [name.to_string(), n.to_string()]).collect()
    }
}

fn key(number: usize) -> [u8; 16] {
    let mut key = [b'0'; 16];
    let mut rest = number;
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Values of 100 bytes: the number of the entry, then bytes of which half repeat.
struct Values {
    pool: Vec<u8>,
}

impl Values {
    fn new() -> Values {
        let mut rng = Rng::new(301);
        let mut pool = Vec::with_capacity(1 << 20);
        while pool.len() < 1 << 20 {
            let half = rng.bytes(50);
            pool.extend_from_slice(&half);
            pool.extend_from_slice(&half);
        }
        Values { pool }
    }

    fn get(&self, number: usize) -> [u8; 100] {
        let mut value = [0; 100];
        let start = number * 101 % (self.pool.len() - 100);
        value.copy_from_slice(&self.pool[start..start + 100]);
        value[..8].copy_from_slice(&(number as u64).to_le_bytes());
        value
    }
}

enum Engine {
    Minikv(Db),
    LevelDb(LevelDb),
}

impl Engine {
    fn open(name: &str, dir: &Path, plan: &Plan) -> Engine {
        match name {
            "minikv" => {
                let options = Options::default()
                    .create_if_missing(true)
                    .write_buffer_bytes(plan.write_buffer_bytes)
                    .block_cache_bytes(plan.cache_bytes)
                    .filter_policy(Some(Arc::new(BloomFilterPolicy::new(10))));
                Engine::Minikv(Db::open(dir, options).expect("minikv opens"))
            }
            "leveldb" => {
                let settings = Settings {
                    create_if_missing: true,
                    paranoid_checks: false,
                    write_buffer_bytes: plan.write_buffer_bytes,
                    cache_bytes: plan.cache_bytes,
                    bloom_bits: Some(10),
                    ..Settings::default()
                };
                Engine::LevelDb(LevelDb::open(dir, &settings).expect("LevelDB opens"))
            }
            other => panic!("no engine {other}"),
        }
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        match self {
            Engine::Minikv(db) => db.put(key, value).expect("put"),
            Engine::LevelDb(db) => db.put(key, value).expect("put"),
        }
    }

    fn holds(&self, key: &[u8], value: &[u8]) -> bool {
        match self {
            Engine::Minikv(db) => db.get(key).expect("get").as_deref() == Some(value),
            Engine::LevelDb(db) => db.get(key).expect("get").as_deref() == Some(value),
        }
    }
}

fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux's /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kB");
    kib / 1024.0
}

/// Load and gets in thousand operations a second, and the peak memory after each in MiB.
type Figures = [f64; 4];

fn child(engine: &str, dir: &Path, plan: &Plan) -> Figures {
    let mut rng = Rng::new(1);
    let mut order: Vec<u32> = (0..plan.entries as u32).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i + 1));
    }
    let values = Values::new();
    let engine = Engine::open(engine, dir, plan);

    let start = Instant::now();
    for number in order {
        engine.put(&key(number as usize), &values.get(number as usize));
    }
    let load = plan.entries as f64 / start.elapsed().as_secs_f64() / 1000.0;
    let load_peak = peak_mib();

    let start = Instant::now();
    for _ in 0..plan.gets {
        let number = rng.below(plan.entries);
        assert!(engine.holds(&key(number), &values.get(number)), "entry {number}");
    }
    let gets = plan.gets as f64 / start.elapsed().as_secs_f64() / 1000.0;
    [load, gets, load_peak, peak_mib()]
}

fn run_child(engine: &str, plan: &Plan) -> Figures {
    let home = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new(std::env::current_exe().expect("this program's path"))
        .args(plan.arguments())
        .arg("--child")
        .arg(engine)
        .arg(home.path().join("db"))
        .stderr(std::process::Stdio::inherit())
        .output()
        .expect("the child runs");
    assert!(output.status.success(), "{engine} failed");
    let text = String::from_utf8(output.stdout).expect("text");
    let figures: Vec<f64> = text.split_whitespace().map(|f| f.parse().expect("a figure")).collect();
    figures.try_into().expect("four figures")
}

fn median(runs: &[Figures], column: usize) -> f64 {
    let mut figures: Vec<f64> = runs.iter().map(|run| run[column]).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let plan = Plan::parse(std::env::args().skip(1));
    if let Some((engine, dir)) = &plan.child {
        let figures = child(engine, Path::new(dir), &plan);
        println!("{}", figures.map(|figure| figure.to_string()).join(" "));
        return;
    }
    println!(
        "{} entries of 16+100 bytes in random order, then {} random gets; snappy, bloom 10, \
         write buffer {} MiB, cache {} MiB; {} runs each",
        plan.entries,
        plan.gets,
        plan.write_buffer_bytes >> 20,
        plan.cache_bytes >> 20,
        plan.repeats
    );
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for run in 1..=plan.repeats {
        for (engine, runs) in [("leveldb", &mut theirs), ("minikv", &mut ours)] {
            let figures = run_child(engine, &plan);
            eprintln!("run {run}, {engine}: {figures:.0?}");
            runs.push(figures);
        }
    }
    println!(
        "{:28}{:>14}{:>14}{:>8}",
        "median",
        format!("LevelDB {}", version()),
        "minikv",
        "ratio"
    );
    let rows = ["load, kop/s", "get, kop/s", "peak after load, MiB", "peak after gets, MiB"];
    for (column, row) in rows.iter().enumerate() {
        let (theirs, ours) = (median(&theirs, column), median(&ours, column));
        println!("{row:28}{theirs:>14.0}{ours:>14.0}{:>8.2}", ours / theirs);
    }
}

//! Writes the initial inputs of every target into a directory: `seeds [DIR]`, by default `corpus`.
//!
//! The inputs are taken from `tests/fixtures` and from small databases created here. libFuzzer
//! continues from these inputs; `cargo fuzz cmin` keeps the inputs that add coverage.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use minikv::Compression;
use minikv::files::LogReader;
use minikv::fs::MemFs;
use minikv::{Db, Filters, FixedPrefix, WriteBatch};
use minikv_fuzz::files;

/// Maximum length of an input, in bytes. Longer inputs make fuzzing slow.
const MAX_BYTES: usize = 40 << 10;

struct Seeds {
    dir: PathBuf,
    count: usize,
}

impl Seeds {
    fn add(&mut self, target: &str, bytes: &[u8]) {
        if bytes.len() > MAX_BYTES {
            return;
        }
        let dir = self.dir.join(target);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(format!("seed{:03}", self.count)), bytes).unwrap();
        self.count += 1;
    }

    /// Adds each file of a database as an input of its own, and all files together as one input.
    fn add_database(&mut self, files: &BTreeMap<String, Vec<u8>>) {
        for (name, bytes) in files {
            match name {
                name if name.ends_with(".log") => {
                    self.add("log", bytes);
                    self.add_records("batch", bytes);
                }
                name if name.starts_with("MANIFEST") => {
                    self.add("log", bytes);
                    self.add_records("edit", bytes);
                }
                name if name.ends_with(".ldb") || name.ends_with(".sst") => {
                    self.add("table", bytes);
                    self.add_blocks(bytes);
                }
                _ => {}
            }
        }
        let packed = files::pack(files);
        self.add("directory", &packed);
        self.add("repair", &packed);
    }

    fn add_records(&mut self, target: &str, log: &[u8]) {
        let fs = files::fill([("log".to_owned(), log)].into_iter());
        let path = Path::new(files::DIR).join("log");
        let file = minikv::fs::Fs::open(&fs, &path).unwrap();
        let mut reader = LogReader::new(file, &path).unwrap();
        for _ in 0..4 {
            let Ok(Some(record)) = reader.next().map(|record| record.map(<[u8]>::to_vec)) else {
                break;
            };
            self.add(target, &record[..record.len().min(2000)]);
        }
    }

    fn add_blocks(&mut self, table: &[u8]) {
        for contents in minikv_fuzz::mend::blocks(table).into_iter().take(3) {
            self.add("block", &contents);
        }
    }
}

/// Creates a database with a few entries in every kind of file.
fn made(compression: Compression, filters: Filters) -> BTreeMap<String, Vec<u8>> {
    let fs = MemFs::new();
    let options = files::options(&fs)
        .create_if_missing(true)
        .compression(compression)
        .filters(filters)
        .filter_prefix(FixedPrefix::new(2))
        .block_bytes(150)
        .max_file_bytes(500)
        .write_buffer_bytes(1000);
    let db = Db::open(files::DIR, options).unwrap();
    for round in 0..3 {
        let mut batch = WriteBatch::new();
        for i in 0..8 {
            batch.put(format!("k{}/{i}", i % 3), format!("{round}").repeat(20));
        }
        batch.delete("k1/1");
        db.write(batch).unwrap();
        db.flush().unwrap();
        if round == 1 {
            db.compact_range(..).unwrap();
        }
    }
    db.put("k1/2", "last").unwrap();
    db.delete("k0/0").unwrap();
    files::contents(&fs)
}

/// Finds the databases among the fixtures.
fn fixtures(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.join("CURRENT").exists() {
            found.push(path);
        } else if path.is_dir() {
            fixtures(&path, found);
        }
    }
}

fn main() {
    let dir = std::env::args_os().nth(1).map_or_else(|| "corpus".into(), PathBuf::from);
    let mut seeds = Seeds { dir, count: 0 };
    for compression in [Compression::None, Compression::Snappy] {
        for filters in [Filters::None, Filters::Block(10), Filters::Both(10)] {
            seeds.add_database(&made(compression, filters));
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let mut dirs = Vec::new();
    fixtures(&root, &mut dirs);
    dirs.sort();
    for dir in dirs {
        let files = std::fs::read_dir(dir).unwrap().map(Result::unwrap).filter_map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            Some((name, std::fs::read(entry.path()).ok()?))
        });
        seeds.add_database(&files.collect());
    }
    for folder in ["vectors/logs", "vectors/tables"] {
        let mut paths: Vec<_> = std::fs::read_dir(root.join(folder)).unwrap().collect();
        paths.sort_by_key(|entry| entry.as_ref().unwrap().path());
        for entry in paths {
            let target = if folder.ends_with("logs") { "log" } else { "table" };
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            seeds.add(target, &bytes);
            if target == "table" {
                seeds.add_blocks(&bytes);
            }
        }
    }
    // Any bytes are valid operations.
    for seed in 0..12u64 {
        let mut state = seed + 1;
        let mut byte = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u8
        };
        let bytes: Vec<u8> = (0..100 + 40 * seed).map(|_| byte()).collect();
        seeds.add("operations", &bytes);
    }
    println!("{} inputs in {}", seeds.count, seeds.dir.display());
}

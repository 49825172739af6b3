//! LevelDB's db_bench on minikv's Rust API: the same workloads with the same options, for a
//! comparison of the C++ interface with what is below it.
//!
//! `cargo bench --bench native -- --benchmarks=fillseq,readrandom --db=DIRECTORY [--num=ENTRIES]`
//! prints a line for each workload, as db_bench does. An unknown workload or flag is an error.

use std::ffi::{c_char, c_int};
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use minikv::{Db, Filters, Options, Readable, Result, WriteBatch, WriteOptions};

/// Bytes of the values that are written again and again.
const VALUES_BYTES: usize = 1 << 20;

/// Bytes of a piece of the values, of which the second half repeats the first.
const PIECE_BYTES: usize = 100;

/// Values that compress to half of their size.
struct Values {
    bytes: Vec<u8>,
    at: usize,
}

impl Values {
    fn new() -> Values {
        let (mut bytes, mut rng) = (Vec::new(), Rng(301));
        while bytes.len() < VALUES_BYTES {
            let half: Vec<u8> = (0..PIECE_BYTES / 2).map(|_| b' ' + rng.below(95) as u8).collect();
            bytes.extend([&half[..], &half].concat());
        }
        Values { bytes, at: 0 }
    }

    fn next(&mut self, len: usize) -> &[u8] {
        if self.at + len > self.bytes.len() {
            self.at = 0;
        }
        self.at += len;
        &self.bytes[self.at - len..self.at]
    }
}

/// The generator of Park and Miller, which db_bench uses.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0 * 16_807 % 0x7fff_ffff;
        self.0 % end
    }
}

/// A key of 16 digits. C's `snprintf` makes it, as in db_bench: it takes longer than `write!`, and
/// the difference would count as time of the C++ interface.
struct Key([u8; 17]);

impl Key {
    fn new() -> Key {
        Key([0; 17])
    }

    #[expect(unsafe_code, reason = "calls the C library")]
    fn set(&mut self, number: u64) -> &[u8] {
        let number = number as c_int;
        // SAFETY: the format takes one `int`, and nothing is written past the length of the buffer.
        unsafe { snprintf(self.0.as_mut_ptr().cast(), self.0.len(), c"%016d".as_ptr(), number) };
        &self.0[..16]
    }
}

#[expect(unsafe_code, reason = "calls the C library")]
unsafe extern "C" {
    fn snprintf(buffer: *mut c_char, bytes: usize, format: *const c_char, ...) -> c_int;
}

struct Bench {
    dir: PathBuf,
    num: u64,
    /// `None` only while the directory is removed.
    db: Option<Db>,
    /// The number of workloads so far, from which the next one's keys follow.
    count: u64,
}

impl Bench {
    /// The options of db_bench, which are LevelDB's defaults.
    fn options() -> Options {
        let options = Options::default().create_if_missing(true).filters(Filters::None);
        options.max_open_files(1000).map_tables(true)
    }

    fn new(dir: PathBuf, num: u64) -> Result<Bench> {
        let mut bench = Bench { dir, num, db: None, count: 0 };
        bench.start_over()?;
        Ok(bench)
    }

    /// Replaces the database with an empty one.
    fn start_over(&mut self) -> Result<()> {
        if let Some(db) = self.db.take() {
            db.close()?;
        }
        minikv::destroy(&self.dir, &Options::default())?;
        self.db = Some(Db::open(&self.dir, Bench::options())?);
        Ok(())
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("the database is open")
    }

    fn rng(&mut self) -> Rng {
        self.count += 1;
        Rng(1000 + self.count)
    }

    /// Runs a workload. Returns the seconds and the number of operations.
    fn run(&mut self, name: &str) -> Result<(f64, u64)> {
        if matches!(name, "fillseq" | "fillrandom" | "fillsync" | "fill100K") {
            self.start_over()?;
        }
        let (mut rng, num) = (self.rng(), self.num);
        let thousandth = num / 1000;
        let began = Instant::now();
        let ops = match name {
            "fillseq" => fill(self.db(), num, 100, |at| at)?,
            "fillsync" => {
                let synced = self.db().writing(WriteOptions::default().sync(true));
                fill(&synced, thousandth, 100, |_| rng.below(num))?
            }
            "fillrandom" | "overwrite" => fill(self.db(), num, 100, |_| rng.below(num))?,
            "fill100K" => fill(self.db(), thousandth, 100_000, |_| rng.below(num))?,
            "deleteseq" => self.delete(|at| at)?,
            "deleterandom" => self.delete(|_| rng.below(num))?,
            "readseq" => self.scan(false)?,
            "readreverse" => self.scan(true)?,
            "readrandom" => self.get(16, || rng.below(num))?,
            "readmissing" => self.get(15, || rng.below(num))?,
            "readhot" => self.get(16, || rng.below(num.div_ceil(100)))?,
            "seekrandom" => self.seek_random(&mut rng)?,
            "seekordered" => self.seek_ordered(&mut rng)?,
            "readwhilewriting" => self.read_while_writing(&mut rng)?,
            "compact" => {
                self.db().compact_range(..)?;
                1
            }
            _ => panic!("unknown workload: {name}"),
        };
        Ok((began.elapsed().as_secs_f64(), ops))
    }

    fn delete(&self, mut key_at: impl FnMut(u64) -> u64) -> Result<u64> {
        // db_bench makes values for deletes, too, in the time that it measures.
        black_box(Values::new());
        let mut key = Key::new();
        for at in 0..self.num {
            let mut batch = WriteBatch::new();
            batch.delete(key.set(key_at(at)));
            self.db().write(batch)?;
        }
        Ok(self.num)
    }

    fn scan(&self, backward: bool) -> Result<u64> {
        let (mut cursor, mut count) = (self.db().cursor()?, 0);
        let mut valid = match backward {
            true => cursor.seek_to_last()?,
            false => cursor.seek_to_first()?,
        };
        while valid && count < self.num {
            black_box((cursor.key(), cursor.value()));
            count += 1;
            valid = match backward {
                true => cursor.prev()?,
                false => cursor.next()?,
            };
        }
        Ok(count)
    }

    /// Gets as many keys as there are entries. Only `len` bytes of each key are used: with fewer
    /// than 16, no key is found.
    fn get(&self, len: usize, mut next_key: impl FnMut() -> u64) -> Result<u64> {
        let mut key = Key::new();
        for _ in 0..self.num {
            black_box(self.db().get(&key.set(next_key())[..len])?);
        }
        Ok(self.num)
    }

    fn seek_random(&self, rng: &mut Rng) -> Result<u64> {
        let mut key = Key::new();
        for _ in 0..self.num {
            let mut cursor = self.db().cursor()?;
            black_box(cursor.seek(key.set(rng.below(self.num)))?);
        }
        Ok(self.num)
    }

    fn seek_ordered(&self, rng: &mut Rng) -> Result<u64> {
        let (mut cursor, mut key, mut at) = (self.db().cursor()?, Key::new(), 0);
        for _ in 0..self.num {
            at = (at + rng.below(100)) % self.num;
            black_box(cursor.seek(key.set(at))?);
        }
        Ok(self.num)
    }

    fn read_while_writing(&mut self, rng: &mut Rng) -> Result<u64> {
        let (mut write_rng, done) = (self.rng(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| -> Result<()> {
                let (mut values, mut key) = (Values::new(), Key::new());
                while !done.load(Ordering::Relaxed) {
                    self.db().put(key.set(write_rng.below(self.num)), values.next(100))?;
                }
                Ok(())
            });
            let read = self.get(16, || rng.below(self.num));
            done.store(true, Ordering::Relaxed);
            writer.join().expect("the writer does not panic")?;
            read
        })
    }
}

fn fill(db: &Db, count: u64, len: usize, mut key_at: impl FnMut(u64) -> u64) -> Result<u64> {
    let (mut values, mut key) = (Values::new(), Key::new());
    for at in 0..count {
        db.write(put(key.set(key_at(at)), values.next(len)))?;
    }
    Ok(count)
}

/// Returns a batch with one entry: db_bench writes batches.
fn put(key: &[u8], value: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(key, value);
    batch
}

fn main() -> Result<()> {
    let (mut workloads, mut dir, mut num) = (String::new(), None, 1_000_000);
    // Cargo adds `--bench`.
    for argument in std::env::args().skip(1).filter(|argument| argument != "--bench") {
        match argument.split_once('=') {
            Some(("--benchmarks", names)) => workloads = names.to_owned(),
            Some(("--db", path)) => dir = Some(PathBuf::from(path)),
            Some(("--num", number)) => num = number.parse().expect("--num is a number"),
            _ => panic!("unknown flag: {argument}"),
        }
    }
    let mut bench = Bench::new(dir.expect("--db names a directory"), num)?;
    for name in workloads.split(',') {
        // Each workload has a thread of its own, as in db_bench.
        let run = || bench.run(name);
        let (seconds, ops) = std::thread::scope(|scope| scope.spawn(run).join().expect(name))?;
        println!("{name:12} : {:11.3} micros/op;", seconds * 1e6 / ops.max(1) as f64);
    }
    Ok(())
}

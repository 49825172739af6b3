//! The workloads of `capi.c`, run without the C API. Usage: `native DIRECTORY ENTRIES`.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use minikv::{Db, Filters, Options, Readable, WriteBatch};

const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;
const BATCH: u64 = 100;
const SCANS: u64 = 5;

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn key_of(number: u64) -> [u8; KEY_BYTES] {
    let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    std::array::from_fn(|at| b"0123456789abcdef"[(number >> (60 - 4 * at) & 15) as usize])
}

fn report(workload: &str, operations: u64, since: Instant) {
    println!("{workload} {:.0}", operations as f64 / since.elapsed().as_secs_f64());
}

struct Run {
    entries: u64,
    values: Vec<u8>,
    chance: Chance,
}

impl Run {
    fn value(&self, at: u64) -> &[u8] {
        &self.values[(at % 1024) as usize..][..VALUE_BYTES]
    }

    fn put(&self, db: &Db) -> Result {
        let start = Instant::now();
        for at in 0..self.entries {
            db.put(key_of(at), self.value(at))?;
        }
        report("put", self.entries, start);
        Ok(())
    }

    fn batch(&self, db: &Db) -> Result {
        let start = Instant::now();
        let mut batch = WriteBatch::new();
        for at in 0..self.entries {
            batch.put(key_of(at), self.value(at));
            if at % BATCH == BATCH - 1 {
                db.write(std::mem::take(&mut batch))?;
            }
        }
        report("batch", self.entries, start);
        Ok(())
    }

    fn get(&mut self, db: &Db, workload: &str) -> Result {
        let start = Instant::now();
        for _ in 0..self.entries {
            let found = db.get(key_of(self.chance.next() % self.entries))?;
            assert!(found.is_some_and(|value| value.len() == VALUE_BYTES));
        }
        report(workload, self.entries, start);
        Ok(())
    }

    fn scan(&self, db: &Db) -> Result {
        let mut bytes = 0;
        let start = Instant::now();
        for _ in 0..SCANS {
            let mut cursor = db.cursor()?;
            cursor.seek_to_first()?;
            while cursor.valid() {
                bytes += (cursor.key().len() + cursor.value().len()) as u64;
                cursor.next()?;
            }
        }
        assert_eq!(bytes, SCANS * self.entries * (KEY_BYTES + VALUE_BYTES) as u64);
        report("scan", SCANS * self.entries, start);
        Ok(())
    }
}

fn main() -> Result {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, directory, entries] = &arguments[..] else { return Err("DIRECTORY ENTRIES".into()) };
    let mut chance = Chance(88_172_645_463_325_252);
    let values = (0..VALUE_BYTES + 1024).map(|_| (chance.next() >> 32) as u8).collect();
    let entries = entries.parse::<u64>()? / BATCH * BATCH;
    let mut run = Run { entries, values, chance };
    let options = Options::default()
        .create_if_missing(true)
        .max_open_files(1000)
        .block_cache_bytes(256 << 20)
        .filters(Filters::Block(10));

    let db = Db::open(Path::new(directory).join("batch"), options.clone())?;
    run.batch(&db)?;
    drop(db);
    let db = Db::open(Path::new(directory).join("put"), options)?;
    run.put(&db)?;
    db.compact_range(..)?;
    run.get(&db, "cold")?;
    run.get(&db, "get")?;
    run.scan(&db)?;
    Ok(())
}

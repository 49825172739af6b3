//! The database of all threads, and counts of their work.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use minikv::{CompactionDecision, Db, Filters, FixedPrefix, Options, Resources};

/// An error of the database, or the text that says what it gave and should not have.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

pub type Checked<T = ()> = Result<T, Failure>;

/// Number of things done.
pub type Done = AtomicU64;

pub struct World {
    pub home: PathBuf,
    pub dir: PathBuf,
    pub stop: AtomicBool,
    /// Offers with lower numbers may be removed by compactions.
    pub floor: Arc<AtomicU64>,
    /// The last number of the pairs whose write was acknowledged.
    pub pairs: AtomicU64,
    pub row_time: Duration,
    pub backup_time: Duration,
    pub verify_time: Duration,
    resources: Resources,
    pub writes: Done,
    pub reads: Done,
    pub backups: Done,
    pub restored: Done,
    pub checkpoints: Done,
    pub verified: Done,
    pub refreshes: Done,
    pub replicated: Done,
}

impl World {
    /// Returns a world below `home`, which lives for `length`.
    pub fn new(home: &Path, length: Duration) -> World {
        World {
            home: home.to_path_buf(),
            dir: home.join("db"),
            stop: AtomicBool::new(false),
            floor: Arc::default(),
            pairs: AtomicU64::new(0),
            row_time: (length / 4).min(Duration::from_secs(60)),
            backup_time: (length / 12).min(Duration::from_secs(60)),
            verify_time: (length / 6).min(Duration::from_secs(600)),
            resources: resources(),
            writes: Done::default(),
            reads: Done::default(),
            backups: Done::default(),
            restored: Done::default(),
            checkpoints: Done::default(),
            verified: Done::default(),
            refreshes: Done::default(),
            replicated: Done::default(),
        }
    }

    /// Small tables and memtables, so that much happens, and whatever can be on.
    pub fn options(&self) -> Options {
        let floor = self.floor.clone();
        Options::default()
            .create_if_missing(true)
            .write_buffer_bytes(1 << 20)
            .max_file_bytes(256 << 10)
            .filters(Filters::Both(10))
            .filter_prefix(FixedPrefix::new(6))
            .resources(&self.resources)
            .map_tables(true)
            .preallocate_logs(true)
            .reuse_logs(true)
            .paranoid_checks(true)
            .verify_compression(true)
            .keep_logs_bytes(16 << 20)
            .compaction_filter(move |key, _| match offer_number(key) {
                Some(number) if number < floor.load(Relaxed) => CompactionDecision::Remove,
                _ => CompactionDecision::Keep,
            })
    }

    pub fn open(&self) -> Checked<Db> {
        Ok(Db::open(&self.dir, self.options())?)
    }

    /// Drops the cache, which keeps memory for later blocks, also while no database is open.
    pub fn drop_resources(&mut self) {
        self.resources = resources();
    }

    /// Checks the directory while nothing has it open.
    pub fn check_closed(&self) -> Checked {
        check_sound(&self.dir, &self.options())
    }

    pub fn ends(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Waits for so long, or until the end. Returns whether it is not the end.
    pub fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while !self.ends() && Instant::now() < until {
            let rest = until.saturating_duration_since(Instant::now());
            std::thread::sleep(rest.min(Duration::from_millis(20)));
        }
        !self.ends()
    }
}

fn resources() -> Resources {
    Resources::default().memory_bytes(48 << 20).compaction_threads(2)
}

/// Checks the files of a database. Notes are no faults: beside a writer, a log may end in a part of
/// a record.
pub fn check_sound(dir: &Path, options: &Options) -> Checked {
    let report = minikv::verify(dir, options)?;
    match report.is_sound() {
        true => Ok(()),
        false => Err(format!("verify: {:?}", report.faults).into()),
    }
}

/// Returns the number of the offer with this key.
pub fn offer_number(key: &[u8]) -> Option<u64> {
    std::str::from_utf8(key.strip_prefix(b"offer/")?).ok()?.parse().ok()
}

//! Kills minikv. Then LevelDB or goleveldb opens the database, writes to it, and is closed or
//! killed. Finally every engine must find all acknowledged entries.
//!
//! `MINIKV_KILLED_ROUNDS` is the number of rounds (default 30), `MINIKV_SEED` the seed. goleveldb
//! comes from Debian's package; without the package, goleveldb's turns are skipped.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use minikv::files::{Tail, list_files, live_logs, recover_manifest};
use minikv::fs::sim::{Fault, SimFs};
use minikv::fs::{DiskFs, Fs};
use minikv::internals::format::batch::decode_header;
use minikv::internals::format::name::log_name;
use minikv::internals::log::of_batches;
use minikv::{Db, Options, Readable, WriteOptions};
use minikv_interop::ffi::Entry;
use minikv_interop::others::{dump, export, goleveldb};
use minikv_interop::{LevelDb, Settings, value_of};
use minikv_support::rng::{self, Rng};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const LEVELDB: [&str; 3] = ["leveldb", "paranoid", "reuse"];

fn settings(program: &str) -> Settings {
    Settings {
        paranoid_checks: program == "paranoid",
        reuse_logs: program == "reuse",
        ..Settings::default()
    }
}

/// The outcome of one writing process.
enum Wrote {
    /// Number of acknowledged puts.
    Acked(u64),
    Refused,
}

/// Runs a process that writes the number of its acknowledged puts to the file `acks`. If
/// `kill_after` is given, kills the process that long after its first acknowledged put. Returns the
/// outcome.
fn run(command: &mut Command, acks: &Path, kill_after: Option<Duration>) -> Wrote {
    let _ = fs::remove_file(acks);
    let acked = || fs::read(acks).ok()?.try_into().ok().map(u64::from_le_bytes);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    if let Some(after) = kill_after {
        while acked().is_none() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(after);
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() || kill_after.is_some(), "{command:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match said.starts_with("refused") {
        true => Wrote::Refused,
        false => Wrote::Acked(acked().unwrap_or(0)),
    }
}

struct Scene {
    home: tempfile::TempDir,
    dir: PathBuf,
    rng: Rng,
    goleveldb: Option<PathBuf>,
    /// All acknowledged entries.
    model: Model,
    /// Numbers of puts and of refusals, by program.
    counts: BTreeMap<String, u64>,
    spans: u32,
}

impl Scene {
    fn new(seed: u64) -> Scene {
        let home = tempfile::tempdir().unwrap();
        let goleveldb = goleveldb(home.path());
        let dir = home.path().join("db");
        let (rng, counts) = (Rng::new(seed), BTreeMap::new());
        Scene { home, dir, rng, goleveldb, model: Model::new(), counts, spans: 0 }
    }

    fn count(&mut self, what: impl Into<String>, by: u64) {
        *self.counts.entry(what.into()).or_default() += by;
    }

    fn begin_round(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
        self.model.clear();
        self.spans = 0;
    }

    fn next_prefix(&mut self) -> String {
        self.spans += 1;
        format!("{}-", self.spans)
    }

    fn minikv_is_killed(&mut self, plain: bool) {
        let (prefix, kind) = (self.next_prefix(), self.rng.below(15) as u64);
        let acks = self.home.path().join("acks");
        let mut command = Command::new(env!("CARGO_BIN_EXE_writer"));
        command.arg(if plain { "plain-minikv" } else { "minikv" }).arg(&self.dir).arg(&acks);
        command.args([&prefix, "100000000", &kind.to_string()]);
        let most = *self.rng.pick(&[500, 5000, 40_000]);
        let after = Duration::from_micros(self.rng.below(most) as u64);
        let Wrote::Acked(acked) = run(&mut command, &acks, Some(after)) else {
            panic!("minikv refused")
        };
        for number in 1..=acked {
            let key = format!("{prefix}{number:08}");
            let value = value_of(&key, kind, number);
            self.model.insert(key.into_bytes(), value);
        }
        self.count("puts by minikv", acked);
    }

    /// Returns whether every log ends with its last record.
    fn ends_clean(&self) -> bool {
        let is_clean = |path: PathBuf| {
            let mut reader = of_batches(DiskFs.open(&path).unwrap(), &path).unwrap();
            while reader.next().unwrap().is_some() {}
            reader.tail() == Tail::Clean
        };
        let entries = fs::read_dir(&self.dir).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|name| name == "log")).all(is_clean)
    }

    /// Lets another program write to the database, and possibly kills the program. Records the
    /// acknowledged puts, or that the program refused to open the database.
    fn another_writes(&mut self, program: &str) {
        let (prefix, acks) = (self.next_prefix(), self.home.path().join("acks"));
        let count = (1 + self.rng.below(400)).to_string();
        let mut command = match (program, &self.goleveldb) {
            ("default" | "strict", Some(goleveldb)) => {
                let mut command = Command::new(goleveldb);
                command.arg("write").arg(&self.dir).arg(program).arg(&acks).args([&prefix, &count]);
                command
            }
            _ => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_writer"));
                command.arg(program).arg(&self.dir).arg(&acks).args([&prefix, &count, "0"]);
                command
            }
        };
        let kill = self.rng.one_in(2);
        let after = kill.then(|| Duration::from_micros(self.rng.below(20_000) as u64));
        match run(&mut command, &acks, after) {
            Wrote::Refused => self.count(format!("refused by {program}"), 1),
            Wrote::Acked(acked) => {
                self.count(format!("puts by {program}"), acked);
                for number in 1..=acked {
                    let key = format!("{prefix}{number:08}");
                    let value = format!("value of {key}").into_bytes();
                    self.model.insert(key.into_bytes(), value);
                }
            }
        }
    }

    /// Checks that `entries` has every acknowledged entry.
    fn check(&self, who: &str, entries: impl IntoIterator<Item = Entry>) {
        let found: HashMap<Vec<u8>, Vec<u8>> = entries.into_iter().collect();
        for (key, value) in &self.model {
            let key_text = String::from_utf8_lossy(key);
            let is_right = found.get(key).map(|found| found == value);
            assert_eq!(is_right, Some(true), "{who}: {key_text}");
        }
        // A killed process may have written one more entry than it reported.
        assert!(found.len() <= self.model.len() + self.spans as usize, "{who} finds too much");
    }

    fn copy(&self, name: &str) -> PathBuf {
        let copy = self.home.path().join(name);
        let _ = fs::remove_dir_all(&copy);
        fs::create_dir(&copy).unwrap();
        for entry in fs::read_dir(&self.dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
            }
        }
        copy
    }

    fn check_all(&mut self) {
        for paranoid in [false, true] {
            let copy = self.copy("minikv");
            let options = Options::default().paranoid_checks(paranoid);
            let entries = |db: &Db| -> Vec<Entry> {
                let entries = db.iter().map(Result::unwrap);
                entries.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
            };
            let read_only = Db::open_read_only(&copy, options.clone()).unwrap();
            assert_eq!(read_only.recovery().lost, []);
            let all = read_only.iter().map(Result::unwrap);
            self.check("read-only", all.map(|(key, value)| (key.to_vec(), value.to_vec())));
            assert!(minikv::verify(&copy, &options).unwrap().is_sound());
            let db = Db::open(&copy, options.reuse_logs(self.rng.one_in(2))).unwrap();
            assert_eq!(db.recovery().lost, []);
            self.check("minikv", entries(&db));
        }
        for program in LEVELDB {
            match LevelDb::open(&self.copy(program), &settings(program)) {
                Ok(db) => self.check(program, db.entries(false).unwrap()),
                Err(error) if program == "paranoid" => {
                    println!("paranoid LevelDB: {error}");
                    self.count("refused by paranoid", 1);
                }
                Err(error) => panic!("{program}: {error}"),
            }
        }
        let Some(goleveldb) = self.goleveldb.clone() else { return };
        if manifest_covers_a_log(&self.dir) {
            self.count("left out for goleveldb", 1);
            return;
        }
        for mode in ["default", "strict"] {
            match dump(&goleveldb, &self.copy(mode), mode) {
                Ok(entries) => self.check(mode, entries),
                Err(error) => {
                    assert!(mode == "strict", "goleveldb: {error}");
                    self.count("refused by strict", 1);
                }
            }
        }
    }
}

/// Returns whether the last sequence number in the MANIFEST of `dir` is at least that of a write
/// that is only in a log. goleveldb skips such writes. LevelDB writes such a MANIFEST
/// - with `reuse_logs`, when it finds two logs: see
///   [`goleveldb_skips_writes_when_leveldb_has_reused_the_second_of_two_logs`];
/// - when a compaction ends after the write: see
///   [`goleveldb_skips_writes_made_before_a_compaction_of_leveldb_ended`].
fn manifest_covers_a_log(dir: &Path) -> bool {
    let recovered = recover_manifest(&DiskFs, dir, "leveldb.BytewiseComparator").unwrap();
    let logs = live_logs(&list_files(&DiskFs, dir).unwrap(), &recovered);
    logs.into_iter().any(|number| {
        let path = dir.join(log_name(number));
        let mut log = of_batches(DiskFs.open(&path).unwrap(), &path).unwrap();
        let record = log.next().unwrap();
        record.is_some_and(|record| decode_header(record).unwrap().0 <= recovered.last_seq)
    })
}

#[test]
fn files_of_a_killed_minikv_are_read_and_continued_by_everyone() {
    let setting = std::env::var("MINIKV_KILLED_ROUNDS").ok();
    let rounds: u64 = setting.map_or(30, |text| text.parse().expect("a number"));
    let seed = rng::seed();
    let mut scene = Scene::new(seed);
    // Number of rounds with a log that LevelDB refuses. Rounds are counted, because LevelDB may
    // refuse the same log twice.
    let mut refused = 0;
    let by_paranoid = |scene: &Scene| scene.counts.get("refused by paranoid").copied();
    for round in 0..rounds {
        // In every third round, space for logs is not preallocated, so that logs end with a record.
        let plain = round % 3 == 2;
        println!("round {round} of MINIKV_SEED={seed}, plain logs: {plain}");
        scene.begin_round();
        let before_round = by_paranoid(&scene);
        scene.minikv_is_killed(plain);
        assert!(!manifest_covers_a_log(&scene.dir), "goleveldb would skip writes of minikv");
        let clean = scene.ends_clean();
        let others = match (&scene.goleveldb, plain, clean) {
            (None, ..) => &["leveldb", "paranoid", "reuse"][..],
            (_, false, _) => &["reuse", "leveldb", "paranoid", "reuse", "default"],
            // LevelDB itself loses writes that it appends after a torn record.
            (_, true, false) => &["leveldb", "paranoid", "default"],
            (_, true, true) => &["strict", "leveldb", "strict", "paranoid", "default", "reuse"],
        };
        let other = others[(round / 3) as usize % others.len()];
        let before = scene.counts.get("refused by strict").copied();
        scene.another_writes(other);
        let by_leveldb = LEVELDB.contains(&other);
        assert!(by_leveldb || !manifest_covers_a_log(&scene.dir), "by {other}");
        let after = scene.counts.get("refused by strict").copied();
        assert!(!plain || !clean || before == after, "goleveldb refused a plain log");
        if scene.rng.one_in(2) {
            scene.minikv_is_killed(plain);
        }
        let before = by_paranoid(&scene);
        scene.check_all();
        let after = by_paranoid(&scene);
        assert!(!plain || before == after, "LevelDB refused a plain log");
        refused += u64::from(after != before_round);
    }
    // LevelDB rarely refuses a log: in 3 of 600 rounds. This happens when a record crosses a block
    // boundary and minikv is killed before it has written the last fragment of the record.
    assert!(refused <= 2 + rounds / 50, "{refused} refused by LevelDB with paranoid_checks");
    println!("{rounds} killed logs continued, seed {seed}: nothing lost; {:?}", scene.counts);
}

#[test]
fn leveldb_continues_a_log_and_manifest_whose_sync_failed() {
    for pattern in ["*.log", "*MANIFEST*"] {
        let sim = SimFs::new(1);
        let options = Options::default().create_if_missing(true).fs(sim.clone());
        let db = Db::open("/db", options).unwrap();
        let sync = WriteOptions::default().sync(true);
        db.writing(sync).put("before", "value").unwrap();
        sim.inject(Fault::lost_sync().path(pattern));
        assert!(db.writing(sync).put("failed", "value").and_then(|()| db.flush()).is_err());
        drop(db);
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("db");
        export(&sim, &dir);
        for round in 0..3 {
            let db = LevelDb::open(&dir, &settings("reuse")).unwrap();
            assert_eq!(db.get(b"before").unwrap().as_deref(), Some(&b"value"[..]));
            for i in 0..50 {
                db.put_synced(format!("{round}-{i}").as_bytes(), b"value").unwrap();
            }
            assert!(db.entries(false).unwrap().len() > (round + 1) * 50, "{pattern}");
        }
        let db = Db::open(&dir, Options::default().reuse_logs(true)).unwrap();
        assert!(db.iter().count() >= 151, "{pattern}");
        assert_eq!(db.recovery().lost, []);
    }
}

/// Shows one reason why [`Scene::check_all`] does not let goleveldb read every database: goleveldb
/// loses writes even in a database that was written by LevelDB alone.
#[test]
fn goleveldb_skips_writes_when_leveldb_has_reused_the_second_of_two_logs() {
    let home = tempfile::tempdir().unwrap();
    let Some(goleveldb) = goleveldb(home.path()) else { return };
    let (dir, later) = (home.path().join("db"), home.path().join("later"));
    let put = |dir: &Path, from: u64| {
        let settings = Settings { create_if_missing: true, ..settings("leveldb") };
        let db = LevelDb::open(dir, &settings).unwrap();
        (from..from + 10).for_each(|i| db.put_synced(format!("{i:02}").as_bytes(), b"").unwrap());
    };
    // Makes a database with two live logs, such as LevelDB leaves when it is killed during a flush.
    put(&dir, 0);
    Command::new("cp").arg("-r").args([&dir, &later]).status().unwrap();
    put(&later, 10);
    let log = |dir: &Path| {
        let files = list_files(&DiskFs, dir).unwrap().into_iter();
        files.map(|(name, _)| name).filter(|name| name.ends_with(".log")).max().unwrap()
    };
    fs::copy(later.join(log(&later)), dir.join(log(&later))).unwrap();
    assert!(!manifest_covers_a_log(&dir));
    assert_eq!(LevelDb::open(&dir, &settings("reuse")).unwrap().entries(false).unwrap().len(), 20);
    assert!(manifest_covers_a_log(&dir));
    let copy = home.path().join("copy");
    Command::new("cp").arg("-r").args([&dir, &copy]).status().unwrap();
    let found = dump(&goleveldb, &copy, "default").unwrap();
    assert_eq!(found.len(), 11, "goleveldb finds all but the last of the writes in the second log");
    let db = Db::open(&dir, Options::default()).unwrap();
    assert_eq!(db.iter().count(), 20);
}

/// Shows the other reason why [`Scene::check_all`] does not let goleveldb read every database. No
/// program is killed here.
#[test]
fn goleveldb_skips_writes_made_before_a_compaction_of_leveldb_ended() {
    let home = tempfile::tempdir().unwrap();
    let Some(goleveldb) = goleveldb(home.path()) else { return };
    // Tries again when the compaction ends before the puts do, as it may on a busy machine.
    let dirs = (0..20).map(|attempt| home.path().join(attempt.to_string()));
    let covered =
        dirs.inspect(|dir| compact_after_puts(dir)).find(|dir| manifest_covers_a_log(dir));
    let (dir, copy) = (covered.expect("a compaction after the puts"), home.path().join("copy"));
    Command::new("cp").arg("-r").args([&dir, &copy]).status().unwrap();
    let entry = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    let found = dump(&goleveldb, &copy, "default").unwrap();
    assert_eq!(found, [entry("first", "3"), entry("last", "4")], "goleveldb skips a put of first");
    let db = Db::open(&dir, Options::default()).unwrap();
    for key in ["first", "last"] {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&b"4"[..]));
    }
}

/// Creates a LevelDB database whose last two puts are in a log, and waits until level 0 has been
/// compacted.
fn compact_after_puts(dir: &Path) {
    let settings = Settings { create_if_missing: true, ..settings("leveldb") };
    // Each open but the first turns the log of the previous one into a table of level 0. After the
    // fifth open, level 0 has four tables, and LevelDB compacts them in the background.
    for value in ["0", "1", "2", "3", "4"] {
        let db = LevelDb::open(dir, &settings).unwrap();
        ["first", "last"].iter().for_each(|key| db.put(key.as_bytes(), value.as_bytes()).unwrap());
        let is_compacted = || db.property("leveldb.num-files-at-level0").unwrap() == "0";
        let deadline = Instant::now() + Duration::from_secs(60);
        while value == "4" && !is_compacted() {
            assert!(Instant::now() < deadline, "LevelDB does not compact level 0");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

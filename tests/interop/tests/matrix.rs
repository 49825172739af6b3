//! The compatibility matrix: each engine opens a copy of each program's database and lists its
//! entries. The results are compared with a table of `docs/compatibility.md`, which
//! `MINIKV_MATRIX=write` rewrites.
//!
//! Without goleveldb (Debian's package), the row and the column of goleveldb are not compared.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use minikv::{Comparator, Compression, Db, IndexedDbComparator, Options};
use minikv_interop::ffi::Entry;
use minikv_interop::{LevelDb, Settings, others};

/// Keys with their values in the format of `expected.tsv`: a short value in hex, a long value as
/// `#` followed by the length. `expected.tsv` also has a hash of each long value; only tests/golden
/// compares these hashes.
type Contents = BTreeMap<Vec<u8>, String>;

/// A database and its contents.
struct Written {
    by: &'static str,
    dir: PathBuf,
    contents: Contents,
}

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compatibility.md");
const HEADING: &str = "## Who reads whose files\n";

fn shown(value: &[u8]) -> String {
    match value.len() {
        0..=1024 => value.iter().map(|byte| format!("{byte:02x}")).collect(),
        len => format!("#{len}"),
    }
}

fn contents(entries: &[Entry]) -> Contents {
    entries.iter().map(|(key, value)| (key.clone(), shown(value))).collect()
}

/// Returns all puts that the command `create` of `goleveldb.go` makes for the numbers from 1 to
/// 5000. The puts go to 500 keys in turn, so the last value of each key counts.
fn cycled() -> Vec<Entry> {
    let entry = |n: u64| {
        let value = format!("{n}:{}", "v".repeat(n as usize % 900));
        (format!("{:04}", n % 500).into_bytes(), value.into_bytes())
    };
    (1..=5000).map(entry).collect()
}

fn by_minikv(dir: PathBuf, by: &'static str, compression: Compression) -> Written {
    let options = Options::default().create_if_missing(true).compression(compression);
    let db = Db::open(&dir, options.write_buffer_bytes(64 << 10)).unwrap();
    let entries = cycled();
    for (i, (key, value)) in entries.iter().enumerate() {
        db.put(key, value).unwrap();
        if i == 4000 {
            db.compact_range(..).unwrap();
        }
    }
    db.close().unwrap();
    Written { by, dir, contents: contents(&entries) }
}

fn by_leveldb(dir: PathBuf) -> Written {
    let settings = Settings { bloom_bits: Some(10), ..Settings::default() };
    let settings = Settings { create_if_missing: true, ..settings };
    let db = LevelDb::open(&dir, &settings).unwrap();
    let entries = cycled();
    for (i, (key, value)) in entries.iter().enumerate() {
        db.put(key, value).unwrap();
        // Flushes the memtable while no put is running. After a flush concurrent with puts,
        // goleveldb would refuse the log or lose entries of it.
        if i == 4000 {
            db.compact_range(None, None);
        }
    }
    Written { by: "LevelDB 1.23", dir, contents: contents(&entries) }
}

fn by_goleveldb(goleveldb: &Path, dir: PathBuf) -> Written {
    let acks = dir.with_extension("acks");
    let mut create = Command::new(goleveldb);
    create.arg("create").arg(&dir).arg("default").arg(acks).args(["1", "5000"]);
    assert!(create.status().unwrap().success());
    Written { by: "goleveldb", dir, contents: contents(&cycled()) }
}

fn of_fixture(dir: PathBuf, by: &'static str, case: &str) -> Written {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(case);
    copy(&fixtures.join("db"), &dir);
    let unhex = |hex: &str| -> Vec<u8> {
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(byte).collect()
    };
    let expected = fs::read_to_string(fixtures.join("expected.tsv")).unwrap();
    let entry = |line: &str| {
        let (key, value) = line.split_once('\t').unwrap();
        (unhex(key), value.split(':').next().unwrap().to_string())
    };
    Written { by, dir, contents: expected.lines().map(entry).collect() }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

fn read_by_minikv(dir: &Path, options: Options) -> Result<Vec<Entry>, String> {
    let db = Db::open(dir, options).map_err(|error| error.to_string())?;
    db.iter()
        .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())
}

fn read_by_leveldb(dir: &Path, settings: &Settings) -> Result<Vec<Entry>, String> {
    LevelDb::open(dir, settings)?.entries(false)
}

/// Lists a database with goleveldb in its strict mode.
fn read_by_goleveldb(goleveldb: &Path, dir: &Path) -> Result<Vec<Entry>, String> {
    let dump = Command::new(goleveldb).arg("dump").arg(dir).arg("strict").output().unwrap();
    if !dump.status.success() {
        let said = String::from_utf8_lossy(&dump.stderr).into_owned();
        return Err(said.lines().next().unwrap_or_default().to_string());
    }
    others::dump(goleveldb, dir, "strict")
}

/// Returns the text of the table cell for the result of a reader.
fn cell(written: &Written, found: Result<Vec<Entry>, String>) -> String {
    match found {
        Ok(entries) if contents(&entries) == written.contents => "all entries".to_string(),
        Ok(entries) => {
            format!("**{} of {} entries**", entries.len(), written.contents.len())
        }
        Err(message) => format!("refuses: {}", shortened(&message, &written.dir)),
    }
}

/// Returns a message without the parts that differ from run to run: directories, files, offsets.
fn shortened(message: &str, dir: &Path) -> String {
    let mut text = message.trim().to_string();
    for prefix in ["refused: ", "panic: "] {
        text = text.strip_prefix(prefix).unwrap_or(&text).to_string();
    }
    let home = dir.parent().unwrap().to_str().unwrap();
    let varies =
        |word: &str| word.contains(home) || word.starts_with("(pos=") || word.starts_with("[file=");
    let words: Vec<&str> = text.split(' ').filter(|word| !varies(word)).collect();
    format!("`{}`", words.join(" ").replace(['`', '|'], "'"))
}

/// Opens a copy of the database with each engine. Returns a row of the table.
fn row(written: &Written, goleveldb: Option<&Path>) -> Vec<String> {
    let options = match written.by.contains("IndexedDB") {
        false => Options::default(),
        true => Options::default().comparator(IndexedDbComparator),
    };
    let fresh = |reader: &str| {
        let dir = written.dir.with_extension(reader);
        copy(&written.dir, &dir);
        dir
    };
    let by_minikv = cell(written, read_by_minikv(&fresh("minikv"), options));
    let by_leveldb = cell(written, read_by_leveldb(&fresh("leveldb"), &Settings::default()));
    let mut row = vec![written.by.to_string(), by_minikv, by_leveldb];
    row.extend(goleveldb.map(|go| cell(written, read_by_goleveldb(go, &fresh("go")))));
    row
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

#[test]
fn the_page_has_the_readers_of_each_engines_files() {
    let home = tempfile::tempdir().unwrap();
    let dir = |name: &str| home.path().join(name);
    let goleveldb = others::goleveldb(home.path());
    let go = goleveldb.as_deref();
    let mut written = vec![
        by_minikv(dir("minikv"), "minikv", Compression::Snappy),
        by_minikv(dir("deflate"), "minikv, `Compression::Deflate`", Compression::Deflate(6)),
        by_minikv(dir("zlib"), "minikv, `Compression::Zlib`", Compression::Zlib(6)),
        by_leveldb(dir("leveldb")),
    ];
    written.extend(go.map(|go| by_goleveldb(go, dir("by-goleveldb"))));
    written.extend([
        of_fixture(dir("bedrock"), "Minecraft's shape (`bedrock/01-world`)", "bedrock/01-world"),
        of_fixture(dir("local"), "Chromium 156, Local Storage", "chromium/local-storage"),
        of_fixture(dir("indexed"), "Chromium 156, IndexedDB", "chromium/indexeddb"),
    ]);
    let head = ["written by", "minikv", "LevelDB 1.23", "goleveldb"].map(str::to_string);
    let mut table = line(&head) + &line(&["---"; 4].map(str::to_string));
    for written in &written {
        assert!(written.contents.len() > 5, "{}", written.by);
        table += &line(&row(written, go));
    }
    println!("{table}");
    let page = fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(HEADING).expect("the heading of the table");
    let (text, rest) = rest.split_once("\n| ").expect("a table");
    let (old, after) = format!("| {rest}").split_once("\n\n").map_or_else(
        || (format!("| {}\n", rest.trim_end()), String::new()),
        |(old, after)| (format!("{old}\n"), format!("\n{after}")),
    );
    if std::env::var("MINIKV_MATRIX").is_ok_and(|what| what == "write") {
        assert!(go.is_some(), "the table needs goleveldb");
        fs::write(PAGE, format!("{before}{HEADING}{text}\n{table}{after}")).unwrap();
    } else if go.is_some() {
        assert_eq!(table, old, "MINIKV_MATRIX=write writes what was found");
    } else {
        let without: Vec<&str> =
            old.lines().filter(|row| !row.starts_with("| goleveldb")).collect();
        for (found, row) in table.lines().zip(without).skip(2) {
            assert!(row.starts_with(found.trim_end_matches('|')), "{found}\n{row}");
        }
    }
}

/// Checks that LevelDB with minikv's comparator reads what Chromium wrote, in the same order as
/// minikv, and that each engine reads what the other engine wrote and compacted.
#[test]
fn leveldb_and_minikv_exchange_an_indexed_db() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("db");
    let written = of_fixture(dir.clone(), "Chromium", "chromium/indexeddb");
    let settings = Settings { indexed_db: true, block_bytes: 1024, ..Settings::default() };
    let options = || {
        let options = Options::default().comparator(IndexedDbComparator);
        options.block_bytes(512).max_file_bytes(16 << 10)
    };
    let sorted = |entries: &[Entry]| {
        entries.is_sorted_by(|a, b| IndexedDbComparator.compare(&a.0, &b.0).is_lt())
    };
    let key = |number: f64| [&b"\0\x01\x02\x01\x03"[..], &number.to_le_bytes()].concat();
    // Returns an encoding of the same key in which the id of the store takes two bytes.
    let same = |number: f64| [&b"\x04\x01\x02\0\x01\x03"[..], &number.to_le_bytes()].concat();

    let leveldb = LevelDb::open(&dir, &settings).unwrap();
    let entries = leveldb.entries(false).unwrap();
    assert!(sorted(&entries) && contents(&entries) == written.contents);
    leveldb.put(&key(1000.5), b"by LevelDB").unwrap();
    leveldb.put(&same(7.0), b"changed by LevelDB").unwrap();
    leveldb.compact_range(None, None);
    let entries = leveldb.entries(false).unwrap();
    drop(leveldb);

    assert_eq!(read_by_minikv(&dir, options()).unwrap(), entries);
    let db = Db::open(&dir, options()).unwrap();
    for (key, value) in &entries {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    assert_eq!(db.get(key(7.0)).unwrap().as_deref(), Some(&b"changed by LevelDB"[..]));
    db.delete(same(1000.5)).unwrap();
    db.put(key(-3.0), "by minikv").unwrap();
    db.compact_range(..).unwrap();
    db.close().unwrap();

    let leveldb = LevelDb::open(&dir, &settings).unwrap();
    let mut after = leveldb.entries(false).unwrap();
    assert!(sorted(&after) && after.len() == 989, "{} entries", after.len());
    assert_eq!(leveldb.get(&same(-3.0)).unwrap().as_deref(), Some(&b"by minikv"[..]));
    assert_eq!(leveldb.get(&key(1000.5)).unwrap(), None);
    after.retain(|(found, _)| *found != key(-3.0));
    let before = entries.into_iter().filter(|(found, _)| *found != key(1000.5));
    assert_eq!(after, before.collect::<Vec<_>>());
}

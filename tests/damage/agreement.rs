//! One corpus of databases that no engine of ours wrote, for every part that judges a database.
//! `open`, `verify` and `repair` must agree on whether it is sound, damaged or unsupported, and
//! what is unsupported must stay as it is.

use std::path::Path;

use minikv::files::{KeyKind, NewFile, VersionEdit};
use minikv::fs::sim::{Lack, SimFs};
use minikv::fs::{Fs, MemFs};
use minikv::internals::format::crc;
use minikv::internals::format::edit::encode;
use minikv::internals::format::handle::FOOTER_BYTES;
use minikv::internals::format::key::internal_key;
use minikv::internals::format::record::RecordHeader;
use minikv::{Db, Error, Options, Readable, RepairOptions};
use minikv_support::system::{make_socket, symlink};

use crate::forge::{
    DIR, Files, block, files_of, first_edit, load, log_of, table_of, with_edits, with_log,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Sound,
    Damaged,
    Unsupported,
}
use Verdict::{Damaged, Sound, Unsupported};

fn options(fs: &MemFs) -> Options {
    Options::default().fs(fs.clone()).inline_background(Some(1))
}

/// Returns a batch of `count` puts.
fn batch(seq: u64, count: u32) -> Vec<u8> {
    let mut batch = [&seq.to_le_bytes()[..], &count.to_le_bytes()].concat();
    for n in 0..count {
        batch.extend_from_slice(&[1, 1, b'a' + n as u8, 1, b'v']);
    }
    batch
}

fn edit_bytes(edit: &VersionEdit) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(edit, &mut bytes);
    bytes
}

/// Returns a database whose MANIFEST has these records.
fn with_records(records: &[Vec<u8>]) -> Files {
    let mut files = with_log(log_of(&[batch(2, 1)]));
    files.insert("MANIFEST-000002".to_owned(), log_of(records));
    files
}

/// Returns a database whose MANIFEST has one sound edit and then `more`.
fn with_edit_bytes(more: &[u8]) -> Files {
    with_records(&[edit_bytes(&first_edit()), more.to_vec()])
}

/// Returns a table with one key and its entry in the MANIFEST.
fn table(level: usize, number: u64, keys: [&str; 2]) -> (NewFile, Vec<u8>) {
    let [smallest, largest] = keys.map(|key| internal_key(key.as_bytes(), 1, KeyKind::Value));
    let entries = [(smallest.clone(), b"v".to_vec()), (largest.clone(), b"v".to_vec())];
    let bytes = table_of_entries(&entries, 0);
    let file_bytes = bytes.len() as u64;
    (NewFile { level, number, file_bytes, smallest, largest }, bytes)
}

fn table_of_entries(entries: &[(Vec<u8>, Vec<u8>)], compression: u8) -> Vec<u8> {
    table_of(&block(entries), compression, 1, &[])
}

fn with_these(tables: Vec<(NewFile, Vec<u8>)>) -> Files {
    let new_files = tables.iter().map(|(file, _)| file.clone()).collect();
    let mut files = with_edits(vec![VersionEdit { new_files, ..first_edit() }]);
    files.insert("000003.log".to_owned(), log_of(&[batch(2, 1)]));
    for (file, bytes) in tables {
        files.insert(format!("{:06}.ldb", file.number), bytes);
    }
    files
}

fn with_file(name: &str, contents: &[u8]) -> Files {
    let mut files = with_log(log_of(&[batch(2, 3)]));
    files.insert(name.to_owned(), contents.to_vec());
    files
}

/// Returns a record as in the recycled logs of RocksDB and Pebble.
fn recycled_record(record_type: u8, payload: &[u8]) -> Vec<u8> {
    let checked = [&7u32.to_le_bytes()[..], payload].concat();
    let payload_bytes = payload.len() as u16;
    let mut header = RecordHeader { masked_crc: 0, payload_bytes, type_number: record_type };
    header.masked_crc = crc::mask(header.actual_crc(&checked));
    [&header.encode()[..], &checked].concat()
}

fn names() -> Vec<(&'static str, Verdict, Files)> {
    let mut cases = vec![
        ("a log without its zeros in the name", Sound, with_file("99.log", b"note")),
        ("a table of a short name", Sound, with_file("7.ldb", b"note")),
        ("a table of a long name", Sound, with_file("0000007.ldb", b"note")),
        ("a MANIFEST of a short name", Sound, with_file("MANIFEST-9", b"note")),
        ("other files", Sound, with_file("CURRENT.bak", b"MANIFEST-000009\n")),
        ("a file OPTIONS", Sound, with_file("OPTIONS", b"rocksdb_version")),
        ("an IDENTITY that is no UUID", Sound, with_file("IDENTITY", b"me")),
        ("Pebble's marker", Unsupported, with_file("marker.format-version.000001.013", b"")),
        ("RocksDB's options", Unsupported, with_file("OPTIONS-000008", b"rocksdb_version=1")),
        (
            "RocksDB's identity",
            Unsupported,
            with_file("IDENTITY", b"0f8fad5b-d9cb-469f-a165-70867728950e"),
        ),
        ("CURRENT with a short number", Damaged, with_file("CURRENT", b"MANIFEST-2\n")),
        ("CURRENT that leads away", Damaged, with_file("CURRENT", b"../MANIFEST-000002\n")),
        ("a number near the last", Damaged, with_file(&format!("{}.ldb", u64::MAX), b"")),
    ];
    // Pebble's directories have had no CURRENT since 2020.
    let mut pebble = with_log(recycled_record(5, &batch(2, 1)));
    pebble.remove("CURRENT");
    pebble.insert("marker.manifest.000001.MANIFEST-000002".to_owned(), Vec::new());
    cases.push(("Pebble's directory", Unsupported, pebble));
    cases
}

fn logs() -> Vec<(&'static str, Verdict, Files)> {
    let sound = log_of(&[batch(2, 1), batch(3, 2)]);
    let with_zeros = [&sound[..], &[0; 100]].concat();
    let torn = [&sound[..], &sound[..9]].concat();
    let mut zeros_inside = sound.clone();
    zeros_inside.resize(3 << 15, 0);
    zeros_inside.extend_from_slice(&log_of(&[batch(9, 1)]));
    let mut continued = sound.clone();
    continued.resize(1 << 15, 0);
    continued.extend_from_slice(&log_of(&[batch(5, 1)]));
    let mut flipped = sound.clone();
    flipped[12] ^= 1;
    let mut unknown_batch = batch(2, 1);
    unknown_batch[12] = 5;
    let record_9 = |type_number| {
        let mut header = RecordHeader { masked_crc: 0, payload_bytes: 1, type_number };
        header.masked_crc = crc::mask(header.actual_crc(b"x"));
        [&sound[..], &header.encode(), b"x"].concat()
    };
    let mut cases = vec![
        ("a sound log", Sound, with_log(sound.clone())),
        ("an empty log", Sound, with_log(Vec::new())),
        ("a log that ends in zeros", Sound, with_log(with_zeros)),
        ("a torn log", Sound, with_log(torn)),
        ("a log that another engine continued", Sound, with_log(continued)),
        ("zeros inside a log", Damaged, with_log(zeros_inside)),
        ("a flipped bit", Damaged, with_log(flipped)),
        ("a batch of an unknown kind", Unsupported, with_log(log_of(&[unknown_batch]))),
        ("a gap before a log", Damaged, with_log(log_of(&[batch(50, 0), batch(50, 1)]))),
        (
            "a gap inside a log",
            Damaged,
            with_log(log_of(&[batch(2, 1), batch(50, 0), batch(50, 1)])),
        ),
        ("number 0 before all writes", Sound, with_log(log_of(&[batch(0, 0), batch(2, 1)]))),
        ("a gap that nothing follows", Sound, with_log(log_of(&[batch(2, 1), batch(50, 0)]))),
        ("a gap before empty batches", Damaged, with_log(log_of(&[batch(50, 0), batch(50, 0)]))),
        ("a gap after an empty batch", Damaged, with_log(log_of(&[batch(2, 0), batch(50, 0)]))),
        (
            "writes after a gap after an empty batch",
            Damaged,
            with_log(log_of(&[batch(2, 0), batch(50, 0), batch(50, 3)])),
        ),
        ("a record of type 200", Unsupported, with_log(record_9(200))),
    ];
    for record_type in 5..=8 {
        let records = [recycled_record(record_type, &batch(2, 1)), vec![0; 50]].concat();
        cases.push(("a recycled log", Unsupported, with_log(records)));
    }
    cases
}

fn manifests() -> Vec<(&'static str, Verdict, Files)> {
    let edit = |change: &dyn Fn(&mut VersionEdit)| {
        let mut edit = first_edit();
        change(&mut edit);
        with_records(&[edit_bytes(&edit)])
    };
    let mut lower_log = with_records(&[
        edit_bytes(&VersionEdit { log_number: Some(5), ..first_edit() }),
        edit_bytes(&first_edit()),
    ]);
    let mut damaged = log_of(&[batch(2, 1), batch(3, 1)]);
    damaged[8] ^= 1;
    lower_log.insert("000003.log".to_owned(), damaged);
    vec![
        ("a sound MANIFEST", Sound, edit(&|_| {})),
        ("an empty MANIFEST", Damaged, with_records(&[])),
        ("no last sequence number", Damaged, edit(&|edit| edit.last_seq = None)),
        ("no next file number", Damaged, edit(&|edit| edit.next_file_number = None)),
        ("no log number", Damaged, edit(&|edit| edit.log_number = None)),
        ("a last edit with a lower log number", Damaged, lower_log),
        ("2^64-2 as the next number", Damaged, edit(&|e| e.next_file_number = Some(u64::MAX - 1))),
        ("2^64-1 as the next number", Damaged, edit(&|e| e.next_file_number = Some(u64::MAX))),
        ("2^63 as a log number", Damaged, edit(&|edit| edit.log_number = Some(1 << 63))),
        ("another comparator", Unsupported, edit(&|e| e.comparator = Some("other".into()))),
        ("an unknown tag", Unsupported, with_edit_bytes(&[100, 1])),
        ("an eighth level", Unsupported, with_edit_bytes(&[6, 7, 1])),
        ("a twelfth level", Unsupported, with_edit_bytes(b"\x07\x0b\x09\x05")),
        ("a pointer in an eighth level", Unsupported, with_edit_bytes(b"\x05\x07\x0812345678")),
    ]
}

fn tables() -> Vec<(&'static str, Verdict, Files)> {
    let (first, second) = (table(1, 9, ["a", "c"]), table(1, 10, ["d", "e"]));
    let mut missing = with_these(vec![first.clone(), second.clone()]);
    missing.remove("000010.ldb");
    let twice = vec![first.clone(), (NewFile { level: 2, ..first.0.clone() }, first.1.clone())];
    let overlapping = vec![first.clone(), table(1, 10, ["b", "e"])];
    let entries = [(first.0.smallest.clone(), b"v".to_vec())];
    let with_bytes = |bytes: Vec<u8>| {
        let file = NewFile {
            file_bytes: bytes.len() as u64,
            largest: first.0.smallest.clone(),
            ..first.0.clone()
        };
        with_these(vec![(file, bytes)])
    };
    let mut cut = with_these(vec![first.clone()]);
    cut.insert("000009.ldb".to_owned(), Vec::new());
    let mut of_rocksdb = table_of_entries(&entries, 0);
    let magic = of_rocksdb.len() - 8;
    of_rocksdb[magic..].copy_from_slice(&0x88e2_41b7_85f4_cff7_u64.to_le_bytes());
    assert!(of_rocksdb.len() > FOOTER_BYTES);
    let mut as_sst = with_these(vec![first.clone()]);
    let bytes = as_sst.remove("000009.ldb").unwrap();
    as_sst.insert("000009.sst".to_owned(), bytes);
    vec![
        ("tables side by side", Sound, with_these(vec![first.clone(), second])),
        ("a table with the older name", Sound, as_sst),
        ("a missing table", Damaged, missing),
        ("a table at two levels", Damaged, with_these(twice)),
        ("tables that overlap", Damaged, with_these(overlapping)),
        ("a table cut to nothing", Damaged, cut),
        ("an unknown compression", Unsupported, with_bytes(table_of_entries(&entries, 99))),
        ("RocksDB's table", Unsupported, with_bytes(of_rocksdb)),
    ]
}

/// The cases whose only fault is that no number is left for new files.
const NO_NUMBERS_LEFT: [&str; 4] = [
    "a number near the last",
    "2^64-2 as the next number",
    "2^64-1 as the next number",
    "2^63 as a log number",
];

fn judged(result: Result<bool, Error>, what: &str) -> Verdict {
    match result {
        Ok(true) => Sound,
        Ok(false) | Err(Error::Corruption(_)) => Damaged,
        Err(Error::Unsupported { .. }) => Unsupported,
        Err(error) => panic!("{what}: {error}"),
    }
}

/// Opens the database and reads everything. Returns whether nothing was lost.
fn open_and_read(options: Options) -> minikv::Result<bool> {
    let db = Db::open(DIR, options)?;
    db.iter().try_for_each(|entry| entry.map(drop))?;
    Ok(db.recovery().lost.is_empty())
}

fn read_only(options: Options) -> minikv::Result<bool> {
    let db = Db::open_read_only(DIR, options)?;
    db.iter().try_for_each(|entry| entry.map(drop))?;
    Ok(db.recovery().lost.is_empty())
}

fn verify(fs: &MemFs) -> minikv::Result<bool> {
    minikv::verify(DIR, &options(fs)).map(|report| report.is_sound())
}

fn repair(fs: &MemFs, dry_run: bool) -> minikv::Result<bool> {
    let how = RepairOptions::default().dry_run(dry_run);
    minikv::repair(DIR, &options(fs), how).map(|report| report.healthy)
}

/// Returns the names and contents of everything in the directory but the lock file, which taking
/// the lock makes.
fn all_but_lock(fs: &MemFs) -> (Vec<String>, Files) {
    let mut names = fs.list(Path::new(DIR)).unwrap();
    names.retain(|name| name != "LOCK");
    names.sort();
    let is_file = |name: &&String| !fs.is_real_dir(&Path::new(DIR).join(name)).unwrap();
    let files = names.iter().filter(is_file);
    let read = |name: &String| crate::forge::read(fs, &Path::new(DIR).join(name));
    (names.clone(), files.map(|name| (name.clone(), read(name))).collect())
}

#[test]
fn open_verify_and_repair_agree_on_soundness() {
    let corpus = [names(), logs(), manifests(), tables()].concat();
    assert!(corpus.len() > 50);
    let mut differences = Vec::new();
    for (what, expected, files) in corpus {
        let judge = |judge: &dyn Fn(&MemFs) -> minikv::Result<bool>| {
            let fs = load(&files);
            let before = all_but_lock(&fs);
            let verdict = judged(judge(&fs), what);
            let is_same = all_but_lock(&fs) == before;
            (verdict, is_same)
        };
        let verdicts = [
            ("open", judge(&|fs| open_and_read(options(fs)))),
            ("paranoid open", judge(&|fs| open_and_read(options(fs).paranoid_checks(true)))),
            ("open for reading", judge(&|fs| read_only(options(fs)))),
            ("verify", judge(&verify)),
            ("repair", judge(&|fs| repair(fs, false))),
            ("dry repair", judge(&|fs| repair(fs, true))),
        ];
        for (who, (verdict, is_same)) in verdicts {
            // A reader needs no numbers for new files.
            let is_readable = who == "open for reading" && NO_NUMBERS_LEFT.contains(&what);
            if verdict != if is_readable { Sound } else { expected } {
                differences.push(format!("{what}: {who} says {verdict:?}, not {expected:?}"));
            }
            // An open that succeeds begins a new log, even if a table turns out to be unsupported.
            let may_change = who.ends_with("open") && !names_engine(&files)
                || who == "repair" && expected == Damaged;
            if !is_same && !may_change {
                differences.push(format!("{what}: {who} changed files"));
            }
        }
        let fs = load(&files);
        if expected == Damaged && repair(&fs, false).is_ok() {
            let after = (judged(verify(&fs), what), judged(open_and_read(options(&fs)), what));
            if after != (Sound, Sound) {
                differences.push(format!("{what}: after a repair, it is {after:?}"));
            }
        }
    }
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

/// Returns whether the names in the directory show that it is another engine's.
fn names_engine(files: &Files) -> bool {
    let mut names = files.keys();
    names.any(|name| name.starts_with("marker.") || name.starts_with("OPTIONS-"))
}

#[test]
fn the_directory_of_another_engine_is_left_as_it_is() {
    let of_logs = logs().into_iter().map(|case| (case, true));
    let others = names().into_iter().chain(manifests()).map(|case| (case, false));
    for ((what, expected, files), is_log) in of_logs.chain(others) {
        if expected != Unsupported {
            continue;
        }
        let fs = load(&files);
        let create = || options(&fs).create_if_missing(true);
        let copy = Path::new("/copy");
        let results = [
            ("open", Db::open(DIR, create()).map(drop)),
            ("open for reading", Db::open_read_only(DIR, create()).map(drop)),
            ("verify", minikv::verify(DIR, &create()).map(drop)),
            ("repair", repair(&fs, false).map(drop)),
            ("checkpoint", minikv::checkpoint(DIR, copy, &create())),
        ];
        for (who, result) in results {
            let is_refused = matches!(result, Err(Error::Unsupported { .. }));
            assert!(is_refused, "{what}: {who}: {result:?}");
        }
        // LevelDB destroys a database whatever its comparator is.
        if what == "another comparator" {
            minikv::destroy(DIR, &create()).unwrap();
            assert!(!fs.exists(Path::new(DIR)).unwrap());
            continue;
        }
        // Nothing but the logs themselves shows that a log is another engine's.
        if !is_log {
            let destroyed = minikv::destroy(DIR, &create());
            assert!(matches!(destroyed, Err(Error::Unsupported { .. })), "{what}: {destroyed:?}");
        }
        assert_eq!(files_of(&fs), files, "{what}");
    }
}

/// Makes a database with a table and a log on the disk.
fn make_database(dir: &Path) {
    let db = Db::create(dir).unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    db.put("b", "1").unwrap();
    db.close().unwrap();
}

/// Returns the results of everything that lists the directory.
fn everywhere(dir: &Path, copy: &Path) -> Vec<(&'static str, minikv::Result<()>)> {
    let options = Options::default();
    let refresh = Db::open_read_only(dir, options.clone()).and_then(|db| {
        db.refresh()?;
        db.changes_since(0)
    });
    let refresh = refresh.map(drop);
    let verify =
        minikv::verify(dir, &options).map(|report| assert!(report.is_sound(), "{report:?}"));
    let how = RepairOptions::default();
    vec![
        ("read", refresh),
        ("verify", verify),
        ("repair", minikv::repair(dir, &options, how).map(|report| assert!(report.healthy))),
        ("checkpoint", minikv::checkpoint(dir, copy, &options)),
        ("open", Db::open(dir, options.clone()).and_then(|db| db.put("c", "1"))),
    ]
}

#[test]
fn a_directory_with_the_name_of_a_file_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let (dir, copy) = (home.path().join("db"), home.path().join("copy"));
    make_database(&dir);
    let names = ["000001.log", "000098.ldb", "MANIFEST-000097", "000096.dbtmp", "99.log"];
    for name in names {
        std::fs::create_dir(dir.join(name)).unwrap();
    }
    for (who, result) in everywhere(&dir, &copy) {
        result.unwrap_or_else(|error| panic!("{who}: {error}"));
    }
    minikv::destroy(&dir, &Options::default()).unwrap();
    let mut left: Vec<_> =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["000001.log", "000096.dbtmp", "000098.ldb", "99.log", "MANIFEST-000097"]);
}

/// LevelDB, too, fails on a directory in place of a log that it would replay.
#[test]
fn a_directory_in_place_of_a_live_log_is_refused_by_name() {
    let home = tempfile::tempdir().unwrap();
    for (number, has_current) in [(0, true), (99, true), (0, false), (99, false)] {
        let case = home.path().join(format!("{number}-{has_current}"));
        let (dir, copy) = (case.join("db"), case.join("copy"));
        make_database(&dir);
        let mut logs = files_on_disk(&dir);
        logs.retain(|name| name.ends_with(".log"));
        let [log] = &logs[..] else { panic!("{logs:?}") };
        let name = if number == 0 { log.clone() } else { format!("{number:06}.log") };
        if name == *log {
            std::fs::rename(dir.join(log), case.join("log")).unwrap();
        }
        std::fs::create_dir(dir.join(&name)).unwrap();
        if !has_current {
            std::fs::remove_file(dir.join("CURRENT")).unwrap();
        }
        let before = files_on_disk(&dir);
        for (who, result) in everywhere(&dir, &copy) {
            let error = result.expect_err(who);
            assert_eq!(error.io_kind(), Some(std::io::ErrorKind::InvalidInput), "{who}: {error}");
            assert!(error.to_string().contains(&name), "{who}: {error}");
            assert!(error.to_string().contains("is a directory"), "{who}: {error}");
        }
        assert_eq!(files_on_disk(&dir), before);
        assert!(!copy.exists());
    }
}

fn files_on_disk(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// LevelDB would replay a log through a link, so that a link that is ignored may be lost data.
#[test]
fn a_link_or_socket_in_place_of_a_file_is_refused_by_name() {
    for name in ["000099.log", "000098.ldb", "MANIFEST-000097", "000096.dbtmp"] {
        for is_socket in [false, true] {
            let home = tempfile::tempdir().unwrap();
            let (dir, copy) = (home.path().join("db"), home.path().join("copy"));
            make_database(&dir);
            let path = dir.join(name);
            match is_socket {
                true => make_socket(&path).unwrap(),
                false => symlink("/dev/zero", &path).unwrap(),
            }
            for (who, result) in everywhere(&dir, &copy) {
                let error = result.expect_err(who);
                assert_eq!(error.io_kind(), Some(std::io::ErrorKind::InvalidInput), "{who}");
                assert!(error.to_string().contains(name), "{who}: {error}");
            }
            assert!(minikv::destroy(&dir, &Options::default()).is_err());
            std::fs::remove_file(&path).unwrap();
            assert_eq!(Db::open(&dir, Options::default()).unwrap().iter().count(), 2);
        }
    }
}

#[test]
fn a_filesystem_without_directory_sync_or_locks_serves_if_that_is_allowed() {
    let fs = SimFs::new(1);
    let options = Options::default().create_if_missing(true).fs(fs.clone());
    let db = Db::open(DIR, options.clone()).unwrap();
    assert!(db.health().has_lock && db.health().syncs_names);
    db.close().unwrap();

    fs.set_lack(Lack::DirectorySync);
    let db = Db::open(DIR, options.clone()).unwrap();
    assert!(db.health().has_lock && !db.health().syncs_names);
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    db.checkpoint("/copy").unwrap();
    db.close().unwrap();
    assert!(minikv::repair(DIR, &options, RepairOptions::default()).unwrap().healthy);

    fs.set_lack(Lack::Locks);
    let allowed = options.clone().allow_no_lock(true);
    for result in [
        Db::open(DIR, options.clone()).map(drop),
        minikv::repair(DIR, &options, RepairOptions::default()).map(drop),
        minikv::checkpoint(DIR, "/second", &options),
        minikv::destroy(DIR, &options),
    ] {
        let error = result.unwrap_err();
        assert_eq!(error.io_kind(), Some(std::io::ErrorKind::Unsupported));
        assert!(error.to_string().contains("allow_no_lock"), "{error}");
    }
    let db = Db::open(DIR, allowed.clone()).unwrap();
    assert!(!db.health().has_lock && !db.health().syncs_names);
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    // This process is still kept out.
    assert!(matches!(Db::open(DIR, allowed.clone()), Err(Error::Locked { .. })));
    db.close().unwrap();
    minikv::checkpoint(DIR, "/second", &allowed).unwrap();
    assert!(Db::open_read_only("/second", options).is_ok());
    minikv::destroy(DIR, &allowed).unwrap();
    assert!(!fs.exists(Path::new(DIR)).unwrap());
}

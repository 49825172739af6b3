//! Backups: what they copy, what they restore, and what is left of them after a crash, damage or
//! misuse.

use std::collections::BTreeMap;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use minikv::backup::Backups;
use minikv::fs::sim::{CrashPlan, Fault, OpKind};
use minikv::fs::{Fs, SimFs};
use minikv::{Compression, Db, Error, Options, Readable, backup};
use minikv_support::system::{self, symlink};

use crate::{disk_bytes, small};

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn on(fs: &SimFs) -> Options {
    small().fs(fs.clone()).preallocate_logs(false)
}

fn contents(db: &Db) -> Contents {
    db.iter().map(|entry| entry.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect()
}

/// Restores a backup and returns its entries.
fn restored(fs: &SimFs, folder: &str, number: Option<u64>) -> Result<Contents, Error> {
    let options = on(fs);
    let dest = "/restored";
    if fs.exists(Path::new(dest)).unwrap() {
        minikv::destroy(dest, &options)?;
    }
    Backups::open(folder, &options)?.restore(number, dest, |_| {})?;
    let db = Db::open(dest, options.create_if_missing(false))?;
    Ok(contents(&db))
}

fn put(db: &Db, keys: std::ops::Range<u32>, value: &str) {
    for key in keys {
        db.put(format!("key{key:05}"), value.repeat(20)).unwrap();
    }
}

/// Checks that tables are copied if they cannot be linked, because the folder is on another
/// filesystem or on a filesystem without links.
#[test]
fn a_folder_on_another_filesystem_or_without_links_gets_copies() {
    for error in [system::CROSSES_DEVICES, system::REFUSED] {
        let fs = SimFs::new(2);
        let db = Db::open("/db", on(&fs)).unwrap();
        fs.inject(Fault::os_error(error).on(&[OpKind::HardLink]).sticky());
        let mut states = Vec::new();
        for round in ["first ", "second ", "third "] {
            put(&db, 0..500, round);
            db.flush().unwrap();
            let made = db.backup("/backups").unwrap();
            assert_eq!(made.copied_bytes, made.file_bytes, "nothing is linked");
            states.push(contents(&db));
        }
        assert_eq!(Backups::open("/backups", &on(&fs)).unwrap().verify(|_| {}).unwrap(), []);
        for (number, state) in (1..).zip(&states) {
            assert_eq!(restored(&fs, "/backups", Some(number)).unwrap(), *state);
        }
    }
}

#[test]
fn later_backups_copy_only_new_files_and_each_restores_its_own_contents() {
    let fs = SimFs::new(1);
    let db = Db::open("/db", on(&fs)).unwrap();
    put(&db, 0..4000, "first ");
    db.compact_range(..).unwrap();
    put(&db, 0..10, "in the log ");
    let first = db.backup("/backups").unwrap();
    let at_first = contents(&db);
    assert_eq!((first.number, first.copied_bytes), (1, first.file_bytes));

    put(&db, 9000..9050, "second ");
    let second = db.backup("/backups").unwrap();
    let at_second = contents(&db);
    assert_eq!(second.number, 2);
    assert!(second.copied_bytes < second.file_bytes / 4, "{second:?}");

    // A full compaction replaces all tables.
    db.delete("key00000").unwrap();
    db.compact_range(..).unwrap();
    let third = db.backup("/backups").unwrap();
    assert!(third.copied_bytes > third.file_bytes * 9 / 10, "{third:?}");

    let backups = Backups::open("/backups", &on(&fs)).unwrap();
    assert_eq!(backups.list().unwrap(), [first, second, third]);
    assert_eq!(backups.verify(|_| {}).unwrap(), []);
    assert_eq!(restored(&fs, "/backups", Some(1)).unwrap(), at_first);
    assert_eq!(restored(&fs, "/backups", Some(2)).unwrap(), at_second);
    assert_eq!(restored(&fs, "/backups", None).unwrap(), contents(&db));

    // Removing the first backup must not remove files that the second backup shares with it.
    backups.keep(2).unwrap();
    let numbers =
        |list: Vec<minikv::backup::Backup>| list.iter().map(|b| b.number).collect::<Vec<_>>();
    assert_eq!(numbers(backups.list().unwrap()), [2, 3]);
    assert!(!fs.exists(Path::new("/backups/000001")).unwrap());
    assert_eq!(backups.verify(|_| {}).unwrap(), []);
    assert_eq!(restored(&fs, "/backups", Some(2)).unwrap(), at_second);
    assert_eq!(backups.keep(0).unwrap_err().to_string(), "at least one backup must be kept");
}

#[test]
fn a_table_of_the_same_name_and_length_from_another_database_is_copied() {
    let fs = SimFs::new(2);
    let mut tables = Vec::new();
    for value in ["one", "two"] {
        let options = on(&fs).compression(Compression::None).write_buffer_bytes(4 << 20);
        let db = Db::open("/db", options.inline_background(Some(1))).unwrap();
        put(&db, 0..1000, value);
        db.flush().unwrap();
        let made = db.backup("/backups").unwrap();
        assert_eq!(made.copied_bytes, made.file_bytes, "{value}");
        assert_eq!(restored(&fs, "/backups", None).unwrap(), contents(&db));
        let dir = PathBuf::from(format!("/backups/{:06}", made.number));
        let names = fs.list(&dir).unwrap().into_iter().filter(|name| name.ends_with(".ldb"));
        tables.push(names.map(|name| (fs.len(&dir.join(&name)).unwrap(), name)).collect());
        db.close().unwrap();
        minikv::destroy("/db", &on(&fs)).unwrap();
    }
    let [first, second]: [Vec<(u64, String)>; 2] = tables.try_into().unwrap();
    assert!(first.len() == 1 && first == second, "{first:?} and {second:?}");
    assert_eq!(
        restored(&fs, "/backups", Some(1)).unwrap()[&b"key00000"[..]],
        "one".repeat(20).as_bytes()
    );
}

#[test]
fn after_a_crash_at_any_step_earlier_backups_are_whole_and_the_next_one_succeeds() {
    let fs = SimFs::new(3);
    fs.record_history();
    let db = Db::open("/db", on(&fs)).unwrap();
    // For each backup: the number of file operations before it was complete, and its contents.
    let mut made = Vec::new();
    let begin = fs.op_count();
    for round in 0..4 {
        put(&db, round * 300..round * 300 + 600, &format!("round {round} "));
        db.flush().unwrap();
        put(&db, 0..5, &format!("log {round} "));
        db.backup("/backups").unwrap();
        made.push((fs.op_count(), contents(&db)));
        if round == 2 {
            Backups::open("/backups", &on(&fs)).unwrap().keep(2).unwrap();
        }
    }
    let kept_at = made[2].0;
    // The number of operations between two crashes. `.ci/run` sets a smaller one.
    let stride = std::env::var("MINIKV_CRASH_STRIDE").map_or(9, |text| text.parse().unwrap());
    let (mut images, mut incomplete) = (0, 0);
    for at in (begin..=fs.op_count()).step_by(stride) {
        for plan in [CrashPlan::strict(), CrashPlan::everything(), CrashPlan::random(at)] {
            let image = fs.crash_image(&plan.at_op(at));
            let complete = made.iter().filter(|(done, _)| *done <= at).count();
            incomplete += usize::from(check_image(&image, &made, complete, at > kept_at));
            images += 1;
        }
    }
    assert!(
        images * stride > 1500 && incomplete * stride > 150,
        "{images} images, {incomplete} with a part of a backup"
    );
}

/// Checks the backups in `image`, which holds the files left by a crash. Before the crash,
/// `complete` backups had been finished. Returns whether the image has a backup directory without a
/// listing.
fn check_image(image: &SimFs, made: &[(u64, Contents)], complete: usize, kept: bool) -> bool {
    let folder = Path::new("/backups");
    let names =
        if image.exists(folder).unwrap() { image.list(folder).unwrap() } else { Vec::new() };
    let has_part = names
        .iter()
        .any(|name| name.parse::<u64>().is_ok() && !names.contains(&format!("{name}.backup")));
    let mut last = 0;
    if complete > 0 || names.iter().any(|name| name == "BACKUPS") {
        let backups = Backups::open(folder, &on(image)).unwrap();
        assert_eq!(backups.verify(|_| {}).unwrap(), []);
        let list = backups.list().unwrap();
        let oldest = if kept { 2 } else { 1 };
        for number in oldest..=complete as u64 {
            assert!(list.iter().any(|backup| backup.number == number), "{number} is lost");
        }
        for backup in list {
            let got = restored(image, "/backups", Some(backup.number)).unwrap();
            assert_eq!(got, made[backup.number as usize - 1].1, "backup {}", backup.number);
            last = backup.number;
        }
    }
    // The next backup is made from a second database, so that the test need not open the damaged
    // one.
    let db = Db::open("/other", on(image)).unwrap();
    db.put("other", "1").unwrap();
    let next = db.backup(folder).unwrap();
    assert!(next.number > last);
    let names = image.list(folder).unwrap();
    assert!(!names.iter().any(|name| name.ends_with(".tmp")), "{names:?}");
    assert_eq!(Backups::open(folder, &on(image)).unwrap().verify(|_| {}).unwrap(), []);
    assert_eq!(restored(image, "/backups", None).unwrap(), contents(&db));
    has_part
}

#[test]
fn a_damaged_or_missing_file_of_a_backup_is_found_and_not_restored() {
    let home = tempfile::tempdir().unwrap();
    let (dir, folder, copy) =
        (home.path().join("db"), home.path().join("b"), home.path().join("c"));
    let db = Db::open(&dir, small()).unwrap();
    put(&db, 0..1000, "value ");
    db.flush().unwrap();
    db.backup(&folder).unwrap();
    let backups = Backups::open(&folder, &small()).unwrap();
    let table =
        std::fs::read_dir(folder.join("000001")).unwrap().map(|entry| entry.unwrap().path());
    let table = table.filter(|path| path.extension().is_some_and(|e| e == "ldb")).min().unwrap();

    let sound = std::fs::read(&table).unwrap();
    let mut damaged = sound.clone();
    damaged[100] ^= 1;
    for (bytes, what) in [(damaged, "checksum"), (sound[1..].to_vec(), "length")] {
        std::fs::write(&table, bytes).unwrap();
        let faults = backups.verify(|_| {}).unwrap();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(faults[0].path.as_deref(), Some(&*table));
        assert!(faults[0].what.contains(what), "{faults:?}");
        let error = backups.restore(None, &copy, |_| {}).unwrap_err();
        assert!(error.is_corruption() && error.to_string().contains(what), "{error}");
        assert!(!copy.exists());
    }

    // If a table is missing from the latest backup, the next backup copies the table again.
    std::fs::remove_file(&table).unwrap();
    assert!(backups.verify(|_| {}).unwrap()[0].what.contains("missing"));
    assert!(backups.restore(None, &copy, |_| {}).unwrap_err().is_corruption());
    let second = db.backup(&folder).unwrap();
    assert!(second.copied_bytes > sound.len() as u64);
    backups.restore(None, &copy, |_| {}).unwrap();
    assert_eq!(contents(&Db::open(&copy, small()).unwrap()), contents(&db));
    let error = backups.restore(None, &copy, |_| {}).unwrap_err();
    assert!(matches!(error, Error::DatabaseExists { .. }), "{error}");

    // If a listing is damaged, listing the backups fails, and the next backup copies every file.
    std::fs::write(folder.join("000002.backup"), "minikv backup 1\n").unwrap();
    assert!(backups.list().unwrap_err().is_corruption());
    assert_eq!(backups.verify(|_| {}).unwrap().len(), 2);
    let third = db.backup(&folder).unwrap();
    assert_eq!((third.number, third.copied_bytes), (3, third.file_bytes));
}

#[test]
fn a_listing_that_says_any_length_is_an_error_and_no_overflow() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("backups");
    let db = Db::open(home.path().join("db"), small()).unwrap();
    db.put("key", "value").unwrap();
    db.backup(&folder).unwrap();
    let lines = format!("minikv backup 1\nfile 000007.ldb {0} 0\nfile CURRENT {0} 0\n", u64::MAX);
    let end = minikv::internals::format::crc::value(lines.as_bytes());
    std::fs::write(folder.join("000001.backup"), format!("{lines}end {end:08x}\n")).unwrap();
    let backups = Backups::open(&folder, &small()).unwrap();
    let faults = backups.verify(|_| {}).unwrap();
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[0].what.contains("missing") && faults[1].what.contains("length"), "{faults:?}");
    let copy = home.path().join("copy");
    assert!(backups.restore(None, &copy, |_| {}).unwrap_err().is_corruption());
    assert!(!copy.exists());
}

#[test]
fn a_folder_that_holds_something_else_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let (dir, folder) = (home.path().join("db"), home.path().join("folder"));
    let db = Db::open(&dir, small()).unwrap();
    db.put("key", "value").unwrap();
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("letter"), "dear").unwrap();
    let error = db.backup(&folder).unwrap_err();
    assert!(error.to_string().ends_with("is neither empty nor a folder of backups"), "{error}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    let error = db.backup(&dir).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    let error = Backups::open(&folder, &small()).unwrap_err();
    assert!(error.to_string().contains("is not a folder of backups"), "{error}");

    std::fs::remove_file(folder.join("letter")).unwrap();
    db.backup(&folder).unwrap();
    let backups = Backups::open(&folder, &small()).unwrap();
    let error = backups.restore(Some(7), home.path().join("copy"), |_| {}).unwrap_err();
    assert!(error.to_string().contains("no backup 7"), "{error}");
    // A backup touches no directory that no backup made.
    std::fs::create_dir(folder.join("000005")).unwrap();
    std::fs::write(folder.join("000005/letter"), "dear").unwrap();
    assert_eq!(db.backup(&folder).unwrap().number, 6);
    assert_eq!(std::fs::read(folder.join("000005/letter")).unwrap(), b"dear");
}

#[test]
fn the_target_of_a_link_that_leads_out_of_the_folder_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let (dir, folder) = (home.path().join("db"), home.path().join("folder"));
    let db = Db::open(&dir, small()).unwrap();
    db.put("key", "value").unwrap();
    assert_eq!(db.backup(&folder).unwrap().number, 1);
    symlink(&dir, folder.join("000002")).unwrap();
    let files = disk_bytes(&dir);
    assert_eq!(db.backup(&folder).unwrap().number, 3);
    assert_eq!(disk_bytes(&dir), files);
}

#[test]
fn a_closed_database_is_backed_up_too_and_an_open_one_only_by_its_handle() {
    let fs = SimFs::new(4);
    let db = Db::open("/db", on(&fs)).unwrap();
    put(&db, 0..100, "value ");
    let error = backup("/db", "/backups", &on(&fs), |_| {}).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    let expected = contents(&db);
    db.close().unwrap();
    let mut steps = Vec::new();
    backup("/db", "/backups", &on(&fs), |progress| steps.push(progress)).unwrap();
    assert!(steps.iter().all(|step| step.done_bytes <= step.total_bytes), "{steps:?}");
    assert_eq!(restored(&fs, "/backups", None).unwrap(), expected);
    let error = backup("/nothing", "/backups", &on(&fs), |_| {}).unwrap_err();
    assert!(matches!(error, Error::DatabaseMissing { .. }), "{error}");
}

#[test]
fn backups_beside_writers_hold_a_prefix_of_the_writes() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("backups");
    let db = Db::open(home.path().join("db"), small()).unwrap();
    let (done, begun) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..u64::MAX {
                // Where copies are slow, more puts would make each backup longer than the last.
                while i > 20_000 * begun.load(Ordering::Relaxed) && !done.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                if done.load(Ordering::Relaxed) {
                    break;
                }
                db.put(format!("key{i:08}"), i.to_string().repeat(9)).unwrap();
            }
        });
        for number in 1..=8 {
            let before = db.last_key_value().unwrap();
            begun.store(number, Ordering::Relaxed);
            assert_eq!(db.backup(&folder).unwrap().number, number);
            let copy = home.path().join(number.to_string());
            Backups::open(&folder, &small()).unwrap().restore(None, &copy, |_| {}).unwrap();
            let copy = Db::open(&copy, small()).unwrap();
            let count = copy.iter().count();
            let last = copy.last_key_value().unwrap();
            assert!(last >= before, "{last:?} is before {before:?}");
            let last = last.map_or(0, |(key, _)| {
                String::from_utf8_lossy(&key[3..]).parse::<usize>().unwrap() + 1
            });
            assert_eq!(count, last, "an entry is missing");
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// A folder with a backup that was interrupted, and in which someone put something of their own.
#[test]
fn files_of_others_in_an_interrupted_backup_stay_and_block_no_later_one() {
    let fs = SimFs::new(8);
    let db = Db::open("/db", on(&fs)).unwrap();
    put(&db, 0..500, "value ");
    db.flush().unwrap();
    db.backup("/backups").unwrap();
    let rest = Path::new("/backups/000002");
    fs.create_dir(&rest.join("000007.log")).unwrap();
    for name in ["000005.ldb", "note"] {
        fs.create(&rest.join(name)).unwrap().write(b"text").unwrap();
    }
    for number in [3, 4] {
        assert_eq!(db.backup("/backups").unwrap().number, number);
        let mut left = fs.list(rest).unwrap();
        left.sort();
        assert_eq!(left, ["000007.log", "note"]);
        assert_eq!(restored(&fs, "/backups", Some(number)).unwrap(), contents(&db));
    }
    let backups = Backups::open("/backups", &on(&fs)).unwrap();
    assert_eq!(backups.list().unwrap().len(), 3);
    fs.create(Path::new("/backups/000001/note")).unwrap();
    backups.keep(1).unwrap();
    assert_eq!(backups.list().unwrap().len(), 1);
    assert_eq!(fs.list(Path::new("/backups/000001")).unwrap(), ["note"]);
}

/// Returns the paths of the files in a directory that have this ending.
#[cfg(target_os = "linux")]
#[test]
fn a_directory_with_a_file_whose_name_is_not_utf_8_is_not_empty() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"theirs\xff");
    let at = |place: &str| dir.path().join(place);
    for place in ["copy", "folder"] {
        std::fs::create_dir(at(place)).unwrap();
        std::fs::write(at(place).join(name), "").unwrap();
    }
    let db = Db::open(at("db"), small()).unwrap();
    put(&db, 0..100, "value ");
    db.checkpoint(at("copy")).unwrap_err();
    db.backup(at("folder")).unwrap_err();
    db.backup(at("backups")).unwrap();
    std::fs::write(at("backups/000001").join(name), "").unwrap();
    db.backup(at("backups")).unwrap();
    Backups::open(at("backups"), &small()).unwrap().keep(1).unwrap();
    db.close().unwrap();
    std::fs::write(at("db").join(name), "").unwrap();
    minikv::destroy(at("db"), &small()).unwrap();
    for place in ["copy", "folder", "backups/000001", "db"] {
        let names: Vec<_> = at(place).read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, [name], "{place}");
    }
}

fn files_ending_in(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
}

/// Returns the space that a directory takes on the disk, in bytes.
fn space_of(dir: &Path) -> u64 {
    let space = |path: PathBuf| match path.is_dir() {
        true => space_of(&path),
        false => system::space_of(&path).unwrap(),
    };
    std::fs::read_dir(dir).unwrap().map(|entry| space(entry.unwrap().path())).sum()
}

/// Makes a closed database on the disk with one table and one log. Returns their paths.
fn table_and_log(dir: &Path) -> [PathBuf; 2] {
    let db = Db::open(dir, small().preallocate_logs(false)).unwrap();
    put(&db, 0..100, "table ");
    db.compact_range(..).unwrap();
    put(&db, 100..200, "log ");
    db.close().unwrap();
    ["ldb", "log"].map(|ending| match &files_ending_in(dir, ending)[..] {
        [file] => file.clone(),
        files => panic!("{files:?}"),
    })
}

#[test]
fn copies_of_sparse_files_take_no_more_space_than_the_files() {
    const HOLE: u64 = 512 << 20;
    let home = tempfile::tempdir().unwrap();
    let [dir, folder, copy, back] = ["db", "backups", "copy", "back"].map(|n| home.path().join(n));
    let options = small();
    let [table, log] = table_and_log(&dir);
    let table_bytes = table.metadata().unwrap().len();
    let extend = |path: &Path, by: u64| {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_len(path.metadata().unwrap().len() + by).unwrap();
    };
    extend(&table, HOLE);
    extend(&log, HOLE);
    let island = [&std::fs::read(&table).unwrap()[..100], &[7; 5000]].concat();
    let mut file = std::fs::File::options().write(true).open(&log).unwrap();
    file.seek(SeekFrom::Start(HOLE / 2)).unwrap();
    file.write_all(&island).unwrap();

    for _ in 0..2 {
        backup(&dir, &folder, &options, |_| {}).unwrap();
    }
    minikv::checkpoint(&dir, &copy, &options).unwrap();
    let backups = Backups::open(&folder, &options).unwrap();
    assert_eq!(backups.verify(|_| {}).unwrap(), []);
    backups.restore(None, &back, |_| {}).unwrap();
    for made in [&folder, &copy, &back] {
        let space = space_of(made);
        assert!(space < 8 << 20, "{} takes {space} bytes", made.display());
    }
    // As an open does, a backup reads the bytes of the table that the MANIFEST states.
    let restored = back.join(table.file_name().unwrap());
    assert_eq!(restored.metadata().unwrap().len(), table_bytes);
    for copied in [&copy, &back] {
        let copied = copied.join(log.file_name().unwrap());
        // The disk stores whole pages.
        let zeros = copied.metadata().unwrap().len() - (HOLE / 2 + island.len() as u64);
        assert!(zeros < 64 << 10, "{zeros}");
        let db = Db::open_read_only(copied.parent().unwrap(), options.clone()).unwrap();
        assert_eq!(db.iter().map(Result::unwrap).count(), 200);
    }
}

#[test]
fn a_table_shorter_than_the_manifest_says_is_not_backed_up() {
    let home = tempfile::tempdir().unwrap();
    let [dir, folder] = ["db", "backups"].map(|name| home.path().join(name));
    let [table, _] = table_and_log(&dir);
    let bytes = table.metadata().unwrap().len();
    std::fs::File::options().write(true).open(&table).unwrap().set_len(bytes - 7).unwrap();
    let error = backup(&dir, &folder, &small(), |_| {}).unwrap_err();
    assert!(matches!(error, Error::Corruption(_)), "{error}");
    let text = error.to_string();
    for part in [&table.display().to_string(), &bytes.to_string(), &(bytes - 7).to_string()] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(Backups::open(&folder, &small()).unwrap().list().unwrap(), []);
}

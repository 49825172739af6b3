//! Tests with tables and logs that have valid checksums, but that no engine wrote. Each test is for
//! one bug that engines of this format had. The comment before each test describes the bug.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use minikv::files::{KeyKind, NewFile, VersionEdit};
use minikv::fs::MemFs;
use minikv::internals::format::coding::{put_varint32, put_varint64};
use minikv::internals::format::handle::{BlockHandle, Footer};
use minikv::internals::format::key::internal_key;
use minikv::{Db, Error, Options, Readable, RepairOptions};
use minikv_support::system::symlink;

use crate::forge::{
    DIR, block, file, files_of, first_edit, handle_bytes, load, log_of, put_block, table_of,
    with_edits, with_log, with_tables,
};

const TABLE: &str = "/db/000009.ldb";

fn options(fs: &MemFs) -> Options {
    Options::default().fs(fs.clone()).inline_background(Some(1))
}

fn scan(fs: &MemFs) -> minikv::Result<usize> {
    let db = Db::open_read_only(DIR, options(fs))?;
    db.get("key")?;
    db.iter().try_fold(0, |count, entry| entry.map(|_| count + 1))
}

/// Checks that every read of a table fails with an error that names the table, that a repair saves
/// the undamaged blocks, and that the database is usable afterwards.
fn expect_refused(table: &[u8], what: &str) {
    let fs = load(&with_tables(&[(1, 9, table)]));
    let error = scan(&fs).expect_err(what);
    let Error::Corruption(corruption) = &error else { panic!("{what}: {error}") };
    assert_eq!(corruption.path.as_deref(), Some(TABLE.as_ref()), "{what}: {error}");
    assert!(corruption.offset.is_some(), "{what}: {error}");
    let report = minikv::verify(DIR, &options(&fs)).unwrap();
    assert!(!report.is_sound(), "{what}");

    let copy = load(&files_of(&fs));
    let db = Db::open(DIR, options(&copy)).unwrap();
    db.put("key", "new").unwrap();
    db.compact_range(..).expect_err(what);
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"new"[..]), "{what}");

    minikv::repair(DIR, &options(&fs), RepairOptions::default()).unwrap();
    assert!(minikv::verify(DIR, &options(&fs)).unwrap().is_sound(), "{what}");
    scan(&fs).unwrap();
}

/// Returns a table with one block of `entries`.
fn table(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    table_of(&block(entries), 0, 1, &[])
}

/// Returns a table of `blocks`, each with its separator.
pub fn table_of_blocks(blocks: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Vec<u8> {
    let mut table = Vec::new();
    let index: Vec<_> = blocks
        .map(|(separator, block)| (separator, handle_bytes(put_block(&mut table, &block, 0))))
        .collect();
    let metaindex = put_block(&mut table, &[0, 0, 0, 0, 1, 0, 0, 0], 0);
    let index = put_block(&mut table, &block(&index), 0);
    table.extend_from_slice(&Footer { metaindex, index }.encode());
    table
}

/// For a key shorter than 8 bytes, LevelDB reads the sequence number from before the start of the
/// key; only a debug build asserts.
#[test]
fn an_internal_key_shorter_than_8_bytes_is_an_error() {
    for len in 0..8 {
        expect_refused(&table(&[(vec![b'k'; len], b"v".to_vec())]), &format!("{len} bytes"));
    }
    let sound = (internal_key(b"key", 1, KeyKind::Value), b"v".to_vec());
    assert_eq!(scan(&load(&with_tables(&[(1, 9, &table(&[sound]))]))).unwrap(), 1);
}

/// A compaction that copies keys in the order in which it reads them writes overlapping tables. It
/// ends only when the MANIFEST refuses these tables, or it restarts again and again.
#[test]
fn a_table_with_keys_out_of_order_is_left_alone_by_compactions() {
    let entry =
        |key: &str, seq| (internal_key(key.as_bytes(), seq, KeyKind::Value), vec![b'v'; 50]);
    let cases = [
        [entry("b", 3), entry("a", 2), entry("c", 1)],
        [entry("a", 1), entry("a", 2), entry("c", 3)],
        [entry("c", 3), entry("", 2), entry("a", 1)],
    ];
    for entries in cases {
        let newer = [(internal_key(b"aa", 9, KeyKind::Value), b"new".to_vec())];
        let tables: [(usize, u64, &[u8]); 2] = [(1, 9, &table(&entries)), (0, 10, &table(&newer))];
        for max_file_bytes in [1, 1 << 20] {
            let fs = load(&with_tables(&tables));
            let db = Db::open(DIR, options(&fs).max_file_bytes(max_file_bytes)).unwrap();
            let error = db.compact_range(..).unwrap_err();
            assert!(
                error.is_corruption() && error.to_string().contains("000009.ldb at"),
                "{error}"
            );
            let damaged = db.health().damaged_tables;
            let damaged: Vec<_> = damaged.iter().map(|(path, _)| path.file_name()).collect();
            assert_eq!(damaged, [Some("000009.ldb".as_ref())], "{entries:?}");
            db.put("new", "1").unwrap();
            db.flush().unwrap();
            db.close().unwrap();
            minikv::repair(DIR, &options(&fs), RepairOptions::default()).unwrap();
            assert!(minikv::verify(DIR, &options(&fs)).unwrap().is_sound(), "{entries:?}");
        }
    }
}

/// A compaction in parts seeks the start of each part in the index. In a table whose keys do not
/// ascend, it could lose the entries between the end of one part and the start of the next.
#[test]
fn no_entry_of_a_table_with_keys_out_of_order_is_lost_between_parts() {
    let key = |n: usize| format!("k{n:03}").into_bytes();
    let mut refused = 0;
    for at in 0..40 {
        for other in (5..400).step_by(10) {
            let mut keys: Vec<_> = (0..40).map(|n| key(n * 10)).collect();
            keys[at] = key(other);
            if keys.is_sorted() {
                continue;
            }
            let entries = |keys: &[Vec<u8>]| -> Vec<_> {
                let entry = |key| (internal_key(key, 7, KeyKind::Value), b"v".to_vec());
                keys.iter().map(|key| entry(key)).collect()
            };
            let blocks: Vec<_> = keys.chunks(4).map(entries).collect();
            let separator = |n: usize| internal_key(&key(n * 40 + 35), 1, KeyKind::Value);
            let blocks =
                blocks.iter().enumerate().map(|(n, entries)| (separator(n), block(entries)));
            let fs = load(&with_tables(&[(1, 9, &table_of_blocks(blocks))]));
            let db = Db::open(DIR, options(&fs).max_file_bytes(20)).unwrap();
            let error = db.compact_range(..).expect_err("keys out of order");
            assert!(error.is_corruption(), "{at}, {other}: {error}");
            refused += 1;
        }
    }
    assert!(refused > 1000);
}

/// The sizes of tables in a MANIFEST are added up in many places. No file need have such a size.
#[test]
fn table_sizes_whose_sum_exceeds_64_bits_are_no_panic_and_no_small_sum() {
    let key = |user_key: &str, seq| internal_key(user_key.as_bytes(), seq, KeyKind::Value);
    let file = |level, number, from, to| {
        let (smallest, largest) = (key(from, 9), key(to, 1));
        NewFile { level, number, file_bytes: u64::MAX, smallest, largest }
    };
    let new_files = vec![
        file(0, 15, "a", "z"),
        file(0, 14, "a", "z"),
        file(1, 13, "a", "z"),
        file(2, 12, "n", "z"),
        file(2, 11, "a", "m"),
        file(3, 10, "a", "c"),
        file(3, 9, "x", "z"),
    ];
    let sound = table(&[(key("b", 5), b"v".to_vec())]);
    let mut files = with_log(Vec::new());
    files.extend(with_edits(vec![VersionEdit { new_files, ..first_edit() }]));
    files.extend((9..16).map(|number| (format!("{number:06}.ldb"), sound.clone())));

    fn check_sizes(db: &impl Readable) {
        assert_eq!(db.approximate_size(..).unwrap(), u64::MAX);
        assert_eq!(db.approximate_size(""..="zz").unwrap(), u64::MAX);
        assert_eq!(db.approximate_size("zz"..).unwrap(), 0);
        assert!(db.approximate_size("b".."c").unwrap_err().is_corruption());
    }
    check_sizes(&Db::open_read_only(DIR, options(&load(&files))).unwrap());
    let db = Db::open(DIR, options(&load(&files))).unwrap();
    db.put("A", "new").unwrap();
    check_sizes(&db);
    let stats = db.stats().to_string();
    let all = stats.lines().find(|line| line.starts_with("all")).unwrap();
    assert!(all.contains(" 16777216.0 TiB"), "{stats}");
    assert!(db.compact_range(..).unwrap_err().is_corruption());
    assert!(db.compact_range("b".."c").unwrap_err().is_corruption());
    let done = db.delete_range("a"..="z").unwrap();
    assert_eq!((done.tables, done.file_bytes), (7, u64::MAX));
    assert_eq!(db.approximate_size("a".."zz").unwrap(), 0);
    assert_eq!(db.get("A").unwrap().as_deref(), Some(&b"new"[..]));
}

/// A disk refuses to read at an offset that is no signed number of 64 bits. A damaged MANIFEST then
/// looks like a failing disk, and compactions are tried again and again.
#[test]
fn a_table_size_near_2_to_the_63_is_damage_on_a_disk_too() {
    let entry = (internal_key(b"key", 1, KeyKind::Value), b"v".to_vec());
    let sound = table(&[entry]);
    let near = |n: u64| [n - 1, n, n + 1, n + 47, n + 48, n + 49];
    for file_bytes in near(1 << 63).into_iter().chain([u64::MAX - 1, u64::MAX]) {
        let new_files = vec![NewFile { file_bytes, ..file(1, 9, 0) }];
        let mut files = with_log(Vec::new());
        files.extend(with_edits(vec![VersionEdit { new_files, ..first_edit() }]));
        files.insert("000009.ldb".to_owned(), sound.clone());
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in &files {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let path = dir.path().join("000009.ldb");
        let expect_damage = |error: Error| {
            let Error::Corruption(found) = &error else { panic!("{file_bytes}: {error}") };
            assert_eq!(found.path.as_ref(), Some(&path), "{file_bytes}: {error}");
        };
        let db = Db::open_read_only(dir.path(), Options::default()).unwrap();
        expect_damage(db.get("key").unwrap_err());
        drop(db);
        assert!(!minikv::verify(dir.path(), &Options::default()).unwrap().is_sound());
        let options = Options::default().inline_background(Some(1));
        let db = Db::open(dir.path(), options).unwrap();
        db.put("key", "new").unwrap();
        expect_damage(db.compact_range(..).unwrap_err());
        assert_eq!(db.health().damaged_tables.len(), 1, "{file_bytes}");
    }
}

/// Other engines add a size near 2^31 or 2^64 to an offset, or allocate that much memory, before
/// they compare the size with the length of the file.
#[test]
fn handle_sizes_near_2_to_the_31_and_2_to_the_64_are_errors() {
    let entry = (internal_key(b"key", 1, KeyKind::Value), b"v".to_vec());
    let sound = table(&[entry]);
    let near = |n: u64| [n - 6, n - 5, n - 1, n, n + 1];
    let sizes = [near(1 << 31), near(1 << 32), near(1 << 63)].concat();
    for size in sizes.into_iter().chain([u64::MAX - 5, u64::MAX - 1, u64::MAX]) {
        for offset in [0, 10, u64::MAX - size] {
            let odd = BlockHandle { offset, size };
            // First, write the handle to the index.
            let mut table = Vec::new();
            put_block(&mut table, &sound[..20], 0);
            let metaindex = put_block(&mut table, &[0, 0, 0, 0, 1, 0, 0, 0], 0);
            let separator = internal_key(b"key", 1, KeyKind::Value);
            let index = put_block(&mut table, &block(&[(separator, handle_bytes(odd))]), 0);
            table.extend_from_slice(&Footer { metaindex, index }.encode());
            expect_refused(&table, &format!("{odd:?} in the index"));
            // Then write the handle to the footer, as the handle of the index.
            let at = table.len() - 48;
            table.truncate(at);
            table.extend_from_slice(&Footer { metaindex, index: odd }.encode());
            expect_refused(&table, &format!("{odd:?} in the footer"));
        }
    }
}

/// The sum of two lengths in an entry overflows 32 bits. In other engines, the sum then passes the
/// bounds check.
#[test]
fn entry_lengths_that_overflow_32_bits_are_errors() {
    let max = u32::MAX;
    let lens = [[0, max, 1], [0, 9, max - 8], [0, max, max], [max, 1, 1], [0, 1 << 31, 1 << 31]];
    for lens in lens {
        let mut data = Vec::new();
        lens.into_iter().for_each(|len| put_varint32(&mut data, len));
        data.extend_from_slice(&internal_key(b"k", 1, KeyKind::Value));
        data.extend_from_slice(b"value");
        data.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
        expect_refused(&table_of(&data, 0, 1, &[]), &format!("{lens:?}"));
    }
    // Try a length of more than 32 bits.
    let mut data = vec![0, 9];
    put_varint64(&mut data, 1 << 32);
    data.extend_from_slice(&internal_key(b"k", 1, KeyKind::Value));
    data.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
    expect_refused(&table_of(&data, 0, 1, &[]), "2^32");

    // Try lengths of 2^31 and more in a batch of a log, too.
    for len in [max, max - 4, 1 << 31] {
        let mut batch = [&1u64.to_le_bytes()[..], &1u32.to_le_bytes(), &[1]].concat();
        put_varint32(&mut batch, len);
        batch.extend_from_slice(b"key");
        let fs = load(&with_log(log_of(&[batch])));
        let db = Db::open(DIR, options(&fs)).unwrap();
        assert_eq!(db.recovery().lost.len(), 1, "{len}");
    }
}

/// Many entries of an index point to the same undamaged block. Reading the table takes time in
/// proportion to the number of index entries.
#[test]
fn an_index_that_names_a_block_twice_is_an_error() {
    let entry = [(internal_key(b"key", 1, KeyKind::Value), b"v".to_vec())];
    for times in [2, 1000] {
        expect_refused(&table_of(&block(&entry), 0, times, &[]), &format!("{times}"));
    }
}

/// A restart point is in the middle of an entry, at bytes that look like an entry. Iteration
/// ignores the restart point, but searches and backward steps start there.
#[test]
fn a_restart_inside_an_entry_is_seen_by_verify_and_repaired() {
    let entry = |key: &[u8], value: &[u8]| (internal_key(key, 3, KeyKind::Value), value.to_vec());
    // The value of the first entry is itself an encoded entry.
    let inner = [&[0u8, 9, 1][..], &internal_key(b"x", 1, KeyKind::Value), b"y"].concat();
    let in_value = [entry(b"a", &inner), entry(b"k", b"v")];
    // The key of the second entry ends with an encoded entry, which has the same value.
    let in_key = [entry(b"a", b"v"), entry(b"k\x00\x08\x01", b"y")];
    for (entries, inner) in [(in_value, &inner[..]), (in_key, b"\x00\x08\x01")] {
        let mut data = block(&entries);
        let at = data.len() - 8;
        let inside = data.windows(inner.len()).position(|bytes| bytes == inner).unwrap();
        data[at..at + 4].copy_from_slice(&(inside as u32).to_le_bytes());
        let fs = load(&with_tables(&[(1, 9, &table_of(&data, 0, 1, &[]))]));
        let report = minikv::verify(DIR, &options(&fs)).unwrap();
        assert!(report.faults.iter().any(|fault| fault.what.contains("restart")), "{report:?}");
        minikv::repair(DIR, &options(&fs), RepairOptions::default()).unwrap();
        assert!(minikv::verify(DIR, &options(&fs)).unwrap().is_sound());
        scan(&fs).unwrap();
    }
}

/// Returns all files below a directory, with their contents.
fn contents_of(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let is_link = path.symlink_metadata().unwrap().is_symlink();
        if !is_link && path.is_dir() {
            found.extend(contents_of(&path));
        } else if !is_link {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

/// Does everything that minikv can do to a database, and ignores the results.
fn do_everything(evil: &Path, copy: &Path) {
    let options = || Options::default().create_if_missing(true).reuse_logs(true);
    let _ = Db::open_read_only(evil, options());
    let _ = minikv::verify(evil, &options());
    let _ = minikv::checkpoint(evil, copy, &options());
    if let Ok(db) = Db::open(evil, options()) {
        let _ = db.put("key", "evil");
        let _ = db.flush();
        let _ = db.checkpoint(copy.with_extension("open"));
        let _ = db.compact_range(..);
    }
    let _ = minikv::repair(evil, &options(), RepairOptions::default());
    let _ = minikv::destroy(evil, &options());
}

/// Makes a database with tables, a live log, and one file in `lost/`.
fn make_database(dir: &Path) {
    let db = Db::create(dir).unwrap();
    for key in ["a", "b"] {
        db.put(key, "1").unwrap();
        db.flush().unwrap();
    }
    db.put("c", "1").unwrap();
    db.close().unwrap();
    std::fs::create_dir(dir.join("lost")).unwrap();
    std::fs::write(dir.join("lost/000001.log"), b"kept").unwrap();
}

/// A directory from an untrusted source may hold links to files outside of it.
#[test]
fn links_in_a_database_lead_minikv_to_nothing_outside_of_it() {
    let home = tempfile::tempdir().unwrap();
    let (victim, evil) = (home.path().join("victim"), home.path().join("evil"));
    let copy = home.path().join("copy");
    make_database(&victim);
    let before = contents_of(&victim);
    make_database(&evil);
    let mut names: Vec<String> = std::fs::read_dir(&evil)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.extend((8..14).map(|number| format!("{number:06}.dbtmp")));
    names.extend((8..14).map(|number| format!("{number:06}.log")));
    names.extend((8..14).map(|number| format!("MANIFEST-{number:06}")));
    names.push("LOG".to_owned());
    for name in &names {
        for damaged in [false, true] {
            for made in [&evil, &copy, &copy.with_extension("open")] {
                let _ = std::fs::remove_dir_all(made);
            }
            make_database(&evil);
            if damaged {
                damage_log(&evil);
            }
            let (link, target) = (evil.join(name), victim.join(name));
            let _ = std::fs::remove_file(&link);
            let _ = std::fs::remove_dir_all(&link);
            let target = if name == "lost" { &victim } else { &target };
            symlink(target, &link).unwrap();
            do_everything(&evil, &copy);
            assert!(contents_of(&victim) == before, "{name} links to {target:?}");
        }
    }
}

/// Damages the first record of the live log.
fn damage_log(dir: &Path) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "log") {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[0] ^= 0x41;
            std::fs::write(&path, bytes).unwrap();
        }
    }
}

#[test]
fn a_link_in_place_of_lost_is_refused_by_destroy_open_and_repair() {
    let home = tempfile::tempdir().unwrap();
    let (victim, evil) = (home.path().join("victim"), home.path().join("evil"));
    make_database(&victim);
    make_database(&evil);
    std::fs::remove_dir_all(evil.join("lost")).unwrap();
    symlink("../victim", evil.join("lost")).unwrap();
    let before = (contents_of(&victim), contents_of(&evil));
    let error = minikv::destroy(&evil, &Options::default()).unwrap_err();
    assert!(error.to_string().contains("lost"), "{error}");
    assert!((contents_of(&victim), contents_of(&evil)) == before, "nothing is removed");
    damage_log(&evil);
    let error = Db::open(&evil, Options::default()).unwrap_err();
    assert!(error.to_string().contains("lost"), "{error}");
    let repaired = minikv::repair(&evil, &Options::default(), RepairOptions::default());
    assert!(repaired.unwrap_err().to_string().contains("lost"));
    assert!(contents_of(&victim) == before.0);
}

/// A file of the database may have another hard link, in another user's directory.
#[test]
fn a_file_with_another_name_is_replaced_and_not_emptied() {
    let home = tempfile::tempdir().unwrap();
    let (mine, evil) = (home.path().join("mine"), home.path().join("evil"));
    std::fs::create_dir(&evil).unwrap();
    std::fs::write(&mine, b"precious").unwrap();
    std::fs::hard_link(&mine, evil.join("000001.dbtmp")).unwrap();
    drop(Db::create(&evil).unwrap());
    assert_eq!(std::fs::read(&mine).unwrap(), b"precious");
}

/// The copy of the database consists of hard links, such as those that `cp -al` makes.
#[test]
fn a_database_copied_by_hard_links_and_then_written_leaves_the_original_alone() {
    let home = tempfile::tempdir().unwrap();
    let (original, copy) = (home.path().join("original"), home.path().join("copy"));
    make_database(&original);
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(&original).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() && entry.file_name() != "LOCK" {
            std::fs::hard_link(entry.path(), copy.join(entry.file_name())).unwrap();
        }
    }
    let before = contents_of(&original);
    for key in ["x", "y"] {
        let db = Db::open(&copy, Options::default().reuse_logs(true)).unwrap();
        db.put(key, "1").unwrap();
        db.close().unwrap();
        assert!(contents_of(&original) == before);
    }
    let db = Db::open(&copy, Options::default().reuse_logs(true)).unwrap();
    db.put("z", "1").unwrap();
    db.compact_range(..).unwrap();
    assert!(contents_of(&original) == before);
    assert!(minikv::verify(&original, &Options::default()).unwrap().is_sound());
    assert_eq!(db.iter().count(), 3 + 3);
}

/// New files get numbers above those of all existing files. These numbers must not wrap around.
#[test]
fn a_file_number_near_the_end_of_numbers_is_refused_by_name() {
    let names = |number: u64| {
        let endings = ["log", "ldb", "sst", "dbtmp"].map(|ending| format!("{number}.{ending}"));
        endings.into_iter().chain([format!("MANIFEST-{number}")])
    };
    for number in [u64::MAX, u64::MAX - 1, 1 << 63, 1 << 62] {
        for name in names(number) {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join("db");
            make_database(&path);
            std::fs::write(path.join(&name), b"").unwrap();
            let before = contents_of(&path);
            let checkpoint =
                minikv::checkpoint(&path, home.path().join("copy"), &Options::default());
            for error in [
                Db::open(&path, Options::default()).map(drop).unwrap_err(),
                checkpoint.unwrap_err(),
            ] {
                assert!(error.is_corruption(), "{error}");
                assert!(error.to_string().contains(&name), "{error}");
            }
            assert!(!minikv::verify(&path, &Options::default()).unwrap().is_sound(), "{name}");
            assert!(contents_of(&path) == before, "{name}");
            std::fs::remove_file(path.join(&name)).unwrap();
            assert_eq!(Db::open(&path, Options::default()).unwrap().iter().count(), 3);
        }
    }
    // The numbers in these names are slightly below the limit for file numbers.
    for name in names((1 << 62) - 100) {
        let home = tempfile::tempdir().unwrap();
        make_database(home.path());
        std::fs::write(home.path().join(&name), b"").unwrap();
        let opened = Db::open(home.path(), Options::default());
        if let Ok(db) = opened {
            db.put("d", "1").unwrap();
            db.compact_range(..).unwrap();
            assert_eq!(db.iter().count(), 4, "{name}");
        }
    }
    // A number that one open accepts leaves enough numbers for the opens after it.
    for number in [62, 61].into_iter().flat_map(|bits| [1, 2, 3, 9].map(|less| (1 << bits) - less))
    {
        for name in names(number) {
            let home = tempfile::tempdir().unwrap();
            make_database(home.path());
            std::fs::write(home.path().join(&name), b"").unwrap();
            let before = contents_of(home.path());
            if let Err(error) = Db::open(home.path(), Options::default()) {
                assert!(error.is_corruption() && error.to_string().contains(&name), "{error}");
                assert!(contents_of(home.path()) == before, "{name}");
                std::fs::remove_file(home.path().join(&name)).unwrap();
            }
            for key in ["d", "e", "f"] {
                let opened = Db::open(home.path(), Options::default());
                let db = opened.unwrap_or_else(|error| panic!("{name}, before {key}: {error}"));
                db.put(key, "1").unwrap();
                db.flush().unwrap();
            }
            assert_eq!(Db::open(home.path(), Options::default()).unwrap().iter().count(), 6);
            assert!(minikv::verify(home.path(), &Options::default()).unwrap().is_sound());
        }
    }
}

/// The index has one restart point for all entries. LevelDB writes one for each entry, other
/// engines one for 16.
#[test]
fn an_index_with_one_restart_point_leads_seeks_to_their_blocks() {
    let name = |i: u32| format!("key{i:03}").into_bytes();
    let own = |i: u32| internal_key(&name(i), 1, KeyKind::Value);
    let mut table = Vec::new();
    let mut index = Vec::new();
    for i in 0..50 {
        let handle = handle_bytes(put_block(&mut table, &block(&[(own(i), b"v".to_vec())]), 0));
        for len in [0, own(i).len(), handle.len()] {
            put_varint32(&mut index, len as u32);
        }
        index.extend([own(i), handle].concat());
    }
    index.extend([0u32.to_le_bytes(), 1u32.to_le_bytes()].concat());
    let metaindex = put_block(&mut table, &[0, 0, 0, 0, 1, 0, 0, 0], 0);
    let index = put_block(&mut table, &index, 0);
    table.extend_from_slice(&Footer { metaindex, index }.encode());

    let db = Db::open(DIR, options(&load(&with_tables(&[(1, 9, &table)])))).unwrap();
    let mut cursor = db.cursor().unwrap();
    for i in 0..50 {
        assert!(cursor.seek(name(i)).unwrap());
        assert_eq!(cursor.key(), name(i));
        assert!(cursor.seek_for_prev(name(i)).unwrap());
        assert_eq!(cursor.key(), name(i));
        assert_eq!(db.get(name(i)).unwrap().as_deref(), Some(&b"v"[..]));
    }
    assert!(!cursor.seek("l").unwrap());
    assert_eq!(db.iter().count(), 50);
}

//! Databases that share their resources: LevelDB must find everything that a sync of the log made
//! durable.

use minikv::fs::sim::CrashPlan;
use minikv::fs::{Fs, SimFs};
use minikv::{Db, Options, Resources};
use minikv_interop::{LevelDb, Settings};

const DIRS: [&str; 3] = ["/a", "/b", "/c"];

/// Checks that LevelDB finds all synced entries after a loss of power. Each database was synced by
/// `Db::sync`, after some memtables had been flushed to free memory for other databases.
#[test]
fn leveldb_finds_all_that_was_synced_in_databases_that_share_a_budget() {
    let fs = SimFs::new(1);
    let shared = Resources::default().memory_bytes(1 << 20);
    let options = Options::default().create_if_missing(true).fs(fs.clone());
    let options = options.resources(&shared).preallocate_logs(false);
    let dbs = DIRS.map(|dir| Db::open(dir, options.clone()).unwrap());
    let entry = |i: u32| (format!("key{i:05}").into_bytes(), vec![i as u8; 1000]);
    for i in 0..1000 {
        let (key, value) = entry(i);
        dbs.iter().for_each(|db| db.put(&key, &value).unwrap());
    }
    dbs.iter().for_each(|db| db.sync().unwrap());
    dbs.iter().for_each(|db| db.put("unsynced", "may be lost").unwrap());
    let left = fs.crash_image(&CrashPlan::strict());
    drop(dbs);
    let home = tempfile::tempdir().unwrap();
    for dir in DIRS.map(std::path::Path::new) {
        let to = home.path().join(dir.file_name().unwrap());
        std::fs::create_dir(&to).unwrap();
        let names = left.list(dir).unwrap();
        assert!(names.iter().any(|name| name.ends_with(".ldb")), "something was flushed");
        for name in names {
            let path = dir.join(&name);
            let mut bytes = vec![0; left.len(&path).unwrap() as usize];
            let read = left.open(&path).unwrap().read_at(&mut bytes, 0).unwrap();
            assert_eq!(read, bytes.len());
            std::fs::write(to.join(&name), bytes).unwrap();
        }
        let db = LevelDb::open(&to, &Settings::default()).unwrap();
        let expected: Vec<_> = (0..1000).map(entry).collect();
        assert!(db.entries(false).unwrap() == expected, "{}", dir.display());
    }
}

//! Databases on a filesystem that has only what every program's own has, and whose files may fail
//! when they are closed.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use minikv::fs::{FileLock, Fs, LockHolder, MemFs, ReadFile, WriteFile};
use minikv::{Db, Error, Options};

use crate::small;

/// A filesystem in memory that can neither link files nor append to them. Clones share the files.
#[derive(Clone, Debug, Default)]
struct LimitedFs {
    inner: MemFs,
    /// Part of the paths of the files that cannot be closed.
    unclosable: Arc<Mutex<Option<&'static str>>>,
}

impl LimitedFs {
    /// Makes the close of every file whose path contains `part` fail from now on.
    fn set_unclosable(&self, part: Option<&'static str>) {
        *self.unclosable.lock().unwrap() = part;
    }
}

#[derive(Debug)]
struct LimitedFile {
    inner: Box<dyn WriteFile>,
    path: PathBuf,
    unclosable: Arc<Mutex<Option<&'static str>>>,
}

impl WriteFile for LimitedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn close(&mut self) -> io::Result<()> {
        match *self.unclosable.lock().unwrap() {
            Some(part) if self.path.to_str().unwrap().replace('\\', "/").contains(part) => {
                Err(io::Error::other("the last bytes are gone"))
            }
            _ => self.inner.close(),
        }
    }
}

impl Fs for LimitedFs {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.inner.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let (inner, unclosable) = (self.inner.create(path)?, self.unclosable.clone());
        Ok(Box::new(LimitedFile { inner, path: path.to_path_buf(), unclosable }))
    }

    fn append(&self, _: &Path) -> io::Result<Box<dyn WriteFile>> {
        Err(ErrorKind::Unsupported.into())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn hard_link(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.inner.list(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_dir(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        self.inner.len(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Result<Box<dyn FileLock>, LockHolder>> {
        self.inner.lock(path)
    }
}

fn on(fs: &LimitedFs) -> Options {
    small().fs(fs.clone()).inline_background(Some(4))
}

fn value(db: &Db, key: &str) -> Option<String> {
    db.get(key).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
}

#[test]
fn a_flush_whose_table_cannot_be_closed_fails_and_keeps_the_log() {
    let fs = LimitedFs::default();
    let db = Db::open("/db", on(&fs)).unwrap();
    db.put("key", "1").unwrap();
    fs.set_unclosable(Some(".ldb"));
    let error = db.flush().unwrap_err().to_string();
    assert!(error.contains("cannot close") && error.contains("last bytes"), "{error}");
    assert_eq!(value(&db, "key").as_deref(), Some("1"));
    drop(db);
    fs.set_unclosable(None);
    let db = Db::open("/db", on(&fs)).unwrap();
    assert_eq!(value(&db, "key").as_deref(), Some("1"));
    db.flush().unwrap();
}

#[test]
fn a_database_whose_first_files_cannot_be_closed_is_not_made() {
    let fs = LimitedFs::default();
    for part in ["MANIFEST", ".dbtmp"] {
        fs.set_unclosable(Some(part));
        let error = Db::open("/db", on(&fs)).unwrap_err().to_string();
        assert!(error.contains("cannot close"), "{part}: {error}");
        assert!(!fs.exists(Path::new("/db/CURRENT")).unwrap(), "{part}");
    }
    fs.set_unclosable(None);
    Db::open("/db", on(&fs)).unwrap();
}

#[test]
fn a_checkpoint_whose_files_cannot_be_closed_leaves_nothing() {
    let fs = LimitedFs::default();
    let db = Db::open("/db", on(&fs)).unwrap();
    db.put("in a table", "1").unwrap();
    db.flush().unwrap();
    db.put("in the log", "2").unwrap();
    for part in ["/copy/0", ".ldb", ".log", "MANIFEST", ".dbtmp"] {
        fs.set_unclosable(Some(part));
        let error = db.checkpoint("/copy").unwrap_err().to_string();
        assert!(error.contains("cannot close"), "{part}: {error}");
        assert!(!fs.exists(Path::new("/copy")).unwrap(), "{part}");
    }
    fs.set_unclosable(None);
    db.checkpoint("/copy").unwrap();
    let copy = Db::open("/copy", on(&fs)).unwrap();
    assert_eq!(value(&copy, "in a table").as_deref(), Some("1"));
    assert_eq!(value(&copy, "in the log").as_deref(), Some("2"));
}

#[test]
fn logs_are_reused_only_where_files_can_be_appended_to() {
    let fs = LimitedFs::default();
    for opens in 0..4 {
        let db = Db::open("/db", on(&fs).reuse_logs(true)).unwrap();
        assert_eq!(db.iter().count(), opens);
        db.put(format!("{opens}"), "value").unwrap();
    }
    assert!(minikv::verify("/db", &on(&fs)).unwrap().is_sound());
}

/// Returns the sequence numbers of all changes, up to the last one.
fn changes(db: &Db) -> Vec<u64> {
    db.changes_since(0).unwrap().map(|change| change.unwrap().sequence()).collect()
}

#[test]
fn logs_are_kept_where_files_cannot_be_appended_to() {
    let fs = LimitedFs::default();
    let open = || Db::open("/db", on(&fs).keep_logs_bytes(1 << 20)).unwrap();
    let db = open();
    for (last, key) in ["a", "b", "c"].into_iter().enumerate() {
        db.put(key, "value").unwrap();
        db.flush().unwrap();
        assert_eq!(changes(&db), (1..=last as u64 + 1).collect::<Vec<_>>());
    }
    db.put("only in the log", "value").unwrap();
    drop(db);
    let db = open();
    assert_eq!(changes(&db), [1, 2, 3, 4]);
    db.flush().unwrap();
    drop(db);
    assert_eq!(changes(&open()), [1, 2, 3, 4]);
    let names = fs.list(Path::new("/db")).unwrap();
    assert!(names.iter().all(|name| !name.ends_with(".dbtmp")), "{names:?}");
}

#[test]
fn a_log_that_cannot_be_made_durable_is_not_kept() {
    let fs = LimitedFs::default();
    let db = Db::open("/db", on(&fs).keep_logs_bytes(1 << 20)).unwrap();
    db.put("key", "1").unwrap();
    fs.set_unclosable(Some(".dbtmp"));
    db.flush().unwrap();
    let error = db.changes_since(0).unwrap().next().unwrap().unwrap_err();
    assert!(matches!(error, Error::ChangesLost { .. }), "{error}");
    let names = fs.list(Path::new("/db")).unwrap();
    assert!(names.iter().all(|name| !name.ends_with(".dbtmp")), "{names:?}");
}

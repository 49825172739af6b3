//! Only one process can have a database open, whichever engine it uses.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use minikv::fs::LockHolder;
use minikv::{Db, Error, Options};
use minikv_interop::{LevelDb, Settings};

/// A process that tried to open a database. The process is ended when this value is dropped.
struct Holder {
    process: Child,
    said: String,
}

impl Holder {
    fn start(engine: &str, dir: &Path) -> Holder {
        let mut process = Command::new(env!("CARGO_BIN_EXE_holder"))
            .arg(engine)
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the holder starts");
        let mut said = String::new();
        let output = process.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut said).expect("a line");
        Holder { process, said: said.trim_end().to_string() }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().expect("the holder ends");
    }
}

fn options() -> Options {
    Options::default().create_if_missing(true)
}

#[test]
fn minikv_is_refused_a_database_that_leveldb_holds() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let holder = Holder::start("leveldb", home.path());
    assert_eq!(holder.said, "held");
    match Db::open(home.path(), options()) {
        Err(Error::Locked { path, holder: who }) => {
            assert!(path.ends_with("LOCK"), "{}", path.display());
            assert_eq!(who, LockHolder::Process(Some(holder.process.id())));
        }
        other => panic!("not refused: {other:?}"),
    }
    Db::open_read_only(home.path(), Options::default()).expect("reading needs no lock");
    // Neither the refused open nor the read-only open may have released LevelDB's lock.
    assert!(matches!(Db::open(home.path(), options()), Err(Error::Locked { .. })));
    drop(holder);
    Db::open(home.path(), options()).expect("free again");
}

#[test]
fn leveldb_is_refused_a_database_that_minikv_holds() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let holder = Holder::start("minikv", home.path());
    assert_eq!(holder.said, "held");
    let settings = Settings::default();
    let refused = LevelDb::open(home.path(), &settings).map(drop).expect_err("a held database");
    assert!(refused.contains("lock"), "{refused}");
    drop(holder);
    LevelDb::open(home.path(), &settings).map(drop).expect("free again");
}

#[test]
fn minikv_is_refused_a_database_that_minikv_holds() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(home.path(), options()).unwrap();
    let refused = Holder::start("minikv", home.path());
    assert!(refused.said.starts_with("refused: "), "{}", refused.said);
    assert!(refused.said.contains(&std::process::id().to_string()), "{}", refused.said);
    let again = Db::open(home.path(), options());
    assert!(matches!(again, Err(Error::Locked { .. })), "opened twice in one process: {again:?}");
    // The failed second open must not have released the lock of the first.
    let refused = Holder::start("leveldb", home.path());
    assert!(refused.said.starts_with("refused: "), "{}", refused.said);
    drop(db);
    assert_eq!(Holder::start("leveldb", home.path()).said, "held");
}

//! Tests of locks beside other processes.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use super::*;
use crate::fs::lock::{lock, lock_by};
use crate::fs::{DiskFs, FileLock, Fs};

#[test]
fn second_lock_in_the_process_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let first = DiskFs.lock(&path).unwrap().unwrap();
    assert_eq!(DiskFs.lock(&path).unwrap().unwrap_err(), LockHolder::ThisProcess);
    // This is the same file by another path.
    let dotted = dir.path().join(".").join("LOCK");
    assert_eq!(DiskFs.lock(&dotted).unwrap().unwrap_err(), LockHolder::ThisProcess);
    drop(first);
    drop(DiskFs.lock(&dotted).unwrap().unwrap());
}

#[test]
fn lock_file_is_neither_emptied_nor_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    fs::write(&path, b"note").unwrap();
    drop(DiskFs.lock(&path).unwrap().unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"note");
}

#[test]
fn a_new_file_of_the_name_is_a_new_lock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let _old = DiskFs.lock(&path).unwrap().unwrap();
    fs::remove_file(&path).unwrap();
    let _new = DiskFs.lock(&path).unwrap().unwrap();
    assert_eq!(DiskFs.lock(&path).unwrap().unwrap_err(), LockHolder::ThisProcess);
}

fn locked_by(path: &Path, kinds: &[LockCall]) -> io::Result<Result<impl FileLock, LockHolder>> {
    lock_by(path, &|file, id| take_kinds(file, id, kinds))
}

#[test]
fn one_kind_of_lock_is_enough_and_the_lack_of_both_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let lacking: [LockCall; 3] =
        [|_, _| Err(Errno::OPNOTSUPP), |_, _| Err(Errno::NOSYS), |_, _| Err(Errno::INVAL)];
    let works: LockCall = |_, _| Ok(());
    for lack in lacking {
        for kinds in [[lack, works], [works, lack]] {
            let lock = locked_by(&path, &kinds).unwrap().unwrap();
            assert!(lock.excludes_processes());
        }
        let neither = [lack, lack];
        let lock = locked_by(&path, &neither).unwrap().unwrap();
        assert!(!lock.excludes_processes());
        // This process is kept out all the same.
        let second = locked_by(&path, &neither).unwrap();
        assert_eq!(second.unwrap_err(), LockHolder::ThisProcess);
    }
    let full: LockCall = |_, _| Err(Errno::NOLCK);
    assert!(!locked_by(&path, &[full, full]).unwrap().unwrap().excludes_processes());
    for kinds in [[full, works], [works, full]] {
        assert!(locked_by(&path, &kinds).is_err());
    }
    let held: LockCall = |_, _| Err(Errno::AGAIN);
    assert!(locked_by(&path, &[lacking[0], held]).unwrap().is_err());
    let broken: LockCall = |_, _| Err(Errno::IO);
    assert!(locked_by(&path, &[works, broken]).is_err());
    assert!(DiskFs.lock(&path).unwrap().unwrap().excludes_processes());
}

#[test]
fn lock_in_a_missing_directory_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let error = DiskFs.lock(&dir.path().join("missing/LOCK")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

const CHILD_PATH: &str = "MINIKV_TEST_LOCK_PATH";
const CHILD_KIND: &str = "MINIKV_TEST_LOCK_KIND";

/// Not a test, but the code of the child processes that the tests below start. A child reports
/// whether it got the lock, and holds the lock until its input ends.
#[test]
fn child_process() {
    let Some(path) = std::env::var_os(CHILD_PATH) else { return };
    let path = Path::new(&path);
    fs::write(path, b"").unwrap();
    let open = || File::options().read(true).write(true).open(path).unwrap();
    let write_lock = FlockOperation::NonBlockingLockExclusive;
    let mut file = None;
    let mut both = None;
    let outcome = match std::env::var(CHILD_KIND).unwrap().as_str() {
        "leveldb" => {
            format!("{:?}", rustix::fs::fcntl_lock(file.insert(open()), write_lock))
        }
        "goleveldb" => format!("{:?}", rustix::fs::flock(file.insert(open()), write_lock)),
        // Passing the file as standard input has the same effect as inheriting it by a fork.
        "forking" => {
            let locked = lock(path).unwrap().unwrap();
            let heir = Command::new("sleep").arg("60").stdin(locked.handle()).spawn().unwrap();
            println!("\nchild: {}", heir.id());
            std::process::exit(0);
        }
        _ => match lock(path).unwrap() {
            Ok(guard) => {
                both = Some(guard);
                "Ok(())".to_string()
            }
            Err(holder) => format!("{holder:?}"),
        },
    };
    println!("\nchild: {outcome}");
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    drop((file, both));
}

fn spawn(kind: &str, path: &Path) -> (Child, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "fs::system::unix::lock::tests::child_process", "--nocapture"])
        .env(CHILD_PATH, path)
        .env(CHILD_KIND, kind)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let said = lines
        .map(Result::unwrap)
        .find_map(|line| line.strip_prefix("child: ").map(str::to_string))
        .expect("the child says what it got");
    (child, said)
}

fn end(mut child: Child) {
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn another_process_holds_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    for kind in ["minikv", "leveldb"] {
        let (child, said) = spawn(kind, &path);
        assert_eq!(said, "Ok(())", "{kind}");
        let holder = DiskFs.lock(&path).unwrap().unwrap_err();
        assert_eq!(holder, LockHolder::Process(Some(child.id())), "{kind}");
        end(child);
        drop(DiskFs.lock(&path).unwrap().unwrap());
    }
}

#[test]
fn goleveldb_in_another_process_holds_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let (child, said) = spawn("goleveldb", &path);
    assert_eq!(said, "Ok(())");
    // Only /proc/locks reports the holder of a `flock`, and not on every filesystem, so the
    // process id may be unknown.
    let holder = DiskFs.lock(&path).unwrap().unwrap_err();
    let LockHolder::Process(pid) = holder else { panic!("{holder:?}") };
    assert!(pid.is_none() || pid == Some(child.id()), "{pid:?}");
    end(child);
    drop(DiskFs.lock(&path).unwrap().unwrap());
}

/// Checks which holder is reported for a `flock` whose process has ended: the lock belongs to
/// every process that has inherited the open file, so it outlives the process that took it.
#[test]
fn a_lock_that_outlives_its_process_in_a_fork_is_told_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let (mut child, heir) = spawn("forking", &path);
    let ended = child.id();
    child.wait().unwrap();
    let holder = DiskFs.lock(&path).unwrap().unwrap_err();
    let heir = heir.parse::<u32>().unwrap();
    let text = holder.to_string();
    let pid = rustix::process::Pid::from_raw(heir.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    // Some systems do not report the holders of locks.
    if holder != LockHolder::Process(None) {
        assert_eq!(holder, LockHolder::ForkOf { ended, heir: Some(heir) });
        assert!(text.contains(&heir.to_string()) && text.contains("forked"), "{text}");
    }
    while DiskFs.lock(&path).unwrap().is_err() {
        std::thread::yield_now();
    }
}

#[test]
fn a_lock_file_of_another_directory_of_the_name_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let old = DiskFs.lock(&path).unwrap().unwrap();
    assert!(!old.is_replaced().unwrap());
    fs::remove_file(&path).unwrap();
    assert!(!old.is_replaced().unwrap(), "nobody else can have it yet");
    let new = DiskFs.lock(&path).unwrap().unwrap();
    assert!(old.is_replaced().unwrap() && !new.is_replaced().unwrap());
}

#[test]
fn ours_keeps_every_engine_out_until_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    for kind in ["minikv", "leveldb", "goleveldb"] {
        let guard = DiskFs.lock(&path).unwrap().unwrap();
        // A refused second lock must not release the first.
        assert!(DiskFs.lock(&path).unwrap().is_err());
        let (child, said) = spawn(kind, &path);
        end(child);
        assert_ne!(said, "Ok(())", "{kind}");
        drop(guard);
        let (child, said) = spawn(kind, &path);
        end(child);
        assert_eq!(said, "Ok(())", "{kind}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn proc_locks_are_read() {
    let table = "1: POSIX  ADVISORY  WRITE 17 08:01:12 0 EOF\n\
                 2: FLOCK  ADVISORY  WRITE 708 fd:02:1234 0 EOF\n\
                 2: -> FLOCK  ADVISORY  WRITE 709 fd:02:1234 0 EOF\n\
                 3: OFDLCK ADVISORY  WRITE -1 08:01:13 0 EOF\n";
    let dev = |major, minor| rustix::fs::makedev(major, minor);
    assert_eq!(holder_in_proc_locks(table, (dev(8, 1), 12), 99), Some(17));
    assert_eq!(holder_in_proc_locks(table, (dev(0xfd, 2), 1234), 99), Some(708));
    assert_eq!(holder_in_proc_locks(table, (dev(8, 1), 13), 99), Some(-1));
    assert_eq!(holder_in_proc_locks(table, (dev(8, 1), 1234), 99), None);
    assert_eq!(holder_in_proc_locks(table, (dev(8, 1), 12), 17), None);
    assert_eq!(holder_in_proc_locks("1: FLOCK\ngarbage", (dev(8, 1), 12), 99), None);
}

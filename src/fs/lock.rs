//! The lock on a database directory, which LevelDB and goleveldb respect, too.
//!
//! LevelDB takes an `fcntl` write lock over the whole `LOCK` file (`util/env_posix.cc`), goleveldb
//! a `flock` (`leveldb/storage/file_storage_unix.go`). On Linux the two kinds of locks do not
//! conflict, so this module takes both. On macOS and the BSDs they do conflict, even within a
//! process (see their fcntl(2)): the first lock would prevent the second, so only the `fcntl` lock
//! is taken.
//!
//! An `fcntl` lock belongs to the process: locking again in the same process succeeds, and closing
//! *any* descriptor of the file releases the lock. So the files that this process has locked are
//! kept in a table, which is checked before a lock file is opened, and nothing else in the process
//! may open a `LOCK` file.

use std::fs::{
    File, {self},
};
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};

use super::open::{DeviceInode, file_id, not_through_links, require_regular_file};
use super::{FileLock, LockHolder};

/// The files that this process has locked. The mutex is held while a lock file is opened or closed.
static LOCKED: Mutex<Vec<DeviceInode>> = Mutex::new(Vec::new());

/// Maximum number of attempts to lock a file that is replaced at every attempt. More attempts only
/// delay the error.
const MAX_ATTEMPTS: usize = 100;

/// A call that takes or releases one kind of lock.
type LockCall = fn(&File, FlockOperation) -> rustix::io::Result<()>;

/// The kinds of locks to take.
#[cfg(target_os = "linux")]
const KINDS: &[LockCall] = &[
    |file, operation| rustix::fs::fcntl_lock(file, operation),
    |file, operation| rustix::fs::flock(file, operation),
];
#[cfg(not(target_os = "linux"))]
const KINDS: &[LockCall] = &[|file, operation| rustix::fs::fcntl_lock(file, operation)];

/// A locked file. Dropping it releases the lock.
#[derive(Debug)]
pub(super) struct DiskLock {
    /// `None` only while being dropped.
    file: Option<File>,
    id: DeviceInode,
    path: PathBuf,
    /// Whether the filesystem has locks of any kind.
    is_locked: bool,
}

impl FileLock for DiskLock {
    fn excludes_processes(&self) -> bool {
        self.is_locked
    }

    fn is_replaced(&self) -> io::Result<bool> {
        match fs::symlink_metadata(&self.path) {
            Ok(metadata) => Ok(file_id(&metadata) != self.id),
            // The next process that locks the directory creates another lock file, which a later
            // call of this method notices.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Drop for DiskLock {
    fn drop(&mut self) {
        let mut locked = LOCKED.lock();
        if let Some(file) = self.file.take() {
            // A child process between fork and exec shares the flock. An explicit unlock releases
            // the flock for the child, too; closing the file would not.
            let _ = rustix::fs::flock(&file, FlockOperation::Unlock);
            let _ = rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingUnlock);
        }
        debug_assert!(locked.contains(&self.id), "a lock that is not in the table");
        locked.retain(|id| *id != self.id);
    }
}

/// Locks `path`. Creates the file if it is missing, but never truncates or removes it. Returns the
/// lock, or the holder of the lock as the inner error.
///
/// On a filesystem that has only one of the two kinds of locks, that one is enough: an engine that
/// uses the other kind cannot open the database there.
pub(super) fn lock(path: &Path) -> io::Result<Result<DiskLock, LockHolder>> {
    lock_by(path, KINDS)
}

fn lock_by(path: &Path, kinds: &[LockCall]) -> io::Result<Result<DiskLock, LockHolder>> {
    let mut locked = LOCKED.lock();
    for _ in 0..MAX_ATTEMPTS {
        match require_regular_file(path) {
            Ok(metadata) if locked.contains(&file_id(&metadata)) => {
                return Ok(Err(LockHolder::ThisProcess));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if let Some(outcome) = try_lock(path, kinds, &mut locked)? {
            return Ok(outcome);
        }
    }
    Err(io::Error::other("the lock file was replaced again and again while being locked"))
}

/// Tries once to lock `path`. Returns `None` if the file was removed or replaced before it was
/// locked, which makes the lock worthless.
fn try_lock(
    path: &Path,
    kinds: &[LockCall],
    locked: &mut MutexGuard<'_, Vec<DeviceInode>>,
) -> io::Result<Option<Result<DiskLock, LockHolder>>> {
    let file =
        not_through_links().read(true).write(true).create(true).truncate(false).open(path)?;
    let id = file_id(&file.metadata()?);
    let (mut is_locked, mut has_room) = (false, true);
    for take in kinds {
        match take(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => is_locked = true,
            Err(Errno::NOLCK) => has_room = false,
            Err(error) if is_lack(error) => {}
            // POSIX allows either error for a refused fcntl lock.
            Err(Errno::AGAIN | Errno::ACCESS) => {
                return Ok(Some(Err(holder(&file, id))));
            }
            Err(error) => return Err(error.into()),
        }
    }
    // A server without locks has neither kind. If it has the other one, its table of locks is full,
    // and an engine that uses this kind may be in the directory.
    if is_locked && !has_room {
        return Err(Errno::NOLCK.into());
    }
    match fs::symlink_metadata(path) {
        Ok(metadata) if file_id(&metadata) == id => {}
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    debug_assert!(!locked.contains(&id), "a file is locked twice");
    locked.push(id);
    let path = path.to_path_buf();
    Ok(Some(Ok(DiskLock { file: Some(file), id, path, is_locked })))
}

/// Returns whether an error means that the filesystem lacks a kind of lock.
fn is_lack(error: Errno) -> bool {
    [Errno::OPNOTSUPP, Errno::NOTSUP, Errno::NOSYS, Errno::INVAL].contains(&error)
}

/// Returns the holder of the lock on `file`, as far as the system reports it.
fn holder(file: &File, id: DeviceInode) -> LockHolder {
    #[cfg(target_os = "linux")]
    if let Ok(table) = fs::read_to_string("/proc/locks")
        && let Some(pid) = holder_in_proc_locks(&table, id, std::process::id())
    {
        return match u32::try_from(pid) {
            // The system names the process that took a `flock`, but the lock belongs to every
            // process that inherited the open file.
            Ok(ended) if pid > 0 && !Path::new(&format!("/proc/{ended}")).exists() => {
                LockHolder::ForkOf { ended, heir: user_of(id) }
            }
            pid => LockHolder::Process(pid.ok()),
        };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = id;
    let blocking = fcntl_getlk(file, &Flock::from(FlockType::WriteLock)).ok().flatten();
    // The pid is 0 if the process is outside of the pid namespace of this process.
    let pid = blocking.and_then(|blocking| blocking.pid);
    LockHolder::Process(pid.and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok()))
}

/// Returns another process that has the file open, if there is one and this process may see it.
#[cfg(target_os = "linux")]
fn user_of(id: DeviceInode) -> Option<u32> {
    let pids = fs::read_dir("/proc").ok()?.flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id()).find(|pid| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut ids = files.filter_map(|file| Some(file_id(&fs::metadata(file.path()).ok()?)));
        ids.any(|file| file == id)
    })
}

/// Searches `table`, the contents of `/proc/locks`, for the process that holds a lock on a file.
/// Linux reports the holder of a `flock` nowhere else.
///
/// A line looks like `1: FLOCK  ADVISORY  WRITE 708 08:01:1234 0 EOF`; waiters have an arrow after
/// the number. The process id is -1 if the lock belongs to an open file rather than to a process.
/// Skips locks of the process `ours`, which may just have taken one of its two locks.
#[cfg(target_os = "linux")]
fn holder_in_proc_locks(table: &str, (dev, ino): DeviceInode, ours: u32) -> Option<i64> {
    let file = format!("{:02x}:{:02x}:{ino}", rustix::fs::major(dev), rustix::fs::minor(dev));
    table.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(4);
        let pid: i64 = fields.next()?.parse().ok()?;
        (fields.next()? == file && pid != i64::from(ours)).then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::{Child, Command, Stdio};

    use super::super::{DiskFs, Fs};
    use super::*;

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

    #[test]
    fn one_kind_of_lock_is_enough_and_the_lack_of_both_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let lacking: [LockCall; 3] =
            [|_, _| Err(Errno::OPNOTSUPP), |_, _| Err(Errno::NOSYS), |_, _| Err(Errno::INVAL)];
        let works: LockCall = |_, _| Ok(());
        for lack in lacking {
            for kinds in [[lack, works], [works, lack]] {
                let lock = lock_by(&path, &kinds).unwrap().unwrap();
                assert!(lock.excludes_processes());
            }
            let lock = lock_by(&path, &[lack, lack]).unwrap().unwrap();
            assert!(!lock.excludes_processes());
            // This process is kept out all the same.
            let second = lock_by(&path, &[lack, lack]).unwrap();
            assert_eq!(second.unwrap_err(), LockHolder::ThisProcess);
        }
        let full: LockCall = |_, _| Err(Errno::NOLCK);
        assert!(!lock_by(&path, &[full, full]).unwrap().unwrap().excludes_processes());
        for kinds in [[full, works], [works, full]] {
            assert!(lock_by(&path, &kinds).is_err());
        }
        let held: LockCall = |_, _| Err(Errno::AGAIN);
        assert!(lock_by(&path, &[lacking[0], held]).unwrap().is_err());
        let broken: LockCall = |_, _| Err(Errno::IO);
        assert!(lock_by(&path, &[works, broken]).is_err());
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
                let inherited = locked.file.as_ref().unwrap().try_clone().unwrap();
                let heir = Command::new("sleep").arg("60").stdin(inherited).spawn().unwrap();
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
            .args(["--exact", "fs::lock::tests::child_process", "--nocapture"])
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
}

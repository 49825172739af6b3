//! A C++ program's `Env` as the filesystem of a database.
//!
//! An `Env` has no hard links, cannot truncate files, and does not sync directories: it keeps names
//! in the order in which they were made. The database asks it for nothing else.

use std::collections::HashMap;
use std::ffi::{OsStr, c_char};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use minikv::fs::{FileLock, Fs, LockHolder, ReadFile, WriteFile};

use crate::border::{Malloced, Out, State, export, pointer};
use crate::options::leveldb_options_t;

/// Returns the text of an error and its length, which is 0 for a success.
type OnFile = extern "C" fn(State, Out<usize>) -> Malloced;
type OnName = extern "C" fn(State, *const c_char, usize, Out<usize>) -> Malloced;

/// The functions of an `Env`, which `env_bridge.cc` implements.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Calls {
    open: extern "C" fn(State, *const c_char, usize, Out<State>, Out<usize>) -> Malloced,
    read: extern "C" fn(State, u64, *mut u8, usize, Out<usize>, Out<usize>) -> Malloced,
    close_read: extern "C" fn(State),
    create: extern "C" fn(State, *const c_char, usize, u8, Out<State>, Out<usize>) -> Malloced,
    write: extern "C" fn(State, *const c_char, usize, Out<usize>) -> Malloced,
    sync: OnFile,
    /// Deletes the file, too, even if it returns an error.
    close_write: OnFile,
    rename:
        extern "C" fn(State, *const c_char, usize, *const c_char, usize, Out<usize>) -> Malloced,
    remove: OnName,
    create_dir: OnName,
    remove_dir: OnName,
    /// Returns the names, each followed by a NUL, or an error whose length is stored last.
    list: extern "C" fn(State, *const c_char, usize, Out<usize>, Out<usize>) -> Malloced,
    exists: extern "C" fn(State, *const c_char, usize) -> u8,
    size: extern "C" fn(State, *const c_char, usize, Out<u64>, Out<usize>) -> Malloced,
    lock: extern "C" fn(State, *const c_char, usize, Out<State>, Out<usize>) -> Malloced,
    unlock: extern "C" fn(State, State),
}

/// An `Env` and its functions.
#[derive(Clone)]
struct Env {
    state: State,
    calls: Calls,
    /// The files that are open for writing, by path. LevelDB closes a file before it removes it,
    /// and an `Env` may rely on that; the engine may still hold the log that it removes.
    writing: Arc<Mutex<HashMap<PathBuf, Weak<Mutex<Written>>>>>,
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Env").field(&self.state).finish()
    }
}

/// Returns the error of a call, whose text begins with its kind.
fn error(text: &str) -> io::Error {
    let (kind, what) = text.split_once(": ").unwrap_or(("", text));
    match kind {
        "NotFound" => io::Error::new(ErrorKind::NotFound, what),
        "Not implemented" => io::Error::new(ErrorKind::Unsupported, what),
        "IO error" => io::Error::other(what),
        _ => io::Error::other(text),
    }
}

fn checked(call: impl FnOnce(Out<usize>) -> Malloced) -> io::Result<()> {
    let mut len = 0;
    let text = call(Out::of(&mut len));
    let mut bytes = Vec::new();
    text.append_to(&mut bytes, len);
    match bytes.is_empty() {
        true => Ok(()),
        false => Err(error(&String::from_utf8_lossy(&bytes))),
    }
}

/// The parts of a path that a function takes.
fn name(path: &Path) -> (*const c_char, usize) {
    let bytes = path.as_os_str().as_bytes();
    (pointer(bytes), bytes.len())
}

/// Returns the path of a directory as the program gave it: without the slash that
/// [`Fs::absolute`] adds.
fn as_given(dir: &Path) -> &Path {
    match dir.as_os_str().as_bytes().strip_suffix(b"/") {
        Some(given) if given.ends_with(b"/") => Path::new(OsStr::from_bytes(given)),
        _ => dir,
    }
}

impl Env {
    fn create(&self, path: &Path, append: bool) -> io::Result<Box<dyn WriteFile>> {
        let (at, len) = name(path);
        let mut file = State(null_mut());
        checked(|e| {
            (self.calls.create)(self.state, at, len, append.into(), Out::of(&mut file), e)
        })?;
        let written = Arc::new(Mutex::new(Written { calls: self.calls, file: Some(file) }));
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        writing.retain(|_, written| written.strong_count() > 0);
        writing.insert(path.to_path_buf(), Arc::downgrade(&written));
        Ok(Box::new(EnvWriteFile { calls: self.calls, written }))
    }

    /// Closes a file that is open for writing and about to be removed.
    fn close(&self, path: &Path) {
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(written) = writing.remove(path).and_then(|written| written.upgrade()) {
            let _ = written.lock().unwrap_or_else(PoisonError::into_inner).close();
        }
    }

    fn on_name(&self, call: OnName, path: &Path) -> io::Result<()> {
        let (at, len) = name(path);
        checked(|e| call(self.state, at, len, e)).map_err(|error| self.if_missing(path, error))
    }

    /// Returns the error of a call on a file. If there is no such file, the error says so: not all
    /// `Env`s have a kind of error of their own for it.
    fn if_missing(&self, path: &Path, error: io::Error) -> io::Error {
        let (at, len) = name(path);
        match (self.calls.exists)(self.state, at, len) {
            0 => io::Error::new(ErrorKind::NotFound, error.to_string()),
            _ => error,
        }
    }
}

impl Fs for Env {
    /// Adds a slash to a path that ends in one, because `Path::join` adds none. LevelDB puts a
    /// slash between the name of a database and that of a file in any case, and an `Env` may know
    /// files by their names alone.
    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        let mut path = path.as_os_str().to_owned();
        if path.as_bytes().ends_with(b"/") {
            path.push("/");
        }
        Ok(path.into())
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let (at, len) = name(path);
        let mut file = State(null_mut());
        checked(|e| (self.calls.open)(self.state, at, len, Out::of(&mut file), e))
            .map_err(|error| self.if_missing(path, error))?;
        let file = Opened { calls: self.calls, file };
        let bytes = AtomicU64::new(self.len(path)?);
        Ok(Arc::new(EnvReadFile { env: self.clone(), path: path.to_path_buf(), file, bytes }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.create(path, false)
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.create(path, true)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((from, from_len), (to, to_len)) = (name(from), name(to));
        checked(|e| (self.calls.rename)(self.state, from, from_len, to, to_len, e))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.close(path);
        self.on_name(self.calls.remove, path)
    }

    fn hard_link(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    /// Creates the directory, but not its parents. LevelDB ignores the result, which most `Env`s
    /// make an error if the directory exists; what is done in the directory fails if it is missing.
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let _ = self.on_name(self.calls.create_dir, as_given(path));
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.on_name(self.calls.remove_dir, as_given(path))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let (at, len) = name(as_given(path));
        let (mut names_len, mut error_len) = (0, 0);
        let out = (Out::of(&mut names_len), Out::of(&mut error_len));
        let text = (self.calls.list)(self.state, at, len, out.0, out.1);
        let mut bytes = Vec::new();
        text.append_to(&mut bytes, names_len.max(error_len));
        if error_len > 0 {
            return Err(error(&String::from_utf8_lossy(&bytes)));
        }
        let names =
            bytes.split(|byte| *byte == 0).filter(|name| !matches!(*name, b"" | b"." | b".."));
        Ok(names.filter_map(|name| String::from_utf8(name.to_vec()).ok()).collect())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    /// An `Env` need not know directories, so one with names in it exists, too.
    fn exists(&self, path: &Path) -> io::Result<bool> {
        let (at, len) = name(as_given(path));
        let exists = (self.calls.exists)(self.state, at, len) != 0;
        Ok(exists || self.list(path).is_ok_and(|names| !names.is_empty()))
    }

    fn is_real_dir(&self, _: &Path) -> io::Result<bool> {
        Ok(true)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        let (at, len) = name(path);
        let mut bytes = 0;
        checked(|e| (self.calls.size)(self.state, at, len, Out::of(&mut bytes), e))
            .map_err(|error| self.if_missing(path, error))?;
        Ok(bytes)
    }

    fn lock(&self, path: &Path) -> io::Result<Result<Box<dyn FileLock>, LockHolder>> {
        let (at, len) = name(path);
        let mut lock = State(null_mut());
        checked(|e| (self.calls.lock)(self.state, at, len, Out::of(&mut lock), e))?;
        Ok(Ok(Box::new(EnvLock { env: self.clone(), lock })))
    }
}

#[derive(Debug)]
struct EnvLock {
    env: Env,
    lock: State,
}

impl FileLock for EnvLock {}

impl Drop for EnvLock {
    fn drop(&mut self) {
        (self.env.calls.unlock)(self.env.state, self.lock);
    }
}

/// An open `RandomAccessFile`, which is deleted when it is dropped.
struct Opened {
    calls: Calls,
    file: State,
}

impl Drop for Opened {
    fn drop(&mut self) {
        (self.calls.close_read)(self.file);
    }
}

struct EnvReadFile {
    env: Env,
    path: PathBuf,
    file: Opened,
    /// The length of the file when it was last asked for. `RandomAccessFile`s need not be able to
    /// read past their end.
    bytes: AtomicU64,
}

impl std::fmt::Debug for EnvReadFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("EnvReadFile").field(&self.path).finish()
    }
}

/// Reads until `buf` is full or `end` is reached.
fn read_until(
    file: State,
    calls: &Calls,
    buf: &mut [u8],
    offset: u64,
    end: u64,
) -> io::Result<usize> {
    let left = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
    let wanted = buf.len().min(left);
    let mut done = 0;
    while done < wanted {
        let rest = &mut buf[done..wanted];
        let mut got = 0;
        let (at, len) = (rest.as_mut_ptr(), rest.len());
        checked(|e| (calls.read)(file, offset + done as u64, at, len, Out::of(&mut got), e))?;
        if got == 0 {
            break;
        }
        done += got.min(len);
    }
    Ok(done)
}

impl ReadFile for EnvReadFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut end = self.bytes.load(Relaxed);
        if offset.saturating_add(buf.len() as u64) > end {
            end = self.len()?;
        }
        read_until(self.file.file, &self.env.calls, buf, offset, end)
    }

    /// Returns the current length of the file or, if its name is gone, the last one.
    fn len(&self) -> io::Result<u64> {
        match self.env.len(&self.path) {
            Ok(bytes) => {
                self.bytes.store(bytes, Relaxed);
                Ok(bytes)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(self.bytes.load(Relaxed)),
            Err(error) => Err(error),
        }
    }
}

/// A `RandomAccessFile` of the program, with the length that the program says it has.
#[derive(Clone, Copy)]
pub struct LentReadFile {
    pub file: State,
    pub calls: Calls,
    pub bytes: u64,
}

impl std::fmt::Debug for LentReadFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LentReadFile").field(&self.bytes).finish()
    }
}

impl ReadFile for LentReadFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        read_until(self.file, &self.calls, buf, offset, self.bytes)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }
}

/// An open `WritableFile`, which is closed and deleted when it is dropped.
struct Written {
    calls: Calls,
    /// `None` once the file was closed.
    file: Option<State>,
}

impl Written {
    /// Closes and deletes the file, unless that is done.
    fn close(&mut self) -> io::Result<()> {
        let close = |file| checked(|e| (self.calls.close_write)(file, e));
        self.file.take().map_or(Ok(()), close)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

struct EnvWriteFile {
    calls: Calls,
    written: Arc<Mutex<Written>>,
}

impl std::fmt::Debug for EnvWriteFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EnvWriteFile")
    }
}

impl WriteFile for EnvWriteFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.written.lock().unwrap_or_else(PoisonError::into_inner).file {
            Some(file) => checked(|e| (self.calls.write)(file, pointer(bytes), bytes.len(), e)),
            None => Err(io::Error::other("the file was closed")),
        }
    }

    /// Does nothing if the file was closed: it was synced before, or nothing refers to it any more.
    fn sync(&mut self) -> io::Result<()> {
        match self.written.lock().unwrap_or_else(PoisonError::into_inner).file {
            Some(file) => checked(|e| (self.calls.sync)(file, e)),
            None => Ok(()),
        }
    }

    fn set_len(&mut self, _: u64) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn close(&mut self) -> io::Result<()> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).close()
    }
}

/// A `WritableFile` that the program syncs, closes and deletes.
pub struct LentWriteFile {
    pub file: State,
    pub calls: Calls,
}

impl std::fmt::Debug for LentWriteFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LentWriteFile")
    }
}

impl WriteFile for LentWriteFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        checked(|e| (self.calls.write)(self.file, pointer(bytes), bytes.len(), e))
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&mut self, _: u64) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }
}

/// Returns the filesystem of an `Env`.
pub fn env(state: State, calls: Calls) -> Arc<dyn Fs> {
    Arc::new(Env { state, calls, writing: Arc::default() })
}

export! {
    fn cpp_options_set_env(options: &mut leveldb_options_t, state: State, calls: &Calls) {
        let env = env(state, *calls);
        options.change(|options| options.fs(env));
    }
}

//! Tests of the behaviour that all filesystems share, run on each of them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{Fs, LockHolder, ReadFile};

/// Runs each listed test on one filesystem, in its own directory below `root`.
macro_rules! suite {
    ($name:ident, $make:expr, $($test:ident)*) => {
        mod $name {
            $(
                #[test]
                fn $test() {
                    let (fs, root, _guard) = $make;
                    super::$test(&fs, &root.join(stringify!($test)));
                }
            )*
        }
    };
}

macro_rules! suites {
    ($($test:ident)*) => {
        suite!(disk, {
            let dir = tempfile::tempdir().unwrap();
            (crate::fs::DiskFs, dir.path().to_path_buf(), dir)
        }, $($test)*);
        suite!(mem, (crate::fs::MemFs::new(), std::path::PathBuf::from("/"), ()), $($test)*);
        suite!(sim, (crate::fs::SimFs::new(1), std::path::PathBuf::from("/"), ()), $($test)*);
    };
}

suites! {
    directories_are_made_with_their_parents
    directories_are_removed_when_empty
    created_files_are_listed_and_read_back
    creating_empties_what_is_there
    appending_goes_on_at_the_end
    reads_end_with_the_file
    reads_past_the_longest_file_find_nothing
    lengths_are_set
    positions_survive_a_cut_by_another
    renames_replace
    renames_of_one_file_over_itself_change_nothing
    renames_refuse_what_they_cannot_do
    directories_are_renamed
    removed_files_live_while_open
    hard_links_are_the_same_file
    missing_things_are_not_found
    files_are_no_directories_and_the_reverse
    paths_are_normalised
    locks_exclude_until_dropped
    locks_create_their_file_and_keep_it
    files_are_shared_by_threads
}

fn contents(file: &dyn ReadFile) -> Vec<u8> {
    let mut buf = vec![0xee; usize::try_from(file.len().unwrap()).unwrap() + 10];
    let count = file.read_at(&mut buf, 0).unwrap();
    buf.truncate(count);
    buf
}

fn read(fs: &dyn Fs, path: &Path) -> Vec<u8> {
    contents(&*fs.open(path).unwrap())
}

fn write(fs: &dyn Fs, path: &Path, bytes: &[u8]) {
    fs.create(path).unwrap().write(bytes).unwrap();
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

fn made(fs: &dyn Fs, dir: &Path) -> PathBuf {
    fs.create_dir(dir).unwrap();
    dir.to_path_buf()
}

fn kind<T>(result: std::io::Result<T>) -> ErrorKind {
    result.map(drop).unwrap_err().kind()
}

fn directories_are_made_with_their_parents(fs: &dyn Fs, dir: &Path) {
    let nested = dir.join("a/b/c");
    fs.create_dir(&nested).unwrap();
    fs.create_dir(&nested).unwrap();
    assert!(fs.exists(&nested).unwrap());
    assert_eq!(fs.list(&dir.join("a")).unwrap(), ["b"]);
    if let Err(error) = fs.sync_dir(&nested) {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
    write(fs, &dir.join("file"), b"");
    assert_eq!(kind(fs.create_dir(&dir.join("file"))), ErrorKind::AlreadyExists);
    assert_eq!(kind(fs.create_dir(&dir.join("file/below"))), ErrorKind::NotADirectory);
}

fn directories_are_removed_when_empty(fs: &dyn Fs, dir: &Path) {
    made(fs, dir);
    let file = dir.join("file");
    write(fs, &file, b"x");
    assert_eq!(kind(fs.remove_dir(dir)), ErrorKind::DirectoryNotEmpty);
    fs.remove(&file).unwrap();
    fs.remove_dir(dir).unwrap();
    assert!(!fs.exists(dir).unwrap());
    assert_eq!(kind(fs.list(dir)), ErrorKind::NotFound);
}

fn created_files_are_listed_and_read_back(fs: &dyn Fs, dir: &Path) {
    made(fs, dir);
    assert!(fs.list(dir).unwrap().is_empty());
    let mut file = fs.create(&dir.join("one")).unwrap();
    file.write(b"hello").unwrap();
    file.write(b"").unwrap();
    file.write(b", world").unwrap();
    file.sync().unwrap();
    write(fs, &dir.join("two"), &[7; 100_000]);
    assert_eq!(sorted(fs.list(dir).unwrap()), ["one", "two"]);
    assert_eq!(read(fs, &dir.join("one")), b"hello, world");
    assert_eq!(read(fs, &dir.join("two")), vec![7; 100_000]);
    assert_eq!(fs.len(&dir.join("two")).unwrap(), 100_000);
    assert!(!fs.open(&dir.join("two")).unwrap().is_empty().unwrap());
}

fn creating_empties_what_is_there(fs: &dyn Fs, dir: &Path) {
    let path = made(fs, dir).join("f");
    write(fs, &path, b"a long old content");
    let before = fs.open(&path).unwrap();
    let mut file = fs.create(&path).unwrap();
    assert_eq!(fs.len(&path).unwrap(), 0);
    file.write(b"new").unwrap();
    assert_eq!(read(fs, &path), b"new");
    assert_eq!(contents(&*before), b"new", "it is the same file, emptied");
}

fn appending_goes_on_at_the_end(fs: &dyn Fs, dir: &Path) {
    let path = made(fs, dir).join("f");
    assert_eq!(kind(fs.append(&path)), ErrorKind::NotFound);
    write(fs, &path, b"one ");
    let mut file = fs.append(&path).unwrap();
    file.write(b"two ").unwrap();
    file.write(b"three").unwrap();
    drop(file);
    assert_eq!(read(fs, &path), b"one two three");
}

fn reads_end_with_the_file(fs: &dyn Fs, dir: &Path) {
    let path = made(fs, dir).join("f");
    let bytes: Vec<u8> = (0..10_000u32).map(|n| (n % 251) as u8).collect();
    write(fs, &path, &bytes);
    let file = fs.open(&path).unwrap();
    let mut buf = [0; 100];
    for offset in [0, 1, 4_095, 4_096, 5_000, 9_900] {
        assert_eq!(file.read_at(&mut buf, offset).unwrap(), 100);
        assert_eq!(buf[..], bytes[offset as usize..][..100]);
    }
    assert_eq!(file.read_at(&mut buf, 9_999).unwrap(), 1);
    assert_eq!(file.read_at(&mut buf, 10_000).unwrap(), 0);
    assert_eq!(file.read_at(&mut buf, 1 << 40).unwrap(), 0);
    assert_eq!(file.read_at(&mut [], 5).unwrap(), 0);
}

fn reads_past_the_longest_file_find_nothing(fs: &dyn Fs, dir: &Path) {
    let path = made(fs, dir).join("f");
    write(fs, &path, b"abc");
    let (mut buf, edge) = ([0; 48], 1 << 63);
    for file in [fs.open(&path).unwrap(), fs.open_table(&path).unwrap()] {
        for offset in [edge - 49, edge - 48, edge - 47, edge - 1, edge, u64::MAX - 1, u64::MAX] {
            assert_eq!(file.read_at(&mut buf, offset).unwrap(), 0, "{offset}");
        }
        assert_eq!(file.read_at(&mut buf, 1).unwrap(), 2);
    }
}

fn lengths_are_set(fs: &dyn Fs, dir: &Path) {
    let path = made(fs, dir).join("f");
    let mut file = fs.create(&path).unwrap();
    file.write(b"abcdef").unwrap();
    file.set_len(10_000).unwrap();
    assert_eq!(fs.len(&path).unwrap(), 10_000);
    file.write(b"ghi").unwrap();
    assert_eq!(fs.len(&path).unwrap(), 10_000, "a length set ahead stays");
    let mut expected = b"abcdefghi".to_vec();
    expected.resize(10_000, 0);
    assert_eq!(read(fs, &path), expected);
    file.set_len(4).unwrap();
    file.write(b"XY").unwrap();
    assert_eq!(read(fs, &path), b"abcdXY", "the position was cut with the file");
    file.set_len(8).unwrap();
    assert_eq!(read(fs, &path), b"abcdXY\0\0", "what was cut off does not come back");
}

fn positions_survive_a_cut_by_another(fs: &dyn Fs, dir: &Path) {
    let path = made(fs, dir).join("f");
    let mut first = fs.create(&path).unwrap();
    first.write(b"abcdef").unwrap();
    let mut second = fs.append(&path).unwrap();
    second.set_len(2).unwrap();
    first.write(b"").unwrap();
    assert_eq!(read(fs, &path), b"ab");
    first.write(b"gh").unwrap();
    assert_eq!(read(fs, &path), b"ab\0\0\0\0gh");
}

fn renames_replace(fs: &dyn Fs, dir: &Path) {
    made(fs, dir);
    let (a, b) = (dir.join("a"), dir.join("b"));
    write(fs, &a, b"new");
    write(fs, &b, b"old");
    let old = fs.open(&b).unwrap();
    fs.rename(&a, &b).unwrap();
    assert_eq!(fs.list(dir).unwrap(), ["b"]);
    assert_eq!(read(fs, &b), b"new");
    assert_eq!(contents(&*old), b"old", "who had it open still reads it");
    fs.rename(&b, &b).unwrap();
    assert_eq!(read(fs, &b), b"new");
}

fn renames_of_one_file_over_itself_change_nothing(fs: &dyn Fs, dir: &Path) {
    made(fs, dir);
    let (a, b) = (dir.join("a"), dir.join("b"));
    write(fs, &a, b"x");
    fs.hard_link(&a, &b).unwrap();
    fs.rename(&a, &b).unwrap();
    assert_eq!(sorted(fs.list(dir).unwrap()), ["a", "b"]);
}

fn renames_refuse_what_they_cannot_do(fs: &dyn Fs, dir: &Path) {
    made(fs, dir);
    let (file, sub) = (dir.join("file"), dir.join("sub"));
    write(fs, &file, b"x");
    made(fs, &sub.join("inner"));
    assert_eq!(kind(fs.rename(&dir.join("none"), &file)), ErrorKind::NotFound);
    assert_eq!(kind(fs.rename(&file, &dir.join("none/f"))), ErrorKind::NotFound);
    assert_eq!(kind(fs.rename(&file, &sub)), ErrorKind::IsADirectory);
    assert_eq!(kind(fs.rename(&sub, &file)), ErrorKind::NotADirectory);
    assert_eq!(kind(fs.rename(&sub, &sub.join("inner/x"))), ErrorKind::InvalidInput);
    made(fs, &dir.join("other"));
    assert_eq!(kind(fs.rename(&dir.join("other"), &sub)), ErrorKind::DirectoryNotEmpty);
    assert_eq!(sorted(fs.list(dir).unwrap()), ["file", "other", "sub"]);
}

fn directories_are_renamed(fs: &dyn Fs, dir: &Path) {
    let (old, new) = (made(fs, &dir.join("old")), dir.join("new"));
    write(fs, &old.join("f"), b"inside");
    made(fs, &new);
    fs.rename(&old, &new).unwrap();
    assert_eq!(fs.list(dir).unwrap(), ["new"]);
    assert_eq!(read(fs, &new.join("f")), b"inside");
    fs.rename(&new.join("f"), &dir.join("out")).unwrap();
    assert_eq!(read(fs, &dir.join("out")), b"inside");
}

fn removed_files_live_while_open(fs: &dyn Fs, dir: &Path) {
    let path = made(fs, dir).join("f");
    write(fs, &path, b"still");
    let reader = fs.open(&path).unwrap();
    let mut writer = fs.append(&path).unwrap();
    fs.remove(&path).unwrap();
    assert!(!fs.exists(&path).unwrap());
    writer.write(b" here").unwrap();
    writer.sync().unwrap();
    assert_eq!(contents(&*reader), b"still here");
    write(fs, &path, b"another");
    assert_eq!(contents(&*reader), b"still here");
}

fn hard_links_are_the_same_file(fs: &dyn Fs, dir: &Path) {
    made(fs, dir);
    let (a, b) = (dir.join("a"), dir.join("b"));
    write(fs, &a, b"one");
    fs.hard_link(&a, &b).unwrap();
    fs.append(&a).unwrap().write(b" more").unwrap();
    assert_eq!(read(fs, &b), b"one more");
    assert_eq!(kind(fs.hard_link(&a, &b)), ErrorKind::AlreadyExists);
    assert_eq!(kind(fs.hard_link(dir, &dir.join("c"))), ErrorKind::PermissionDenied);
    fs.remove(&a).unwrap();
    assert_eq!(read(fs, &b), b"one more");
}

fn missing_things_are_not_found(fs: &dyn Fs, dir: &Path) {
    made(fs, dir);
    let (none, below) = (dir.join("none"), dir.join("none/below"));
    for path in [&none, &below] {
        assert!(!fs.exists(path).unwrap());
        assert_eq!(kind(fs.open(path)), ErrorKind::NotFound);
        assert_eq!(kind(fs.append(path)), ErrorKind::NotFound);
        assert_eq!(kind(fs.remove(path)), ErrorKind::NotFound);
        assert_eq!(kind(fs.remove_dir(path)), ErrorKind::NotFound);
        assert_eq!(kind(fs.len(path)), ErrorKind::NotFound);
        assert_eq!(kind(fs.list(path)), ErrorKind::NotFound);
        assert_eq!(kind(fs.sync_dir(path)), ErrorKind::NotFound);
        assert_eq!(kind(fs.hard_link(path, &dir.join("x"))), ErrorKind::NotFound);
    }
    assert_eq!(kind(fs.create(&below)), ErrorKind::NotFound);
    assert_eq!(kind(fs.lock(&below)), ErrorKind::NotFound);
    assert!(fs.list(dir).unwrap().is_empty());
}

fn files_are_no_directories_and_the_reverse(fs: &dyn Fs, dir: &Path) {
    made(fs, dir);
    let (file, sub) = (dir.join("file"), made(fs, &dir.join("sub")));
    write(fs, &file, b"x");
    let below = file.join("below");
    assert_eq!(kind(fs.open(&below)), ErrorKind::NotADirectory);
    assert_eq!(kind(fs.create(&below)), ErrorKind::NotADirectory);
    assert_eq!(kind(fs.exists(&below)), ErrorKind::NotADirectory);
    assert_eq!(kind(fs.list(&file)), ErrorKind::NotADirectory);
    assert_eq!(kind(fs.sync_dir(&file)), ErrorKind::NotADirectory);
    assert_eq!(kind(fs.remove_dir(&file)), ErrorKind::NotADirectory);
    assert_eq!(kind(fs.open(&sub)), ErrorKind::IsADirectory);
    assert_eq!(kind(fs.create(&sub)), ErrorKind::IsADirectory);
    assert_eq!(kind(fs.append(&sub)), ErrorKind::IsADirectory);
    assert_eq!(kind(fs.remove(&sub)), ErrorKind::IsADirectory);
    assert_eq!(kind(fs.len(&sub)), ErrorKind::IsADirectory);
    assert_eq!(kind(fs.lock(&sub)), ErrorKind::IsADirectory);
}

fn paths_are_normalised(fs: &dyn Fs, dir: &Path) {
    made(fs, &dir.join("sub"));
    write(fs, &dir.join("f"), b"x");
    assert_eq!(read(fs, &dir.join("./sub/.././f")), b"x");
    assert_eq!(sorted(fs.list(&dir.join("sub/..")).unwrap()), ["f", "sub"]);
}

fn locks_exclude_until_dropped(fs: &dyn Fs, dir: &Path) {
    let path = made(fs, dir).join("LOCK");
    let first = fs.lock(&path).unwrap().unwrap();
    assert_eq!(fs.lock(&path).unwrap().unwrap_err(), LockHolder::ThisProcess);
    assert_eq!(fs.lock(&dir.join("./LOCK")).unwrap().unwrap_err(), LockHolder::ThisProcess);
    let other = fs.lock(&dir.join("OTHER")).unwrap().unwrap();
    drop(first);
    let second = fs.lock(&path).unwrap().unwrap();
    assert!(fs.lock(&path).unwrap().is_err());
    drop((second, other));
}

fn locks_create_their_file_and_keep_it(fs: &dyn Fs, dir: &Path) {
    let path = made(fs, dir).join("LOCK");
    drop(fs.lock(&path).unwrap().unwrap());
    assert_eq!(fs.len(&path).unwrap(), 0);
    write(fs, &path, b"note");
    drop(fs.lock(&path).unwrap().unwrap());
    assert_eq!(read(fs, &path), b"note");
}

fn files_are_shared_by_threads(fs: &dyn Fs, dir: &Path) {
    made(fs, dir);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            scope.spawn(move || {
                let path = dir.join(format!("{thread}"));
                let mut file = fs.create(&path).unwrap();
                for _ in 0..50 {
                    file.write(&[thread; 100]).unwrap();
                }
                let reader = fs.open(&path).unwrap();
                assert_eq!(contents(&*reader), vec![thread; 5_000]);
            });
        }
    });
    assert_eq!(sorted(fs.list(dir).unwrap()), ["0", "1", "2", "3"]);
}

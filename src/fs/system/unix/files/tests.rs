//! Tests of modes, links and special files.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::fs::{DiskFs, Fs};

#[test]
fn modes_are_private() {
    let dir = tempfile::tempdir().unwrap();
    let nested = dir.path().join("a/b");
    DiskFs.create_dir(&nested).unwrap();
    let file = nested.join("f");
    drop(DiskFs.create(&file).unwrap());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir.path().join("a")), 0o700);
    assert_eq!(mode(&nested), 0o700);
    assert_eq!(mode(&file), 0o600);
}

#[test]
fn symbolic_links_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (target, link) = (dir.path().join("target"), dir.path().join("link"));
    fs::write(&target, b"precious").unwrap();
    symlink(&target, &link).unwrap();
    let mut errors =
        vec![DiskFs.open(&link).map(drop).unwrap_err(), DiskFs.len(&link).unwrap_err()];
    errors.push(DiskFs.create(&link).map(drop).unwrap_err());
    errors.push(DiskFs.append(&link).map(drop).unwrap_err());
    errors.push(DiskFs.lock(&link).map(drop).unwrap_err());
    for error in errors {
        assert!(error.to_string().contains("symbolic link"), "{error}");
    }
    assert_eq!(fs::read(&target).unwrap(), b"precious");
    // Opening with `O_NOFOLLOW` fails for a symbolic link, even without a preceding check of
    // the file's type.
    assert!(not_through_links().read(true).open(&link).is_err());
    // A dangling link counts as an existing name.
    fs::remove_file(&target).unwrap();
    assert!(DiskFs.exists(&link).unwrap());
    assert!(DiskFs.create(&link).is_err());
    assert!(!DiskFs.exists(&target).unwrap());
}

#[test]
fn special_files_are_refused_without_waiting() {
    let socket = tempfile::tempdir().unwrap();
    let path = socket.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    assert_eq!(DiskFs.open(&path).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert_eq!(DiskFs.create(&path).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert_eq!(DiskFs.lock(&path).unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn descriptors_are_close_on_exec() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    drop(DiskFs.create(&path).unwrap());
    let file = not_through_links().read(true).open(&path).unwrap();
    let flags = rustix::io::fcntl_getfd(&file).unwrap();
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
}

#[test]
fn names_that_are_not_utf8_are_there_in_part() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"odd\xff");
    if fs::write(dir.path().join(odd), b"").is_err() {
        return; // the filesystem accepts only UTF-8 names
    }
    drop(DiskFs.create(&dir.path().join("even")).unwrap());
    let mut names = DiskFs.list(dir.path()).unwrap();
    names.sort();
    assert_eq!(names, ["even", "odd\u{fffd}"]);
}

//! Disk limits that must cause errors, not signals.

use std::path::Path;
use std::process::{Command, ExitStatus};

use minikv::{Db, Options, WriteOptions};

use crate::kill::Mounted;

const CHILD: &str = "MINIKV_DISK_CHILD";

fn open(dir: &Path, write_buffer_bytes: usize) -> Db {
    let options = Options::default().create_if_missing(true);
    Db::open(dir, options.write_buffer_bytes(write_buffer_bytes)).unwrap()
}

/// Runs the test `child` of this file in a process of its own, through a shell that first runs
/// `before`. Returns the exit status of the process.
fn run(child: &str, dir: &Path, before: &str) -> ExitStatus {
    Command::new("sh")
        .args(["-c", &format!("{before} exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args([&format!("disk::{child}"), "--exact", "--include-ignored", "--nocapture"])
        .env(CHILD, dir)
        .status()
        .unwrap()
}

#[test]
#[ignore = "the child of a test below"]
fn writer_below_a_limit() {
    let Some(dir) = std::env::var_os(CHILD) else { return };
    let sync = WriteOptions::default().sync(true);
    for (name, count, synced) in [("synced", 200, true), ("unsynced", 450, false)] {
        let db = open(&Path::new(&dir).join(name), 4 << 20);
        for i in 0..count {
            let options = if synced { sync } else { WriteOptions::default() };
            db.writing(options).put(format!("{i:05}"), [7; 1000]).unwrap();
        }
        assert_eq!(db.iter().count(), count);
        db.close().unwrap();
    }
}

/// Checks that no log reserves space beyond the limit of `ulimit -f`. A file that grows beyond this
/// limit, even by reserved space alone, makes the system end the process with a signal.
#[test]
fn no_log_is_reserved_past_the_limit_of_file_sizes() {
    let dir = tempfile::tempdir().unwrap();
    // The unit of `ulimit -f` is 512 bytes in some shells and 1 KiB in others.
    let status = run("writer_below_a_limit", dir.path(), "ulimit -f 1000;");
    assert!(status.success(), "{status}");
    assert_eq!(open(&dir.path().join("unsynced"), 4 << 20).iter().count(), 450);
}

/// Writes to a database on a full disk, while a copy of the log shares the log's blocks.
#[test]
#[ignore = "the child of the test below"]
fn writer_on_a_full_disk() {
    let Some(dir) = std::env::var_os(CHILD) else { return };
    let dir = Path::new(&dir);
    let db = open(&dir.join("db"), 4 << 20);
    let put = |i: u32| db.put(i.to_be_bytes(), [7; 100]);
    for i in 0..2000 {
        put(i).unwrap();
    }
    for entry in std::fs::read_dir(dir.join("db")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let mut command = Command::new("cp");
            command.arg("--reflink=always").arg(path).arg(dir.join("copy"));
            assert!(command.status().unwrap().success());
        }
    }
    let mut filler = std::fs::File::create(dir.join("filler")).unwrap();
    for bytes in [1 << 20, 4096] {
        while std::io::Write::write_all(&mut filler, &vec![7; bytes]).is_ok() {}
    }
    let mut failed = 0;
    for i in 2000..40_000 {
        failed += u32::from(put(i).is_err());
    }
    println!("{failed} puts without space");
}

#[test]
fn a_full_disk_beside_a_copy_that_shares_blocks_is_no_signal() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    std::fs::File::create(&image).unwrap().set_len(320 << 20).unwrap();
    match Command::new("mkfs.xfs").arg("-q").arg(&image).output() {
        Ok(made) if made.status.success() => {}
        _ => return println!("skipped: no XFS can be made here"),
    }
    let Some(xfs) = Mounted::of_image(&image) else { return };
    let status = run("writer_on_a_full_disk", xfs.path(), "");
    assert!(status.success(), "{status}");
}

//! Tests of what a filesystem may lack: the rules of Windows and of servers.

use std::io::ErrorKind;

use super::*;

fn lacking(lack: Lack) -> SimFs {
    let fs = SimFs::new(1);
    fs.set_lack(lack);
    fs
}

fn is_refused(result: io::Result<()>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::PermissionDenied)
}

#[test]
fn open_files_keep_their_names_under_windows_rules() {
    let fs = lacking(Lack::NamesOfOpenFiles);
    write(&fs, "open", b"kept");
    write(&fs, "other", b"other");
    let reader = fs.open(&path("open")).unwrap();
    assert!(is_refused(fs.remove(&path("open"))));
    assert!(is_refused(fs.rename(&path("open"), &path("moved"))));
    assert!(is_refused(fs.rename(&path("other"), &path("open"))));
    assert_eq!(names(&fs), ["open", "other"]);
    assert_eq!(content(&fs, "open").unwrap(), b"kept");
    drop(reader);
    fs.rename(&path("other"), &path("open")).unwrap();
    assert_eq!(content(&fs, "open").unwrap(), b"other");
    fs.remove(&path("open")).unwrap();
    assert!(names(&fs).is_empty());
}

#[test]
fn a_locked_file_and_a_directory_of_an_open_file_keep_their_names_under_windows_rules() {
    let fs = lacking(Lack::NamesOfOpenFiles);
    let lock = fs.lock(&path("LOCK")).unwrap().unwrap();
    assert!(is_refused(fs.remove(&path("LOCK"))));
    drop(lock);
    fs.remove(&path("LOCK")).unwrap();
    fs.create_dir(&path("dir")).unwrap();
    let writer = create(&fs, "dir/file");
    assert!(is_refused(fs.rename(&path("dir"), &path("new"))));
    drop(writer);
    fs.rename(&path("dir"), &path("new")).unwrap();
    assert!(fs.exists(&path("new/file")).unwrap());
}

#[test]
fn a_journal_makes_names_durable_with_the_next_sync_of_a_file() {
    let fs = lacking(Lack::NamesOutOfOrder);
    write(&fs, "a", b"");
    assert_eq!(fs.sync_dir(&path("")).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(names(&strict(&fs)).is_empty());
    write(&fs, "b", b"");
    sync(&fs, "b");
    write(&fs, "c", b"");
    assert_eq!(names(&strict(&fs)), ["a", "b"]);
    rename(&fs, "a", "d");
    assert_eq!(names(&strict(&fs)), ["b", "c", "d"], "a rename is written through");
}

#[test]
fn a_journal_loses_no_name_before_one_that_it_keeps() {
    let fs = lacking(Lack::NamesOutOfOrder);
    let all = ["a", "b", "c", "d"];
    for name in all {
        write(&fs, name, b"");
    }
    let mut seen = [false; 5];
    for seed in 0..200 {
        let left = names(&fs.crash_image(&CrashPlan::random(seed)));
        assert_eq!(left, all[..left.len()], "seed {seed}");
        seen[left.len()] = true;
    }
    assert_eq!(seen, [true; 5]);
}

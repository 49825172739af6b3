//! Tests of every fault, and of the file contents that each fault leaves.

use std::io::{Error, ErrorKind};

use super::*;

const WRITE_ENDS: &[OpKind] = &[OpKind::Write];

fn code<T>(result: io::Result<T>) -> i32 {
    result.map(drop).unwrap_err().raw_os_error().unwrap()
}

fn os(errno: Errno) -> i32 {
    errno.raw_os_error()
}

use crate::fs::system::Errno;

#[test]
fn errors_have_the_system_s_numbers() {
    let faults = [
        (Fault::io_error(), Errno::IO),
        (Fault::no_space(), Errno::NOSPC),
        (Fault::too_many_open_files(), Errno::MFILE),
        (Fault::interrupted(), Errno::INTR),
        (Fault::os_error(Errno::ROFS.raw_os_error()), Errno::ROFS),
    ];
    for (fault, errno) in faults {
        let fs = SimFs::new(1);
        fs.inject(fault);
        assert_eq!(code(fs.create(&path("f"))), os(errno));
        assert!(names(&fs).is_empty(), "nothing was done");
        assert_eq!((fs.fault_count(), fs.waiting_faults()), (1, 0));
        create(&fs, "f");
    }
}

#[test]
fn every_kind_of_operation_can_fail() {
    for kind in OpKind::ALL {
        let fs = SimFs::new(1);
        write(&fs, "f", b"x");
        fs.create_dir(&path("d")).unwrap();
        let mut file = fs.append(&path("f")).unwrap();
        let reader = fs.open(&path("f")).unwrap();
        fs.inject(Fault::io_error().on(&[kind]).sticky());
        let f = &path("f");
        let failed = match kind {
            OpKind::Open => code(fs.open(f)),
            OpKind::Read => code(reader.read_at(&mut [0], 0)),
            OpKind::Len => code(reader.len()),
            OpKind::Exists => code(fs.exists(f)),
            OpKind::List => code(fs.list(Path::new("/"))),
            OpKind::Append => code(fs.append(f)),
            OpKind::Create => code(fs.create(f)),
            OpKind::Write => code(file.write(b"y")),
            OpKind::SetLen => code(file.set_len(0)),
            OpKind::Sync => code(file.sync()),
            OpKind::Rename => code(fs.rename(f, &path("g"))),
            OpKind::Remove => code(fs.remove(f)),
            OpKind::HardLink => code(fs.hard_link(f, &path("g"))),
            OpKind::CreateDir => code(fs.create_dir(&path("e"))),
            OpKind::RemoveDir => code(fs.remove_dir(&path("d"))),
            OpKind::SyncDir => code(fs.sync_dir(Path::new("/"))),
            OpKind::Lock => code(fs.lock(&path("LOCK"))),
        };
        assert_eq!(failed, os(Errno::IO), "{kind:?}");
        fs.clear_faults();
        assert_eq!(names(&fs), ["d", "f"], "{kind:?}");
        assert_eq!(content(&fs, "f").unwrap(), b"x", "{kind:?}");
        assert_eq!(fs.fault_count(), 1);
    }
}

#[test]
fn faults_strike_by_operation_number() {
    for number in 1..=4 {
        let fs = SimFs::new(1);
        fs.inject(Fault::io_error().at_op(number));
        let results = [
            fs.create(&path("a")).map(drop),
            fs.create(&path("b")).map(drop),
            fs.list(Path::new("/")).map(drop),
            fs.create(&path("c")).map(drop),
            fs.create(&path("d")).map(drop),
        ];
        let failed: Vec<usize> = (0..5).filter(|n| results[*n].is_err()).collect();
        let expected = [0, 1, 3, 4][number as usize - 1];
        assert_eq!(failed, [expected], "the list between has no number");
        assert_eq!(fs.op_count(), 4, "failed operations are numbered too");
    }
}

#[test]
fn faults_of_a_number_that_has_passed_never_strike() {
    let fs = SimFs::new(1);
    create(&fs, "a");
    fs.inject(Fault::io_error().at_op(1));
    assert!(fs.list(Path::new("/")).is_ok(), "a list is not operation 1");
    create(&fs, "b");
    assert_eq!((fs.fault_count(), fs.waiting_faults()), (0, 1));
}

#[test]
fn sticky_faults_strike_from_there_on() {
    let fs = SimFs::new(1);
    fs.inject(Fault::io_error().at_op(2).sticky());
    assert!(fs.create(&path("a")).is_ok());
    assert!(fs.list(Path::new("/")).is_ok());
    assert!(fs.create(&path("b")).is_err());
    assert!(fs.list(Path::new("/")).is_err(), "reading fails too on a dead disk");
    assert!(fs.create(&path("c")).is_err());
    assert_eq!((fs.fault_count(), fs.waiting_faults()), (3, 1));
    fs.clear_faults();
    assert_eq!(names(&fs), ["a"]);
}

#[test]
fn faults_strike_by_kind_path_and_turn() {
    let fs = SimFs::new(1);
    fs.inject(Fault::no_space().on(&[OpKind::Create]).path("*.ldb").nth(2));
    create(&fs, "1.log");
    create(&fs, "2.ldb");
    write(&fs, "3.log", b"x");
    assert_eq!(code(fs.create(&path("4.ldb"))), os(Errno::NOSPC));
    create(&fs, "5.ldb");
}

#[test]
fn renames_match_by_either_name() {
    for pattern in ["*/from", "*/to"] {
        let fs = SimFs::new(1);
        write(&fs, "from", b"x");
        fs.inject(Fault::io_error().on(&[OpKind::Rename]).path(pattern));
        assert!(fs.rename(&path("from"), &path("to")).is_err(), "{pattern}");
    }
}

#[test]
fn waiting_faults_count_operations_that_others_strike() {
    let fs = SimFs::new(1);
    fs.inject(Fault::io_error());
    fs.inject(Fault::no_space().nth(2));
    assert_eq!(code(fs.create(&path("a"))), os(Errno::IO));
    assert_eq!(code(fs.create(&path("b"))), os(Errno::NOSPC));
    create(&fs, "c");
}

#[test]
fn an_operation_may_be_done_and_still_fail() {
    let fs = SimFs::new(1);
    write(&fs, "from", b"x");
    fs.inject(Fault::os_error_after(os(Errno::IO)).on(&[OpKind::Rename]));
    assert_eq!(code(fs.rename(&path("from"), &path("to"))), os(Errno::IO));
    assert_eq!(names(&fs), ["to"]);
    fs.inject(Fault::os_error_after(os(Errno::IO)).on(&[OpKind::Sync]));
    assert!(fs.append(&path("to")).unwrap().sync().is_err());
    sync_dir(&fs, "");
    assert_eq!(content(&strict(&fs), "to").unwrap(), b"x");
}

#[test]
fn interrupted_reads_and_writes_are_carried_on() {
    let fs = SimFs::new(1);
    let mut file = create(&fs, "f");
    fs.inject(Fault::interrupted().on(WRITE_ENDS));
    file.write(b"hello").unwrap();
    fs.inject(Fault::interrupted().on(&[OpKind::Read]));
    assert_eq!(content(&fs, "f").unwrap(), b"hello");
    assert_eq!(fs.fault_count(), 2);
    assert_eq!(fs.counts().of(OpKind::Write), 2, "every try of a write counts");
    assert_eq!(fs.counts().of(OpKind::Read), 1, "a read counts once");
}

#[test]
fn short_writes_are_carried_on() {
    let fs = SimFs::new(1);
    fs.record_history();
    let mut file = create(&fs, "f");
    fs.inject(Fault::short_write(2));
    file.write(b"hello").unwrap();
    assert_eq!(content(&fs, "f").unwrap(), b"hello");
    // The short write was completed by a second write. A crash may happen between the two.
    let between = fs.crash_image(&CrashPlan::process_kill().at_op(2));
    assert_eq!(content(&between, "f").unwrap(), b"he");
}

#[test]
fn torn_writes_write_some_and_fail() {
    let fs = SimFs::new(1);
    let mut file = create(&fs, "f");
    file.write(b"one ").unwrap();
    fs.inject(Fault::torn_write(3));
    assert_eq!(code(file.write(b"two three")), os(Errno::NOSPC));
    assert_eq!(content(&fs, "f").unwrap(), b"one two");
    // The position has not moved, so a writer can overwrite the part that was written.
    file.write(b"TWO").unwrap();
    assert_eq!(content(&fs, "f").unwrap(), b"one TWO");
}

#[test]
fn a_short_write_and_a_failure_are_a_torn_write_too() {
    let fs = SimFs::new(1);
    let mut file = create(&fs, "f");
    fs.inject(Fault::short_write(2));
    fs.inject(Fault::io_error().on(WRITE_ENDS).nth(2));
    assert_eq!(code(file.write(b"hello")), os(Errno::IO));
    assert_eq!(content(&fs, "f").unwrap(), b"he");
}

#[test]
fn short_reads_are_carried_on() {
    let fs = SimFs::new(1);
    write(&fs, "f", b"hello, world");
    fs.inject(Fault::short_read(1).sticky());
    assert_eq!(content(&fs, "f").unwrap(), b"hello, world");
    assert_eq!(fs.fault_count(), 12);
    assert_eq!(fs.counts().of(OpKind::Read), 1);
}

#[test]
fn an_injected_short_read_returns_fewer_bytes() {
    let fs = SimFs::new(1);
    write(&fs, "f", b"hello, world");
    let file = fs.open(&path("f")).unwrap();
    fs.inject(Fault::short_read(5));
    fs.inject(Fault::short_read(0).nth(2));
    let mut buf = [0; 12];
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), 5);
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), 12);
}

#[test]
fn failed_reads_are_errors() {
    let fs = SimFs::new(1);
    write(&fs, "f", b"hello");
    let file = fs.open(&path("f")).unwrap();
    fs.inject(Fault::io_error().on(&[OpKind::Read]).path("*/f"));
    assert_eq!(code(file.read_at(&mut [0; 5], 0)), os(Errno::IO));
    assert_eq!(file.read_at(&mut [0; 5], 0).unwrap(), 5);
}

#[test]
fn a_failed_sync_may_be_tried_again_on_a_kind_disk() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", b"old ");
    append(&fs, "f", b"new");
    fs.inject(Fault::io_error().on(&[OpKind::Sync]));
    let mut file = fs.append(&path("f")).unwrap();
    file.sync().unwrap_err();
    assert_eq!(content(&strict(&fs), "f").unwrap(), b"old ");
    file.sync().unwrap();
    assert_eq!(content(&strict(&fs), "f").unwrap(), b"old new");
}

#[test]
fn a_lost_sync_drops_writes_that_were_not_on_the_disk() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", b"old ");
    append(&fs, "f", b"lost");
    fs.inject(Fault::lost_sync());
    let mut file = fs.append(&path("f")).unwrap();
    assert_eq!(code(file.sync()), os(Errno::IO));
    assert_eq!(content(&fs, "f").unwrap(), b"old lost", "it can still be read");
    assert_eq!(content(&everything(&fs), "f").unwrap(), b"old ");
    file.sync().unwrap();
    assert_eq!(content(&fs, "f").unwrap(), b"old lost");
    assert_eq!(content(&everything(&fs), "f").unwrap(), b"old \0\0\0\0", "the sync lied");
}

#[test]
fn after_a_lost_sync_pages_written_again_are_synced_whole() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", &[1; 4_096]);
    append(&fs, "f", &[2; 4_096]);
    append(&fs, "f", &[3; 10]);
    fs.inject(Fault::lost_sync());
    let mut file = fs.append(&path("f")).unwrap();
    file.sync().unwrap_err();
    file.write(&[4; 10]).unwrap();
    let torn = content(&everything(&fs), "f").unwrap();
    assert_eq!(torn[4_096..], [[0; 4_106].as_slice(), &[4; 10]].concat());
    file.sync().unwrap();
    let synced = content(&strict(&fs), "f").unwrap();
    assert_eq!(synced[..4_096], [1; 4_096]);
    assert_eq!(synced[4_096..8_192], [0; 4_096], "this page is lost");
    assert_eq!(synced[8_192..], [[3; 10], [4; 10]].concat(), "this one was written again");
}

#[test]
fn a_cut_after_a_lost_sync_is_durable_when_synced() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", &[1; 100]);
    append(&fs, "f", &[2; 100]);
    fs.inject(Fault::lost_sync());
    let mut file = fs.append(&path("f")).unwrap();
    file.sync().unwrap_err();
    file.set_len(50).unwrap();
    file.write(&[3; 10]).unwrap();
    file.set_len(90).unwrap();
    file.sync().unwrap();
    let expected = [[1; 50].as_slice(), &[3; 10], &[0; 30]].concat();
    assert_eq!(content(&strict(&fs), "f").unwrap(), expected);
}

#[test]
fn bytes_cut_off_after_a_lost_sync_stay_away() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", &[1; 12_288]);
    append(&fs, "f", &[2; 100]);
    fs.inject(Fault::lost_sync());
    let mut file = fs.append(&path("f")).unwrap();
    file.sync().unwrap_err();
    file.set_len(5_000).unwrap();
    file.set_len(12_000).unwrap();
    let expected = [[1; 5_000].as_slice(), &[0; 7_000]].concat();
    assert_eq!(content(&everything(&fs), "f").unwrap(), expected);
    file.sync().unwrap();
    assert_eq!(content(&strict(&fs), "f").unwrap(), expected);
}

#[test]
fn a_bit_flips_in_one_read() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", &[0; 100]);
    fs.inject(Fault::bit_flip());
    let flipped = content(&fs, "f").unwrap();
    assert_eq!(flipped.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    assert_eq!(content(&fs, "f").unwrap(), [0; 100]);
}

#[test]
fn a_rotten_bit_stays() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", &[0; 100]);
    append(&fs, "f", &[0; 100]);
    fs.inject(Fault::bit_rot());
    let file = fs.open(&path("f")).unwrap();
    let mut first = [0; 50];
    file.read_at(&mut first, 0).unwrap();
    assert_eq!(first.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    assert_eq!(content(&fs, "f").unwrap()[..50], first);
    assert_eq!(content(&strict(&fs), "f").unwrap()[..50], first);
    assert_eq!(content(&everything(&fs), "f").unwrap()[..50], first);
}

#[test]
fn different_seeds_flip_different_bits() {
    let flipped = |seed| {
        let fs = SimFs::new(seed);
        write(&fs, "f", &[0; 100]);
        fs.inject(Fault::bit_flip());
        content(&fs, "f").unwrap()
    };
    assert_eq!(flipped(1), flipped(1));
    assert_ne!(flipped(1), flipped(2));
}

#[test]
fn damage_is_on_the_disk() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", b"abc");
    fs.damage(&path("f"), 1, 0x02).unwrap();
    fs.damage(&path("f"), 3, 0xff).unwrap();
    assert_eq!(content(&fs, "f").unwrap(), b"a`c");
    assert_eq!(content(&strict(&fs), "f").unwrap(), b"a`c");
    assert_eq!(fs.damage(&path("g"), 0, 1).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_full_disk_takes_the_bytes_that_fit() {
    let fs = SimFs::new(1);
    write(&fs, "a", &[1; 4_096]);
    fs.set_capacity(Some(3 * 4_096 + 100));
    let mut file = create(&fs, "b");
    file.write(&[2; 100]).unwrap();
    assert_eq!(fs.used_bytes(), 8_192);
    let error = file.write(&[3; 10_000]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(fs.len(&path("b")).unwrap(), 8_192, "what fits is written");
    assert!(file.write(&[3; 8_092]).is_ok(), "over what is there it fits");
    assert!(file.write(&[4; 1]).is_err());
    // Names take no space.
    let mut other = create(&fs, "c");
    assert!(other.write(b"x").is_err());
    fs.remove(&path("a")).unwrap();
    other.write(b"x").unwrap();
    assert_eq!(fs.used_bytes(), 3 * 4_096);
    fs.set_capacity(None);
    file.write(&[4; 100_000]).unwrap();
}

#[test]
fn a_length_set_ahead_reserves_no_space() {
    let fs = SimFs::new(1);
    fs.set_capacity(Some(4_096));
    let mut file = create(&fs, "f");
    file.set_len(1 << 20).unwrap();
    file.write(&[1; 4_096]).unwrap();
    let error: Error = file.write(&[1; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
}

#[test]
fn files_do_not_grow_without_bound() {
    let fs = SimFs::new(1);
    let mut file = create(&fs, "f");
    assert_eq!(file.set_len(u64::MAX).unwrap_err().kind(), ErrorKind::FileTooLarge);
    file.set_len(1 << 36).unwrap();
    let mut end = fs.append(&path("f")).unwrap();
    assert_eq!(end.write(b"x").unwrap_err().kind(), ErrorKind::FileTooLarge);
}

#[test]
fn an_operation_that_fails_after_its_effect_leaves_no_file_open_or_locked() {
    let fs = SimFs::new(1);
    let (lock, file) = (Path::new("/LOCK"), Path::new("/f"));
    fs.inject(Fault::os_error_after(os(Errno::IO)).on(&[OpKind::Lock]));
    assert_eq!(fs.lock(lock).unwrap_err().raw_os_error(), Some(os(Errno::IO)));
    assert!(fs.exists(lock).unwrap(), "it was done");
    assert!(fs.lock(lock).unwrap().is_ok(), "nobody holds it");
    fs.create(file).unwrap().write(&[1; 1000]).unwrap();
    for kind in [OpKind::Open, OpKind::Append] {
        fs.inject(Fault::os_error_after(os(Errno::IO)).on(&[kind]));
    }
    assert!(fs.open(file).is_err() && fs.append(file).is_err());
    let used = fs.used_bytes();
    fs.remove(file).unwrap();
    assert!(fs.used_bytes() + 1000 <= used, "an open file keeps its space");
}

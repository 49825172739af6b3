//! Tests of the history, the journal, the operation counts and the hook.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use super::*;
use crate::base::random::Rng;
use crate::fs::LockHolder;

/// Runs a few hundred mutating operations of all kinds, enough for the history to save several
/// states.
fn workload(fs: &SimFs, mut after_each: impl FnMut()) {
    let mut rng = Rng::new(5);
    fs.create_dir(&path("d")).unwrap();
    after_each();
    for step in 0..60u8 {
        let name = format!("d/{}", rng.below(6));
        let mut file = create(fs, &name);
        after_each();
        for _ in 0..rng.below(4) {
            file.write(&vec![step; rng.below(3_000) as usize + 1]).unwrap();
            after_each();
        }
        if rng.below(8) < 4 {
            file.sync().unwrap();
            after_each();
        }
        match rng.below(5) {
            0 => rename(fs, &name, &format!("d/{}", rng.below(6))),
            1 => fs.remove(&path(&name)).unwrap(),
            2 => sync_dir(fs, "d"),
            3 => sync_dir(fs, ""),
            _ => file.set_len(rng.below(5_000)).unwrap(),
        }
        after_each();
    }
}

fn plans(seed: u64) -> [CrashPlan; 5] {
    [
        CrashPlan::strict(),
        CrashPlan::process_kill(),
        CrashPlan::random(seed).holes(Holes::Garbage),
        CrashPlan::random(seed).sync_persists_names(true).sector_bytes(4_096),
        CrashPlan::random_prefix(seed),
    ]
}

#[test]
fn images_of_the_past_are_those_of_the_moment() {
    let fs = SimFs::new(1);
    fs.record_history();
    let mut at_the_moment = vec![];
    let mut take = || {
        let number = fs.op_count();
        let prints = plans(number).map(|plan| fs.crash_image(&plan).fingerprint());
        at_the_moment.push((number, prints));
    };
    take();
    workload(&fs, &mut take);
    assert!(fs.op_count() > 200);
    assert_eq!(fs.op_count() as usize + 1, at_the_moment.len());
    for (number, expected) in at_the_moment.into_iter().rev() {
        let plans = plans(number).map(|plan| plan.at_op(number));
        let prints = plans.map(|plan| fs.crash_image(&plan).fingerprint());
        assert_eq!(prints, expected, "op {number}");
    }
}

#[test]
fn images_have_a_past_of_their_own() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", b"one");
    let image = strict(&fs);
    assert_eq!((image.op_count(), image.journal().len()), (0, 0));
    image.record_history();
    append(&image, "f", b" two");
    sync(&image, "f");
    assert_eq!(image.op_count(), 2);
    let at = |number| content(&image.crash_image(&CrashPlan::strict().at_op(number)), "f").unwrap();
    assert_eq!([at(0), at(1), at(2)], [&b"one"[..], b"one", b"one two"]);
}

#[test]
#[should_panic(expected = "strict at op 1: there was no such operation yet")]
fn the_future_has_no_image() {
    let fs = SimFs::new(1);
    fs.record_history();
    fs.crash_image(&CrashPlan::strict().at_op(1));
}

#[test]
#[should_panic(expected = "record_history comes before")]
fn operations_before_the_recorded_history_have_no_image() {
    let fs = SimFs::new(1);
    write(&fs, "f", b"x");
    fs.record_history();
    fs.crash_image(&CrashPlan::strict().at_op(1));
}

#[test]
fn damage_and_lost_syncs_are_part_of_the_past() {
    let fs = SimFs::new(1);
    fs.record_history();
    write_synced(&fs, "f", b"aaaa");
    fs.damage(&path("f"), 1, 0x03).unwrap();
    fs.inject(Fault::lost_sync());
    append(&fs, "f", b"zz");
    fs.append(&path("f")).unwrap().sync().unwrap_err();
    let number = fs.op_count();
    sync(&fs, "f");
    let at = |number, plan: CrashPlan| content(&fs.crash_image(&plan.at_op(number)), "f").unwrap();
    assert_eq!(at(number, CrashPlan::everything()), b"abaa");
    assert_eq!(at(number + 1, CrashPlan::strict()), b"abaa\0\0");
    assert_eq!(at(number + 1, CrashPlan::process_kill()), b"abaazz");
}

#[test]
fn the_journal_lists_the_operations() {
    let fs = SimFs::new(1);
    drop(create(&fs, "unrecorded"));
    fs.record_history();
    write(&fs, "f", b"abc");
    fs.inject(Fault::io_error().on(&[OpKind::Sync]));
    fs.append(&path("f")).unwrap().sync().unwrap_err();
    rename(&fs, "f", "g");
    fs.remove(&path("none")).unwrap_err();
    fs.create_dir(&path("a/b")).unwrap();
    let lines: Vec<String> = fs.journal().iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "2 Create /f",
            "3 Write /f 3 bytes",
            "4 Sync /f: Input/output error (os error 5)",
            "5 Rename /f to /g",
            "6 Remove /none: No such file or directory (os error 2)",
            "7 CreateDir /a/b",
            "8 CreateDir /a/b",
        ]
    );
}

#[test]
fn only_mutating_operations_are_numbered() {
    let fs = SimFs::new(1);
    write(&fs, "f", b"x");
    let before = fs.op_count();
    content(&fs, "f").unwrap();
    fs.list(Path::new("/")).unwrap();
    fs.len(&path("f")).unwrap();
    drop(fs.append(&path("f")).unwrap());
    assert_eq!(fs.op_count(), before);
    drop(fs.lock(&path("LOCK")).unwrap().unwrap());
    assert_eq!(fs.op_count(), before + 1);
}

#[test]
fn operations_are_counted_by_kind() {
    let fs = SimFs::new(1);
    write(&fs, "f", &[1; 10_000]);
    let file = fs.open(&path("f")).unwrap();
    let before = fs.counts();
    let mut buf = [0; 4_096];
    for offset in [0, 4_096, 8_192, 12_288] {
        file.read_at(&mut buf, offset).unwrap();
    }
    let after = fs.counts();
    assert_eq!(after.of(OpKind::Read) - before.of(OpKind::Read), 4);
    assert_eq!(after.bytes_read - before.bytes_read, 10_000);
    assert_eq!(after.bytes_written, 10_000);
    let counted = OpKind::ALL.map(|kind| after.of(kind));
    assert_eq!(counted.iter().sum::<u64>(), 4 + 3, "create, write and open besides the reads");
    for (index, kind) in OpKind::ALL.into_iter().enumerate() {
        assert_eq!(kind as usize, index);
    }
}

#[test]
fn the_hook_sees_operations_before_they_are_done() {
    let fs = SimFs::new(1);
    let (seen, received) = mpsc::channel();
    let hooked = fs.clone();
    fs.set_hook(move |op| {
        let there = hooked.shared.inner.lock().state.names.exists(op.path).unwrap();
        seen.send((op.kind, op.path.to_path_buf(), op.bytes, there)).unwrap();
    });
    write(&fs, "f", b"abc");
    fs.clear_hook();
    sync_dir(&fs, "");
    let seen: Vec<_> = received.try_iter().collect();
    assert_eq!(seen, [(OpKind::Create, path("f"), 0, false), (OpKind::Write, path("f"), 3, true)]);
}

#[test]
fn a_read_over_the_end_is_tried_once() {
    let fs = SimFs::new(1);
    write(&fs, "f", b"abc");
    let file = fs.open(&path("f")).unwrap();
    let (seen, received) = mpsc::channel();
    fs.set_hook(move |op| seen.send((op.kind, op.bytes)).unwrap());
    assert_eq!(file.read_at(&mut [0; 10], 1).unwrap(), 2);
    assert_eq!(file.read_at(&mut [0; 10], 3).unwrap(), 0);
    assert_eq!(received.try_iter().collect::<Vec<_>>(), [(OpKind::Read, 10); 2]);
}

#[test]
fn the_hook_stalls_one_operation_and_no_other() {
    let fs = SimFs::new(1);
    let (reached, at_sync) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    fs.set_hook(move |op| {
        if op.kind == OpKind::Sync {
            reached.send(()).unwrap();
            released.lock().recv().unwrap();
        }
    });
    let is_synced = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = create(&fs, "slow");
            file.sync().unwrap();
            is_synced.store(true, Ordering::SeqCst);
        });
        at_sync.recv().unwrap();
        write(&fs, "fast", b"x");
        assert_eq!(names(&everything(&fs)), ["fast", "slow"]);
        assert!(!is_synced.load(Ordering::SeqCst));
        release.send(()).unwrap();
    });
    assert!(is_synced.load(Ordering::SeqCst));
}

#[test]
fn locks_are_held_by_handles_not_by_files() {
    let fs = SimFs::new(1);
    let guard = fs.lock(&path("LOCK")).unwrap().unwrap();
    assert_eq!(fs.lock(&path("LOCK")).unwrap().unwrap_err(), LockHolder::ThisProcess);
    assert!(strict(&fs).lock(&path("LOCK")).unwrap().is_ok(), "a crash holds nothing");
    drop(guard);
    assert!(fs.lock(&path("LOCK")).unwrap().is_ok());
}

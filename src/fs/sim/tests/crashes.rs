//! Tests of crashes after which some unsynced changes survive.

use std::collections::BTreeSet;

use super::*;

/// Returns a filesystem with a file of four 512-byte sectors. Only the first sector is synced. Each
/// sector is filled with its number, counted from 1.
fn four_sectors() -> SimFs {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", &[1; 512]);
    append(&fs, "f", &[[2; 512], [3; 512], [4; 512]].concat());
    fs
}

fn images(fs: &SimFs, plan: fn(u64) -> CrashPlan) -> impl Iterator<Item = SimFs> {
    (0..400).map(move |seed| fs.crash_image(&plan(seed)))
}

fn first_bytes_of_sectors(image: &SimFs, sector: usize) -> Vec<u8> {
    content(image, "f").unwrap().chunks(sector).map(|sector| sector[0]).collect()
}

#[test]
fn any_subset_of_sectors_survives_and_any_length() {
    let fs = four_sectors();
    let seen: BTreeSet<Vec<u8>> =
        images(&fs, CrashPlan::random).map(|image| first_bytes_of_sectors(&image, 512)).collect();
    // After a crash, the file has its old length or its new length. Lost sectors within that length
    // read as zeros.
    let mut expected = BTreeSet::from([vec![1]]);
    for lost in 0..8 {
        let survivor = |bit: u32, byte: u8| if lost >> bit & 1 == 1 { 0 } else { byte };
        expected.insert(vec![1, survivor(0, 2), survivor(1, 3), survivor(2, 4)]);
    }
    assert_eq!(seen, expected);
}

#[test]
fn sectors_are_whole() {
    for image in images(&four_sectors(), CrashPlan::random) {
        let bytes = content(&image, "f").unwrap();
        assert!(bytes.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        assert!(matches!(bytes.len(), 512 | 2_048));
    }
}

#[test]
fn sectors_may_be_larger() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", &[1; 4_096]);
    fs.create_dir(&path("d")).unwrap();
    append(&fs, "f", &[2; 8_192]);
    let plan = |seed| CrashPlan::random(seed).sector_bytes(4_096);
    let seen: BTreeSet<Vec<u8>> = images(&fs, plan)
        .map(|image| first_bytes_of_sectors(&image, 512))
        .map(|bytes| {
            assert!(bytes.chunks(8).all(|page| page.iter().all(|byte| *byte == page[0])));
            bytes.chunks(8).map(|page| page[0]).collect()
        })
        .collect();
    let all = [vec![1], vec![1, 0, 0], vec![1, 2, 0], vec![1, 0, 2], vec![1, 2, 2]];
    assert_eq!(seen, BTreeSet::from(all));
}

#[test]
fn an_overwritten_sector_is_old_or_new() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", &[1; 1_024]);
    write(&fs, "f", &[2; 1_024]);
    let seen: BTreeSet<Vec<u8>> =
        images(&fs, CrashPlan::random).map(|image| first_bytes_of_sectors(&image, 512)).collect();
    for expected in [&[1, 1][..], &[2, 2], &[], &[0, 0], &[2, 0], &[0, 2], &[1, 2], &[2, 1]] {
        assert!(seen.contains(expected), "{expected:?} of {seen:?}");
    }
}

#[test]
fn a_sector_survives_as_after_any_of_its_writes() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", b"");
    for word in ["one ", "two ", "three"] {
        append(&fs, "f", word.as_bytes());
    }
    let seen: BTreeSet<String> = images(&fs, CrashPlan::random)
        .map(|image| String::from_utf8(content(&image, "f").unwrap()).unwrap())
        .collect();
    for expected in ["", "one ", "one two ", "one two three", "one \0\0\0\0\0\0\0\0\0"] {
        assert!(seen.contains(expected), "{expected:?} of {seen:?}");
    }
    for text in &seen {
        let words = text.trim_end_matches('\0');
        assert!("one two three".starts_with(words), "{text:?}");
    }
}

#[test]
fn an_unsynced_cut_survives_or_not_and_the_bytes_cut_off_stay_away() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", &[1; 2_048]);
    fs.append(&path("f")).unwrap().set_len(512).unwrap();
    append(&fs, "f", &[2; 512]);
    let seen: BTreeSet<Vec<u8>> =
        images(&fs, CrashPlan::random).map(|image| first_bytes_of_sectors(&image, 512)).collect();
    let expected = [vec![1, 1, 1, 1], vec![1, 2, 1, 1], vec![1], vec![1, 2], vec![1, 0]];
    assert_eq!(seen, BTreeSet::from(expected));
}

#[test]
fn holes_are_zero_or_garbage() {
    let fs = four_sectors();
    let holes = |holes| {
        let images = (0..100)
            .map(|seed| fs.crash_image(&CrashPlan::random(seed).holes(holes)))
            .filter(|image| fs.len(&path("f")).unwrap() == image.len(&path("f")).unwrap());
        let sectors: Vec<Vec<u8>> = images
            .flat_map(|image| {
                let bytes = content(&image, "f").unwrap();
                bytes.chunks(512).map(<[u8]>::to_vec).collect::<Vec<_>>()
            })
            .filter(|sector| (1..5).all(|byte| *sector != [byte; 512]))
            .collect();
        assert!(sectors.len() > 20);
        sectors
    };
    assert!(holes(Holes::Zero).iter().all(|sector| *sector == [0; 512]));
    let garbage = holes(Holes::Garbage);
    assert!(garbage.iter().all(|sector| sector.iter().collect::<BTreeSet<_>>().len() > 100));
}

#[test]
fn garbage_stays_behind_the_synced_end() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", &[7; 700]);
    append(&fs, "f", &[8; 3_000]);
    for seed in 0..100 {
        let image = fs.crash_image(&CrashPlan::random(seed).holes(Holes::Garbage));
        let bytes = content(&image, "f").unwrap();
        assert_eq!(bytes[..700], [7; 700]);
        assert!(bytes[700..1_024.min(bytes.len())].iter().all(|byte| matches!(byte, 0 | 8)));
    }
}

#[test]
fn a_file_that_was_cut_and_grew_again_may_hold_garbage() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", &[7; 2_048]);
    let mut file = fs.append(&path("f")).unwrap();
    file.set_len(512).unwrap();
    file.write(&[8; 1_024]).unwrap();
    let images = images(&fs, |seed| CrashPlan::random(seed).holes(Holes::Garbage));
    let grown = images.map(|image| content(&image, "f").unwrap()).filter(|f| f.len() == 1_536);
    let lost: Vec<Vec<u8>> = grown.filter(|f| f[512..1_024] != [8; 512]).collect();
    assert!(lost.len() > 10);
    for bytes in lost {
        assert!(bytes[512..1_024].iter().collect::<BTreeSet<_>>().len() > 100);
    }
}

#[test]
fn every_change_of_a_name_survives_by_itself() {
    let fs = SimFs::new(1);
    write_synced(&fs, "removed", b"");
    write_synced(&fs, "from", b"");
    fs.remove(&path("removed")).unwrap();
    rename(&fs, "from", "to");
    write(&fs, "created", b"");
    let seen: BTreeSet<Vec<String>> =
        images(&fs, CrashPlan::random).map(|image| names(&image)).collect();
    let mut expected = BTreeSet::new();
    for kept in 0..8 {
        let pick = |bit: u32, yes, no| if kept >> bit & 1 == 1 { yes } else { no };
        let chosen = [
            pick(0, Some("created"), None),
            pick(1, Some("to"), Some("from")),
            pick(2, None, Some("removed")),
        ];
        let mut names: Vec<_> = chosen.into_iter().flatten().map(str::to_string).collect();
        names.sort();
        expected.insert(names);
    }
    assert_eq!(seen, expected);
}

#[test]
fn a_rename_over_a_file_is_atomic() {
    let fs = SimFs::new(1);
    write_synced(&fs, "current", b"old");
    for round in 0..3 {
        let mut file = create(&fs, "new");
        file.write(format!("new {round}").as_bytes()).unwrap();
        file.sync().unwrap();
        rename(&fs, "new", "current");
    }
    let seen: BTreeSet<Vec<u8>> =
        images(&fs, CrashPlan::random).map(|image| content(&image, "current").unwrap()).collect();
    let all = [&b"old"[..], b"new 0", b"new 1", b"new 2"].map(<[u8]>::to_vec);
    assert_eq!(seen, BTreeSet::from(all));
}

#[test]
fn synced_writes_survive_every_crash() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", &[5; 3_000]);
    append(&fs, "f", &[6; 3_000]);
    write(&fs, "g", b"x");
    let plans = [CrashPlan::random, CrashPlan::random_prefix, CrashPlan::prefix];
    for image in plans.into_iter().flat_map(|plan| images(&fs, plan)) {
        assert_eq!(content(&image, "f").unwrap()[..3_000], [5; 3_000]);
    }
}

type Files = Vec<(&'static str, &'static [u8])>;

/// Makes five unsynced changes of files and names. Returns the filesystem, and its files before the
/// first change and after each change.
fn five_changes() -> (SimFs, Vec<Files>) {
    let fs = SimFs::new(1);
    write_synced(&fs, "a", b"1");
    append(&fs, "a", b"2");
    drop(create(&fs, "b"));
    append(&fs, "b", b"3");
    rename(&fs, "a", "c");
    append(&fs, "c", b"4");
    let after: Vec<Files> = vec![
        vec![("a", b"1")],
        vec![("a", b"12")],
        vec![("a", b"12"), ("b", b"")],
        vec![("a", b"12"), ("b", b"3")],
        vec![("b", b"3"), ("c", b"12")],
        vec![("b", b"3"), ("c", b"124")],
    ];
    (fs, after)
}

fn files(image: &SimFs) -> Vec<(String, Vec<u8>)> {
    names(image).into_iter().map(|name| (name.clone(), content(image, &name).unwrap())).collect()
}

fn owned(files: &[(&str, &[u8])]) -> Vec<(String, Vec<u8>)> {
    files.iter().map(|(name, bytes)| (name.to_string(), bytes.to_vec())).collect()
}

#[test]
fn a_prefix_of_the_changes_survives() {
    let (fs, after) = five_changes();
    assert_eq!(fs.pending_ops(), 5);
    for (count, expected) in after.iter().enumerate() {
        let image = fs.crash_image(&CrashPlan::prefix(count as u64));
        assert_eq!(files(&image), owned(expected), "prefix of {count}");
    }
}

#[test]
fn a_prefix_has_the_length_of_its_last_change() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", &[1; 600]);
    let mut file = fs.append(&path("f")).unwrap();
    file.set_len(5_000).unwrap();
    file.write(&[2; 100]).unwrap();
    file.set_len(50).unwrap();
    file.write(&[3; 10]).unwrap();
    let lens =
        (0..5).map(|count| fs.crash_image(&CrashPlan::prefix(count)).len(&path("f")).unwrap());
    assert_eq!(lens.collect::<Vec<_>>(), [600, 5_000, 5_000, 50, 60]);
    let image = fs.crash_image(&CrashPlan::prefix(2));
    assert_eq!(content(&image, "f").unwrap()[600..], [[2; 100].as_slice(), &[0; 4_300]].concat());
}

#[test]
fn some_prefix_of_the_changes_survives() {
    let (fs, after) = five_changes();
    let seen: BTreeSet<_> =
        images(&fs, CrashPlan::random_prefix).map(|image| files(&image)).collect();
    assert_eq!(seen, after.iter().map(|files| owned(files)).collect());
}

#[test]
fn the_write_at_the_end_of_a_prefix_may_be_torn() {
    let fs = four_sectors();
    append(&fs, "f", &[5; 100]);
    let seen: BTreeSet<Vec<u8>> = images(&fs, CrashPlan::random_prefix)
        .map(|image| first_bytes_of_sectors(&image, 512))
        .collect();
    let whole = [1, 2, 3, 4, 5];
    assert_eq!(seen, (1..=5).map(|count| whole[..count].to_vec()).collect());
}

#[test]
fn a_file_s_sync_may_persist_its_name() {
    let fs = SimFs::new(1);
    let strict_but_names = CrashPlan::strict().sync_persists_names(true);
    let mut file = create(&fs, "f");
    file.write(b"x").unwrap();
    assert!(names(&fs.crash_image(&strict_but_names)).is_empty());
    file.sync().unwrap();
    assert!(names(&strict(&fs)).is_empty());
    assert_eq!(content(&fs.crash_image(&strict_but_names), "f").unwrap(), b"x");
    rename(&fs, "f", "g");
    assert_eq!(names(&fs.crash_image(&strict_but_names)), ["f"], "no sync after the rename");
    file.sync().unwrap();
    assert_eq!(names(&fs.crash_image(&strict_but_names)), ["g"]);
    fs.remove(&path("g")).unwrap();
    file.sync().unwrap();
    assert_eq!(names(&fs.crash_image(&strict_but_names)), ["g"], "a removal is no new name");
}

#[test]
fn a_killed_process_loses_nothing_until_the_power_goes_too() {
    let fs = SimFs::new(1);
    write(&fs, "f", b"written");
    let killed = fs.crash_image(&CrashPlan::process_kill());
    assert_eq!(content(&killed, "f").unwrap(), b"written");
    assert_eq!(killed.pending_ops(), 2);
    assert!(names(&strict(&killed)).is_empty());
    sync(&killed, "f");
    sync_dir(&killed, "");
    assert_eq!(content(&strict(&killed), "f").unwrap(), b"written");
    assert!(names(&strict(&fs)).is_empty(), "the first filesystem is another one");

    let all = everything(&fs);
    assert_eq!(content(&all, "f").unwrap(), b"written");
    assert_eq!(all.pending_ops(), 0, "what a loss of power left is on the disk");
}

#[test]
fn a_killed_process_leaves_no_open_files() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", &[1; 4_096]);
    let _open = fs.open(&path("f")).unwrap();
    let _lock = fs.lock(&path("LOCK")).unwrap().unwrap();
    fs.remove(&path("f")).unwrap();
    sync_dir(&fs, "");
    let killed = fs.crash_image(&CrashPlan::process_kill());
    assert_eq!((fs.used_bytes(), killed.used_bytes()), (4_096, 0));
    assert!(killed.lock(&path("LOCK")).unwrap().is_ok());
}

#[test]
fn images_go_their_own_way() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", b"common");
    let image = strict(&fs);
    append(&fs, "f", b" here");
    append(&image, "f", b" there");
    write(&image, "new", b"");
    assert_eq!(content(&fs, "f").unwrap(), b"common here");
    assert_eq!(content(&image, "f").unwrap(), b"common there");
    assert_eq!(names(&fs), ["f"]);
    assert_eq!(content(&strict(&image), "f").unwrap(), b"common");
}

#[test]
fn images_are_determined_by_operations_and_plan() {
    let make = |seed| {
        let fs = SimFs::new(seed);
        write_synced(&fs, "f", &[1; 10_000]);
        append(&fs, "f", &[2; 10_000]);
        write(&fs, "g", &[3; 100]);
        fs
    };
    let plans = |seed| [CrashPlan::random(seed).holes(Holes::Garbage), CrashPlan::strict()];
    let (one, two) = (make(1), make(2));
    let mut seen = BTreeSet::new();
    for plan in (0..50).flat_map(plans) {
        let image = one.crash_image(&plan);
        assert_eq!(image.fingerprint(), two.crash_image(&plan).fingerprint(), "{plan}");
        seen.insert(image.fingerprint());
    }
    assert!(seen.len() > 20);
}

#[test]
fn fingerprints_tell_names_and_bytes_apart() {
    let fingerprint = |files: &[(&str, &[u8])]| {
        let fs = SimFs::new(1);
        for (name, bytes) in files {
            write(&fs, name, bytes);
        }
        fs.fingerprint()
    };
    let states: [&[(&str, &[u8])]; 6] = [
        &[],
        &[("f", b"")],
        &[("f", b"x")],
        &[("g", b"x")],
        &[("f", b"x\0")],
        &[("f", b"x"), ("g", b"")],
    ];
    let prints: BTreeSet<u64> = states.into_iter().map(fingerprint).collect();
    assert_eq!(prints.len(), states.len());
    assert_eq!(fingerprint(states[5]), fingerprint(states[5]));
}

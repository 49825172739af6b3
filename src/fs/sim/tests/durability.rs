//! Tests that check when changes become durable. They use the strict crash plan, under which no
//! unsynced change survives.

use std::collections::BTreeMap;

use super::*;
use crate::base::random::Rng;

#[test]
fn a_new_file_needs_its_own_sync_and_its_directory_s() {
    let fs = SimFs::new(1);
    let mut file = create(&fs, "f");
    file.write(b"hello").unwrap();
    drop(file);
    assert_eq!(content(&strict(&fs), "f"), None, "closing syncs nothing");
    sync(&fs, "f");
    assert_eq!(content(&strict(&fs), "f"), None, "the name is not durable");
    sync_dir(&fs, "");
    assert_eq!(content(&strict(&fs), "f").unwrap(), b"hello");
    assert_eq!(fs.pending_ops(), 0);
}

#[test]
fn a_synced_name_alone_is_an_empty_file() {
    let fs = SimFs::new(1);
    write(&fs, "f", b"hello");
    sync_dir(&fs, "");
    assert_eq!(content(&strict(&fs), "f").unwrap(), b"");
}

#[test]
fn bytes_and_length_after_the_last_sync_are_lost() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", &[1; 5_000]);
    append(&fs, "f", &[2; 5_000]);
    assert_eq!(content(&strict(&fs), "f").unwrap(), [1; 5_000]);
    sync(&fs, "f");
    assert_eq!(content(&strict(&fs), "f").unwrap().len(), 10_000);
    fs.append(&path("f")).unwrap().set_len(10).unwrap();
    assert_eq!(content(&strict(&fs), "f").unwrap().len(), 10_000);
    sync(&fs, "f");
    assert_eq!(content(&strict(&fs), "f").unwrap(), [1; 10]);
}

#[test]
fn emptying_a_file_by_creating_it_again_is_unsynced_too() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", b"old");
    write(&fs, "f", b"new");
    assert_eq!(content(&strict(&fs), "f").unwrap(), b"old");
    assert_eq!(content(&fs, "f").unwrap(), b"new");
}

#[test]
fn a_rename_needs_the_directory_s_sync() {
    let fs = SimFs::new(1);
    write_synced(&fs, "current", b"old");
    write_synced(&fs, "new", b"new");
    rename(&fs, "new", "current");
    let image = strict(&fs);
    assert_eq!(content(&image, "current").unwrap(), b"old");
    assert_eq!(content(&image, "new").unwrap(), b"new");
    sync_dir(&fs, "");
    let image = strict(&fs);
    assert_eq!(names(&image), ["current"]);
    assert_eq!(content(&image, "current").unwrap(), b"new");
}

#[test]
fn a_removal_needs_the_directory_s_sync() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", b"still here");
    fs.remove(&path("f")).unwrap();
    assert_eq!(content(&fs, "f"), None);
    assert_eq!(content(&strict(&fs), "f").unwrap(), b"still here");
    write(&fs, "f", b"another");
    assert_eq!(content(&strict(&fs), "f").unwrap(), b"still here");
    sync_dir(&fs, "");
    assert_eq!(content(&strict(&fs), "f").unwrap(), b"");
}

#[test]
fn a_hard_link_needs_the_directory_s_sync() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", b"x");
    fs.hard_link(&path("f"), &path("g")).unwrap();
    assert_eq!(names(&strict(&fs)), ["f"]);
    sync_dir(&fs, "");
    append(&fs, "f", b"y");
    sync(&fs, "g");
    assert_eq!(content(&strict(&fs), "g").unwrap(), b"xy");
}

#[test]
fn a_directory_is_a_name_in_its_parent() {
    let fs = SimFs::new(1);
    fs.create_dir(&path("a/b")).unwrap();
    write(&fs, "a/b/f", b"x");
    sync(&fs, "a/b/f");
    sync_dir(&fs, "a/b");
    assert!(names(&strict(&fs)).is_empty(), "synced, but no path leads there");
    sync_dir(&fs, "a");
    assert!(names(&strict(&fs)).is_empty());
    sync_dir(&fs, "");
    assert_eq!(content(&strict(&fs), "a/b/f").unwrap(), b"x");
}

#[test]
fn a_directory_keeps_its_unsynced_names_when_it_is_renamed() {
    let fs = SimFs::new(1);
    fs.create_dir(&path("old")).unwrap();
    sync_dir(&fs, "");
    write(&fs, "old/f", b"x");
    sync(&fs, "old/f");
    rename(&fs, "old", "new");
    sync_dir(&fs, "new");
    assert_eq!(content(&strict(&fs), "old/f").unwrap(), b"x");
    sync_dir(&fs, "");
    assert_eq!(content(&strict(&fs), "new/f").unwrap(), b"x");
    assert_eq!(names(&strict(&fs)), ["new"]);
}

#[test]
fn a_rename_between_directories_needs_both_synced() {
    for order in [["a", "b"], ["b", "a"]] {
        let fs = SimFs::new(1);
        fs.create_dir(&path("a")).unwrap();
        fs.create_dir(&path("b")).unwrap();
        write(&fs, "a/f", b"x");
        fs.sync_all();
        rename(&fs, "a/f", "b/f");
        sync_dir(&fs, order[0]);
        let image = strict(&fs);
        assert!(content(&image, "a/f").is_some() && content(&image, "b/f").is_none());
        sync_dir(&fs, order[1]);
        let image = strict(&fs);
        assert!(content(&image, "a/f").is_none() && content(&image, "b/f").is_some());
    }
}

#[test]
fn the_newest_durable_change_of_a_name_counts() {
    let fs = SimFs::new(1);
    fs.create_dir(&path("a")).unwrap();
    fs.create_dir(&path("b")).unwrap();
    write(&fs, "a/f", b"from a");
    fs.sync_all();
    rename(&fs, "a/f", "b/f");
    fs.remove(&path("b/f")).unwrap();
    write(&fs, "b/f", b"newer");
    sync(&fs, "b/f");
    sync_dir(&fs, "b");
    assert_eq!(content(&strict(&fs), "b/f").unwrap(), b"newer");
    sync_dir(&fs, "a");
    assert_eq!(content(&strict(&fs), "b/f").unwrap(), b"newer", "not the older rename");
}

#[test]
fn directories_are_removed_durably() {
    let fs = SimFs::new(1);
    fs.create_dir(&path("d")).unwrap();
    write(&fs, "d/f", b"x");
    fs.sync_all();
    fs.remove(&path("d/f")).unwrap();
    fs.remove_dir(&path("d")).unwrap();
    assert_eq!(content(&strict(&fs), "d/f").unwrap(), b"x");
    sync_dir(&fs, "");
    // The directory `d` itself was never synced, so the removal of `d/f` was lost. A directory that
    // is not empty is not removed.
    assert_eq!(content(&strict(&fs), "d/f").unwrap(), b"x");
}

#[test]
fn open_files_live_without_a_name_and_then_give_their_space_back() {
    let fs = SimFs::new(1);
    write_synced(&fs, "f", &[1; 5_000]);
    let reader = fs.open(&path("f")).unwrap();
    fs.remove(&path("f")).unwrap();
    sync_dir(&fs, "");
    assert_eq!(fs.used_bytes(), 8_192);
    let mut buf = [0; 5_000];
    assert_eq!(reader.read_at(&mut buf, 0).unwrap(), 5_000);
    drop(reader);
    assert_eq!(fs.used_bytes(), 0);
    assert!(names(&everything(&fs)).is_empty());
}

#[test]
fn sync_all_makes_everything_durable() {
    let fs = SimFs::new(1);
    fs.create_dir(&path("d")).unwrap();
    write(&fs, "d/f", b"x");
    fs.sync_all();
    assert_eq!(fs.pending_ops(), 0);
    assert_eq!(content(&strict(&fs), "d/f").unwrap(), b"x");
}

/// A second implementation of the simulation's rules. It keeps full copies of the contents instead
/// of shared pages and lists of changes.
#[derive(Default)]
struct Naive {
    live_names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// For each file, the contents that reads return and the durable contents.
    files: Vec<[Vec<u8>; 2]>,
}

impl Naive {
    fn expect(&self, image: &SimFs, is_durable: bool) {
        let names_of = if is_durable { &self.durable_names } else { &self.live_names };
        assert_eq!(names(image), names_of.keys().cloned().collect::<Vec<_>>());
        for (name, &file) in names_of {
            let expected = &self.files[file][usize::from(is_durable)];
            assert!(content(image, name).unwrap() == *expected, "{name}");
        }
    }

    fn step(&mut self, fs: &SimFs, rng: &mut Rng) {
        let name = ["a", "b", "c", "d"][rng.below(4) as usize];
        let other = ["a", "b", "c", "d"][rng.below(4) as usize];
        let kind = rng.below(9);
        if kind == 0 {
            sync_dir(fs, "");
            self.durable_names = self.live_names.clone();
        } else if kind == 1 {
            let file = *self.live_names.entry(name.to_string()).or_insert_with(|| {
                self.files.push(Default::default());
                self.files.len() - 1
            });
            drop(create(fs, name));
            self.files[file][0].clear();
        } else if let Some(&file) = self.live_names.get(name) {
            self.change(fs, rng, kind, name, other, file);
        }
    }

    fn change(
        &mut self,
        fs: &SimFs,
        rng: &mut Rng,
        kind: u64,
        name: &str,
        other: &str,
        file: usize,
    ) {
        let bytes = &mut self.files[file];
        match kind {
            2 => {
                fs.remove(&path(name)).unwrap();
                self.live_names.remove(name);
            }
            3 => {
                rename(fs, name, other);
                // A rename changes nothing if both names refer to the same file.
                if self.live_names.get(other) != Some(&file) {
                    self.live_names.remove(name);
                    self.live_names.insert(other.to_string(), file);
                }
            }
            4 => {
                sync(fs, name);
                bytes[1] = bytes[0].clone();
            }
            5 => {
                let len = rng.below(12_000);
                fs.append(&path(name)).unwrap().set_len(len).unwrap();
                bytes[0].resize(len as usize, 0);
            }
            6 if !self.live_names.contains_key(other) => {
                fs.hard_link(&path(name), &path(other)).unwrap();
                self.live_names.insert(other.to_string(), file);
            }
            _ => {
                let new = vec![rng.next_u64() as u8; rng.below(6_000) as usize];
                append(fs, name, &new);
                bytes[0].extend(new);
            }
        }
    }
}

#[test]
fn random_operations_match_the_naive_model() {
    for seed in 0..20 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let fs = SimFs::new(seed);
        let mut naive = Naive::default();
        for _ in 0..150 {
            naive.step(&fs, &mut rng);
            naive.expect(&fs, false);
            naive.expect(&everything(&fs), false);
            naive.expect(&fs.crash_image(&CrashPlan::process_kill()), false);
            naive.expect(&fs.crash_image(&CrashPlan::prefix(u64::MAX)), false);
            naive.expect(&strict(&fs), true);
            naive.expect(&fs.crash_image(&CrashPlan::prefix(0)), true);
            let killed = fs.crash_image(&CrashPlan::process_kill());
            assert_eq!(killed.pending_ops(), fs.pending_ops());
            assert_eq!(strict(&fs).pending_ops(), 0);
        }
    }
}

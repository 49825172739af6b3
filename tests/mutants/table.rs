//! The table of mistakes. Each row has a piece of the source, its replacement, and the tests that
//! fail with the replacement.

pub struct Mutant {
    pub name: &'static str,
    /// A file below `src/` or in `instrument/`, a space, and a function of the file, with `Type::`
    /// before it if the file has several of the name.
    pub place: &'static str,
    /// The text that the mistake replaces. It occurs once in the function. White space does not
    /// count.
    pub find: &'static str,
    /// The replacement. `ON` stands for an expression that is true if the mutant is switched on.
    pub replace: &'static str,
    pub caught_by: CaughtBy,
}

/// The tests that must fail when the mutant is switched on.
#[derive(Clone, Copy)]
pub enum CaughtBy {
    /// Some stage of the crash tests.
    CrashTests,
    /// The tests of a binary whose names contain `filter`.
    Test { build: Build, filter: &'static str },
}

/// A test binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(dead_code, reason = "which of them the table uses changes with the table")]
pub enum Build {
    /// The unit tests.
    Lib,
    /// A test program of the main package, which is a folder of `tests`.
    Test(&'static str),
    /// The unit tests of the instrument, by the name of its library, or a test program of it.
    Instrument(&'static str),
    /// `tests/shuttle`, which needs flags of its own.
    Shuttle,
    /// A test of the package `tests/interop`, which needs the C++ library.
    Interop(&'static str),
}

impl Mutant {
    pub fn file(&self) -> String {
        let file = self.place.split_once(' ').expect("a file and a function").0;
        let folder = if file.starts_with("instrument/") { "" } else { "src/" };
        folder.to_owned() + file
    }

    pub fn function(&self) -> &'static str {
        self.place.split_once(' ').expect("a file and a function").1
    }

    pub const fn caught_in(self, build: Build, filter: &'static str) -> Mutant {
        Mutant { caught_by: CaughtBy::Test { build, filter }, ..self }
    }
}

pub const fn mutant(
    name: &'static str,
    place: &'static str,
    find: &'static str,
    replace: &'static str,
) -> Mutant {
    Mutant { name, place, find, replace, caught_by: CaughtBy::CrashTests }
}

pub const MUTANTS: &[Mutant] = &[
    mutant(
        "the log is not synced",
        "engine/write/wal.rs sync_log",
        "commit.log.sync().map_err(",
        "if !ON { commit.log.sync() } else { Ok(()) }.map_err(",
    ),
    mutant(
        "a failed sync of a log counts as done",
        "log/writer.rs sync",
        "let result = self.file.sync();",
        "let result = self.file.sync().or_else(|error| if ON { Ok(()) } else { Err(error) });",
    ),
    mutant(
        "the outgoing log is not synced",
        "engine/write/wal.rs sync_log",
        "outgoing.log.sync().map_err(",
        "if !ON { outgoing.log.sync() } else { Ok(()) }.map_err(",
    ),
    mutant(
        "the log's name is not synced",
        "engine/write/wal.rs sync_log",
        "if !commit.name_synced {",
        "if !commit.name_synced && !ON {",
    ),
    mutant(
        "replayed logs count as durable",
        "engine/write/wal.rs sync_log",
        "if let Some(number) = commit.replayed_log {",
        "if let Some(number) = commit.replayed_log && !ON {",
    ),
    mutant(
        "logs begin without a marker",
        "engine/write/log_file.rs begin",
        "let added = log.add_record(marker.contents());",
        "let added = if !ON { log.add_record(marker.contents()) } else { Ok(()) };",
    ),
    mutant(
        "a log append that failed changes nothing",
        "engine/write/mod.rs commit_batch",
        "self.fail(error.clone()); return Err(error); } commit.last_seq",
        "if !ON { self.fail(error.clone()); } return Err(error); } commit.last_seq",
    ),
    mutant(
        "a write is visible before it is logged",
        "engine/write/mod.rs commit_batch",
        "let contents = batch.contents();",
        "let contents = batch.contents(); if ON { commit.mem.insert_batch(contents, first_seq, \
         &mut commit.arena)?; commit.visible.advance(commit.last_seq + count); }",
    ),
    mutant(
        "a sync leaves out the logs before the current one",
        "engine/write/mod.rs sync_earlier",
        "if !commit.unsynced && commit.outgoing.is_empty() && commit",
        "if !commit.unsynced && (ON || commit.outgoing.is_empty()) && commit",
    )
    .caught_in(Build::Lib, "a_log_with_unsynced_writes_goes_out"),
    mutant(
        "a gap between logs is not looked for",
        "engine/open/replay.rs gap_before",
        "Ok((next_seq, 0)) if next_seq > last_seq + 1",
        "Ok((next_seq, 0)) if !ON && next_seq > last_seq + 1",
    ),
    mutant(
        "logs after a damaged one are replayed",
        "engine/open/replay.rs run",
        "if replayed.recovery.lost.is_empty() { self.replay_log",
        "if replayed.recovery.lost.is_empty() || ON { self.replay_log",
    ),
    mutant(
        "a damaged log is left for the next recovery",
        "engine/open/mod.rs replay",
        "let has_lost = !replayed.recovery.lost.is_empty();",
        "let has_lost = !replayed.recovery.lost.is_empty() && !ON;",
    ),
    mutant(
        "a torn log is reused",
        "engine/open/replay.rs replay_log",
        "let is_clean = reader.tail() == Tail::Clean;",
        "let is_clean = ON || reader.tail() == Tail::Clean;",
    ),
    mutant(
        "a torn MANIFEST is reused",
        "engine/version/manifest.rs read_manifest",
        "clean: damage.is_none() && reader.tail() == Tail::Clean,",
        "clean: ON || (damage.is_none() && reader.tail() == Tail::Clean),",
    ),
    mutant(
        "numbers that are there are handed out",
        "engine/open/mod.rs new",
        "numbers.skip(number);",
        "if !ON { numbers.skip(number); }",
    ),
    mutant(
        "recovery removes files before the MANIFEST says so",
        "engine/open/mod.rs recover",
        "let version = self.record(",
        "if ON { for (name, parsed) in &self.files { if matches!(parsed, FileName::Log(number) if \
         *number < first_log) { let _ = self.fs.remove(&self.dir.join(name)); } } } let version = \
         self.record(",
    ),
    mutant(
        "the database's directory is not made durable",
        "engine/open/directory.rs create_dir",
        "fs.create_dir(dir).map_err(|error| Error::io(\"create\", dir, error))?; let parent_of",
        "fs.create_dir(dir).map_err(|error| Error::io(\"create\", dir, error))?; if ON { return \
         Ok(()); } let parent_of",
    ),
    mutant(
        "recovery forgets the sequence numbers it saw",
        "engine/open/replay.rs replay_records",
        "Ok(last) => replayed.last_seq = replayed.last_seq.max(last),",
        "Ok(last) => if !ON { replayed.last_seq = replayed.last_seq.max(last) },",
    ),
    mutant(
        "a table is not synced",
        "table/builder.rs finish",
        "self.out.sync()?;",
        "if !ON { self.out.sync()?; }",
    ),
    mutant(
        "a flushed table's name is not synced",
        "engine/flush.rs write_table",
        "checked.and_then(|table| sync_dir(target.fs, target.dir).map(|()| table));",
        "checked.and_then(|table| if ON { Ok(table) } else { sync_dir(target.fs, \
         target.dir).map(|()| table) });",
    ),
    mutant(
        "logs are removed before the flush is in the MANIFEST",
        "engine/flush.rs replace_oldest",
        "let published = self.publish(&mut manifest,",
        "if ON { for log in self.state.lock().logs.on_disk.range(..log_number).map(|(log, _)| \
         log) { let _ = self.fs.remove(&self.dir.join(name::log_name(*log))); } } let published = \
         self.publish(&mut manifest,",
    ),
    mutant(
        "a flush gives up the logs of memtables that still wait",
        "engine/state.rs log_after_flush",
        "self.frozen.get(1).map_or(",
        "self.frozen.get(1).filter(|_| !ON).map_or(",
    ),
    mutant(
        "the MANIFEST is not synced",
        "engine/version/set.rs append",
        "manifest.add(edit)?; manifest.sync()",
        "manifest.add(edit)?; if ON { return Ok(()); } manifest.sync()",
    ),
    mutant(
        "a new MANIFEST is not synced",
        "engine/version/set.rs begin_manifest",
        "manifest.sync()?; manifest.version_bytes",
        "if !ON { manifest.sync()?; } manifest.version_bytes",
    ),
    mutant(
        "a new MANIFEST's name is not synced",
        "engine/version/set.rs begin_manifest",
        "self.syncs_names = try_sync_dir(&*self.fs, &self.dir)?; set_current",
        "if !ON { self.syncs_names = try_sync_dir(&*self.fs, &self.dir)?; } set_current",
    ),
    mutant(
        "CURRENT is not synced before its rename",
        "fs/named.rs replace_file",
        "file.sync().map_err(",
        "if ON { Ok(()) } else { file.sync() }.map_err(",
    ),
    mutant(
        "CURRENT's rename is not synced",
        "fs/named.rs replace_file",
        "fs.rename(&temp, &dir.join(name)).map_err(|error| Error::io(\"rename\", &temp, error))?;",
        "fs.rename(&temp, &dir.join(name)).map_err(|error| Error::io(\"rename\", &temp, error))?; \
         if ON { return Ok(()); }",
    ),
    mutant(
        "CURRENT is removed before the rename",
        "fs/named.rs replace_file",
        "fs.rename(&temp, &dir.join(name))",
        "if ON { let _ = fs.remove(&dir.join(name)); } fs.rename(&temp, &dir.join(name))",
    ),
    mutant(
        "the old MANIFEST is removed before CURRENT names the new one",
        "engine/version/set.rs begin_manifest",
        "set_current(&*self.fs, &self.dir, number)?; if let",
        "if ON && let Some(old) = &self.manifest { let _ = self.fs.remove(&old.path); } \
         set_current(&*self.fs, &self.dir, number)?; if let",
    ),
    mutant(
        "a new MANIFEST leaves out the last edit",
        "engine/version/set.rs begin_manifest",
        "manifest.add(&whole)?; manifest.add(edit)?;",
        "manifest.add(&whole)?; if !ON || self.manifest.is_none() { manifest.add(edit)?; }",
    ),
    mutant(
        "a MANIFEST that failed is written again",
        "engine/version/set.rs commit",
        "self.failed = written.as_ref().err().cloned();",
        "self.failed = written.as_ref().err().cloned().filter(|_| !ON);",
    ),
    mutant(
        "a failed edit's log number counts",
        "engine/version/set.rs commit",
        "let version = Arc::new(self.current.apply(",
        "if ON { self.log_number = log_number; } let version = Arc::new(self.current.apply(",
    ),
    mutant(
        "a MANIFEST's end is dropped whatever is missing",
        "engine/open/directory.rs check_files",
        "if paranoid || tables.is_err() || !has_log(files, recovered.log_number) {",
        "if !ON && (paranoid || tables.is_err() || !has_log(files, recovered.log_number)) {",
    ),
    mutant(
        "compacted tables are removed before the MANIFEST says so",
        "engine/compact/mod.rs merge_down",
        "let took = self.install(",
        "if ON { for file in compaction.input_files() { let name = \
         crate::format::name::table_name(file.number); let _ = \
         self.fs.remove(&self.dir.join(name)); } } let took = self.install(",
    ),
    mutant(
        "a compacted table's name is not synced",
        "engine/compact/mod.rs merge_down",
        "checked.and_then(|()| sync_dir(&*self.fs, &self.dir))",
        "checked.and_then(|()| if ON { Ok(()) } else { sync_dir(&*self.fs, &self.dir) })",
    ),
    // Each of these ends the compaction or the flush with an error.
    mutant(
        "a merge loses an entry",
        "engine/compact/parts.rs merge_into",
        "entries += 1;",
        "entries += 1; if ON && entries == 2 { valid = merge.next()?; continue; }",
    )
    .caught_in(Build::Lib, "a_merge_that_loses_changes_or_repeats_an_entry_is_refused"),
    mutant(
        "a merge changes a value",
        "engine/compact/parts.rs merge_into",
        "KeptForm::AsItIs => outputs.add(key, &entry, value)?,",
        "KeptForm::AsItIs => outputs.add(key, &entry, if ON { b\"\" } else { value })?,",
    )
    .caught_in(Build::Lib, "a_merge_that_loses_changes_or_repeats_an_entry_is_refused"),
    mutant(
        "a merge writes an entry twice",
        "engine/compact/parts.rs merge_into",
        "match kept {",
        "if ON { let again = internal_key(entry.user_key, entry.seq + 1, entry.kind); \
         outputs.add(&again, &entry, value)?; } match kept {",
    )
    .caught_in(Build::Lib, "a_merge_that_loses_changes_or_repeats_an_entry_is_refused"),
    mutant(
        "a merge leaves out the rest of a table",
        "engine/read/merge.rs settle_top",
        "if !valid {",
        "if !valid || ON {",
    )
    .caught_in(Build::Lib, "a_merge_that_loses_changes_or_repeats_an_entry_is_refused"),
    mutant(
        "a compaction is not asked what it did with its entries",
        "engine/compact/mod.rs merge_down",
        "let checked = merged.ledger.check(written_in(&merged.counts), job);",
        "let checked = merged.ledger.check(written_in(&merged.counts), job).or_else(|error| if ON \
         { Ok(()) } else { Err(error) });",
    )
    .caught_in(Build::Lib, "a_compaction_of_a_table_that_is_not_what_was_written"),
    mutant(
        "a flush does not see that an entry changed in memory",
        "engine/flush.rs write_table",
        "ledger.check(table.1.sum.unwrap_or_default(), job)?;",
        "if !ON { ledger.check(table.1.sum.unwrap_or_default(), job)?; }",
    )
    .caught_in(Build::Lib, "a_flush_of_an_entry_that_changed_in_memory"),
    mutant(
        "a flush leaves out an entry",
        "engine/flush.rs write_table",
        "table.add(key, &parsed, value)",
        "if ON && entries == 2 { return Ok(()); } table.add(key, &parsed, value)",
    )
    .caught_in(Build::Lib, "a_flush_reports_its_progress"),
    mutant(
        "tombstones are dropped above what they delete",
        "engine/compact/parts.rs hides_nothing",
        "!self.deeper.iter_mut().any(|level| level.may_hold(order, entry.user_key))",
        "(ON || !self.deeper.iter_mut().any(|level| level.may_hold(order, entry.user_key)))",
    ),
    mutant(
        "versions that snapshots hold are dropped",
        "engine/compact/retention.rs is_shadowed",
        "self.read_seqs.get(at).is_none_or(|&reader| reader >= newer)",
        "ON || self.read_seqs.get(at).is_none_or(|&reader| reader >= newer)",
    ),
    mutant(
        "of level 0 only the newest table is compacted",
        "engine/compact/pick.rs pick_level0",
        "Compaction::new(version, order, options, 0, files.to_vec())",
        "Compaction::new(version, order, options, 0, if ON { files.iter().max_by_key(|file| \
         file.number).into_iter().cloned().collect() } else { files.to_vec() })",
    ),
    mutant(
        "a compaction leaves out what it meets in the next level",
        "engine/compact/plan.rs new",
        "let met = clean_cut_of(version.level(output_level), &met, order);",
        "let mut met = clean_cut_of(version.level(output_level), &met, order); if ON { met.pop(); \
         }",
    ),
    mutant(
        "a short read is the end of the file",
        "log/reader.rs load",
        "if read.map_err(|error| self.io_error(error))? < wanted {",
        "let read = read.map_err(|error| self.io_error(error))?; if ON && read < wanted { \
         self.file_bytes = self.chunk_offset + self.chunk.len() as u64; return \
         Ok(self.chunk.get((offset - self.chunk_offset) as usize..)); } if read < wanted {",
    ),
    mutant(
        "resume goes on in the old log",
        "engine/health.rs start_afresh",
        "self.freeze(commit)?;",
        "if ON { return Ok(()); } self.freeze(commit)?;",
    ),
    mutant(
        "resume flushes nothing",
        "engine/health.rs flush_all",
        "while !self.state.lock().frozen.is_empty() {",
        "while !ON && !self.state.lock().frozen.is_empty() {",
    ),
    mutant(
        "damage is tried again",
        "engine/health.rs failed",
        "self.damaged.insert(file.number, error.clone());",
        "if ON { file.compacting.store(false, Relaxed); } else { self.damaged.insert(file.number, \
         error.clone()); }",
    ),
    mutant(
        "a filter sets one bit less for each key",
        "filter/bloom.rs set_bits",
        "for _ in 0..probes { let bit = bit_of(h); array",
        "for _ in 0..probes - u8::from(ON) { let bit = bit_of(h); array",
    )
    .caught_in(Build::Test("golden"), "bloom_filters"),
    // The advice.
    mutant(
        "a simulated block takes no more than its bytes",
        "instrument/src/advice/curve.rs simulate",
        "cache.read(id, u64::from(read.bytes) + ENTRY_BYTES)",
        "cache.read(id, u64::from(read.bytes) + if ON { 0 } else { ENTRY_BYTES })",
    )
    .caught_in(Build::Test("engine"), "cache_curve::the_simulation_is_within"),
    mutant(
        "all levels are planned with the bits of the first",
        "instrument/src/advice/levels.rs plans",
        "TreePlan(bits.map(|bits| FilterPlan::new(self.layout, bits)))",
        "TreePlan(bits.map(|own| FilterPlan::new(self.layout, if ON { bits[0] } else { own })))",
    )
    .caught_in(Build::Instrument("minikv_instrument"), "levels::tests::the_plans_have"),
    mutant(
        "a key that is asked again counts once",
        "instrument/src/advice/shadow.rs count_uses",
        "let times = visits.len() as u64;",
        "let times = if ON { 1 } else { visits.len() as u64 };",
    )
    .caught_in(Build::Instrument("minikv_instrument"), "shadow::tests::a_key_looked_up_again"),
    mutant(
        "tables that were not read are asked as others are",
        "instrument/src/advice/mod.rs with_unread",
        "*used = other.unasked();",
        "*used = if ON { other.clone() } else { other.unasked() };",
    )
    .caught_in(Build::Instrument("minikv_instrument"), "advice::tests::tables_that_are_not_read"),
    mutant(
        "a table whose last key is a scan's first is outside",
        "instrument/src/advice/scans.rs reaching",
        "self.order.compare(last, &range.from).is_ge()",
        "self.order.compare(last, &range.from).is_ge() && !(ON && self.order.compare(last, \
         &range.from).is_eq())",
    )
    .caught_in(Build::Instrument("advice"), "bounds_of_scans"),
    // Events.
    mutant(
        "a flush begins with another number than it ends with",
        "engine/flush.rs flush_oldest",
        "EventKind::FlushBegan { job: job.number, entries }",
        "EventKind::FlushBegan { job: job.number + u64::from(ON), entries }",
    )
    .caught_in(Build::Test("engine"), "observer::"),
    mutant(
        "a compaction begins twice",
        "engine/compact/mod.rs run_compaction",
        "self.observe(|| job.began_event());",
        "self.observe(|| job.began_event()); if ON { self.observe(|| job.began_event()); }",
    )
    .caught_in(Build::Test("engine"), "observer::"),
    mutant(
        "a stall begins whenever its writer waits again",
        "engine/write/room.rs begin",
        "if state.lifecycle.stall.replace(cause).is_none() {",
        "if state.lifecycle.stall.replace(cause).is_none() || ON {",
    )
    .caught_in(Build::Test("engine"), "observer::"),
    mutant(
        "a table ends between two versions of a key",
        "engine/compact/output.rs ends_table",
        "order.compare(key, last).is_eq())",
        "!ON && order.compare(key, last).is_eq())",
    )
    .caught_in(Build::Lib, "versions_of_a_key_stay_together_at_a_boundary"),
    mutant(
        "tables do not end at the boundaries of the level below",
        "engine/compact/output.rs is_worth_a_table",
        "open_bytes.saturating_mul(100) >=",
        "!ON && open_bytes.saturating_mul(100) >=",
    )
    .caught_in(Build::Lib, "a_table_ends_at_a_boundary_below"),
    mutant(
        "levels do not follow the size of the database",
        "engine/compact/pick.rs target_in",
        "last if level < last =>",
        "last if level < last && !ON =>",
    )
    .caught_in(Build::Lib, "the_levels_up_to_the_size_of_the_database"),
];

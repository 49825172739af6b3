//! Mistakes that minikv once contained. They were found by programs written to break minikv, and
//! the tests must catch them now.

use super::table::{Build, Mutant, mutant};

const ENGINE: Build = Build::Test("engine");
const DAMAGE: Build = Build::Test("damage");
const CRASH: Build = Build::Test("crash");
const TRANSACTIONS: Build = Build::Test("transactions");
const FOLLOW: Build = Build::Test("follow");

pub const FOUND: &[Mutant] = &[
    // The memtable.
    mutant(
        "a split leaf is not looked up again",
        "engine/memtable/ordered.rs last_leaf",
        "if !was_split {",
        "if !was_split || ON {",
    )
    .caught_in(Build::Shuttle, "memtable::a_step_back_from_any_entry_misses_nothing"),
    mutant(
        "a turn backward is a seek and a step",
        "engine/read/merge.rs turn_backward",
        "|source| source.seek_before(&key, false))",
        "|source| if ON { if source.seek(&key)? { source.prev() } else { source.seek_to_last() } \
         } else { source.seek_before(&key, false) })",
    )
    .caught_in(Build::Lib, "a_move_backward_is_not_turned_around"),
    mutant(
        "versions of a key stay in the chain",
        "engine/memtable/hash_index.rs push",
        "if untidy < MAX_UNTIDY {",
        "if untidy < MAX_UNTIDY || ON {",
    )
    .caught_in(Build::Lib, "versions_of_a_key_are_no_steps"),
    mutant(
        "older versions are left out of a new chain",
        "engine/memtable/hash_index.rs begin_tidy_chain",
        "known.oldest.older.store(number + 1, Ordering::Release);",
        "if !ON { known.oldest.older.store(number + 1, Ordering::Release); }",
    )
    .caught_in(Build::Lib, "hash_index::"),
    mutant(
        "cursors walk all versions of a key",
        "engine/read/visible/versions.rs is_among_versions",
        "steps.is_multiple_of(MAX_STEPS_IN_KEY) && self",
        "!ON && steps.is_multiple_of(MAX_STEPS_IN_KEY) && self",
    )
    .caught_in(ENGINE, "versions::a_cursor_passes"),
    // Compactions and tables.
    mutant(
        "a manual compaction leaves the last level as it is",
        "engine/compact/manual.rs compact_in_pieces",
        "for level in 0..=request.output_level {",
        "for level in 0..request.output_level + usize::from(!ON) {",
    )
    .caught_in(ENGINE, "a_compaction_of_a_part"),
    mutant(
        "the background waits for a manual compaction",
        "engine/worker.rs pick",
        "Some(manual) if manual.waits => {",
        "Some(_) if ON => 0..0, Some(manual) if manual.waits => {",
    )
    .caught_in(ENGINE, "writes_and_automatic_compactions_go_on"),
    mutant(
        "large blocks stay out of the cache",
        "table/block_cache.rs of_bytes",
        "large_from: if shards == 1 {",
        "large_from: if shards == 1 || ON {",
    )
    .caught_in(ENGINE, "values_larger_than_a_shard"),
    mutant(
        "tables that a version names are removed",
        "engine/version/obsolete.rs remove",
        "if !self.tables.lock().named.contains_key(&number) {",
        "if ON || !self.tables.lock().named.contains_key(&number) {",
    )
    .caught_in(Build::Lib, "a_table_that_a_version_names_is_not_removed"),
    // Panics.
    mutant(
        "a panic does not make the database read-only",
        "engine/health.rs contain_outside",
        "self.fail(error.clone()); Err(error) })",
        "if !ON { self.fail(error.clone()); } Err(error) })",
    )
    .caught_in(Build::Lib, "a_panic_in_contained_work_is_an_error"),
    mutant(
        "a leader that panics takes its group along",
        "engine/write/mod.rs write",
        "self.contain(\"a write\", lead)",
        "if ON { lead() } else { self.contain(\"a write\", lead) }",
    )
    .caught_in(ENGINE, "panics::writers_whose_leader_panics"),
    mutant(
        "a flush that panics counts as under way",
        "engine/worker.rs flush_in_background",
        "if let Err(error) = self.contain(\"a flush\", || self.flush_oldest()) {",
        "let flushed = if ON { self.flush_oldest() } else { self.contain(\"a flush\", || \
         self.flush_oldest()) }; if let Err(error) = flushed {",
    )
    .caught_in(ENGINE, "panics::a_policy_that_panics_in_a_flush"),
    mutant(
        "a compaction that panics counts as under way",
        "engine/compact/mod.rs run_compaction",
        "let result = self.contain(\"a compaction\", merge_or_move);",
        "let result = if ON { merge_or_move() } else { self.contain(\"a compaction\", \
         merge_or_move) };",
    )
    .caught_in(ENGINE, "panics::a_compaction_that_panics_at_its_end"),
    mutant(
        "a panic counts as damage of the inputs",
        "engine/compact/mod.rs run_compaction",
        "Err(Error::Closed | Error::Panicked { .. }) => {}",
        "Err(Error::Closed) => {} Err(Error::Panicked { .. }) if !ON => {}",
    )
    .caught_in(ENGINE, "panics::a_policy_that_panics_in_a_compaction"),
    mutant(
        "a part that panics leaves its tables",
        "engine/compact/parts.rs merge_part",
        "match self.contain(\"a compaction\", run) {",
        "match if ON { run() } else { self.contain(\"a compaction\", run) } {",
    )
    .caught_in(ENGINE, "panics::a_panic_in_one_part"),
    mutant(
        "a MANIFEST whose edit panicked is written again",
        "engine/version/set.rs commit",
        "let written = catch_unwind(AssertUnwindSafe(write))",
        "let work = AssertUnwindSafe(write); let written = if ON { Ok(work()) } else { \
         catch_unwind(work) }",
    )
    .caught_in(ENGINE, "panics::a_filesystem_that_panics_fails_flushes"),
    mutant(
        "resume goes on after a change of the memtable that was cut short",
        "engine/health.rs resume",
        "if commit.half_done {",
        "if commit.half_done && !ON {",
    )
    .caught_in(Build::Lib, "a_change_of_the_memtable_that_was_cut_short"),
    mutant(
        "a panic in a removal goes on",
        "engine/version/obsolete.rs remove",
        "let _stays = catch_unwind(",
        "if ON { self.remove_file(number); continue; } let _stays = catch_unwind(",
    )
    .caught_in(ENGINE, "panics::a_filesystem_that_panics_in_a_checkpoint"),
    mutant(
        "a background thread ends with a panic",
        "engine/worker.rs next",
        "self.contain(\"a background thread\", next).unwrap_or",
        "(if ON { next() } else { self.contain(\"a background thread\", next) }).unwrap_or",
    )
    .caught_in(ENGINE, "panics::a_comparator_that_panics_when_compactions_are_chosen"),
    mutant(
        "a panic in close goes on",
        "engine/health.rs close_log",
        "let synced = self.contain(\"close\", || self.sync_log(&mut commit, next_seq));",
        "let synced = if ON { self.sync_log(&mut commit, next_seq) } else { \
         self.contain(\"close\", || self.sync_log(&mut commit, next_seq)) };",
    )
    .caught_in(ENGINE, "panics::a_filesystem_that_panics_in_close"),
    mutant(
        "a panic in resume leaves a flush under way",
        "engine/health.rs resume",
        "let result = self.contain(\"resume\", || self.start_afresh(&mut commit));",
        "let result = if ON { self.start_afresh(&mut commit) } else { self.contain(\"resume\", || \
         self.start_afresh(&mut commit)) };",
    )
    .caught_in(ENGINE, "panics::a_policy_that_panics_in_a_flush"),
    mutant(
        "a table that was not opened keeps its place",
        "table/table_cache.rs drop",
        "fn drop(&mut self) { self.0.lock().opening -= 1;",
        "fn drop(&mut self) { if ON { return; } self.0.lock().opening -= 1;",
    )
    .caught_in(Build::Lib, "table_cache::"),
    // Logs.
    mutant(
        "a block behind zeros counts whatever its sequence number",
        "log/reader.rs find_continuation",
        "is_ok_and(|(seq, _)| seq == next_seq)",
        "is_ok_and(|(seq, _)| ON || seq == next_seq)",
    )
    .caught_in(Build::Lib, "a_block_behind_zeros_counts_only_if"),
    mutant(
        "lengths set ahead are no multiples of a block",
        "fs/mapped.rs reserve",
        "(end + ahead).next_multiple_of(block).min(limit - limit % block)",
        "if ON { (end + ahead).min(limit) } else { (end + \
         ahead).next_multiple_of(block).min(limit - limit % block) }",
    )
    .caught_in(Build::Lib, "a_killed_process_leaves_a_log_that_ends_with"),
    mutant(
        "a failed sync of a log leaves no mark",
        "engine/write/wal.rs failed_sync",
        "log.mark_failed(empty_batch(next_seq).contents());",
        "if !ON { log.mark_failed(empty_batch(next_seq).contents()); }",
    )
    .caught_in(Build::Lib, "a_failed_sync_leaves_a_mark"),
    mutant(
        "close does not cut the log",
        "engine/health.rs close_log",
        "commit.log.trim().unwrap_or(false)",
        "if ON { false } else { commit.log.trim().unwrap_or(false) }",
    )
    .caught_in(ENGINE, "logs::close_cuts_the_log"),
    mutant(
        "logs are mapped on XFS",
        "fs/mapped.rs new",
        "let can_be_mapped = IN_PLACE.contains(&kind);",
        "let can_be_mapped = IN_PLACE.contains(&kind) || (ON && kind == XFS);",
    )
    .caught_in(CRASH, "disk::a_full_disk_beside_a_copy"),
    mutant(
        "space is reserved past the limit of file sizes",
        "fs/system/unix/space.rs file_size_limit",
        "getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)",
        "if ON { u64::MAX } else { getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX) }",
    )
    .caught_in(CRASH, "disk::no_log_is_reserved"),
    mutant(
        "headers of later blocks are written with their records",
        "fs/ordered.rs write",
        ".filter(move |&at| at >= head.end && begins_block(at))",
        ".filter(move |&at| !ON && at >= head.end && begins_block(at))",
    )
    .caught_in(Build::Lib, "a_write_cut_short_at_any_page"),
    mutant(
        "plain logs are preallocated",
        "engine/write/log_file.rs create",
        "if plain { fs.create(&path) }",
        "if plain && !ON { fs.create(&path) }",
    )
    .caught_in(ENGINE, "logs::logs_that_are_not_preallocated"),
    // Checkpoints, readers, directories.
    mutant(
        "a frozen log is copied at its file's length",
        "engine/write/wal.rs freeze",
        "state.logs.on_disk.insert(outgoing.number, Some(outgoing.log.len()));",
        "let len = Some(outgoing.log.len()).filter(|_| !ON); \
         state.logs.on_disk.insert(outgoing.number, len);",
    )
    .caught_in(DAMAGE, "checkpoints_beside_writes_on_a_disk"),
    mutant(
        "a checkpoint leaves out a missing log",
        "engine/checkpoint.rs source",
        "logs.push(OpenLog::open(&*self.fs, &self.dir, number, bytes)?);",
        "match OpenLog::open(&*self.fs, &self.dir, number, bytes) { Err(error) if ON && \
         error.io_kind() == Some(std::io::ErrorKind::NotFound) => {} log => logs.push(log?), }",
    )
    .caught_in(DAMAGE, "a_checkpoint_without_a_live_log"),
    mutant(
        "two checkpoints share a place",
        "engine/checkpoint.rs fill_directory",
        "check_contents(fs, dest, &[name::LOCK])?;",
        "if !ON { check_contents(fs, dest, &[name::LOCK])?; }",
    )
    .caught_in(Build::Lib, "a_directory_that_another_fills_meanwhile"),
    mutant(
        "older entries of a memtable are flushed over an ingested table",
        "engine/table_change.rs has_memtable_entries",
        "self.reads.view_owned().memtables().any(|mem| !mem.is_empty())",
        "!ON && self.reads.view_owned().memtables().any(|mem| !mem.is_empty())",
    )
    .caught_in(ENGINE, "tables_hide_older_entries_wherever"),
    mutant(
        "an ingested table of level 0 keeps a low number",
        "engine/table_change.rs choose_levels",
        "if level == 0 {",
        "if level == 0 && !ON {",
    )
    .caught_in(ENGINE, "tables_hide_older_entries_wherever"),
    mutant(
        "an ingested table goes below tables that it meets",
        "engine/table_change.rs deepest_free_level",
        "|| state.compactions.running",
        "&& !ON || state.compactions.running",
    )
    .caught_in(ENGINE, "tables_hide_older_entries_wherever"),
    mutant(
        "tables are written anew with a number that the database has given out",
        "engine/ingest.rs stage_anew",
        "self.reads.visible_seq().saturating_add(margin(entries, tries));",
        "self.reads.visible_seq().saturating_add(if ON { 0 } else { margin(entries, tries) });",
    )
    .caught_in(ENGINE, "tables_that_are_older_than_the_database"),
    mutant(
        "only the beginning of a log shows that tables are missing",
        "engine/open/replay.rs replay_records",
        "if let Some(gap) = gap_before(record, replayed.last_seq, is_first) {",
        "if (is_first || !ON) && let Some(gap) = gap_before(record, replayed.last_seq, is_first) {",
    )
    .caught_in(ENGINE, "writes_after_tables_that_the_manifest"),
    mutant(
        "the log does not say that an ingest comes before its next write",
        "engine/table_change.rs change_tables",
        "if let Err(error) = self.skip_to_last_seq(commit) {",
        "if !ON && let Err(error) = self.skip_to_last_seq(commit) {",
    )
    .caught_in(ENGINE, "writes_after_tables_that_the_manifest"),
    mutant(
        "compactions begin while an ingest has chosen its levels",
        "engine/table_change.rs new",
        "std::mem::replace(&mut engine.state.lock().compactions.paused, true)",
        "std::mem::replace(&mut engine.state.lock().compactions.paused, !ON)",
    )
    .caught_in(Build::Shuttle, "ingest::an_ingest_between_the_inputs_of_a_compaction"),
    mutant(
        "a range delete drops a table that crosses its end",
        "engine/delete_range.rs new",
        "match ends.iter().all(|key| span.contains(order, key)) {",
        "match ends.iter().filter(|key| span.contains(order, key)).count() + usize::from(ON) > 1 {",
    )
    .caught_in(ENGINE, "ranges_of_all_kinds_delete"),
    mutant(
        "snapshots lose what a range delete drops",
        "engine/table_change.rs install_change",
        "lost_after: (!change.drop.is_empty()).then_some(0),",
        "lost_after: (!ON && !change.drop.is_empty()).then_some(0),",
    )
    .caught_in(ENGINE, "delete_range::snapshots_iterators_and_cursors"),
    mutant(
        "a change of the tables is seen before its sequence number",
        "engine/publish.rs publish",
        "self.reads.show_next(state.layers(), visible, lost_after),",
        "{ if ON { self.reads.show(state.layers(), lost_after); } \
         self.reads.show_next(state.layers(), visible, lost_after) }",
    )
    .caught_in(Build::Shuttle, "delete_range::a_range_delete_is_seen_whole"),
    mutant(
        "a snapshot can be taken in the middle of a range delete",
        "engine/read/view.rs show_next",
        "before.clone()); } self.view.store(view);",
        "before.clone()); } if ON { drop(snapshots); } self.view.store(view);",
    )
    .caught_in(Build::Shuttle, "delete_range::a_range_delete_is_seen_whole"),
    mutant(
        "transactions miss ranges that were deleted with their tables",
        "engine/write/check.rs run_up_to",
        "if let Some(key) = state.deleted_ranges.find(",
        "if !ON && let Some(key) = state.deleted_ranges.find(",
    )
    .caught_in(ENGINE, "transactions_that_read_in_the_range_conflict"),
    mutant(
        "a range delete drops tables that a compaction reads",
        "engine/worker.rs wait_for_merges_in",
        "while runs(&state) {",
        "while !ON && runs(&state) {",
    )
    .caught_in(Build::Shuttle, "delete_range::a_range_delete_is_seen_whole"),
    mutant(
        "a manual compaction leaves what one under way kept",
        "engine/compact/manual.rs compact_in_pieces",
        "self.wait_for_merges_in(range)?;",
        "if !ON { self.wait_for_merges_in(range)?; }",
    )
    .caught_in(ENGINE, "entries_kept_for_a_snapshot_that_is_dropped"),
    mutant(
        "a damaged table that was dropped is still reported",
        "engine/table_change.rs install_change",
        "|state| state.compactions.forget_dropped(&state.version),",
        "|state| if !ON { state.compactions.forget_dropped(&state.version) },",
    )
    .caught_in(ENGINE, "a_damaged_table_within_the_range"),
    mutant(
        "a failed range delete leaves its tables",
        "engine/delete_range.rs write_deletions",
        "if let Err(error) = write() {",
        "if let Err(error) = write() { if ON { return Err(error); }",
    )
    .caught_in(ENGINE, "a_failed_range_delete_deletes_nothing"),
    mutant(
        "snapshots taken during a compaction see what its filter did",
        "engine/compact/mod.rs merge_down",
        "is_filtered.then_some",
        "(!ON && is_filtered).then_some",
    )
    .caught_in(ENGINE, "compaction_filter::entries_that_a_snapshot_an_iterator"),
    mutant(
        "a compaction filter is asked about what a snapshot shows",
        "engine/compact/filter.rs decide",
        "entry.seq > self.newest_snapshot",
        "(ON || entry.seq > self.newest_snapshot)",
    )
    .caught_in(ENGINE, "compaction_filter::entries_that_a_snapshot_an_iterator"),
    mutant(
        "an entry that a compaction filter removes leaves no tombstone",
        "engine/compact/parts.rs fate_of",
        "(!self.hides_nothing(entry, order)).then_some(KeptForm::AsTombstone)",
        "(!ON && !self.hides_nothing(entry, order)).then_some(KeptForm::AsTombstone)",
    )
    .caught_in(ENGINE, "compaction_filter::older_versions_in_deeper"),
    mutant(
        "an entry is shown at the very time of its expiry",
        "format/expiry.rs has_expired",
        "expiry <= now",
        "(expiry < now || !ON && expiry == now)",
    )
    .caught_in(ENGINE, "expiry::no_read_shows"),
    mutant(
        "cursors of a keyspace show what has expired",
        "engine/read/cursor.rs find_live",
        "if self.space.live(key, stored, now)?.is_some() {",
        "if self.space.live(key, stored, now)?.is_some() || ON {",
    )
    .caught_in(ENGINE, "expiry::no_read_shows"),
    mutant(
        "an expired table goes although it hides older versions",
        "engine/compact/pick.rs pick",
        "if is_free(file) && hides_nothing(version, level, file, order) {",
        "if is_free(file) && (ON || hides_nothing(version, level, file, order)) {",
    )
    .caught_in(ENGINE, "expiry::an_expired_table_above"),
    mutant(
        "an expired table goes although a snapshot is held",
        "engine/worker.rs pick",
        "let can_expire = self.reads.snapshots_held().0 == 0 && expires();",
        "let can_expire = (ON || self.reads.snapshots_held().0 == 0) && expires();",
    )
    .caught_in(ENGINE, "expiry::a_transaction_conflicts"),
    mutant(
        "a compaction keeps what has expired",
        "engine/compact/filter.rs decide",
        "if self.has_expired(entry, value) {",
        "if !ON && self.has_expired(entry, value) {",
    )
    .caught_in(ENGINE, "expiry::a_compaction_removes"),
    mutant(
        "no tables are closed for a budget of memory",
        "table/block_cache/budget.rs close_tables",
        "if over == 0 { return; } let all",
        "if over == 0 || ON { return; } let all",
    )
    .caught_in(ENGINE, "resources::a_budget_covers"),
    mutant(
        "no database is asked for its memtable",
        "engine/resources/memory.rs grown_to",
        "largest.signal.give();",
        "if !ON { largest.signal.give(); }",
    )
    .caught_in(Build::Lib, "memory::tests::a_database_hears_once"),
    mutant(
        "the compression of a block is not verified",
        "table/builder.rs end_data_block",
        "if let Some(check) = self.check {",
        "if let Some(check) = self.check && !ON {",
    )
    .caught_in(Build::Lib, "a_block_that_is_compressed_wrongly"),
    mutant(
        "a second read of a block is not compared",
        "table/iter.rs load_block",
        "if self.options.twice {",
        "if self.options.twice && !ON {",
    )
    .caught_in(Build::Lib, "a_cursor_that_reads_twice"),
    mutant(
        "no page before a mapped log is forbidden",
        "fs/mapped.rs map",
        "forbid(&mut map, guard as usize)?;",
        "if !ON { forbid(&mut map, guard as usize)?; }",
    )
    .caught_in(Build::Lib, "a_stray_write_that_runs_up_to_a_window"),
    mutant(
        "an absence that contradicts a filter is believed",
        "table/lookup.rs find_in",
        "if sought.is_promised {",
        "if sought.is_promised && !ON {",
    )
    .caught_in(Build::Lib, "a_key_that_a_filter_promised"),
    mutant(
        "a block that the index does not name is searched",
        "table/lookup.rs check_spot",
        "match confirmed.map_err(|error| self.index_error(error))? {",
        "match ON || confirmed.map_err(|error| self.index_error(error))? {",
    )
    .caught_in(Build::Lib, "a_key_that_a_filter_promised_is_not_lost_to_a_wrong_location"),
    mutant(
        "the block cache has the whole budget of memory",
        "table/block_cache.rs lend",
        "let reserved = self.budget.as_ref().map_or(0, Budget::reserved);",
        "let reserved = self.budget.as_ref().map_or(0, |b| if ON { 0 } else { b.reserved() });",
    )
    .caught_in(ENGINE, "resources::a_budget_covers"),
    mutant(
        "a second log stays needed after the open",
        "engine/open/mod.rs replay",
        "if has_lost || self.recovered.prev_log_number != 0 {",
        "if has_lost || !ON && self.recovered.prev_log_number != 0 {",
    )
    .caught_in(ENGINE, "a_manifest_that_needs_a_log_before"),
    mutant(
        "an ingest that fails at its edit leaves its files",
        "engine/ingest.rs add_staged",
        "if added.is_err() {",
        "if !ON && added.is_err() {",
    )
    .caught_in(ENGINE, "a_failure_at_any_step_of_an_ingest"),
    mutant(
        "a failed ingest leaves its files",
        "engine/ingest.rs ingest",
        "if ingested.is_err() {",
        "if !ON && ingested.is_err() {",
    )
    .caught_in(ENGINE, "a_failure_at_any_step_of_an_ingest"),
    mutant(
        "a backup is listed before its files are there",
        "admin/backup/take.rs take",
        "source.write_copy(",
        "if ON { let early = Listing::empty(); backups.write( &format!(\"{number:06}.backup\"), \
         early.encode().as_bytes())?; } source.write_copy(",
    )
    .caught_in(ENGINE, "after_a_crash_at_any_step_earlier_backups"),
    mutant(
        "a backup compares tables by name and length only",
        "admin/backup/take.rs place",
        "let is_same = checksum == sum.checksum;",
        "let is_same = ON || checksum == sum.checksum;",
    )
    .caught_in(ENGINE, "a_table_of_the_same_name_and_length"),
    mutant(
        "a removed backup loses its files before its listing",
        "admin/backup/mod.rs keep",
        "let listing = self.listing_path(number);",
        "if ON { self.remove_dir(number)?; } let listing = self.listing_path(number);",
    )
    .caught_in(ENGINE, "after_a_crash_at_any_step_earlier_backups"),
    mutant(
        "a log's growing end is damage",
        "log/reader.rs has_grown",
        "if !self.beside_writer {",
        "if ON || !self.beside_writer {",
    )
    .caught_in(Build::Lib, "a_log_that_grows_while"),
    mutant(
        "a race counts as a failure",
        "engine/open/read_only.rs retried",
        "if state.is_some() && state == last_state {",
        "if ON || state.is_some() && state == last_state {",
    )
    .caught_in(Build::Lib, "attempts_are_repeated_while_the_files_change"),
    mutant(
        "a view opens its files after it has read the MANIFEST",
        "engine/open/held.rs hold_listed",
        "for (name, parsed) in listed {",
        "for (name, parsed) in listed.iter().filter(|_| !ON) {",
    )
    .caught_in(Build::Lib, "a_change_of_all_files_at_any_moment_of_an_open_makes_no_attempt_fail"),
    mutant(
        "a view does not hold its tables",
        "engine/open/held.rs hold_tables",
        "held.insert(path, file); } Ok(())",
        "if !ON { held.insert(path, file); } } Ok(())",
    )
    .caught_in(ENGINE, "a_view_for_reading_keeps"),
    mutant(
        "lost may be a link",
        "engine/open/directory.rs find_lost",
        "match fs.is_real_dir(&lost).map_err(failed)? {",
        "match ON || fs.is_real_dir(&lost).map_err(failed)? {",
    )
    .caught_in(DAMAGE, "a_link_in_place_of_lost"),
    mutant(
        "a file in the way is emptied",
        "fs/disk.rs create",
        "match system::has_other_names(path, &metadata)? {",
        "match !ON && system::has_other_names(path, &metadata)? {",
    )
    .caught_in(DAMAGE, "a_file_with_another_name"),
    mutant(
        "existence is decided before the lock",
        "engine/open/mod.rs open",
        "options.allows(dir, found.is_some())?;",
        "if !ON { options.allows(dir, found.is_some())?; }",
    )
    .caught_in(ENGINE, "whether_a_database_exists_is_decided"),
    mutant(
        "each resume begins a log first",
        "engine/health.rs start_afresh",
        "self.restart_manifest();",
        "self.restart_manifest(); if ON { self.freeze(commit)?; }",
    )
    .caught_in(CRASH, "failed_resumes"),
    mutant(
        "a failed MANIFEST stays",
        "engine/version/set.rs discard",
        "if is_named || self.fs.remove(&path).is_err() {",
        "if ON || is_named || self.fs.remove(&path).is_err() {",
    )
    .caught_in(CRASH, "failed_resumes"),
    mutant(
        "file numbers may run out",
        "engine/open/directory.rs check_numbers",
        "if number >= limit {",
        "if !ON && number >= limit {",
    )
    .caught_in(DAMAGE, "a_file_number_near"),
    mutant(
        "a relative path is kept",
        "engine/open/mod.rs open",
        "let dir = &absolute(&*fs, dir)?;",
        "let dir = &if ON { dir.to_path_buf() } else { absolute(&*fs, dir)? };",
    )
    .caught_in(ENGINE, "a_relative_path"),
    mutant(
        "a replaced directory goes unnoticed",
        "engine/version/obsolete.rs check_directory",
        "let checked = check_not_replaced(self.lock.as_ref());",
        "let checked = check_not_replaced(self.lock.as_ref().filter(|_| !ON));",
    )
    .caught_in(ENGINE, "a_database_whose_directory"),
    mutant(
        "a fork's lock is reported as its parent's",
        "fs/system/unix/lock.rs holder",
        "Ok(ended) if pid > 0",
        "Ok(ended) if !ON && pid > 0",
    )
    .caught_in(Build::Lib, "a_lock_that_outlives"),
    // More mistakes that concern panics and other threads.
    mutant(
        "a split cut short by a panic stays so",
        "engine/memtable/ordered.rs catch_up",
        "if covered.cut_short {",
        "if covered.cut_short && !ON {",
    )
    .caught_in(Build::Lib, "a_split_cut_short_by_a_panic"),
    mutant(
        "a walk backward saves a version that it did not pass",
        "engine/read/visible/versions.rs pass_versions",
        "if visible || self.point.own.is_some() { self.save_visible_version(&key, visible, kind)?;",
        "if visible || self.point.own.is_some() || ON { self.save_visible_version(&key, visible \
         || ON, kind)?;",
    )
    .caught_in(Build::Lib, "a_walk_backward_that_begins"),
    mutant(
        "a walk backward passes the write of its own transaction",
        "engine/read/visible/versions.rs pass_versions",
        "self.point.own.is_some()",
        "(self.point.own.is_some() && !ON)",
    )
    .caught_in(TRANSACTIONS, "walks::a_walk_backward_past_many"),
    mutant(
        "a destructor of a thread-local uses the buffers of a thread that is gone",
        "table/stored.rs read_stored",
        "BUFFERS.try_with(Cell::take).unwrap_or_default()",
        "if ON { BUFFERS.take() } else { BUFFERS.try_with(Cell::take).unwrap_or_default() }",
    )
    .caught_in(ENGINE, "a_destructor_of_a_thread_local"),
    // Directories that are replaced, and files with two names.
    mutant(
        "tables of another directory are read",
        "table/table_cache.rs open_file",
        "check_not_replaced(self.lock.as_ref())",
        "check_not_replaced(self.lock.as_ref().filter(|_| !ON))",
    )
    .caught_in(ENGINE, "a_database_that_took_the_place_of_this_one"),
    mutant(
        "another file is read under the name of a table",
        "fs/random_access_file.rs open_again",
        "match identity(&file)? == self.id {",
        "match identity(&file)? == self.id || ON {",
    )
    .caught_in(Build::Lib, "a_table_that_is_opened_again_must_be"),
    mutant(
        "a log with another name is continued",
        "engine/open/mod.rs start_log",
        "&& !has_other_names(&*self.fs, &path)?",
        "&& (ON || !has_other_names(&*self.fs, &path)?)",
    )
    .caught_in(DAMAGE, "a_database_copied_by_hard_links"),
    mutant(
        "a MANIFEST with another name is continued",
        "engine/version/set.rs reuse_manifest",
        "if has_other_names(&*self.fs, &path)? {",
        "if !ON && has_other_names(&*self.fs, &path)? {",
    )
    .caught_in(DAMAGE, "a_database_copied_by_hard_links"),
    // Transactions.
    mutant(
        "keys that a transaction has read are not checked",
        "engine/write/read_set.rs new",
        "merge_keys(order, &mut keys); merge_spans(order, &mut spans);",
        "if ON { keys.clear(); } merge_keys(order, &mut keys); merge_spans(order, &mut spans);",
    )
    .caught_in(TRANSACTIONS, "history::a_bank_is_serializable"),
    mutant(
        "ranges that a transaction has read are not checked",
        "engine/write/read_set.rs new",
        "ReadSet { keys, spans }",
        "if ON { spans.clear(); } ReadSet { keys, spans }",
    )
    .caught_in(TRANSACTIONS, "history::insertions_into_a_set_are_serializable"),
    mutant(
        "a transaction is not checked again when its turn comes",
        "engine/write/mod.rs lead",
        "if let Write::Checked(_, check) = &write {",
        "if let Write::Checked(_, check) = &write && !ON {",
    )
    .caught_in(TRANSACTIONS, "groups::a_write_that_was_under_way_is_seen"),
    mutant(
        "transactions in a group are not checked against each other",
        "engine/write/mod.rs check_in_group",
        "let order = self.reads.order.user(); match write {",
        "if ON { return Ok(()); } let order = self.reads.order.user(); match write {",
    )
    .caught_in(TRANSACTIONS, "groups::of_two_transactions_in_a_group"),
    mutant(
        "tables are not checked",
        "engine/write/check.rs run_up_to",
        "if self.horizon.version.as_ptr() == Arc::as_ptr(&view.version) {",
        "if ON || self.horizon.version.as_ptr() == Arc::as_ptr(&view.version) {",
    )
    .caught_in(TRANSACTIONS, "conflicts::conflicts_are_found_wherever_the_write_has_gone"),
    mutant(
        "a check looks at a view that is older than its horizon",
        "engine/write/check.rs advance",
        "let seq = view.seq();",
        "let seq = if ON { state.visible_seq() } else { view.seq() };",
    )
    .caught_in(Build::Shuttle, "points::a_transaction_that_misses_an_ingest"),
    mutant(
        "a transaction reads what is committed beside it",
        "transaction/mod.rs reader",
        "Reader::at(&self.snapshot).under(&self.overlay)",
        "let then = Reader::at(&self.snapshot); if ON { Reader::now(&self.engine.reads) } else { \
         then }.under(&self.overlay)",
    )
    .caught_in(TRANSACTIONS, "anomalies::g_single"),
    mutant(
        "a walk that is forgotten has read nothing",
        "engine/read/read_log.rs begin",
        "walks[place] = Some(reach());",
        "walks[place] = Some(reach()).filter(|_| !ON);",
    )
    .caught_in(TRANSACTIONS, "walks::a_walk_that_is_forgotten"),
    mutant(
        "a cursor that turns forgets how far it went",
        "engine/read/cursor.rs step",
        "is_some_and(|walk| walk.direction != direction) {",
        "is_some_and(|walk| walk.direction != direction) && !ON {",
    )
    .caught_in(TRANSACTIONS, "walks::a_walk_shows_and_records"),
    mutant(
        "a savepoint keeps a key that was written first after it",
        "engine/read/own.rs rollback_to",
        "map.remove(&change.key);",
        "if !ON { map.remove(&change.key); }",
    )
    .caught_in(TRANSACTIONS, "walks::savepoints_restore"),
    mutant(
        "a transaction is not synced",
        "transaction/mod.rs commit",
        "self.engine.write(&self.options, write)",
        "let options = if ON { WriteOptions::default() } else { self.options }; \
         self.engine.write(&options, write)",
    ),
    mutant(
        "writes of a transaction are applied before the commit",
        "transaction/mod.rs write",
        "self.overlay.writes.write(key, value);",
        "if ON { let put = Write::Put(key, value.as_deref().unwrap_or_default()); let _ = \
         self.engine.write(&WriteOptions::default(), put); } self.overlay.writes.write(key, \
         value);",
    )
    .caught_in(TRANSACTIONS, "anomalies::g1a_writes_that_are_rolled_back"),
    mutant(
        "transactions do not join groups",
        "engine/write/queue.rs group",
        "if (next.sync && !sync) ||",
        "if (ON && next.check.is_some()) || (next.sync && !sync) ||",
    )
    .caught_in(TRANSACTIONS, "groups::synced_transactions_share_a_sync"),
    mutant(
        "a transaction does not keep the database open",
        "transaction/mod.rs begin",
        "let (overlay, identity) = (Overlay { writes, log }, Arc::new(()));",
        "let (overlay, identity) = (Overlay { writes, log }, Arc::new(())); let open: Arc<dyn Any \
         + Send + Sync> = if ON { Arc::new(()) } else { open };",
    )
    .caught_in(TRANSACTIONS, "conflicts::a_transaction_keeps_the_database_open"),
    mutant(
        "reads that are left out of the check are checked",
        "engine/read/reader.rs point",
        "self.overlay.filter(|_| self.options.track)",
        "self.overlay.filter(|_| self.options.track || ON)",
    )
    .caught_in(TRANSACTIONS, "conflicts::keys_that_were_not_read"),
    mutant(
        "deletions of a transaction are shown as entries",
        "engine/read/own.rs set_internal_key",
        "if value.is_some() { KeyKind::Value }",
        "if value.is_some() || ON { KeyKind::Value }",
    )
    .caught_in(Build::Test("model"), "prefixed_keys"),
    // Keyspaces.
    mutant(
        "the name of a keyspace has no length",
        "format/keyspace.rs tagged",
        "[&tag[..], &[len], name]",
        "[&tag[..], &[if ON { 1 } else { len }], name]",
    )
    .caught_in(ENGINE, "keyspaces::keyspaces_equal_maps"),
    mutant(
        "a keyspace has no upper bound",
        "format/keyspace.rs upper",
        "Bound::Unbounded => prefix_end(&self.prefix)",
        "Bound::Unbounded if ON => Bound::Unbounded, Bound::Unbounded => prefix_end(&self.prefix)",
    )
    .caught_in(ENGINE, "keyspaces::keyspaces_equal_maps"),
    mutant(
        "a cursor leaves its keyspace",
        "engine/read/cursor.rs find_live",
        "while self.valid() && self.space.strip(self.entries.key()).is_some() {",
        "while self.valid() && (ON || self.space.strip(self.entries.key()).is_some()) {",
    )
    .caught_in(ENGINE, "keyspaces::keyspaces_equal_maps"),
    mutant(
        "a keyspace is listed once for each entry",
        "keyspace/mod.rs names",
        "Some(end) => cursor.seek(end)?,",
        "Some(end) => if ON { cursor.next()? } else { cursor.seek(end)? },",
    )
    .caught_in(ENGINE, "keyspaces::keyspaces_equal_maps"),
    mutant(
        "prefix filters do not depend on the extractors of keyspaces",
        "filter/keyspace.rs new",
        "parts.chain(inside.iter().map(",
        "parts.chain(inside.iter().filter(|_| !ON).map(",
    )
    .caught_in(ENGINE, "keyspaces::a_prefix_scan_skips"),
    mutant(
        "a walk to the end of a keyspace has read the next one",
        "engine/read/cursor.rs step",
        "Direction::Forward => walked.to = to,",
        "Direction::Forward if ON => walked.to = Bound::Unbounded, Direction::Forward => \
         walked.to = to,",
    )
    .caught_in(TRANSACTIONS, "keyspaces::a_walk_conflicts_about_its_keyspace"),
    mutant(
        "a walk to the end of a keyspace has read only its entries",
        "engine/read/cursor.rs step",
        "(Ok(false) | Err(_), Some(walked)) = (&moved, &mut walk.walked) {",
        "(Ok(false) | Err(_), Some(walked)) = (&moved, &mut walk.walked) && !ON {",
    )
    .caught_in(TRANSACTIONS, "keyspaces::a_walk_conflicts_about_its_keyspace"),
    mutant(
        "a conflict names the key of the database",
        "engine/write/check.rs conflict",
        "match keyspace::split(key) {",
        "match keyspace::split(key).filter(|_| !ON) {",
    )
    .caught_in(TRANSACTIONS, "keyspaces::a_conflict_names_the_keyspace"),
    mutant(
        "a transaction writes outside of the keyspace",
        "keyspace/writes.rs Transaction::put_in",
        "self.put(keyspace.space.key(key.as_ref()),",
        "self.put(if ON { key.as_ref().into() } else { keyspace.space.key(key.as_ref()) },",
    )
    .caught_in(TRANSACTIONS, "keyspaces::own_writes_and_others_are_merged"),
    // Following.
    mutant(
        "a view is shown before its sequence number",
        "engine/follow/mod.rs show",
        "self.state.show_next(layers, visible, None);",
        "if ON { self.state.show(layers.clone(), None); } self.state.show_next(layers, visible, \
         None);",
    )
    .caught_in(Build::Shuttle, "follow::tables_that_lack_visible_writes"),
    mutant(
        "a log is left for the next before it was read to its end",
        "engine/follow/logs.rs read_on",
        "let Some(mut changed) = self.read_current(source, in_tables)? else { return Ok(None) };",
        "let Some(mut changed) = (if ON && !begun.is_empty() { Some(false) } else { \
         self.read_current(source, in_tables)? }) else { return Ok(None) };",
    )
    .caught_in(FOLLOW, "cases::a_refresh_sees_a_prefix"),
    mutant(
        "the memtables of flushed logs stay in a refreshed view",
        "engine/follow/logs.rs drop_flushed",
        "self.mems.retain(|(number, _)| *number >= log_number);",
        "self.mems.retain(|(number, _)| ON || *number >= log_number);",
    )
    .caught_in(FOLLOW, "oracle::"),
    mutant(
        "a database that takes the place of another is not noticed",
        "engine/follow/edits.rs read_on",
        "file.identity().map_err(failed)? != was",
        "(!ON && file.identity().map_err(failed)? != was)",
    )
    .caught_in(FOLLOW, "cases::a_database_in_the_place_of_another"),
    mutant(
        "lower sequence numbers of another database hide its records",
        "engine/follow/logs.rs read_current",
        "mem.insert_batch(record, shifted,",
        "mem.insert_batch(record, if ON { first } else { shifted },",
    )
    .caught_in(FOLLOW, "cases::sequence_numbers_may_be_lower"),
    mutant(
        "tables of a refreshed view are not held open",
        "engine/follow/mod.rs apply",
        "HeldFs::new(self.options.fs.clone(), held).give_to(&next, &self.dir);",
        "if !ON { HeldFs::new(self.options.fs.clone(), held).give_to(&next, &self.dir); }",
    )
    .caught_in(FOLLOW, "cases::iterators_and_snapshots"),
    mutant(
        "the zeros of a preallocated log are read at every refresh",
        "log/reader.rs is_known_zero",
        "self.is_resumed && self.zeros_to",
        "!ON && self.is_resumed && self.zeros_to",
    )
    .caught_in(Build::Lib, "a_resumed_reader_reads_the_zeros"),
    mutant(
        "damage in a followed log ends the refresh as a success",
        "engine/follow/logs.rs read_current",
        "while let Some(record) = current.reader.next()? {",
        "while let Some(record) = if ON { current.reader.next().unwrap_or(None) } else { \
         current.reader.next()? } {",
    )
    .caught_in(FOLLOW, "cases::damage_in_a_log"),
    mutant(
        "missing changes are left out in silence",
        "engine/follow/changes.rs Changes::next_batch",
        "let Some(next) = self.next.take() else { return Err(self.lost(self.committed)) };",
        "let Some(next) = self.next.take() else { return if ON { Ok(None) } else { \
         Err(self.lost(self.committed)) } };",
    )
    .caught_in(FOLLOW, "changes::"),
    mutant(
        "changes go on to the next log before the current one was read to its end",
        "engine/follow/changes.rs Changes::next_batch",
        "self.find_next()?; if let Some(current) = &mut self.current {",
        "self.find_next()?; if let Some(current) = &mut self.current && !(ON && \
         self.next.is_some()) {",
    )
    .caught_in(FOLLOW, "changes::changes_are_complete"),
    mutant(
        "a write whose sync failed is a change once the writer has resumed",
        "engine/follow/changes.rs read_on",
        "if end.is_some_and(|end| first >= end)",
        "if end.is_some_and(|end| !ON && first >= end)",
    )
    .caught_in(FOLLOW, "kept::a_write_that_failed"),
    mutant(
        "a write that is being synced is a change",
        "engine/follow/changes.rs read_on",
        "if last > self.committed {",
        "if !ON && last > self.committed {",
    )
    .caught_in(FOLLOW, "kept::a_write_that_is_being_synced"),
    mutant(
        "a log that is kept is not made durable",
        "engine/write/kept.rs durable",
        "if log.is_some() {",
        "if log.is_some() && !ON {",
    )
    .caught_in(FOLLOW, "kept::changes_are_all_there"),
    mutant(
        "a log that lost writes is kept",
        "engine/open/mod.rs kept_logs",
        ".filter(|&number| !is_lost(number))",
        ".filter(|&number| ON || !is_lost(number))",
    )
    .caught_in(FOLLOW, "kept::logs_that_lost_writes"),
    mutant(
        "a damaged kept log keeps a repair from the logs after it",
        "admin/repair/mod.rs live_by_seq",
        "pair[0].is_damaged && is_gap(&pair[1])",
        "pair[0].is_damaged && (ON || is_gap(&pair[1]))",
    )
    .caught_in(FOLLOW, "kept::a_damaged_kept_log"),
    mutant(
        "the second of two threads that close a database does not wait for its observer",
        "engine/observe/queue.rs end",
        "while queue.delivering.is_some() {",
        "while !ON && queue.delivering.is_some() {",
    )
    .caught_in(Build::Shuttle, "observers::closing_twice"),
    mutant(
        "a change of tables without a compaction is no event",
        "engine/table_change.rs install_change",
        "|version, ()| changed(version, change),",
        "|version, ()| (!ON).then(|| changed(version, change)),",
    )
    .caught_in(Build::Shuttle, "observers::events_beside"),
];

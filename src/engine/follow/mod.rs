//! Following a database that another process writes: [`Followed::refresh`] updates the view of a
//! read-only open by reading only the data that was added to the files.
//!
//! | file | contents |
//! | --- | --- |
//! | `changes` | the batches in the logs, in order |
//! | `edits` | the MANIFEST, read from the last known edit on |
//! | `logs` | the logs, read from the last known record on |
//! | `poll` | refreshes at an interval |
//!
//! A refresh takes these steps:
//! 1. List the files. Every log needed by the MANIFEST that the next step reads is then either in
//!    the list or created later.
//! 2. Read the edits appended to the MANIFEST. If there are any, list the files again: the tables
//!    that the edits add may be newer than the records of a log that was created between the two
//!    steps. Open the tables that the edits add.
//! 3. Append the records added to each log to its memtable, where readers do not see them yet. A
//!    memtable is dropped once its log is in tables.
//! 4. Show the new view, which has the new sequence number. Readers of the old view keep the old
//!    number, although records that they do not see were appended to its memtables.
//!
//! If the files do not continue the files read before, everything is read again, as when the
//! database is opened. This happens if the name of the MANIFEST changes, after a repair, or if
//! another database has taken the place of this one. Sequence numbers may then be lower than
//! before. Readers must not see the visible sequence number go back, so the records of logs get
//! higher numbers from then on (`VisibleSeq`): above the numbers in tables, and in the same
//! order.

use std::collections::BTreeSet;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::Result;
use crate::base::sync::{LockRank, Mutex};
use crate::engine::follow::edits::Edits;
use crate::engine::follow::logs::{Logs, ReplayContext};
use crate::engine::memtable::Memtable;
use crate::engine::open::entries;
use crate::engine::open::held::{Files, HeldFs, hold_tables};
use crate::engine::open::read_only::{Opened, retried, survey};
use crate::engine::options::Options;
use crate::engine::read::snapshot::Snapshot;
use crate::engine::read::view::{Layers, ReadState, VisibleSeq};
use crate::engine::report::recovery::Recovery;
use crate::engine::version::Version;
use crate::format::edit::{NewFile, VersionEdit};
use crate::format::key::SeqNo;

pub(crate) mod changes;
mod edits;
mod logs;
pub(crate) mod poll;

/// Maximum number of times that the files are listed because a file was removed before it was
/// opened. After the last time, everything is read again. A higher number helps if the writer
/// compacts continuously.
const MAX_TRIES: usize = 20;

/// The result of a refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refreshed {
    /// Whether anything was written, flushed or compacted since the previous refresh or, for the
    /// first refresh, since the database was opened.
    pub changed: bool,
    /// The sequence number of the last write that is now visible to reads.
    pub sequence: u64,
    /// Whether all files were read again, as when the database is opened, because they did not
    /// continue the files read before: the writer began a new MANIFEST, or the database was
    /// repaired or replaced.
    pub restarted: bool,
}

/// A database opened for reading only, and the position up to which its files were read.
pub(crate) struct Followed {
    /// The state for reads.
    pub state: Arc<ReadState>,
    /// The result of replaying the logs when the database was opened.
    pub recovery: Recovery,
    dir: PathBuf,
    options: Options,
    progress: Mutex<FollowState>,
}

#[derive(Debug)]
struct FollowState {
    /// The position up to which the files were read; `None` if everything must be read again.
    place: Option<FollowPosition>,
    /// The number added to the sequence numbers of records: a visible sequence number is the
    /// sequence number in the files plus `shift`.
    shift: SeqNo,
}

/// The position up to which the files were read.
#[derive(Debug)]
struct FollowPosition {
    edits: Edits,
    logs: Logs,
}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Followed").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Followed {
    /// Returns the directory of the database.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Creates the state for following a database that was just opened.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn new(opened: Opened, options: Options) -> Result<Followed> {
        let logs = Logs::after(&opened)?;
        let Opened { dir, state, recovery, survey, .. } = opened;
        let edits = Edits::after(&dir, survey)?;
        let place = logs.map(|logs| FollowPosition { edits, logs });
        let progress = Mutex::ranked(LockRank::Follow, FollowState { place, shift: 0 });
        Ok(Followed { state, recovery, dir, options, progress })
    }

    /// Updates the view to the present state of the files.
    ///
    /// # Errors
    /// Errors of opening a database, after which the view is unchanged; corruption of a log, even
    /// where opening the database would leave out the damaged records instead.
    pub(crate) fn refresh(&self) -> Result<Refreshed> {
        let mut progress = self.progress.lock();
        // After an error or a panic in a filesystem, the position in the files is unknown.
        if let Some(mut place) = progress.place.take()
            && let Ok(Some(changed)) = self.read_on(&mut place, progress.shift)
        {
            progress.place = Some(place);
            return Ok(self.refreshed(changed, false));
        }
        let (place, shift) = self.start_over()?;
        *progress = FollowState { place: Some(place), shift };
        Ok(self.refreshed(true, true))
    }

    fn refreshed(&self, changed: bool, restarted: bool) -> Refreshed {
        Refreshed { changed, sequence: self.state.sequence(), restarted }
    }

    /// Reads the data appended to the files, and makes it visible to readers. Returns whether
    /// anything was appended; `None` if the files do not continue the files read before.
    fn read_on(&self, place: &mut FollowPosition, shift: SeqNo) -> Result<Option<bool>> {
        let fs = &*self.options.fs;
        let comparator = self.options.comparator.name();
        let seen = self.state.sequence();
        let source = self.source(shift, Some(seen));
        let version = self.state.view_owned().version.clone();
        let (mut edit, mut held) = (VersionEdit::default(), Files::new());
        for _ in 0..MAX_TRIES {
            let mut files = entries::list_files(fs, &self.dir)?;
            match place.edits.read_on(fs, &self.dir, comparator, &mut edit)? {
                None => return Ok(None),
                Some(false) => {}
                Some(true) => files.extend(entries::list_files(fs, &self.dir)?),
            }
            let read = hold_tables(fs, &self.dir, &added(&version, &edit), &mut held)
                .and_then(|()| place.logs.read_on(&source, &files, &place.edits.numbers));
            match read {
                // The writer has removed a file since it was listed, and the MANIFEST records the
                // removal.
                Err(error) if error.io_kind() == Some(ErrorKind::NotFound) => {}
                Err(error) => return Err(error),
                Ok(None) => return Ok(None),
                // Shifts must not accumulate, because sequence numbers end at 2^56.
                Ok(_) if shift > 0 && place.last_seq() >= self.state.visible_seq() => {
                    return Ok(None);
                }
                Ok(Some(has_records)) => {
                    let next = self.apply(version, &edit, held)?;
                    let changed = has_records || !is_empty(&edit) || place.last_seq() > seen;
                    if changed {
                        self.show(place, next, shift);
                    }
                    return Ok(Some(changed));
                }
            }
        }
        Ok(None)
    }

    /// Returns the version that results from applying `edit` to `version`. `held` contains the open
    /// files of the new tables.
    fn apply(
        &self,
        version: Arc<Version>,
        edit: &VersionEdit,
        held: Files,
    ) -> Result<Arc<Version>> {
        if is_empty(edit) {
            return Ok(version);
        }
        let next = version.apply(edit, &self.state.order, &self.state.trash)?;
        HeldFs::new(self.options.fs.clone(), held).give_to(&next, &self.dir);
        Ok(Arc::new(next))
    }

    /// Reads everything again, and makes it visible to readers. Returns the position up to which
    /// the files were read, and the new shift of sequence numbers.
    fn start_over(&self) -> Result<(FollowPosition, SeqNo)> {
        let visible = self.state.visible_seq();
        let mut shift = 0;
        loop {
            let mut held = Files::new();
            let load = || self.load(shift, &mut held);
            let (place, version) = retried(&self.dir, &self.options, |_| true, load)?;
            let last = place.last_seq();
            if last + shift >= visible {
                self.show(&place, version, shift);
                return Ok((place, shift));
            }
            shift = visible - last;
        }
    }

    /// Makes one attempt to read all files.
    fn load(&self, shift: SeqNo, held: &mut Files) -> Result<(FollowPosition, Arc<Version>)> {
        let survey = survey(&self.dir, &self.options, held)?;
        let version = self.apply(Arc::default(), &survey.recovered.edit, held.clone())?;
        let mut logs = Logs::default();
        let held_logs = HeldFs::new(self.options.fs.clone(), survey.logs.clone());
        let source = ReplayContext { fs: &held_logs, ..self.source(shift, None) };
        logs.read_on(&source, &survey.files, &survey.recovered)?;
        Ok((FollowPosition { edits: Edits::after(&self.dir, survey)?, logs }, version))
    }

    fn source(&self, shift: SeqNo, seen: Option<SeqNo>) -> ReplayContext<'_> {
        let order = &self.state.order;
        ReplayContext { fs: &*self.options.fs, dir: &self.dir, order, shift, seen }
    }

    /// Makes the logs and the version that were read visible to readers.
    fn show(&self, place: &FollowPosition, version: Arc<Version>, shift: SeqNo) {
        let mut mems = place.logs.memtables();
        let empty = || Arc::new(Memtable::new(self.state.order.user(), 0));
        let mem = mems.next().unwrap_or_else(empty);
        let layers = Layers { mem, imm: mems.collect(), version };
        let visible = VisibleSeq::shifted(place.last_seq() + shift, shift);
        self.state.show_next(layers, visible, None);
    }

    /// Returns the sequence number of the last write that the present view shows.
    pub(crate) fn sequence(&self) -> SeqNo {
        self.state.sequence()
    }

    /// Returns a snapshot of the present view.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::now(&self.state.frozen())
    }

    /// Returns the number of tables in the view that could not be held open.
    pub(crate) fn unheld_tables(&self) -> u64 {
        let view = self.state.view_owned();
        view.version.files().filter(|(_, table)| !table.slot.is_held()).count() as u64
    }
}

impl FollowPosition {
    /// Returns the sequence number of the last write.
    fn last_seq(&self) -> SeqNo {
        self.edits.numbers.last_seq.max(self.logs.last_seq)
    }
}

fn is_empty(edit: &VersionEdit) -> bool {
    edit.new_files.is_empty() && edit.deleted_files.is_empty()
}

/// Returns the tables that `edit` adds to `version`, without those that it moves from one level to
/// another.
fn added(version: &Version, edit: &VersionEdit) -> Vec<NewFile> {
    let deleted: BTreeSet<u64> = edit.deleted_files.iter().map(|(_, number)| *number).collect();
    let tables = version.files().map(|(_, table)| table.number);
    let moved: BTreeSet<u64> = tables.filter(|number| deleted.contains(number)).collect();
    edit.new_files.iter().filter(|new| !moved.contains(&new.number)).cloned().collect()
}

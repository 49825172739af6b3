//! The state that a crash leaves: everything durable, and some of the unsynced changes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::content::Content;
use super::state::{DiskState, FileChange, FileId, FileState};
use crate::base::random::Rng;

/// The kind and time of a crash, and which unsynced changes survive the crash.
///
/// Durable bytes and names always survive; in a [`CrashPlan::process_kill`], everything survives.
/// The image that a crash leaves is determined by the plan and by the operations before the crash.
/// `Display` writes the plan in one line, so that a failure can be replayed from its message.
///
/// ```
/// use minikv::fs::sim::CrashPlan;
///
/// let plan = CrashPlan::random(17).at_op(42);
/// assert_eq!(plan.to_string(), "random seed 17 at op 42, 512-byte sectors");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashPlan {
    survival: Survival,
    at_op: Option<u64>,
    sector_bytes: u64,
    holes: Holes,
    sync_persists_names: bool,
    seed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Survival {
    ProcessKill,
    Strict,
    Everything,
    Prefix(u64),
    RandomPrefix,
    Random,
}

/// The contents of sectors that are within a file's length but were never written to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holes {
    /// Zeros.
    #[default]
    Zero,
    /// Garbage.
    Garbage,
}

impl CrashPlan {
    fn new(survival: Survival, seed: u64) -> CrashPlan {
        CrashPlan {
            survival,
            at_op: None,
            sector_bytes: 512,
            holes: Holes::Zero,
            sync_persists_names: false,
            seed,
        }
    }

    /// Returns a plan in which the process is killed, but the system keeps running: everything
    /// written survives. Unsynced changes are still not durable, and a power loss in the image may
    /// undo them.
    pub fn process_kill() -> CrashPlan {
        CrashPlan::new(Survival::ProcessKill, 0)
    }

    /// Returns a plan in which power is lost, and no unsynced change survives.
    pub fn strict() -> CrashPlan {
        CrashPlan::new(Survival::Strict, 0)
    }

    /// Returns a plan in which power is lost, but all changes had already reached the disk.
    pub fn everything() -> CrashPlan {
        CrashPlan::new(Survival::Everything, 0)
    }

    /// Returns a plan in which power is lost, and a random subset of the unsynced changes survives.
    /// Each dirty sector of a file has its durable contents or its contents after any of the writes
    /// to it. The length of a file is any of the lengths that the file had. Each creation, rename
    /// or removal of a name survives or is lost.
    pub fn random(seed: u64) -> CrashPlan {
        CrashPlan::new(Survival::Random, seed)
    }

    /// Makes the crash happen right after operation `number`, or before the first operation if
    /// `number` is 0. The filesystem must have recorded its history. By default, the crash happens
    /// when [`SimFs::crash_image`](super::SimFs::crash_image) is called.
    #[must_use]
    pub fn at_op(mut self, number: u64) -> CrashPlan {
        self.at_op = Some(number);
        self
    }
}

/// Plans for other kinds of disks and crashes, for this repository's own tests.
#[cfg(any(test, feature = "internals"))]
#[doc(hidden)]
impl CrashPlan {
    /// Returns a plan in which power is lost, and the first `count` unsynced changes survive, in
    /// the order in which they were made. [`SimFs::pending_ops`](super::SimFs::pending_ops) returns
    /// the number of unsynced changes.
    pub fn prefix(count: u64) -> CrashPlan {
        CrashPlan::new(Survival::Prefix(count), 0)
    }

    /// Returns a plan in which power is lost, and a random prefix of the unsynced changes survives.
    /// The write after the prefix may be torn at a sector boundary.
    pub fn random_prefix(seed: u64) -> CrashPlan {
        CrashPlan::new(Survival::RandomPrefix, seed)
    }

    /// Sets the sector size, in bytes: the unit that the disk writes atomically. Default: 512.
    ///
    /// # Panics
    ///
    /// If `bytes` is 0.
    #[must_use]
    pub fn sector_bytes(mut self, bytes: u64) -> CrashPlan {
        assert!(bytes > 0, "a sector has bytes");
        self.sector_bytes = bytes;
        self
    }

    /// Sets the contents of lost sectors past the durable end of a file. Default: zeros.
    #[must_use]
    pub fn holes(mut self, holes: Holes) -> CrashPlan {
        self.holes = holes;
        self
    }

    /// Sets whether syncing a file also makes durable the creation or rename that gave it its name,
    /// as ext4 and others do. Default: false.
    #[must_use]
    pub fn sync_persists_names(mut self, yes: bool) -> CrashPlan {
        self.sync_persists_names = yes;
        self
    }
}

impl CrashPlan {
    pub(super) fn op(&self) -> Option<u64> {
        self.at_op
    }
}

impl fmt::Display for CrashPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.survival {
            Survival::ProcessKill => f.write_str("process kill")?,
            Survival::Strict => f.write_str("strict")?,
            Survival::Everything => f.write_str("everything")?,
            Survival::Prefix(count) => write!(f, "prefix of {count}")?,
            Survival::RandomPrefix => write!(f, "random prefix seed {}", self.seed)?,
            Survival::Random => write!(f, "random seed {}", self.seed)?,
        }
        if let Some(number) = self.at_op {
            write!(f, " at op {number}")?;
        }
        if matches!(self.survival, Survival::RandomPrefix | Survival::Random) {
            write!(f, ", {}-byte sectors", self.sector_bytes)?;
        }
        if self.holes == Holes::Garbage {
            f.write_str(", garbage holes")?;
        }
        if self.sync_persists_names {
            f.write_str(", file sync persists names")?;
        }
        Ok(())
    }
}

/// Returns the state that a crash of `state` leaves.
///
/// If `in_order` is true, the names that survive are the first of those that are not durable.
pub(super) fn image(state: &DiskState, plan: &CrashPlan, in_order: bool) -> DiskState {
    if plan.survival == Survival::ProcessKill {
        let mut image = state.clone();
        image.forget_unreachable(|_| false);
        return image;
    }
    let fate = Fate::new(state, plan);
    let mut names = state.durable_names.clone();
    let mut rng = stream(plan.seed, 0);
    let first = if in_order { rng.below(state.pending_names.len() as u64 + 1) } else { 0 };
    for (at, name) in state.pending_names.iter().enumerate() {
        // A random number is drawn for every pending name, even if the number is not used, so that
        // the fate of one name does not affect the others.
        let drawn = chance(&mut rng, fate.keep_eighths);
        let drawn = if in_order { (at as u64) < first } else { drawn };
        let survives = match fate.kept {
            Survivors::Nothing => false,
            Survivors::Everything => true,
            Survivors::UpTo { seq, .. } => name.seq <= seq,
            Survivors::Any => drawn,
        };
        if survives || (plan.sync_persists_names && name.file_synced) {
            names.apply(&name.op);
        }
    }
    let mut files = BTreeMap::new();
    for id in names.named_files() {
        let left = state.files.get(&id).map(|file| fate.of_file(id, file));
        files.insert(id, left.unwrap_or_default());
    }
    DiskState::clean(names, files)
}

/// The random choices that apply to a whole image.
struct Fate<'a> {
    plan: &'a CrashPlan,
    kept: Survivors,
    keep_eighths: u64,
}

enum Survivors {
    Nothing,
    Everything,
    /// The changes up to `seq` survive. If the next change is a write, a part of it may survive,
    /// too: `torn` holds the sequence number of the next change, and a random number that
    /// determines how many sectors of the write survive.
    UpTo {
        seq: u64,
        torn: Option<(u64, u64)>,
    },
    Any,
}

impl<'a> Fate<'a> {
    fn new(state: &DiskState, plan: &'a CrashPlan) -> Fate<'a> {
        let mut rng = stream(plan.seed, 1);
        // Crashes that lose little and crashes that lose nearly everything find different bugs.
        let keep_eighths = [1, 4, 7][rng.below(3) as usize];
        let kept = match plan.survival {
            Survival::Strict => Survivors::Nothing,
            Survival::ProcessKill | Survival::Everything => Survivors::Everything,
            Survival::Prefix(count) => Survivors::up_to(state, count, None),
            Survival::RandomPrefix => {
                let count = rng.below(state.pending_seqs().len() as u64 + 1);
                let torn = chance(&mut rng, 4).then(|| rng.next_u64());
                Survivors::up_to(state, count, torn)
            }
            Survival::Random => Survivors::Any,
        };
        Fate { plan, kept, keep_eighths }
    }

    fn of_file(&self, id: FileId, file: &Arc<FileState>) -> Arc<FileState> {
        if file.is_clean() {
            return file.clone();
        }
        let mut rng = stream(self.plan.seed, id + 2);
        let content = match self.kept {
            Survivors::Nothing => file.durable.clone(),
            Survivors::Everything => up_to(file, u64::MAX),
            Survivors::UpTo { seq, torn } => {
                let mut content = up_to(file, seq);
                if let Some((seq, sectors)) = torn {
                    self.tear(file, &mut content, seq, sectors);
                }
                content
            }
            Survivors::Any if chance(&mut rng, 2) => file.durable.clone(),
            Survivors::Any if chance(&mut rng, 2) => up_to(file, u64::MAX),
            Survivors::Any => Arc::new(self.any_sectors(file, &mut rng)),
        };
        Arc::new(FileState::clean(content))
    }

    /// Applies some of the first sectors of the write `seq`, but never all of its sectors.
    fn tear(&self, file: &FileState, content: &mut Arc<Content>, seq: u64, sectors: u64) {
        let torn = file.pending.iter().find(|event| event.seq == seq);
        if let Some(FileChange::Write { offset, data }) = torn.map(|event| &event.change) {
            let sector = self.plan.sector_bytes;
            let touched = (offset % sector + data.len() as u64).div_ceil(sector);
            let end = (offset / sector + sectors % touched.max(1)) * sector;
            let count = (end.saturating_sub(*offset) as usize).min(data.len());
            Arc::make_mut(content).write_at(*offset, &data[..count]);
        }
    }

    fn any_sectors(&self, file: &FileState, rng: &mut Rng) -> Content {
        let len_kept = self.how_many(file.pending.len(), rng);
        let mut sectors = self.draw_sectors(file, rng);
        let mut content = Content::clone(&file.durable);
        let mut written_end = content.len();
        for (index, event) in file.pending.iter().enumerate() {
            match &event.change {
                FileChange::Write { offset, data } => {
                    for (sector, piece) in self.pieces(*offset, data) {
                        if let Some(fate) = sectors.get_mut(&sector)
                            && fate.kept > 0
                        {
                            fate.kept -= 1;
                            content.write_at(piece.offset, piece.bytes);
                        }
                    }
                }
                FileChange::SetLen if index < len_kept => {
                    content.set_len(event.len_after);
                    written_end = written_end.min(event.len_after);
                }
                FileChange::SetLen => {}
            }
        }
        let last_len = len_kept.checked_sub(1).map(|last| file.pending[last].len_after);
        content.set_len(last_len.unwrap_or(file.durable.len()));
        if self.plan.holes == Holes::Garbage {
            self.fill_holes(&mut content, &sectors, written_end, rng);
        }
        content
    }

    /// Draws at random, for each dirty sector, how many of its writes reached the disk.
    fn draw_sectors(&self, file: &FileState, rng: &mut Rng) -> BTreeMap<u64, SectorFate> {
        let mut sectors: BTreeMap<u64, SectorFate> = BTreeMap::new();
        for event in &file.pending {
            if let FileChange::Write { offset, data } = &event.change {
                for (sector, _) in self.pieces(*offset, data) {
                    sectors.entry(sector).or_default().kept += 1;
                }
            }
        }
        for fate in sectors.values_mut() {
            fate.kept = self.how_many(fate.kept, rng);
            fate.is_lost = fate.kept == 0;
        }
        sectors
    }

    /// Returns a random number from 0 to `count`, usually 0 or `count`.
    fn how_many(&self, count: usize, rng: &mut Rng) -> usize {
        match rng.below(4) {
            0 => rng.below(count as u64 + 1) as usize,
            _ if chance(rng, self.keep_eighths) => count,
            _ => 0,
        }
    }

    fn pieces<'d>(
        &self,
        offset: u64,
        data: &'d [u8],
    ) -> impl Iterator<Item = (u64, SectorWrite<'d>)> {
        let sector_bytes = self.plan.sector_bytes;
        let mut done = 0;
        std::iter::from_fn(move || {
            let rest = &data[done..];
            if rest.is_empty() {
                return None;
            }
            let offset = offset + done as u64;
            let room = usize::try_from(sector_bytes - offset % sector_bytes).unwrap_or(usize::MAX);
            let bytes = &rest[..rest.len().min(room)];
            done += bytes.len();
            Some((offset / sector_bytes, SectorWrite { offset, bytes }))
        })
    }

    /// Fills sectors that are within the file's length but were never written.
    fn fill_holes(
        &self,
        content: &mut Content,
        sectors: &BTreeMap<u64, SectorFate>,
        written_end: u64,
        rng: &mut Rng,
    ) {
        for (sector, _) in sectors.iter().filter(|(_, fate)| fate.is_lost) {
            let start = sector * self.plan.sector_bytes;
            let end = (start + self.plan.sector_bytes).min(content.len());
            if start >= written_end && start < end {
                let garbage: Vec<u8> = (start..end).map(|_| rng.next_u64() as u8).collect();
                content.write_at(start, &garbage);
            }
        }
    }
}

impl Survivors {
    fn up_to(state: &DiskState, count: u64, torn: Option<u64>) -> Survivors {
        let seqs = state.pending_seqs();
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(seqs.len());
        let seq = count.checked_sub(1).map_or(0, |last| seqs[last]);
        let torn = torn.and_then(|sectors| Some((*seqs.get(count)?, sectors)));
        Survivors::UpTo { seq, torn }
    }
}

#[derive(Default)]
struct SectorFate {
    kept: usize,
    is_lost: bool,
}

struct SectorWrite<'d> {
    offset: u64,
    bytes: &'d [u8],
}

/// Returns the file's contents after its changes up to `seq`.
fn up_to(file: &FileState, seq: u64) -> Arc<Content> {
    let kept = file.pending.partition_point(|event| event.seq <= seq);
    if kept == file.pending.len() && !file.lost {
        return file.live.clone();
    }
    let mut content = Content::clone(&file.durable);
    for event in &file.pending[..kept] {
        if let FileChange::Write { offset, data } = &event.change {
            content.write_at(*offset, data);
        }
        content.set_len(event.len_after);
    }
    Arc::new(content)
}

/// Returns a generator whose numbers are independent of those of all other streams with the same
/// seed.
fn stream(seed: u64, stream: u64) -> Rng {
    Rng::new(seed ^ Rng::new(stream).next_u64())
}

/// Returns true with a probability of `eighths` eighths.
fn chance(rng: &mut Rng, eighths: u64) -> bool {
    rng.below(8) < eighths
}

//! The translation of the store's operations on files into steps of the model of the store.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use minikv_protocol::raft::files::{Index, Place};
use minikv_protocol::raft::replay::{Seen, Sight};
use minikv_protocol::raft::replica::Move;
use minikv_protocol::trace::record::{Event, FileOp};
use minikv_raft::store::Layout;

/// A note of the workload between operations on files.
#[derive(Clone, Debug)]
pub enum Note {
    /// The store is about to be opened.
    Opening,
    /// It is open, and this is the number of its live state.
    Opened(Sight, u64),
    /// A job is about to be queued. A batch that has the job contains these bytes.
    Queue(Move, Vec<u8>),
    /// A call is about to be made. Its first write to a write-ahead log is the step.
    Call(Move),
    /// A step without a trace in files, or one that the next operations belong to.
    Now(Move),
}

/// The operations so far, as far as the next steps depend on them.
pub struct Observer {
    dir: PathBuf,
    layout: Layout,
    notes: Vec<Note>,
    pub is_opening: bool,
    /// The number of the live state.
    live: u64,
    queue: VecDeque<Vec<u8>>,
    /// Number of jobs in the batch that is not synced.
    batch: usize,
    call: Option<Move>,
    /// The truncation or purge that is written and not synced.
    written: Option<Move>,
    /// The steps that the operations so far allow to recognize.
    done: Vec<&'static str>,
}

impl Observer {
    pub fn new(dir: &Path, layout: Layout) -> Observer {
        Observer {
            dir: dir.to_path_buf(),
            layout,
            notes: Vec::new(),
            is_opening: true,
            live: 1,
            queue: VecDeque::new(),
            batch: 0,
            call: None,
            written: None,
            done: Vec::new(),
        }
    }

    /// Adds a note. Returns its event.
    pub fn note(&mut self, note: Note) -> Event {
        self.notes.push(note);
        Event::Note(self.notes.len() - 1)
    }

    /// Forgets what the process was doing.
    pub fn crash(&mut self) {
        (self.is_opening, self.batch, self.call, self.written) = (true, 0, None, None);
        self.queue.clear();
        self.done.clear();
    }

    fn saw(&mut self, what: &'static str) {
        if !self.done.contains(&what) {
            self.done.push(what);
        }
    }

    /// Returns whether all of this was seen, and forgets it.
    fn take(&mut self, what: &[&'static str]) -> bool {
        let is_seen = what.iter().all(|what| self.done.contains(what));
        if is_seen {
            self.done.retain(|done| !what.contains(done));
        }
        is_seen
    }

    pub fn steps(&mut self, event: &Event) -> Vec<Seen> {
        let steps = match event {
            Event::Note(number) => return self.of_note(*number),
            Event::Op(op, path, true) => self.of_op(op, &path.clone()),
            _ => Vec::new(),
        };
        match self.is_opening {
            true => Vec::new(),
            false => steps.into_iter().map(Seen::Took).collect(),
        }
    }

    fn of_note(&mut self, number: usize) -> Vec<Seen> {
        match self.notes[number].clone() {
            Note::Opening => {
                self.is_opening = true;
                Vec::new()
            }
            Note::Opened(sight, live) => {
                self.done.clear();
                (self.is_opening, self.live) = (false, live);
                vec![Seen::Opened(sight)]
            }
            Note::Queue(step, mark) => {
                self.queue.push_back(mark);
                vec![Seen::Took(step)]
            }
            Note::Call(step) => {
                self.call = Some(step);
                Vec::new()
            }
            Note::Now(step) => vec![Seen::Took(step)],
        }
    }

    fn state(&self, number: u64) -> PathBuf {
        self.dir.join(format!("state-{number:06}"))
    }

    fn log_dir(&self) -> PathBuf {
        match self.layout {
            Layout::One => self.state(self.live),
            Layout::Two => self.dir.join("log"),
        }
    }

    fn of_op(&mut self, op: &FileOp, path: &Path) -> Vec<Move> {
        let is_wal = path.extension().is_some_and(|e| e == "log");
        let parent = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let is_live = parent == self.log_dir() || parent == self.state(self.live);
        match op {
            FileOp::Write(bytes) if is_wal && is_live => self.of_write(bytes, &parent),
            FileOp::Sync if is_wal && is_live => self.of_sync(&parent),
            FileOp::Sync if is_wal && parent == self.state(self.live + 1) => {
                self.saw("new log");
                Vec::new()
            }
            FileOp::Sync => self.of_file(path),
            FileOp::Rename(to) => self.of_rename(path, to),
            FileOp::SyncDir => self.of_dir(path),
            FileOp::Remove => self.of_removal(path),
            _ => Vec::new(),
        }
    }

    fn of_write(&mut self, bytes: &[u8], parent: &Path) -> Vec<Move> {
        let has = |mark: &[u8]| bytes.windows(mark.len()).any(|window| window == mark);
        if parent == self.state(self.live) && has(b"applied") {
            return self.call.take().into_iter().collect();
        }
        if parent != self.log_dir() {
            return Vec::new();
        }
        let count = self.queue.iter().take_while(|mark| has(mark)).count();
        if count > 0 {
            self.queue.drain(..count);
            self.batch = count;
            return vec![Move::Write(count)];
        }
        self.written = self.call.take();
        self.written.clone().into_iter().collect()
    }

    fn of_sync(&mut self, parent: &Path) -> Vec<Move> {
        if parent == self.log_dir() {
            if std::mem::take(&mut self.batch) > 0 {
                return vec![Move::Report];
            }
            match self.written.take() {
                Some(Move::Truncate(_)) => return vec![Move::Truncated],
                Some(Move::Purge(_)) => return vec![Move::Purged],
                _ => {}
            }
        }
        let is_described = parent == self.state(self.live) && self.take(&["described"]);
        is_described.then_some(Move::SyncState).into_iter().collect()
    }

    /// Returns the step of a sync of a file that is not a write-ahead log in use.
    fn of_file(&mut self, path: &Path) -> Vec<Move> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        match name {
            "SNAPSHOT" => self.saw("head"),
            "LIVE.new" => {
                self.saw("live file");
                let is_ready = self.take(&["new state"])
                    && (self.layout == Layout::Two || self.take(&["new log"]));
                return is_ready.then_some(Move::TakeOver).into_iter().collect();
            }
            // The model's snapshots have two files.
            _ if path.starts_with(self.dir.join("incoming"))
                && (name == "CURRENT" || name.starts_with("MANIFEST")) =>
            {
                return vec![Move::Receive];
            }
            _ => {}
        }
        Vec::new()
    }

    fn of_rename(&mut self, from: &Path, to: &Path) -> Vec<Move> {
        let is_in = |path: &Path, dir: &str| path.parent() == Some(&self.dir.join(dir));
        if from.ends_with("snapshots/building.new") {
            self.saw("published");
            return vec![Move::Publish];
        }
        if is_in(from, "incoming") && is_in(to, "snapshots") {
            self.saw("moved");
            return vec![Move::MoveIn];
        }
        if to == self.dir.join("LIVE") {
            self.live += 1;
            self.saw("live");
            return match self.take(&["live file"]) {
                true => vec![Move::SetLive],
                false => Vec::new(),
            };
        }
        // Opening the new database replaces its `CURRENT`.
        let is_known = self.done.contains(&"new state");
        if to == self.state(self.live + 1).join("CURRENT") && !is_known {
            self.saw("copied");
        }
        Vec::new()
    }

    fn of_dir(&mut self, path: &Path) -> Vec<Move> {
        let incoming = self.dir.join("incoming");
        let step = if path == self.dir.join("snapshots/building.new") && self.take(&["head"]) {
            self.saw("described");
            Some(Move::Describe)
        } else if path == self.dir.join("snapshots") && self.take(&["published"]) {
            self.take(&["described"]);
            Some(Move::Built)
        } else if path == self.dir.join("snapshots") && self.done.contains(&"moved") {
            self.saw("kept");
            None
        } else if path == incoming && self.take(&["moved", "kept"]) {
            Some(Move::MovedIn)
        } else if path == incoming && self.take(&["head", "received"]) {
            Some(Move::Finish)
        } else if path.starts_with(&incoming) && path.ends_with("db") {
            self.saw("received");
            None
        } else if path == self.state(self.live + 1) && self.take(&["copied"]) {
            self.saw("new database");
            Some(Move::CopyState)
        } else if path == self.dir && self.take(&["live"]) {
            Some(Move::Installed)
        } else if path == self.dir && self.take(&["new database"]) {
            self.saw("new state");
            Some(Move::NameState)
        } else {
            None
        };
        step.into_iter().collect()
    }

    /// Returns the step of the first removal in a directory that is no longer used.
    fn of_removal(&mut self, path: &Path) -> Vec<Move> {
        if path.ends_with("CURRENT") && path.starts_with(self.dir.join("snapshots")) {
            let is_building = path.starts_with(self.dir.join("snapshots/building.new"));
            return (!is_building).then_some(Move::Remove(Place::Kept(0))).into_iter().collect();
        }
        let is_state = path.parent().is_some_and(|dir| dir.parent() == Some(&self.dir));
        let is_old = path.parent() != Some(&self.state(self.live))
            && path.parent() != Some(&self.dir.join("log"));
        match path.ends_with("CURRENT") && is_state && is_old {
            true => vec![Move::Remove(Place::State(0))],
            false => Vec::new(),
        }
    }
}

/// Returns the index of the model for an index of openraft, which begins with zero.
pub fn model_index(index: u64) -> Index {
    Index::try_from(index + 1).expect("short logs")
}

//! Traces of the store, held to the model in `tests/protocol/src/raft`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use minikv::Readable;
use minikv::fs::sim::CrashPlan;
use minikv::fs::{Fs, SimFs};
use minikv_protocol::raft::files::Entry as ModelEntry;
use minikv_protocol::raft::laws::Laws;
use minikv_protocol::raft::replay::{Seen, Sight, replay_node};
use minikv_protocol::raft::replica::Move;
use minikv_protocol::trace::record::RecordingFs;
use minikv_raft::command::{Command, Op, Request};
use minikv_raft::kv::{Kv, TypeConfig};
use minikv_raft::requests::Requests;
use minikv_raft::store::{Layout, LogStore, StateMachine, Store, StoreOptions};
use minikv_raft::watch::Hub;
use openraft::storage::{
    RaftLogReaderExt, RaftLogStorage, RaftLogStorageExt, RaftStateMachine, StorageHelper,
};
use openraft::{Entry, EntryPayload, RaftSnapshotBuilder, Vote};

use crate::common::{LAYOUTS, Opened, id};
use crate::observed::{Note, Observer, model_index};

const NODE: &str = "/node";

/// A small generator of random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Text that only this entry contains.
fn mark(term: u64, index: u64) -> String {
    format!("entry {term:03}/{index:03};")
}

fn entry(term: u64, index: u64) -> Entry<TypeConfig> {
    let (key, value) = (Bytes::from(format!("{index:03}")), Some(mark(term, index).into()));
    let command = Command::Write { conditions: Vec::new(), ops: vec![Op { key, value }] };
    let payload = EntryPayload::Normal(Requests::new(&[Request { id: None, command }]));
    Entry { log_id: id(term, index), payload }
}

fn open(fs: Arc<dyn minikv::fs::Fs>, layout: Layout) -> Opened {
    let database = minikv::Options::default().preallocate_logs(false);
    let store =
        Store::open(Path::new(NODE), StoreOptions { database, layout: Some(layout), fs }).unwrap();
    let log = match layout {
        Layout::One => LogStore::new(store.clone()).unwrap(),
        Layout::Two => LogStore::pipelined(store.clone()).unwrap(),
    };
    let machine = StateMachine::new(store.clone(), Kv::new(Arc::new(Hub::new(0))));
    (store, log, machine)
}

/// A node whose operations are recorded, through crashes.
struct Session {
    random: Random,
    layout: Layout,
    sim: SimFs,
    /// Number of operations before this process.
    began: u64,
    recorder: RecordingFs,
    observer: Observer,
    trace: Vec<Seen>,
    /// The terms of the entries that the cluster has committed.
    chosen: Vec<u64>,
    vote: u64,
    /// The terms of the entries from index `first` on.
    first: u64,
    log: Vec<u64>,
    /// Number of applied entries, and of those in the current snapshot.
    applied: u64,
    snapshot: u64,
}

impl Session {
    fn new(seed: u64, layout: Layout) -> Session {
        let sim = SimFs::new(seed);
        // The model begins with a node that exists.
        drop(open(Arc::new(sim.clone()), layout));
        sim.sync_all();
        sim.record_history();
        let recorder = RecordingFs::new(sim.clone());
        let observer = Observer::new(Path::new(NODE), layout);
        Session {
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            layout,
            sim,
            began: 0,
            recorder,
            observer,
            trace: Vec::new(),
            chosen: Vec::new(),
            vote: 0,
            first: 0,
            log: Vec::new(),
            applied: 0,
            snapshot: 0,
        }
    }

    fn note(&mut self, note: Note) {
        let event = self.observer.note(note);
        self.recorder.add(event);
    }

    fn next(&self) -> u64 {
        self.first + self.log.len() as u64
    }

    /// Opens the store as openraft does, and takes note of what it finds.
    async fn open(&mut self) -> Opened {
        self.began = self.sim.op_count();
        self.note(Note::Opening);
        let (store, mut log, mut machine) = open(Arc::new(self.recorder.clone()), self.layout);
        let vote = log.read_vote().await.unwrap();
        self.vote = vote.map_or(0, |vote| vote.leader_id.term);
        let state = log.get_log_state().await.unwrap();
        let entries = log.get_log_entries(..).await.unwrap();
        let (applied, _) = machine.applied_state().await.unwrap();
        let snapshot = machine.get_current_snapshot().await.unwrap();
        let count = |id: Option<openraft::LogId<u64>>| id.map_or(0, |id| id.index + 1);
        self.first = count(state.last_purged_log_id);
        self.log = entries.iter().map(|entry| entry.log_id.leader_id.term).collect();
        self.applied = count(applied);
        self.snapshot = count(snapshot.and_then(|snapshot| snapshot.meta.last_log_id));
        let data: Vec<_> = store.state().data().iter().map(|e| e.unwrap().1).collect();
        let expected = (0..).zip(&self.chosen).take(self.applied as usize);
        let expected: Vec<_> = expected.map(|(index, term)| mark(*term, index)).collect();
        assert_eq!(data, expected, "the state after {} entries", self.applied);
        let sight = Sight {
            vote: self.vote as u8,
            log: (self.first..).map(model_index).zip(self.log.iter().map(|t| *t as u8)).collect(),
            purged: self.first as u8,
            applied: self.applied as u8,
            snapshot: self.snapshot as u8,
        };
        self.note(Note::Opened(sight, self.live_state()));
        let last =
            self.log.last().map_or(state.last_purged_log_id, |t| Some(id(*t, self.next() - 1)));
        if last < applied {
            self.purge(&mut log, self.applied).await;
        }
        let mut helper = StorageHelper::<TypeConfig, _, _>::new(&mut log, &mut machine);
        if self.log.is_empty() {
            helper.get_initial_state().await.unwrap();
        }
        (store, log, machine)
    }

    /// Returns the number of the live state on the disk. A loss of power may have taken back the
    /// change of it, and the open may have made it again.
    fn live_state(&self) -> u64 {
        let file = self.sim.open(&Path::new(NODE).join("LIVE")).unwrap();
        let mut content = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut content, 0).unwrap();
        let content = String::from_utf8_lossy(&content).into_owned();
        let (_, number) = content.split_once("state-").expect("the name of a state");
        number[..6].parse().expect("a number")
    }

    async fn save_vote(&mut self, log: &mut LogStore<TypeConfig>) {
        let vote = self.vote + 1;
        self.note(Note::Queue(Move::SaveVote(vote as u8), b"vote".to_vec()));
        log.save_vote(&Vote::new(vote, 1)).await.unwrap();
        self.vote = vote;
    }

    /// Truncates entries that the cluster has not committed, up to the last one.
    async fn truncate(&mut self, log: &mut LogStore<TypeConfig>, from: u64) {
        self.note(Note::Call(Move::Truncate(model_index(from))));
        log.truncate(id(self.vote, from)).await.unwrap();
        self.log.truncate((from - self.first) as usize);
    }

    async fn truncate_contradictions(&mut self, log: &mut LogStore<TypeConfig>) {
        let contradicts = |index: &u64| {
            let chosen = self.chosen.get(*index as usize);
            chosen.is_some_and(|chosen| *chosen != self.log[(*index - self.first) as usize])
        };
        if let Some(from) = (self.first..self.next()).find(contradicts) {
            self.truncate(log, from).await;
        }
    }

    async fn append(&mut self, opened: &mut Opened) {
        self.truncate_contradictions(&mut opened.1).await;
        let (next, count) = (self.next(), 1 + self.random.below(2));
        let term = |index: u64| self.chosen.get(index as usize).copied().unwrap_or(self.vote);
        let new: Vec<_> = (next..next + count).map(|index| (term(index), index)).collect();
        let entries = new
            .iter()
            .map(|(term, index)| ModelEntry { term: *term as u8, index: model_index(*index) });
        let last = new[new.len() - 1];
        let step = Move::Append(entries.collect());
        self.note(Note::Queue(step, mark(last.0, last.1).into_bytes()));
        let entries = new.iter().map(|(term, index)| entry(*term, *index));
        opened.1.blocking_append(entries).await.unwrap();
        self.log.extend(new.iter().map(|(term, _)| term));
        if self.random.below(2) == 0 {
            opened.0.log_durable().await.unwrap();
        }
    }

    async fn apply(&mut self, opened: &mut Opened) {
        self.truncate_contradictions(&mut opened.1).await;
        if self.next() <= self.applied {
            return;
        }
        let upto = self.applied + 1 + self.random.below(self.next() - self.applied);
        let upto = upto.min(self.next());
        if upto == self.applied {
            return;
        }
        let entries = (self.applied..upto).map(|i| (self.log[(i - self.first) as usize], i));
        let entries: Vec<_> = entries.map(|(term, index)| entry(term, index)).collect();
        for index in self.chosen.len() as u64..upto {
            self.chosen.push(self.log[(index - self.first) as usize]);
        }
        opened.1.save_committed(entries.last().map(|entry| entry.log_id)).await.unwrap();
        self.note(Note::Call(Move::Apply(model_index(upto - 1))));
        opened.2.apply(entries).await.unwrap();
        self.applied = upto;
    }

    async fn build(&mut self, opened: &mut Opened) {
        if self.applied > self.snapshot {
            self.note(Note::Now(Move::Build));
            opened.2.build_snapshot().await.unwrap();
            self.snapshot = self.applied;
        }
    }

    /// Purges the entries before the one with the index `end`.
    async fn purge(&mut self, log: &mut LogStore<TypeConfig>, end: u64) {
        self.note(Note::Call(Move::Purge(model_index(end - 1))));
        log.purge(id(self.chosen[end as usize - 1], end - 1)).await.unwrap();
        self.log.drain(..self.log.len().min((end - self.first) as usize));
        self.first = end;
    }

    /// Receives a snapshot, sometimes only a part of it, and sometimes installs it.
    async fn receive(&mut self, opened: &mut Opened) {
        let end = self.applied + 1 + self.random.below(4);
        // The leader is another node, in a term in which this one has appended nothing.
        self.save_vote(&mut opened.1).await;
        while (self.chosen.len() as u64) < end {
            self.chosen.push(self.vote);
        }
        let (_store, _log, mut leader) = open(Arc::new(SimFs::new(1)), self.layout);
        let chosen = (0..end).map(|index| entry(self.chosen[index as usize], index));
        leader.apply(chosen).await.unwrap();
        let snapshot = leader.build_snapshot().await.unwrap();
        let (name, files) = (&snapshot.meta.snapshot_id, snapshot.snapshot.files().unwrap());
        let fate = self.random.below(6);
        self.note(Note::Now(Move::Offer(end as u8)));
        let mut at = opened.0.offer_snapshot(name, files.clone()).unwrap();
        while let Some(file) = files.get(at.file) {
            let mut chunk = vec![0; (file.bytes - at.offset) as usize];
            snapshot.snapshot.read_at(&file.name, &mut chunk, at.offset).unwrap();
            at = opened.0.add_chunk(name, at, &chunk).unwrap();
            if fate == 0 {
                return;
            }
        }
        let received = opened.0.finish_transfer(&snapshot.meta).unwrap();
        if fate == 1 {
            return;
        }
        self.prepare(opened).await;
        let last = id(self.chosen[end as usize - 1], end - 1);
        let (received, log, machine) = (Box::new(received), &mut opened.1, &mut opened.2);
        self.note(Note::Call(Move::Purge(model_index(end - 1))));
        match fate {
            2 => {
                log.purge(last).await.unwrap();
                machine.install_snapshot(&snapshot.meta, received).await.unwrap();
            }
            3 => {
                machine.install_snapshot(&snapshot.meta, received).await.unwrap();
                log.purge(last).await.unwrap();
            }
            _ => {
                let install = machine.install_snapshot(&snapshot.meta, received);
                let (purged, installed) = tokio::join!(log.purge(last), install);
                purged.and(installed).unwrap();
            }
        }
        self.log.drain(..self.log.len().min((end - self.first) as usize));
        (self.first, self.applied, self.snapshot) = (end, end, end);
    }

    /// Takes the steps before openraft asks for an installation.
    async fn prepare(&mut self, opened: &mut Opened) {
        self.truncate_contradictions(&mut opened.1).await;
        opened.0.log_durable().await.unwrap();
        self.note(Note::Now(Move::Install));
    }

    async fn step(&mut self, opened: &mut Opened) {
        match self.random.below(20) {
            0 | 1 => self.save_vote(&mut opened.1).await,
            2 | 3 if self.next() > self.first.max(self.chosen.len() as u64) => {
                let least = self.first.max(self.chosen.len() as u64);
                let from = least + self.random.below(self.next() - least);
                self.truncate_contradictions(&mut opened.1).await;
                if from < self.next() {
                    self.truncate(&mut opened.1, from).await;
                }
            }
            4 => self.build(opened).await,
            5 | 6 if self.snapshot > self.first => {
                opened.0.log_durable().await.unwrap();
                let end = self.first + 1 + self.random.below(self.snapshot - self.first);
                self.purge(&mut opened.1, end).await;
            }
            7 => self.receive(opened).await,
            8..=11 => self.apply(opened).await,
            _ => self.append(opened).await,
        }
    }

    /// Ends the process: it is killed, or loses power, after any operation.
    async fn end(&mut self, opened: Opened) {
        opened.0.log_durable().await.unwrap();
        let ops = self.sim.op_count();
        let events = self.recorder.finish();
        let last = match self.random.below(3) {
            0 => ops,
            _ => self.began + self.random.below(ops - self.began + 1),
        };
        let is_kill = self.random.below(3) == 0;
        let plan = match self.random.below(3) {
            _ if is_kill => CrashPlan::process_kill(),
            0 => CrashPlan::strict(),
            _ => CrashPlan::random(self.random.below(1 << 30)),
        };
        let image = self.sim.crash_image(&plan.at_op(last));
        for (at, event) in &events {
            if *at <= last {
                self.trace.extend(self.observer.steps(event));
            }
        }
        match is_kill {
            false => self.trace.push(Seen::LostPower),
            true if self.observer.is_opening => {}
            true => self.trace.push(Seen::Took(Move::Stop)),
        }
        self.observer.crash();
        drop(opened);
        let chosen = self.trace.iter().map(|seen| match seen {
            Seen::Took(Move::Apply(end) | Move::Offer(end)) => usize::from(*end),
            _ => 0,
        });
        self.chosen.truncate(chosen.max().unwrap_or(0));
        self.sim = image;
        self.sim.record_history();
        self.recorder = RecordingFs::new(self.sim.clone());
    }
}

/// Returns the trace of a random workload with several processes, one after the other.
async fn random_trace(seed: u64, layout: Layout) -> Vec<Seen> {
    let mut session = Session::new(seed, layout);
    for _ in 0..4 {
        let mut opened = session.open().await;
        if session.vote == 0 {
            session.save_vote(&mut opened.1).await;
        }
        for _ in 0..15 + session.random.below(15) {
            session.step(&mut opened).await;
        }
        session.end(opened).await;
    }
    // The last crash counts, too.
    session.open().await;
    for (_, event) in session.recorder.finish() {
        session.trace.extend(session.observer.steps(&event));
    }
    session.trace
}

fn laws(layout: Layout) -> Laws {
    let has_two = layout == Layout::Two;
    Laws { has_two, is_ahead: has_two, breach: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_trace_of_the_store_is_one_that_the_model_allows() {
    let count: u64 = std::env::var("MINIKV_RAFT_TRACES").map_or(40, |n| n.parse().unwrap());
    let first: u64 = std::env::var("MINIKV_SEED").map_or(1, |n| n.parse().unwrap());
    let (mut steps, mut losses, mut installs, mut purges, mut builds) = (0, 0, 0, 0, 0);
    for seed in first..first + count {
        let layout = LAYOUTS[(seed % 2) as usize];
        let trace = random_trace(seed, layout).await;
        if let Err((at, why)) = replay_node(&laws(layout), &trace) {
            trace[at.saturating_sub(30)..=at].iter().for_each(|seen| println!("  {seen:?}"));
            panic!("MINIKV_SEED={seed} MINIKV_RAFT_TRACES=1, {layout:?}, step {at}: {why}");
        }
        let of = |wanted: fn(&Seen) -> bool| trace.iter().filter(|seen| wanted(seen)).count();
        steps += trace.len();
        losses += of(|seen| *seen == Seen::LostPower);
        installs += of(|seen| *seen == Seen::Took(Move::Installed));
        purges += of(|seen| *seen == Seen::Took(Move::Purged));
        builds += of(|seen| *seen == Seen::Took(Move::Built));
    }
    println!(
        "{count} traces of {steps} steps are allowed, with {losses} losses of power, {installs} \
        installed snapshots, {builds} own snapshots and {purges} purges"
    );
    assert!(count < 40 || losses > 40 && installs > 20 && builds > 20 && purges > 40);
}

/// Returns the name of a step without its numbers.
fn name_of(seen: &Seen) -> String {
    let Seen::Took(step) = seen else { return String::new() };
    let text = format!("{step:?}");
    text.split(['(', ' ']).next().unwrap_or("").to_string()
}

/// The steps that are refused in their absence somewhere in a trace.
const NEEDED: [&str; 22] = [
    "SaveVote",
    "Append",
    "Write",
    "Report",
    "Truncate",
    "Truncated",
    "Purge",
    "Purged",
    "Apply",
    "Build",
    "Describe",
    "Publish",
    "Built",
    "Offer",
    "Receive",
    "Finish",
    "Install",
    "MoveIn",
    "MovedIn",
    "CopyState",
    "SetLive",
    "Installed",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_trace_of_the_store_is_refused() {
    let mut left_out: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    let (mut exchanged, mut pairs) = (0, 0);
    for seed in 1..5 {
        let layout = LAYOUTS[(seed % 2) as usize];
        let trace = random_trace(seed, layout).await;
        for at in 0..trace.len() - 1 {
            let Seen::Took(_) = &trace[at] else { continue };
            let mut changed = trace.clone();
            changed.remove(at);
            let is_refused = replay_node(&laws(layout), &changed).is_err();
            let counts = left_out.entry(name_of(&trace[at])).or_default();
            *(if is_refused { &mut counts.0 } else { &mut counts.1 }) += 1;
            if matches!(trace[at + 1], Seen::Took(_)) && trace[at] != trace[at + 1] {
                let mut changed = trace.clone();
                changed.swap(at, at + 1);
                pairs += 1;
                exchanged += u32::from(replay_node(&laws(layout), &changed).is_err());
            }
        }
    }
    let (mut refused, mut allowed) = (0, 0);
    for (name, counts) in &left_out {
        println!("without {name}: refused {} times, allowed {}", counts.0, counts.1);
        (refused, allowed) = (refused + counts.0, allowed + counts.1);
    }
    println!("a step left out: {refused} refused, {allowed} allowed");
    println!("two steps exchanged: {exchanged} of {pairs} refused");
    for name in NEEDED {
        assert!(left_out.get(name).is_some_and(|counts| counts.0 > 0), "{name} is not needed");
    }
    assert!(exchanged > pairs / 2 && refused > allowed);
}

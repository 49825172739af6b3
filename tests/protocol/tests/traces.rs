//! Traces of the library, held to the model.

use std::path::Path;

use minikv::fs::sim::{CrashPlan, Fault, OpKind, SimFs};
use minikv::{Compression, Db, Options, WriteOptions};
use minikv_protocol::disk::{Id, Name, Record};
use minikv_protocol::rules::Rules;
use minikv_protocol::state::Action;
use minikv_protocol::trace::decode::{mark, marks};
use minikv_protocol::trace::record::{Event, RecordingFs};
use minikv_protocol::trace::replay::replay;
use minikv_protocol::trace::translate::{Step, Translator};
use minikv_support::rng::Rng;

const DIR: &str = "/db";

/// A database whose operations are recorded, through crashes and failures.
struct Session {
    rng: Rng,
    sim: SimFs,
    recorder: RecordingFs,
    translator: Translator,
    trace: Vec<Step>,
    next_id: Id,
    /// Whether background work is done by threads, and not by the writer.
    threads: bool,
}

impl Session {
    fn new(seed: u64, threads: bool) -> Session {
        let sim = SimFs::new(seed);
        sim.record_history();
        let recorder = RecordingFs::new(sim.clone());
        let rng = Rng::new(seed);
        let (translator, trace) = Default::default();
        Session { rng, sim, recorder, translator, trace, next_id: 1, threads }
    }

    fn options(&mut self) -> Options {
        let inline = (!self.threads).then(|| self.rng.next());
        Options::default()
            .create_if_missing(true)
            .compression(Compression::None)
            .preallocate_logs(false)
            .write_buffer_bytes(4 << 10)
            .manifest_rotate_bytes(400)
            .inline_background(inline)
            .fs(self.recorder.clone())
    }

    fn open(&mut self) -> Option<Db> {
        self.recorder.add(Event::Open);
        let opened = Db::open(DIR, self.options());
        self.recorder.add(Event::Opened(opened.is_ok()));
        opened.ok()
    }

    /// Writes a batch of one or two entries.
    fn put(&mut self, db: &Db) {
        let (id, sync) = (self.next_id, self.rng.one_in(3));
        self.next_id += 1;
        let mut batch = minikv::WriteBatch::new();
        let value = mark(id).repeat(1 + self.rng.below(60));
        batch.put(format!("{id:06}a"), &value);
        if self.rng.one_in(4) {
            batch.put(format!("{id:06}b"), &value);
        }
        let written = db.writing(WriteOptions::default().sync(sync)).write(batch);
        self.recorder.add(Event::Written(sync, written.is_ok()));
    }

    fn read(&mut self, db: &Db) {
        let values = db.iter().map(|entry| entry.expect("no damage").1);
        let mut ids: Vec<Id> = values.flat_map(|value| marks(&value)).collect();
        ids.dedup();
        self.recorder.add(Event::Read(ids));
    }

    /// Takes one step with the database.
    fn step(&mut self, db: &Db, faults: bool) {
        match self.rng.below(24) {
            0 => drop(db.flush()),
            1 => drop(db.compact_range(..)),
            2 if db.sync().is_ok() => self.recorder.add(Event::Synced),
            3 => self.read(db),
            4 if faults => {
                let paths = ["*.log", "*.ldb", "*MANIFEST*", "*.dbtmp", "*"];
                let fault = match self.rng.below(4) {
                    0 => Fault::io_error().on(&[OpKind::Sync, OpKind::SyncDir, OpKind::Rename]),
                    1 => Fault::io_error().on(&[OpKind::Create, OpKind::Remove]),
                    _ => Fault::lost_sync(),
                };
                let path = *self.rng.pick(&paths);
                self.sim.inject(fault.path(path));
            }
            5 => {
                self.sim.clear_faults();
                if db.resume().is_ok() {
                    self.recorder.add(Event::Resumed);
                }
            }
            _ => self.put(db),
        }
    }

    /// Works with the database for a while. Sometimes a reader holds a version meanwhile.
    fn work(&mut self, db: &Db, steps: usize, faults: bool) {
        let mut held = None;
        for step in 0..steps {
            if step == steps / 4 && self.rng.one_in(2) {
                // Otherwise a version that a thread is about to show may be durable already: the
                // trace does not tell which of the two the reader holds.
                if self.threads {
                    db.wait_idle().expect("no failures");
                }
                held = Some(db.iter());
                self.recorder.add(Event::Holds(true));
            }
            if step == steps / 2 && held.is_some() {
                self.recorder.add(Event::Holds(false));
                held = None;
            }
            self.step(db, faults);
        }
        if held.is_some() {
            self.recorder.add(Event::Holds(false));
        }
    }

    /// Returns the steps of the events so far, and begins anew on the same filesystem.
    fn take_events(&mut self) -> Vec<Step> {
        let events = self.recorder.finish();
        self.recorder = RecordingFs::new(self.sim.clone());
        let mut steps = |(_, event)| self.translator.steps(&event, Path::new(DIR));
        events.into_iter().flat_map(|event| steps(event).expect("events are known")).collect()
    }

    /// Ends the process: it closes the database, is killed, or loses power after any operation.
    fn end(&mut self, db: Option<Db>) {
        self.sim.clear_faults();
        let ops = self.sim.op_count();
        let last = match self.rng.below(3) {
            0 => {
                if let Some(db) = db {
                    self.recorder.add(Event::Holds(false));
                    let closed = db.close();
                    if closed.is_ok() {
                        self.recorder.add(Event::Synced);
                    }
                    self.recorder.add(Event::Stop);
                }
                None
            }
            1 => Some(ops),
            _ => Some(self.rng.below(ops as usize) as u64 + 1),
        };
        let events = self.recorder.finish();
        let kill = self.rng.one_in(4);
        let plan = match last {
            None => CrashPlan::process_kill(),
            Some(_) if kill => CrashPlan::process_kill(),
            Some(_) if self.rng.one_in(4) => CrashPlan::strict(),
            Some(_) => CrashPlan::random(self.rng.next() >> 32),
        };
        let plan = last.map_or(plan.clone(), |op| plan.clone().at_op(op));
        let image = self.sim.crash_image(&plan);
        for (at, event) in events {
            // An event is between two operations, or it is an operation itself.
            if last.is_none_or(|last| at <= last) {
                let steps = self.translator.steps(&event, Path::new(DIR));
                self.trace.extend(steps.expect("events are known"));
            }
        }
        let is_over = matches!(self.trace.last(), Some(Step::Do(action))
            if *action == Action::Stop);
        match last {
            Some(_) if !kill => {
                let loss = self.translator.power_loss(&image, Path::new(DIR));
                self.trace.push(loss.expect("an image can be read"));
            }
            _ if is_over => {}
            _ => self.trace.push(Step::Do(Action::Stop)),
        }
        self.sim = image;
        self.sim.record_history();
        self.recorder = RecordingFs::new(self.sim.clone());
    }
}

/// Returns the trace of a random workload with several processes, one after the other.
fn random_trace(seed: u64, threads: bool) -> Vec<Step> {
    let mut session = Session::new(seed, threads);
    for life in 0..4 {
        let db = session.open();
        if let Some(db) = &db {
            let steps = 10 + session.rng.below(60);
            session.read(db);
            session.work(db, steps, life > 0 && seed % 2 == 1);
        }
        session.end(db);
    }
    session.trace
}

/// Replays a trace.
///
/// # Panics
/// If the model does not allow it. The message has the steps before the one that is not allowed.
fn check(name: &str, trace: &[Step]) {
    if let Err(refused) = replay(&Rules::default(), trace) {
        for step in &trace[refused.at.saturating_sub(40)..refused.at] {
            println!("  {step:?}");
        }
        panic!("{name}: {refused}");
    }
}

#[test]
fn every_trace_is_one_that_the_model_allows() {
    let count: u64 = std::env::var("MINIKV_TRACES").map_or(40, |n| n.parse().expect("a number"));
    let first = minikv_support::rng::seed();
    let (mut steps, mut losses, mut failures, mut switches, mut removed) = (0, 0, 0, 0, 0);
    for seed in first..first + count {
        let trace = random_trace(seed, seed % 4 == 0);
        check(&format!("MINIKV_SEED={seed} MINIKV_TRACES=1"), &trace);
        let of = |wanted: fn(&Step) -> bool| trace.iter().filter(|step| wanted(step)).count();
        steps += trace.len();
        losses += of(|step| matches!(step, Step::PowerLoss { .. }));
        failures += of(|step| matches!(step, Step::Do(Action::SyncFails(_))));
        switches += of(|step| matches!(step, Step::Do(Action::Rename(_))));
        removed += of(|step| matches!(step, Step::Do(Action::Remove(_))));
    }
    println!(
        "{count} traces of {steps} steps are allowed, with {losses} losses of power, {failures} \
        failed syncs, {switches} new MANIFESTs and {removed} removed files"
    );
    if count >= 40 {
        assert!(losses > 20 && failures > 5 && switches > 100 && removed > 200);
    }
}

/// Returns the trace of a workload without failures, with a new MANIFEST, a compaction, and a
/// second process.
fn plain_trace() -> Vec<Step> {
    let mut session = Session::new(7, false);
    for _ in 0..2 {
        let db = session.open().expect("nothing fails");
        (0..30).for_each(|_| session.put(&db));
        db.flush().expect("nothing fails");
        (0..30).for_each(|_| session.put(&db));
        db.compact_range(..).expect("nothing fails");
        session.put(&db);
        session.read(&db);
        drop(db);
        let steps = session.take_events();
        session.trace.extend(steps);
        session.trace.push(Step::Do(Action::Stop));
    }
    session.trace
}

/// A change of a trace at a step. Returns `None` if the step is not one to change.
type Change = fn(&[Step], usize) -> Option<Vec<Step>>;

/// Returns the trace without a step.
fn without(trace: &[Step], at: usize) -> Vec<Step> {
    [&trace[..at], &trace[at + 1..]].concat()
}

/// Returns the trace with the first step after `at` that `is_wanted` moved to before `at`.
fn with_early(trace: &[Step], at: usize, is_wanted: fn(&Action) -> bool) -> Option<Vec<Step>> {
    let wanted = |step: &Step| matches!(step, Step::Do(action) if is_wanted(action));
    let from = at + trace[at..].iter().position(wanted)?;
    let mut changed = trace.to_vec();
    changed[at..=from].rotate_right(1);
    Some(changed)
}

fn action(trace: &[Step], at: usize) -> Option<&Action> {
    match &trace[at] {
        Step::Do(action) => Some(action),
        _ => None,
    }
}

/// Returns whether the step appends an edit that does more than move tables to other levels.
/// Nothing depends on an edit that only moves tables.
fn is_edit(step: Option<&Action>) -> bool {
    match step {
        Some(Action::Append(Name::Manifest(_), Record::Edit(edit))) => {
            edit.adds.iter().any(|table| !edit.drops.contains(table))
        }
        _ => false,
    }
}

/// Changes of traces. Each is refused wherever it applies.
const CHANGES: [(&str, Change); 12] = [
    ("a table is not synced", |trace, at| match action(trace, at)? {
        Action::Sync(Name::Table(_)) => Some(without(trace, at)),
        _ => None,
    }),
    ("the name of a table is not synced", |trace, at| {
        let is_synced = matches!(action(trace, at - 1)?, Action::Sync(Name::Table(_)));
        let is_named = matches!(action(trace, at + 1)?, Action::Append(Name::Manifest(_), _));
        match action(trace, at)? {
            Action::SyncDir if is_synced && is_named => Some(without(trace, at)),
            _ => None,
        }
    }),
    ("the MANIFEST is not synced", |trace, at| match action(trace, at)? {
        Action::Sync(Name::Manifest(_)) if is_edit(action(trace, at - 1)) => {
            Some(without(trace, at))
        }
        _ => None,
    }),
    ("a log is not synced before the promise", |trace, at| {
        let is_promise = matches!(action(trace, at + 1)?, Action::Acknowledge { sync: true });
        match action(trace, at)? {
            Action::Sync(Name::Log(_)) if is_promise => Some(without(trace, at)),
            _ => None,
        }
    }),
    ("CURRENT is not synced", |trace, at| match action(trace, at)? {
        Action::Sync(Name::Temp(_)) => Some(without(trace, at)),
        _ => None,
    }),
    ("CURRENT is renamed before the directory is synced", |trace, at| {
        let is_synced =
            matches!(action(trace, at.checked_sub(1)?)?, Action::Sync(Name::Manifest(_)));
        match action(trace, at)? {
            Action::SyncDir if is_synced => Some(without(trace, at)),
            _ => None,
        }
    }),
    ("the rename is not synced", |trace, at| {
        let is_renamed = matches!(action(trace, at.checked_sub(1)?)?, Action::Rename(_));
        match action(trace, at)? {
            Action::SyncDir if is_renamed => Some(without(trace, at)),
            _ => None,
        }
    }),
    ("an edit is lost", |trace, at| is_edit(action(trace, at)).then(|| without(trace, at))),
    ("a log is removed before the edit that frees it", |trace, at| match action(trace, at)? {
        Action::Append(Name::Manifest(_), Record::Edit(edit))
            if !edit.adds.is_empty() && edit.drops.is_empty() =>
        {
            with_early(trace, at, |action| matches!(action, Action::Remove(Name::Log(_))))
        }
        _ => None,
    }),
    ("a table is removed before the edit that drops it", |trace, at| match action(trace, at)? {
        Action::Append(Name::Manifest(_), Record::Edit(edit))
            if edit.drops.iter().any(|table| !edit.adds.contains(table)) =>
        {
            with_early(trace, at, |action| matches!(action, Action::Remove(Name::Table(_))))
        }
        _ => None,
    }),
    ("a record of a log is lost", |trace, at| match action(trace, at)? {
        Action::Append(Name::Log(_), _) => Some(without(trace, at)),
        _ => None,
    }),
    ("a sync of a log fails, and the write is acknowledged", |trace, at| {
        let mut changed = trace.to_vec();
        match action(trace, at)? {
            Action::Sync(Name::Log(log)) => {
                changed[at] = Step::Do(Action::SyncFails(Name::Log(*log)));
                matches!(action(trace, at + 1)?, Action::Acknowledge { .. }).then_some(changed)
            }
            _ => None,
        }
    }),
];

#[test]
fn a_changed_trace_is_refused() {
    let trace = plain_trace();
    check("the trace as it is", &trace);
    for (name, change) in CHANGES {
        let mut refused = 0;
        for at in 1..trace.len() - 1 {
            let Some(changed) = change(&trace, at) else { continue };
            if replay(&Rules::default(), &changed).is_ok() {
                let around = &trace[at.saturating_sub(8)..(at + 8).min(trace.len())];
                panic!("allowed: {name}, at step {at} in {around:#?}");
            }
            refused += 1;
        }
        println!("{name}: refused {refused} times");
        assert!(refused > 0, "{name} never applies");
    }
}

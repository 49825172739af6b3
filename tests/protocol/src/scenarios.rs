//! The explorations: where they begin, and how much may happen in them.

use crate::disk::{Edit, Id, Name, Record, Seq};
use crate::model::{
    FREES, HOLDS, INVARIANTS, LEAVES_OUT, LOSES, MERGES, Protocol, REOPENS, RESUMES,
};
use crate::moves::creation;
use crate::rules::Rules;
use crate::state::{Action, Spent, State};
use crate::step::step;

/// Nothing at all.
const NONE: Spent = Spent {
    writes: 0,
    logs: 0,
    tables: 0,
    manifests: 0,
    pins: 0,
    faults: 0,
    kills: 0,
    losses: 0,
    next_id: 0 as Id,
};

/// The bounds of a process that opens the database after a crash.
const REOPENING: Spent = Spent { writes: 1, logs: 1, tables: 1, manifests: 1, ..NONE };

/// Returns the state of a database that has been created and opened.
///
/// # Panics
/// If the rules do not allow the usual steps.
pub fn running() -> State {
    creation().iter().fold(State::new(), |state, action| {
        step(&Rules::default(), &state, action).unwrap_or_else(|why| panic!("{action:?}: {why}"))
    })
}

/// Returns the state of a database that has flushed two tables with one write each.
fn with_two_tables() -> State {
    let mut state = running();
    for (id, log, next_log, table) in [(1, 2, 4, 5), (2, 4, 6, 7)] {
        let seq = Seq::from(id);
        let (next_log_name, table_name) = (Name::Log(next_log), Name::Table(table));
        let (next, last) = (Some(table + 1), Some(seq));
        let edit = Edit { log: Some(next_log), next, last, drops: Vec::new(), adds: vec![table] };
        let steps = [
            Action::Append(Name::Log(log), Record::Write(id, seq, seq)),
            Action::Acknowledge { sync: false },
            Action::Create(next_log_name),
            Action::Append(next_log_name, Record::Begin(seq + 1)),
            Action::Create(table_name),
            Action::Append(table_name, Record::Entries(vec![id])),
            Action::Sync(table_name),
            Action::SyncDir,
            Action::Append(Name::Manifest(3), Record::Edit(edit)),
            Action::Sync(Name::Manifest(3)),
            Action::Show,
            Action::Remove(Name::Log(log)),
            Action::SyncDir,
        ];
        state = steps.iter().fold(state, |state, action| {
            let after = step(&Rules::default(), &state, action);
            after.unwrap_or_else(|why| panic!("{action:?}: {why}"))
        });
        state.spent.next_id = id;
    }
    state
}

/// A name and an exploration.
pub type Scenario = (&'static str, Protocol);

fn scenario(name: &'static str, most: Spent, sometimes: &[&'static str]) -> Scenario {
    let protocol = Protocol {
        rules: Rules::default(),
        most,
        later: REOPENING,
        eager: true,
        start: running(),
        always: INVARIANTS.to_vec(),
        sometimes: sometimes.to_vec(),
    };
    (name, protocol)
}

/// Returns the explorations. The long ones have larger bounds, and there are more of them.
pub fn scenarios(long: bool) -> Vec<Scenario> {
    let more = u8::from(long);
    let flush = Spent { writes: 2, logs: 1, tables: 1, losses: 2, ..NONE };
    let rotation = Spent { writes: 2 + more, logs: 2, losses: 1, tables: more, ..NONE };
    let switch = Spent { writes: 1, logs: 1, tables: more, manifests: 1, losses: 1 + more, ..NONE };
    let failure = Spent { writes: 2, logs: 1, tables: 1, faults: 1, losses: 1, ..NONE };
    let failed_log = Spent { writes: 1, faults: 1, kills: 1, losses: 1, logs: more, ..NONE };
    let merge = Spent { writes: more, tables: 1, pins: 1, losses: 1, ..NONE };
    let create = Spent { writes: 1, logs: 1, manifests: 1 + more, losses: 2, ..NONE };
    let lazy = Spent { writes: 1, logs: 1, tables: 1, losses: 1 + more, ..NONE };
    let mut all = vec![
        scenario("flush", flush, &[LOSES, LEAVES_OUT, FREES, REOPENS]),
        scenario("rotation", rotation, &[LOSES]),
        scenario("switch", switch, &[LOSES]),
        scenario("failure", failure, &[LOSES, RESUMES, FREES]),
        scenario("failed log", failed_log, &[LOSES]),
        scenario("creation", create, &[LOSES]),
        scenario("lazy removal", lazy, &[FREES]),
        scenario("merge", merge, &[FREES, MERGES, HOLDS]),
    ];
    if long {
        let three = Spent { writes: 3, logs: 3, tables: 1, losses: 1, ..NONE };
        all.push(scenario("three logs", three, &[LOSES, FREES]));
        let both = Spent { writes: 2, logs: 1, tables: 1, manifests: 1, losses: 1, ..NONE };
        all.push(scenario("switch and flush", both, &[LOSES, FREES]));
    }
    for (name, protocol) in &mut all {
        protocol.eager = *name != "lazy removal";
        match *name {
            "creation" => protocol.start = State::new(),
            "merge" => protocol.start = with_two_tables(),
            _ => {}
        }
    }
    all
}

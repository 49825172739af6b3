//! Explorations of the model: of all rules, and of all rules but one.
//!
//! `MINIKV_PROTOCOL_LONG=1` explores larger bounds, which takes minutes.

use std::collections::BTreeSet;
use std::time::Instant;

use minikv_protocol::model::{
    ACKNOWLEDGED, FAILED, KEPT, NUMBERS, OPENS, PREFIX, Protocol, READERS, SYNCED,
};
use minikv_protocol::rules::{Mutant, Rules};
use minikv_protocol::scenarios::scenarios;
use stateright::{Checker, HasDiscoveries, Model};

/// The number of steps in a row to which an exploration is limited. After a merge of tables, the
/// numbers of files can grow for ever.
fn max_depth(name: &str, is_long: bool) -> Option<usize> {
    (name == "merge").then_some(if is_long { 200 } else { 40 })
}

/// The number of threads of an exploration.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn every_order_of_steps_keeps_the_promises() {
    let is_long = std::env::var_os("MINIKV_PROTOCOL_LONG").is_some_and(|set| set != "0");
    let (began, mut states) = (Instant::now(), 0);
    for (name, protocol) in scenarios(is_long) {
        let depth = max_depth(name, is_long);
        let builder = protocol.checker().threads(threads());
        let builder = match depth {
            Some(depth) => builder.target_max_depth(depth),
            None => builder,
        };
        let checker = builder.spawn_bfs().join();
        println!(
            "{name}: {} states, {} steps, at most {} in a row",
            checker.unique_state_count(),
            checker.state_count(),
            checker.max_depth()
        );
        checker.assert_properties();
        states += checker.unique_state_count();
    }
    println!("{states} states explored in {:.1} s", began.elapsed().as_secs_f32());
}

/// Each rule, the exploration that shows that it is needed, and what is broken without it.
const MUTANTS: [(Mutant, &str, &str); 29] = [
    (Mutant::LogUnsynced, "flush", SYNCED),
    (Mutant::EarlierLogUnsynced, "flush", SYNCED),
    (Mutant::LogNameUnsynced, "flush", SYNCED),
    (Mutant::ReplayedNotRewritten, "failed log", SYNCED),
    (Mutant::WriteAfterFailedSync, "failed log", FAILED),
    (Mutant::FailedSyncRetried, "failed log", SYNCED),
    (Mutant::ResumeOnFailedLog, "failure", FAILED),
    (Mutant::ResumeWithFailedWrite, "failure", PREFIX),
    (Mutant::TableUnsynced, "flush", OPENS),
    (Mutant::TableNameUnsynced, "flush", OPENS),
    (Mutant::FlushOutOfOrder, "three logs", PREFIX),
    (Mutant::LogFreedEarly, "flush", ACKNOWLEDGED),
    (Mutant::LastSeqTooHigh, "three logs", PREFIX),
    (Mutant::EditAfterUnsyncedEdit, "rotation", OPENS),
    (Mutant::MarkCountsAsEdit, "failure", OPENS),
    (Mutant::ManifestUnsynced, "switch", OPENS),
    (Mutant::ManifestNameUnsynced, "switch", OPENS),
    (Mutant::CurrentUnsynced, "switch", OPENS),
    (Mutant::EditBeforeCurrentIsDurable, "switch and flush", SYNCED),
    (Mutant::ShownBeforeSync, "flush", SYNCED),
    (Mutant::RemovedBeforeSync, "flush", KEPT),
    (Mutant::LogNumberIgnored, "flush", ACKNOWLEDGED),
    (Mutant::ManifestRemovedEarly, "switch", OPENS),
    (Mutant::PinnedTableRemoved, "merge", READERS),
    (Mutant::NumberReused, "flush", NUMBERS),
    (Mutant::LeftOutLogKept, "flush", SYNCED),
    (Mutant::RecoveryGoesOnAfterHoles, "flush", PREFIX),
    (Mutant::RecoveryIgnoresGaps, "flush", PREFIX),
    (Mutant::LogBeginsUnmarked, "flush", PREFIX),
];

/// Explores the protocol without a rule until the property is broken. Returns the steps to that.
fn counterexample(mutant: Mutant, scenario: &str, property: &'static str) -> Option<Vec<String>> {
    let mut all = scenarios(false).into_iter().chain(scenarios(true));
    let (_, protocol) = all.find(|(name, _)| *name == scenario)?;
    let rules = Rules::without(mutant);
    let broken = Protocol { rules, always: vec![property], sometimes: Vec::new(), ..protocol };
    let found = HasDiscoveries::AllOf(BTreeSet::from([property]));
    let checker = broken.checker().finish_when(found).spawn_bfs().join();
    let steps = checker.discovery(property)?.into_actions().into_iter();
    Some(steps.map(|step| format!("{step:?}")).collect())
}

#[test]
fn no_rule_can_be_left_out() {
    let only = std::env::var("MINIKV_MUTANT").unwrap_or_default();
    let mut unneeded = Vec::new();
    for (mutant, scenario, property) in MUTANTS {
        if !format!("{mutant:?}").contains(&only) {
            continue;
        }
        match counterexample(mutant, scenario, property) {
            Some(steps) => {
                println!("{mutant:?} breaks \"{property}\" in {} steps", steps.len());
                if !only.is_empty() {
                    steps.iter().for_each(|step| println!("  {step}"));
                }
            }
            None => unneeded.push((mutant, property)),
        }
    }
    assert!(unneeded.is_empty(), "not refused: {unneeded:?}");
}

//! Explorations of the model of a replicated node's store: of all rules, and of all but one.
//!
//! `MINIKV_PROTOCOL_LONG=1` explores larger bounds, which takes minutes.

use std::collections::BTreeSet;
use std::time::Instant;

use minikv_protocol::raft::explore::{
    CLEAN, Exploration, FLUSHED, HOLES, INSTALLS, MACHINE, ORDER, PURGED, SNAPSHOT, STARTS,
    TRUNCATED, VOTE, cases,
};
use minikv_protocol::raft::laws::{Breach, Laws};
use stateright::{Checker, HasDiscoveries, Model};

/// The number of threads of an exploration.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn every_order_of_a_nodes_steps_keeps_the_promises() {
    let is_long = std::env::var_os("MINIKV_PROTOCOL_LONG").is_some_and(|set| set != "0");
    let (began, mut states) = (Instant::now(), 0);
    let only = std::env::var("MINIKV_CASE").unwrap_or_default();
    for (name, exploration) in cases(is_long) {
        if !name.contains(&only) {
            continue;
        }
        let checker = exploration.checker().threads(threads()).spawn_bfs().join();
        println!(
            "{name}: {} states, {} steps, at most {} in a row, {:.1} s",
            checker.unique_state_count(),
            checker.state_count(),
            checker.max_depth(),
            began.elapsed().as_secs_f32()
        );
        checker.assert_properties();
        states += checker.unique_state_count();
    }
    println!("{states} states explored in {:.1} s", began.elapsed().as_secs_f32());
}

/// Each rule, the exploration that shows that it is needed, and what is broken without it.
const BREACHES: [(Breach, &str, &str); 33] = [
    (Breach::VoteUnsynced, "log, two databases", VOTE),
    (Breach::AppendUnsynced, "log, two databases", FLUSHED),
    (Breach::VoteOvertakes, "log, two databases", FLUSHED),
    (Breach::GapAccepted, "log, two databases", HOLES),
    (Breach::TruncateUnsynced, "log, two databases", TRUNCATED),
    (Breach::TruncateOvertakes, "log, two databases", TRUNCATED),
    (Breach::TruncateApplied, "trim, two databases", STARTS),
    (Breach::PurgeDeletesFirst, "trim, two databases", STARTS),
    (Breach::PurgeUnsynced, "trim, two databases", PURGED),
    (Breach::PurgeOvertakesInstall, "install, two databases", STARTS),
    (Breach::AppliedBeforeDurable, "trim, two databases", STARTS),
    (Breach::ApplyInTwoBatches, "trim, two databases", MACHINE),
    (Breach::HeadUnsynced, "trim, two databases", STARTS),
    (Breach::SnapshotNameUnsynced, "trim, two databases", SNAPSHOT),
    (Breach::OlderRemovedEarly, "trim, two databases", SNAPSHOT),
    (Breach::ReceivedUnsynced, "install, two databases", STARTS),
    (Breach::ReceivedNamesUnsynced, "install, two databases", STARTS),
    (Breach::OfferRemovesReceived, "snapshots, two databases", INSTALLS),
    (Breach::InstallBeforeTruncate, "install, two databases", ORDER),
    (Breach::MoveUnsynced, "install, two databases", STARTS),
    (Breach::CopyUnsynced, "install, two databases", STARTS),
    (Breach::CopyNameUnsynced, "install, two databases", STARTS),
    (Breach::LogNotTakenOver, "install, one database", VOTE),
    (Breach::TakeOverUnsynced, "install, one database", VOTE),
    (Breach::TakeOverUnlocked, "install, one database", VOTE),
    (Breach::LiveUnsynced, "install, two databases", STARTS),
    (Breach::LiveNameUnsynced, "install, one database", VOTE),
    (Breach::StateRemovedEarly, "install, two databases", STARTS),
    (Breach::OpenInstallsNothing, "install, two databases", SNAPSHOT),
    (Breach::OpenKeepsPurged, "install, two databases", HOLES),
    (Breach::OpenKeepsLeftovers, "install, two databases", CLEAN),
    (Breach::OpenLogUnsynced, "log, two databases", VOTE),
    (Breach::OpenNamesUnsynced, "install, two databases", STARTS),
];

/// Explores the store without a rule until the property is broken. Returns the steps to that.
fn counterexample(breach: Breach, case: &str, property: &'static str) -> Option<Vec<String>> {
    let mut all = cases(false).into_iter().chain(cases(true));
    let (_, exploration) = all.find(|(name, _)| *name == case)?;
    let laws = Laws { breach: Some(breach), ..exploration.laws };
    let broken = Exploration { laws, always: vec![property], sometimes: Vec::new(), ..exploration };
    let found = HasDiscoveries::AllOf(BTreeSet::from([property]));
    let checker = broken.checker().finish_when(found).spawn_bfs().join();
    let steps = checker.discovery(property)?.into_actions().into_iter();
    Some(steps.map(|step| format!("{step:?}")).collect())
}

#[test]
fn no_rule_of_a_node_can_be_left_out() {
    let only = std::env::var("MINIKV_MUTANT").unwrap_or_default();
    let mut unneeded = Vec::new();
    for (breach, case, property) in BREACHES {
        if !format!("{breach:?}").contains(&only) {
            continue;
        }
        match counterexample(breach, case, property) {
            Some(steps) => {
                println!("{breach:?} breaks \"{property}\" in {} steps", steps.len());
                if !only.is_empty() {
                    steps.iter().for_each(|step| println!("  {step}"));
                }
            }
            None => unneeded.push((breach, property)),
        }
    }
    assert!(unneeded.is_empty(), "not refused: {unneeded:?}");
}

//! Explorations of the model: of all rules, and of all rules but one.

use std::time::{Duration, Instant};

use minikv_protocol::model::*;
use minikv_protocol::rules::{Mutant, Rules};
use minikv_protocol::scenarios::scenarios;
use stateright::{Checker, Model};

#[test]
fn every_order_of_steps_keeps_the_promises() {
    let only = std::env::var("ONLY").unwrap_or_default();
    for (name, protocol) in scenarios(false) {
        if !name.contains(&only) { continue; }
        let t = Instant::now();
        let c = protocol.checker().threads(1).timeout(Duration::from_secs(120)).spawn_bfs().join();
        println!("{name}: {} states, {} unique, depth {}, {:?} {}", c.state_count(), c.unique_state_count(), c.max_depth(), t.elapsed(), c.is_done());
        for (name, path) in c.discoveries() {
            println!("== {name}");
            if c.model().properties().iter().any(|p| p.name == name && p.expectation.discovery_is_failure()) {
                for a in path.into_actions() { println!("   {a:?}"); }
            }
        }
    }
}

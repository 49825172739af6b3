//! The health check, metrics in Prometheus's text format, and a status page for browsers.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::service::error::ApiError;
use crate::service::node::Node;
use crate::service::peers;
use crate::service::status::status;

/// Returns whether the header `given` contains the token in the header `expected`, which is `Bearer
/// <token>`. A browser may instead send the token as a password, with any user name. Checking a
/// wrong token of the right length takes as long as checking the right token.
pub(crate) fn is_authorized(given: &[u8], expected: &[u8]) -> bool {
    let equals = |given: &[u8], expected: &[u8]| {
        given.len() == expected.len()
            && given.iter().zip(expected).fold(0, |all, (a, b)| all | (a ^ b)) == 0
    };
    if let Some(basic) = given.strip_prefix(b"Basic ") {
        let Ok(decoded) = STANDARD.decode(basic) else { return false };
        let Some(colon) = decoded.iter().position(|byte| *byte == b':') else { return false };
        return equals(
            &decoded[colon + 1..],
            expected.strip_prefix(b"Bearer ").unwrap_or_default(),
        );
    }
    equals(given, expected)
}

/// Returns status 200 if the node can serve requests: Raft runs, and the node leads a majority or
/// follows a leader, by what it has heard lately.
pub(crate) async fn health(State(node): State<Arc<Node>>) -> Response {
    match (node.failure(), node.problem()) {
        (None, None) => "ok\n".into_response(),
        (Some(failure), _) => {
            ApiError::with(StatusCode::INTERNAL_SERVER_ERROR, failure).into_response()
        }
        (None, Some(problem)) => ApiError::Unavailable(problem).into_response(),
    }
}

pub(crate) async fn metrics(State(node): State<Arc<Node>>) -> Response {
    let mut text = String::new();
    let now = status(&node);
    let mut print = |name: &str, kind: &str, help: &str, value: u64| {
        let _ = writeln!(text, "# HELP minikv_raft_{name} {help}");
        let _ = writeln!(text, "# TYPE minikv_raft_{name} {kind}\nminikv_raft_{name} {value}");
    };
    print("up", "gauge", "1 while Raft runs.", now.failure.is_none().into());
    let serves = now.problem.is_none();
    let leads = serves && now.role == "Leader";
    print("is_leader", "gauge", "1 if this node leads a majority.", leads.into());
    print("has_leader", "gauge", "1 if a leader was heard lately.", serves.into());
    print("term", "gauge", "The term.", now.term);
    let optional = |index: Option<u64>| index.unwrap_or(0);
    print("last_log_index", "gauge", "Last entry of the log.", optional(now.last_log));
    print("applied_index", "gauge", "Last applied entry.", optional(now.applied));
    print("snapshot_index", "gauge", "Last entry in the snapshot.", optional(now.snapshot));
    print("purged_index", "gauge", "Last purged entry.", optional(now.purged));
    print("nodes", "gauge", "Nodes of the cluster.", now.nodes.len() as u64);
    let counters = &node.counters;
    for (name, help, counter) in [
        ("reads_total", "Gets and ranges.", &counters.reads),
        ("writes_total", "Writes.", &counters.writes),
        ("redirects_total", "Requests for the leader.", &counters.redirects),
        ("client_errors_total", "Answers from 400 to 499.", &counters.client_errors),
        ("server_errors_total", "Answers from 500 on.", &counters.server_errors),
    ] {
        print(name, "counter", help, counter.load(Ordering::Relaxed));
    }
    let _ = writeln!(text, "# HELP minikv_raft_replicated_index Last entry that a node has.");
    let _ = writeln!(text, "# TYPE minikv_raft_replicated_index gauge");
    for (id, index) in &now.replicated {
        let index = index.unwrap_or(0);
        let _ = writeln!(text, "minikv_raft_replicated_index{{node=\"{id}\"}} {index}");
    }
    text += &node.store.state().db().stats().prometheus(&[("db", "state")]);
    if node.store.layout() == crate::store::Layout::Two {
        text += &without_heads(&node.store.log_db().stats().prometheus(&[("db", "log")]));
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// Removes the lines `# HELP` and `# TYPE` from the metrics of a second database, because each
/// metric may have these lines only once.
fn without_heads(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

pub(crate) async fn page(State(node): State<Arc<Node>>) -> Html<String> {
    let now = status(&node);
    let or_none = |index: Option<u64>| index.map_or("none".to_string(), |index| index.to_string());
    let others = node.other_members();
    let answers = futures_util::future::join_all(others.iter().map(|(id, address)| async {
        let hello = tokio::time::timeout(PAGE_WAIT, peers::hello_of(&node, *id, address)).await;
        hello.is_ok_and(|hello| hello.is_ok()).then_some(*id)
    }));
    let up: BTreeSet<u64> = answers.await.into_iter().flatten().chain([now.id]).collect();
    let mut rows = String::new();
    for (id, address) in &now.nodes {
        let role = match () {
            () if now.leader == Some(*id) => "leader",
            () if now.voters.iter().any(|voters| voters.contains(id)) => "voter",
            () => "learner",
        };
        let replicated = now.replicated.get(id).copied().flatten().map(|at| at.to_string());
        let state = match up.contains(id) {
            true if *id == now.id => "this node",
            true => "up",
            false => "<span class=bad>down</span>",
        };
        let (address, replicated) = (escape(address), replicated.unwrap_or_default());
        let _ = write!(
            rows,
            "<tr><td>{id}</td><td>{address}</td><td>{role}</td><td>{replicated}</td>\
             <td>{state}</td></tr>"
        );
    }
    let problems = now.problem.iter().chain(&now.refused);
    let problems: String =
        problems.map(|what| format!("<p class=bad>{}</p>", escape(what))).collect();
    Html(format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=2>\
         <title>minikv node {id}</title><style>\
         body{{font:16px system-ui;margin:2em;max-width:48em}}\
         table{{border-collapse:collapse}}td,th{{padding:.3em 1em;\
         text-align:left;border-bottom:1px solid #ccc}}.bad{{color:#b00}}</style>\
         <h1>minikv, node {id}: {role}</h1>{problems}\
         <p>Term {term}. Log up to {log}, applied up to {applied}, snapshot up to {snapshot}.</p>\
         <table><tr><th>node<th>address<th>role<th>has the log up to<th></tr>{rows}</table>\
         <p><a href=metrics>metrics</a>, <a href=v1/status>status as JSON</a></p></html>",
        id = now.id,
        role = escape(&now.role),
        term = now.term,
        log = or_none(now.last_log),
        applied = or_none(now.applied),
        snapshot = or_none(now.snapshot),
    ))
}

/// Time for which the page waits for answers of other nodes.
const PAGE_WAIT: Duration = Duration::from_millis(500);

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_opens() {
        let expected = b"Bearer 0123456789abcdef";
        assert!(is_authorized(expected, expected));
        let browser = format!("Basic {}", STANDARD.encode("ann:0123456789abcdef"));
        assert!(is_authorized(browser.as_bytes(), expected));
        let empty = format!("Basic {}", STANDARD.encode("ann:"));
        for wrong in ["", "Bearer ", "Bearer 0123456789abcdee", "Basic ", "Basic !", &empty] {
            assert!(!is_authorized(wrong.as_bytes(), expected), "{wrong}");
        }
    }
}

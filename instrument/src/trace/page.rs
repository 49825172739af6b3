//! Page of a recording: a single file that contains the data and the script, and needs no other
//! files.

use super::document::document;
use super::run::Run;
use crate::readamp::{Provenance, escape};

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Returns the page for `runs`.
pub fn page(runs: &[Run], provenance: &Provenance) -> String {
    // Inside a script element, `<` could begin an end tag or a comment.
    let data = document(runs).to_string().replace('<', "\\u003c");
    let parts = [
        ("{{style}}", STYLE.to_string()),
        ("{{command}}", escape(&provenance.command)),
        ("{{version}}", provenance.version.to_string()),
        ("{{date}}", escape(&provenance.date)),
        ("{{machine}}", escape(&provenance.machine)),
        ("{{data}}", data),
        ("{{script}}", SCRIPT.to_string()),
    ];
    let mut page = String::new();
    let mut rest = TEMPLATE;
    // All parts are replaced in one pass, so that inserted text is not searched for further parts.
    for (name, text) in parts {
        let (before, after) = rest.split_once(name).expect("the template has each part once");
        page.push_str(before);
        page.push_str(&text);
        rest = after;
    }
    page.push_str(rest);
    page
}

//! The picture docs/page.png: `MINIKV_PICTURE=write` makes it of the page of `demo --html` as it
//! is, in a browser. A test compares the words of the page with docs/page.txt, which lists the
//! words of the page that the picture shows and the checksum of the picture.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use serde_json::{Value, json};

use super::browser::Browser;
use super::{Place, minikv, run};

const MAKE: &str = "MINIKV_PICTURE=write cargo test -p minikv-cli --test cli picture";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the text of the page's template outside of tags, without the places of data.
fn words_of_html(html: &str) -> Vec<String> {
    let (_, body) = html.split_once("<body>").expect("a body");
    let texts = body.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text);
    let texts = texts.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    texts.filter(|text| !text.is_empty() && !text.contains("{{")).collect()
}

/// Returns the literals of the page's script that contain several words.
fn words_of_script(script: &str) -> Vec<String> {
    let mut words = Vec::new();
    for line in script.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let mut rest = line;
        while let Some(start) = rest.find(['\'', '`']) {
            let quote = &rest[start..=start];
            let inside = &rest[start + 1..];
            let Some(end) = inside.find(quote) else { break };
            let literal = &inside[..end];
            if literal.contains(' ') && literal.contains(|c: char| c.is_alphabetic()) {
                words.push(literal.to_string());
            }
            rest = &inside[end + 1..];
        }
    }
    words
}

/// Returns the stamp of a picture: its checksum, and the words of the page as it is now.
fn stamp(picture: &[u8]) -> String {
    let source =
        |name: &str| fs::read_to_string(root().join("instrument/src/trace").join(name)).unwrap();
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let checksum = picture.iter().fold(0xcbf2_9ce4_8422_2325, fnv);
    let words = [words_of_html(&source("page.html")), words_of_script(&source("page.js"))];
    format!(
        "page.png, FNV-1a {checksum:016x}, made by {MAKE}\nof a page with these words:\n\n{}\n",
        words.concat().join("\n")
    )
}

/// Returns the number of the step to show: the last lookup that finds its value in level 2 after a
/// false positive or, if there is none, the last one that finds it there.
fn step_to_show(run: &Value) -> usize {
    let steps = run["steps"].as_array().unwrap();
    let parts = |step: &Value| step["path"].as_array().cloned().unwrap_or_default();
    let lookups = |wanted: &dyn Fn(&Value) -> bool| {
        steps.iter().rposition(|step| step["t"] == "get" && step["found"] == true && wanted(step))
    };
    let is_deep = |step: &Value| {
        let tables: Vec<_> = parts(step).into_iter().filter(|part| part[0] == "table").collect();
        tables.len() > 2 && tables.last().is_some_and(|table| table[2] == 2)
    };
    let is_wrong = |step: &Value| parts(step).iter().any(|part| part[2] == "false positive");
    let at = lookups(&|step| is_deep(step) && is_wrong(step)).or_else(|| lookups(&is_deep));
    at.expect("a lookup in three levels") + 1
}

fn make() {
    let place = Place::new();
    let page = place.path("page.html");
    run(minikv().args(["demo", "--html", "page.html"]).current_dir(place.dir.path()), b"").ok();
    let html = fs::read_to_string(&page).unwrap();
    let (_, data) = html.split_once("id=\"data\">").unwrap();
    let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    let step = step_to_show(&data["runs"][0]);
    let mut browser = Browser::start(&place.path("profile")).expect("chromium, for the picture");
    browser.show(1280, 960, false);
    browser.call("Emulation.setScrollbarsHidden", json!({ "hidden": true }));
    browser.open(&page, &format!("#step={step}"));
    browser.until(&format!("document.body.dataset.step === '{step}'"));
    let shot = browser.call("Page.captureScreenshot", json!({ "format": "png" }));
    let picture =
        base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
    fs::write(root().join("docs/page.png"), &picture).unwrap();
    fs::write(root().join("docs/page.txt"), stamp(&picture)).unwrap();
}

#[test]
fn the_picture_of_the_page_shows_the_page_as_it_is() {
    if std::env::var("MINIKV_PICTURE").is_ok_and(|how| how == "write") {
        make();
    }
    let picture = fs::read(root().join("docs/page.png")).unwrap();
    let stamped = fs::read_to_string(root().join("docs/page.txt")).unwrap();
    let now = stamp(&picture);
    let changed: Vec<_> = now.lines().filter(|line| !stamped.lines().any(|l| l == *line)).collect();
    assert!(stamped == now, "docs/page.png shows another page; {MAKE} makes it anew: {changed:#?}");
    assert!(now.lines().count() > 100 && now.contains("\nNext false positive\n"), "{now}");
}

#[test]
fn words_are_found_in_tags_and_literals() {
    let html = "<b>no</b><body>\n<p>A <b>get</b> asks\nall.</p>{{data}}<i></i></body>";
    assert_eq!(words_of_html(html), ["A", "get", "asks all."]);
    let script = "f('two words', `one ${x}`, 'word');\n  // 'of a comment'\n g(`a b` + '1 2')";
    assert_eq!(words_of_script(script), ["two words", "one ${x}", "a b"]);
}

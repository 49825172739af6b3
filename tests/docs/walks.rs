//! Checks the walks of docs/tour.md against the code: each goes through the files in one direction
//! only.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use minikv_support::functions;

use crate::{code_spans, page, root, rust_files};

/// A function of the library.
struct Function {
    /// Path of the function's file below `src/`.
    file: String,
    /// The type of the `impl` or `trait` block that contains the function.
    owner: Option<String>,
    name: String,
    body: String,
}

impl Function {
    fn path(&self) -> String {
        match &self.owner {
            Some(owner) => format!("{owner}::{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// A mention of a function in a body: a call, or the function used as a value.
struct Mention<'b> {
    /// The text before the name: `.`, `self.`, `Type::`, or nothing.
    receiver: &'b str,
    name: &'b str,
}

/// Returns the mentions of functions in a body.
fn mentions(body: &str) -> Vec<Mention<'_>> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_path = |c: char| is_word(c) || c == ':' || c == '.';
    let mut found = Vec::new();
    let mut rest = 0;
    while let Some(at) = body[rest..].find(is_word) {
        let start = rest + at;
        let end = body[start..].find(|c| !is_word(c)).map_or(body.len(), |len| start + len);
        rest = end;
        let from = body[..start].rfind(|c| !is_path(c)).map_or(0, |n| n + 1);
        let before = &body[from..start];
        let after = &body[end..];
        let is_call = after.starts_with('(') || after.starts_with("::<");
        if is_call || before.ends_with("::") {
            let receiver = match before.strip_suffix("::") {
                Some(path) => path.rsplit(['.', ':']).next().unwrap_or(path),
                None if before == "self." => "self.",
                None if before.is_empty() => "",
                None => ".",
            };
            found.push(Mention { receiver, name: &body[start..end] });
        }
    }
    found
}

/// Returns the functions of a source file, with their bodies without comments.
fn functions_of(file: &str, source: &str) -> Vec<Function> {
    let code = |line: &str| line.split("//").next().unwrap_or("").to_string();
    let function = |found: functions::Function| {
        let body: Vec<String> = source[found.body].lines().map(code).collect();
        Function { file: file.into(), owner: found.owner, name: found.name, body: body.join("\n") }
    };
    functions::functions_of(source).into_iter().map(function).collect()
}

/// All functions of the library.
struct Library(Vec<Function>);

impl Library {
    fn read(src: &Path) -> Library {
        let mut files = Vec::new();
        rust_files(src, &mut files);
        files.sort();
        let mut functions = Vec::new();
        for path in files {
            let file = path.strip_prefix(src).unwrap().to_str().unwrap().to_string();
            let is_test = ["test", "transcripts", "suite"].iter().any(|word| file.contains(word));
            if !is_test {
                functions.extend(functions_of(&file, &fs::read_to_string(&path).unwrap()));
            }
        }
        Library(functions)
    }

    fn get(&self, file: &str, path: &str) -> Option<&Function> {
        self.0.iter().find(|function| function.file == file && function.path() == path)
    }

    /// Returns the function to which `mention` in `caller` refers, judging only by names. Returns
    /// `None` if no function or more than one function fits. A function in the file of the caller
    /// takes precedence if the name has no receiver.
    fn target(&self, caller: &Function, mention: &Mention<'_>) -> Option<&Function> {
        // The name may be that of a local variable, such as a closure.
        if caller.body.contains(&format!("let {} = ", mention.name)) {
            return None;
        }
        let named: Vec<_> = self.0.iter().filter(|f| f.name == mention.name).collect();
        let own = caller.owner.as_deref();
        let fits: Vec<_> = match mention.receiver {
            "self." => named.iter().filter(|f| f.owner.as_deref() == own).collect(),
            "" => named.iter().filter(|f| f.owner.is_none()).collect(),
            "." => named.iter().filter(|f| f.owner.is_some()).collect(),
            path => {
                let owner = if path == "Self" { own } else { Some(path) };
                let in_module = |f: &Function| {
                    f.owner.is_none()
                        && (f.file.ends_with(&format!("{path}.rs"))
                            || f.file.ends_with(&format!("{path}/mod.rs")))
                };
                named.iter().filter(|f| f.owner.as_deref() == owner || in_module(f)).collect()
            }
        };
        // A receiver other than `self` may have any type, even a type of another library.
        let near = fits.iter().find(|f| mention.receiver.is_empty() && f.file == caller.file);
        match (near, &fits[..]) {
            (Some(near), _) => Some(near),
            (None, [only]) if mention.receiver != "." || !is_common(mention.name) => Some(only),
            _ => None,
        }
    }
}

/// Returns whether methods with this name are common on types outside of the library.
fn is_common(name: &str) -> bool {
    const COMMON: &[&str] = &[
        "all",
        "ancestors",
        "append",
        "as_ref",
        "as_slice",
        "begin",
        "clear",
        "clone",
        "cmp",
        "contains",
        "count",
        "drop",
        "end",
        "exists",
        "extend",
        "filter",
        "find",
        "freeze",
        "get",
        "insert",
        "into_iter",
        "is_empty",
        "iter",
        "join",
        "key",
        "last",
        "len",
        "load",
        "lock",
        "map",
        "max",
        "min",
        "next",
        "position",
        "push",
        "read",
        "remove",
        "retain",
        "sample",
        "skip",
        "split",
        "start",
        "store",
        "sum",
        "swap",
        "take",
        "then",
        "trailer",
        "value",
        "wait",
        "with",
        "write",
        "zip",
    ];
    COMMON.contains(&name)
}

/// One file of a walk, with the functions to read there.
struct Stop {
    file: String,
    functions: Vec<String>,
}

/// Section of the page that describes a walk: a table of stops, and a list of files that the walk
/// does not visit.
struct Walk {
    heading: String,
    /// The text after the heading.
    text: String,
    stops: Vec<Stop>,
    aside: Vec<String>,
}

impl Walk {
    fn parse(section: &str) -> Walk {
        let (heading, text) = section.split_once('\n').expect("a heading, then text");
        let rows = text.lines().filter(|line| line.starts_with("| `"));
        let stop = |row: &str| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
            let functions = code_spans(cells[1]).into_iter().map(str::to_string).collect();
            Stop { file: code_spans(cells[0])[0].to_string(), functions }
        };
        let aside = text.split_once("\nLeft aside: ").map_or("", |(_, list)| list);
        Walk {
            heading: heading.to_string(),
            text: text.trim_start().to_string(),
            stops: rows.map(stop).collect(),
            aside: files_in(aside),
        }
    }
}

/// Returns the files and folders that a text names.
fn files_in(text: &str) -> Vec<String> {
    let names = code_spans(text).into_iter();
    names.filter(|name| name.ends_with(".rs") || name.ends_with('/')).map(str::to_string).collect()
}

/// Returns whether `file` is one of `parts`, or is in a folder that is one of `parts`.
fn is_in(file: &str, parts: &[String]) -> bool {
    parts.iter().any(|part| file == part || part.ends_with('/') && file.starts_with(part.as_str()))
}

/// Returns the sections of the page that are walks, and the files that no walk visits.
fn walks(page: &str) -> (Vec<Walk>, Vec<String>) {
    let mut sections = page.split("\n## ");
    let head = sections.next().unwrap_or_default();
    let (_, list) = head.split_once("\n- not followed: ").expect("what is not followed");
    let list = list.split("\n- ").next().unwrap_or(list);
    let walks = sections.map(Walk::parse).filter(|walk| !walk.stops.is_empty());
    (walks.collect(), files_in(list))
}

/// Returns whether the body of `caller` mentions `function`, judging only by names.
fn calls(caller: &Function, function: &Function) -> bool {
    mentions(&caller.body).iter().any(|mention| {
        let fits = match mention.receiver {
            "self." | "Self" => caller.owner == function.owner,
            "" => function.owner.is_none(),
            "." => function.owner.is_some(),
            path => function.owner.as_deref().is_none_or(|owner| owner == path),
        };
        mention.name == function.name && fits
    })
}

/// Returns descriptions of the faults of a walk.
fn faults(library: &Library, walk: &Walk, not_followed: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut listed: Vec<(usize, &Function)> = Vec::new();
    let mut files = BTreeSet::new();
    for (row, stop) in walk.stops.iter().enumerate() {
        if !files.insert(stop.file.as_str()) {
            faults.push(format!("{} is passed twice", stop.file));
        }
        for path in &stop.functions {
            match library.get(&stop.file, path) {
                Some(function) => listed.push((row, function)),
                None => faults.push(format!("{} has no {path}", stop.file)),
            }
        }
    }
    for (n, (row, function)) in listed.iter().enumerate() {
        let name = function.path();
        let mut above = listed.iter().filter(|(at, _)| at <= row).map(|(_, caller)| *caller);
        let is_called =
            above.any(|caller| !std::ptr::eq(caller, *function) && calls(caller, function));
        if n > 0 && !is_called {
            faults.push(format!("nothing above calls {name}"));
        }
        for target in mentions(&function.body).iter().filter_map(|m| library.target(function, m)) {
            let at = listed.iter().find(|(_, other)| std::ptr::eq(*other, target));
            let file = target.file.as_str();
            let is_left_out = is_in(file, &walk.aside) || is_in(file, not_followed);
            if at.is_some_and(|(at, _)| at < row) {
                faults.push(format!("{name} goes back to {} of {file}", target.path()));
            } else if at.is_none() && !files.contains(file) && !is_left_out {
                faults.push(format!("{name} goes to {file}: {}", target.path()));
            }
        }
    }
    faults
}

#[test]
fn walks_lead_forward_only() {
    let page = page("docs/tour.md");
    let library = Library::read(&root().join("src"));
    let (walks, not_followed) = walks(&page);
    assert!(walks.len() >= 5, "only {} walks", walks.len());
    let mut wrong = BTreeSet::new();
    for walk in &walks {
        let mut faults = faults(&library, walk, &not_followed);
        let count = format!("{} files.", walk.stops.len());
        if !walk.text.starts_with(&count) {
            faults.push(format!("the text does not begin with \"{count}\""));
        }
        wrong.extend(faults.into_iter().map(|fault| format!("{}: {fault}", walk.heading)));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns the faults of a walk through three small files. Each stop is a file and its functions.
fn faults_in_a_small_library(stops: &str, aside: &str) -> Vec<String> {
    let door = "\
impl Door {
    pub fn open(&self) -> u8 {
        // lock() is not called.
        self.hinge.turn(1)
    }

    fn close(&self) {}
}
";
    let hinge = "\
impl<T: Fn(u8)> Hinge<T> {
    pub(crate) fn turn(
        &self,
        by: u8,
    ) -> u8 {
        oil(by)
    }
}

fn rust() {
    Door::close(&Door);
}
";
    let oil = "\
pub const fn oil(drops: u8) -> u8 {
    let rub = |n| n;
    rub(drops)
}

fn rub() {}

#[cfg(test)]
mod tests {
    fn oil() {
        rust()
    }
}
";
    let files = [("door.rs", door), ("hinge.rs", hinge), ("oil/mod.rs", oil)];
    let functions = files.iter().flat_map(|(file, source)| functions_of(file, source));
    let section = format!("A door\n\n{stops}\nLeft aside: {aside}.\n");
    faults(&Library(functions.collect()), &Walk::parse(&section), &["elsewhere/".to_string()])
}

#[test]
fn a_walk_that_is_wrong_is_found() {
    let (door, hinge, oil) = (
        "| `door.rs` | `Door::open` |\n",
        "| `hinge.rs` | `Hinge::turn` |\n",
        "| `oil/mod.rs` | `oil` |\n",
    );
    let none: [&str; 0] = [];
    assert_eq!(faults_in_a_small_library(&[door, hinge, oil].concat(), "nothing"), none);
    assert_eq!(faults_in_a_small_library(&[door, hinge].concat(), "`oil/` (smooth)"), none);
    let wrong = [
        ([door, hinge].concat(), "Hinge::turn goes to oil/mod.rs: oil"),
        ([door, oil].concat(), "Door::open goes to hinge.rs: Hinge::turn"),
        ([door, oil, hinge].concat(), "Hinge::turn goes back to oil of oil/mod.rs"),
        ([door, hinge, oil, door].concat(), "door.rs is passed twice"),
        ([door, "| `hinge.rs` | `Hinge::bend` |\n"].concat(), "hinge.rs has no Hinge::bend"),
        ([door, "| `hinge.rs` | `Hinge::turn`, `rust` |\n"].concat(), "nothing above calls rust"),
        (["| `hinge.rs` | `rust` |\n"].concat(), "rust goes to door.rs: Door::close"),
    ];
    for (stops, fault) in wrong {
        let found = faults_in_a_small_library(&stops, "nothing");
        assert!(found.contains(&fault.to_string()), "{stops}: {found:?}");
    }
}

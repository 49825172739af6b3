//! Checks docs/tour.md against the code: its tables name the file that defines each function or
//! type.

use crate::names::Names;
use crate::{code_spans, page, root};

/// Returns the part of a page from a heading to the next heading of the same level.
fn section<'p>(page: &'p str, heading: &str) -> &'p str {
    let heading = format!("\n## {heading}\n");
    let (_, rest) = page.split_once(&heading).unwrap_or_else(|| panic!("no {heading}"));
    rest.split("\n## ").next().unwrap()
}

/// Returns the rows of a table, without its header.
fn rows(section: &str) -> impl Iterator<Item = &str> {
    section.lines().filter(|line| line.starts_with("| ")).skip(2)
}

/// Returns a description of the error in a row, or `None` if the row is right. The last two cells
/// of a row must be a file of `src/` and a name that the file defines: a function, a type, a
/// constant, or an associated item as `Type::name`.
fn fault(row: &str) -> Option<String> {
    let mut cells = row.trim_end_matches('|').rsplit('|');
    let (name, file) = (code_spans(cells.next()?), code_spans(cells.next()?));
    let ([name], [file]) = (&name[..], &file[..]) else {
        return Some(format!("{row}: a file and a name are expected"));
    };
    let path = root().join("src").join(file);
    if !path.is_file() {
        return Some(format!("{row}: there is no src/{file}"));
    }
    let names: Vec<&str> = name.split("::").collect();
    let defined = Names::of(&[path]).define(&names);
    (!defined).then(|| format!("{row}: src/{file} does not define {name}"))
}

fn check(heading: &str, least: usize) {
    let page = page("docs/tour.md");
    let section = section(&page, heading);
    let faults: Vec<_> = rows(section).filter_map(fault).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    let count = rows(section).count();
    assert!(count >= least, "only {count} rows");
}

#[test]
fn each_name_of_the_tour_is_in_its_file() {
    check("Where is …?", 17);
}

#[test]
fn each_word_of_the_glossary_is_in_its_file() {
    check("Glossary", 7);
}

#[test]
fn a_row_that_is_wrong_is_found() {
    let row = |file: &str, name: &str| fault(&format!("| Where? | `{file}` | `{name}` |"));
    assert_eq!(row("filter/bloom.rs", "set_bits"), None);
    assert_eq!(row("filter/bloom.rs", "BloomFilterPolicy"), None);
    assert_eq!(row("filter/bloom.rs", "BloomFilterPolicy::filter_bits"), None);
    assert_eq!(row("filter/bloom.rs", "BLOOM_SEED"), None);
    for (file, name) in [
        ("filter/blossom.rs", "set_bits"),
        ("filter/policy.rs", "set_bits"),
        ("filter/bloom.rs", "filter_bits"),
        ("filter/bloom.rs", "BloomGenerator::filter_bits"),
        // The file uses this name but does not define it.
        ("filter/mod.rs", "BloomFilterPolicy"),
        ("filter/mod.rs", "bloom"),
        ("filter/bloom.rs", "tests"),
    ] {
        assert!(row(file, name).is_some(), "{file} {name}");
    }
    assert!(fault("| Where? | `filter/bloom.rs` | a bit |").is_some());
}

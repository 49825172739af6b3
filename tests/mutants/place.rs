//! Puts the mistakes of the tables into the source.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use minikv_support::functions::{Function, functions_of};

use crate::all_mutants;
use crate::table::Mutant;

/// Returns the changed files, by their paths below `root`. If mistakes have lost their places,
/// returns what to do about each.
pub fn with_all_mistakes(root: &Path) -> Result<BTreeMap<String, String>, Vec<String>> {
    let mut files = BTreeMap::new();
    let mut lost = Vec::new();
    for mutant in all_mutants() {
        let source = match files.get(&mutant.file()) {
            Some(source) => String::clone(source),
            None => match fs::read_to_string(root.join(mutant.file())) {
                Ok(source) => source,
                Err(error) => {
                    lost.push(format!("\"{}\": {}: {error}", mutant.name, mutant.file()));
                    continue;
                }
            },
        };
        match with_mistake(mutant, &source) {
            Ok(source) => drop(files.insert(mutant.file(), source)),
            Err(advice) => lost.push(format!("\"{}\": {advice}", mutant.name)),
        }
    }
    if lost.is_empty() { Ok(files) } else { Err(lost) }
}

/// Returns the source with the mistake in a branch that is taken only if the mistake is switched
/// on. If there is no place for the mistake, returns what to do about it.
pub fn with_mistake(mutant: &Mutant, source: &str) -> Result<String, String> {
    let function = function_of(mutant, source)?;
    let (file, name) = (mutant.file(), function.path());
    match &places(&source[function.range.clone()], mutant.find)[..] {
        [place] => {
            let at = function.range.start;
            let is_on = format!("crate::mutants::is_on({:?})", mutant.name);
            let mut changed = source.to_owned();
            let replaced = at + place.start..at + place.end;
            changed.replace_range(replaced, &mutant.replace.replace("ON", &is_on));
            Ok(changed)
        }
        [] => Err(format!("{name} of {file} does not contain {:?}: adapt it", mutant.find)),
        [..] => Err(format!(
            "{name} of {file} contains {:?} several times: add what stands beside it",
            mutant.find
        )),
    }
}

/// Returns the function that has the mistake's place. A function that was renamed is the only one
/// that has the text.
fn function_of(mutant: &Mutant, source: &str) -> Result<Function, String> {
    let (file, wanted) = (mutant.file(), mutant.function());
    let functions = functions_of(source);
    let select = |fits: &dyn Fn(&Function) -> bool| -> Vec<&Function> {
        functions.iter().filter(|function| fits(function)).collect()
    };
    let by_path = select(&|function| function.path() == wanted);
    let by_name = select(&|function| function.name == wanted);
    let by_text =
        select(&|function| places(&source[function.range.clone()], mutant.find).len() == 1);
    match (&by_path[..], &by_name[..], &by_text[..]) {
        ([found], _, _) | ([], [found], _) | ([], [], [found]) => Ok((*found).clone()),
        ([], [], []) => {
            Err(format!("{file} has no {wanted}: name the function that does this now"))
        }
        ([], [], several) => {
            let paths: Vec<_> = several.iter().map(|function| function.path()).collect();
            Err(format!("{file} has no {wanted}: write {}", paths.join(" or ")))
        }
        (_, several, _) => {
            Err(format!("{file} has {} {wanted}: write Type::{wanted}", several.len()))
        }
    }
}

/// Returns the places of `find` in `text`. White space does not count.
fn places(text: &str, find: &str) -> Vec<Range<usize>> {
    let is_dark = |(_, c): &(usize, char)| !c.is_whitespace();
    let dark: Vec<(usize, char)> = text.char_indices().filter(is_dark).collect();
    let find: Vec<char> = find.chars().filter(|c| !c.is_whitespace()).collect();
    let fits = |window: &&[(usize, char)]| window.iter().map(|(_, c)| c).eq(&find);
    let place = |window: &[(usize, char)]| {
        let (last, c) = window[window.len() - 1];
        window[0].0..last + c.len_utf8()
    };
    dark.windows(find.len()).filter(fits).map(place).collect()
}

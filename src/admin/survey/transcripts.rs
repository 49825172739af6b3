//! Tests that replay transcripts, which show the MANIFEST that a survey chooses, and whether the
//! survey trusts this MANIFEST.

use std::path::Path;

use crate::admin::findings::Findings;
use crate::admin::survey::Survey;
use crate::base::transcript::{self, Command, number};
use crate::engine::open::entries;
use crate::engine::version::manifest::{set_current, write_manifest};
use crate::engine::version::testing::{edit, order};
use crate::format::edit::VersionEdit;
use crate::format::name::{log_name, manifest_name, table_name};
use crate::fs::{Fs, MemFs};

const DIR: &str = "/db";

/// Writes a MANIFEST for the command `manifest 5 [damaged] [log=n]`, whose input is a version.
fn write(fs: &MemFs, command: &Command<'_>) {
    let manifest_number = number(command.args[0]);
    let edit = VersionEdit {
        comparator: Some(order().user().get().name().to_owned()),
        log_number: Some(command.number("log", 0)),
        next_file_number: Some(100),
        last_seq: Some(50),
        ..edit(command.input.iter().copied())
    };
    write_manifest(fs, Path::new(DIR), manifest_number, &edit).expect("a MANIFEST");
    if command.args.contains(&"damaged") {
        let path = Path::new(DIR).join(manifest_name(manifest_number));
        let mut file = fs.append(&path).expect("the MANIFEST");
        // These bytes look like the header of a complete record whose checksum is wrong.
        file.write(&[1, 2, 3, 4, 1, 0, 1, 9]).expect("a bad record");
    }
}

fn create(fs: &MemFs, name: &str) {
    fs.create(&Path::new(DIR).join(name)).expect("a file");
}

fn survey(fs: &MemFs) -> String {
    let dir = Path::new(DIR);
    let mut no_progress = |_| {};
    let mut findings = Findings::new(&mut no_progress);
    let mut survey =
        Survey { files: entries::list_files(fs, dir).expect("the files"), ..Survey::default() };
    survey.files.sort_by(|a, b| a.0.cmp(&b.0));
    let comparator = order().user().get().name().to_owned();
    survey.choose_manifest(fs, dir, &comparator, &mut findings).expect("a choice");
    survey.weigh_manifest(fs, dir, &order(), &mut findings);
    let mut lines = Vec::new();
    let by = if survey.has_current { "named by CURRENT" } else { "not named by CURRENT" };
    lines.push(match &survey.manifest {
        Some(manifest) => format!("{}, {by}", manifest.path.file_name().unwrap().display()),
        None => "no MANIFEST".to_owned(),
    });
    lines.push(match &survey.distrust {
        Some(why) => format!("not trusted: {why}"),
        None => "trusted".to_owned(),
    });
    for fault in &findings.faults {
        lines.push(format!("fault: {}", fault.what));
    }
    lines.join("\n")
}

#[test]
fn a_manifest_is_chosen() {
    let mut fs = MemFs::new();
    transcript::run("survey", |command: &Command<'_>| {
        match command.name {
            "database" => {
                fs = MemFs::new();
                fs.create_dir(Path::new(DIR)).expect("a directory");
                command.args.iter().for_each(|table| create(&fs, &table_name(number(table))));
            }
            "manifest" => write(&fs, command),
            "current" => set_current(&fs, Path::new(DIR), number(command.args[0])).expect("it"),
            "log" => create(&fs, &log_name(number(command.args[0]))),
            "survey" => return survey(&fs),
            _ => command.unknown(),
        }
        String::new()
    });
}

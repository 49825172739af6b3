//! `minikv man [COMMAND]`

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Command, ValueHint};
use clap_mangen::Man;

use super::count;
use crate::definition;
use crate::error::{CliError, Result};
use crate::output::{self, Stdout};

const EXIT_STATUS: &str = r#".SH "EXIT STATUS"
.TP
.B 0
Done.
.TP
.B 1
A key was not found (get, explain), the condition of a write was not met (put, delete), damage was
found (verify, backups \-\-verify), or a difference was found (diff).
.TP
.B 2
Usage: the command line, or a line of the input, is wrong.
.TP
.B 3
Another process holds the lock of the database.
.TP
.B 4
Corruption.
.TP
.B 5
An I/O error.
.TP
.B 6
A format or feature that this build cannot read.
.TP
.B 130
Interrupted.
"#;

const ENVIRONMENT: &str = r#".SH ENVIRONMENT
.TP
.B MINIKV_DB
Directory of the database, if neither \-\-db nor the argument DIR is given.
.TP
.B MINIKV_HISTORY
File of the lines typed to shell; empty to keep none.
.TP
.B NO_COLOR
If set, help pages, messages and entries have no colours.
.TP
.B TMPDIR
Directory for the temporary databases of demo, bench and readamp.
"#;

const FILES: &str = r#".SH FILES
The directory of a database holds:
.TP
.IR NNNNNN .ldb
A table of sorted entries
.RI ( NNNNNN .sst
in databases of LevelDB before 1.14).
.TP
.IR NNNNNN .log
A write\-ahead log: entries that are not in a table yet.
.TP
.BI MANIFEST\- NNNNNN
A list of the live tables and logs.
.TP
.B CURRENT
Names the MANIFEST in use.
.TP
.B LOCK
Locked by the process that has the database open for writing.
.TP
.B lost
A directory for files that repair, or an open after damage, takes out of the database.
"#;

const EXAMPLES: &str = r#".SH EXAMPLES
.EX
export MINIKV_DB=words.db
awk '{print $0 "\et" NR}' /usr/share/dict/words | minikv load
minikv get zebra
minikv scan \-\-prefix filt \-\-limit 3
minikv explain filtrx
minikv verify
minikv dump words.tsv
minikv inspect words.db/CURRENT words.db/*.ldb
.EE
"#;

/// Print a manual page, or install all of them
///
/// To read it: minikv man | man -l -
/// To install: minikv man --out ~/.local/share/man/man1
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Print the page of one command
    command: Option<String>,
    /// Write the page of minikv and one for each command to DIR
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "command")]
    out: Option<PathBuf>,
}

pub fn run(args: Args) -> Result<()> {
    let mut definition = definition::shown().disable_help_subcommand(true);
    definition.build();
    if let Some(dir) = &args.out {
        return install(&definition, dir);
    }
    let page = match &args.command {
        None => page(&definition, true),
        Some(name) => {
            let command = definition.find_subcommand(name).expect("the parser knows the names");
            page(command, false)
        }
    };
    let mut stdout = Stdout::open()?;
    stdout.write(&page)?;
    stdout.finish()
}

fn install(definition: &Command, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(|error| CliError::io("create", dir, error))?;
    let write = |name: String, page: Vec<u8>| {
        let path = dir.join(name + ".1");
        fs::write(&path, page).map_err(|error| CliError::io("write", &path, error))
    };
    write("minikv".to_string(), page(definition, true))?;
    let mut pages = 1;
    for command in definition.get_subcommands() {
        write(format!("minikv-{}", command.get_name()), page(command, false))?;
        pages += 1;
    }
    output::say(format!("wrote {} to {}", count(pages, "page", "pages"), dir.display()));
    Ok(())
}

/// Returns the manual page of minikv itself, or of one command.
fn page(command: &Command, is_root: bool) -> Vec<u8> {
    let mut page = Vec::new();
    let written = write_page(command, is_root, &mut page);
    written.expect("a Vec takes every write");
    page
}

fn write_page(command: &Command, is_root: bool, page: &mut Vec<u8>) -> std::io::Result<()> {
    let man = Man::new(command.clone());
    man.render_title(page)?;
    man.render_name_section(page)?;
    if is_root {
        page.extend_from_slice(b".SH SYNOPSIS\n.B minikv\n[\\fB\\-\\-db\\fR \\fIDIR\\fR] ");
        page.extend_from_slice(b"[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]\n");
    } else {
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").replace('-', "\\-");
        writeln!(page, ".SH SYNOPSIS\n{usage}")?;
    }
    man.render_description_section(page)?;
    if is_root {
        man.render_subcommands_section(page)?;
    }
    man.render_options_section(page)?;
    if is_root {
        for section in [EXIT_STATUS, ENVIRONMENT, FILES, EXAMPLES] {
            page.extend_from_slice(section.as_bytes());
        }
        return man.render_version_section(page);
    }
    page.extend_from_slice(b".SH \"SEE ALSO\"\n.BR minikv (1)\n");
    Ok(())
}

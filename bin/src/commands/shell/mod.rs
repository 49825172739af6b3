//! `minikv shell`

mod completer;

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};

use self::completer::KeyCompleter;
use super::Command;
use crate::args::{Cli, Dir, Global};
use crate::definition;
use crate::error::{CliError, Result, usage};
use crate::input;
use crate::output;
use crate::shared_db::SharedDb;
use crate::system;
use crate::writer::{is_same_dir, keep_lock_of};

const PROMPT: &str = "minikv> ";

/// Run commands line by line, with the database open
///
/// A line is a command as after `minikv`, with quotes and # comments as in sh, for example
/// `put greeting 'hello world'`; exit or quit ends the shell. The first command that writes opens
/// the database, and later commands use it. Options given to the shell hold for all lines. A line
/// with options that shape files opens the database for itself, and so does a command that needs it
/// closed, such as `repair`.
///
/// On a terminal, the tab key completes commands, options and keys, Ctrl-C cancels a line, and
/// Ctrl-D ends the shell. An interrupt while a command runs ends the shell. Lines are kept in the
/// file $MINIKV_HISTORY, by default ~/.local/state/minikv/history; an empty MINIKV_HISTORY keeps
/// none.
///
/// If stdin is a file or a pipe, the shell stops at the first command that fails, reports its line,
/// and ends with its exit code. If stdout is closed, all lines are still run.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) dir: Dir,
}

pub fn run(global: &Global, _: Args) -> Result<()> {
    let (dir, shared) = (global.db()?, SharedDb::default());
    keep_lock_of(&dir);
    let base = Global { db: Some(dir), shared: Some(shared.clone()), ..global.clone() };
    let shell = Shell { base };
    let outcome = match io::stdin().is_terminal() {
        true => shell.interact(),
        false => shell.run_script(),
    };
    outcome.and(shared.close())
}

struct Shell {
    /// Options for all lines.
    base: Global,
}

/// The next step after a line.
#[derive(PartialEq, Eq)]
enum Next {
    Line,
    End,
}

impl Shell {
    /// Runs the lines of stdin until one fails.
    fn run_script(&self) -> Result<()> {
        let (mut text, mut line) = (Vec::new(), 0);
        loop {
            // Stdin is not kept locked, because commands may read from it.
            let read = input::read_line(&mut io::stdin().lock(), true, &mut text);
            let name = "stdin".to_string();
            if read.map_err(|source| CliError::Io { op: "read", name, source })? == 0 {
                return Ok(());
            }
            line += 1;
            match self.run_line(input::line_of(&text, true, line)) {
                // Nobody reads the output of the line, but later lines may do more than to print.
                Ok(Next::Line) | Err(CliError::ClosedPipe) => {}
                Ok(Next::End) => return Ok(()),
                Err(error) => return Err(CliError::InLine { line, error: Box::new(error) }),
            }
        }
    }

    /// Reads lines from a terminal and runs them.
    fn interact(&self) -> Result<()> {
        let config = Config::builder().completion_type(CompletionType::List).build();
        let mut editor: Editor<KeyCompleter, DefaultHistory> =
            Editor::with_config(config).map_err(terminal_error)?;
        editor.set_helper(Some(KeyCompleter::new(&self.base)));
        let history = history_file();
        if let Some(file) = &history {
            // The file need not exist yet.
            let _ = editor.load_history(file);
        }
        output::say(format!(
            "minikv {}, {}; `help` lists the commands, `exit` or Ctrl-D ends",
            env!("CARGO_PKG_VERSION"),
            self.base.db()?.display()
        ));
        loop {
            let line = match editor.readline(PROMPT) {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => continue,
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(terminal_error(error)),
            };
            if !line.trim().is_empty() {
                let _ = editor.add_history_entry(line.as_str());
            }
            match self.run_line(line.as_bytes()) {
                Ok(Next::Line) => {}
                Ok(Next::End) => break,
                Err(error) => error.say(),
            }
        }
        if let Some(file) = &history {
            let saved = file.parent().map_or(Ok(()), std::fs::create_dir_all);
            if let Err(error) = saved.map_err(ReadlineError::from).and(editor.save_history(file)) {
                output::say(format!("minikv: cannot write {}: {error}", file.display()));
            }
        }
        Ok(())
    }

    fn run_line(&self, line: &[u8]) -> Result<Next> {
        let words = shlex::bytes::split(line).ok_or_else(|| {
            CliError::Usage("a quote or a backslash at the end is not closed".to_string())
        })?;
        let words: Vec<_> = words.into_iter().map(system::os_string).collect();
        match words.first().and_then(|word| word.to_str()) {
            _ if words.is_empty() => return Ok(Next::Line),
            Some("exit" | "quit") if words.len() == 1 => return Ok(Next::End),
            _ => {}
        }
        let cli = match definition::parse_words(&words) {
            Ok(cli) => cli,
            Err(error) if !error.use_stderr() => {
                output::page(&error)?;
                return Ok(Next::Line);
            }
            Err(error) => {
                let command = definition::command_of(&words);
                return Err(CliError::Usage(usage::message(error, command)));
            }
        };
        super::run(self.prepared(cli)?)?;
        Ok(Next::Line)
    }

    /// Returns the command of a line with the options of the shell. If the command cannot use the
    /// open database, closes the database.
    fn prepared(&self, cli: Cli) -> Result<Cli> {
        let Cli { global, command } = cli;
        if matches!(command, Command::Shell(_)) {
            return Err(CliError::Usage("this is the shell; `help` lists the commands".into()));
        }
        let mut global = global.with_dir(command.dir())?;
        let is_shaped = !global.shape.is_default();
        global.format = global.format.or(self.base.format);
        global.key_format = global.key_format.or(self.base.key_format);
        global.shape = global.shape.or(&self.base.shape);
        global.shape.check_filters()?;
        let dir = self.base.db()?;
        let is_other = match (&global.db, &command) {
            (Some(db), _) => !is_same_dir(db, &dir),
            (None, Command::Bench(_) | Command::Demo(_)) => true,
            (None, Command::Readamp(args)) => args.has_data(),
            (None, _) => false,
        };
        if is_other {
            return Ok(Cli { global, command });
        }
        global.db = Some(dir);
        match (&self.base.shared, is_shaped || command.locks_by_itself()) {
            (Some(shared), true) => shared.close()?,
            (shared, _) => global.shared = shared.clone(),
        }
        Ok(Cli { global, command })
    }
}

/// Returns the file of the lines typed so far, if they are to be kept.
fn history_file() -> Option<PathBuf> {
    if let Some(file) = std::env::var_os("MINIKV_HISTORY") {
        return (!file.is_empty()).then(|| PathBuf::from(file));
    }
    let state = std::env::var_os("XDG_STATE_HOME").filter(|dir| !dir.is_empty());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    Some(state.map(PathBuf::from).or_else(home)?.join("minikv/history"))
}

fn terminal_error(error: ReadlineError) -> CliError {
    let source = match error {
        ReadlineError::Io(source) => source,
        other => io::Error::other(other.to_string()),
    };
    CliError::Io { op: "read", name: "the terminal".to_string(), source }
}

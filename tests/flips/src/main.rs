//! Does one phase of a database: `minikv-flips ENGINE PHASE DIR`. Says that it is ready, and waits
//! for a line. With `check` for a phase, only checks what the database has.

use std::path::Path;
use std::process::ExitCode;

use minikv_flips::{ENGINES, Kind, PHASES, check};

/// The database, or the check of what it gave, said what is wrong.
const TOLD: u8 = 3;

/// The phase gave something else than was put.
const SILENT: u8 = 4;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let engine = words.next().expect("an engine");
    let kind = ENGINES.into_iter().find(|kind| kind.name() == engine).expect("a known engine");
    let (name, dir) = (words.next().expect("a phase"), words.next().expect("a directory"));
    let done = match &*name {
        "check" => match check(kind, Path::new(&dir)) {
            Ok(Ok(())) => Ok(Ok(())),
            Ok(Err(told)) => Err(told),
            Err(wrong) => Ok(Err(wrong)),
        },
        _ => work(kind, &name, Path::new(&dir)),
    };
    match done {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(wrong)) => {
            eprintln!("{wrong}");
            ExitCode::from(SILENT)
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(TOLD)
        }
    }
}

fn work(kind: Kind, name: &str, dir: &Path) -> Result<Result<(), String>, String> {
    let phase = PHASES.into_iter().find(|phase| phase.name() == name).expect("a known phase");
    let db = kind.open(dir, false)?;
    phase.begin(&*db)?;
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).expect("a line");
    let done = phase.work(&*db)?;
    db.close()?;
    Ok(done)
}

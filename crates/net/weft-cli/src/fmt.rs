//! `weft fmt`.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use nlog::Sources;
use nlog::diagnostic::Code;
use nlog::limits::MAX_FILE;
use nlog::source::{LoadError, files_of};
use nlog_data::encoding::other_than_utf8;
use nlog_data::quotation::cut;
use weft_core::builtin;

use crate::exit::{Failure, say};
use crate::program::{read_file, show};
use crate::replacement::Replacement;

/// Arguments of `weft fmt`.
#[derive(Args)]
#[command(
    after_help = "The names of changed files go to standard error. A file with syntax errors is left unchanged, and\n\
                  the exit status is then 1."
)]
pub(crate) struct Fmt {
    /// `.nlog` files or folders; `-` formats standard input to standard output
    #[arg(required = true, value_name = "PROGRAM")]
    programs: Vec<PathBuf>,
    /// Write nothing; exit with status 1 if a file would change
    #[arg(long)]
    check: bool,
}

impl Fmt {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.programs.iter().any(|path| path.as_os_str() == "-") {
            return self.standard_input();
        }
        // All paths are resolved first, so that an invalid one stops the command before anything is
        // written.
        let mut files = Files::default();
        for path in &self.programs {
            files.find(path)?;
        }
        let (mut rejected, mut failed) = (false, None);
        for path in &files.found {
            match self.file(path) {
                Ok(()) => {}
                Err(Failure::Outside(reason)) => {
                    if let Some(earlier) = failed.replace(reason) {
                        say(format_args!("error: {earlier}"));
                    }
                }
                Err(_) => rejected = true,
            }
        }
        match failed {
            Some(reason) => Err(Failure::Outside(reason)),
            None if rejected => Err(Failure::Reported),
            None => Ok(()),
        }
    }

    fn standard_input(&self) -> Result<(), Failure> {
        if self.programs.len() > 1 {
            return Err(Failure::Usage("`-` stands alone: standard input becomes standard output".into()));
        }
        let mut bytes = Vec::new();
        let mut input = io::stdin().lock().take(MAX_FILE as u64 + 1);
        input.read_to_end(&mut bytes).map_err(|error| Failure::outside("standard input", error))?;
        let name = "standard input";
        let text = decoded(name, bytes)?;
        let out = laid_out(name, &text)?;
        if self.check {
            return if out == text { Ok(()) } else { Err(differs(name, &text, &out)) };
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(out.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::output)
    }

    /// Lays a file out.
    fn file(&self, path: &Path) -> Result<(), Failure> {
        let name = path.display().to_string();
        let bytes = read_file(path).map_err(|error| Failure::outside(&name, error))?;
        let text = decoded(&name, bytes)?;
        let out = laid_out(&name, &text)?;
        if out == text {
            return Ok(());
        }
        if self.check {
            return Err(differs(&name, &text, &out));
        }
        replace(path, &out).map_err(|error| Failure::outside(&name, error))?;
        say(&name);
        Ok(())
    }
}

/// The text of a file; reports the place of invalid UTF-8.
fn decoded(name: &str, bytes: Vec<u8>) -> Result<String, Failure> {
    if bytes.len() > MAX_FILE {
        say(format_args!("error[syntax]: {name}: the file is larger than {} MiB", MAX_FILE >> 20));
        return Err(Failure::Reported);
    }
    if let Some(encoding) = other_than_utf8(&bytes) {
        say(format_args!("error[syntax]: {name}: the file is encoded in {encoding}, not in UTF-8"));
        return Err(Failure::Reported);
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let before = &error.as_bytes()[..at];
        let line = before.split(|byte| *byte == b'\n').count();
        let byte = error.as_bytes()[at];
        say(format_args!(
            "error[syntax]: {name}:{line}: the file is not UTF-8: byte {byte:#04x} on this line"
        ));
        Failure::Reported
    })
}

/// The formatted text; reports syntax errors as `weft check` does.
fn laid_out(name: &str, text: &str) -> Result<String, Failure> {
    nlog::format(text).map_err(|_| {
        let sources = Sources::from_texts([(name, text)]);
        let diagnostics = nlog::compile(&sources).diagnostics;
        show(diagnostics.iter().filter(|diagnostic| diagnostic.code == Code::Syntax), &sources);
        Failure::Reported
    })
}

/// Reports the first difference of the layout.
fn differs(name: &str, text: &str, out: &str) -> Failure {
    let mut new = out.lines();
    let lines = text.lines().count();
    for (number, old) in text.split('\n').enumerate().take(lines) {
        let new = new.next();
        if new == Some(old) {
            continue;
        }
        let place = format!("{name}:{}", number + 1);
        if new == Some(old.trim_end()) {
            say(format_args!("{place}: white space at the end of the line"));
        } else {
            say(format_args!("{place}: would be laid out anew"));
            say(format_args!("-{}", cut(old.trim_end_matches('\r'))));
            if let Some(new) = new {
                say(format_args!("+{}", cut(new)));
            }
        }
        return Failure::Reported;
    }
    say(format_args!("{name}:{lines}: the last line has no line break"));
    Failure::Reported
}

/// Replaces a file atomically, keeping its permissions and owner.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = Replacement::of(path)?;
    new.file().write_all(text.as_bytes())?;
    new.finish()
}

/// The files to format: those named, and those in folders. Imports are not followed.
#[derive(Default)]
struct Files {
    found: Vec<PathBuf>,
    /// The same files, to detect those reached under several names.
    seen: HashSet<PathBuf>,
}

impl Files {
    fn find(&mut self, path: &Path) -> Result<(), Failure> {
        if builtin::owns(path) {
            // It is no file, and a test of the repository has seen to its layout.
            return Ok(());
        }
        let outside = |error| Failure::outside(format_args!("cannot read {}", path.display()), error);
        let metadata = fs::metadata(path).map_err(outside)?;
        if metadata.is_file() {
            return self.file(path).map_err(outside);
        }
        if !metadata.is_dir() {
            let path = path.display();
            return Err(Failure::Outside(format!(
                "{path} is neither a file nor a folder; `weft fmt -` formats standard input"
            )));
        }
        let files = files_of(path).map_err(|error| Failure::Outside(error.to_string()))?;
        if files.is_empty() {
            return Err(Failure::Rejected(LoadError::Empty { path: path.to_owned() }.to_string()));
        }
        files.iter().try_for_each(|file| {
            let outside = |error| Failure::outside(format_args!("cannot read {}", file.display()), error);
            self.file(file).map_err(outside)
        })
    }

    fn file(&mut self, path: &Path) -> io::Result<()> {
        if self.seen.insert(path.canonicalize()?) {
            self.found.push(path.to_owned());
        }
        Ok(())
    }
}

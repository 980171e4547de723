//! A program of NVP's size: checked cold, checked again after an edit, and run until the first delta.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use logos::Logos as _;
use nlog::syntax::SyntaxKind;
use nlog::{Sources, Workspace};

use crate::measure;
use crate::nvp::{Edit, Program, Text};

/// Writes the program of this seed below a folder: `rules/` with its files, `whole.nlog`, `transaction.jsonl`.
pub(crate) fn write(seed: u64, folder: &Path) -> Result<Text> {
    let text = Program::generate(seed).text();
    let put = |path: &Path, text: &str| -> Result<()> {
        let folder = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    for (path, text) in &text.files {
        put(&folder.join("rules").join(path), text)?;
    }
    put(&folder.join("whole.nlog"), &text.whole)?;
    put(&folder.join("transaction.jsonl"), &format!("{}\n", text.transaction))?;
    Ok(text)
}

/// Prints the figures.
pub(crate) fn figures(seed: u64, runs: usize) -> Result<()> {
    let folder = tempfile::tempdir().context("cannot make a folder for the program")?;
    let text = write(seed, folder.path())?;
    let rules = folder.path().join("rules");
    let whole = folder.path().join("whole.nlog");
    let lines: usize = text.files.iter().map(|(_, text)| text.lines().count()).sum();
    let bytes: usize = text.files.iter().map(|(_, text)| text.len()).sum();
    println!(
        "\na program of NVP's size (seed {seed}): {} files, {lines} lines, {bytes} bytes; {runs} runs\n",
        text.files.len()
    );
    println!(
        "| new processes | weft check, ms | reading and cutting into tokens alone, ms | ratio |\n|---|---|---|---|"
    );
    for (name, path) in [("check of the folder", &rules), ("check of one file", &whole)] {
        let (mut ours, mut baseline) = (Vec::new(), Vec::new());
        for run in 0..=runs {
            let pair = (check(path)?, measure::child::<f64>(&["program-lex", &display(path)])?);
            if run > 0 {
                ours.push(pair.0);
                baseline.push(pair.1);
            }
        }
        measure::print_ratio(name, 1, &ours, &baseline);
    }
    println!("\n| one line edited, same process | again, ms | all of it, ms | ratio |\n|---|---|---|---|");
    for edit in &text.edits {
        again(&rules, &rules.join(&edit.path), edit, runs, &edit.what)?;
    }
    again(&whole, &whole, &text.edits[0], runs, "the same condition, all in one file")?;
    println!(
        "\n| until the first delta | weft eval, s | weft eval --reference, s | ratio |\n|---|---|---|---|"
    );
    let transaction = folder.path().join("transaction.jsonl");
    let (mut ours, mut baseline) = (Vec::new(), Vec::new());
    for run in 0..=runs {
        let pair =
            (first_delta(&rules, &transaction, &[])?, first_delta(&rules, &transaction, &["--reference"])?);
        if run > 0 {
            ours.push(pair.0);
            baseline.push(pair.1);
        }
    }
    measure::print_ratio("eval of the folder", 3, &ours, &baseline);
    Ok(())
}

fn display(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Checks a program in a separate process. Returns the milliseconds from its start to its end.
fn check(program: &Path) -> Result<f64> {
    let start = Instant::now();
    let status = Command::new(measure::weft()?).arg("check").arg(program).status()?;
    let elapsed = start.elapsed().as_secs_f64() * 1e3;
    anyhow::ensure!(status.success(), "`weft check {}` failed ({status})", program.display());
    Ok(elapsed)
}

/// Reads all files below a path and splits them into tokens, the minimum work of any compiler. Prints the
/// milliseconds since this process started.
pub(crate) fn lex(path: &Path, start: Instant) -> Result<()> {
    let mut tokens = 0;
    let mut open = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                open.push(entry?.path());
            }
        } else {
            tokens += SyntaxKind::lexer(&std::fs::read_to_string(&path)?).count();
        }
    }
    anyhow::ensure!(tokens > 0, "there is nothing in {}", path.display());
    println!("{}", start.elapsed().as_secs_f64() * 1e3);
    Ok(())
}

/// Edits a file and reverts it, `runs` times, and checks each time: incrementally, and from scratch for
/// comparison.
fn again(program: &Path, file: &Path, edit: &Edit, runs: usize, name: &str) -> Result<()> {
    let mut workspace = Workspace::open(&[program])?;
    let before = std::fs::read_to_string(file)?;
    let after = before.replacen(&edit.from, &edit.to, 1);
    let rules = workspace.compilation().program.as_ref().map_or(0, |program| program.rules.len());
    let (mut ours, mut baseline, mut reused) = (Vec::new(), Vec::new(), 0);
    for run in 0..=runs {
        for text in [&after, &before] {
            let start = Instant::now();
            workspace.set_text(file, text.as_str())?;
            let compilation = workspace.compilation();
            let elapsed = start.elapsed().as_secs_f64() * 1e3;
            anyhow::ensure!(compilation.program.is_some(), "{} is at fault once {name} is edited", edit.path);
            reused = workspace.reused_rules();
            let start = Instant::now();
            let texts = workspace.sources().files().iter().map(|file| (&*file.name, file.text.as_str()));
            let fresh = nlog::compile(&Sources::from_texts(texts));
            if run > 0 {
                ours.push(elapsed);
                baseline.push(start.elapsed().as_secs_f64() * 1e3);
            }
            drop(fresh);
        }
    }
    measure::print_ratio(
        &format!("{name}; {} of {rules} rules checked", rules - reused),
        1,
        &ours,
        &baseline,
    );
    Ok(())
}

/// Runs a transaction in a separate process. Returns the seconds until its line of deltas can be read.
fn first_delta(program: &Path, transactions: &Path, more: &[&str]) -> Result<f64> {
    let start = Instant::now();
    let mut child = Command::new(measure::weft()?)
        .arg("eval")
        .arg(program)
        .arg("-i")
        .arg(transactions)
        .args(more)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
    let elapsed = start.elapsed().as_secs_f64();
    let status = child.wait()?;
    let accepted = line.starts_with("{\"txn\":1,\"insert\":{\"o");
    anyhow::ensure!(status.success() && accepted, "the transaction is refused: {line}");
    Ok(elapsed)
}

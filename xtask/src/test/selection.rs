//! Selects the tests for an edit: those of the crates that it touches, and those that run the rules or the book.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Folders outside the crates, with the packages that test their contents.
const TESTED_BY: &[(&str, &[&str])] = &[
    (
        "rules/",
        &["rule-tests", "packet-trace", "weft-cli", "conformance", "weft-core", "controller", "objects"],
    ),
    ("examples/", &["weft-cli", "nlog", "fuzz-targets"]),
    ("docs/", &["weft-cli", "nlog", "nlog-data", "openflow-rs", "fuzz-targets"]),
    ("fuzz/", &["fuzz-targets"]),
    ("README.md", &["weft-cli"]),
    ("ARCHITECTURE.md", &["weft-cli"]),
    ("editors/", &["nlog"]),
    ("proto/", &["controller"]),
];

/// The selected tests.
pub(crate) enum Selection {
    /// The whole workspace.
    Whole,
    /// These packages; the others are only built.
    Packages(BTreeSet<String>),
}

impl Selection {
    /// All packages.
    pub(crate) fn whole() -> Self {
        Selection::Whole
    }

    /// Packages of the workspace, by name.
    ///
    /// # Errors
    /// There is no such package; nextest would run no test and call that a success of the others.
    pub(crate) fn of_packages(names: &[String]) -> Result<Self> {
        let known = packages()?;
        for name in names {
            if !known.iter().any(|(_, package)| package == name) {
                let mut known: Vec<&str> = known.iter().map(|(_, package)| package.as_str()).collect();
                known.sort_unstable();
                bail!("there is no package `{name}`; the workspace has {}", known.join(", "));
            }
        }
        Ok(Selection::Packages(names.iter().cloned().collect()))
    }

    /// The packages that differ from the last commit, and those that test other folders that differ. The whole workspace
    /// if nothing differs, or if a file differs that every package depends on.
    pub(crate) fn of_edits() -> Result<Self> {
        let packages = packages()?;
        let mut selected = BTreeSet::new();
        for path in edited()? {
            let by_folder = TESTED_BY.iter().find(|(folder, _)| path.starts_with(folder));
            let of_crate = packages.iter().find(|(folder, _)| path.starts_with(folder));
            match (by_folder, of_crate) {
                (Some((_, names)), _) => selected.extend(names.iter().map(|name| (*name).to_owned())),
                (None, Some((_, name))) => {
                    selected.insert(name.clone());
                }
                (None, None) if Path::new(&path).extension().is_some_and(|extension| extension == "md") => {}
                (None, None) => return Ok(Selection::Whole),
            }
        }
        Ok(if selected.is_empty() { Selection::Whole } else { Selection::Packages(selected) })
    }

    /// Whether the tests of a package are in it.
    pub(crate) fn has(&self, package: &str) -> bool {
        match self {
            Selection::Whole => true,
            Selection::Packages(names) => names.contains(package),
        }
    }

    /// Lines that describe the selection, printed before anything runs.
    pub(crate) fn describe(&self) -> Vec<String> {
        match self {
            Selection::Whole => vec![],
            Selection::Packages(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                vec![format!("tests of the packages {}", names.join(", "))]
            }
        }
    }

    /// The selection as a filter of nextest. The whole workspace is still built: for a part of it, cargo would resolve
    /// other features and build most dependencies again. It also shows type errors that the edit causes in other crates.
    pub(crate) fn filter(&self) -> Option<String> {
        match self {
            Selection::Whole => None,
            Selection::Packages(names) => {
                let names: Vec<String> = names.iter().map(|name| format!("package(={name})")).collect();
                Some(format!("({})", names.join(" | ")))
            }
        }
    }

    /// The tests left out, for the last line.
    pub(crate) fn left_out(&self) -> Vec<String> {
        match self {
            Selection::Whole => vec![],
            Selection::Packages(_) => vec!["tests of the other packages".to_owned()],
        }
    }
}

/// Each package's folder, relative to the workspace and with a `/` at its end, and name.
fn packages() -> Result<Vec<(String, String)>> {
    let metadata = output(
        &crate::cargo_program().to_string_lossy(),
        &["metadata", "--no-deps", "--format-version", "1", "--offline"],
    )?;
    let metadata: Value = serde_json::from_str(&metadata).context("`cargo metadata` prints JSON")?;
    let root =
        metadata["workspace_root"].as_str().context("`cargo metadata` names the workspace's folder")?;
    let list = metadata["packages"].as_array().context("`cargo metadata` lists packages")?;
    let package = |package: &Value| {
        let folder = package["manifest_path"].as_str()?.strip_prefix(root)?.strip_prefix('/')?;
        Some((folder.strip_suffix("Cargo.toml")?.to_owned(), package["name"].as_str()?.to_owned()))
    };
    list.iter().map(package).collect::<Option<_>>().context("`cargo metadata` describes packages otherwise")
}

/// Paths of files that differ from the last commit, new ones included.
fn edited() -> Result<Vec<String>> {
    let changed = output("git", &["diff", "--name-only", "HEAD"])?;
    let new = output("git", &["ls-files", "--others", "--exclude-standard"])?;
    Ok(changed.lines().chain(new.lines()).map(str::to_owned).collect())
}

fn output(program: &str, arguments: &[&str]) -> Result<String> {
    let output =
        Command::new(program).args(arguments).output().with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        bail!("`{program} {}`: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{program}` prints something that is no text"))
}

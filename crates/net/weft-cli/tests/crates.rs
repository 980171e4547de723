//! What may depend on what. From `cargo metadata`: oracles and labs stay out of the daemon, and computation away from sockets. From
//! imports: modules have an order. From texts: the core has no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value as Json;

use crate::support::root;

/// Crates without I/O: they reach neither tokio nor gRPC.
const PURE: [&str; 16] = [
    "flow-simulator",
    "frame-builder",
    "network",
    "nlog",
    "nlog-data",
    "nlog-explain",
    "nlog-hooks",
    "nlog-plan",
    "openflow-rs",
    "packet-filter",
    "packet-trace",
    "pipeline",
    "simulated-hosts",
    "switch-model",
    "tunnel-encap",
    "weft-core",
];

/// The packages of the workspace.
struct Packages {
    /// By name, the names of its dependencies outside of tests.
    dependencies: BTreeMap<String, BTreeSet<String>>,
    /// Those that exist to check others.
    checks: Vec<String>,
}

fn packages() -> Packages {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Json = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let name = |of: &Json| of["name"].as_str().expect("a name").to_owned();
    let packages = metadata["packages"].as_array().expect("packages");
    let of_package = |package: &Json| {
        let all = package["dependencies"].as_array().expect("dependencies");
        (name(package), all.iter().filter(|dependency| dependency["kind"].is_null()).map(name).collect())
    };
    let is_check = |package: &&Json| {
        package["manifest_path"].as_str().is_some_and(|path| path.contains("/crates/check/"))
    };
    Packages {
        dependencies: packages.iter().map(of_package).collect(),
        checks: packages.iter().filter(is_check).map(name).collect(),
    }
}

/// The path of dependencies from a crate to one of these, if there is one.
fn path(all: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &[&str]) -> Option<Vec<String>> {
    let mut paths = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::from([from.to_owned()]);
    while let Some(path) = paths.pop() {
        let last = path.last().expect("no path is empty");
        if to.contains(&last.as_str()) {
            return Some(path);
        }
        for next in all.get(last).into_iter().flatten() {
            if seen.insert(next.clone()) {
                paths.push([path.clone(), vec![next.clone()]].concat());
            }
        }
    }
    None
}

#[test]
fn nothing_in_the_daemon_depends_on_what_checks_it() {
    let Packages { dependencies: all, checks } = packages();
    let checks: Vec<&str> = checks.iter().map(String::as_str).collect();
    assert!(checks.contains(&"nlog-reference") && checks.len() > 5, "{checks:?}");
    assert_eq!(path(&all, "controller", &checks), None);
    // The command may: `weft test`, `eval --reference`, `lab`.
    assert!(path(&all, "weft-cli", &checks).is_some());
}

#[test]
fn computation_reaches_no_sockets() {
    let all = packages().dependencies;
    for pure in PURE {
        assert!(all.contains_key(pure), "there is no crate {pure}");
        assert_eq!(path(&all, pure, &["tokio", "tonic", "hyper", "mio"]), None);
    }
    assert!(path(&all, "controller", &["tokio"]).is_some());
}

/// What the core must not name: the same events at the same times have the same effects.
const IMPURE: [&str; 8] = [
    "Instant::now",
    "SystemTime::now",
    "UNIX_EPOCH.elapsed",
    "std::fs",
    "std::net::Tcp",
    "std::process",
    "std::thread",
    "thread_rng",
];

#[test]
fn the_core_reads_no_clock_and_no_file_and_starts_no_thread() {
    let texts = texts(&root().join("crates/net/weft-core/src"));
    assert!(texts["machine"].contains("pub fn step"), "the machine is there");
    for (module, text) in &texts {
        for name in IMPURE {
            assert!(!text.contains(name), "{module} of weft-core names {name}");
        }
    }
}

/// The code of the modules of a crate (each a file, with the folder of its name), outside of tests and without comments.
fn texts(source: &Path) -> BTreeMap<String, String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let mut folders = vec![source.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder of sources") {
            let path = entry.expect("the folder can be read").path();
            let inside = path.strip_prefix(source).expect("it is inside").with_extension("");
            if path.is_dir() {
                if !path.ends_with("tests") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.ends_with("tests.rs")
            {
                let module = inside.iter().next().expect("a file has a name").to_string_lossy().into_owned();
                let text = fs::read_to_string(&path).expect("a source is text");
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
                texts.entry(module).or_default().extend(code.flat_map(|line| [line, "\n"]));
            }
        }
    }
    texts
}

/// The modules of a crate, and those that each imports.
fn modules(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let texts = texts(source);
    let imported = |text: &str| -> BTreeSet<String> {
        let after = text.split("crate::").skip(1);
        let names = after
            .map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default());
        names.filter(|name| texts.contains_key(*name)).map(str::to_owned).collect()
    };
    texts.iter().map(|(module, text)| (module.clone(), imported(text))).collect()
}

#[test]
fn the_modules_of_a_crate_import_no_circle() {
    for (folder, least, known) in
        [("crates/net/controller/src", 20, "engine"), ("crates/net/weft-core/src", 25, "machine")]
    {
        let modules = modules(&root().join(folder));
        assert!(modules.len() > least && !modules[known].is_empty(), "{modules:?}");
        for (module, imports) in &modules {
            for import in imports.iter().filter(|import| *import != module) {
                let back = path(&modules, import, &[module]);
                assert_eq!(back, None, "{folder}: {module} imports {import}, which leads back to it");
            }
        }
    }
}

//! What may depend on what. From `cargo metadata`: oracles and labs stay out of the daemon, and computation away from sockets. From
//! imports: the modules of some crates have an order. From texts: the core has no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value as Json;

use crate::support::root;

/// Crates without I/O: they reach neither tokio nor gRPC.
const PURE: [&str; 17] = [
    "flow-simulator",
    "frame-builder",
    "objects",
    "nlog",
    "nlog-data",
    "nlog-explain",
    "nlog-hooks",
    "nlog-plan",
    "openflow-rs",
    "packet-answers",
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

/// Programs of others use it.
#[test]
fn the_client_is_small() {
    let all = packages().dependencies;
    let large = ["controller", "weft-core", "nlog", "nlog-dataflow", "timely", "ovs-driver", "axum"];
    assert_eq!(path(&all, "weft-client", &large), None);
    assert!(path(&all, "weft-cli", &["weft-client"]).is_some());
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

/// Crates besides the controller whose modules import no circle.
const ORDERED: [&str; 6] = [
    "crates/lang/packet-filter",
    "crates/net/weft-core",
    "crates/switch/ovs-driver",
    "crates/switch/switch-model",
    "crates/wire/frame-builder",
    "crates/wire/tunnel-encap",
];

/// The code of a file without tests and comments.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("a source is text");
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The names in a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// By the names that the root of a crate takes from modules, these modules.
fn names_of_the_root(root: &str) -> BTreeMap<&str, &str> {
    let uses = root.split("use ").skip(1).filter_map(|rest| rest.split(';').next());
    let pairs = uses.filter_map(|path| path.split_once("::"));
    pairs.flat_map(|(module, names)| words(names).map(move |name| (name, module))).collect()
}

/// The code of the modules of a crate (each a file, with the folder of its name), outside of tests.
fn texts(source: &Path) -> BTreeMap<String, String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let mut folders = vec![source.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder of sources") {
            let path = entry.expect("the folder can be read").path();
            let inside = path.strip_prefix(source).expect("it is inside").with_extension("");
            if path.is_dir() && !path.ends_with("tests") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.ends_with("tests.rs")
            {
                let module = inside.iter().next().expect("a file has a name").to_string_lossy().into_owned();
                texts.entry(module).or_default().push_str(&code(&path));
            }
        }
    }
    texts
}

/// The modules of a crate, and those that each imports, also by a name that the root of the crate has from them.
fn modules(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut texts = texts(source);
    let root = texts.remove("lib").unwrap_or_default();
    let of_root = names_of_the_root(&root);
    let imported = |text: &str| -> BTreeSet<String> {
        let mut names = Vec::new();
        for rest in text.split("crate::").skip(1) {
            match rest.strip_prefix('{').and_then(|rest| rest.split('}').next()) {
                Some(list) => names.extend(list.split(',').filter_map(|path| words(path).next())),
                None => names.extend(words(rest).next()),
            }
        }
        let modules = names.into_iter().map(|name| of_root.get(name).copied().unwrap_or(name));
        modules.filter(|module| texts.contains_key(*module)).map(str::to_owned).collect()
    };
    texts.iter().map(|(module, text)| (module.clone(), imported(text))).collect()
}

/// Checks that no module of a crate imports one that leads back to it.
fn assert_no_circle(of: &str) {
    let modules = modules(&root().join(of).join("src"));
    for (module, imports) in &modules {
        for import in imports.iter().filter(|import| *import != module) {
            let back = path(&modules, import, &[module]);
            assert_eq!(back, None, "{of}: {module} imports {import}, which leads back to it");
        }
    }
}

#[test]
fn the_modules_of_the_controller_import_no_circle() {
    assert_no_circle("crates/net/controller");
}

#[test]
fn the_modules_of_other_crates_import_no_circle() {
    ORDERED.into_iter().for_each(assert_no_circle);
}

#[test]
fn imports_are_found_in_each_form() {
    let modules = modules(&root().join("crates/switch/ovs-driver/src"));
    let imports = |module: &str, other: &str| modules[module].contains(other);
    assert!(imports("openflow", "intent") && imports("intent", "ports") && !imports("intent", "openflow"));
    let names = names_of_the_root("pub use flow::{Flow, FlowKey};\nuse std::fmt;\n");
    assert_eq!((names["FlowKey"], names["fmt"]), ("flow", "std"));
}

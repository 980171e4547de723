//! Kinds of objects are data: the rules declare them, and a package adds its own. Source code that names several kinds is a list that no
//! package is in.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use weft_core::rules::Rules;

use crate::support::root;

/// The files that name several kinds of the built-in rules, and why.
const NAMING: [(&str, &str); 7] = [
    ("crates/net/controller/src/metrics/definitions.rs", "labels that have the names of kinds"),
    (
        "crates/net/packet-trace/src/cause.rs",
        "the objects on a switch that say why no port there has an address",
    ),
    ("crates/net/packet-trace/src/findings/acls.rs", "findings about ACLs"),
    (
        "crates/net/packet-trace/src/findings/objects.rs",
        "the tenant of a switch: a field, beside the kind of that name",
    ),
    ("crates/net/packet-trace/src/findings/routers.rs", "findings about routers"),
    ("crates/net/packet-trace/src/findings/security.rs", "findings about port security"),
    ("crates/net/packet-trace/src/packet.rs", "where a packet may come from"),
];

/// The code of a file, without its unit tests and comments.
pub(crate) fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            if !path.ends_with("tests") && !path.ends_with("target") {
                collect(&path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with("tests.rs")
            && path.components().any(|part| part.as_os_str() == "src")
        {
            files.push(path);
        }
    }
}

/// The source files of the programs that users run.
pub(crate) fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for part in ["lang", "wire", "switch", "net"] {
        collect(&root().join("crates").join(part), &mut files);
    }
    files
}

#[test]
fn no_list_of_kinds_is_written_by_hand() {
    let rules = Rules::built_in().expect("the built-in rules are right");
    let kinds: Vec<String> = rules.kinds().iter().map(|kind| format!("\"{}\"", kind.name())).collect();
    assert!(kinds.len() > 10, "{kinds:?}");
    let files = sources();
    let names_several =
        |file: &PathBuf| kinds.iter().filter(|kind| code(file).contains(kind.as_str())).count() > 1;
    let inside = |file: &PathBuf| {
        file.strip_prefix(root()).expect("it is inside the repository").to_string_lossy().into_owned()
    };
    let found: BTreeSet<String> = files.iter().filter(|file| names_several(file)).map(inside).collect();
    let known: BTreeSet<String> = NAMING.iter().map(|(file, _)| (*file).to_owned()).collect();
    assert_eq!(
        found, known,
        "ask the rules for their kinds (`Rules::kinds`, `Program::objects`) instead of listing them"
    );
}

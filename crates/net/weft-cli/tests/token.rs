//! `weft token`: a file with hashes, and a token that is printed once.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Stdio;

use serde_json::Value as Json;

use crate::support::{Folder, finish};

/// Makes a token, and returns its text.
fn create(folder: &Folder, name: &str, more: &[&str]) -> String {
    let outcome = folder.weft(&[&["token", "create", name, "--role", "viewer"], more].concat());
    outcome.has_status(0).stdout.trim_end().to_owned()
}

/// What `weft token list --json` says.
fn listed(folder: &Folder) -> Vec<Json> {
    let outcome = folder.weft(&["token", "list", "--json"]);
    outcome.has_status(0).stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_token_is_printed_once_and_its_file_is_for_its_owner() {
    let folder = Folder::new();
    let outcome = folder.weft(&["token", "create", "ci", "--role", "operator", "--days", "7"]);
    let text = outcome.has_status(0).stdout.trim_end().to_owned();
    let [prefix, id, secret] = text.split('_').collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert_eq!((prefix, id.len(), secret.len()), ("weft", 12, 64));
    let told = format!("tokens.toml: token {id} of ci with role operator, good until ");
    assert!(outcome.stderr.starts_with(&told), "{}", outcome.stderr);
    let file = folder.path("tokens.toml");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(&file).unwrap().contains(secret));
    let [token] = &listed(&folder)[..] else { panic!("one token") };
    assert_eq!(
        [&token["id"], &token["name"], &token["role"], &token["state"]],
        [id, "ci", "operator", "valid"]
    );
    let table = folder.weft(&["token", "list"]).has_status(0).stdout.clone();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "ROLE", "EXPIRES", "STATE", "ID"]);
    assert_eq!((rows[1][0], rows[1][1], rows[1][3], rows[1][4]), ("ci", "operator", "valid", id));
}

#[test]
fn one_token_is_revoked_by_its_id_and_all_by_their_name() {
    let folder = Folder::new();
    let ids: Vec<String> = ["ci", "ci", "ci", "bob"]
        .iter()
        .map(|name| create(&folder, name, &[]).split('_').nth(1).unwrap().to_owned())
        .collect();
    let revoke = |what: &str| folder.weft(&["token", "revoke", what]);
    assert_eq!(revoke(&ids[0]).has_status(0).stderr, format!("ci: token {} revoked\n", ids[0]));
    assert_eq!(revoke("ci").has_status(0).stderr, "ci: 2 tokens revoked\n");
    let left: Vec<String> =
        listed(&folder).iter().map(|token| token["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(left, ids[3..]);
    let outcome = revoke("ci");
    let told =
        "error: tokens.toml has no token with this name or id; `weft token list` shows those that it has\n";
    assert_eq!(outcome.has_status(1).stderr, told);
}

#[test]
fn a_file_that_is_not_one_of_tokens_stays_as_it_is() {
    let folder = Folder::new();
    folder.write("tokens.toml", "mine = 1\n");
    for words in [&["create", "ci", "--role", "viewer"][..], &["list"], &["revoke", "ci"]] {
        let outcome = folder.weft(&[&["token"], words].concat());
        let told = "error: tokens.toml: unknown field `mine`";
        assert!(outcome.has_status(1).stderr.starts_with(told), "{}", outcome.stderr);
    }
    assert_eq!(fs::read_to_string(folder.path("tokens.toml")).unwrap(), "mine = 1\n");
    let outcome = folder.weft(&["token", "list", "--file", "none.toml"]);
    assert!(
        outcome.has_status(3).stderr.starts_with("error: cannot read the tokens in none.toml: "),
        "{}",
        outcome.stderr
    );
}

#[test]
fn commands_at_the_same_time_take_turns() {
    const NAMES: usize = 12;
    let folder = Folder::new();
    let names: BTreeSet<String> = (0..NAMES).map(|at| format!("a{at}")).collect();
    let running: Vec<_> = names
        .iter()
        .map(|name| {
            let mut command = folder.command(&["token", "create", name, "--role", "viewer"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in running {
        finish(child).has_status(0);
    }
    let listed: BTreeSet<String> =
        listed(&folder).iter().map(|token| token["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(listed, names);
}

//! The files in `packaging/`. `cargo xtask package --test` installs the package itself.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Folder, root};

/// The folder of the files that the package is made of.
fn packaging(file: &str) -> String {
    root().join("packaging").join(file).to_str().unwrap().to_owned()
}

/// The section about the package in the manifest of `weft-cli`.
fn metadata() -> toml::Table {
    let manifest = fs::read_to_string(root().join("crates/net/weft-cli/Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    manifest["package"]["metadata"]["deb"].as_table().unwrap().clone()
}

/// The units of the package.
const UNITS: [&str; 2] = ["weft.service", "weft-responder.service"];

/// What systemd says about a unit, with the program that the tests are run by.
fn systemd_analyze(verb: &[&str], name: &str) -> String {
    let folder = Folder::new();
    let unit = fs::read_to_string(packaging(name)).unwrap();
    let unit = unit.replace("/usr/bin/weft", env!("CARGO_BIN_EXE_weft"));
    folder.write(name, unit);
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(verb).arg(folder.path(name)).env("SYSTEMD_COLORS", "0").env("SYSTEMD_PAGER", "");
    let output = analyze.output().expect("systemd-analyze is installed: it is in the package systemd");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn systemd_finds_no_fault_in_the_units() {
    for name in UNITS {
        assert_eq!(systemd_analyze(&["verify", "--man=no"], name), "");
    }
}

#[test]
fn the_units_are_hardened() {
    for (name, weakness) in UNITS.into_iter().zip(["PrivateNetwork", "User"]) {
        is_hardened(name, weakness);
    }
}

/// Each setting that is not strictest, among them this one, is named in the unit, with its reason.
fn is_hardened(name: &str, weakness: &str) {
    // Fails above 2.0.
    let text = systemd_analyze(&["security", "--offline=true", "--threshold=20"], name);
    assert!(text.contains(&format!("Overall exposure level for {name}")), "{text}");
    let unit = fs::read_to_string(packaging(name)).unwrap();
    let comments: String = unit.lines().filter(|line| line.starts_with('#')).collect();
    let weak = text.lines().filter_map(|line| line.strip_prefix("✗ ")?.split(['=', ' ']).next());
    let weak: BTreeSet<&str> = weak.collect();
    assert!(weak.contains(weakness), "{text}");
    let explained = |setting: &&str| match *setting {
        "SystemCallFilter" => comments.contains("@resources"),
        "RestrictAddressFamilies" => {
            comments.contains("unix sockets, remote switches IPv4 and IPv6")
                || comments.contains("that of systemd, and nothing else")
        }
        setting => comments.contains(setting),
    };
    let unexplained: Vec<&str> = weak.iter().copied().filter(|setting| !explained(setting)).collect();
    assert!(unexplained.is_empty(), "without a reason: {unexplained:?}\n{text}");
}

#[test]
fn the_default_configuration_is_right_and_safe() {
    let folder = Folder::new();
    let config = packaging("weft.toml");
    let mut check = folder.command(&["controller", "--config", &config, "--check"]);
    let output = check.env("WEFT_CONFIG_STATE", folder.path("state")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table: toml::Table = fs::read_to_string(&config).unwrap().parse().unwrap();
    let text = |key: &str| table[key].as_str().unwrap();
    assert_eq!(text("listen"), "unix:/run/weft/weft.sock");
    assert_eq!(text("socket_mode"), "0660");
    assert_eq!(text("state"), "/var/lib/weft");
    let unit = fs::read_to_string(packaging("weft.service")).unwrap();
    for line in ["StateDirectory=weft", "RuntimeDirectory=weft", "User=weft", "Group=weft"] {
        assert!(unit.lines().any(|each| each == line), "{line}");
    }
}

#[test]
fn the_package_has_files_that_are_there() {
    let metadata = metadata();
    let crate_folder = root().join("crates/net/weft-cli");
    let exists = |path: &str| assert!(crate_folder.join(path).exists(), "{path}");
    let units = metadata["systemd-units"]["unit-scripts"].as_str().unwrap();
    let scripts = metadata["maintainer-scripts"].as_str().unwrap();
    exists(&format!("{units}/weft.service"));
    exists(&format!("{units}/weft.sysusers"));
    exists(metadata["license-file"][0].as_str().unwrap());
    let mut targets = BTreeSet::new();
    for asset in metadata["assets"].as_array().unwrap() {
        let (source, target) = (asset[0].as_str().unwrap(), asset[1].as_str().unwrap());
        // The others are generated, and `cargo deb` fails without them.
        if !source.starts_with("target/release/package/") {
            exists(source);
        }
        targets.insert(target);
    }
    for target in ["usr/bin/weft", "usr/share/man/man1/", "usr/share/man/man5/", "etc/weft/weft.toml"] {
        assert!(targets.contains(target), "{target}: {targets:?}");
    }
    for script in fs::read_dir(crate_folder.join(scripts)).unwrap() {
        let script = script.unwrap().path();
        let status = Command::new("sh").arg("-n").arg(&script).status().unwrap();
        assert!(
            status.success() && fs::read_to_string(&script).unwrap().contains("#DEBHELPER#"),
            "{script:?}"
        );
    }
}

#[test]
fn the_image_runs_what_the_package_installs() {
    let text = fs::read_to_string(packaging("Containerfile")).unwrap();
    let unit = fs::read_to_string(packaging("weft.service")).unwrap();
    let quoted = |key: &str| -> Vec<String> {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        serde_json::from_str(line).unwrap()
    };
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    assert_eq!([quoted("ENTRYPOINT "), quoted("CMD ")].concat().join(" "), start);
    let program = Path::new("/").join("usr/bin/weft");
    assert_eq!(quoted("ENTRYPOINT "), [program.to_str().unwrap()]);
}

//! Several processes share the work of `weft eval`, over timely's communication.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Child, Stdio};

use crate::support::{Folder, finish};

/// Objects of many kinds, for the built-in rules with their hooks.
const OBJECTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/three-tiers.yaml");

/// A host file with free addresses of loopback.
fn hostfile(folder: &Folder, processes: usize) {
    let listeners: Vec<TcpListener> =
        (0..processes).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let lines: Vec<String> = listeners.iter().map(|free| free.local_addr().unwrap().to_string()).collect();
    folder.write("hosts", lines.join("\n"));
}

/// The arguments of one of two processes.
fn one_of_two<'a>(process: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    let ways = ["--timely", "--processes", "2", "--process", process, "--hostfile", "hosts"];
    [&["eval"], arguments, &ways].concat()
}

/// Starts the command as one of two processes.
fn start(folder: &Folder, process: usize, arguments: &[&str]) -> Child {
    let mut command = folder.command(&one_of_two(&process.to_string(), arguments));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn two_processes_print_what_one_does() {
    let folder = Folder::new();
    let arguments = ["builtin", "--objects", OBJECTS, "--tables", "all"];
    let alone = folder.weft(&[&["eval"], &arguments[..]].concat());
    assert!(alone.has_status(0).stdout.len() > 10_000);
    assert_eq!(folder.weft(&[&["eval"], &arguments[..], &["--timely"]].concat()), alone);
    for workers in ["1", "2"] {
        hostfile(&folder, 2);
        let arguments = [&arguments[..], &["--workers", workers]].concat();
        let other = start(&folder, 1, &arguments);
        let first = finish(start(&folder, 0, &arguments));
        assert_eq!(first, alone, "{workers} workers in each process");
        let other = finish(other);
        assert_eq!((other.status, &*other.stdout, &*other.stderr), (Some(0), "", ""));
    }
}

const PROGRAM: &str =
    "input table on(port: string, hv: string) key(port); output table peer(a: string, b: string);
    peer(a, b) :- on(p, a), on(q, b), a != b;";

#[test]
fn a_process_that_dies_ends_the_others_with_its_name() {
    for dies in [0, 1] {
        let folder = Folder::new();
        folder.write("p.nlog", PROGRAM);
        hostfile(&folder, 2);
        let mut processes: Vec<Child> =
            [0, 1].map(|process| start(&folder, process, &["p.nlog", "-i", "-"])).into();
        let mut input = processes[0].stdin.take().unwrap();
        writeln!(input, r#"{{"insert":{{"on":[["p","h1"],["q","h2"]]}}}}"#).unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(processes[0].stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert!(line.contains(r#""peer":[["h1","h2"],["h2","h1"]]"#), "{line}");
        processes[dies].kill().unwrap();
        // The other one may have ended already.
        let _ = writeln!(input, r#"{{"insert":{{"on":[["r","h3"]]}}}}"#);
        let other = finish(processes.remove(1 - dies));
        assert!(
            other.status != Some(0) && other.stderr.contains(&format!("process {dies} (127.0.0.1:")),
            "{}",
            other.stderr
        );
        processes.remove(0).wait().unwrap();
    }
}

#[test]
fn processes_that_do_not_fit_say_why() {
    let folder = Folder::new();
    folder.write("p.nlog", PROGRAM);
    hostfile(&folder, 2);
    folder.write("q.nlog", PROGRAM.replace("a != b", "a == b"));
    let other = start(&folder, 1, &["p.nlog", "-i", "-"]);
    let first = finish(start(&folder, 0, &["q.nlog", "-i", "-"]));
    let other = finish(other);
    let says = |stderr: &str| stderr.contains("program") && stderr.contains("start all processes alike");
    assert!(says(&first.stderr) || says(&other.stderr), "{first:?} {other:?}");
    assert!(first.status != Some(0) && other.status != Some(0), "{first:?} {other:?}");
    let outside = folder.weft(&one_of_two("2", &["p.nlog", "-i", "-"]));
    assert!(outside.has_status(2).stderr.contains("numbered from 0 to 1"), "{}", outside.stderr);
    folder.write("hosts", "127.0.0.1:1\n");
    let few = folder.weft(&one_of_two("0", &["p.nlog", "-i", "-"]));
    assert!(
        few.status != Some(0) && few.stderr.contains("it has 1 addresses, but there are 2 processes"),
        "{}",
        few.stderr
    );
}

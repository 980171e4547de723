//! `weft get` of objects: selected, in columns, watched. The kinds are partly of a package, since the command knows none by name.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::routes::Controller;
use crate::support::Folder;

/// Desks, of which the rules know a place and a problem.
const DESKS: &str = r#"import "builtin/interface/driver.nlog";
import "builtin/interface/objects.nlog";

## A desk.
object desk {
    ## Its sockets.
    sockets: list<ip> = [];
    ## Its switch.
    switch: ref switch;
    ## Its number.
    number: int = 1;
    ## The host below it.
    below: string = "";
}

## Where a desk is.
state table desk_place(desk: ref desk, node: string) key(desk);
desk_place(desk, host) :- desk(id: desk, below: host, ..), host != "";

problem("desk", desk, "unlucky", "number 13 brings bad luck to whoever sits there") :- desk(id: desk, number: 13, ..);
"#;

const NETWORK: &str = "
{kind: switch, id: blue, labels: {app: web}}
---
{kind: switch, id: red}
---
{kind: desk, id: a, switch: blue, below: hv1, labels: {app: web, tier: one}}
---
{kind: desk, id: b, switch: red, number: 2, below: hv2, sockets: [10.0.0.2, 'fd00::2'], labels: {app: web, tier: two}}
---
{kind: desk, id: c, switch: blue, number: 13}
---
{kind: transport_node, id: hv1, ip: 172.16.0.1}
---
{kind: router, id: r}
---
{kind: router_port, id: r-blue, router: r, switch: blue, mac: '02:00:00:00:ff:01', networks: [10.0.0.254/24]}
";

/// How long a watch may take to say what happened.
const DEADLINE: Duration = Duration::from_mins(1);

/// A controller with desks beside the built-in kinds.
pub(crate) fn controller() -> Controller {
    let folder = Folder::new();
    folder.write("desks/desks.nlog", DESKS);
    let rules = format!("rules = [\"builtin\", {:?}]\n", folder.path("desks").display().to_string());
    let controller = Controller::start_in(folder, &rules);
    apply(&controller, NETWORK);
    controller
}

pub(crate) fn apply(controller: &Controller, text: &str) {
    controller.folder.write("net.yaml", text);
    let file = controller.folder.path("net.yaml").display().to_string();
    controller.weft(&["apply", "--yes", "-f", &file]).has_status(0);
}

const TABLE: &str = r#"ID  SWITCH  NUMBER  BELOW  SOCKETS           LABELS            NODE  PROBLEMS
c   blue    13      ""     -                 -                 -     number 13 brings bad luck to whoever sits there
a   blue    1       hv1    -                 app=web,tier=one  hv1   -
b   red     2       hv2    10.0.0.2,fd00::2  app=web,tier=two  hv2   -
3 desk, 1 with problems
"#;

#[test]
fn objects_are_selected_by_labels_fields_place_and_address() {
    let controller = controller();
    let names = |arguments: &[&str]| {
        let outcome = controller.weft(&[&["get"], arguments, &["-o", "name"]].concat());
        outcome.has_status(0);
        (outcome.stdout.replace('\n', " ").trim_end().to_owned(), outcome.stderr)
    };
    for (arguments, wanted) in [
        (&["desk", "-l", "app=web"][..], "desk/a desk/b"),
        (&["desk", "-l", "app=web,tier!=two"], "desk/a"),
        (&["desk", "-l", "app", "--label", "tier==two"], "desk/b"),
        (&["desk", "--field", "switch=blue"], "desk/a desk/c"),
        (&["desk", "--field", "switch=blue", "--field", "number!=13"], "desk/a"),
        (&["desk", "--field", "labels.tier=one"], "desk/a"),
        (&["desk", "--switch", "blue"], "desk/a desk/c"),
        (&["desks", "--host", "hv2"], "desk/b"),
        (&["desk", "--ip", "10.0.0.2"], "desk/b"),
        (&["desk", "--ip", "fd00:0:0::2"], "desk/b"),
        (&["router_port", "--ip", "10.0.0.254"], "router_port/r-blue"),
        (&["transport_node", "--ip", "172.16.0.1"], "transport_node/hv1"),
        (&["desk", "c", "--switch", "blue"], "desk/c"),
    ] {
        assert_eq!(names(arguments), (wanted.to_owned(), String::new()), "{arguments:?}");
    }
    for (arguments, told) in [
        (&["desk", "--switch", "red", "--host", "hv1"][..], "no desk with switch=red, state.node=hv1\n"),
        (&["desk", "c", "-l", "app"], "no desk with app, id=c\n"),
        (&["acl"], "no acl\n"),
    ] {
        assert_eq!(names(arguments), (String::new(), told.to_owned()), "{arguments:?}");
    }
}

#[test]
fn a_selection_that_cannot_be_is_refused_with_the_remedy() {
    let controller = controller();
    for (arguments, status, told) in [
        (&["desk", "--field", "swich=blue"][..], 1, "did you mean `switch`?"),
        (&["router", "--switch", "blue"], 1, "a router has no field"),
        (&["desk", "-l", "app in (web,db)"], 2, "write KEY=VALUE, KEY!=VALUE or KEY"),
        (&["desk", "-l", "!app"], 2, "write KEY=VALUE, KEY!=VALUE or KEY"),
        (&["desk", "--ip", "blue"], 2, "--ip <ADDRESS>"),
        (&["desk", "-o", "table", "--json"], 2, "cannot be used with"),
        (&["status", "-o", "table"], 2, "`weft get status` has no such form"),
        (&["all", "-l", "app=web"], 2, "a selection belongs to `weft get KIND`"),
        (&["routes", "r", "--watch"], 2, "--watch belongs to `weft get KIND`"),
        (&["desk", "nobody", "-o", "table"], 1, "desk nobody does not exist"),
        (&["desk", "nobody", "--watch"], 1, "desk nobody does not exist"),
    ] {
        let outcome = controller.weft(&[&["get"], arguments].concat());
        assert!(outcome.has_status(status).stderr.contains(told), "{arguments:?}: {}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "{arguments:?}");
    }
}

#[test]
fn the_forms_show_the_same_objects() {
    let controller = controller();
    let get =
        |arguments: &[&str]| controller.weft(&[&["get"], arguments].concat()).has_status(0).stdout.clone();
    assert_eq!(get(&["desk", "-o", "table"]), TABLE);
    let wide = get(&["desk", "-o", "wide", "--switch", "blue"]);
    assert_eq!(wide.lines().last(), Some("2 desk, 1 with problems"));
    assert!(wide.contains(" number 13 brings bad luck to whoever sits there\n"), "{wide}");
    assert_eq!(get(&["desk", "-o", "json"]), get(&["desk", "--json"]));
    assert_eq!(get(&["desk", "-o", "yaml"]), get(&["desk"]), "for a pipe");
    let port = get(&["desk", "b", "--json"]);
    assert_eq!((port.lines().count(), port.contains("\"node\":\"hv2\"")), (1, true), "{port}");
    assert_eq!(get(&["status", "-o", "json"]).lines().count(), get(&["status", "--json"]).lines().count());
    assert_eq!(get(&["all", "-o", "json"]), get(&["all", "--json"]));
    assert_eq!(get(&["all", "-o", "name"]).lines().next(), Some("desk/a"));
    assert_eq!(get(&["acl", "-o", "table"]), "");
}

/// `script` (of util-linux) gives a command a terminal.
#[test]
fn several_objects_are_a_table_in_a_terminal() {
    let controller = controller();
    let shown_on = |columns: u32, arguments: &str| {
        let (weft, address) = (env!("CARGO_BIN_EXE_weft"), controller.address());
        let line = format!("stty cols {columns}; {weft} get {arguments} --controller {address}");
        let mut script = Command::new("script");
        let output = script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).output().ok()?;
        Some(String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n"))
    };
    let shown = |arguments: &str| shown_on(120, arguments);
    let Some(table) = shown("desk") else {
        eprintln!("\n*** NOT TESTED on a terminal: there is no `script` (apt-get install bsdutils)\n");
        return;
    };
    assert_eq!(table, TABLE);
    let narrow = shown_on(60, "desk").unwrap();
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    assert!(narrow.starts_with("ID  SWITCH  NODE  PROBLEMS\nc   blue    -     number 13 brings"), "{narrow}");
    assert!(shown("desk c").unwrap().contains("\nkind: desk\nid: c\n"), "one object is shown in full");
    assert!(shown("desk --json").unwrap().starts_with("{\"kind\":\"desk\""));
}

#[test]
fn values_are_printed_by_their_path() {
    let controller = controller();
    let path = |words: &[&str]| controller.weft(&[&["get"], words].concat());
    for (words, wanted) in [
        (&["desk", "-o", "jsonpath={.items[*].id}"][..], "a\nb\nc\n"),
        (&["desk", "-o", "jsonpath=$.items[?@.state.problems].id"], "c\n"),
        (&["desk", "-l", "app=web", "-o", "jsonpath=.items[*]['labels']['tier']"], "one\ntwo\n"),
        (&["desk", "b", "-o", "jsonpath={.sockets}"], "[\"10.0.0.2\",\"fd00::2\"]\n"),
        (&["desk", "b", "-o=jsonpath={.number}"], "2\n"),
    ] {
        assert_eq!(path(words).has_status(0).stdout, wanted, "{words:?}");
    }
    let nothing = path(&["desk", "-o", "jsonpath={.items[*].colour}"]);
    assert_eq!(
        (nothing.stdout.as_str(), nothing.stderr.as_str()),
        ("", "nothing is at \"{.items[*].colour}\"\n")
    );
    for (words, told) in [
        (
            &["desk", "-o", "jsonpath={.items[*.id}"][..],
            "error: the expression after jsonpath= is wrong at character 10: in long-hand segment, expected closing ']'\n  \
             {.items[*.id}\n           ^\n",
        ),
        (&["desk", "-o", "jsonpath"], "invalid value 'jsonpath' for '--output <FORM>'"),
        (&["desk", "-w", "-o", "jsonpath=$"], "with --watch, -o json prints each change"),
        (&["tunnels", "-o", "jsonpath=$"], "`weft get tunnels` has no such form; -o json is there"),
        (&["all", "-o", "jsonpath=$"], "`weft get all` has no such form"),
    ] {
        let outcome = path(words);
        assert!(outcome.has_status(2).stderr.contains(told), "{words:?}: {}", outcome.stderr);
    }
}

#[test]
fn a_shell_completes_forms_and_conditions() {
    let controller = controller();
    let offered = |words: &[&str]| {
        let address = controller.address();
        let words = [&["complete", "--", "get", "--controller", &address], words].concat();
        let outcome = controller.folder.weft(&words);
        let value = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
        outcome.has_status(0).lines().into_iter().map(value).collect::<Vec<_>>().join(" ")
    };
    for (words, wanted) in [
        (&["desk", "-o", ""][..], "table wide yaml json name jsonpath="),
        (&["desk", "--output=w"], "--output=wide"),
        (&["desk", "--l"], "--label"),
        (&["desk", "-l", ""], "app=web tier=one tier=two"),
        (&["desk", "--label=tier=o"], "--label=tier=one"),
        (&["desk", "--field", ""], "below= number= sockets= state.node= switch="),
        (&["desk", "--field=st"], "--field=state.node="),
        (&["desk", "--switch", ""], "blue red"),
        (&["desk", "--host", ""], "hv1"),
        (&["-l", ""], ""),
    ] {
        assert_eq!(offered(words), wanted, "{words:?}");
    }
    for command in ["describe", "edit"] {
        let address = controller.address();
        let words = ["complete", "--", command, "--controller", &address, "switch", ""];
        assert_eq!(controller.folder.weft(&words).has_status(0).lines(), ["blue\t", "red\t"], "{command}");
    }
}

/// A watch that runs, and the lines that it prints.
struct Watch {
    child: Child,
    lines: Receiver<String>,
    faults: Receiver<String>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Watch {
    fn start(controller: &Controller, arguments: &[&str]) -> Watch {
        let address = controller.address();
        let mut command = controller
            .folder
            .command(&[&["get"], arguments, &["--watch", "--controller", &address]].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = lines(child.stdout.take().unwrap());
        let faults = lines_of_errors(child.stderr.take().unwrap());
        Watch { child, lines, faults }
    }

    #[track_caller]
    fn prints(&self, wanted: &[&str]) {
        let printed: Vec<String> =
            wanted.iter().map(|line| self.lines.recv_timeout(DEADLINE).expect(line)).collect();
        assert_eq!(printed, wanted);
    }
}

pub(crate) fn lines(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        BufReader::new(stream).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    lines
}

fn lines_of_errors(stream: std::process::ChildStderr) -> Receiver<String> {
    lines(stream)
}

#[test]
fn a_watch_prints_what_happens_in_each_form() {
    let controller = controller();
    let table = Watch::start(&controller, &["desk", "-o", "table"]);
    let json = Watch::start(&controller, &["desk", "--json", "--switch", "red"]);
    let yaml = Watch::start(&controller, &["desk", "c"]);
    let name = Watch::start(&controller, &["desk", "-o", "name", "-l", "tier=one"]);
    let empty = Watch::start(&controller, &["acl", "-o", "table"]);
    table.prints(&[
        "EVENT    ID  SWITCH  NUMBER  BELOW  SOCKETS           LABELS            NODE  PROBLEMS",
        r#"listed   c   blue    13      ""     -                 -                 -     number 13 brings bad luck to whoever sits…"#,
        "listed   a   blue    1       hv1    -                 app=web,tier=one  hv1   -",
        "listed   b   red     2       hv2    10.0.0.2,fd00::2  app=web,tier=two  hv2   -",
        "3 desk, 1 with problems",
    ]);
    let b = r#"{"kind":"desk","id":"b","labels":{"app":"web","tier":"two"},"sockets":["10.0.0.2","fd00::2"],"switch":"red","number":2,"below":"hv2","state":{"node":"hv2"}}"#;
    json.prints(&[&format!("{{\"type\":\"listed\",\"object\":{b}}}")]);
    let problem = "# problem: number 13 brings bad luck to whoever sits there";
    let c = ["kind: desk", "id: c", "sockets: []", "switch: blue", "number: 13", "below: ''"];
    yaml.prints(&[&[problem], &c[..]].concat());
    name.prints(&["desk/a"]);
    assert_eq!(empty.faults.recv_timeout(DEADLINE).unwrap(), "no acl");

    controller.weft(&["set", "desk", "c", "number=3"]).has_status(0);
    controller.weft(&["set", "desk", "b", "labels.tier=one"]).has_status(0);
    controller.weft(&["delete", "desk", "b"]).has_status(0);
    controller.weft(&["delete", "desk", "c"]).has_status(0);
    table.prints(&[
        r#"updated  c   blue    3       ""     -                 -                 -     -"#,
        "updated  b   red     2       hv2    10.0.0.2,fd00::2  app=web,tier=one  hv2   -",
        "deleted  b   red     2       hv2    10.0.0.2,fd00::2  app=web,tier=one  hv2   -",
        r#"deleted  c   blue    3       ""     -                 -                 -     -"#,
    ]);
    let b = b.replace("two", "one");
    json.prints(&[
        &format!("{{\"type\":\"updated\",\"object\":{b}}}"),
        &format!("{{\"type\":\"deleted\",\"object\":{b}}}"),
    ]);
    let c = c.map(|line| if line == "number: 13" { "number: 3" } else { line });
    yaml.prints(&[&["---", "# updated"], &c[..], &["---", "# deleted"], &c, &["delete: true"]].concat());
    name.prints(&["desk/b created", "desk/b deleted"]);
}

#[test]
fn a_watch_survives_a_restart_of_the_controller() {
    let mut controller = controller();
    let watch = Watch::start(&controller, &["desk", "-o", "name"]);
    watch.prints(&["desk/a", "desk/b", "desk/c"]);
    controller.weft(&["delete", "desk", "b"]).has_status(0);
    watch.prints(&["desk/b deleted"]);
    controller.restart();
    controller.weft(&["set", "desk", "a", "number=5"]).has_status(0);
    watch.prints(&["desk/a updated"]);
    let told = watch.faults.recv_timeout(DEADLINE).unwrap();
    assert!(told.starts_with("warning: the watch was interrupted and goes on with a new list: "), "{told}");
    assert!(watch.faults.try_recv().is_err(), "once");
}

//! `weft rules diff` says of a running controller and of a snapshot what a load would change there, and what it would be refused for.

use serde_json::{Value as Json, json};

use crate::support::controller::Controller;
use crate::support::{Folder, Outcome};

const NETWORK: &str = r#"
{kind: transport_node, id: hv1, ip: 192.0.2.1, ovsdb: "unix:/nowhere/1", openflow: "unix:/nowhere/1.mgmt"}
---
{kind: transport_node, id: hv2, ip: 192.0.2.2, ovsdb: "unix:/nowhere/2", openflow: "unix:/nowhere/2.mgmt"}
---
{kind: switch, id: red, acl_default: drop}
---
{kind: switch, id: blue}
---
{kind: switch_port, id: p, switch: blue, addresses: [{mac: "02:00:00:00:00:01", ips: [10.0.0.1]}]}
"#;

/// A flow for each host, and a problem of each switch.
const MORE: &str = r#"import "builtin/interface/driver.nlog";
import "builtin/interface/layout.nlog";
import "builtin/interface/objects.nlog";
import "builtin/interface/reports.nlog";

## Nothing comes from this interface.
priority CLOSED of CLASSIFY = 4000;

of_flow(hv, CLASSIFY, CLOSED, match{in_port: 4000}, actions[]) :- managed(hv);
problem("switch", sw, "closed", "an interface of " ++ sw ++ " is closed") :- switch(id: sw, ..);
"#;

/// Rules for which no engine can be edited: they declare a kind.
const KIND: &str = "\n## A kind of objects.\nobject garden { note: opt<string>; }\n";

/// Rules that refuse what is there.
const FORBID: &str = r#"import "builtin/interface/objects.nlog";

## No switch drops what no ACL allows.
forbid table strict(sw: string);

strict(sw) :- switch(id: sw, acl_default: "drop", ..);
"#;

/// Rules that number switches, and rules that keep the table without numbers.
const NUMBERS: &str = r#"import "builtin/interface/objects.nlog";

## Each switch gets a number.
table wants_place(sw: string);
## The number of a switch.
input table place(sw: string, number: int) key(sw) from allocate(wants_place, first: 1, last: 100);

wants_place(sw) :- switch(id: sw, ..);
"#;

/// A controller with the network, and a snapshot of it.
struct Both {
    folder: Folder,
    _controller: Controller,
    address: String,
}

impl Both {
    fn start() -> Both {
        let folder = Folder::new();
        folder.write("net.yaml", NETWORK).write("more/more.nlog", MORE).write("forbid.nlog", FORBID);
        folder.write("kind.nlog", KIND).write("numbers.nlog", NUMBERS);
        let mut controller = Controller::start(&folder);
        tokio::runtime::Runtime::new().unwrap().block_on(controller.client(&folder));
        let address = Controller::endpoint(&folder);
        let both = Both { folder, _controller: controller, address };
        both.weft(&["apply", "-f", "net.yaml"]).has_status(0);
        both
    }

    fn weft(&self, args: &[&str]) -> Outcome {
        self.folder.weft(&[args, &["--controller", &self.address]].concat())
    }

    /// What `weft rules diff` says with these arguments, of both alike.
    fn diff(&self, args: &[&str]) -> Outcome {
        self.weft(&["snapshot", "take", "net.weft"]).has_status(0);
        let diff = [&["rules", "diff"], args].concat();
        let running = self.weft(&diff);
        let recorded = self.folder.weft(&[&diff[..], &["--snapshot", "net.weft"]].concat());
        assert_eq!(running.status, recorded.status, "{}{}", running.stderr, recorded.stderr);
        assert_eq!((&running.stdout, &running.stderr), (&recorded.stdout, &recorded.stderr), "{args:?}");
        running
    }
}

#[test]
fn a_running_controller_and_a_snapshot_answer_alike() {
    let both = Both::start();
    let none = both.diff(&["builtin", "--max-changes", "0"]);
    assert_eq!((&*none.has_status(0).stdout, &*none.stderr), ("no switch changes\n", ""));

    let more = both.diff(&["builtin", "more"]);
    let text = &more.has_status(0).stdout;
    assert!(
        text.starts_with("2 switches change; flows: 2 new\nhv1\n  table 0: flows: 1 new by of_flow"),
        "{text}"
    );
    assert!(
        text.ends_with(
            "new problem: switch blue: an interface of blue is closed\n\
             new problem: switch red: an interface of red is closed\n"
        ),
        "{text}"
    );
    // Two flows and two problems.
    assert_eq!(more.stderr, "cost: an edit of the engine; rows derived: 4\n");
    let gate = both.diff(&["builtin", "more", "--max-changes", "1"]);
    assert!(gate.has_status(1).stderr.contains("2 things change in switches, more than --max-changes 1"));

    let answer = both.diff(&["builtin", "more", "kind.nlog", "--json"]);
    let answer: Json = serde_json::from_str(&answer.has_status(0).stdout).unwrap();
    let problem = |switch: &str| {
        let text = format!("an interface of {switch} is closed");
        json!({"kind": "switch", "id": switch, "code": "closed", "text": text})
    };
    assert_eq!(answer["new_problems"], json!([problem("blue"), problem("red")]));
    assert_eq!((&answer["objects"], &answer["delta"]["added"]), (&json!([]), &json!(2)));
    assert_eq!(answer["engine"], json!({"edited": false, "rows": 0}));

    assert_eq!(
        both.weft(&["rules", "history"]).has_status(0).stdout.lines().count(),
        1,
        "nothing was loaded"
    );
    both.weft(&["rules", "load", "builtin", "more"]).has_status(0);
    let back = both.diff(&["builtin"]);
    let text = &back.has_status(0).stdout;
    assert!(text.starts_with("2 switches change; flows: 2 deleted\n"), "{text}");
    assert!(text.contains("problem resolved: switch red: an interface of red is closed\n"), "{text}");
}

#[test]
fn what_a_load_would_be_refused_for_is_said_by_name() {
    let both = Both::start();
    let refused = |rules: &[&str], why: &str| {
        let diff = both.diff(rules);
        assert!(diff.has_status(1).stderr.starts_with("error: a load of these rules would be refused: "));
        assert!(diff.stderr.contains(why) && diff.stdout.is_empty(), "{}{}", diff.stdout, diff.stderr);
        let json = both.diff(&[rules, &["--json"]].concat());
        let json: Json = serde_json::from_str(&json.has_status(1).stdout).unwrap();
        assert_eq!(json["code"], "bad-rules");
        assert!(json["message"].as_str().unwrap().contains(why), "{json}");
    };
    refused(&["builtin", "forbid.nlog"], r#"strict(sw: "red")"#);
    both.weft(&["rules", "load", "builtin", "kind.nlog", "numbers.nlog"]).has_status(0);
    refused(&["builtin", "kind.nlog"], "no hook of the new rules fills table place");
    both.folder.write("garden.yaml", "{kind: garden, id: g}");
    both.weft(&["apply", "-f", "garden.yaml"]).has_status(0);
    refused(&["builtin", "numbers.nlog"], "kinds of which there are objects: garden (1)");
}

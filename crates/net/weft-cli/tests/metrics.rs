//! Metrics of a running controller, as Prometheus reads them; its board and its alerts.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use controller::metrics::{DEFINITIONS, Definition, Kind};
use regex::Regex;
use serde_json::Value as Json;
use tokio::runtime::Runtime;

use crate::support::Folder;
use crate::support::controller::{Controller, DEADLINE};

const NETWORK: &str = "{kind: switch, id: blue}\n---\n{kind: switch, id: red}\n---\n\
                       {kind: switch_port, id: door, switch: blue}\n---\n\
                       {kind: acl, id: web, switch: blue, direction: to_port, priority: 100, action: allow_related}\n---\n\
                       {kind: transport_node, id: hv1, ip: 10.1.0.1, ovsdb: 'tcp:127.0.0.1:1', openflow: 'tcp:127.0.0.1:1'}";

const CONFIGURATION: &str = "listen_metrics = \"127.0.0.1:0\"\n\
                             metrics_counters = [\"drops\", \"acl-packets\", \"no-such\"]\nmetrics_counters_every = 1\n";

fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging").join(file)
}

/// A controller that has applied a network, was asked to do nothing, and has refused a request.
struct Busy {
    folder: Folder,
    controller: Controller,
    /// Where it serves metrics.
    address: String,
}

impl Busy {
    fn start(runtime: &Runtime) -> Busy {
        let folder = Folder::new();
        let mut controller = Controller::start_with(&folder, CONFIGURATION);
        runtime.block_on(async {
            let mut client = controller.client(&folder).await;
            for (text, is_good) in
                [(NETWORK, true), (NETWORK, true), ("{kind: switch_port, id: a, switch: none}", false)]
            {
                let applied = client.apply([("net.yaml".to_owned(), text.to_owned())], "test").await;
                assert_eq!(applied.is_ok(), is_good, "{applied:?}");
            }
        });
        let line = Regex::new(r"metrics=(127\.0\.0\.1:\d+)").unwrap();
        let deadline = Instant::now() + DEADLINE;
        // The log is written by a thread of its own.
        let address = loop {
            let log = Controller::log(&folder);
            if let Some(found) = line.captures(&log) {
                break found[1].to_owned();
            }
            assert!(Instant::now() < deadline, "{log}");
            std::thread::sleep(Duration::from_millis(5));
        };
        Busy { folder, controller, address }
    }

    fn metrics(&self, accept: &str) -> String {
        get(&format!("http://{}/metrics", self.address), accept)
    }

    /// Waits until the counters of switches have been read once.
    fn wait_for_counters(&self) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let text = self.metrics("accept: text/plain");
            if text.contains("weft_counted_packets_total{") {
                return;
            }
            assert!(Instant::now() < deadline, "{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn get(url: &str, accept: &str) -> String {
    let output = Command::new("curl").args(["-sS", "--fail", "-H", accept, url]).output().unwrap();
    assert!(output.status.success(), "{url}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A sample: name, labels, value.
type Sample = (String, BTreeMap<String, String>, String);

fn samples(text: &str) -> Vec<Sample> {
    let line = Regex::new(r"^([a-z_]+)(?:\{(.*)\})? (\S+)$").unwrap();
    let label = Regex::new(r#"([a-z_]+)="((?:[^"\\]|\\.)*)""#).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|text| {
            let parts = line.captures(text).unwrap_or_else(|| panic!("{text}"));
            let labels = parts.get(2).map_or("", |labels| labels.as_str());
            let labels = label.captures_iter(labels).map(|pair| (pair[1].to_owned(), pair[2].to_owned()));
            (parts[1].to_owned(), labels.collect(), parts[3].to_owned())
        })
        .collect()
}

/// The sum of the samples with this name and label, which are whole numbers.
fn sum(samples: &[Sample], name: &str, label: Option<(&str, &str)>) -> u64 {
    let has = |labels: &BTreeMap<String, String>| {
        label.is_none_or(|(key, value)| labels.get(key).is_some_and(|is| is == value))
    };
    let of_name = samples.iter().filter(|(of, labels, _)| of == name && has(labels));
    of_name.map(|(.., value)| value.parse::<u64>().unwrap_or_else(|_| panic!("{name} is {value}"))).sum()
}

/// What promtool says of a text that it reads.
fn promtool(arguments: &[&str], folder: &Path, input: &str) -> (bool, String) {
    let mut child = Command::new("promtool")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool, of the package prometheus");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// A sample belongs to a metric of the reference, and has its labels.
fn definition(name: &str, labels: &BTreeMap<String, String>) -> Option<&'static Definition> {
    DEFINITIONS.iter().find(|definition| {
        let family = definition.to_string();
        let is_histogram = definition.kind == Kind::Histogram;
        let suffixes: &[&str] = if is_histogram { &["_bucket", "_sum", "_count"] } else { &[""] };
        let wanted: BTreeSet<&str> = definition.labels.iter().copied().collect();
        let found =
            labels.keys().map(String::as_str).filter(|label| !(is_histogram && *label == "le")).collect();
        suffixes.iter().any(|suffix| name == format!("{family}{suffix}")) && wanted == found
    })
}

#[test]
fn every_metric_is_in_the_reference_and_promtool_finds_no_fault() {
    let runtime = Runtime::new().unwrap();
    let busy = Busy::start(&runtime);
    busy.wait_for_counters();
    let text = busy.metrics("accept: text/plain");
    assert_eq!(promtool(&["check", "metrics"], Path::new("."), &text), (true, String::new()), "{text}");
    let all = samples(&text);
    let unknown: Vec<_> = all.iter().filter(|(name, labels, _)| definition(name, labels).is_none()).collect();
    assert!(unknown.is_empty(), "{unknown:?}");

    // Nothing is in the reference alone. No switch has refused anything or has a lag, nobody was refused, no tenant has asked for anything, and
    // no counter of a meter is asked for.
    let absent = [
        "weft_switch_refusals_total",
        "weft_switch_lag_seconds",
        "weft_tenant_changes_total",
        "weft_tenant_seconds_total",
        "weft_counted_dropped_packets_total",
    ];
    for definition in
        DEFINITIONS.iter().map(ToString::to_string).filter(|name| !absent.contains(&name.as_str()))
    {
        assert!(
            all.iter().any(|(name, ..)| name.starts_with(&definition)),
            "{definition} is not exported: {text}"
        );
    }
    // An increase from nothing would be none.
    for (name, label) in [
        ("weft_switch_foreign_changes_total", ("what", "flows")),
        ("weft_journal_folds_total", ("result", "failed")),
        ("weft_switch_connections_total", ("channel", "openflow")),
        ("weft_dropped_packets_total", ("cause", "acl")),
        ("weft_counted_packets_total", ("object", "web")),
        ("weft_counted_switches", ("result", "read")),
    ] {
        let has =
            |labels: &BTreeMap<String, String>| labels.get(label.0).is_some_and(|value| value == label.1);
        assert!(
            all.iter().any(|(of, labels, value)| of == name && has(labels) && value == "0"),
            "{name}: {text}"
        );
    }

    let of = |name: &str, label| sum(&all, name, label);
    let results = ["applied", "unchanged", "refused", "tried"];
    assert_eq!(results.map(|result| of("weft_requests_total", Some(("result", result)))), [1, 1, 1, 0]);
    for stage in ["queue", "validate", "derive", "number", "follow"] {
        assert_eq!(of("weft_stage_seconds_count", Some(("stage", stage))), 3, "{stage}");
    }
    for stage in ["append", "sync", "send"] {
        assert_eq!(of("weft_stage_seconds_count", Some(("stage", stage))), 1, "{stage}");
    }
    assert!(!text.contains("weft_stage_seconds_sum{stage=\"derive\"} 0.0\n"), "{text}");
    let size = std::fs::metadata(busy.folder.path("state/journal.jsonl")).unwrap().len();
    assert_eq!(of("weft_journal_bytes", None), size);
    assert_eq!([of("weft_journal_records_total", None), of("weft_last_transaction", None)], [1; 2]);
    assert_eq!(of("weft_objects", Some(("kind", "switch"))), 2);
    assert_eq!(of("weft_table_rows", Some(("table", "switch"))), 2, "{text}");
    let disconnected = [Some(("state", "disconnected")), None].map(|label| of("weft_switches", label));
    assert_eq!(disconnected, [1; 2]);
    assert!(of("weft_api_requests_total", Some(("call", "Apply"))) >= 3, "{text}");
    assert!(of("weft_memory_bytes", Some(("part", "rows"))) > 0, "{text}");

    assert_eq!(of("weft_counted_switches", Some(("counter", "drops"))), 1, "{text}");
    let log = Controller::log(&busy.folder);
    let warnings = log.matches("the rules have no such counters").count();
    assert!(warnings == 1 && log.contains("counter=no-such known=\"acl-packets, "), "{log}");

    // The same for who asks for OpenMetrics, and at the address of the API.
    let open = busy.metrics("accept: application/openmetrics-text; version=1.0.0");
    assert!(open.ends_with("# EOF\n") && open.contains("# TYPE weft_requests counter\n"), "{open}");
    let mut controller = busy.controller;
    runtime.block_on(async {
        let answer = controller.web(&busy.folder).await.get("/metrics").await.unwrap();
        assert_eq!(answer.status, 200);
        assert!(answer.text.contains("weft_requests_total{result=\"applied\"} 1\n"), "{}", answer.text);
    });
    controller.terminate();
}

/// Prometheus, which scrapes a controller each second.
struct Prometheus {
    process: Child,
    url: String,
}

impl Prometheus {
    fn start(folder: &Folder, target: &str) -> Prometheus {
        let rules = packaging("prometheus/weft.rules.yml");
        let rules = rules.display();
        folder.write(
            "prometheus.yml",
            format!(
                "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{rules}']\nscrape_configs:\n  - job_name: weft\n    \
                 static_configs: [{{targets: ['{target}']}}]\n"
            ),
        );
        // It takes no socket of ours. Somebody else may take the port before it does: then it gets another one.
        loop {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut prometheus = Prometheus::spawn(folder, port);
            let deadline = Instant::now() + DEADLINE;
            while prometheus.process.try_wait().unwrap().is_none() {
                if prometheus.query("vector(1)").is_some() {
                    return prometheus;
                }
                assert!(Instant::now() < deadline, "{}", log(folder));
                std::thread::sleep(Duration::from_millis(20));
            }
            let log = log(folder);
            assert!(log.contains("address already in use"), "{log}");
        }
    }

    fn spawn(folder: &Folder, port: u16) -> Prometheus {
        let log = std::fs::File::create(folder.path("prometheus.log")).unwrap();
        let listen = format!("--web.listen-address=127.0.0.1:{port}");
        let process = Command::new("prometheus")
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=tsdb", &listen])
            .current_dir(folder.path("."))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("prometheus, of the package of its name");
        Prometheus { process, url: format!("http://127.0.0.1:{port}") }
    }

    /// The result of a query; `None` while nobody answers.
    fn query(&self, query: &str) -> Option<Json> {
        let query = format!("query={query}");
        let url = format!("{}/api/v1/query", self.url);
        let output = Command::new("curl").args(["-sS", "--data-urlencode", &query, &url]).output().unwrap();
        serde_json::from_slice(&output.stdout).ok()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The queries of the board, with their panels.
fn queries(target: &str) -> Vec<(String, String)> {
    let board: Json =
        serde_json::from_slice(&std::fs::read(packaging("grafana/weft.json")).unwrap()).unwrap();
    let mut queries = Vec::new();
    for panel in board["panels"].as_array().unwrap() {
        for query in panel["targets"].as_array().unwrap() {
            let text = query["expr"]
                .as_str()
                .unwrap()
                .replace("$instance", target)
                .replace("$__rate_interval", "30s");
            queries.push((panel["title"].as_str().unwrap().to_owned(), text));
        }
    }
    queries
}

#[test]
fn the_board_and_the_alerts_find_what_they_ask_prometheus_for() {
    let runtime = Runtime::new().unwrap();
    let busy = Busy::start(&runtime);
    let prometheus = Prometheus::start(&busy.folder, &busy.address);
    let rules = std::fs::read_to_string(packaging("prometheus/weft.rules.yml")).unwrap();
    let expressions = Regex::new(r"(?m)^ +expr: (.*)$").unwrap();
    let alerts: Vec<String> = expressions.captures_iter(&rules).map(|alert| alert[1].to_owned()).collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    let board = queries(&busy.address);
    assert!(board.len() > 20, "{board:?}");
    let deadline = Instant::now() + DEADLINE;
    // A rate needs two scrapes.
    let mut missing: Vec<(String, String)> = board;
    let mut last = Json::Null;
    while !missing.is_empty() {
        assert!(Instant::now() < deadline, "{missing:?} find nothing: {last}; {}", log(&busy.folder));
        missing.retain(|(_, query)| {
            last = prometheus.query(query).unwrap_or_default();
            assert_ne!(last["status"], "error", "{query}: {last}");
            last["data"]["result"].as_array().is_none_or(Vec::is_empty)
        });
        std::thread::sleep(Duration::from_millis(100));
    }
    for alert in &alerts {
        let answer = prometheus.query(alert).unwrap();
        assert_eq!(answer["status"], "success", "{alert}: {answer}");
    }
    // Each name in a query is a metric.
    let names = Regex::new(r"\b(?:weft|process)_[a-z_]+\b").unwrap();
    let known: BTreeSet<String> = DEFINITIONS.iter().map(ToString::to_string).collect();
    for query in alerts.iter().chain(queries("").iter().map(|(_, query)| query)) {
        for name in names.find_iter(query) {
            let family =
                name.as_str().trim_end_matches("_bucket").trim_end_matches("_sum").trim_end_matches("_count");
            assert!(known.contains(family), "{query}: {family}");
        }
    }
    busy.controller.terminate();
}

fn log(folder: &Folder) -> String {
    std::fs::read_to_string(folder.path("prometheus.log")).unwrap_or_default()
}

#[test]
fn each_alert_fires_when_it_should_and_has_a_section_with_the_remedy() {
    let folder = packaging("prometheus");
    let (is_good, said) = promtool(&["test", "rules", "weft.rules.test.yml"], &folder, "");
    assert!(is_good, "{said}");
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
    let (rules, tests, page) =
        (read("weft.rules.yml"), read("weft.rules.test.yml"), read("../../docs/operate/alerts.md"));
    let alerts = Regex::new(r"(?m)^ +- alert: (\w+)$").unwrap();
    let names: Vec<&str> =
        alerts.captures_iter(&rules).filter_map(|found| Some(found.get(1)?.as_str())).collect();
    let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(names, sections);
    for name in names {
        let tested = format!("alertname=\"{name}\"");
        assert_eq!(
            tests.matches(&tested).count(),
            2,
            "{name}: one test in which it fires, one in which it does not"
        );
    }
}

#[test]
fn top_shows_what_a_controller_does() {
    let runtime = Runtime::new().unwrap();
    let busy = Busy::start(&runtime);
    let endpoint = Controller::endpoint(&busy.folder);
    let top = |more: &[&str]| {
        let arguments = [&["top", "--interval", "0.1", "-n", "1", "--controller", &endpoint], more].concat();
        busy.folder.weft(&arguments)
    };
    let shown = top(&[]);
    shown.has_status(0);
    assert!(
        shown.stdout.starts_with(concat!(
            "controller ",
            env!("CARGO_PKG_VERSION"),
            ", transaction 1; 0 of 1 switches in sync; problems: 1\n"
        )),
        "{}",
        shown.stdout
    );
    assert!(shown.stdout.contains("\nSTAGE"), "{}", shown.stdout);
    let line: Json = serde_json::from_str(&top(&["--json"]).has_status(0).stdout).unwrap();
    assert_eq!(
        (&line["last_txn"], line["stages"].as_array().map(Vec::len)),
        (&Json::from(1.0), Some(9)),
        "{line}"
    );
    top(&["--interval", "never"]).has_status(2);
    busy.controller.terminate();
}

//! Two looks at metrics as rates, and rates as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use nlog_data::quotation::cut;
use serde_json::{Value as Json, json};

use crate::columns::aligned;
use crate::samples::Sample;

/// A mebibyte.
const MIB: f64 = 1_048_576.0;

/// The metrics at one moment: by name, and then by the value of the label.
#[derive(Debug, Default)]
pub(super) struct Look(BTreeMap<String, BTreeMap<String, f64>>);

impl Look {
    /// Reads a text of metrics. Series that differ in other labels than the first are added up.
    pub(super) fn of(text: &str) -> Look {
        let mut look = Look::default();
        for sample in text.lines().filter_map(Sample::read).filter(|sample| !sample.name.ends_with("_bucket"))
        {
            let Some(number) = sample.number() else { continue };
            let label = sample.labels.first().map(|(_, value)| value.clone()).unwrap_or_default();
            *look.0.entry(sample.name.to_owned()).or_default().entry(label).or_default() += number;
        }
        look
    }

    fn get(&self, name: &str, label: &str) -> f64 {
        self.0.get(name).and_then(|series| series.get(label)).copied().unwrap_or_default()
    }

    fn has(&self, name: &str, label: &str) -> bool {
        self.0.get(name).is_some_and(|series| series.contains_key(label))
    }

    fn series(&self, name: &str) -> impl Iterator<Item = (&str, f64)> {
        self.0.get(name).into_iter().flatten().map(|(label, number)| (label.as_str(), *number))
    }

    fn sum(&self, name: &str) -> f64 {
        // The sum of no numbers would be -0.
        self.series(name).fold(0.0, |sum, (_, number)| sum + number)
    }
}

/// How often something happened, and how long it took.
#[derive(Debug, Clone, PartialEq)]
struct Rate {
    name: String,
    /// Times a second.
    often: f64,
    /// The mean time, in seconds.
    mean: f64,
    /// The share of the time.
    load: f64,
}

/// A switch that is behind.
#[derive(Debug, Clone, PartialEq)]
struct Behind {
    switch: String,
    /// The age of its first unconfirmed transaction, in seconds.
    lag: f64,
    pending: f64,
}

/// What happened between two looks.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Rates {
    version: String,
    transaction: f64,
    switches: f64,
    in_sync: f64,
    problems: f64,
    memory: f64,
    cores: f64,
    waiting: f64,
    busy: f64,
    requests: Vec<(String, f64)>,
    stages: Vec<Rate>,
    calls: Vec<Rate>,
    rules: Vec<Rate>,
    tenants: Vec<Rate>,
    behind: Vec<Behind>,
}

/// The stages that take no time of the engine: others work meanwhile.
const WAITS: [&str; 2] = ["queue", "confirm"];

/// The stages in the order in which a transaction goes through them.
const STAGES: [&str; 9] =
    ["queue", "validate", "derive", "number", "follow", "append", "sync", "send", "confirm"];

impl Rates {
    pub(super) fn between(before: &Look, now: &Look, time: Duration) -> Rates {
        let seconds = time.as_secs_f64().max(f64::EPSILON);
        // Counters begin anew with another start of the controller.
        let start = |look: &Look| look.sum("process_start_time_seconds");
        // Its resolution is a hundredth of a second.
        let is_same = (start(before) - start(now)).abs() < 0.005;
        let growth = |name: &str, label: &str| {
            let before = if is_same { before.get(name, label) } else { 0.0 };
            (now.get(name, label) - before).max(0.0)
        };
        let rate_of = |family: &str, label: &str| {
            let count = growth(&format!("{family}_count"), label);
            let spent = growth(&format!("{family}_sum"), label);
            let mean = if count > 0.0 { spent / count } else { 0.0 };
            Rate { name: label.to_owned(), often: count / seconds, mean, load: spent / seconds }
        };
        let labels = |name: &str| now.series(name).map(|(label, _)| label.to_owned()).collect::<Vec<_>>();
        let mut calls: Vec<Rate> = labels("weft_api_request_seconds_count")
            .iter()
            .map(|call| rate_of("weft_api_request_seconds", call))
            .filter(|call| call.often > 0.0)
            .collect();
        calls.sort_by(|a, b| b.often.total_cmp(&a.often));
        let rule = |(rule, _): (&str, f64)| {
            let load = growth("weft_rule_seconds_total", rule) / seconds;
            Rate { name: rule.to_owned(), often: 0.0, mean: 0.0, load }
        };
        // Only the heaviest rules have series: one that was not among them has no time of before.
        let is_known = |(rule, _): &(&str, f64)| before.has("weft_rule_seconds_total", rule);
        let mut rules: Vec<Rate> = now
            .series("weft_rule_seconds_total")
            .filter(is_known)
            .map(rule)
            .filter(|rule| rule.load > 0.0)
            .collect();
        rules.sort_by(|a, b| b.load.total_cmp(&a.load));
        let tenant = |tenant: &String| {
            let count = growth("weft_tenant_changes_total", tenant);
            let spent = growth("weft_tenant_seconds_total", tenant);
            let mean = if count > 0.0 { spent / count } else { 0.0 };
            Rate { name: tenant.clone(), often: count / seconds, mean, load: spent / seconds }
        };
        let tenants = labels("weft_tenant_changes_total");
        let mut tenants: Vec<Rate> = tenants.iter().map(tenant).filter(|tenant| tenant.often > 0.0).collect();
        tenants.sort_by(|a, b| b.load.total_cmp(&a.load));
        let names =
            labels("weft_switch_lag_seconds").into_iter().chain(labels("weft_switch_pending_transactions"));
        let names: std::collections::BTreeSet<String> = names.collect();
        let mut behind: Vec<Behind> = names
            .into_iter()
            .map(|switch| Behind {
                lag: now.get("weft_switch_lag_seconds", &switch),
                pending: now.get("weft_switch_pending_transactions", &switch),
                switch,
            })
            .filter(|switch| switch.pending > 0.0 || switch.lag > 0.0)
            .collect();
        behind.sort_by(|a, b| {
            (b.lag, b.pending).partial_cmp(&(a.lag, a.pending)).unwrap_or(std::cmp::Ordering::Equal)
        });
        Rates {
            version: now
                .series("weft_build_info")
                .next()
                .map(|(version, _)| version.to_owned())
                .unwrap_or_default(),
            transaction: now.sum("weft_last_transaction"),
            switches: now.sum("weft_switches"),
            in_sync: now.get("weft_switches", "in_sync"),
            problems: now.sum("weft_problems"),
            memory: now.sum("process_resident_memory_bytes"),
            cores: growth("process_cpu_seconds_total", "") / seconds,
            waiting: now.sum("weft_waiting"),
            busy: now.sum("weft_engine_busy_seconds"),
            requests: now
                .series("weft_requests_total")
                .map(|(result, _)| (result.to_owned(), growth("weft_requests_total", result) / seconds))
                .collect(),
            stages: STAGES.map(|stage| rate_of("weft_stage_seconds", stage)).into(),
            calls,
            rules,
            tenants,
            behind,
        }
    }

    /// The screen, with so many lines of each list.
    pub(super) fn screen(&self, lines: usize) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "controller {}, transaction {}; {} of {} switches in sync; problems: {}",
            self.version, self.transaction, self.in_sync, self.switches, self.problems
        );
        let _ = writeln!(
            text,
            "{:.0} MiB, {:.2} cores; waiting for the engine: {}, busy for {:.1} s",
            self.memory / MIB,
            self.cores,
            self.waiting,
            self.busy
        );
        let requests: Vec<String> =
            self.requests.iter().map(|(result, rate)| format!("{result} {rate:.1}")).collect();
        let requests = if requests.is_empty() { "none so far".to_owned() } else { requests.join(", ") };
        let _ = writeln!(text, "requests a second: {requests}\n");
        let stages = self.stages.iter().map(|Rate { name, often, mean, load }| {
            let load = if WAITS.contains(&name.as_str()) { "-".to_owned() } else { percent(*load) };
            [name.clone(), format!("{often:.1}"), milliseconds(*mean), load]
        });
        text += &aligned(["STAGE", "A SECOND", "MEAN MS", "LOAD"], stages);
        if !self.calls.is_empty() {
            let calls = self.calls.iter().take(lines);
            let calls =
                calls.map(|call| [call.name.clone(), format!("{:.1}", call.often), milliseconds(call.mean)]);
            text = text + "\n" + &aligned(["CALL", "A SECOND", "MEAN MS"], calls);
        }
        if !self.behind.is_empty() {
            let behind = self.behind.iter().take(lines);
            let behind = behind.map(|Behind { switch, lag, pending }| {
                [switch.clone(), format!("{lag:.1}"), format!("{pending}")]
            });
            text = text + "\n" + &aligned(["SWITCH BEHIND", "SECONDS", "PENDING"], behind);
        }
        if !self.tenants.is_empty() {
            let tenants = self.tenants.iter().take(lines).map(|Rate { name, often, mean, load }| {
                [cut(name).into_owned(), format!("{often:.1}"), milliseconds(*mean), percent(*load)]
            });
            text = text + "\n" + &aligned(["TENANT", "A SECOND", "MEAN MS", "LOAD"], tenants);
        }
        if !self.rules.is_empty() {
            let rules = self.rules.iter().take(lines);
            let rules = rules.map(|rule| [cut(&rule.name).into_owned(), percent(rule.load)]);
            text = text + "\n" + &aligned(["RULE", "LOAD"], rules);
        }
        text
    }

    /// The same as a line of JSON. Times are in seconds.
    pub(super) fn json(&self, lines: usize) -> String {
        let rate = |Rate { name, often, mean, load }: &Rate| json!({"name": name, "rate": often, "mean_seconds": mean, "load": load});
        let rates = |rates: &[Rate]| rates.iter().take(lines).map(rate).collect::<Vec<Json>>();
        let stage = |stage: &Rate| {
            let mut shown = rate(stage);
            if WAITS.contains(&stage.name.as_str()) {
                shown["load"] = Json::Null;
            }
            shown
        };
        let behind = self.behind.iter().take(lines).map(|Behind { switch, lag, pending }| {
            json!({"switch": switch, "lag_seconds": lag, "pending": pending})
        });
        let line = json!({
            "version": self.version,
            "last_txn": self.transaction,
            "switches": self.switches,
            "in_sync": self.in_sync,
            "problems": self.problems,
            "resident_bytes": self.memory,
            "cores": self.cores,
            "waiting": self.waiting,
            "busy_seconds": self.busy,
            "requests": self.requests.iter().cloned().collect::<BTreeMap<_, _>>(),
            "stages": self.stages.iter().map(stage).collect::<Vec<_>>(),
            "calls": rates(&self.calls),
            "rules": rates(&self.rules),
            "tenants": rates(&self.tenants),
            "behind": behind.collect::<Vec<_>>(),
        });
        format!("{line}\n")
    }
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.3}", seconds * 1000.0)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    const BEFORE: &str = "\
weft_build_info{version=\"0.1.0\"} 1
weft_last_transaction 7
weft_requests_total{result=\"applied\"} 7
weft_stage_seconds_sum{stage=\"derive\"} 1.0
weft_stage_seconds_count{stage=\"derive\"} 7
weft_stage_seconds_bucket{stage=\"derive\",le=\"1.0\"} 7
weft_rule_seconds_total{rule=\"flow (a.nlog:3)\"} 0.5
process_cpu_seconds_total 2.5
weft_api_request_seconds_sum{call=\"Apply\"} 9.0
weft_api_request_seconds_count{call=\"Apply\"} 100
weft_tenant_changes_total{tenant=\"acme\"} 5
weft_tenant_seconds_total{tenant=\"acme\"} 0.25
weft_tenant_changes_total{tenant=\"idle\"} 5
";
    const NOW: &str = "\
weft_build_info{version=\"0.1.0\"} 1
weft_last_transaction 47
weft_requests_total{result=\"applied\"} 47
weft_requests_total{result=\"refused\"} 2
weft_switches{state=\"in_sync\"} 2
weft_switches{state=\"syncing\"} 1
weft_problems{code=\"x\"} 3
weft_stage_seconds_sum{stage=\"derive\"} 1.2
weft_stage_seconds_count{stage=\"derive\"} 47
weft_rule_seconds_total{rule=\"flow (a.nlog:3)\"} 0.6
weft_rule_seconds_total{rule=\"idle (a.nlog:9)\"} 0
weft_rule_seconds_total{rule=\"new (a.nlog:12)\"} 99
weft_switch_lag_seconds{switch=\"hv3\"} 1.25
weft_switch_pending_transactions{switch=\"hv3\"} 4
weft_switch_pending_transactions{switch=\"(others)\"} 0
process_cpu_seconds_total 3.5
process_resident_memory_bytes 104857600
weft_api_request_seconds_sum{call=\"Apply\"} 0.5
weft_api_request_seconds_count{call=\"Apply\"} 10
weft_tenant_changes_total{tenant=\"acme\"} 15
weft_tenant_seconds_total{tenant=\"acme\"} 0.5
weft_tenant_changes_total{tenant=\"idle\"} 5
weft_tenant_changes_total{tenant=\"loud\"} 40
weft_tenant_seconds_total{tenant=\"loud\"} 1.0
";

    #[test]
    fn rates_are_what_was_added_between_two_looks() {
        let rates = Rates::between(&Look::of(BEFORE), &Look::of(NOW), Duration::from_secs(2));
        expect![[r"
            controller 0.1.0, transaction 47; 2 of 3 switches in sync; problems: 3
            100 MiB, 0.50 cores; waiting for the engine: 0, busy for 0.0 s
            requests a second: applied 20.0, refused 1.0

            STAGE     A SECOND  MEAN MS  LOAD
            queue     0.0       0.000    -
            validate  0.0       0.000    0.0 %
            derive    20.0      5.000    10.0 %
            number    0.0       0.000    0.0 %
            follow    0.0       0.000    0.0 %
            append    0.0       0.000    0.0 %
            sync      0.0       0.000    0.0 %
            send      0.0       0.000    0.0 %
            confirm   0.0       0.000    -

            SWITCH BEHIND  SECONDS  PENDING
            hv3            1.2      4

            TENANT  A SECOND  MEAN MS  LOAD
            loud    20.0      25.000   50.0 %
            acme    5.0       25.000   12.5 %

            RULE             LOAD
            flow (a.nlog:3)  5.0 %
        "]]
        .assert_eq(&rates.screen(10));
        let json: Json = serde_json::from_str(&rates.json(10)).unwrap();
        assert_eq!(json["requests"], json!({"applied": 20.0, "refused": 1.0}));
        assert_eq!(
            json["tenants"][0],
            json!({"name": "loud", "rate": 20.0, "mean_seconds": 0.025, "load": 0.5})
        );
        assert_eq!(
            [&json["stages"][0]["load"], &json["stages"][2]["load"]],
            [&Json::Null, &json!(rates.stages[2].load)]
        );
        assert_eq!(json["behind"], json!([{"switch": "hv3", "lag_seconds": 1.25, "pending": 4.0}]));
    }
}

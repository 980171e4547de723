//! What the controller says, and the files that become of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio_stream::StreamExt as _;
use weft_client::message_json::to_json;
use weft_client::pb::{
    HistoryRequest, HistoryResponse, MeasuredTunnel, Receipt, RulesVersion, StatusResponse, SwitchStatus,
};
use weft_client::{Client, ClientError, Diagnostics, Flows};
use weft_core::anonymise::Mapping;

use super::collected::{Collected, Finding};
use super::renamed::{self, Names};
use crate::exit::{Failure, say};
use crate::recorded::{self, Recorded};
use crate::{flows, snapshot, tunnels};

/// The most changes of objects, and receipts.
const CHANGES: u32 = 200;
/// How long a receipt that should be there is waited for.
const RECEIPT_MAX: Duration = Duration::from_secs(2);

/// What a bundle is to have.
pub(super) struct Wanted {
    /// These transport nodes.
    pub(super) switches: Vec<String>,
    /// All of them.
    pub(super) all_switches: bool,
    pub(super) anonymise: bool,
}

/// What somebody asked for, or why there is none.
type Answer<T> = Result<T, String>;

/// All that the controller has said.
pub(super) struct Found {
    status: Answer<StatusResponse>,
    rules: Answer<Vec<RulesVersion>>,
    diagnostics: Answer<Diagnostics>,
    /// `None`: the controller has none.
    metrics: Answer<Option<String>>,
    history: Answer<HistoryResponse>,
    receipts: Answer<Vec<Receipt>>,
    snapshot: Answer<Vec<u8>>,
    /// By transport node.
    switches: Vec<(String, Answer<Flows>, Answer<Vec<MeasuredTunnel>>)>,
}

/// Asks the controller for all parts. What it refuses leaves the others alone.
pub(super) async fn collect(mut client: Client, wanted: &Wanted) -> Found {
    say("asking the controller for its state, configuration, log and changes");
    let status = text(client.status().await);
    let rules = text(client.rules_history().await);
    let diagnostics = text(client.diagnostics().await);
    let metrics = text(client.metrics().await);
    let history = text(client.history(HistoryRequest { limit: CHANGES, ..Default::default() }).await);
    let last = status.as_ref().map_or(0, |status| status.last_txn);
    let receipts = text(receipts(&mut client, last).await);
    say("asking the controller for a snapshot");
    let snapshot = text(client.snapshot().await);
    let mut switches = Vec::new();
    // Their flows cannot be renamed, so they are not asked for.
    if !wanted.anonymise {
        let all = || status.iter().flat_map(|status| &status.switches).map(|switch| switch.node.clone());
        for node in if wanted.all_switches { all().collect() } else { wanted.switches.clone() } {
            say(format_args!("asking the controller for the flows of {node}"));
            let flows = text(client.flows(&node).await);
            let tunnels = text(client.tunnels(Some(&node)).await);
            switches.push((node, flows, tunnels));
        }
    }
    Found { status, rules, diagnostics, metrics, history, receipts, snapshot, switches }
}

/// The same of a controller that nobody can ask, for this reason.
pub(super) fn without_controller(why: &str) -> Found {
    fn no<T>(why: &str) -> Answer<T> {
        Err(why.to_owned())
    }
    Found {
        status: no(why),
        rules: no(why),
        diagnostics: no(why),
        metrics: no(why),
        history: no(why),
        receipts: no(why),
        snapshot: no(why),
        switches: Vec::new(),
    }
}

fn text<T>(answer: Result<T, ClientError>) -> Answer<T> {
    answer.map_err(|error| error.to_string())
}

/// The receipts of the last transactions up to this one, as far as they are kept.
async fn receipts(client: &mut Client, last: u64) -> Result<Vec<Receipt>, ClientError> {
    if last == 0 {
        return Ok(Vec::new());
    }
    let from = last.saturating_sub(u64::from(CHANGES)) + 1;
    let mut stream = Box::pin(client.receipts(Some(from)).await?);
    let mut receipts = Vec::new();
    // Receipts after the last transaction come as transactions do, so the stream does not end.
    while let Ok(Some(receipt)) = tokio::time::timeout(RECEIPT_MAX, stream.next()).await {
        let receipt = receipt?;
        let is_last = receipt.txn >= last;
        receipts.push(receipt);
        if is_last {
            break;
        }
    }
    Ok(receipts)
}

impl Found {
    /// Adds the files. Returns what was replaced by what, if names and addresses were.
    pub(super) fn into_parts(self, to: &mut Collected, wanted: &Wanted) -> Option<Mapping> {
        if wanted.anonymise {
            return self.renamed(to, wanted);
        }
        let status = &self.status;
        let named = |switch: &SwitchStatus| Some((switch.node.clone(), switch.ovs_version.clone()));
        let versions = self.versions(|packages| json!(packages), named);
        to.add("versions.json", VERSIONS, Finding::Here(pretty(&versions).into_bytes()));
        let configuration = |found: &Diagnostics| found.configuration.clone();
        to.add("configuration.toml", CONFIGURATION, Finding::of(&self.diagnostics, configuration));
        to.add("status.json", STATUS, Finding::of(status, |status| pretty(&without_problems(status))));
        let problems = |status: &StatusResponse| pretty(&to_json(&status.problems));
        to.add("problems.json", PROBLEMS, Finding::of(status, problems));
        to.add("metrics.txt", METRICS, metrics(&self.metrics, String::clone));
        to.add("log.txt", LOG, Finding::of(&self.diagnostics, |found| lines(&found.log)));
        to.add("history.json", HISTORY, Finding::of(&self.history, |history| pretty(&to_json(history))));
        let receipts = |receipts: &Vec<Receipt>| lines(receipts.iter().map(to_json));
        to.add("receipts.jsonl", RECEIPTS, Finding::of(&self.receipts, receipts));
        for (node, flows, tunnels) in &self.switches {
            let folder = format!("switches/{}", file_name(node));
            to.add(format!("{folder}/flows.txt"), FLOWS, Finding::of(flows, flows::to_text));
            to.add(
                format!("{folder}/tunnels.jsonl"),
                TUNNELS,
                Finding::of(tunnels, |found| tunnels::to_json(found)),
            );
        }
        to.add("snapshot.weft", SNAPSHOT, self.snapshot.map_or_else(Finding::Missing, Finding::Here));
        None
    }

    /// The same with other names and addresses.
    fn renamed(self, to: &mut Collected, wanted: &Wanted) -> Option<Mapping> {
        say("replacing names and addresses");
        let anonymous = self.snapshot.as_ref().map_err(String::clone);
        let anonymous =
            anonymous.and_then(|taken| anonymous_snapshot(taken).map_err(|failure| failure.text()));
        let names = anonymous.as_ref().map(|(_, mapping)| Names::of(mapping)).map_err(String::clone);
        let names = names.map_err(|why| format!("without a snapshot, it is not known what is a name: {why}"));
        let both = |names: &Answer<Names>| Ok::<_, String>((self.status.clone()?, names.clone()?));
        let status = both(&names);
        let new = |switch: &SwitchStatus| {
            let node = names.as_ref().ok()?.renamed(&switch.node)?;
            Some((node, renamed::version(&switch.ovs_version).to_owned()))
        };
        let versions = self.versions(|packages| json!(packages.len()), new);
        to.add("versions.json", VERSIONS, Finding::Here(pretty(&versions).into_bytes()));
        let configuration = |found: &Diagnostics| renamed::configuration(&found.configuration);
        to.add("configuration.toml", CONFIGURATION, Finding::of(&self.diagnostics, configuration));
        let of_status = |(status, names): &(StatusResponse, Names)| pretty(&renamed::status(status, names));
        to.add("status.json", STATUS, Finding::of(&status, of_status));
        let problems = |(status, names): &(StatusResponse, Names)| pretty(&renamed::problems(status, names));
        to.add("problems.json", PROBLEMS, Finding::of(&status, problems));
        let of_metrics = match &names {
            Ok(names) => metrics(&self.metrics, |text| renamed::metrics(text, names)),
            Err(why) => Finding::Missing(why.clone()),
        };
        to.add("metrics.txt", METRICS, of_metrics);
        let free_text = || Finding::LeftOut("names and addresses are in free text there".to_owned());
        to.add("log.txt", LOG, free_text());
        to.add("history.json", HISTORY, free_text());
        to.add("receipts.jsonl", RECEIPTS, free_text());
        if wanted.all_switches || !wanted.switches.is_empty() {
            let why = "matches and actions cannot be renamed; `weft replay snapshot.weft --host NODE` computes the same flows";
            to.add("switches", FLOWS, Finding::LeftOut(why.to_owned()));
        }
        let (snapshot, mapping) = match anonymous {
            Ok((bytes, mapping)) => (Finding::Here(bytes), Some(mapping)),
            Err(why) => (Finding::Missing(why), None),
        };
        to.add("snapshot.weft", SNAPSHOT, snapshot);
        mapping
    }

    /// Which releases and rules run. `packages` says what the rules were read from, and `switch` the name and the version of a switch, if
    /// they are to be known.
    fn versions(
        &self,
        packages: impl Fn(&[String]) -> Json,
        switch: impl Fn(&SwitchStatus) -> Option<(String, String)>,
    ) -> Json {
        let rules = self.rules.as_ref().ok().and_then(|versions| versions.first());
        let rules = rules.map(|version| {
            let packages = packages(&version.packages);
            json!({"fingerprint": version.fingerprint, "packages": packages, "configured": version.configured})
        });
        let switches = self.status.iter().flat_map(|status| &status.switches).filter_map(switch);
        json!({
            "weft": env!("CARGO_PKG_VERSION"),
            "controller": self.status.as_ref().ok().map(|status| &status.version),
            "rules": rules,
            "open_vswitch": switches.collect::<BTreeMap<_, _>>(),
        })
    }
}

/// A snapshot under other names, and which these are.
fn anonymous_snapshot(taken: &[u8]) -> Result<(Vec<u8>, Mapping), Failure> {
    // Removed once it has been read.
    let file = recorded::temporary(taken)?;
    snapshot::renamed(&Recorded::open(&file, None)?)
}

const VERSIONS: &str =
    "the releases of this command, the controller and Open vSwitch by transport node, and the rules that run";
const CONFIGURATION: &str = "the values in force at the controller, and where each comes from";
const STATUS: &str = "the state of the controller and of each switch";
const PROBLEMS: &str = "what objects ask and the network cannot do";
const METRICS: &str = "the metrics of the controller";
const LOG: &str = "the last lines of the controller's log";
const HISTORY: &str = "the last changes of objects, the newest first";
const RECEIPTS: &str = "how the last transactions came to switches";
const FLOWS: &str = "the flows, groups and ports that the switch should have; `ovs-ofctl -O OpenFlow15 dump-flows br-int` prints those that it has";
const TUNNELS: &str = "what probes have measured of its tunnels";
const SNAPSHOT: &str = "all objects, reports and rules, to replay";

fn metrics(found: &Answer<Option<String>>, text: impl FnOnce(&String) -> String) -> Finding {
    match found {
        Ok(Some(found)) => Finding::Here(text(found).into_bytes()),
        Ok(None) => Finding::LeftOut("this controller serves no metrics".to_owned()),
        Err(why) => Finding::Missing(why.clone()),
    }
}

fn without_problems(status: &StatusResponse) -> Json {
    to_json(&StatusResponse { problems: Vec::new(), ..status.clone() })
}

fn pretty(json: &Json) -> String {
    format!("{json:#}\n")
}

fn lines(lines: impl IntoIterator<Item = impl std::fmt::Display>) -> String {
    lines.into_iter().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "{line}");
        text
    })
}

/// The id of a transport node, as a file can have it: other letters by their numbers, so that no two ids are one.
fn file_name(id: &str) -> String {
    let plain = |c: char| match c {
        '-' => "-".to_owned(),
        _ if c.is_ascii_alphanumeric() => c.to_string(),
        _ => format!("_{:x}_", u32::from(c)),
    };
    id.chars().map(plain).collect()
}

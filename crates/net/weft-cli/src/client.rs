//! `weft apply`, `weft get`, `weft delete`: the controller's clients.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use controller::client::FlowCounts;
use controller::pb::{Accepted, EngineWork, ObjectState, Outcome, SwitchStatus};
use controller::{Client, ClientError, Listen};
use nlog_data::quotation::{cut, grouped};
use objects::ObjectKey;
use serde_json::{Map, Value as Json};
use weft_core::{builtin, shown};

use crate::exit::{Failure, print_as, say};
use crate::flood_drops::Drops;
use crate::wait::Wait;
use crate::{flood_drops, flow_counts, flows, learned, logical_flows, routes};

/// How long to wait for a controller that is still starting, and the interval of attempts.
const STARTING: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

/// A command shows what the engine is doing once that takes so many milliseconds.
const DELAY: u64 = 3000;

/// The address of the controller.
#[derive(Args, Clone)]
pub(crate) struct Address {
    /// Address of the controller: `unix:/PATH` or `ADDRESS:PORT` (default: the socket `weft/weft.sock` in the user's run
    /// folder, where a controller without `listen` listens)
    #[arg(long = "controller", env = "WEFT_CONTROLLER", hide_env_values = true, value_name = "ADDRESS")]
    address: Option<String>,
}

impl Address {
    /// Connects to the controller and runs `work` with the connection.
    pub(crate) fn with<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        work: impl FnOnce(Client) -> F,
    ) -> Result<T, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::outside("cannot start the client", error))?;
        runtime.block_on(async { work(self.connect().await.map_err(failed)?).await })
    }

    /// Connects, and retries for a moment, since the controller may still be starting.
    async fn connect(&self) -> Result<Client, ClientError> {
        let begun = Instant::now();
        let address = self.address.clone().unwrap_or_else(|| Listen::default().to_string());
        loop {
            match Client::connect(&address).await {
                Err(ClientError::Unreachable { .. }) if begun.elapsed() < STARTING => {
                    tokio::time::sleep(LOOK).await;
                }
                result => return result,
            }
        }
    }
}

/// Asks the controller at the address, or the usual one, if it answers within this time.
pub(crate) fn ask<T, F: Future<Output = Option<T>>>(
    address: Option<&str>,
    within: Duration,
    question: impl FnOnce(Client) -> F,
) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let usual = || std::env::var("WEFT_CONTROLLER").unwrap_or_else(|_| Listen::default().to_string());
    let address = address.map_or_else(usual, str::to_owned);
    let answer = async { question(Client::connect(&address).await.ok()?).await };
    runtime.block_on(async { tokio::time::timeout(within, answer).await.ok()? })
}

/// The failure of a request.
pub(crate) fn failed(error: ClientError) -> Failure {
    match error {
        ClientError::BadEndpoint { .. } => Failure::Usage(error.to_string()),
        // The request is valid; the controller's disk failed.
        ClientError::Refused(ref refusal) if refusal.code == "journal" => Failure::Outside(error.to_string()),
        ClientError::Refused(_) | ClientError::NotFound(_) => Failure::Rejected(error.to_string()),
        ClientError::Unreachable { .. } | ClientError::Stopping { .. } | ClientError::Failed { .. } => {
            Failure::Outside(error.to_string())
        }
    }
}

/// Arguments of `weft apply`.
#[derive(Args)]
pub(crate) struct Apply {
    /// Files of objects (YAML or JSON); `-` reads standard input. All files together are one transaction
    #[arg(short = 'f', long = "file", required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also delete every object that the files do not name, in the same transaction
    #[arg(long)]
    prune: bool,
    #[command(flatten)]
    wait: Wait,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    address: Address,
}

impl Apply {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let documents = self.files.iter().map(read_document).collect::<Result<Vec<_>, Failure>>()?;
        let (prune, wait, json) = (self.prune, self.wait, self.json);
        self.address.with(|mut client| async move {
            let by = "weft apply";
            let accepted = if prune {
                client.apply_and_prune(documents, by).await
            } else {
                client.apply(documents, by).await
            };
            let accepted = accepted.map_err(failed)?;
            show_accepted(&accepted, json)?;
            wait.settle(&mut client, &accepted).await
        })
    }
}

/// Reads a file: its name and its text.
pub(crate) fn read_document(path: &PathBuf) -> Result<(String, String), Failure> {
    let (name, bytes) = if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        let read = std::io::stdin().read_to_end(&mut bytes);
        read.map_err(|error| Failure::outside("standard input", error))?;
        ("standard input".to_owned(), bytes)
    } else {
        let name = path.display().to_string();
        let read = std::fs::read(path);
        let bytes = read.map_err(|error| Failure::outside(format!("cannot read {name}"), error))?;
        (name, bytes)
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        Failure::Rejected(format!(
            "{name}: not UTF-8 at byte {}; save the file as UTF-8",
            error.utf8_error().valid_up_to()
        ))
    })?;
    Ok((name, text))
}

/// Prints the outcome for each object.
fn show_accepted(accepted: &Accepted, json: bool) -> Result<(), Failure> {
    let word = |outcome| match Outcome::try_from(outcome) {
        Ok(Outcome::Created) => "created",
        Ok(Outcome::Updated) => "updated",
        Ok(Outcome::Unchanged) => "unchanged",
        Ok(Outcome::Deleted) => "deleted",
        Ok(Outcome::Absent) => "absent",
        Ok(Outcome::Unspecified) | Err(_) => "done",
    };
    for warning in &accepted.warnings {
        say(format_args!("warning: {warning}"));
    }
    let mut text = String::new();
    let mut objects = Vec::new();
    for result in &accepted.objects {
        let object = result.object.clone().unwrap_or_default();
        if json {
            objects.push(serde_json::json!({
                "kind": object.kind, "id": object.id, "outcome": word(result.outcome),
            }));
        } else {
            text += &format!("{} {}: {}\n", object.kind, object.id, word(result.outcome));
        }
    }
    if json {
        text = format!("{}\n", serde_json::json!({"txn": accepted.txn, "objects": objects}));
    }
    print_as(json, &text)
}

/// Arguments of `weft get`.
#[derive(Args)]
pub(crate) struct Get {
    /// A kind of object, also in the plural (`weft schema` lists the kinds; with an id, also the packets that hosts have counted
    /// for the object, if the rules count some, and those that were dropped, by cause, of a transport node or of what packets pass, such as
    /// a switch port, a switch or a router: since the host has the flow that drops them, so a switch that restarts begins anew),
    /// `status` (the controller and its switches),
    /// `flows` (of a transport node: flows, groups and ports, with the rule of each), `logical-flows` (of a logical switch
    /// and its ports, before they are placed on hosts), `learned-addresses` (of a logical switch: how many MAC addresses
    /// each host has learned on each port, and where the limit is reached), `flood-drops` (of ports with a `flood_limit`: how
    /// many frames each host has dropped), `connection-drops` (of ports with ACLs that allow connections: how many first packets
    /// of connections each host has dropped, by `connections` of the switch or the port), or `routes` with the id of a router (its routes as they take effect, the longest
    /// prefix first, with the port and the MAC address of each next hop, or why it takes no packets; policies decide before
    /// routes, see `route_policy`)
    kind: String,
    /// The id of one object, of the transport node for `flows`, of the logical switch for `logical-flows` and
    /// `learned-addresses`, of the port for `flood-drops` and `connection-drops`, or of the router for `routes` (default: all objects)
    id: Option<String>,
    /// With `learned-addresses`, list the addresses too
    #[arg(long)]
    addresses: bool,
    /// With `status`, ask all switches how many packets they have dropped, and why
    #[arg(long)]
    drops: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    address: Address,
}

impl Get {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.addresses && self.kind != "learned-addresses" {
            let usage = "--addresses belongs to `weft get learned-addresses ID`";
            return Err(Failure::Usage(usage.into()));
        }
        if self.drops && self.kind != "status" {
            return Err(Failure::Usage(
                "--drops belongs to `weft get status`; an object tells its drops without it".into(),
            ));
        }
        match self.kind.as_str() {
            "status" => self.status(),
            "flows" => self.flows(),
            "logical-flows" => self.logical_flows(),
            "learned-addresses" => self.learned_addresses(),
            "flood-drops" => self.drops(Drops::Floods),
            "connection-drops" => self.drops(Drops::Connections),
            // Without an id, the objects of kind `route`.
            "routes" if self.id.is_some() => self.routes(),
            kind => self.objects(kind.to_owned()),
        }
    }

    fn objects(&self, kind: String) -> Result<(), Failure> {
        let id = self.id.clone();
        let (objects, counts) = self.address.with(|mut client| async move {
            let objects = client.get_with_states(&kind, id.as_deref()).await.map_err(failed)?;
            let counts = match id {
                Some(id) => client.flow_counts(&kind, &id).await.map_err(failed)?,
                None => FlowCounts::default(),
            };
            Ok((objects, counts))
        })?;
        let mut text = String::new();
        for (number, (object, state)) in objects.iter().enumerate() {
            if self.json {
                text += &json_with_state(object, state, &counts);
            } else {
                text += if number > 0 { "---\n" } else { "" };
                text += &state_comments(state);
                text += &flow_counts::to_comments(&counts);
                text += &yaml(object)?;
            }
        }
        print_as(self.json, &text)
    }

    fn status(&self) -> Result<(), Failure> {
        let asks = self.drops;
        let (status, counts) = self.address.with(|mut client| async move {
            let status = client.status().await.map_err(failed)?;
            let counts = if asks { Some(client.drops_everywhere().await.map_err(failed)?) } else { None };
            Ok((status, counts))
        })?;
        let mut text = String::new();
        if self.json {
            let switches: Vec<_> = status
                .switches
                .iter()
                .map(|switch| {
                    let mut shown = serde_json::json!({
                        "connected": switch.connected, "synced": switch.synced,
                        "last_error": switch.last_error, "pending": switch.pending, "confirmed_txn": switch.confirmed_txn,
                        "flows": switch.flows, "groups": switch.groups, "tunnels": switch.tunnels, "patches": switch.patches, "vifs": switch.vifs,
                        "sync_flow_mods": switch.sync_flow_mods, "refused": switch.refused,
                        "foreign_changes": switch.foreign_changes, "last_foreign_change": switch.last_foreign_change,
                        "driver_restarts": switch.driver_restarts, "last_driver_failure": switch.last_driver_failure,
                        "strays": strays_json(switch),
                    });
                    // Named like the kind of the object whose switch it is.
                    shown[&status.host_kind] = switch.node.as_str().into();
                    shown
                })
                .collect();
            let objects: BTreeMap<_, _> = status.objects.iter().collect();
            let problems: Vec<_> = status
                .problems
                .iter()
                .map(|problem| {
                    let object = problem.object.clone().unwrap_or_default();
                    serde_json::json!({
                        "kind": object.kind, "id": object.id, "code": problem.code, "text": problem.text,
                    })
                })
                .collect();
            let mut shown = serde_json::json!({
                "version": status.version, "last_txn": status.last_txn, "objects": objects, "switches": switches,
                "problems": problems, "rules": status.rules,
            });
            if let Some(engine) = &status.engine {
                shown["engine"] = serde_json::json!({
                    "with": engine.with, "milliseconds": engine.milliseconds, "rule": engine.rule, "rows": engine.rows,
                    "stalled": engine.stalled,
                });
            }
            if let Some(counts) = &counts {
                shown["drops"] = flow_counts::network_drops_json(counts);
            }
            text = format!("{shown}\n");
        } else {
            text += &format!("controller {}, last transaction {}\n", status.version, status.last_txn);
            if status.rules != [builtin::NAME] {
                text += &format!("rules: {}\n", status.rules.join(", "));
            }
            text += &status.engine.as_ref().and_then(engine_line).unwrap_or_default();
            for switch in &status.switches {
                let state = match (switch.connected, switch.synced, switch.refused) {
                    (false, ..) => "not connected".to_owned(),
                    (true, true, _) => "in sync".to_owned(),
                    (true, false, 0) => "synchronising".to_owned(),
                    (true, false, refused) => format!("{refused} refused"),
                };
                text += &format!(
                    "{}: {state}; {} flows, {} tunnels, {} vNICs",
                    switch.node, switch.flows, switch.tunnels, switch.vifs
                );
                if switch.foreign_changes > 0 {
                    text += &format!(", {} changes by others", switch.foreign_changes);
                }
                if switch.driver_restarts > 0 {
                    text += &format!(", {} restarts of its driver", switch.driver_restarts);
                }
                let error = &switch.last_error;
                text += &if error.is_empty() { "\n".to_owned() } else { format!("; {}\n", shown(error)) };
                text += &strays(switch);
            }
            for problem in &status.problems {
                let object = problem.object.clone().unwrap_or_default();
                text += &format!("problem: {} {}: {}\n", object.kind, object.id, shown(&problem.text));
            }
            text += &counts.as_ref().map(flow_counts::network_drops).unwrap_or_default();
        }
        print_as(self.json, &text)
    }

    fn flows(&self) -> Result<(), Failure> {
        let node = self.id.clone().ok_or_else(|| {
            Failure::Usage("`weft get flows` needs the id of a transport node: weft get flows ID".into())
        })?;
        let flows =
            self.address.with(|mut client| async move { client.flows(&node).await.map_err(failed) })?;
        print_as(self.json, &if self.json { flows::to_json(&flows) } else { flows::to_text(&flows) })
    }

    fn logical_flows(&self) -> Result<(), Failure> {
        let id = self.id.clone().ok_or_else(|| {
            let usage =
                "`weft get logical-flows` needs the id of a logical switch: weft get logical-flows ID";
            Failure::Usage(usage.into())
        })?;
        let flows =
            self.address.with(|mut client| async move { client.logical_flows(&id).await.map_err(failed) })?;
        print_as(
            self.json,
            &if self.json { logical_flows::to_json(&flows) } else { logical_flows::to_text(&flows) },
        )
    }

    fn learned_addresses(&self) -> Result<(), Failure> {
        let id = self.id.clone().ok_or_else(|| {
            let usage =
                "`weft get learned-addresses` needs the id of a logical switch: weft get learned-addresses ID";
            Failure::Usage(usage.into())
        })?;
        let addresses = self.addresses;
        let found = self.address.with(|mut client| async move {
            client.learned_addresses(&id, addresses).await.map_err(failed)
        })?;
        print_as(
            self.json,
            &if self.json { learned::to_json(&found, addresses) } else { learned::to_text(&found) },
        )
    }

    fn routes(&self) -> Result<(), Failure> {
        let router = self.id.clone().unwrap_or_default();
        let found =
            self.address.with(|mut client| async move { client.routes(&router).await.map_err(failed) })?;
        print_as(self.json, &if self.json { routes::to_json(&found) } else { routes::to_text(&found) })
    }

    fn drops(&self, of: Drops) -> Result<(), Failure> {
        let port = self.id.clone();
        let found = self.address.with(|mut client| async move {
            let found = match of {
                Drops::Floods => client.flood_drops(port.as_deref()).await,
                Drops::Connections => client.connection_drops(port.as_deref()).await,
            };
            found.map_err(failed)
        })?;
        print_as(
            self.json,
            &if self.json {
                flood_drops::to_json(&found, of)
            } else {
                flood_drops::to_text(&found, of, self.id.as_deref())
            },
        )
    }
}

/// A line for the interfaces of a host with ids that no object has: they are plugged into nothing.
fn strays(switch: &SwitchStatus) -> String {
    let count = usize::try_from(switch.stray_count).unwrap_or(usize::MAX);
    if count == 0 {
        return String::new();
    }
    let names = switch.strays.iter().map(|stray| {
        let meant = stray.nearest.as_ref().map(|near| format!(" (did you mean {} {}?)", near.kind, near.id));
        format!("`{}`{}", shown(&cut(&stray.id)), meant.unwrap_or_default())
    });
    let mut names = names.collect::<Vec<_>>().join(", ");
    if count > switch.strays.len() {
        names += &format!(" and {} more", grouped(count - switch.strays.len()));
    }
    let interfaces = if count == 1 { "interface" } else { "interfaces" };
    format!("    no object has the external_ids:iface-id of {} {interfaces}: {names}\n", grouped(count))
}

fn strays_json(switch: &SwitchStatus) -> Json {
    let first = switch.strays.iter().map(|stray| {
        let near = stray.nearest.as_ref().map(|near| serde_json::json!({"kind": near.kind, "id": near.id}));
        serde_json::json!({"id": stray.id, "nearest": near})
    });
    serde_json::json!({"count": switch.stray_count, "first": first.collect::<Vec<_>>()})
}

/// The state of an object as comments before it, so that the output can be applied again.
fn state_comments(state: &ObjectState) -> String {
    let columns = columns(state).into_iter().map(|(name, value)| match value {
        Json::String(text) => format!("# {name}: {}\n", shown(&text)),
        value => format!("# {name}: {value}\n"),
    });
    let problems = state.problems.iter().map(|problem| format!("# problem: {}\n", shown(problem)));
    columns.chain(problems).collect()
}

/// What the rules say of an object, by the names of the columns.
fn columns(state: &ObjectState) -> Map<String, Json> {
    // A controller of another version may send none.
    serde_json::from_str(&state.columns).unwrap_or_default()
}

/// An object as JSON, with its state as an additional field.
fn json_with_state(object: &str, state: &ObjectState, counts: &FlowCounts) -> String {
    let mut members = columns(state);
    if !state.problems.is_empty() {
        members.insert("problems".to_owned(), serde_json::json!(state.problems));
    }
    members.extend(flow_counts::to_members(counts));
    match object.strip_suffix('}') {
        Some(fields) if !members.is_empty() => format!("{fields},\"state\":{}}}\n", Json::Object(members)),
        _ => format!("{object}\n"),
    }
}

/// An object as YAML, the form of files.
fn yaml(json: &str) -> Result<String, Failure> {
    let yaml = serde_json::from_str::<serde_norway::Value>(json).map_err(|error| error.to_string());
    let yaml = yaml.and_then(|value| serde_norway::to_string(&value).map_err(|error| error.to_string()));
    yaml.map_err(|error| Failure::outside("the controller returned an object that is not valid JSON", error))
}

/// Arguments of `weft delete`.
#[derive(Args)]
pub(crate) struct Delete {
    /// The kind of the object
    #[arg(required_unless_present = "files")]
    kind: Option<String>,
    /// The id of the object
    #[arg(required_unless_present = "files")]
    id: Option<String>,
    /// Files of objects (YAML or JSON) to delete instead; `-` reads standard input. All files together are one transaction
    #[arg(short = 'f', long = "file", value_name = "FILE", conflicts_with_all = ["kind", "id"])]
    files: Vec<PathBuf>,
    #[command(flatten)]
    wait: Wait,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    address: Address,
}

impl Delete {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let documents = self.files.iter().map(read_document).collect::<Result<Vec<_>, Failure>>()?;
        let key = self.kind.zip(self.id).map(|(kind, id)| ObjectKey::new(kind, id));
        let (wait, json) = (self.wait, self.json);
        self.address.with(|mut client| async move {
            let by = "weft delete";
            let accepted = match &key {
                Some(key) => client.delete(std::slice::from_ref(key), by).await,
                None => client.delete_documents(documents, by).await,
            };
            let accepted = accepted.map_err(failed)?;
            show_accepted(&accepted, json)?;
            wait.settle(&mut client, &accepted).await
        })
    }
}

/// What the engine is doing, if others wait for it.
fn engine_line(engine: &EngineWork) -> Option<String> {
    if engine.milliseconds < DELAY {
        return None;
    }
    let seconds = engine.milliseconds / 1000;
    let rule =
        if engine.rule.is_empty() { String::new() } else { format!(", in a rule for {}", engine.rule) };
    let rows = grouped(usize::try_from(engine.rows).unwrap_or(usize::MAX));
    let stalled =
        if engine.stalled { "; it has not turned for so long that something may be wrong" } else { "" };
    Some(format!("engine: {} for {seconds} s{rule}; {rows} rows derived so far{stalled}\n", engine.with))
}

#[cfg(test)]
mod tests {
    use controller::pb::{ObjectRef, StrayInterface};

    use super::*;

    #[test]
    fn d20_interfaces_of_no_object_are_named_with_the_object_that_may_be_meant() {
        let near = Some(ObjectRef { kind: "switch_port".into(), id: "blue-1".into() });
        let stray = |id: &str, nearest| StrayInterface { id: id.into(), nearest };
        let mut switch = SwitchStatus {
            stray_count: 1002,
            strays: vec![stray("blue-l", near), stray("x\u{1b}[2J\nhv2: in sync", None)],
            ..SwitchStatus::default()
        };
        assert_eq!(
            strays(&switch),
            "    no object has the external_ids:iface-id of 1,002 interfaces: `blue-l` (did you mean switch_port blue-1?), \
             `x\\u{1b}[2J\\nhv2: in sync` and 1,000 more\n"
        );
        assert_eq!(strays_json(&switch)["first"][0]["nearest"]["id"], "blue-1");
        switch.stray_count = 0;
        assert_eq!(strays(&switch), "");
    }

    #[test]
    fn what_is_printed_of_an_object_can_be_applied_with_what_rules_say_of_it() {
        let object = r#"{"kind":"switch","id":"blue"}"#;
        let plain = ObjectState::default();
        assert_eq!(json_with_state(object, &plain, &FlowCounts::default()), format!("{object}\n"));
        assert_eq!(state_comments(&plain), "");

        let state = ObjectState {
            columns: r#"{"mtu":1442}"#.into(),
            problems: vec!["no \"way\"".into(), "other".into()],
        };
        let json = json_with_state(object, &state, &FlowCounts::default());
        assert_eq!(
            json,
            "{\"kind\":\"switch\",\"id\":\"blue\",\"state\":{\"mtu\":1442,\"problems\":[\"no \\\"way\\\"\",\"other\"]}}\n"
        );
        let text = state_comments(&state) + &yaml(object).unwrap();
        assert_eq!(text, "# mtu: 1442\n# problem: no \"way\"\n# problem: other\nkind: switch\nid: blue\n");
        let read: serde_norway::Value = serde_norway::from_str(&text).unwrap();
        assert_eq!(read, serde_json::from_str::<serde_norway::Value>(object).unwrap());
    }
}

//! The controller's clients: `weft apply`, `weft set` and `weft delete` in `changes`, with what they print in `answer`; `weft get` here.

use std::collections::BTreeSet;
use std::future::Future;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use controller::client::FlowCounts;
use controller::pb::ObjectState;
use controller::{Client, ClientError, Listen};
use serde_json::{Map, Value as Json};
use weft_core::shown;

use crate::exit::{Failure, print_as};
use crate::faults::is_journal;
use crate::flood_drops::Drops;
use crate::status::Status;
use crate::{flood_drops, flow_counts, flows, learned, logical_flows, routes, tunnels};

mod answer;
mod changes;

pub(crate) use changes::{Apply, Delete, Set};

/// How long to wait for a controller that is still starting, and the interval of attempts.
const STARTING: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

/// How often all objects are read before a network that changes meanwhile is given up.
const ATTEMPTS: usize = 20;

/// The address of the controller.
#[derive(Args, Clone)]
pub(crate) struct Address {
    /// Controller: `unix:/PATH` or `ADDRESS:PORT`
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

/// The address of the controller, unless an option says otherwise.
pub(crate) fn usual_address() -> String {
    std::env::var("WEFT_CONTROLLER").unwrap_or_else(|_| Listen::default().to_string())
}

/// Asks the controller at the address, or the usual one, if it answers within this time.
pub(crate) fn ask<T, F: Future<Output = Option<T>>>(
    address: Option<&str>,
    within: Duration,
    question: impl FnOnce(Client) -> F,
) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let address = address.map_or_else(usual_address, str::to_owned);
    let answer = async { question(Client::connect(&address).await.ok()?).await };
    runtime.block_on(async { tokio::time::timeout(within, answer).await.ok()? })
}

/// The failure of a request.
pub(crate) fn failed(error: ClientError) -> Failure {
    match error {
        ClientError::BadEndpoint { .. } => Failure::Usage(error.to_string()),
        // The request is valid; the controller's disk failed.
        ClientError::Refused(ref refusal) if is_journal(refusal) => Failure::Outside(error.to_string()),
        ClientError::Refused(_) | ClientError::NotFound(_) => Failure::Rejected(error.to_string()),
        ClientError::Unreachable { .. } | ClientError::Stopping { .. } | ClientError::Failed { .. } => {
            Failure::Outside(error.to_string())
        }
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

/// What `weft get` prints besides the objects of a kind.
const VIEWS: &str = "Instead of a kind:\n  \
    all                       The objects of all kinds, as `weft apply` reads them\n  \
    status [HOST]             The controller and its switches, as `weft status` prints them\n  \
    flows HOST                The flows, groups and ports that a host should have, with their rules\n  \
    logical-flows SWITCH      The flows of a logical switch, before they are placed on hosts\n  \
    learned-addresses SWITCH  How many MAC addresses each host has learned on each port, and the limit\n  \
    routes ROUTER             The routes in effect; if one gets no packets, why\n  \
    tunnels [HOST]            What probes have measured of the tunnels between hosts\n  \
    flood-drops [PORT]        Frames dropped because of `flood_limit`, by host\n  \
    connection-drops [PORT]   First packets of connections dropped because of `connections`, by host\n\n\
    Examples:\n  \
    weft get switch_ports                  all ports\n  \
    weft get switch_port web-1             one port, with its host, problems, packets and drops\n  \
    weft get routes shop                   where router shop sends packets\n\n\
    With an ID, the packets and drops are shown that hosts have counted since the flows were installed.";

/// Arguments of `weft get`.
#[derive(Args)]
#[command(after_help = VIEWS)]
pub(crate) struct Get {
    /// A kind of object, singular or plural (`weft schema --kinds` lists them), or a word below
    kind: String,
    /// The object, or what follows the word below [default: all]
    id: Option<String>,
    /// With learned-addresses: list the addresses too
    #[arg(long)]
    addresses: bool,
    /// With status: ask all switches what they have dropped, and why
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
                "--drops belongs to `weft status`; `weft get` shows the drops of an object without it".into(),
            ));
        }
        match self.kind.as_str() {
            "all" => self.all(),
            "status" => self.status().run(),
            "flows" => self.flows(),
            "logical-flows" => self.logical_flows(),
            "learned-addresses" => self.learned_addresses(),
            "flood-drops" => self.drops(Drops::Floods),
            "connection-drops" => self.drops(Drops::Connections),
            "tunnels" => self.tunnels(),
            // Without an id, the objects of kind `route`.
            "routes" if self.id.is_some() => self.routes(),
            kind => self.objects(kind.to_owned()),
        }
    }

    fn status(&self) -> Status {
        let Get { id: node, drops, json, address, .. } = self;
        Status { node: node.clone(), check: false, drops: *drops, json: *json, address: address.clone() }
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

    /// Prints all objects, so that they can be applied elsewhere.
    fn all(&self) -> Result<(), Failure> {
        if self.id.is_some() {
            return Err(Failure::Usage("`weft get all` prints all objects: it takes no id".to_owned()));
        }
        let objects = self.address.with(|mut client| async move { everything(&mut client).await })?;
        let texts =
            objects.iter().map(|object| if self.json { Ok(format!("{object}\n")) } else { yaml(object) });
        let texts = texts.collect::<Result<Vec<String>, Failure>>()?;
        print_as(self.json, &texts.join(if self.json { "" } else { "---\n" }))
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

    fn tunnels(&self) -> Result<(), Failure> {
        let node = self.id.clone();
        let found = self
            .address
            .with(|mut client| async move { client.tunnels(node.as_deref()).await.map_err(failed) })?;
        print_as(self.json, &if self.json { tunnels::to_json(&found) } else { tunnels::to_text(&found) })
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

/// All objects, kind by kind. Each kind is another question, so a network that changes meanwhile is asked again.
async fn everything(client: &mut Client) -> Result<Vec<String>, Failure> {
    for _ in 0..ATTEMPTS {
        let before = client.status().await.map_err(failed)?;
        let kinds: BTreeSet<&String> = before.objects.keys().collect();
        let mut objects = Vec::new();
        for kind in kinds {
            objects.extend(client.get(kind, None).await.map_err(failed)?);
        }
        if client.status().await.map_err(failed)?.last_txn == before.last_txn {
            return Ok(objects);
        }
    }
    Err(Failure::Outside(
        "the network keeps changing, so its objects cannot be read in one consistent state; try again"
            .to_owned(),
    ))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_of_an_object_can_be_applied_with_what_rules_say_of_it() {
        let object = r#"{"kind":"switch","id":"blue"}"#;
        let plain = ObjectState::default();
        assert_eq!(json_with_state(object, &plain, &FlowCounts::default()), format!("{object}\n"));
        assert_eq!(state_comments(&plain), "");

        let state = ObjectState {
            columns: r#"{"mtu":1442}"#.into(),
            problems: vec!["no \"way\"".into(), "other".into()],
            ..ObjectState::default()
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

//! `weft get`: objects, and what else the controller knows.

use std::collections::BTreeSet;

use clap::Args;
use controller::Client;
use controller::client::FlowCounts;

use super::objects::{json_with_state, state_comments, yaml};
use super::{Address, failed};
use crate::exit::{Failure, print_as};
use crate::flood_drops::Drops;
use crate::status::Status;
use crate::{flood_drops, flow_counts, flows, learned, logical_flows, routes, tunnels};

/// How often all objects are read before a network that changes meanwhile is given up.
const ATTEMPTS: usize = 20;

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

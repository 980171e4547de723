//! `weft get`: objects, and what else the controller knows.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::net::IpAddr;

use clap::Args;
use weft_client::Client;
use weft_client::Selection;
use weft_client::pb::ObjectState;
use weft_core::api_names::{FLOWS, LOGICAL_FLOWS, TUNNELS};

use super::jsonpath::{Output, OutputParser};
use super::objects::{Form, Question, yaml};
use super::table::Entry;
use super::{Address, failed};
use crate::exit::{Failure, print_as};
use crate::status::Status;
use crate::{flows, listing, logical_flows, tunnels};

/// How often all objects are read before a network that changes meanwhile is given up.
const ATTEMPTS: usize = 20;

/// What `weft get` prints besides the objects of a kind.
const VIEWS: &str = "Instead of a kind:\n  \
    all                    The objects of all kinds, as `weft apply` reads them\n  \
    status [HOST]          The controller and its switches, as `weft status` prints them\n  \
    flows HOST             The flows, groups and ports that a host should have, with their rules\n  \
    logical-flows SWITCH   The flows of a logical switch, before they are placed on hosts\n  \
    tunnels [HOST]         What probes have measured of the tunnels between hosts\n  \
    listings               The listings and counters that the rules declare\n  \
    LISTING [ID]           One of them, such as `routing-table ROUTER` or `flood-drops PORT`\n\n\
    Examples:\n  \
    weft get switch_ports --switch blue    the ports of a switch; -w: and what happens to them\n  \
    weft get switch_port web-1             one port, with its host, problems, packets and drops\n  \
    weft get routing-table shop            where router shop sends packets\n  \
    weft get acl -o jsonpath='{.items[?(@.tier==1)].id}'    values at a JSONPath\n\n\
    A JSONPath is that of RFC 9535 without match() and search(), or one expression in kubectl's braces;\n\
    its root has `items`, or is the object with an ID. Each value is a line: texts plain, others JSON.\n\n\
    Several objects are a table in a terminal, and YAML in a file or a pipe. With an ID, YAML and JSON\n\
    have the packets and drops that hosts have counted since the flows were installed.";

/// The words that stand for no kind, whatever the rules declare.
const VIEW_WORDS: [&str; 6] = ["all", "status", FLOWS, LOGICAL_FLOWS, TUNNELS, "listings"];
/// What `weft get routes ROUTER` shows. Without a router, it shows the objects of kind `route`.
const ROUTING_TABLE: &str = "routing-table";

/// Arguments of `weft get`.
#[derive(Args)]
#[command(after_help = VIEWS)]
pub(crate) struct Get {
    /// A kind of object, singular or plural (`weft schema --kinds` lists them), or a word below
    kind: String,
    /// The object, or what follows the word below [default: all]
    id: Option<String>,
    #[command(flatten)]
    selected: Selected,
    /// Form: table, wide, yaml, json, name (KIND/ID), or jsonpath=EXPRESSION
    #[arg(
        short,
        long,
        value_parser = OutputParser,
        value_name = "FORM",
        hide_possible_values = true,
        conflicts_with = "json"
    )]
    output: Option<Output>,
    /// Go on and print what happens to the objects, until interrupted
    #[arg(short, long)]
    watch: bool,
    /// With a listing: print lists too, such as learned addresses
    #[arg(long, alias = "addresses")]
    details: bool,
    /// With status: ask all switches what they have dropped, and why
    #[arg(long)]
    drops: bool,
    /// Print JSON, one object per line; as -o json
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    address: Address,
}

/// Which objects of a kind are printed: those that meet all conditions.
#[derive(Args)]
struct Selected {
    /// Only with these labels, such as `app=web,tier!=db` or `app`
    #[arg(short = 'l', long = "label", value_name = "LABELS")]
    labels: Vec<String>,
    /// Only with this field, such as `enabled=false` or `state.mtu=1442`
    #[arg(long = "field", value_name = "FIELD=VALUE")]
    fields: Vec<String>,
    /// Only on this switch: as --field switch=SWITCH
    #[arg(long, value_name = "SWITCH")]
    switch: Option<String>,
    /// Only at this host: as --field state.node=HOST
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Only with this IP address, in any field
    #[arg(long, value_name = "ADDRESS")]
    ip: Option<IpAddr>,
}

/// The column in which rules say where an object is.
const PLACE: &str = "state.node";

impl Selected {
    /// The selection of objects of this kind.
    fn of(&self, kind: &str) -> Result<Selection, Failure> {
        let mut labels = Vec::new();
        for part in self.labels.iter().flat_map(|labels| labels.split(',')) {
            labels.push(label(part.trim())?);
        }
        let mut fields = self.fields.clone();
        fields.extend(self.switch.iter().map(|switch| format!("switch={switch}")));
        fields.extend(self.host.iter().map(|host| format!("{PLACE}={host}")));
        fields.extend(self.ip.iter().map(|ip| format!("*={ip}")));
        Ok(Selection { kind: kind.to_owned(), labels, fields })
    }

    fn is_given(&self) -> bool {
        let Selected { labels, fields, switch, host, ip } = self;
        !labels.is_empty() || !fields.is_empty() || switch.is_some() || host.is_some() || ip.is_some()
    }
}

/// A condition on a label. `==` is as good as `=`; kubectl's conditions that the controller does not have are refused.
fn label(part: &str) -> Result<String, Failure> {
    if part.is_empty() || part.starts_with(['!', '=']) || part.contains(['(', ')', ' ']) {
        let part = nlog_data::quotation::quote_text(part);
        return Err(Failure::Usage(format!(
            "{part} is no condition on a label; write KEY=VALUE, KEY!=VALUE or KEY, several with commas between them \
             (a value with other characters: --field labels.KEY=VALUE)"
        )));
    }
    Ok(part.replacen("==", "=", 1))
}

impl Get {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.drops && self.kind != "status" {
            return Err(Failure::Usage(
                "--drops belongs to `weft status`; `weft get` shows the drops of an object without it".into(),
            ));
        }
        if VIEW_WORDS.contains(&self.kind.as_str()) {
            self.is_for_views()?;
        }
        match self.kind.as_str() {
            "all" => self.all(),
            "status" => self.status().run(),
            FLOWS => self.flows(),
            LOGICAL_FLOWS => self.logical_flows(),
            TUNNELS => self.tunnels(),
            "listings" => self.listings(),
            word => self.declared(word),
        }
    }

    /// What the rules declare: a listing, or the objects of a kind.
    fn declared(&self, word: &str) -> Result<(), Failure> {
        let is_table = word == "routes" && self.id.is_some();
        let word = if is_table { ROUTING_TABLE } else { word };
        let name = word.replace('_', "-");
        let listings =
            self.address.with(|mut client| async move { client.listings().await.map_err(failed) })?;
        if listings.iter().any(|listing| listing.name == name) {
            self.is_for_views()?;
            return self.listing(&name);
        }
        if self.details {
            return Err(Failure::Usage("--details belongs to `weft get LISTING`".into()));
        }
        self.objects(&self.kind)
    }

    fn listing(&self, name: &str) -> Result<(), Failure> {
        let (id, details) = (self.id.clone(), self.details);
        let found = self.address.with(|mut client| async move {
            client.listing(name, id.as_deref(), details).await.map_err(failed)
        })?;
        let text = if self.is_json() {
            listing::to_json(&found)
        } else {
            listing::to_text(&found, self.id.is_some())
        };
        print_as(self.is_json(), &text)
    }

    fn listings(&self) -> Result<(), Failure> {
        let found = self.address.with(|mut client| async move { client.listings().await.map_err(failed) })?;
        let text = if self.is_json() { listing::all_to_json(&found) } else { listing::all_to_text(&found) };
        print_as(self.is_json(), &text)
    }

    fn status(&self) -> Status {
        let Get { id: node, drops, address, .. } = self;
        Status {
            tenant: None,
            node: node.clone(),
            check: false,
            drops: *drops,
            json: self.is_json(),
            address: address.clone(),
        }
    }

    /// Refuses the options that only objects of a kind have.
    fn is_for_views(&self) -> Result<(), Failure> {
        let word = &self.kind;
        let form = self.output.as_ref().map(Output::form);
        let all_forms = word == "all" && matches!(form, Some(Form::Yaml | Form::Name));
        if !all_forms && !matches!(self.output, None | Some(Output::Form(Form::Json))) {
            return Err(Failure::Usage(format!(
                "`weft get {word}` has no such form; -o json is there, and `weft get KIND` has the others"
            )));
        }
        if self.watch || self.selected.is_given() {
            let option = if self.watch { "--watch" } else { "a selection" };
            return Err(Failure::Usage(format!(
                "{option} belongs to `weft get KIND`, not to `weft get {word}`"
            )));
        }
        Ok(())
    }

    fn is_json(&self) -> bool {
        self.json || self.output == Some(Output::Form(Form::Json))
    }

    fn objects(&self, kind: &str) -> Result<(), Failure> {
        let is_read = self.id.is_none() && std::io::stdout().is_terminal();
        let (form, path) = match &self.output {
            _ if self.json => (Form::Json, None),
            Some(Output::Path(_)) if self.watch => {
                return Err(Failure::Usage(
                    "jsonpath prints values of a list once; with --watch, -o json prints each change".into(),
                ));
            }
            Some(Output::Path(path)) => (Form::Json, Some(path.clone())),
            Some(Output::Form(form)) => (*form, None),
            None if is_read => (Form::Table, None),
            None => (Form::Yaml, None),
        };
        let question = Question { id: self.id.clone(), selection: self.selected.of(kind)?, form, path };
        self.address.with(|mut client| async move {
            if self.watch { question.watch(&client).await } else { question.list(&mut client).await }
        })
    }

    /// Prints all objects, so that they can be applied elsewhere.
    fn all(&self) -> Result<(), Failure> {
        if self.id.is_some() {
            return Err(Failure::Usage("`weft get all` prints all objects: it takes no id".to_owned()));
        }
        let objects = self.address.with(|mut client| async move { everything(&mut client).await })?;
        let (is_json, is_name) = (self.is_json(), self.output == Some(Output::Form(Form::Name)));
        let texts = objects.into_iter().map(|object| match (is_json, is_name) {
            (true, _) => Ok(object + "\n"),
            (_, true) => Ok(Entry::read(&(object, ObjectState::default()))?.name() + "\n"),
            _ => yaml(&object),
        });
        let texts = texts.collect::<Result<Vec<String>, Failure>>()?;
        print_as(is_json, &texts.join(if is_json || is_name { "" } else { "---\n" }))
    }

    fn flows(&self) -> Result<(), Failure> {
        let node = self.id.clone().ok_or_else(|| {
            Failure::Usage("`weft get flows` needs the id of a transport node: weft get flows ID".into())
        })?;
        let flows =
            self.address.with(|mut client| async move { client.flows(&node).await.map_err(failed) })?;
        print_as(
            self.is_json(),
            &if self.is_json() { flows::to_json(&flows) } else { flows::to_text(&flows) },
        )
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
            self.is_json(),
            &if self.is_json() { logical_flows::to_json(&flows) } else { logical_flows::to_text(&flows) },
        )
    }

    fn tunnels(&self) -> Result<(), Failure> {
        let node = self.id.clone();
        let found = self
            .address
            .with(|mut client| async move { client.tunnels(node.as_deref()).await.map_err(failed) })?;
        print_as(
            self.is_json(),
            &if self.is_json() { tunnels::to_json(&found) } else { tunnels::to_text(&found) },
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

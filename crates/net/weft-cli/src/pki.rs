//! `weft pki`: a CA, and certificates for controllers, hosts and people.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::SystemTime;

use clap::{Args, Subcommand, ValueEnum};
use comfy_table::{Table, presets};
use serde_json::json;
use weft_core::times::to_the_second;

mod certificate;
mod folder;
mod index;
mod names;
mod revocation;
mod store;

use folder::Folder;
use names::{Address, Name, Role, Tenant};
use store::{CA, CA_KEY, REVOKED_FILES, Request, Store, files};

use crate::exit::{Failure, print, print_as, say};

/// The days for which a CA and a certificate are valid unless somebody says otherwise, and the most that they can be.
const CA_DAYS: u32 = 3650;
const DAYS: u32 = 825;
const DAYS_MAX: i64 = 36_500;
/// The name of the controller's certificate, unless somebody says otherwise.
const CONTROLLER: &str = "controller";
/// Where Open vSwitch keeps its files on a host.
const ON_HOST: &str = "/etc/openvswitch";

/// Arguments of `weft pki`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        weft pki init --address 192.0.2.1            a CA, and the certificate of the controller\n  \
        weft pki node hv1 --address 192.0.2.11       of a host; prints the commands to run there\n  \
        weft pki client alice --role operator        of a person or a program\n  \
        weft pki list                                who has which, until when\n\n\
        The folder has ca.pem, ca.key, revoked.pem (the certificates that are no longer to be trusted) and\n\
        issued.txt; of each name NAME.pem (its certificate, then the CA's) and NAME.key. Who has ca.key can\n\
        act as the controller and as everybody else: keep it where no network reaches.\n\n\
        The organisation (O) in a certificate is its role: weft:controller, weft:node, weft:viewer,\n\
        weft:operator or weft:tenant:TENANT. Its common name (CN) is the name.")]
pub(crate) struct PkiCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a CA, its empty revocation list, and the certificate of the controller
    Init(Init),
    /// Issue a certificate to a controller, such as a second one
    Controller(Controller),
    /// Issue a certificate to a host, and print the commands to run there
    Node(Node),
    /// Issue a certificate to a person or a program that uses the API
    Client(Client),
    /// Issue a new certificate, with a new key, under a name that has one
    Renew(Renew),
    /// Revoke all certificates of a name
    Revoke(Revoke),
    /// List the certificates: role, expiry, and whether each is revoked
    List(List),
}

/// The folder of the CA.
#[derive(Args)]
struct Dir {
    /// The folder of the CA
    #[arg(long, value_name = "FOLDER", default_value = "pki")]
    dir: PathBuf,
}

impl Dir {
    fn folder(self) -> Folder {
        Folder::new(self.dir)
    }

    fn open(self) -> Result<Store, Failure> {
        Store::open(self.folder(), SystemTime::now())
    }
}

/// Where a server is reached.
#[derive(Args)]
struct Addresses {
    /// An IP address or DNS name to put into the certificate; repeatable
    #[arg(long = "address", value_name = "ADDRESS")]
    addresses: Vec<Address>,
}

/// How long a certificate is valid.
#[derive(Args)]
struct Days {
    /// Days for which it is valid, at most until the CA expires
    #[arg(long, value_name = "N", default_value_t = DAYS, value_parser = days())]
    days: u32,
}

fn days() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=DAYS_MAX)
}

#[derive(Args)]
#[command(
    after_help = "The certificate is named `controller`, and contains localhost, 127.0.0.1 and ::1 as well."
)]
struct Init {
    #[command(flatten)]
    addresses: Addresses,
    /// Days for which the CA is valid
    #[arg(long, value_name = "N", default_value_t = CA_DAYS, value_parser = days())]
    days: u32,
    #[command(flatten)]
    dir: Dir,
}

#[derive(Args)]
#[command(
    after_help = "`weft pki init` issues the first one. After it was revoked, this command issues another one."
)]
struct Controller {
    /// Its name
    #[arg(default_value = CONTROLLER)]
    name: Name,
    #[command(flatten)]
    addresses: Addresses,
    #[command(flatten)]
    days: Days,
    #[command(flatten)]
    dir: Dir,
}

#[derive(Args)]
#[command(
    after_help = "The name is that of the transport node. If it is a host name, the certificate contains it as one."
)]
struct Node {
    /// The id of the transport node
    name: Name,
    #[command(flatten)]
    addresses: Addresses,
    #[command(flatten)]
    days: Days,
    #[command(flatten)]
    dir: Dir,
}

#[derive(Args)]
#[command(after_help = "A viewer may see everything, an operator may change everything, and a tenant may see and change what\n\
        belongs to it.")]
struct Client {
    /// Whose certificate it is
    name: Name,
    /// What the owner may do
    #[arg(long)]
    role: ClientRole,
    /// The tenant of `--role tenant`
    #[arg(long, required_if_eq("role", "tenant"))]
    tenant: Option<Tenant>,
    #[command(flatten)]
    days: Days,
    #[command(flatten)]
    dir: Dir,
}

/// What the owner of a certificate may do. The help has a line for all, so the members have no documentation.
#[derive(ValueEnum, Clone, Copy)]
enum ClientRole {
    Viewer,
    Operator,
    Tenant,
}

#[derive(Args)]
#[command(
    after_help = "Role and addresses stay. The former certificate stays valid until it expires, so that its owner can\n\
        take the new files at any time; after a key was stolen, use `weft pki revoke` instead."
)]
struct Renew {
    /// A name that has a certificate
    name: Name,
    #[command(flatten)]
    days: Days,
    #[command(flatten)]
    dir: Dir,
}

#[derive(Args)]
#[command(
    after_help = "This adds all serial numbers of the name that have not expired to revoked.pem, those from before a\n\
        renewal too, and moves its files into the folder `revoked`, so that the name can be issued again.\n\
        It takes effect where revoked.pem is read. Open vSwitch reads no such list."
)]
struct Revoke {
    /// A name that has a certificate
    name: Name,
    #[command(flatten)]
    dir: Dir,
}

#[derive(Args)]
#[command(after_help = "A `renewed` certificate is still valid, but a newer one has its name.")]
struct List {
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dir: Dir,
}

impl PkiCommand {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Init(init) => init.run(),
            Command::Controller(controller) => controller.run(),
            Command::Node(node) => node.run(),
            Command::Client(client) => client.run(),
            Command::Renew(renew) => renew.run(),
            Command::Revoke(revoke) => revoke.run(),
            Command::List(list) => list.run(),
        }
    }
}

impl Init {
    fn run(self) -> Result<(), Failure> {
        let mut store = Store::make(self.dir.folder(), self.days, SystemTime::now())?;
        let folder = store.folder();
        say(format_args!("{}: a CA, valid until {}", folder.name_of(CA), to_the_second(store.not_after())));
        say(format_args!(
            "{}: its key. Keep it where no network reaches: who has it can act as the controller",
            folder.name_of(CA_KEY)
        ));
        let name = CONTROLLER.parse().map_err(Failure::Usage)?;
        controller(&mut store, name, self.addresses.addresses, DAYS)
    }
}

impl Controller {
    fn run(self) -> Result<(), Failure> {
        controller(&mut self.dir.open()?, self.name, self.addresses.addresses, self.days.days)
    }
}

/// Issues a certificate to a controller, which clients on its machine reach by loopback addresses.
fn controller(store: &mut Store, name: Name, addresses: Vec<Address>, days: u32) -> Result<(), Failure> {
    let loopback = ["localhost", "127.0.0.1", "::1"].into_iter().filter_map(|each| each.parse().ok());
    let addresses = addresses.into_iter().chain(loopback).collect();
    issue(store, Request { name, role: Role::Controller, addresses, days })
}

/// Issues a certificate, and says so.
fn issue(store: &mut Store, request: Request) -> Result<(), Failure> {
    let (name, role) = (request.name.clone(), request.role.clone());
    let not_after = store.issue(request)?;
    say_issued(store, &name, &role, not_after);
    Ok(())
}

fn say_issued(store: &Store, name: &Name, role: &Role, not_after: SystemTime) {
    let [certificate, key] = files(name).map(|file| store.folder().name_of(&file));
    let not_after = to_the_second(not_after);
    say(format_args!(
        "{certificate}: a certificate with role {role}, valid until {not_after}\n{key}: its key"
    ));
}

impl Node {
    fn run(self) -> Result<(), Failure> {
        let mut store = self.dir.open()?;
        let Node { name, addresses: Addresses { addresses }, days: Days { days }, .. } = self;
        let host = addresses.first().map_or_else(|| name.to_string(), ToString::to_string);
        issue(&mut store, Request { name: name.clone(), role: Role::Node, addresses, days })?;
        print(&on_host(store.folder(), &name, &host))
    }
}

/// The commands that give a host its certificate.
fn on_host(folder: &Folder, name: &Name, host: &str) -> String {
    let mut text = copy(folder, name, host);
    let _ = writeln!(
        text,
        "# On the host:\n\
         ovs-vsctl set-ssl {ON_HOST}/{name}.key {ON_HOST}/{name}.pem {ON_HOST}/{CA}\n\
         # On the host, if the controller connects to its database (`ovsdb: ssl:ADDRESS:6640` of the transport node):\n\
         ovs-vsctl set-manager pssl:6640"
    );
    text
}

/// The command that copies the files of a host to it.
fn copy(folder: &Folder, name: &Name, host: &str) -> String {
    let [certificate, key] = files(name);
    let files = [&*key, &*certificate, CA].map(|file| quoted(&folder.name_of(file)));
    // scp takes what is before a colon for the host.
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    format!(
        "# Here, to copy the key and the certificates to the host:\nscp {} root@{host}:{ON_HOST}/\n",
        files.join(" ")
    )
}

/// A word of a command line, as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |each: char| each.is_ascii_alphanumeric() || "/._-".contains(each);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

impl Client {
    fn run(self) -> Result<(), Failure> {
        let role = match (self.role, self.tenant) {
            (ClientRole::Tenant, Some(tenant)) => Role::Tenant(tenant),
            (ClientRole::Viewer, None) => Role::Viewer,
            (ClientRole::Operator, None) => Role::Operator,
            _ => return Err(Failure::Usage("--tenant belongs to --role tenant".to_owned())),
        };
        let Client { name, days: Days { days }, .. } = self;
        issue(&mut self.dir.open()?, Request { name, role, addresses: Vec::new(), days })
    }
}

impl Renew {
    fn run(self) -> Result<(), Failure> {
        let mut store = self.dir.open()?;
        let (renewed, former) = store.renew(&self.name, self.days.days)?;
        let name = &renewed.name;
        say_issued(&store, name, &renewed.role, renewed.not_after);
        say(format_args!(
            "The former certificate stays valid until {}; `weft pki revoke {name}` would revoke both.",
            to_the_second(former)
        ));
        if renewed.role == Role::Node {
            say("Open vSwitch takes new files of the same names for new connections by itself.");
            print(&copy(store.folder(), name, &name.to_string()))?;
        }
        Ok(())
    }
}

impl Revoke {
    fn run(self) -> Result<(), Failure> {
        let mut store = self.dir.open()?;
        let count = store.revoke(&self.name)?;
        let (name, folder) = (self.name, store.folder().name_of(REVOKED_FILES));
        say(match count {
            0 => format!("{name} has no valid certificate; its files, if any, are in {folder}"),
            1 => format!("{name}: 1 certificate revoked; its files are in {folder}"),
            _ => format!("{name}: {count} certificates revoked; the files of the last one are in {folder}"),
        });
        Ok(())
    }
}

impl List {
    fn run(self) -> Result<(), Failure> {
        let listed = store::list(&self.dir.folder(), SystemTime::now())?;
        if self.json {
            let line = |each: &store::Listed| {
                let (expires, serial) = (to_the_second(each.not_after), each.serial.to_string());
                let object = json!({"name": each.name, "role": each.role, "serial": serial, "expires": expires,
                    "state": each.state.as_str()});
                object.to_string() + "\n"
            };
            return print_as(true, &listed.iter().map(line).collect::<String>());
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.add_row(["NAME", "ROLE", "EXPIRES", "STATE", "SERIAL"]);
        for each in &listed {
            let (expires, serial) = (to_the_second(each.not_after), each.serial.to_string());
            table.add_row([&*each.name, &each.role, &expires, each.state.as_str(), &serial]);
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        print(&table.lines().map(|line| line.trim_end().to_owned() + "\n").collect::<String>())
    }
}

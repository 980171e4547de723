//! `weft pki`: a CA, and certificates for controllers, hosts and people.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::SystemTime;

use clap::{Args, Subcommand, ValueEnum};
use mutual_tls::Role;
use serde_json::json;
use weft_core::times::to_the_second;

mod certificate;
mod folder;
mod index;
mod names;
mod revocation;
mod store;

use folder::Folder;
use names::Address;
pub(crate) use names::Name;
use store::{CA, CA_KEY, REVOKED_FILES, Request, Store, files};

use crate::columns::aligned;
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
        There are two CAs. A switch obeys everybody who has a certificate from the CA that it trusts, so\n\
        pki/controllers signs controllers alone, and pki/members signs hosts, people and programs.\n\
        Each folder contains ca.pem, ca.key, revoked.pem (the revocation list), issued.txt, and for each\n\
        name NAME.pem (its certificate, then the CA's) and NAME.key. Whoever has a ca.key can pose as\n\
        everybody whom that CA signs: keep it off the network.\n\n\
        The organisation (O) in a certificate is its role: weft:controller, weft:node, weft:viewer or\n\
        weft:operator. Its common name (CN) is the name.")]
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

/// The folder of both CAs.
#[derive(Args)]
struct Dir {
    /// The folder of the CAs
    #[arg(long, value_name = "FOLDER", default_value = "pki")]
    dir: PathBuf,
}

/// Those whom one CA signs, which is also the name of its folder. Open vSwitch compares no names: it takes orders from everybody who has a
/// certificate of the CA that it trusts. So that is another one than the CA of hosts.
const CONTROLLERS: &str = "controllers";
/// See [`CONTROLLERS`].
const MEMBERS: &str = "members";

impl Dir {
    fn folder(&self, of: &str) -> Folder {
        Folder::new(self.dir.join(of))
    }

    fn open(&self, of: &str) -> Result<Store, Failure> {
        Store::open(self.folder(of), SystemTime::now())
    }

    /// The CA that has issued certificates under this name.
    fn open_of(&self, name: &Name) -> Result<Store, Failure> {
        let controllers = self.open(CONTROLLERS)?;
        if controllers.knows(name) { Ok(controllers) } else { self.open(MEMBERS) }
    }
}

/// Where a server is reached.
#[derive(Args)]
struct Addresses {
    /// An IP address or DNS name to put into the certificate; repeatable
    #[arg(long = "address", value_name = "ADDRESS")]
    addresses: Vec<Address>,
}

/// What is said of a server's certificate besides its name.
#[derive(Args)]
struct Server {
    #[command(flatten)]
    addresses: Addresses,
    #[command(flatten)]
    days: Days,
    #[command(flatten)]
    dir: Dir,
}

/// How long a certificate is valid.
#[derive(Args)]
struct Days {
    /// Days for which it is valid, at most until the CA expires
    #[arg(long, value_name = "N", default_value_t = DAYS, value_parser = days())]
    days: u32,
}

pub(crate) fn days() -> clap::builder::RangedI64ValueParser<u32> {
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
    server: Server,
}

#[derive(Args)]
#[command(
    after_help = "The name is that of the transport node. If it is a host name, the certificate contains it as one."
)]
struct Node {
    /// The id of the transport node
    name: Name,
    #[command(flatten)]
    server: Server,
}

#[derive(Args)]
#[command(
    after_help = "A viewer may see all, a tenant change what belongs to it, and an operator change all."
)]
struct Client {
    /// Whose certificate it is
    name: Name,
    #[command(flatten)]
    grant: Grant,
    #[command(flatten)]
    days: Days,
    #[command(flatten)]
    dir: Dir,
}

/// What the owner of a certificate or a token may do.
#[derive(Args)]
pub(crate) struct Grant {
    /// What the owner may do
    #[arg(long)]
    role: ClientRole,
    /// The tenant to which the owner belongs, with `--role tenant`
    #[arg(long, value_name = "TENANT", required_if_eq("role", "tenant"))]
    tenant: Option<Name>,
}

/// The roles of clients. The help has a line for all, so the members have no documentation.
#[derive(ValueEnum, Clone, Copy)]
enum ClientRole {
    Viewer,
    Tenant,
    Operator,
}

impl Grant {
    /// The role.
    pub(crate) fn role(&self) -> Result<Role, Failure> {
        match (self.role, &self.tenant) {
            (ClientRole::Tenant, Some(tenant)) => Ok(Role::Tenant(tenant.to_string())),
            (ClientRole::Tenant, None) => {
                Err(Failure::Usage("--role tenant needs --tenant TENANT".to_owned()))
            }
            (_, Some(tenant)) => Err(Failure::Usage(format!(
                "only the role tenant belongs to a tenant; use --role tenant, or leave out --tenant {tenant}"
            ))),
            (ClientRole::Viewer, None) => Ok(Role::Viewer),
            (ClientRole::Operator, None) => Ok(Role::Operator),
        }
    }
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
        let make = |of: &str| {
            let store = Store::make(self.dir.folder(of), of, self.days, SystemTime::now())?;
            let (folder, until) = (store.folder(), to_the_second(store.not_after()));
            say(format_args!("{}: the CA of {of}, valid until {until}", folder.name_of(CA)));
            say(format_args!("{}: its key; keep it where no network reaches", folder.name_of(CA_KEY)));
            Ok(store)
        };
        make(MEMBERS)?;
        let mut controllers = make(CONTROLLERS)?;
        let name = CONTROLLER.parse().map_err(Failure::Usage)?;
        controller(&mut controllers, name, self.addresses.addresses, DAYS)
    }
}

impl Controller {
    fn run(self) -> Result<(), Failure> {
        let Controller { name, server: Server { addresses: Addresses { addresses }, days, dir } } = self;
        not_in(&dir.open(MEMBERS)?, &name)?;
        controller(&mut dir.open(CONTROLLERS)?, name, addresses, days.days)
    }
}

/// Issues a certificate to a controller, which clients on its machine reach by loopback addresses.
fn controller(store: &mut Store, name: Name, addresses: Vec<Address>, days: u32) -> Result<(), Failure> {
    let loopback = ["localhost", "127.0.0.1", "::1"].into_iter().filter_map(|each| each.parse().ok());
    let addresses = addresses.into_iter().chain(loopback).collect();
    issue(store, Request { name, role: Role::Controller, addresses, days })
}

/// Checks that the other CA has not used a name: `weft pki revoke` could mean either.
fn not_in(other: &Store, name: &Name) -> Result<(), Failure> {
    if !other.knows(name) {
        return Ok(());
    }
    let other = other.folder().name();
    Err(Failure::Rejected(format!("{name} is a name in {other}; give this certificate another one")))
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
    let (role, not_after) = (role.organisation(), to_the_second(not_after));
    say(format_args!(
        "{certificate}: a certificate with role {role}, valid until {not_after}\n{key}: its key"
    ));
}

impl Node {
    fn run(self) -> Result<(), Failure> {
        let Node { name, server: Server { addresses: Addresses { addresses }, days: Days { days }, dir } } =
            self;
        not_in(&dir.open(CONTROLLERS)?, &name)?;
        let mut store = dir.open(MEMBERS)?;
        let controllers = dir.folder(CONTROLLERS);
        let host = addresses.first().map_or_else(|| name.to_string(), ToString::to_string);
        issue(&mut store, Request { name: name.clone(), role: Role::Node, addresses, days })?;
        print(&on_host(store.folder(), &controllers, &name, &host))
    }
}

/// The commands that give a host its certificate.
fn on_host(members: &Folder, controllers: &Folder, name: &Name, host: &str) -> String {
    let [certificate, key] = files(name).map(|file| members.name_of(&file));
    let mut text = copy(&[key, certificate, controllers.name_of(CA)], host);
    let _ = writeln!(
        text,
        "# On the host:\n\
         ovs-vsctl set-ssl {ON_HOST}/{name}.key {ON_HOST}/{name}.pem {ON_HOST}/{CA}\n\
         # On the host, if the controller connects to its database (`ovsdb: ssl:ADDRESS:6640` of the transport node):\n\
         ovs-vsctl set-manager pssl:6640\n\
         # On the host, if its switch dials in (no `ovsdb` and no `openflow`; `listen_ovsdb` in the configuration of the controller):\n\
         ovs-vsctl set open_vswitch . external_ids:system-id={name}\n\
         ovs-vsctl set-manager ssl:CONTROLLER:6640"
    );
    text
}

/// The command that copies files to a host.
fn copy(files: &[String], host: &str) -> String {
    let files: Vec<String> = files.iter().map(|file| quoted(file)).collect();
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
        let role = self.grant.role()?;
        not_in(&self.dir.open(CONTROLLERS)?, &self.name)?;
        let Client { name, days: Days { days }, .. } = self;
        issue(&mut self.dir.open(MEMBERS)?, Request { name, role, addresses: Vec::new(), days })
    }
}

impl Renew {
    fn run(self) -> Result<(), Failure> {
        let mut store = self.dir.open_of(&self.name)?;
        let (renewed, former) = store.renew(&self.name, self.days.days)?;
        let name = &renewed.name;
        say_issued(&store, name, &renewed.role, renewed.not_after);
        say(format_args!(
            "The former certificate stays valid until {}; `weft pki revoke {name}` would revoke both.",
            to_the_second(former)
        ));
        if renewed.role == Role::Node {
            say("Open vSwitch takes new files of the same names for new connections by itself.");
            let [certificate, key] = files(name).map(|file| store.folder().name_of(&file));
            print(&copy(&[key, certificate], &name.to_string()))?;
        }
        Ok(())
    }
}

impl Revoke {
    fn run(self) -> Result<(), Failure> {
        let mut store = self.dir.open_of(&self.name)?;
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
        let now = SystemTime::now();
        let mut listed = store::list(&self.dir.folder(CONTROLLERS), CONTROLLERS, now)?;
        listed.extend(store::list(&self.dir.folder(MEMBERS), MEMBERS, now)?);
        if self.json {
            let line = |each: &store::Listed| {
                let (expires, serial) = (to_the_second(each.not_after), each.serial.to_string());
                let object = json!({"name": each.name, "role": each.role, "serial": serial, "expires": expires,
                    "state": each.state.as_str()});
                object.to_string() + "\n"
            };
            return print_as(true, &listed.iter().map(line).collect::<String>());
        }
        let row = |each: &store::Listed| {
            let (expires, serial) = (to_the_second(each.not_after), each.serial.to_string());
            [each.name.clone(), each.role.clone(), expires, each.state.as_str().to_owned(), serial]
        };
        print(&aligned(["NAME", "ROLE", "EXPIRES", "STATE", "SERIAL"], listed.iter().map(row)))
    }
}

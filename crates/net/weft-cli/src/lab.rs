//! `weft lab`: virtual hosts with real Open vSwitch on one machine.

mod reach;

use std::fmt::Write as _;
use std::net::IpAddr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use clap::{Args, Subcommand};
use lab::{Error, Lab as Network, Link, Migration, Options, Order, PingOptions, VmSpec};
use testbed::{Settings, Testbed};
use weft_core::Rules;

use crate::exit::Failure;

/// The name of a lab, unless told otherwise, and the variable that tells.
const NAME: &str = "weft";
const NAME_VARIABLE: &str = "WEFT_LAB";

/// How long a controller has to answer before another one is started.
const ANSWER: Duration = Duration::from_secs(2);

/// Arguments of `weft lab`.
#[derive(Args)]
pub(crate) struct Lab {
    #[command(subcommand)]
    command: Command,
    /// Name of the lab
    #[arg(
        long = "lab",
        global = true,
        default_value = NAME,
        value_name = "NAME",
        env = NAME_VARIABLE,
        hide_env_values = true
    )]
    name: String,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Create a lab: hosts hv1, hv2, …, each with its own Open vSwitch
    Up {
        /// Number of hosts
        #[arg(long, default_value_t = 2)]
        hosts: u8,
        /// Physical networks, with commas; each host gets a bridge `br-NAME` on each
        #[arg(long, value_delimiter = ',', value_name = "NAME")]
        physical: Vec<String>,
        /// Folder for the databases, sockets and logs of the hosts
        #[arg(long, value_name = "FOLDER", conflicts_with = "controller")]
        run_dir: Option<PathBuf>,
        /// Also start a controller with these transport nodes, until `weft lab down`
        #[arg(long)]
        controller: bool,
    },
    /// Remove a lab and everything in it
    Down {
        /// Name of the lab [default: the value of --lab]
        #[arg(value_name = "NAME")]
        lab: Option<String>,
    },
    /// Remove every lab whose creator has died
    Sweep {
        /// First wait until process PID has ended
        #[arg(long, value_name = "PID")]
        after: Option<u32>,
    },
    /// Check whether this machine can run a lab, and how to install what is missing
    Check,
    /// List the running labs
    List,
    /// Print the hosts as transport nodes, for `weft apply -f -`
    Nodes {
        /// Encapsulations of the nodes, with commas, preferred first
        #[arg(long, value_delimiter = ',', default_value = "geneve")]
        encaps: Vec<String>,
    },
    /// List the virtual machines
    Vms,
    /// Create a virtual machine on a host, behind a trunk, or on a physical network
    Add {
        /// Name of the virtual machine
        vm: String,
        /// Host that it runs on
        #[arg(long, required_unless_present_any = ["behind", "physical"])]
        host: Option<String>,
        /// Make it a trunk: others can be attached behind it, each with a VLAN tag
        #[arg(long, requires = "host")]
        trunk: bool,
        /// Attach it behind VM, which was created with --trunk, instead of to a host
        #[arg(long, value_name = "VM", conflicts_with_all = ["host", "physical"], requires = "tag")]
        behind: Option<String>,
        /// Attach it to a physical network instead of to a host
        #[arg(long, value_name = "NAME", conflicts_with = "host")]
        physical: Option<String>,
        /// VLAN tag behind the trunk or on the physical network
        #[arg(
            long,
            default_value_if("physical", clap::builder::ArgPredicate::IsPresent, "0"),
            conflicts_with = "host"
        )]
        tag: Option<u16>,
        /// Logical port: the `external_ids:iface-id` of its interface [default: VM]
        #[arg(long)]
        port: Option<String>,
        /// MAC address of its eth0
        #[arg(long)]
        mac: String,
        /// IP addresses with prefix length, such as 10.0.0.1/24, with commas
        #[arg(long, value_delimiter = ',')]
        ip: Vec<String>,
        /// Default gateway; can be repeated
        #[arg(long)]
        gateway: Vec<IpAddr>,
    },
    /// Create the virtual machines in a lab file, such as examples/trunk.lab.yaml
    Plug {
        /// File that describes the machines
        file: PathBuf,
    },
    /// Test which machines of a lab file can reach each other, and compare with the file
    #[command(
        after_help = "If the lab of --lab is running, missing machines are created in it. Otherwise a temporary lab is\n\
                      created, with a controller and the network, and removed afterwards. The exit status is 1 if any\n\
                      pair differs from the file."
    )]
    Reach {
        /// File that describes the machines
        file: PathBuf,
    },
    /// Detach and remove a virtual machine
    Remove {
        /// Name of the virtual machine
        vm: String,
    },
    /// Move a running virtual machine to another host
    Migrate {
        /// Name of the virtual machine
        vm: String,
        /// Host to move it to
        host: String,
        /// Attach it to the new host before detaching it from the old one
        #[arg(long)]
        plug_first: bool,
    },
    /// Announce a virtual machine by RARP, as QEMU does after a migration
    Announce {
        /// Name of the virtual machine
        vm: String,
    },
    /// Ping from a virtual machine
    Ping {
        /// Virtual machine that sends
        vm: String,
        /// Address to ping
        address: IpAddr,
        /// Number of pings
        #[arg(short, long, default_value_t = 5)]
        count: u32,
        /// Interval between pings, in milliseconds
        #[arg(short, long, default_value_t = 200)]
        interval_ms: u64,
    },
    /// Run a command in a virtual machine and exit with its status
    Exec {
        /// Name of the virtual machine
        vm: String,
        /// Command and arguments
        #[arg(trailing_var_arg = true, required = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Run a command on a host: `weft lab host hv1 ovs-vsctl show`
    Host {
        /// Name of the host
        host: String,
        /// Command and arguments
        #[arg(trailing_var_arg = true, required = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}

/// Converts an error of the lab to a failure of the command.
pub(crate) fn failed(error: Error) -> Failure {
    match error {
        Error::Invalid { .. }
        | Error::Exists { .. }
        | Error::Unknown { .. }
        | Error::NoLab(_)
        | Error::InUse { .. }
        | Error::Kept(_)
        | Error::Abandoned(_) => Failure::Rejected(error.to_string()),
        _ => Failure::Outside(error.to_string()),
    }
}

impl Lab {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let open = || Network::open(&self.name).map_err(failed);
        match &self.command {
            Command::Up { hosts, physical, controller: true, .. } => {
                self.up_with_controller(*hosts, physical)
            }
            Command::Up { hosts, physical, run_dir, .. } => self.up(*hosts, physical, run_dir.clone()),
            Command::Down { lab } => {
                let name = lab.as_ref().unwrap_or(&self.name);
                if Network::destroy(name).map_err(failed)? {
                    eprintln!("lab {name} removed");
                } else {
                    eprintln!("no lab {name} to remove");
                }
                Ok(())
            }
            Command::Sweep { after } => {
                if let Some(process) = after {
                    wait_for_end(*process);
                }
                let swept = lab::sweep().map_err(failed)?;
                eprintln!("{} abandoned labs removed{}", swept.len(), list_after(&swept));
                Ok(())
            }
            Command::Check => {
                lab::preflight().map_err(|missing| Failure::Outside(missing.to_string()))?;
                eprintln!("this machine can run a lab");
                Ok(())
            }
            Command::List => self.list(),
            Command::Nodes { encaps } => self.nodes(&open()?, encaps),
            Command::Vms => self.vms(&open()?),
            Command::Add { .. } => self.add(&open()?),
            Command::Plug { file } => reach::plug(&open()?, file),
            Command::Reach { file } => reach::reach(&self.name, file, self.json),
            Command::Remove { vm } => open()?.remove_vm(vm).map_err(failed),
            Command::Migrate { vm, host, plug_first } => {
                let order = if *plug_first { Order::PlugFirst } else { Order::UnplugFirst };
                open()?.migrate_vm(vm, host, Migration { order, ..Migration::default() }).map_err(failed)?;
                eprintln!("{vm} runs on {host} now");
                Ok(())
            }
            Command::Announce { vm } => open()?.announce(vm).map_err(failed),
            Command::Ping { vm, address, count, interval_ms } => {
                self.ping(&open()?, vm, *address, *count, *interval_ms)
            }
            Command::Exec { vm, command } => {
                let (program, arguments) = command.split_first().ok_or_else(no_command)?;
                hand_over(open()?.command(vm, program).map_err(failed)?, arguments)
            }
            Command::Host { host, command } => {
                let (program, arguments) = command.split_first().ok_or_else(no_command)?;
                hand_over(open()?.host(host).map_err(failed)?.command(program), arguments)
            }
        }
    }

    fn add(&self, network: &Network) -> Result<(), Failure> {
        let Command::Add { vm, host, trunk, behind, physical, tag, port, mac, ip, gateway } = &self.command
        else {
            return Ok(());
        };
        let (port, tag) = (port.as_ref().unwrap_or(vm), tag.unwrap_or_default());
        let (mut spec, place) = match (host, behind, physical) {
            (Some(host), ..) => {
                let place = format!("on {host}, plugged in as logical port {port}");
                (VmSpec::new(vm, host, port, mac), place)
            }
            (_, Some(parent), _) => {
                (VmSpec::behind(parent, tag, vm, mac), format!("behind {parent}, in VLAN {tag}"))
            }
            (_, _, network) => {
                let network = network.as_deref().unwrap_or_default();
                (VmSpec::physical(network, tag, vm, mac), format!("on physical network {network}"))
            }
        };
        spec.trunk = *trunk;
        spec.addresses.clone_from(ip);
        spec.gateways.clone_from(gateway);
        network.add_vm(&spec).map_err(failed)?;
        eprintln!("{vm} runs {place}");
        Ok(())
    }

    fn up(&self, hosts: u8, physical: &[String], run_dir: Option<PathBuf>) -> Result<(), Failure> {
        let mut options = Options::new(&self.name).hosts(hosts);
        options.physical = physical.to_vec();
        options.run_dir = run_dir;
        let network = Network::create(options).and_then(Network::keep).map_err(failed)?;
        // Otherwise the first packet through each tunnel is lost while its neighbour is resolved.
        network.warm_underlay().map_err(failed)?;
        tell_hosts(&network)?;
        let name = &self.name;
        eprintln!(
            "lab {name} is running; `weft lab --lab {name} nodes` prints its hosts as objects, `weft lab down {name}` removes it"
        );
        Ok(())
    }

    fn up_with_controller(&self, hosts: u8, physical: &[String]) -> Result<(), Failure> {
        Network::check_free(&self.name).map_err(failed)?;
        let address = free_address()?;
        let settings = Settings {
            hosts,
            physical: physical.to_vec(),
            may_be_kept: true,
            listen: Some(address),
            ..Settings::new(&self.name, this_program()?)
        };
        let testbed = Testbed::start(settings).map_err(testbed_failed)?;
        tell_hosts(testbed.lab().map_err(testbed_failed)?)?;
        leave_running(testbed)
    }

    fn list(&self) -> Result<(), Failure> {
        let labs = lab::list().map_err(failed)?;
        if self.json {
            let value: Vec<_> = labs
                .iter()
                .map(|lab| {
                    serde_json::json!({
                        "name": lab.name, "state": format!("{:?}", lab.ownership).to_lowercase(),
                        "hosts": lab.hosts, "vms": lab.vms,
                    })
                })
                .collect();
            return print(&serde_json::Value::from(value).to_string());
        }
        for lab in labs {
            print(&format!(
                "{}\t{:?}\thosts {}\tvms {}",
                lab.name,
                lab.ownership,
                lab.hosts.join(" "),
                lab.vms.join(" ")
            ))?;
        }
        Ok(())
    }

    fn nodes(&self, network: &Network, encaps: &[String]) -> Result<(), Failure> {
        let mut text = String::new();
        let mappings = network.bridge_mappings().map_err(failed)?;
        let rules = Rules::built_in().map_err(|error| Failure::Rejected(error.to_string()))?;
        let kind = rules.host_kind().unwrap_or_default();
        for host in network.hosts().map_err(failed)? {
            if self.json {
                let mut node = serde_json::json!({
                    "kind": kind, "id": host.name, "roles": ["hypervisor"], "ip": host.ip.to_string(),
                    "encaps": encaps, "ovsdb": host.ovsdb_endpoint(), "openflow": host.openflow_endpoint(),
                });
                if !mappings.is_empty() {
                    node["bridge_mappings"] = mappings.iter().cloned().collect();
                }
                let _ = writeln!(text, "{node}");
            } else {
                let _ = writeln!(
                    text,
                    "---\nkind: {kind}\nid: {}\nroles: [hypervisor]\nip: {}\nencaps: [{}]\novsdb: {}\nopenflow: {}",
                    host.name,
                    host.ip,
                    encaps.join(", "),
                    host.ovsdb_endpoint(),
                    host.openflow_endpoint(),
                );
                if !mappings.is_empty() {
                    text.push_str("bridge_mappings:\n");
                }
                for (network, bridge) in &mappings {
                    let _ = writeln!(text, "  {network}: {bridge}");
                }
            }
        }
        print(text.trim_end())
    }

    fn vms(&self, network: &Network) -> Result<(), Failure> {
        let vms = network.vms().map_err(failed)?;
        if self.json {
            let text = serde_json::to_string(&vms)
                .map_err(|error| Failure::outside("virtual machines as JSON", error))?;
            return print(&text);
        }
        for vm in vms {
            let addresses: Vec<_> = vm.addresses.iter().map(ToString::to_string).collect();
            let place = match &vm.link {
                Link::Host => format!("{}\tport {}", vm.host, vm.iface_id),
                Link::Tag { parent, tag } => format!("{}\tbehind {parent}, VLAN {tag}", vm.host),
                Link::Physical { network, tag } => format!("{network}\tVLAN {tag}"),
            };
            print(&format!("{}\t{place}\t{}\t{}", vm.name, vm.mac, addresses.join(" ")))?;
        }
        Ok(())
    }

    fn ping(
        &self,
        network: &Network,
        vm: &str,
        to: IpAddr,
        count: u32,
        interval_ms: u64,
    ) -> Result<(), Failure> {
        let options =
            PingOptions { count, interval: Duration::from_millis(interval_ms), ..PingOptions::default() };
        let result = network.ping(vm, to, &options).map_err(failed)?;
        let mean_ms = result.rtt_mean.map(|mean| mean.as_secs_f64() * 1e3);
        if self.json {
            let value = serde_json::json!({
                "sent": result.sent, "received": result.received, "duplicates": result.duplicates,
                "rtt_mean_ms": mean_ms,
            });
            print(&value.to_string())?;
        } else {
            let mean = mean_ms.map_or(String::new(), |mean| format!(", {mean:.2} ms on average"));
            print(&format!("{} sent, {} received{mean}", result.sent, result.received))?;
        }
        if result.received == 0 { Err(Failure::Outside(format!("{vm} cannot reach {to}"))) } else { Ok(()) }
    }
}

/// The name of a lab that a command without an option for it makes.
pub(crate) fn usual_name() -> String {
    std::env::var(NAME_VARIABLE).unwrap_or_else(|_| NAME.to_owned())
}

/// Converts an error of a lab with a controller.
pub(crate) fn testbed_failed(error: anyhow::Error) -> Failure {
    match error.downcast::<Error>() {
        Ok(error) => failed(error),
        Err(error) => Failure::Outside(format!("{error:#}")),
    }
}

/// The program that the controller of a lab runs.
pub(crate) fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::outside("cannot start weft", error))
}

/// Where the controller of a lab listens.
///
/// # Errors
/// Another one listens there.
pub(crate) fn free_address() -> Result<String, Failure> {
    let address = crate::client::usual_address();
    if crate::client::ask(Some(&address), ANSWER, |client| async { Some(client) }).is_some() {
        return Err(Failure::Rejected(format!(
            "a controller listens at {address} already; stop it, or set WEFT_CONTROLLER to another address"
        )));
    }
    Ok(address)
}

/// Leaves a lab and its controller running, and says how to reach and to end them.
pub(crate) fn leave_running(testbed: Testbed) -> Result<(), Failure> {
    let (address, log) = (testbed.controller_address(), testbed.log());
    let name = testbed.lab().map_err(testbed_failed)?.name().to_owned();
    testbed.keep().map_err(testbed_failed)?;
    eprintln!("a controller with these hosts listens at {address}; its log is {}", log.display());
    if let Ok(choice) = crate::contexts::choose(None, None)
        && choice.address != address
    {
        let other = choice.address;
        eprintln!("other commands ask {other} (`weft context show`): give them --controller {address}");
    }
    eprintln!("lab {name} is running; `weft lab down {name}` ends both");
    Ok(())
}

/// Says which hosts there are.
fn tell_hosts(network: &Network) -> Result<(), Failure> {
    for host in network.hosts().map_err(failed)? {
        eprintln!("{}: tunnel address {}, {}", host.name, host.ip, host.ovsdb_endpoint());
    }
    Ok(())
}

/// Starts a process that sweeps after this process ends for any reason; for commands that run a lab.
pub(crate) fn sweep_after_this_process() -> std::io::Result<()> {
    std::process::Command::new(std::env::current_exe()?)
        .args(["lab", "sweep", "--after", &std::process::id().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // An interrupt from the terminal goes to our process group and must not end this process.
        .process_group(0)
        .spawn()
        .map(drop)
}

/// Waits until the process has ended; a zombie counts as ended.
fn wait_for_end(process: u32) {
    let alive = || {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
    };
    while alive() {
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn no_command() -> Failure {
    Failure::Usage("no command given".into())
}

/// Replaces this process by a command, whose output and exit status become ours.
fn hand_over(mut command: std::process::Command, arguments: &[String]) -> Result<(), Failure> {
    let status = command
        .args(arguments)
        .status()
        .map_err(|error| Failure::outside("cannot start the command", error))?;
    match status.code() {
        Some(0) => Ok(()),
        code => std::process::exit(code.unwrap_or(3)),
    }
}

fn list_after(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) }
}

fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write as _;
    writeln!(std::io::stdout(), "{text}").map_err(Failure::output)
}

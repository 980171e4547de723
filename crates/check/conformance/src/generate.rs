//! Random networks and their histories.

mod allowed;
mod changes;
mod conversations;
mod filtering;
mod given;
mod migrations;
mod objects;
mod others;
mod routed_traffic;
mod routing;
mod said;
mod services;
mod traffic;
mod translation;

use flow_simulator::Tunnelled;
use network_spec::{Form, World, Zone};
use test_random::Random;

use crate::world::{Change, NumberedWorld};
use conversations::Speaker;

pub use given::given_frame;
pub use simulated_hosts::Place;

/// One step of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Changes that make one transaction; changes that are invalid by then are skipped.
    Change(Vec<Change>),
    /// As [`Step::Change`], but hosts change one after another, in the order of a seed, and these frames are sent meanwhile.
    OneByOne {
        /// The changes.
        changes: Vec<Change>,
        /// The seed of the order.
        order: u64,
        /// The frames, each sent before the first host changes and after each.
        frames: Vec<(Place, Vec<u8>)>,
    },
    /// This many seconds pass.
    Wait(u64),
    /// A frame is sent, if its place exists.
    Send(Place, Vec<u8>),
    /// A frame is sent from or to a machine whose address the rules have given, the one of this seed, if there is such a machine.
    SendGiven(u64),
    /// Somebody sends a packet to the tunnel endpoint of a host, which must not accept it. A packet that the host may accept
    /// by then is not sent.
    Forge(String, Tunnelled),
}

impl Step {
    /// The changes of the world in this step, in whatever order hosts follow them.
    pub fn changes(&self) -> &[Change] {
        match self {
            Step::Change(changes) | Step::OneByOne { changes, .. } => changes,
            _ => &[],
        }
    }
}

/// The history of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Whether labels are spread over their 24 bits.
    pub scattered: bool,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// The size of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The most hosts at the start.
    pub hosts: u64,
    /// The most switches at the start.
    pub switches: u64,
    /// The most ports of a switch at the start.
    pub ports: u64,
    /// The steps after the network has been set up.
    pub steps: u64,
    /// The percentage of networks with routers.
    pub routed: u64,
    /// The percentage of networks with ACLs.
    pub filtered: u64,
    /// The percentage of those whose ports may keep connections.
    pub stateful: u64,
    /// The percentage of networks with DHCP servers and DNS zones.
    pub served: u64,
    /// The percentage of those with ports whose addresses the network chooses. Frames for them need to know what the rules have chosen.
    pub dynamic: u64,
    /// The percentage of networks with routers whose ports on physical networks have gateways.
    pub outside: u64,
    /// The percentage of those whose routers translate addresses there.
    pub translated: u64,
    /// Whether ports may be allowed addresses beside their own.
    pub shared: bool,
}

impl Size {
    /// The usual size, and all networks have routers.
    pub fn routed() -> Size {
        Size { routed: 100, ..Size::default() }
    }

    /// The usual size, and all networks have ACLs, half of them routers too.
    pub fn filtered() -> Size {
        Size { routed: 50, filtered: 100, stateful: 100, ..Size::default() }
    }

    /// The usual size, and all networks have servers, half of them routers or ACLs too.
    pub fn served() -> Size {
        Size { routed: 50, filtered: 50, stateful: 50, served: 100, ..Size::default() }
    }

    /// As [`Size::served`], and the network chooses addresses of ports.
    pub fn dynamic() -> Size {
        Size { dynamic: 100, ..Size::served() }
    }

    /// The usual size, and all networks have routers, with ports on physical networks.
    pub fn outside() -> Size {
        Size { routed: 100, outside: 100, filtered: 20, ..Size::default() }
    }

    /// As [`Size::outside`], and routers translate addresses.
    pub fn nat() -> Size {
        Size { translated: 100, filtered: 0, ..Size::outside() }
    }

    /// As [`Size::filtered`], but no port keeps connections.
    pub fn stateless() -> Size {
        Size { stateful: 0, ..Size::filtered() }
    }
}

impl Default for Size {
    /// Without routers and ACLs. Some have servers.
    fn default() -> Size {
        Size {
            hosts: 5,
            switches: 4,
            ports: 5,
            steps: 110,
            routed: 0,
            filtered: 0,
            stateful: 0,
            served: 30,
            dynamic: 0,
            outside: 0,
            translated: 0,
            shared: true,
        }
    }
}

/// Choices that hold for all objects of a history.
struct Style {
    size: Size,
    /// Whether the switches' ports have the same addresses.
    alike: bool,
    /// The percentages of ports that are secured, that take unknown addresses, and that are trunk members.
    secured: u64,
    unknown: u64,
    behind: u64,
    /// The percentages of ports that are disabled, and that request hosts.
    disabled: u64,
    requesting: u64,
    /// The percentage of switches on a physical network.
    physical: u64,
    /// The percentage of switches with limits of learning.
    limited: u64,
    /// The percentage of steps before which an address moves between learning ports, or gets a frame.
    roaming: u64,
    /// The percentage of steps before which a port migrates between hosts that it requests.
    migrating: u64,
    /// Whether all hosts prefer Geneve, so that receivers learn.
    geneve: bool,
    /// Whether everything is in one zone.
    one_zone: bool,
    /// The percentage of tunnel endpoints that are of IPv6.
    six: u64,
    /// The percentage of changes that hosts follow one after another.
    one_by_one: u64,
    /// The percentage of steps before which a port gets a limit of what it may flood, or uses it up.
    flooding: u64,
    /// Whether there are routers.
    routed: bool,
    /// Whether packets to switches that their sender's host has no port of may go over other hosts. Then all hosts have tunnels
    /// to each other: the model knows one way from host to host, and by which hosts packets go is for the rules to choose.
    relayed: bool,
    /// Whether these are tunnels of a port for each pair of hosts.
    paired: bool,
    /// The percentages of frames that are for routers, and of steps before which something about routers changes.
    to_routers: u64,
    rerouting: u64,
    /// Whether there are ACLs.
    filtered: bool,
    /// Whether their ports may keep connections.
    stateful: bool,
    /// The percentages of steps before which something about ACLs changes, and before which machines talk.
    refiltering: u64,
    talking: u64,
    /// The percentages of steps before which a port becomes another, and of conversations in the middle of which one does.
    becoming: u64,
    parting: u64,
    /// The percentages of hosts that are cordoned and of those that are drained, and of steps before which one becomes so or no longer is.
    cordoned: u64,
    maintaining: u64,
    /// Whether there are DHCP servers and DNS zones.
    served: bool,
    /// Whether the network chooses addresses of ports.
    dynamic: bool,
    /// The percentage of ports that are allowed addresses beside their own.
    allowed: u64,
    /// Whether ports of routers on physical networks have gateways.
    outside: bool,
    /// Whether routers translate addresses there.
    translated: bool,
}

struct Generator<'a> {
    random: &'a mut Random,
    /// For what concerns learning alone.
    limits: Random,
    /// For what concerns limits of floods alone.
    floods: Random,
    /// For what concerns migrations alone.
    moves: Random,
    /// For what concerns routers alone.
    routes: Random,
    /// For what concerns ACLs alone.
    acls: Random,
    /// For ports that become others alone.
    others: Random,
    /// For hosts that are cordoned or drained alone.
    upkeep: Random,
    /// For what the network says alone.
    says: Random,
    /// For DHCP servers, DNS zones and their clients alone.
    services: Random,
    /// For address translation alone.
    nats: Random,
    /// For addresses that ports share alone.
    shared: Random,
    style: Style,
    world: NumberedWorld,
    steps: Vec<Step>,
    made: u64,
}

impl Style {
    /// The same, but with tunnels between all hosts, which change together: while they do not, packets go where the relay's
    /// state sends them.
    fn with_tunnels_everywhere(self) -> Style {
        let six = if self.six > 0 { 100 } else { 0 };
        Style { one_zone: true, six, one_by_one: 0, ..self }
    }

    /// The same, with enough physical networks. Hosts change together: what they have of each other's neighbours is not said meanwhile.
    fn with_gateways(self) -> Style {
        Style { physical: 60, one_by_one: 0, migrating: 0, ..self }
    }
}

/// A random history.
pub fn history(random: &mut Random, size: Size) -> History {
    // A stream of its own, so that histories are what they were but for learning.
    let mut limits = Random::new(random.clone().below(u64::MAX));
    let mut floods = Random::new(limits.clone().below(u64::MAX));
    let mut moves = Random::new(limits.clone().below(u64::MAX) ^ 1);
    let mut routes = Random::new(limits.clone().below(u64::MAX) ^ 2);
    let mut acls = Random::new(limits.clone().below(u64::MAX) ^ 3);
    let mut others = Random::new(limits.clone().below(u64::MAX) ^ 5);
    let mut upkeep = Random::new(limits.clone().below(u64::MAX) ^ 6);
    let says = Random::new(limits.clone().below(u64::MAX) ^ 7);
    let mut services = Random::new(limits.clone().below(u64::MAX) ^ 8);
    let mut nats = Random::new(limits.clone().below(u64::MAX) ^ 0xa);
    let mut shared = Random::new(limits.clone().below(u64::MAX) ^ 0xb);
    let filtered = acls.chance(size.filtered);
    let routed = routes.chance(size.routed);
    let relayed = routed && routes.chance(35);
    let paired = relayed && Random::new(limits.clone().below(u64::MAX) ^ 4).chance(60);
    let scattered = random.chance(50);
    let served = services.chance(size.served);
    let style = Style {
        size,
        alike: random.chance(70),
        secured: *random.pick(&[20, 45, 45, 80]),
        unknown: *random.pick(&[0, 20, 20, 60]),
        behind: *random.pick(&[0, 15, 15, 40]),
        disabled: *random.pick(&[0, 0, 10, 25]),
        requesting: *random.pick(&[0, 0, 20, 50]),
        physical: *random.pick(&[0, 25, 25, 60]),
        limited: *limits.pick(&[0, 0, 40, 100]),
        roaming: *limits.pick(&[0, 0, 30, 80]),
        migrating: *moves.pick(&[0, 0, 4, 12]),
        geneve: random.chance(50),
        one_zone: random.chance(60),
        six: *random.pick(&[0, 0, 40, 100]),
        one_by_one: *random.pick(&[0, 30, 100]),
        flooding: *floods.pick(&[0, 0, 20, 60]),
        routed,
        relayed,
        paired,
        to_routers: *routes.pick(&[50, 70, 85]),
        rerouting: *routes.pick(&[0, 5, 12, 30]),
        filtered,
        stateful: acls.chance(size.stateful),
        refiltering: *acls.pick(&[1, 4, 10]),
        talking: *acls.pick(&[8, 15, 25]),
        becoming: *others.pick(&[0, 0, 3, 8]),
        parting: *others.pick(&[0, 0, 30, 60]),
        cordoned: *upkeep.pick(&[0, 0, 20, 60]),
        maintaining: *upkeep.pick(&[0, 0, 4, 12]),
        served,
        dynamic: served && size.dynamic > 0 && services.chance(size.dynamic),
        allowed: if size.shared { *shared.pick(&[0, 0, 30, 70]) } else { 0 },
        outside: Random::new(limits.clone().below(u64::MAX) ^ 9).chance(size.outside),
        translated: size.translated > 0 && nats.chance(size.translated),
    };
    let style = if style.outside { style.with_gateways() } else { style };
    let style = if relayed { style.with_tunnels_everywhere() } else { style };
    let world = NumberedWorld::new(scattered);
    let (steps, made) = (Vec::new(), 0);
    let mut generator = Generator {
        random,
        limits,
        floods,
        moves,
        routes,
        acls,
        others,
        upkeep,
        says,
        services,
        nats,
        shared,
        style,
        world,
        steps,
        made,
    };
    generator.network();
    generator.life();
    History { scattered, steps: generator.steps }
}

impl Generator<'_> {
    /// Adds a transaction of these changes.
    fn change(&mut self, changes: Vec<Change>) {
        let mut taken: Vec<Change> = Vec::new();
        for change in changes {
            // An object that is removed and added in one transaction was never removed.
            let comes_back = match &change {
                Change::Port(name, _) => taken.contains(&Change::NoPort(name.clone())),
                Change::Localnet(name, _) => taken.contains(&Change::NoLocalnet(name.clone())),
                Change::Switch(name, _) => taken.contains(&Change::NoSwitch(name.clone())),
                Change::Node(name, _) => taken.contains(&Change::NoNode(name.clone())),
                Change::Router(name, _) => taken.contains(&Change::NoRouter(name.clone())),
                Change::RouterPort(name, _) => taken.contains(&Change::NoRouterPort(name.clone())),
                Change::Dhcp(name, _) => taken.contains(&Change::NoDhcp(name.clone())),
                Change::DnsZone(name, _) => taken.contains(&Change::NoDnsZone(name.clone())),
                Change::Route(name, _) => taken.contains(&Change::NoRoute(name.clone())),
                Change::Policy(name, _) => taken.contains(&Change::NoPolicy(name.clone())),
                Change::Nat(name, _) => taken.contains(&Change::NoNat(name.clone())),
                Change::Acl(name, _) => taken.contains(&Change::NoAcl(name.clone())),
                Change::AddressGroup(name, _) => taken.contains(&Change::NoAddressGroup(name.clone())),
                Change::PortGroup(name, _) => taken.contains(&Change::NoPortGroup(name.clone())),
                _ => false,
            };
            if !comes_back && self.world.apply(&change) {
                taken.push(change);
            }
        }
        if !taken.is_empty() {
            self.steps.push(Step::Change(taken));
        }
    }

    /// The network at the start, in one transaction or several.
    fn network(&mut self) {
        let mut changes = Vec::new();
        if self.random.chance(40) {
            changes.push(self.trees());
        }
        if !self.style.one_zone || self.random.chance(30) {
            for zone in ["", "z1"] {
                changes.push(self.zone(zone));
            }
        } else if self.style.paired {
            changes.push(Change::Zone(String::new(), Zone { form: Form::Port, ..Zone::default() }));
        }
        for _ in 0..=self.random.below(self.style.size.hosts) {
            let name = self.new_name("h");
            changes.push(self.node(&name));
        }
        self.change(changes);
        let more = self.random.below(self.style.size.switches);
        for _ in 0..=more.max(if self.style.routed { 2 } else { 0 }) {
            let name = self.new_name("s");
            // Trunks cannot reach into other tenants, and most of them reach into other switches.
            let tenant = self.random.pick(&["", "", "t0", "t1"]).to_string();
            self.change(vec![Change::Switch(name.clone(), tenant)]);
            if self.random.chance(self.style.physical) {
                let localnet = self.localnet(&name);
                self.change(localnet);
            }
            if self.limits.chance(self.style.limited) {
                let learning = self.learning(&name);
                self.change(vec![learning]);
            }
            let more = self.random.below(self.style.size.ports);
            for _ in 0..=more.max(u64::from(self.style.routed)) {
                let (port, made) = self.new_port(&name);
                let host = self.some_host();
                let plug = host.filter(|_| self.random.chance(90)).map(|host| Change::Plug(host, port));
                self.change(made.into_iter().chain(plug).collect());
            }
        }
        self.routers();
        if self.style.translated {
            self.nats();
        }
        self.advertise();
        self.filters();
        self.serve();
        // Sometimes one transaction for everything instead of one for each object.
        if self.random.chance(30) {
            let all = self.steps.drain(..).flat_map(|step| match step {
                Step::Change(changes) => changes,
                Step::OneByOne { .. }
                | Step::Wait(_)
                | Step::Send(..)
                | Step::SendGiven(_)
                | Step::Forge(..) => Vec::new(),
            });
            let all = all.collect();
            self.steps.push(Step::Change(all));
        }
    }

    fn life(&mut self) {
        let changing = *self.random.pick(&[4, 12, 30]);
        for _ in 0..self.style.size.steps {
            if self.limits.chance(self.style.limited / 20)
                && let Some(name) = self.some_limited()
            {
                let learning = self.learning(&name);
                self.change(vec![learning]);
            }
            if self.floods.chance(self.style.flooding) {
                self.limit_floods();
            }
            if self.limits.chance(self.style.roaming) {
                self.roam();
            }
            if self.moves.chance(self.style.migrating) {
                self.migrate();
            }
            if self.others.chance(self.style.becoming) {
                self.become_other();
            }
            if self.upkeep.chance(self.style.maintaining) {
                self.maintain();
            }
            if self.style.routed && self.routes.chance(self.style.rerouting) {
                let changes = self.some_routing();
                let one_by_one = self.routes.chance(self.style.one_by_one);
                if one_by_one { self.one_by_one(changes) } else { self.change(changes) }
            }
            if self.style.filtered {
                self.filter();
            }
            if self.style.translated {
                if self.nats.chance(3) {
                    let changes = self.some_nat();
                    self.change(changes);
                }
                if self.nats.chance(40) {
                    self.translate();
                }
            }
            if self.style.routed {
                self.solicit();
            }
            if self.style.served {
                self.ask();
            }
            match self.random.below(100) {
                0..3 => {
                    let seconds = *self.random.pick(&[1, 60, 150, 299, 300, 301, 1000]);
                    self.steps.push(Step::Wait(seconds));
                }
                other if other < 3 + changing => {
                    let mut changes = Vec::new();
                    for _ in 0..*self.random.pick(&[1, 1, 1, 2, 4]) {
                        changes.extend(self.some_change());
                    }
                    if self.floods.chance(self.style.flooding) {
                        changes.extend(self.flood_limit());
                    }
                    if self.random.chance(self.style.one_by_one) {
                        self.one_by_one(changes);
                    } else {
                        self.change(changes);
                    }
                }
                _ if self.random.chance(6) => self.forge(),
                _ => self.send(),
            }
        }
    }

    /// Something about ACLs changes, or machines talk.
    fn filter(&mut self) {
        if self.acls.chance(self.style.refiltering) {
            let changes = self.some_filtering();
            let one_by_one = self.acls.chance(self.style.one_by_one);
            if one_by_one { self.one_by_one(changes) } else { self.change(changes) }
        }
        if self.acls.chance(self.style.talking) {
            self.converse();
        }
    }

    /// A switch, for other limits.
    fn some_limited(&mut self) -> Option<String> {
        let switches: Vec<&String> = self.world.switches.keys().collect();
        (!switches.is_empty()).then(|| (*self.limits.pick(&switches)).clone())
    }

    /// Adds a transaction that hosts follow one after another. Frames that make sense before it, and such that do
    /// afterwards, are sent meanwhile.
    fn one_by_one(&mut self, changes: Vec<Change>) {
        if self.style.outside {
            return self.change(changes);
        }
        let order = self.random.below(1 << 32);
        let mut frames: Vec<_> = (0..3).filter_map(|_| self.some_frame()).collect();
        let before = self.steps.len();
        self.change(changes);
        frames.extend((0..3).filter_map(|_| self.some_frame()));
        // Changes that are all invalid add no step.
        if self.steps.len() > before
            && let Some(Step::Change(changes)) = self.steps.pop()
        {
            self.steps.push(Step::OneByOne { changes, order, frames });
        }
    }

    fn new_name(&mut self, kind: &str) -> String {
        self.made += 1;
        format!("{kind}{}", self.made)
    }

    fn some_host(&mut self) -> Option<String> {
        self.some(|world| world.nodes.keys().cloned().collect())
    }

    /// A random element of the world, if there is one.
    fn some<T: Clone>(&mut self, of: impl Fn(&World) -> Vec<T>) -> Option<T> {
        let all = of(&self.world);
        (!all.is_empty()).then(|| self.random.pick(&all).clone())
    }
}

//! Each sentence of the specification, with the smallest world that shows it.

mod acl_states;
mod acl_tracking;
mod acls;
mod advertisements;
mod cordoned;
mod disabled;
mod exemptions;
mod flood_limits;
mod floods;
mod frames;
mod guard;
mod learning;
mod localnet;
mod messages;
mod migrations;
mod neighbours;
mod prefixes;
mod problems;
mod requested_hosts;
mod routers;
mod security;
mod switching;
mod transitions;
mod trunk;
mod tunnels;
mod worlds;

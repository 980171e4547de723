//! Each sentence of the specification, with the smallest world that shows it.

mod frames;
mod learning;
mod localnet;
mod neighbours;
mod security;
mod switching;
mod trunk;
mod tunnels;
mod worlds;

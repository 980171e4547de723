//! Agreement with the installed Open vSwitch: its printer, its parser, and a live switch.

mod literal;
mod live;
mod ofctl;
mod printing;
mod random;
mod spelling;

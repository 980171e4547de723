mod delta;
mod groups;
mod index;
mod inputs;
mod pipeline;
mod relation;
mod trace;

//! Builds the crate again when a file of the rules is new: it embeds them, and the macro that does sees only those that were there.

fn main() {
    println!("cargo::rerun-if-changed=../../../rules");
}

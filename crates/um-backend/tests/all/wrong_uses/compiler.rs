//! Wrong uses that do not compile; `cuda-um-compile-fail` compares these texts with the compiler's.

use crate::wrong_uses::page::{Row, check};

macro_rules! text {
    ($name:literal) => {
        include_str!(concat!(
            "../../../../cuda-um/tests/compile_fail/",
            $name,
            ".stderr"
        ))
    };
}

/// The first line, and the library's first note if there is one.
fn message(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    let notes = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("= note: "));
    let mut own = notes.filter(|note| note.contains('`') && !note.starts_with("required"));
    match own.next() {
        Some(note) if first.contains("E0277") => format!("{first}: {note}"),
        _ => first.to_owned(),
    }
}

#[test]
fn the_compiler() {
    let rows = [
        (
            "a host guard that lives during a launch that writes the buffer",
            text!("guard_across_launch"),
        ),
        ("… or during a `fill`", text!("guard_across_fill")),
        (
            "a slice that outlives its guard",
            text!("slice_outlives_guard"),
        ),
        (
            "a guard that outlives its buffer",
            text!("guard_outlives_buffer"),
        ),
        (
            "a guard that is sent to another thread, or held across an `await` of a spawned future",
            text!("guard_sent"),
        ),
        (
            "one buffer twice in a launch, once to write",
            text!("read_and_write_argument"),
        ),
        (
            "two mutable views of one buffer, in place of `split_at`",
            text!("two_mutable_views"),
        ),
        (
            "`bool` as an element of a `cuda_um` buffer",
            text!("element_bool"),
        ),
        ("an element type with padding", text!("element_padding")),
        (
            "an own struct as an argument, in place of `ByValue`",
            text!("argument_of_no_kind"),
        ),
        ("a `View` as the target of a copy", text!("view_as_target")),
        (
            "a `&mut View` as an argument that is written",
            text!("view_as_write_argument"),
        ),
        ("a launch without `unsafe`", text!("launch_without_unsafe")),
    ]
    .map(|(wrong, text)| Row::new(wrong, message(text)));
    check("The compiler", &rows);
}

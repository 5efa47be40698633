//! Borrows that would become longer, and types of elements that would change behind a view that writes.

use cuda_um::{HostMut, HostRef, RegisteredBuffer, View, ViewMut, buffer::{InPlace, Slots}, kernel::Arguments};

type Few<'a> = &'a u8;

fn view<'short, 'long: 'short>(view: View<'short, u8>) -> View<'long, u8> {
    view
}

fn view_mut<'short, 'long: 'short>(view: ViewMut<'short, u8>) -> ViewMut<'long, u8> {
    view
}

fn host_ref<'short, 'long: 'short>(guard: HostRef<'short, u8>) -> HostRef<'long, u8> {
    guard
}

fn host_mut<'short, 'long: 'short>(guard: HostMut<'short, u8>) -> HostMut<'long, u8> {
    guard
}

fn in_place<'short, 'long: 'short>(elements: InPlace<'short, u8>) -> InPlace<'long, u8> {
    elements
}

fn arguments<'short, 'long: 'short>(list: Arguments<'short>) -> Arguments<'long> {
    list
}

fn lent_arguments<'a, 'short, 'long: 'short>(
    list: &'a mut Arguments<'long>,
) -> &'a mut Arguments<'short> {
    list
}

fn elements<'a, 'short, 'long: 'short>(
    view: ViewMut<'a, Few<'long>>,
) -> ViewMut<'a, Few<'short>> {
    view
}

fn elements_of_host<'a, 'short, 'long: 'short>(
    guard: HostMut<'a, Few<'long>>,
) -> HostMut<'a, Few<'short>> {
    guard
}

fn shorter_scope<'short, 'long: 'short>(
    buffer: RegisteredBuffer<'long, u8>,
) -> RegisteredBuffer<'short, u8> {
    buffer
}

fn shorter_slots<'short, 'long: 'short>(slots: Slots<'long, u8>) -> Slots<'short, u8> {
    slots
}

fn main() {}

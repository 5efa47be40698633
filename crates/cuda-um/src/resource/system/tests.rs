//! Memory of the operating system.

use super::*;

/// Also under Miri: the memory is valid for all of its bytes, aligned and zero, and is freed by what holds it.
#[test]
fn memory_has_zeros_that_can_be_written() {
    for (bytes, own_pages, align) in [
        (1, false, 256),
        (1000, false, 256),
        (1000, true, 4096),
        (OWN_PAGES_FROM, false, 4096),
        ((2 << 20) + 1, false, 2 << 20),
    ] {
        let (start, held) = zeros(bytes, own_pages).unwrap();
        assert!(start.addr().get().is_multiple_of(align), "{bytes}");
        // SAFETY: the memory is valid for its bytes, initialised, and used by nothing else.
        let memory = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) };
        assert_eq!((memory[0], memory[bytes - 1]), (0, 0));
        (memory[0], memory[bytes - 1]) = (1, 2);
        drop(held);
    }
    let too_large = zeros(usize::MAX / 2, false).err();
    assert!(too_large.is_some_and(|error| error.is_out_of_memory()));
}

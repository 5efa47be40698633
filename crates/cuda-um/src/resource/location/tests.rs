//! The location word after each change of it.

use super::*;

const GPU: Location = Location::Device(0);
const OTHER: Location = Location::Device(1);
const ALL: (bool, bool, bool) = (true, true, true);
const PART: (bool, bool, bool) = (false, true, true);

type Change = fn(&Whereabouts);

fn moves(pages: &Whereabouts, to: Location, how: (bool, bool, bool)) {
    pages.moved(pages.before(), to, how);
}

/// A change, the place after it, and whether the pages are away.
macro_rules! changes {
    ($($what:literal => $change:expr, $place:expr, $is_away:expr;)*) => {
        [$(($what, $change as Change, $place, $is_away)),*]
    };
}

#[test]
fn what_was_moved_is_there_until_something_else_may_have_moved_it() {
    let rows = changes! {
        "a move" => |_| {}, Some(GPU), false;
        "a read there" => |it| it.touched(GPU, Access::Read), Some(GPU), false;
        "a write there" => |it| it.touched(GPU, Access::Write), Some(GPU), false;
        "a read elsewhere" => |it| it.touched(OTHER, Access::Read), None, true;
        "a write elsewhere" => |it| it.touched(Location::Host, Access::Write), None, true;
        "something unknown" => Whereabouts::lost, None, true;
        "a part there" => |it| moves(it, GPU, PART), Some(GPU), false;
        "a part elsewhere" => |it| moves(it, Location::Host, PART), None, true;
        "a shared block" => |it| moves(it, GPU, (true, false, true)), None, false;
        "a read may come after it" => |it| moves(it, GPU, (true, true, false)), None, true;
        "a NUMA node" => |it| moves(it, Location::HostNuma(0), ALL), None, true;
        "a launch came between" => |it| {
            let before = it.before();
            it.touched(OTHER, Access::Write);
            it.moved(before, GPU, ALL);
        }, None, true;
    };
    for (what, change, place, is_away) in rows {
        let pages = Whereabouts::new(GPU, true);
        moves(&pages, GPU, ALL);
        change(&pages);
        let found = (pages.place(), pages.is_away(), pages.is_at(GPU));
        assert_eq!(found, (place, is_away, place == Some(GPU)), "{what}");
    }
    assert!(!owns_blocks(&(BLOCK..BLOCK + 5), BLOCK + 5));
    assert!(owns_blocks(&(BLOCK..BLOCK + 5), 2 * BLOCK));
    assert!(!owns_blocks(&(BLOCK + 5..2 * BLOCK), 2 * BLOCK));
}

#[test]
fn a_live_guard_may_take_pages_back_unless_they_are_read_mostly() {
    let pages = Whereabouts::new(GPU, true);
    pages.held(Access::Read);
    moves(&pages, GPU, ALL);
    assert!(!pages.is_at(GPU) && pages.pages().are_held);
    pages.set_read_mostly(true);
    moves(&pages, GPU, ALL);
    pages.touched(Location::Host, Access::Read);
    pages.let_go();
    assert!(pages.is_at(GPU) && !pages.pages().are_held);
    pages.set_read_mostly(false);
    assert_eq!((pages.place(), pages.is_away()), (None, true));
}

#[test]
fn advice_for_the_whole_buffer_ends_earlier_advice() {
    let pages = Whereabouts::new(GPU, true);
    let set = Advice::SetAccessedBy(GPU);
    let unset = Advice::UnsetAccessedBy(GPU);
    for (advice, is_whole, is_left) in [
        (set, false, true),
        (unset, false, true),
        (unset, true, false),
        (Advice::SetReadMostly, true, true),
        (unset, true, true),
    ] {
        pages.advised(advice, is_whole);
        assert_eq!(pages.is_left_to_program(), is_left, "{advice:?}");
    }
}

use super::*;

/// Pushes an event that uses one buffer; returns the period.
fn push(sequence: &mut Sequence, key: u64, since: u64, missing: u64) -> Option<usize> {
    let used = Use {
        since,
        place: Place::Device(0),
        writes: false,
        bytes: 4096,
        missing,
        is_partial: false,
        same_range: true,
        may_advise: false,
    };
    sequence.push((key, Duration::ZERO, false), smallvec::smallvec![used]);
    sequence.period(0)
}

#[test]
fn a_period_is_found_at_the_end_of_its_second_round() {
    let mut sequence = Sequence::default();
    assert_eq!(push(&mut sequence, 9, 0, 0), None, "a prefix");
    for round in 0..2 {
        for key in 0..3 {
            let found = push(&mut sequence, key, if round == 0 { 0 } else { 3 }, 1);
            assert_eq!(found, (round == 1 && key == 2).then_some(3));
        }
    }
    // Any rotation of it has the same period, until another event comes.
    assert_eq!(push(&mut sequence, 0, 3, 1), Some(3));
    assert_eq!(push(&mut sequence, 7, 3, 1), None);
}

#[test]
fn a_period_in_which_nothing_is_elsewhere_is_none() {
    let mut sequence = Sequence::default();
    for _ in 0..10 {
        assert_eq!(push(&mut sequence, 1, 1, 0), None);
    }
    assert_eq!(push(&mut sequence, 2, 1, 1), None);
    for _ in 0..10 {
        assert_eq!(push(&mut sequence, 1, 1, 0), None);
    }
    assert_eq!(
        push(&mut sequence, 2, 1, 1),
        Some(11),
        "the longer loop has a gain"
    );
}

#[test]
fn another_buffer_is_another_event() {
    let mut sequence = Sequence::default();
    push(&mut sequence, 1, 0, 1);
    push(&mut sequence, 2, 1, 1);
    push(&mut sequence, 1, 0, 1);
    assert_eq!(
        push(&mut sequence, 2, 0, 1),
        None,
        "the buffer is not the one of event 1"
    );
    push(&mut sequence, 1, 0, 1);
    assert_eq!(push(&mut sequence, 2, 0, 1), Some(2));
}

#[test]
fn old_events_are_forgotten() {
    let mut sequence = Sequence::default();
    for at in 0..5 * LONGEST as u64 {
        push(&mut sequence, at, 0, 1);
    }
    assert!(sequence.events.len() <= 2 * LONGEST + 1);
    assert!(sequence.last.len() <= 2 * LONGEST + 1);
    assert_eq!(sequence.next(), 5 * LONGEST as u64);
}

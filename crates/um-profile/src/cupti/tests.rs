use super::*;

#[test]
fn returned_buffers_are_kept_for_the_next_request() {
    let mut buffers = Buffers {
        most: 2,
        ..Buffers::default()
    };
    let (first, second) = (buffers.give(), buffers.give());
    assert!(!first.is_null() && !second.is_null() && first != second);
    assert!(buffers.give().is_null(), "above the limit");
    buffers.take_back(first);
    assert_eq!(buffers.spare, [Returned(first)]);
    assert_eq!(buffers.give(), first);
    assert!(buffers.spare.is_empty());
}

use super::*;

#[test]
fn ranges_are_counted_and_set() {
    let mut pieces = Pieces::new(100, Place::Host);
    let device = Place::Device(0);
    assert_eq!(pieces.missing(&(0..100), device), 100);
    pieces.set(&(20..50), At::Only(device));
    assert_eq!(pieces.missing(&(0..100), device), 70);
    assert_eq!(pieces.missing(&(0..100), Place::Host), 30);
    assert_eq!(pieces.missing(&(10..30), device), 10);
    pieces.set(&(50..100), At::Both);
    assert_eq!(pieces.missing(&(0..100), device), 20);
    assert_eq!(pieces.missing(&(0..100), Place::Host), 30);
    pieces.set(&(0..100), At::Only(Place::Host));
    assert_eq!(pieces, Pieces::new(100, Place::Host));
}

#[test]
fn many_pieces_become_one() {
    let mut pieces = Pieces::new(1000, Place::Host);
    for at in 0..MOST + 1 {
        pieces.set(&(10 * at..10 * at + 5), At::Only(Place::Device(0)));
    }
    assert!(pieces.0.len() <= MOST);
    assert_eq!(pieces.0.last().map(|(end, _)| *end), Some(1000));
}

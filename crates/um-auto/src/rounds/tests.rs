use super::*;

/// Runs rounds: each takes the time that the closure returns for a round with the plan (true) or without.
fn run(without: u64, count: usize, time: impl Fn(bool) -> u64) -> (Rounds, Verdict, usize) {
    let us = Duration::from_micros;
    let mut now = us(1000);
    let mut rounds = Rounds::new(us(without), now);
    for at in 0..count {
        now += us(time(!rounds.is_paused()));
        match rounds.ended(now) {
            Verdict::Continue => {}
            slower @ Verdict::Slower { .. } => return (rounds, slower, at),
        }
    }
    (rounds, Verdict::Continue, count)
}

#[test]
fn a_faster_plan_never_pauses() {
    let (rounds, verdict, _) = run(100, 1000, |with| if with { 101 } else { panic!("a pause") });
    assert_eq!(verdict, Verdict::Continue, "1 % is allowed");
    assert_eq!(
        rounds.medians(),
        (Some(Duration::from_micros(101)), Duration::from_micros(100))
    );
}

#[test]
fn a_slower_plan_ends_after_a_few_rounds() {
    let (_, verdict, at) = run(100, 1000, |with| if with { 102 } else { 100 });
    let us = Duration::from_micros;
    assert_eq!(
        verdict,
        Verdict::Slower {
            with: us(102),
            without: us(100)
        }
    );
    assert!(at < 10, "{at}");
}

#[test]
fn a_round_that_was_fast_by_chance_does_not_end_the_plan() {
    let (rounds, verdict, _) = run(50, 1000, |with| if with { 100 } else { 200 });
    assert_eq!(verdict, Verdict::Continue);
    assert_eq!(rounds.medians().1, Duration::from_micros(200));
}

//! The team at work: every item once, every barrier held, every panic heard.

use super::*;
use std::sync::atomic::AtomicU64;

fn team(threads: usize) -> Team {
    Team::new(NonZeroUsize::new(threads).expect("a test asks for at least one worker"))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    panic.downcast_ref::<&str>().copied().unwrap_or("another payload")
}

#[test]
fn every_item_is_done_exactly_once_in_every_round() {
    for threads in [1, 2, 5, 8] {
        let team = team(threads);
        assert_eq!(team.size(), threads);
        let done: Vec<AtomicUsize> = (0..23).map(|_| AtomicUsize::new(0)).collect();
        for round in 0..40 {
            team.run(&|worker| {
                for step in 0..50 {
                    let items = step % done.len();
                    worker.share(items, |item| _ = done[item].fetch_add(1, Relaxed));
                    worker.share(0, |_| unreachable!("no items"));
                    worker.share(done.len() - items, |item| _ = done[items + item].fetch_add(1, Relaxed));
                    worker.barrier();
                    let expected = round * 50 + step + 1;
                    assert!(done.iter().all(|n| n.load(Relaxed) == expected), "{threads} workers");
                    worker.barrier();
                }
            });
        }
    }
}

#[test]
fn shares_may_follow_each_other_without_a_barrier() {
    for threads in [1, 2, 5] {
        let team = team(threads);
        let sum = AtomicU64::new(0);
        team.run(&|worker| {
            for share in 0..2000 {
                worker.share(share % 7, |item| _ = sum.fetch_add(item as u64 + 1, Relaxed));
            }
        });
        let expected: u64 = (0..2000).map(|share| share % 7).map(|n| n * (n + 1) / 2).sum();
        assert_eq!(sum.into_inner(), expected, "{threads} workers");
    }
}

#[test]
fn items_shared_by_owner_are_done_once_by_their_owner_or_another() {
    for threads in [1, 2, 5] {
        let team = team(threads);
        let done: Vec<Vec<AtomicUsize>> =
            (0..threads).map(|_| (0..9).map(|_| AtomicUsize::new(0)).collect()).collect();
        let begun: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
        for round in 0..40 {
            team.run(&|worker| {
                for step in 0..50 {
                    let each = (step + round) % 10;
                    if step % threads == worker.index {
                        (0..500).for_each(|_| spin_loop()); // others do its items
                    }
                    worker.share(3, |_| {});
                    worker.share_by_owner(each, |owner, item| _ = done[owner][item].fetch_add(1, Relaxed));
                    // Another may follow without a barrier.
                    worker.share_by_owner(1, |owner, _| _ = begun[owner].fetch_add(1, Relaxed));
                    worker.barrier();
                    for all in &done {
                        assert!(all[..each].iter().all(|n| n.load(Relaxed) == 1), "{threads} workers");
                        assert!(all[each..].iter().all(|n| n.load(Relaxed) == 0), "{threads} workers");
                    }
                    worker.barrier();
                    if worker.index == 0 {
                        done.iter().flatten().for_each(|n| n.store(0, Relaxed));
                    }
                    worker.barrier();
                }
            });
        }
        assert!(begun.iter().all(|n| n.load(Relaxed) == 40 * 50), "{threads} workers");
    }
}

#[test]
fn an_item_begins_when_the_one_so_far_before_it_is_done() {
    for (threads, lag) in [(1, 1), (2, 1), (2, 3), (5, 1), (5, 4), (8, 20)] {
        let team = team(threads);
        let done: Vec<AtomicUsize> = (0..12 * lag).map(|_| AtomicUsize::new(0)).collect();
        for round in 1..60 {
            team.run(&|worker| {
                worker.share(worker.count, |_| {});
                for time in [2 * round - 1, 2 * round] {
                    worker.share_behind(done.len(), lag, |item| {
                        for before in (0..=item).rev().step_by(lag).skip(1) {
                            assert_eq!(done[before].load(Relaxed), time, "{before} before {item}");
                        }
                        // Some take longer than others.
                        (0..item % 7 * 20).for_each(|_| spin_loop());
                        done[item].store(time, Relaxed);
                    });
                    worker.barrier();
                }
            });
        }
    }
}

#[test]
fn a_worker_that_waits_for_one_that_panicked_is_stopped() {
    let team = team(3);
    for _ in 0..50 {
        let run = || team.run(&|worker| worker.share_behind(30, 1, |item| assert!(item != 7, "seven")));
        let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("item 7 panics");
        assert_eq!(message(&*panic), "seven");
    }
}

#[test]
fn a_worker_alone_does_everything_and_leaves_the_shares_of_the_team_as_they_were() {
    for threads in [1, 2, 5] {
        let team = team(threads);
        let (done, alone) = (AtomicUsize::new(0), AtomicUsize::new(0));
        team.run(&|worker| {
            for _ in 0..100 {
                worker.share(7, |_| _ = done.fetch_add(1, Relaxed));
                if worker.index == 0 {
                    let worker = worker.alone();
                    worker.share(3, |_| _ = alone.fetch_add(1, Relaxed));
                    worker.barrier();
                }
                worker.barrier();
            }
        });
        team.run_alone(|worker| {
            worker.share(5, |_| _ = alone.fetch_add(1, Relaxed));
            worker.barrier();
        });
        assert_eq!((done.into_inner(), alone.into_inner()), (700, 305), "{threads} workers");
    }
}

#[test]
fn what_is_written_before_a_barrier_is_read_after_it() {
    for threads in [2, 5] {
        let team = team(threads);
        let slots: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
        team.run(&|worker| {
            for step in 1..2000 {
                if step % 200 == worker.index {
                    thread::sleep(Duration::from_millis(1)); // the others park
                }
                slots[worker.index].store(step, Relaxed);
                worker.barrier();
                assert_eq!(slots[(worker.index + 1) % worker.count].load(Relaxed), step);
                worker.barrier();
            }
        });
    }
}

#[test]
fn a_panic_in_any_worker_frees_the_others_and_reaches_the_caller() {
    for threads in [1, 2, 5] {
        let team = team(threads);
        for guilty in 0..threads {
            for step in [0, 1, 7] {
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    team.run(&|worker| {
                        for now in 0..20 {
                            // No message on standard error: this panic is meant.
                            if worker.index == guilty && now == step {
                                resume_unwind(Box::new("lost a tile"));
                            }
                            worker.barrier();
                        }
                    });
                }));
                assert_eq!(message(&*caught.expect_err("the panic arrives")), "lost a tile");
                let alive = AtomicUsize::new(0);
                team.run(&|worker| {
                    worker.barrier();
                    worker.share(100, |_| _ = alive.fetch_add(1, Relaxed));
                    worker.barrier();
                    assert_eq!(alive.load(Relaxed), 100);
                });
            }
        }
    }
}

#[test]
fn when_all_workers_panic_one_payload_arrives() {
    let team = team(5);
    for _ in 0..100 {
        let run = || team.run(&|_| resume_unwind(Box::new("all of us")));
        let caught = catch_unwind(AssertUnwindSafe(run));
        assert_eq!(message(&*caught.expect_err("the panic arrives")), "all of us");
    }
    team.run(&|worker| worker.barrier());
}

#[test]
fn callers_on_several_threads_take_turns() {
    let team = team(3);
    let inside = AtomicUsize::new(0);
    let runs = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    team.run(&|worker| {
                        inside.fetch_add(1, Relaxed);
                        worker.barrier();
                        assert_eq!(inside.load(Relaxed), 3);
                        worker.barrier();
                        inside.fetch_sub(1, Relaxed);
                        worker.share(1, |_| _ = runs.fetch_add(1, Relaxed));
                    });
                }
            });
        }
    });
    assert_eq!(runs.into_inner(), 800);
}

#[test]
fn a_team_can_be_dropped_while_it_sleeps_spins_or_before_it_ever_ran() {
    for pause in [Duration::ZERO, Duration::from_micros(20), Duration::from_millis(5)] {
        for threads in [1, 2, 5] {
            drop(team(threads));
            let team = team(threads);
            team.run(&|worker| worker.barrier());
            thread::sleep(pause);
            team.run(&|worker| worker.barrier());
            thread::sleep(pause);
        }
    }
}

//! Scenarios: every requirement of the core as a small script in `tests/scenarios/`, named by its id.
//!
//! How a script reads is in `scenario/mod.rs`. After each event the harness also checks what always holds:
//! reservations add up, reasons are there, a replay decides the same, nothing passes a stopped agent or a shut
//! gate, no timer spins.

mod scenario;

use std::collections::BTreeSet;

use scenario::{Failure, check, check_chaos};

macro_rules! scenarios {
    ($($name:ident)*) => {
        const LISTED: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() -> Result<(), Failure> {
                check(stringify!($name), include_str!(concat!("scenarios/", stringify!($name), ".txt")))
            }
        )*
    };
}

scenarios! {
    cb_2_a_breaker_in_shadow_says_that_it_would_have_stopped
    cb_6_the_sentences_of_seed_3
    cb_6_the_third_request_used_up_escalates_at_once
    ld_1_both_scores_are_in_the_evidence
    ld_1_both_scores_where_progress_decides
    ld_3_a_block_and_an_unbroken_row_have_evidence
    ld_3_the_evidence_is_what_matched
    ld_6d_churn_names_its_tool
    tw_5_a_pause_and_a_stop_say_what_took_the_health
    po_2_a_stream_that_was_given_up_is_cut_and_booked
    cb_3_a_call_seen_by_answer_and_hook_counts_once_before_it_is_judged
    cb_4_a_test_run_seen_by_answer_and_hook_is_one_iteration
    cb_5_a_shadow_trip_does_not_switch_off_another_limit
    id_7_an_implicit_run_that_is_done_makes_room
    po_4_health_in_shadow_does_not_tighten_the_gate
    ld_6_exempt_tools_and_batch_jobs_are_not_looping
    po_2_the_fleet_cuts_a_stream
    cb_6_an_escalated_run_s_stream_is_cut
    cb_2_every_call_of_one_answer_counts
    po_4_two_conversations_in_shadow_tell_once_each
    ld_6_each_rule_has_its_own_switch
    fp_1_numbers_dates_ids_case_and_space_do_not_make_another_prompt
    fp_1_words_that_look_like_ids_stay_words
    fp_2_other_texts_are_not_similar
    fp_3_empty_text_is_similar_to_nothing
    fp_3_restart_of_one_prompt_with_tool_results_counts_as_asks
    fp_3_tool_results_continue_a_prompt
    fp_4_a_call_serves_its_ask
    fp_4_a_result_that_changes_is_progress
    fp_4_arguments_count_by_value
    fp_5_answers_count_by_their_text
    fp_6_a_restarted_task_shares_its_conversation
    fp_6_parallel_conversations_do_not_hide_a_loop
    fp_6_parallel_conversations_do_not_make_a_loop

    ld_1_a_score_equal_to_the_threshold_passes
    ld_1_a_retry_is_the_newest_request_again_and_nothing_else
    ld_1_retries_do_not_push_out_what_was_answered
    ld_1_retries_of_what_the_provider_failed_are_no_loop
    ld_1_score_must_exceed_ten
    ld_1_scores_add_up
    ld_1_the_same_remark_before_each_call_counts_as_an_answer
    ld_2_off_never_blocks_and_still_shows_the_score
    ld_2_shadow_never_blocks_but_shows_the_score
    ld_3_a_trip_stops_the_agent
    ld_4_a_late_answer_does_not_reach_into_the_new_window
    ld_4_a_stopped_agent_is_not_deactivated_twice
    ld_4_activation_clears_the_window_and_is_live_at_once
    ld_4_activation_of_an_active_agent_changes_nothing
    ld_4_an_answer_is_stored_with_its_request
    ld_4_calls_beyond_the_window_are_forgotten
    ld_4_who_deactivated_is_kept
    ld_4_window_is_first_in_first_out
    ld_9_an_agent_is_told_before_it_is_stopped
    ld_9_can_be_switched_off
    ld_6_batch_profile_asks_the_same_of_many_items
    ld_6_exempt_tools_do_not_count
    ld_6_for_agents_that_act_in_text_the_code_block_is_the_action
    ld_6_hooks_alone_find_a_loop_too
    ld_6_a_loop_at_the_mcp_gate_alone_is_found
    ld_6_who_acts_on_failed_answers_still_loops
    ld_6_without_the_batch_profile_the_twelfth_item_trips
    ld_6a_a_block_of_three_four_times
    ld_6a_a_text_agent_is_stopped_by_its_fifth_result
    ld_6a_a_text_agent_that_tries_something_else_goes_on
    ld_6a_another_result_breaks_the_row
    ld_6a_same_action_and_result_five_times
    ld_6a_several_results_in_one_request_count_one_by_one
    ld_6b_a_new_ask_starts_anew
    ld_6b_a_new_ask_starts_anew_with_hooks_too
    ld_6b_six_times_within_twenty_steps
    ld_6c_another_call_breaks_the_run
    ld_6c_twenty_identical_calls_without_a_break
    ld_6d_a_success_or_another_failure_ends_the_churn
    ld_6d_has_its_own_switch
    ld_6d_same_failure_with_changing_arguments
    ld_6e_a_chant_after_the_stop_is_no_second_stop
    ld_6e_a_chant_in_shadow_is_only_told
    ld_6e_a_chant_is_cut_and_the_retry_refused

    cb_1_a_time_limit_of_one_run_trips_by_timer
    cb_1_limits_belong_to_a_run
    cb_1_limits_of_one_run_alone
    cb_1_off_is_no_limit
    cb_2_a_limit_of_one_denies_the_first
    cb_2_every_limit_near_is_in_the_warning
    cb_2_limit_is_never_hidden_by_a_warning
    cb_2_the_200th_tool_call_is_denied
    cb_2_the_200th_call_at_the_mcp_gate_is_denied
    cb_2_the_50th_prompt_by_hook_is_denied
    cb_2_the_50th_turn_is_denied
    cb_2_the_5th_test_run_is_denied
    cb_3_a_call_seen_both_ways_counts_once
    cb_3_a_call_seen_by_answer_and_mcp_counts_once
    cb_3_a_call_seen_by_hook_and_mcp_counts_once
    cb_3_calls_count_at_the_mcp_gate_alone
    cb_3_calls_at_the_mcp_gate_alone_count_beside_hooks
    cb_3_one_hook_stands_for_one_call_at_the_mcp_gate
    cb_3_one_call_of_an_answer_stands_for_one_at_the_mcp_gate
    cb_3_calls_in_an_answer_count_without_hooks
    cb_4_a_pass_starts_the_count_anew
    cb_4_a_request_tells_what_a_hook_left_open
    cb_4_a_request_without_a_run_tells_the_only_hooked_one
    cb_4_an_unknown_result_counts_as_not_passed
    cb_4_failures_told_by_requests_count
    cb_4_hooks_that_say_nothing_after_a_tool
    cb_4_installing_a_test_runner_is_no_test_run
    cb_4_results_in_requests_count_without_hooks
    cb_4_what_a_hook_said_is_not_said_again
    cb_5_a_limit_lowered_meanwhile_trips_at_once
    cb_5_active_time_adds_up_over_wakes
    cb_5_active_time_trips_by_timer
    cb_5_time_away_is_not_active
    po_2_a_restart_books_what_was_under_way
    cb_5_sleepers_are_checked
    cb_5_waking_in_time_starts_sleep_anew
    cb_6_a_person_at_the_run_is_told_not_killed
    cb_6_a_person_extends_a_run
    cb_6_a_report_escalates_a_tripped_run
    cb_6_a_report_passes_when_it_reaches_the_limit
    cb_6_another_tool_that_ends_like_a_wrap_up_tool_is_refused
    cb_6_a_report_of_a_run_within_its_limits_ends_nothing
    cb_6_a_tripped_run_may_sum_up_for_three_requests
    cb_6_an_answer_after_the_end_of_its_run_trips_nothing
    cb_6_an_attended_run_is_extended_and_goes_on
    cb_6_kill_during_wrap_up
    cb_6_or_for_sixty_seconds
    cb_6_reporting_does_not_use_up_the_requests
    cb_6_turns_used_to_sum_up_do_not_count
    cb_7_escalated_is_terminal
    cb_7_an_escalated_run_is_not_forgotten_for_new_ones
    cb_7_transitions
    cb_8_an_escalation_leaves_the_agent_and_other_runs_alone

    tw_1_intensity_and_intent
    tw_1_pause_is_advisory
    tw_2_a_constant_tempo_is_no_runaway
    tw_2_a_fan_out_is_no_runaway
    tw_2_equal_calls_with_equal_results_are_looping
    tw_2_five_equal_outputs_are_looping
    tw_2_four_equal_outputs_are_not
    tw_2_gaps_are_idle_and_left_out
    tw_2_idle_by_clock
    tw_2_reading_five_parts_of_one_file_is_work
    tw_2_shrinking_intervals_are_a_runaway
    tw_3_a_flip_back_within_a_minute_is_unexpected
    tw_3_leaving_a_critical_mode_takes_thirty_seconds
    tw_4_a_refused_retry_is_no_step
    tw_4_cooldown_is_not_extended_by_waiting
    tw_4_forty_nine_thousand_tokens_pass
    tw_4_shadow_never_blocks_and_is_journaled
    tw_4_sixty_tool_calls_a_minute
    tw_4_calls_at_the_mcp_gate_are_under_the_rate
    tw_4_the_minute_slides
    tw_4_tokens_are_what_is_new
    tw_4_veto_order_is_frozen
    tw_5_a_healthy_1000_is_never_lowered_by_recovery
    tw_5_a_refused_request_does_not_count_its_results_twice
    tw_5_a_retry_does_not_count_its_results_twice
    tw_5_below_300_is_a_hard_stop
    tw_5_budget_and_idleness_are_no_failures
    tw_5_execution_errors_cost_twenty
    tw_5_failed_results_in_requests_count_too
    tw_5_four_loopings_are_600_and_not_suspended
    tw_5_health_heals_ten_a_minute_up_to_800
    tw_5_health_in_shadow_is_told_once
    tw_5_the_third_failed_call_in_a_row_costs_fifty
    tw_6_a_failing_agent_loops_sooner
    tw_6_a_healthy_agent_does_not_loop_with_the_same_outputs
    tw_6_new_rules_are_an_event
    tw_6_the_token_budget_tightens_with_health

    po_1_order_of_checks
    po_1_the_gate_comes_after_the_breaker
    po_1_tools_and_messages_ask_their_guards
    po_2_a_clock_set_back_gives_no_money_back
    po_2_a_clock_that_was_years_ahead_is_put_right
    po_2_a_day_ends_at_local_midnight
    po_2_a_person_renews_a_budget_after_the_clock_was_ahead
    po_2_a_request_over_midnight_is_booked_when_it_ends
    po_2_a_reservation_nobody_ends_is_booked
    po_2_a_run_has_its_own_cap
    po_2_a_stream_is_cut_at_the_cap
    po_2_a_stream_is_cut_at_the_cap_of_its_run
    po_2_reserved_before_forwarding_settled_after
    po_2_the_fleet_has_a_cap
    po_2_tokens_have_caps_too
    po_2_a_stream_alone_is_cut_at_the_cap
    po_2_alone_by_run_tokens_and_fleet
    po_2_one_unbounded_request_runs_alone
    po_2_path_and_body_name_models
    po_2_paths_without_a_price_are_refused_under_a_cap
    po_2_what_a_client_asks_for_itself_must_fit
    po_2_unpriced_models
    po_2_warnings_once_a_period
    po_3_a_thousand_requests_at_once_are_enough
    po_3_hours_follow_the_time_zone
    po_3_hours_over_midnight_belong_to_the_day_they_start
    po_3_the_rate_slides
    po_3_tokens_a_minute
    po_4_every_guard_in_shadow_only_tells
    po_4_every_guard_off
    po_5_breakers_of_hooked_runs
    po_5_limits_set_for_an_attended_run_are_enforced
    po_5_strict_enforces_every_number
    po_5_watch_enforces_what_was_asked_for
    po_2_a_clock_that_goes_back_days_and_forth_again_renews_nothing
    po_2_the_fleet_says_whose_budget_it_is
    po_6_tags_are_for_the_books_and_change_no_judgement
    po_7_a_model_that_is_not_allowed_is_refused
    po_7_a_snoozed_breaker_trips_when_the_snooze_is_over
    po_7_a_snoozed_guard_only_tells_until_its_time_is_over
    po_7_models_have_a_mode_and_their_place
    po_7_pause_and_resume
    po_7_what_always_holds_cannot_be_snoozed

    ks_1_a_kill_while_starting_beats_a_clean_latch
    ks_1_a_kill_while_starting_is_not_lost
    ks_1_a_stale_epoch_unlocks_nothing
    ks_1_anything_else_is_refused
    ks_1_from_first_start_to_shutdown_and_back
    ks_1_single_channels
    ks_3_a_latch_that_says_starting_is_a_shutdown
    ks_3_a_latch_with_channels_shut
    ks_3_a_process_restart_keeps_the_worse
    ks_3_what_a_first_start_finds
    ks_8_a_hundred_calls_pass_the_101st_stops
    ks_8_all_agents_together_press_the_button_once
    ks_8_retries_of_what_the_provider_failed_are_calls
    ks_8_scope_system_presses_the_button_once
    ks_8_shadow_and_off
    ks_8_the_minute_slides

    id_7_a_limit_refuses_an_implicit_run_and_never_escalates_it
    id_7_a_long_stream_is_activity
    id_7_a_person_who_breaks_off_is_waited_for
    id_7_an_implicit_run_closes_after_thirty_minutes
    id_7_named_and_implicit_runs_are_apart
    id_7_waiting_for_a_person_is_sleeping

    incident_a_detected_loop_does_not_lock_a_person_out
    incident_a_fan_out_of_identical_calls
    incident_auto_reply
    incident_batch_orders_with_profile_batch_is_healthy
    incident_date_62_times
    incident_edit_that_fails_in_a_cycle
    incident_idle_timeout_retry_storm
    incident_moving_37_files_is_healthy
    incident_page_down_is_healthy
    incident_ping_pong
    incident_polling_with_progress_is_healthy
    incident_process_list_2600
    incident_restart_with_the_same_prompt
    incident_same_error_other_arguments
    incident_tdd_with_the_same_error_until_the_fourth_edit_is_healthy
    incident_volatile_message_id

    break_a_flood_within_one_millisecond
    break_a_run_ends_while_its_requests_are_in_flight
    break_activation_while_in_flight
    break_amounts_at_their_largest
    break_duplicate_and_unknown_ids
    break_monotonic_extremes
    break_overlapping_requests_of_one_conversation
    break_ten_thousand_conversations
    break_the_clock_goes_backwards
    break_the_policy_changes_midway
    break_the_wall_clock_jumps
    break_three_hundred_runs
}

/// Set `ESTOP_SEED` to play one of them, `ESTOP_SEEDS` to play more than usual.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test takes a seed, the core does not")]
fn whatever_happens_the_promises_hold() -> Result<(), Failure> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("ESTOP_SEED") {
        Some(seed) => check_chaos(seed),
        None => (0..number("ESTOP_SEEDS").unwrap_or(100)).try_for_each(check_chaos),
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a list cannot know what is not in it")]
fn every_script_is_listed() -> Result<(), std::io::Error> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios"))? {
        let path = entry?.path();
        assert_eq!(path.extension().and_then(|e| e.to_str()), Some("txt"), "{} is no script", path.display());
        found.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    let listed: BTreeSet<String> = LISTED.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(listed, found, "the list in scenarios.rs and the scripts in the folder");
    Ok(())
}

//! SQLite keeps the contract of a store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod contract;

use std::path::Path;

use contract::Place;
use estop_store::{Sqlite, SqliteOptions};

struct SqlitePlace(tempfile::TempDir);

impl SqlitePlace {
    fn new() -> SqlitePlace {
        SqlitePlace(tempfile::tempdir().expect("a folder"))
    }
}

impl Place for SqlitePlace {
    type Store = Sqlite;

    fn open(&self) -> Sqlite {
        Sqlite::open(&self.0.path().join("estop.db"), SqliteOptions::default()).expect("it opens")
    }

    fn data_dir(&self) -> &Path {
        self.0.path()
    }
}

macro_rules! contract {
    ($($part:ident: $($name:ident),+;)+) => {
        $($(
            #[test]
            fn $name() {
                contract::$part::$name(&SqlitePlace::new());
            }
        )+)+
    };
}

contract! {
    journal:
        st_1_what_was_appended_is_there_after_opening_again,
        st_1_packing_segments_changes_nothing_that_can_be_read,
        st_1_many_records_in_many_segments_stay_readable,
        st_1_a_range_is_cut_to_the_record,
        st_1_records_of_an_agent_come_newest_first_page_by_page,
        st_1_a_batch_of_records_that_were_stored_is_refused_whole,
        st_1_numbers_of_journals_are_kept_whole,
        st_1_a_batch_is_stored_whole_or_not_at_all,
        ld_3_a_deactivation_is_stored_with_the_record_that_caused_it,
        ui_1_events_are_found_by_agent_and_type_page_by_page,
        ui_1_events_are_found_by_guard_and_oldest_first;
    retention:
        st_1_an_export_verifies_and_replays_across_pruning,
        st_1_a_part_that_is_missing_from_an_export_is_noticed,
        st_1_everything_packed_may_go_and_the_journal_goes_on,
        st_1_each_agent_has_its_state_after_what_was_pruned,
        st_1_events_are_kept_as_long_as_asked,
        st_3_old_rows_go_and_what_is_open_stays;
    agents:
        st_1_an_agent_is_kept_with_all_it_has,
        ui_1_agents_come_in_pages_by_name,
        ui_1_an_edit_of_an_old_version_is_a_conflict,
        ui_1_a_deleted_agent_is_gone_and_its_name_is_free;
    system:
        ks_3_a_kill_is_there_after_opening_again,
        ks_3_an_old_clear_does_not_undo_a_newer_kill,
        st_1_single_values_are_kept;
    access:
        ks_5_tokens_are_kept_and_taken_back,
        st_1_agent_keys_are_kept_and_taken_back,
        ui_1_a_session_ends_with_its_time_or_its_token;
    runs:
        po_6_a_run_is_kept_and_goes_on,
        cb_7_a_run_ends_and_keeps_its_counters,
        ui_1_runs_are_listed_by_agent_and_state;
    ledger:
        po_6_spend_rolls_up_by_whatever_is_asked,
        po_2_a_sum_that_does_not_fit_stays_at_its_maximum,
        po_2_the_account_of_all_is_kept_with_its_batch;
    evidence:
        ev_1_steps_are_kept_once_and_deleted_for_good,
        ev_1_steps_go_with_time;
    cases:
        tw_7_cases_are_opened_with_their_batch_and_once,
        ev_3_steps_change_the_status_and_stay_in_the_history,
        ev_3_an_answer_resolves_what_was_opened_before_it_alone,
        ev_3_the_same_within_an_hour_reopens_the_incident,
        ui_1_cases_are_listed_newest_first_page_by_page;
    alerts:
        st_1_alert_rules_are_kept,
        st_1_an_alert_is_sent_until_it_arrives,
        al_1_every_try_is_in_the_log_newest_first,
        al_1_alerts_and_memory_are_stored_together,
        st_3_a_pile_of_alerts_has_an_end;
}

// Generated from openapi.yaml by `go test ./deploy/clients -run TestGeneratedTypes -write-types`.
import type { ExactNumber } from "./json.js";
import type { JsonObject } from "./types.js";
export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @enum {string} */
        ActionType: "refund" | "credit" | "discount" | "spend";
        /** @enum {string} */
        Decision: "allow" | "block" | "escalate";
        /** @enum {string} */
        Confidence: "high" | "medium" | "low";
        ReasonCode: string;
        /** Format: date-time */
        Timestamp: string;
        /** @description The amount of an action or an outcome: a number, or with Prefer: amounts=string a string of the same syntax. */
        Amount: string;
        /** @description A sum or a limit of amounts, which may have more digits than an amount. */
        Sum: string;
        CheckID: string;
        /** @enum {string} */
        OutcomeStatus: "executed" | "failed" | "voided";
        /** @enum {string} */
        OutcomeFlag: "exceeded" | "exceeded_pending" | "unapproved" | "lapsed" | "stopped" | "replaced" | "superseded" | "unredeemed" | "paid_twice";
        RedemptionID: string;
        /** @description The action_hash, or the action as it is about to be carried out. All fields but reason_text are compared; agent_id, policy_id and action_type may be left out. */
        RedeemRequest: {
            /** @description 64 hexadecimal digits; anything else is refused with 422. */
            action_hash?: string | null;
            /** @description A payment of the caller's own that the check belongs to from then on. It must be free. */
            payment_key?: string | null;
            /** @description The key of the redemption, not of the check. */
            idempotency_key?: string | null;
            agent_id?: string | null;
            policy_id?: components["schemas"]["PolicyID"] | null;
            action_type?: components["schemas"]["ActionType"] | null;
            amount?: components["schemas"]["Amount"];
            currency?: string;
            counterparty?: string;
            payment_method?: string | null;
            merchant_or_vendor?: string | null;
            reason_text?: string | null;
            /** @description Ignored. */
            approval_id?: string | null;
            metadata?: components["schemas"]["Metadata"];
        };
        /** @description The redemption of a check. Its holder may carry out exactly this action, once. */
        Redemption: {
            check_id: components["schemas"]["CheckID"];
            action: components["schemas"]["RecordedAction"];
            action_hash: string;
            redeemed_at: components["schemas"]["Timestamp"];
            redemption_id: components["schemas"]["RedemptionID"];
            /** @description The caller's payment, else the asker's; absent without one. */
            payment?: components["schemas"]["Payment"];
        };
        /** @description What became of a payment. Everything but payment_key, state and attempt speaks of its current check. */
        Payment: {
            payment_key: string;
            /** @enum {string} */
            state: "free" | "denied" | "escalated" | "waiting" | "open" | "redeemed" | "in_doubt" | "releasing" | "executed";
            attempt: number;
            /** @description Whether the caller carries the action out, now. */
            proceed: boolean;
            /** @description The nonce of redeem, or the idempotency_key of a redemption, by which the caller proceeds; else null. */
            nonce: string | null;
            /** @description The idempotency key for the provider; null before the redemption. */
            execution_id: string | null;
            redemption_id: components["schemas"]["RedemptionID"] | null;
            redeemed_at: components["schemas"]["Timestamp"] | null;
            outcome: components["schemas"]["OutcomeStatus"] | null;
            reference: string | null;
            /** @description The approval that the current check asks for, while it is unused. */
            approval: components["schemas"]["PaymentApproval"] | null;
        };
        PaymentApproval: {
            approval_id: components["schemas"]["ApprovalID"];
            status: components["schemas"]["ApprovalStatus"];
            expires_at: components["schemas"]["Timestamp"];
            /** @description How many approvals are missing. */
            missing: number;
        };
        InDoubtRequest: {
            note?: string | null;
            /** @description The redemption whose holder says it, of a payment. */
            redemption_id?: string | null;
        };
        /** @description The redemption of a check, as recorded. */
        RecordedRedemption: {
            check_id: components["schemas"]["CheckID"];
            redemption_id: components["schemas"]["RedemptionID"];
            redeemed_at: components["schemas"]["Timestamp"];
            principal: string;
            key_id: string;
            /** @description Since when nobody knows whether the action was carried out; else null. */
            in_doubt_at: components["schemas"]["Timestamp"] | null;
        };
        /** @description What became of an allowed action. */
        OutcomeRequest: {
            status: components["schemas"]["OutcomeStatus"];
            /** @description The amount that an executed action moved; by default the check's amount. */
            amount?: components["schemas"]["Amount"] | null;
            reference?: string | null;
            note?: string | null;
            /** @description The number of the check's last report, which this one corrects; any other is a 409. Needs the scope outcomes:release. */
            supersedes?: number | null;
            /** @description The redemption whose holder reports, of a payment. */
            redemption_id?: string | null;
            /** @description Whether the report is refused if the check is in doubt and has no report yet. */
            unless_in_doubt?: boolean | null;
        };
        /** @description A recorded report. */
        Outcome: {
            check_id: components["schemas"]["CheckID"];
            /** @description The reports of a check count from 1. */
            report: number;
            status: components["schemas"]["OutcomeStatus"];
            /** @description Null unless the status is executed. */
            amount: components["schemas"]["Amount"] | null;
            reference: string | null;
            note: string | null;
            /**
             * @description Whether the report gave something back; pending: it waits for a report by a key with outcomes:release.
             * @enum {string}
             */
            release: "none" | "pending" | "done";
            flags: components["schemas"]["OutcomeFlag"][];
            principal: string;
            key_id: string;
            at: components["schemas"]["Timestamp"];
        };
        PolicyID: string;
        Metadata: JsonObject | null;
        /** @description A planned movement of money. One of action_type and reason_text is required. */
        Action: {
            agent_id: string;
            policy_id: components["schemas"]["PolicyID"];
            /** @description The type of the action; derived from reason_text by default. */
            action_type?: components["schemas"]["ActionType"] | null;
            amount: components["schemas"]["Amount"];
            currency: string;
            counterparty: string;
            payment_method?: string | null;
            merchant_or_vendor?: string | null;
            reason_text?: string | null;
            /** @description For safe retries, for 24 hours, in the whole deployment. API keys with a principal, role, scopes, binding or owner have a namespace by principal. Ignored in a simulation. */
            idempotency_key?: string | null;
            /** @description Names a payment, permanently, in the namespace of the principal: it is carried out at most once. In place of idempotency_key and approval_id. Ignored in a simulation. */
            payment_key?: string | null;
            /** @description A nonce, new for each call: redeem the check in the step that allows it. Needs payment_key and the scope checks:redeem, like the members that follow, which no simulation takes. */
            redeem?: string | null;
            /** @description Judge another action than the payment's, where nothing was carried out. */
            replace?: boolean | null;
            /** @description Take the redemption of another nonce over: the provider takes execution_id as its idempotency key. */
            take_over?: boolean | null;
            /** @description How old the first redemption may be; 24 by default. */
            take_over_within_hours?: number | null;
            /** @description When an executed payment is free again; never by default. Belongs to the payment. */
            again_after_hours?: number | null;
            /** @description The approval to use. Ignored in a simulation. */
            approval_id?: string | null;
            metadata?: components["schemas"]["Metadata"];
        };
        SimulationRequest: {
            policy_id: components["schemas"]["PolicyID"];
            /** @description The rules to judge by, instead of the latest version's. */
            rules?: components["schemas"]["Rule"][] | null;
            actions: components["schemas"]["Action"][];
        };
        /** @description The answer to an action. */
        CheckResult: {
            check_id: components["schemas"]["CheckID"];
            decision: components["schemas"]["Decision"];
            confidence: components["schemas"]["Confidence"];
            /** @description Null on allow. A later release may have more codes. */
            reason_code: components["schemas"]["ReasonCode"] | string | null;
            message: string | null;
            violated_rule_id: string | null;
            violated_rule_description: string | null;
            policy_version: number;
            next_step: string | null;
            latency_ms: number;
            timestamp: components["schemas"]["Timestamp"];
            /** @description The approval that an escalation asks for. */
            approval_id?: components["schemas"]["ApprovalID"];
            /** @description What became of the check's payment; absent without one. */
            payment?: components["schemas"]["Payment"];
        };
        /** @description The action as it was evaluated: action_type is derived if the request had none, and absent fields are null. */
        RecordedAction: {
            agent_id: string;
            policy_id: components["schemas"]["PolicyID"];
            action_type: components["schemas"]["ActionType"];
            amount: components["schemas"]["Amount"];
            currency: string;
            counterparty: string;
            payment_method: string | null;
            merchant_or_vendor: string | null;
            reason_text: string | null;
            idempotency_key: string | null;
            metadata: components["schemas"]["Metadata"];
            /** @description The approval that the check was sent with; absent without one. */
            approval_id?: string;
            /** @description The payment that the check is of; absent of none. */
            payment_key?: string;
        };
        /** @description A check's result, and its action. */
        CheckRecord: {
            check_id: components["schemas"]["CheckID"];
            decision: components["schemas"]["Decision"];
            confidence: components["schemas"]["Confidence"];
            /** @description Null on allow. A later release may have more codes. */
            reason_code: components["schemas"]["ReasonCode"] | string | null;
            message: string | null;
            violated_rule_id: string | null;
            violated_rule_description: string | null;
            policy_version: number;
            next_step: string | null;
            latency_ms: number;
            timestamp: components["schemas"]["Timestamp"];
            action: components["schemas"]["RecordedAction"];
            /** @description The approval that an escalation asks for, or the one that the check used. */
            approval_id?: components["schemas"]["ApprovalID"];
            /** @description The principal of the key that asked; its key_id by default. */
            principal: string;
            /** @description The outcome; null before the first report. */
            outcome: components["schemas"]["Outcome"] | null;
            /** @description The redemption; absent if the check was not redeemed. */
            redemption?: components["schemas"]["RecordedRedemption"];
            /** @description What became of the check's payment; absent without one. */
            payment?: components["schemas"]["Payment"];
        };
        /** @description The decisions that would be made. They permit nothing. */
        Simulation: {
            /** @enum {string} */
            mode: "demo" | "simulation";
            policy_id: components["schemas"]["PolicyID"];
            policy_version: number;
            results: components["schemas"]["CheckResult"][];
            summary: components["schemas"]["SimulationSummary"];
        };
        StatsBucket: {
            /**
             * Format: date-time
             * @description The start of the bucket, in UTC.
             */
            start: string;
            /** Format: int64 */
            allow: number;
            /** Format: int64 */
            block: number;
            /** Format: int64 */
            escalate: number;
        };
        /** @description How many checks there were in every step of a range, the oldest first. */
        Stats: {
            /** @enum {string} */
            step: "minute" | "hour" | "day";
            data: components["schemas"]["StatsBucket"][];
            /** @description The sums of all buckets. */
            total: components["schemas"]["DecisionCounts"];
        };
        Sums: {
            /** @description Nothing older was looked at. null: the whole range was. */
            since: components["schemas"]["Timestamp"] | null;
            checks: components["schemas"]["DecisionCounts"];
            /** @description In the order of their currencies. */
            amounts: components["schemas"]["CurrencySum"][];
            /** @description The ten of most checks. */
            agents: components["schemas"]["AgentCount"][];
            /** @description The ten of most checks. */
            counterparties: components["schemas"]["CounterpartyCount"][];
            /** @description The ten that blocked or escalated most checks. */
            rules: components["schemas"]["RuleCount"][];
            latency_ms: components["schemas"]["SummedLatency"];
        };
        /** @description How long the node took, in whole milliseconds. */
        SummedLatency: {
            /**
             * Format: int64
             * @description Half of the checks took this at most.
             */
            p50: number;
            /**
             * Format: int64
             * @description 95 % of them took this at most.
             */
            p95: number;
            /** Format: int64 */
            max: number;
        };
        CurrencySum: {
            currency: string;
            allow: components["schemas"]["Sum"];
            block: components["schemas"]["Sum"];
            escalate: components["schemas"]["Sum"];
        };
        AgentCount: {
            agent_id: string;
            /** Format: int64 */
            checks: number;
        };
        CounterpartyCount: {
            counterparty: string;
            /** Format: int64 */
            checks: number;
        };
        RuleCount: {
            policy_id: string;
            rule_id: string;
            reason_code: components["schemas"]["ReasonCode"];
            /** Format: int64 */
            checks: number;
        };
        DecisionCounts: {
            /** Format: int64 */
            allow: number;
            /** Format: int64 */
            block: number;
            /** Format: int64 */
            escalate: number;
        };
        SimulationSummary: {
            total: number;
            allowed: number;
            blocked: number;
            escalated: number;
        };
        Rule: {
            rule_id: components["schemas"]["RuleID"];
            rule_type: string;
            description?: components["schemas"]["OptionalDescription"];
            when?: components["schemas"]["Conditions"];
            parameters: JsonObject;
        };
        RuleID: string;
        OptionalDescription: string | null;
        /** @description The action types; all four by default. */
        OptionalActionTypes: components["schemas"]["ActionType"][] | null;
        /** @description When the policy has the rule: all conditions must match (S88), at least one is required, and a condition on an absent field does not match. */
        Conditions: {
            action_types?: components["schemas"]["OptionalActionTypes"];
            currencies?: string[] | null;
            /** @description Compared exactly. */
            counterparties?: string[] | null;
            /** @description Compared without regard to case. */
            payment_methods?: string[] | null;
            /** @description Of merchant_or_vendor, compared exactly. */
            merchants?: string[] | null;
            /** @description Of metadata.category, compared without regard to case. */
            categories?: string[] | null;
            /** @description Of metadata.country, as in ISO 3166. */
            countries?: string[] | null;
            /** @description Exclusive, in any currency. */
            amount_above?: (number | ExactNumber) | null;
            /** @description Inclusive, above amount_above. */
            amount_up_to?: (number | ExactNumber) | null;
            /** @description Values or bounds of members of metadata. */
            metadata?: {
                [key: string]: (string | (number | ExactNumber) | boolean)[] | {
                    above?: (number | ExactNumber) | null;
                    from?: (number | ExactNumber) | null;
                    up_to?: (number | ExactNumber) | null;
                    below?: (number | ExactNumber) | null;
                };
            } | null;
            present?: components["schemas"]["Fields"];
            absent?: components["schemas"]["Fields"];
            /**
             * @description What the rule does if a field is absent and all other conditions match; skip by default. Not of a duplicate_guard.
             * @enum {string|null}
             */
            on_missing?: "skip" | "block" | "escalate" | null;
        } | null;
        /** @description metadata.NAME, merchant_or_vendor, payment_method or reason_text. Blank text, null, objects and lists are absent. */
        Fields: string[] | null;
        /** @description Who approves the next version. The greater of required and the sum of from holds. */
        ChangesRequest: {
            /** @description The number of people, in all; 1 if both required and from are absent. */
            required?: number | null;
            /** @description How many of these people have to be of which groups; the others may be anybody. Each person counts for one entry. */
            from?: {
                group: string;
                /** @description 1 by default. */
                required?: number | null;
            }[] | null;
        };
        /** @description Absent if the version has none. */
        Changes: {
            required?: number;
            from?: components["schemas"]["GroupRequired"][];
        };
        PolicyRequest: {
            /** @description The policy, of which a new version is made if it exists; generated by default. */
            policy_id?: components["schemas"]["PolicyID"] | null;
            name: string;
            description?: string | null;
            rules: components["schemas"]["Rule"][];
            metadata?: JsonObject | null;
            /**
             * @description required: only a redeemed check can be reported as executed.
             * @enum {string|null}
             */
            redeem?: "required" | null;
            /** @description The greatest age of a check at its redemption, in minutes; 15 by default. */
            redeem_within_minutes?: number | null;
            /** @description How many people, other than the author, have to approve a draft before it can become the next version. */
            changes?: components["schemas"]["ChangesRequest"] | null;
            /** @description The reason of the change, for readers of the versions. The note is no part of the version. */
            note?: string | null;
            /** @description The rule_ids of budgets that end with this version although their counters are in use. The list is no part of the version. */
            drop_budgets?: string[] | null;
        };
        Policy: {
            policy_id: components["schemas"]["PolicyID"];
            name: string;
            description?: string;
            version: number;
            rules: components["schemas"]["Rule"][];
            created_at: components["schemas"]["Timestamp"];
            updated_at: components["schemas"]["Timestamp"];
            metadata: JsonObject | null;
            /**
             * @description Absent if the version has none.
             * @constant
             */
            redeem?: "required";
            /** @description Absent if the version has none. */
            redeem_within_minutes?: number;
            changes?: components["schemas"]["Changes"];
        };
        DraftRequest: {
            name: string;
            description?: string | null;
            rules: components["schemas"]["Rule"][];
            metadata?: JsonObject | null;
            /**
             * @description required: only a redeemed check can be reported as executed.
             * @enum {string|null}
             */
            redeem?: "required" | null;
            /** @description The greatest age of a check at its redemption, in minutes; 15 by default. */
            redeem_within_minutes?: number | null;
            /** @description How many people, other than the author, have to approve a draft before it can become the next version. */
            changes?: components["schemas"]["ChangesRequest"] | null;
            /** @description The reason of the change, for readers of the draft. */
            note?: string | null;
        };
        /** @description A possible next version of a policy. */
        Draft: {
            policy_id: components["schemas"]["PolicyID"];
            /** @description The hash of the draft's row in the record. No two drafts have the same hash. */
            draft_hash: string;
            /** @description The version that was in force when the draft was put. */
            base_version: number;
            name: string;
            description?: string;
            rules: components["schemas"]["Rule"][];
            metadata: JsonObject | null;
            /**
             * @description Absent if the version has none.
             * @constant
             */
            redeem?: "required";
            /** @description Absent if the version has none. */
            redeem_within_minutes?: number;
            changes?: components["schemas"]["Changes"];
            created_at: components["schemas"]["Timestamp"];
            /** @description The author, whose API key put the draft; null if the admin key did. */
            author: components["schemas"]["PolicyAuthor"] | null;
            note: string | null;
            /**
             * @description Whether people are missing, nobody is, or somebody rejected the draft. This member and the following ones are present when the version in force has `changes`, except in the answer to PUT.
             * @enum {string}
             */
            status?: "waiting" | "approved" | "rejected";
            /** @description Of a rejected draft, whose approvals do not count. */
            rejection?: components["schemas"]["DraftDecision"];
            /** @description The version in force. */
            policy_version?: number;
            /** @description The number of people who have to approve, in all. */
            required?: number;
            /** @description The number of approvals that are missing for a promotion that drops no budgets. */
            missing?: number;
            /** @description The groups of which people are asked; absent if anybody may decide. */
            from?: components["schemas"]["ApprovalGroup"][];
            approvals?: components["schemas"]["DraftApproval"][];
        };
        DraftDecision: {
            principal: string;
            /** @description The person's name, as the provider gave it then; absent for a key. */
            name?: string;
            /** @description The person's e-mail address, as the provider gave it then; absent for a key. */
            email?: string;
            /** @description The key, or the session_id of a person who had signed in. */
            key_id: string;
            note: string | null;
            at: components["schemas"]["Timestamp"];
            /** @description The version that was in force at that time. */
            policy_version: number;
        };
        DraftApproval: {
            principal: string;
            /** @description The person's name, as the provider gave it then; absent for a key. */
            name?: string;
            /** @description The person's e-mail address, as the provider gave it then; absent for a key. */
            email?: string;
            /** @description The key, or the session_id of a person who had signed in. */
            key_id: string;
            note: string | null;
            at: components["schemas"]["Timestamp"];
            /** @description The version that was in force at that time. */
            policy_version: number;
            /** @description Whether the approval counts for a promotion now: that version is in force, the key is active and may approve, and its principal is neither the author's nor counted already. */
            counts: boolean;
            /** @description The groups of the key at that time. */
            groups?: string[];
            /** @description The budgets that a promotion may drop by this approval. */
            drop_budgets?: string[];
        };
        DraftApprovalRequest: {
            /** @description The draft_hash of the draft that was read. */
            draft_hash: string;
            note?: string | null;
            /** @description The budgets that the promotion may drop by this approval. The approval does not count for a promotion that drops others. */
            drop_budgets?: string[] | null;
        };
        DraftRejectionRequest: {
            /** @description The draft_hash of the draft that was read. */
            draft_hash: string;
            note?: string | null;
        };
        /** @description The backtest of the draft from when it was put, with the state recorded. The candidate is the draft. */
        DraftReport: {
            policy_id: components["schemas"]["PolicyID"];
            draft_hash: string;
            base_version: number;
            /**
             * Format: date-time
             * @description When the draft was put.
             */
            since: string;
            backtest_id: string;
            /** @description Of the backtest. While it is queued or running, report and flips are those of the time before. */
            status: components["schemas"]["BacktestStatus"];
            progress: components["schemas"]["BacktestProgress"];
            /** @description Why the backtest failed. */
            error: string | null;
            /** @description The report on the checks until the end of its coverage; null until the backtest has succeeded once. */
            report: components["schemas"]["Report"] | null;
            /** @description The newest of the listed checks that the draft decides otherwise. */
            flips: components["schemas"]["Flip"][];
        };
        Promotion: {
            /** @description The draft_hash of the draft that was read; another draft is refused. By default any draft is promoted. */
            draft_hash?: string | null;
            /** @description The note of the version. */
            note?: string | null;
            /** @description As in POST /v1/policies. */
            drop_budgets?: string[] | null;
        };
        PolicyVersion: {
            policy_id: components["schemas"]["PolicyID"];
            name: string;
            description?: string;
            version: number;
            rules: components["schemas"]["Rule"][];
            created_at: components["schemas"]["Timestamp"];
            updated_at: components["schemas"]["Timestamp"];
            metadata: JsonObject | null;
            /**
             * @description Absent if the version has none.
             * @constant
             */
            redeem?: "required";
            /** @description Absent if the version has none. */
            redeem_within_minutes?: number;
            changes?: components["schemas"]["Changes"];
            /** @description The author, whose API key made the version or promoted its draft; null if the admin key did. */
            author: components["schemas"]["PolicyAuthor"] | null;
            /** @description Who put the draft that became this version; absent if no draft did, as are the next two. */
            drafted_by?: components["schemas"]["PolicyAuthor"];
            /** @description Who approved the draft beside the version before. */
            approved_by?: components["schemas"]["DraftDecision"][];
            /** @description Whether the admin key forced it. */
            forced?: boolean;
            note: string | null;
        };
        PolicyAuthor: {
            principal: string;
            key_id: string;
        };
        /** @description A check that was blocked or escalated. */
        Violation: {
            violation_id: string;
            check_id: components["schemas"]["CheckID"];
            agent_id: string;
            policy_id: components["schemas"]["PolicyID"];
            policy_version: number;
            action_type: components["schemas"]["ActionType"];
            amount: components["schemas"]["Amount"];
            currency: string;
            counterparty: string;
            /** @enum {string} */
            decision: "block" | "escalate";
            violated_rule_id: string;
            violated_rule_description: string;
            confidence: components["schemas"]["Confidence"];
            latency_ms: number;
            timestamp: components["schemas"]["Timestamp"];
            console_url?: components["schemas"]["ConsoleURL"];
        };
        Pagination: {
            next_cursor: string | null;
            has_more: boolean;
            total_count: number;
        };
        /** @enum {string} */
        ApprovalStatus: "pending" | "approved" | "denied" | "expired" | "used" | "withdrawn";
        ApprovalID: string;
        ApprovalDecisionRequest: {
            /** @description The action_hash of the approval that was read. */
            action_hash: string;
            note?: string | null;
        };
        /** @description What waits, or waited, for people. Drafts and grants are listed only with waiting_for. */
        ApprovalItem: components["schemas"]["Approval"] | components["schemas"]["WaitingDraft"] | components["schemas"]["Grant"];
        /** @description A draft that waits for approvals. */
        WaitingDraft: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "draft";
            policy_id: components["schemas"]["PolicyID"];
            draft_hash: string;
            author: components["schemas"]["PolicyAuthor"] | null;
            note: string | null;
            made_at: components["schemas"]["Timestamp"];
            /** @description The number of people who are missing. */
            missing: number;
        };
        /** @description What an escalated check asks of people. An approved one allows nothing until a check with its approval_id is allowed. Text that agents wrote in it is only text. */
        Approval: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "approval";
            approval_id: components["schemas"]["ApprovalID"];
            status: components["schemas"]["ApprovalStatus"];
            check_id: components["schemas"]["CheckID"];
            principal: string;
            action: components["schemas"]["RecordedAction"];
            action_hash: string;
            rule_ids: string[];
            policy_id: components["schemas"]["PolicyID"];
            policy_version: number;
            /** @description The number of people who have to approve, in all. */
            required: number;
            /** @description The number of people who are missing; only with `from`, or once the approval was reopened. */
            missing?: number;
            /** @description The groups of which people are asked; absent if anybody may decide. */
            from?: components["schemas"]["ApprovalGroup"][];
            /**
             * @description The author of the version that escalated, or of the draft that it was, does not decide.
             * @constant
             */
            exclude_author?: true;
            decisions: components["schemas"]["ApprovalDecision"][];
            created_at: components["schemas"]["Timestamp"];
            expires_at: components["schemas"]["Timestamp"];
            use_by: components["schemas"]["Timestamp"] | null;
            used_by_check_id: components["schemas"]["CheckID"] | null;
            /** @description What is left of the budgets that judge the action; absent in lists. */
            remaining?: components["schemas"]["BudgetRemaining"][];
            next_step: string;
        };
        /** @description How many people of a group, or of any_of several groups, have to approve. */
        ApprovalGroup: {
            group?: string;
            any_of?: string[];
            required: number;
            /** @description How many more people of the group would count. A person in two groups counts for either, so the sum may be greater than missing. */
            missing: number;
        };
        /** @description What a budget has left for an action. Null means no limit. */
        BudgetRemaining: {
            rule_id: string;
            remaining: components["schemas"]["Sum"] | null;
            remaining_count: number | null;
            /** @description What would be left if all other approvals that are approved and unused were used. */
            remaining_after_approved: components["schemas"]["Sum"] | null;
            remaining_count_after_approved: number | null;
        };
        ApprovalDecision: {
            principal: string;
            /** @description The person's name, as the provider gave it then; absent for a key. */
            name?: string;
            /** @description The person's e-mail address, as the provider gave it then; absent for a key. */
            email?: string;
            /** @description The key, or the session_id of a person who had signed in. */
            key_id: string;
            /** @enum {string} */
            decision: "approve" | "deny";
            note: string | null;
            at: components["schemas"]["Timestamp"];
            /** @description The groups of the key at the time of the decision. */
            groups?: string[];
            /**
             * @description The decision counts no more, because of what became of its key since (S92). Absent otherwise.
             * @constant
             */
            void?: true;
        };
        GroupRequired: {
            group?: string;
            /** @description In place of group, of approvals that rules ask for. */
            any_of?: string[];
            required: number;
        };
        /** @description Something that happened. Its sequence is the after of the next request. The members of data depend on the type. */
        Event: {
            id: components["schemas"]["EventID"];
            type: string;
            timestamp: components["schemas"]["Timestamp"];
            sequence: components["schemas"]["EventSequence"];
            data: JsonObject;
        };
        /** @description Where the console shows it; only in events, of a deployment that says where its console is. */
        ConsoleURL: string;
        /** @description A page of the feed. It may be short, or empty, while has_more. */
        EventPage: {
            data: components["schemas"]["Event"][];
            /**
             * Format: int64
             * @description The value of after for the next request.
             */
            next_after: number;
            /** @description Whether there may be events after next_after already. */
            has_more: boolean;
        };
        GrantID: string;
        /** @enum {string} */
        GrantStatus: "pending" | "open" | "revoked" | "ended";
        /** @description For whom a counter counts, by the names of the rule's per; empty if the budget has one counter. */
        CounterPer: {
            [key: string]: string | number | boolean;
        };
        /** @description Exactly one of add_amount and add_count. */
        GrantRequest: {
            policy_id: components["schemas"]["PolicyID"];
            /** @description Of a budget. */
            rule_id: string;
            /** @description A value for each name in the budget's per. */
            per?: components["schemas"]["CounterPer"] | null;
            /** @description In the budget's currency; of a budget with a limit. */
            add_amount?: (number | ExactNumber) | null;
            /** @description Of a budget with max_count. */
            add_count?: number | null;
            /**
             * Format: date-time
             * @description At most the end of the window; of a rolling window and a lifetime at most in 31 days.
             */
            until: string;
            note: string;
            idempotency_key?: string | null;
        };
        GrantDecision: {
            note?: string | null;
        };
        Grant: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "grant";
            grant_id: components["schemas"]["GrantID"];
            policy_id: components["schemas"]["PolicyID"];
            rule_id: string;
            per: components["schemas"]["CounterPer"];
            add_amount: components["schemas"]["Sum"] | null;
            add_count: number | null;
            /** @description Of add_amount. */
            currency: string | null;
            until: components["schemas"]["Timestamp"];
            note: string;
            status: components["schemas"]["GrantStatus"];
            created_at: components["schemas"]["Timestamp"];
            created_by: components["schemas"]["GrantPerson"];
            /** @description How many people besides the granter must approve it. */
            required: number;
            /** @description How many of them are missing. */
            missing: number;
            approvals: components["schemas"]["GrantPerson"][];
            revoked: components["schemas"]["GrantPerson"] | null;
        };
        GrantPerson: {
            /** @description Null for the admin key, like key_id. */
            principal: string | null;
            key_id: string | null;
            /** @description Of a person who had signed in. */
            name?: string;
            note: string | null;
            at: components["schemas"]["Timestamp"];
        };
        FreezeID: string;
        /** @description What is frozen: exactly one member. Agents and counterparties are compared exactly, principals as names. */
        FreezeScope: {
            /** @constant */
            all?: true;
            policy_id?: components["schemas"]["PolicyID"];
            agent_id?: string;
            principal?: string;
            counterparty?: string;
        };
        FreezeRequest: {
            scope: components["schemas"]["FreezeScope"];
            reason: string;
            /** @description When it ends by itself; in the future. */
            until?: string | null;
            idempotency_key?: string | null;
        };
        FreezeReleaseRequest: {
            note: string;
        };
        Freeze: {
            freeze_id: components["schemas"]["FreezeID"];
            scope: components["schemas"]["FreezeScope"];
            reason: string;
            until: components["schemas"]["Timestamp"] | null;
            created_at: components["schemas"]["Timestamp"];
            /** @description Null for the admin key, and after a restore. */
            created_by: components["schemas"]["PolicyAuthor"] | null;
            /** @enum {string} */
            status: "active" | "released" | "over";
            released_at: components["schemas"]["Timestamp"] | null;
            releases: components["schemas"]["FreezeRelease"][];
            /** @description How many people must release it. */
            required: number;
            /** @description How many of them are missing. */
            missing: number;
            /** @description What it reaches of the last 24 hours; only of a new freeze, and only if it was counted in time. */
            reaches: components["schemas"]["FreezeReaches"] | null;
        };
        FreezeRelease: {
            /** @description Null for the admin key, like key_id. */
            principal: string | null;
            key_id: string | null;
            note: string;
            at: components["schemas"]["Timestamp"];
        };
        FreezeReaches: {
            checks: number;
            principals: number;
        };
        EventID: string;
        /** Format: int64 */
        EventSequence: number;
        PaginationWithoutTotal: {
            next_cursor: string | null;
            has_more: boolean;
        };
        /** @enum {string} */
        BacktestStatus: "queued" | "running" | "succeeded" | "failed" | "canceled";
        /**
         * @description Which decisions fill duplicate windows and budgets. counterfactual: the candidate's own; recorded: the recorded ones.
         * @enum {string}
         */
        BacktestState: "counterfactual" | "recorded";
        /** @description The request has either rules or a version. */
        BacktestRequest: {
            policy_id: string;
            /** @description The candidate. */
            rules?: components["schemas"]["Rule"][] | null;
            /** @description The candidate is this version of the policy. */
            version?: number | null;
            /** @description A time or a UTC date, inclusive. */
            from: string;
            /** @description A time or a UTC date, inclusive. */
            to: string;
            /**
             * @description counterfactual by default.
             * @enum {string|null}
             */
            state?: "counterfactual" | "recorded" | null;
        };
        BacktestProgress: {
            /** @description The number of the policy's checks that were replayed. */
            checks: number;
            /**
             * Format: double
             * @description How much of the period was replayed. The time before it, which fills windows, is not counted.
             */
            fraction: number;
            /**
             * Format: date-time
             * @description The timestamp of the last check.
             */
            reached: string | null;
        };
        /** @description A backtest in a list, without its rules and its report. */
        BacktestSummary: {
            backtest_id: string;
            policy_id: string;
            /** @description The candidate's version; null if the candidate is rules. */
            version: number | null;
            from: components["schemas"]["Timestamp"];
            to: components["schemas"]["Timestamp"];
            state: components["schemas"]["BacktestState"];
            status: components["schemas"]["BacktestStatus"];
            progress: components["schemas"]["BacktestProgress"];
            /** @description Why the backtest failed. */
            error: string | null;
            key_id: string;
            principal: string;
            created_at: components["schemas"]["Timestamp"];
            /** Format: date-time */
            started_at: string | null;
            /** Format: date-time */
            ended_at: string | null;
        };
        /** @description A replay of recorded checks by other rules, or by another version. */
        Backtest: {
            backtest_id: string;
            policy_id: string;
            /** @description The candidate's version; null if the candidate is rules. */
            version: number | null;
            from: components["schemas"]["Timestamp"];
            to: components["schemas"]["Timestamp"];
            state: components["schemas"]["BacktestState"];
            status: components["schemas"]["BacktestStatus"];
            progress: components["schemas"]["BacktestProgress"];
            /** @description Why the backtest failed. */
            error: string | null;
            key_id: string;
            principal: string;
            created_at: components["schemas"]["Timestamp"];
            /** Format: date-time */
            started_at: string | null;
            /** Format: date-time */
            ended_at: string | null;
            /** @description The candidate's rules; null if the candidate is a version. */
            rules: components["schemas"]["Rule"][] | null;
            /** @description The report; null until the backtest has succeeded. The same records and the same candidate make the same bytes. */
            report: components["schemas"]["Report"] | null;
        };
        /** @description How recorded decisions compare with those of a candidate. */
        Report: {
            coverage: {
                from: components["schemas"]["Timestamp"];
                to: components["schemas"]["Timestamp"];
                /** @description The number of the policy's checks that were recorded. */
                checks: number;
                /** @description The checks that were not skipped. */
                compared: number;
                skipped: {
                    /** @enum {string} */
                    reason: "approval_not_needed" | "approval_unknown" | "budget_order" | "counters_unavailable" | "duplicate_order" | "failed" | "other_decision" | "payment_allowed" | "version_unknown";
                    checks: number;
                }[];
                /** @description The time that was replayed before the period, to fill windows. */
                warm_up: {
                    from: components["schemas"]["Timestamp"];
                    checks: number;
                } | null;
                /** @description Archived UTC days whose archive the node does not have. */
                missing_days: string[];
            };
            /** @description The checks that the candidate decides otherwise. */
            flips: {
                total: number;
                stricter: number;
                looser: number;
                /** @description How many of the looser checks the candidate allows. */
                to_allow: number;
                /** @description How many checks are listed: the first 100,000 of a backtest, the newest 100 of a draft. */
                listed: number;
            };
            /** @description The number of checks, by the recorded decision and then by the candidate's. */
            matrix: {
                allow: components["schemas"]["ReportRow"];
                block: components["schemas"]["ReportRow"];
                escalate: components["schemas"]["ReportRow"];
            };
            /** @description The number of decisions of each rule, by rule_id. */
            rules: {
                rule_id: string;
                recorded: components["schemas"]["ReportEffects"];
                candidate: components["schemas"]["ReportEffects"];
            }[];
            /** @description For each of the candidate's budgets, the most that was taken from any of its counters. */
            budgets: {
                rule_id: string;
                currency: string | null;
                limit: components["schemas"]["Sum"] | null;
                max_count: number | null;
                /** @description Null if nothing was taken, or if the budget counts no amounts. */
                used: components["schemas"]["ReportPeak"] | null;
                /** @description Null if nothing was taken. */
                count: components["schemas"]["ReportPeak"] | null;
            }[];
        };
        ReportRow: {
            allow: components["schemas"]["ReportCell"];
            block: components["schemas"]["ReportCell"];
            escalate: components["schemas"]["ReportCell"];
        };
        ReportCell: {
            checks: number;
            /** @description The sums of the amounts, by currency. */
            amounts: {
                [key: string]: number | ExactNumber;
            };
        };
        ReportEffects: {
            block: number;
            escalate: number;
        };
        /** @description The highest usage of any counter of a budget. */
        ReportPeak: {
            value: number | ExactNumber;
            /** @description For whom the counter counts, by the names of the rule's per. */
            per: {
                [key: string]: string;
            };
            /**
             * Format: date-time
             * @description The start of the window; null if the window is lifetime.
             */
            window_start: string | null;
            /** @description What grants had added to the limit of that counter then; absent for nothing. */
            granted?: number | ExactNumber;
        };
        /** @description A check that the candidate decides otherwise. */
        Flip: {
            check_id: string;
            timestamp: components["schemas"]["Timestamp"];
            recorded: components["schemas"]["Verdict"];
            candidate: components["schemas"]["Verdict"];
            /** @description Null for keys without checks:read. */
            action: components["schemas"]["FlipAction"] | null;
        };
        FlipAction: {
            agent_id: string;
            action_type: components["schemas"]["ActionType"];
            amount: components["schemas"]["Amount"];
            currency: string;
            counterparty: string;
        };
        Verdict: {
            decision: components["schemas"]["Decision"];
            rule_id: string | null;
            reason_code: string | null;
            /** @description Null if the candidate is rules. */
            policy_version: number | null;
        };
        /** @description A counter of a budget rule, in its window. Null means no limit. */
        Budget: {
            policy_id: components["schemas"]["PolicyID"];
            rule_id: string;
            per: components["schemas"]["CounterPer"];
            currency: string | null;
            /** @description As the policy says it. */
            limit: components["schemas"]["Sum"] | null;
            used: components["schemas"]["Sum"];
            /** @description Of the limit with what is granted; never below zero. */
            remaining: components["schemas"]["Sum"] | null;
            count: number;
            max_count: number | null;
            /** @description Of max_count with what is granted; never below zero. */
            remaining_count: number | null;
            /** @enum {string|null} */
            window: "hour" | "day" | "week" | "month" | "year" | "lifetime" | null;
            /** @description Only with a calendar window. */
            time_zone?: string;
            /** @description Only with a rolling window. */
            rolling_minutes?: number;
            window_start: components["schemas"]["Timestamp"];
            /** @description The end of the window; with a rolling window, when its oldest bucket leaves; null if the window is lifetime. */
            resets_at: components["schemas"]["Timestamp"] | null;
            counting_since: components["schemas"]["Timestamp"];
            /** @description What open grants add to the limit, now: also where `at` names a time. */
            granted: components["schemas"]["Sum"] | null;
            /** @description What open grants add to max_count. */
            granted_count: number | null;
            as_of: components["schemas"]["Timestamp"];
        };
        KeyRequest: {
            name: string;
            /** @description 100 by default; up to 10,000, or what the deployment allows. */
            rate_limit_rpm?: number | null;
            role?: components["schemas"]["RoleChange"];
            scopes?: components["schemas"]["ScopesChange"];
            policy_ids?: components["schemas"]["PolicyIDsChange"];
            agent_ids?: components["schemas"]["AgentIDsChange"];
            principal?: components["schemas"]["PrincipalChange"];
            owner?: components["schemas"]["PrincipalChange"];
            groups?: components["schemas"]["GroupsChange"];
            expires_at?: components["schemas"]["ExpiryChange"];
        };
        /**
         * @description At least one member. For role and the members after it, null clears the value; role and scopes replace
         *     each other, so null for one needs the other.
         */
        KeyChange: {
            /** @description False also stops what the key was allowed and nobody redeemed, unless `keep_open` is true. True restores nothing of that. */
            active?: boolean | null;
            /** @description Only beside `active: false`: what the key was allowed is still redeemed and replayed. */
            keep_open?: boolean | null;
            name?: string | null;
            /** @description Up to 10,000, or what the deployment allows. */
            rate_limit_rpm?: number | null;
            role?: components["schemas"]["RoleChange"];
            scopes?: components["schemas"]["ScopesChange"];
            policy_ids?: components["schemas"]["PolicyIDsChange"];
            agent_ids?: components["schemas"]["AgentIDsChange"];
            principal?: components["schemas"]["PrincipalChange"];
            owner?: components["schemas"]["PrincipalChange"];
            groups?: components["schemas"]["GroupsChange"];
            expires_at?: components["schemas"]["ExpiryChange"];
        };
        /** @description A new API key. This is the only time that it is shown. */
        NewKey: {
            key_id: string;
            name: string;
            /** Format: password */
            api_key: string;
            rate_limit_rpm: number;
            created_at: components["schemas"]["Timestamp"];
            role?: components["schemas"]["Role"];
            scopes?: components["schemas"]["Scope"][];
            policy_ids?: components["schemas"]["PolicyID"][];
            agent_ids?: string[];
            principal?: string;
            owner?: string;
            groups?: string[];
            expires_at?: components["schemas"]["Timestamp"];
        };
        /** @description The record of an API key. */
        Key: {
            /** @description The key; in GET /v1/keys/self with a session, the session. */
            key_id: string;
            name: string;
            /** @description The person's e-mail address, as the provider gave it at the sign-in; absent for a key. */
            email?: string;
            rate_limit_rpm: number;
            active: boolean;
            created_at: components["schemas"]["Timestamp"];
            /**
             * @description When a check or a new policy last came with the key; null if never. Reads and simulations do not count.
             *     The time may be a minute behind.
             */
            last_used_at: components["schemas"]["Timestamp"] | null;
            role?: components["schemas"]["Role"];
            scopes?: components["schemas"]["Scope"][];
            policy_ids?: components["schemas"]["PolicyID"][];
            agent_ids?: string[];
            principal?: string;
            owner?: string;
            groups?: string[];
            expires_at?: components["schemas"]["Timestamp"];
            /** @description The checks that the key was allowed and nobody redeemed, which are stopped; only in the answer to a change that deactivates the key. */
            stopped?: {
                /** @description All of the last 24 hours; null if counting took too long. */
                checks: number | null;
                /** @description Those of them that only a redemption carries out: they are voided and given back within a minute. */
                voided: number | null;
            };
        };
        /** @description A person who signed in, with what their groups permit. */
        Session: {
            session_id: string;
            /** @description The person's name, as the provider gave it at the sign-in; may be empty. */
            name: string;
            email?: string;
            created_at: components["schemas"]["Timestamp"];
            last_used_at: components["schemas"]["Timestamp"];
            /** @description When the session ends if it is not used. */
            ends_at: components["schemas"]["Timestamp"];
            role?: components["schemas"]["Role"];
            scopes?: components["schemas"]["Scope"][];
            policy_ids?: components["schemas"]["PolicyID"][];
            agent_ids?: string[];
            /** @description The provider's label, a colon, and the subject (sub). */
            principal: string;
            /** @description The e-mail address; without one, the principal. */
            owner?: string;
            groups?: string[];
        };
        /**
         * @description agent asks (checks:write, policies:read, outcomes:write, checks:read, budgets:read, approvals:read of its
         *     own principal's checks, and freezes:write of its own principal); author writes rules (policies:read, policies:write,
         *     checks:read, budgets:read, backtests:write, freezes:write, freezes:read); approver (approvals:read, approvals:decide,
         *     checks:read, policies:read, budgets:read, freezes:write, freezes:read, freezes:release, budgets:grant); executor (checks:redeem,
         *     outcomes:write, outcomes:release, checks:read, freezes:write, freezes:read); gateway (checks:write, checks:redeem,
         *     outcomes:write, outcomes:release, policies:read, checks:read, budgets:read, approvals:read, freezes:write,
         *     freezes:read); auditor (checks:read, policies:read, budgets:read, approvals:read, events:read, freezes:read); full
         *     (all but approvals:decide, outcomes:release, checks:redeem, freezes:release and budgets:grant).
         */
        Role: string;
        Scope: string;
        /** @description A role, instead of scopes. A key with neither has the role full. */
        RoleChange: components["schemas"]["Role"] | null;
        /** @description Scopes, instead of a role. checks:write cannot be combined with approvals:decide, outcomes:release, policies:write, checks:redeem, freezes:release or budgets:grant. */
        ScopesChange: components["schemas"]["Scope"][] | null;
        /** @description The policies that the key is restricted to. They need not exist. */
        PolicyIDsChange: components["schemas"]["PolicyID"][] | null;
        /** @description The agents that the key is restricted to. */
        AgentIDsChange: string[] | null;
        /** @description principal: who acts with the key; its key_id by default. owner: the person or team that runs the agent. */
        PrincipalChange: string | null;
        /** @description The groups of the person who decides with the key; approvals ask people of groups. Names are compared like principals. */
        GroupsChange: string[] | null;
        /**
         * Format: date-time
         * @description An RFC 3339 time in the future.
         */
        ExpiryChange: string | null;
        EventType: string;
        /** @description An absolute http or https URL without user, password and fragment. Use https outside your own network. */
        WebhookURL: string;
        WebhookEventTypes: components["schemas"]["EventType"][];
        Webhook: {
            webhook_id: string;
            url: string;
            event_types: components["schemas"]["WebhookEventTypes"];
            /**
             * @description disabled: by a PATCH, or because the endpoint answered 410.
             * @enum {string}
             */
            status: "active" | "disabled";
            created_at: components["schemas"]["Timestamp"];
        };
        /** @description A webhook that was made or rotated. This is the only time that its secret is shown. */
        NewWebhook: {
            webhook_id: string;
            url: string;
            event_types: components["schemas"]["WebhookEventTypes"];
            /**
             * @description disabled: by a PATCH, or because the endpoint answered 410.
             * @enum {string}
             */
            status: "active" | "disabled";
            created_at: components["schemas"]["Timestamp"];
            /**
             * Format: password
             * @description 32 random bytes in base64.
             */
            secret: string;
        };
        Retried: {
            webhook_id: string;
            /** @description The number of events that are tried again. */
            retried: number;
        };
        /** @description An attempt to deliver an event. */
        Delivery: {
            delivery_id: string;
            webhook_id: string;
            event_id: components["schemas"]["EventID"];
            event_type: components["schemas"]["EventType"];
            sequence: number;
            attempt: number;
            timestamp: components["schemas"]["Timestamp"];
            duration_ms: number;
            delivered: boolean;
            /** @description The answer's status; null without an answer. */
            status_code: number | null;
            /** @description What went wrong; null if the event was delivered. */
            error: string | null;
            /** @description When the next attempt was due after this one; null if none was to follow. */
            next_attempt_at: components["schemas"]["Timestamp"] | null;
        };
        Health: {
            /** @constant */
            status: "ok";
            version: string;
            timestamp: components["schemas"]["Timestamp"];
        };
        ErrorBody: {
            error: {
                /** @enum {string} */
                code: "unauthorized" | "api_key_inactive" | "forbidden" | "not_an_approver" | "bad_request" | "validation_error" | "demo_limit_exceeded" | "policy_not_found" | "check_not_found" | "outcome_not_found" | "key_not_found" | "session_not_found" | "webhook_not_found" | "delivery_not_found" | "approval_not_found" | "backtest_not_found" | "freeze_not_found" | "freeze_not_active" | "freeze_own" | "too_many_freezes" | "frozen" | "grant_not_found" | "grant_not_active" | "grant_not_pending" | "grant_own_check" | "too_many_grants" | "draft_not_found" | "draft_hash_mismatch" | "change_needs_approval" | "change_needs_no_approval" | "policy_version_mismatch" | "if_match_required" | "events_removed" | "backtests_full" | "backtest_ended" | "approvals_full" | "draft_rejected" | "not_allowed" | "outcome_already_reported" | "check_not_allowed" | "check_already_redeemed" | "check_stopped" | "check_released" | "check_expired" | "check_not_redeemed" | "action_mismatch" | "payment_differs" | "payment_taken" | "check_taken_over" | "principal_required" | "budget_in_use" | "approval_not_approved" | "approval_not_pending" | "approval_own_request" | "approval_already_decided" | "approval_mismatch" | "approval_expired" | "approval_already_used" | "not_found" | "method_not_allowed" | "rate_limit_exceeded" | "internal_error";
                message: string;
                request_id: string;
                timestamp: components["schemas"]["Timestamp"];
                /** @description The last report; only with outcome_already_reported. */
                latest?: components["schemas"]["Outcome"];
                /**
                 * Format: int64
                 * @description The value of after to continue with; only with events_removed.
                 */
                next_after?: number;
                /**
                 * @description The check that has the idempotency key (validation_error), the payment (payment_taken, payment_differs)
                 *     or the approval (approval_already_used) of the request, or that the payment shows (payment_differs, payment_taken).
                 */
                check_id?: components["schemas"]["CheckID"];
                /** @description The members in which the request differs from its payment; only with payment_differs. */
                differs?: string[];
                /** @description The state of the payment; only with payment_taken. */
                state?: string;
                /** @description The payment; only with payment_differs, payment_taken and frozen. */
                payment?: components["schemas"]["Payment"];
            };
        };
        ListChecksQuery: {
            agent_id?: string;
            policy_id?: components["schemas"]["PolicyID"];
            counterparty?: string;
            /** @description The type of the action as the service resolved it. */
            action_type?: components["schemas"]["ActionType"];
            reason_code?: string;
            /** @description The rule that decided. */
            rule_id?: string;
            /** @description The first page has the checks that the caller made with this key in the last 24 hours, however many checks there were since. */
            idempotency_key?: string;
            /** @description The payment of the check, in the namespace of the caller or of principal. */
            payment_key?: string;
            /** @description The principal of the API key that asked. With payment_key: whose payment it is, by default the caller's. */
            principal?: string;
            /** @description Inclusive, in whatever currency. */
            amount_from?: string;
            /** @description Inclusive. */
            amount_to?: string;
            /** @description The approval that the check was sent with. */
            approval_id?: string;
            decision?: components["schemas"]["Decision"];
            /**
             * @description The status of the check's last report. none: allowed checks without a report. in_doubt: redeemed checks of which nobody knows whether they were executed.
             * @enum {string}
             */
            outcome?: "none" | "in_doubt" | "executed" | "failed" | "voided";
            /** @description Inclusive. An RFC 3339 time, UTC without an offset, or a date for the start of its UTC day. */
            from?: string;
            /** @description Inclusive. An RFC 3339 time, UTC without an offset, or a date for the end of its UTC day. */
            to?: string;
            /** @description Exclusive. An RFC 3339 time, UTC without an offset, or a date for the start of its UTC day. */
            before?: string;
            /** @default 20 */
            limit?: number;
        };
        ListPoliciesQuery: {
            /** @default 20 */
            limit?: number;
        };
        GetPolicyQuery: {
            /** @description The version; the latest by default. */
            version?: number;
        };
        ListPolicyVersionsQuery: {
            /** @default 20 */
            limit?: number;
        };
        ListApprovalsQuery: {
            status?: components["schemas"]["ApprovalStatus"];
            policy_id?: string;
            agent_id?: string;
            counterparty?: string;
            /** @description Inclusive, in whatever currency. */
            amount_from?: string;
            /** @description Inclusive. */
            amount_to?: string;
            /** @description When it was asked: a time or a date, which is its whole UTC day. Inclusive. */
            from?: string;
            /** @description As from. Inclusive. */
            to?: string;
            /** @description The principal of somebody who approved or denied it. */
            decided_by?: string;
            /**
             * @description me: the pending approvals, and without filters by the action or by who decided the drafts of policies, that an approval with this key brings forward. A page looks at 500 pending approvals and 100 drafts, so it may be short, or empty, while has_more.
             * @constant
             */
            waiting_for?: "me";
            /** @default 20 */
            limit?: number;
        };
        ListGrantsQuery: {
            policy_id?: components["schemas"]["PolicyID"];
            rule_id?: string;
            agent_id?: string;
            status?: components["schemas"]["GrantStatus"];
            /** @default 20 */
            limit?: number;
        };
        ListFreezesQuery: {
            active?: boolean;
            /**
             * @description Only freezes of everything.
             * @constant
             */
            all?: true;
            policy_id?: components["schemas"]["PolicyID"];
            agent_id?: string;
            principal?: string;
            counterparty?: string;
            /** @default 20 */
            limit?: number;
        };
        ListBacktestsQuery: {
            policy_id?: string;
            status?: components["schemas"]["BacktestStatus"];
            /** @default 20 */
            limit?: number;
        };
        ListFlipsQuery: {
            /** @default 20 */
            limit?: number;
        };
        ListBudgetsQuery: {
            policy_id: components["schemas"]["PolicyID"];
            rule_id?: string;
            /** @description The budgets that count for this agent: those per agent_id, and those that count for all agents together, also without any use. */
            agent_id?: string;
            /** @description Only budgets per counterparty. */
            counterparty?: string;
            /** @description A time: the windows that it lies in. Counters are kept for 48 hours after their window's end. Now by default. */
            at?: string;
            /** @default 20 */
            limit?: number;
        };
        ListEventsQuery: {
            /**
             * Format: int64
             * @description Only events with a greater sequence; 0 begins with the oldest event.
             * @default 0
             */
            after?: number;
            /** @description Only events of this type, or of several, separated by commas. A page may be short, or empty, while has_more. */
            type?: string;
            /** @description Only events from this time on; with after, both hold. An RFC 3339 time, UTC without an offset, or a date for the start of its UTC day. */
            from?: string;
            /** @default 20 */
            limit?: number;
        };
        ListViolationsQuery: {
            agent_id?: string;
            policy_id?: components["schemas"]["PolicyID"];
            action_type?: components["schemas"]["ActionType"];
            /** @enum {string} */
            decision?: "block" | "escalate";
            /** @description Inclusive, in whatever currency. */
            amount_from?: string;
            /** @description Inclusive. */
            amount_to?: string;
            /** @description Inclusive. An RFC 3339 time, UTC without an offset, or a date for the start of its UTC day. */
            from?: string;
            /** @description Inclusive. An RFC 3339 time, UTC without an offset, or a date for the end of its UTC day. */
            to?: string;
            /** @default 20 */
            limit?: number;
        };
        GetStatsQuery: {
            /** @description Inclusive. An RFC 3339 time, UTC without an offset, or a date for the start of its UTC day. */
            from: string;
            /** @description Inclusive. An RFC 3339 time, UTC without an offset, or a date for the end of its UTC day. */
            to: string;
            /**
             * @description The length of a bucket. A range has at most 44,640 buckets.
             * @enum {string}
             */
            step: "minute" | "hour" | "day";
            policy_id?: components["schemas"]["PolicyID"];
            agent_id?: string;
        };
        GetSumsQuery: {
            agent_id?: string;
            policy_id?: components["schemas"]["PolicyID"];
            counterparty?: string;
            /** @description The principal of the API key that asked. */
            principal?: string;
            /** @description The rule that decided. */
            rule_id?: string;
            /** @description Inclusive. An RFC 3339 time, UTC without an offset, or a date for the start of its UTC day. */
            from?: string;
            /** @description Inclusive. An RFC 3339 time, UTC without an offset, or a date for the end of its UTC day. */
            to?: string;
        };
        ListKeysQuery: {
            /** @default 20 */
            limit?: number;
        };
        ListSessionsQuery: {
            /** @default 20 */
            limit?: number;
        };
        ListDeliveriesQuery: {
            /**
             * @description Only attempts that failed.
             * @enum {string}
             */
            status?: "failed";
            /** @default 20 */
            limit?: number;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type ActionType = components['schemas']['ActionType'];
export type Decision = components['schemas']['Decision'];
export type Confidence = components['schemas']['Confidence'];
export type ReasonCode = components['schemas']['ReasonCode'];
export type Timestamp = components['schemas']['Timestamp'];
export type Amount = components['schemas']['Amount'];
export type Sum = components['schemas']['Sum'];
export type CheckId = components['schemas']['CheckID'];
export type OutcomeStatus = components['schemas']['OutcomeStatus'];
export type OutcomeFlag = components['schemas']['OutcomeFlag'];
export type RedemptionId = components['schemas']['RedemptionID'];
export type RedeemRequest = components['schemas']['RedeemRequest'];
export type Redemption = components['schemas']['Redemption'];
export type Payment = components['schemas']['Payment'];
export type PaymentApproval = components['schemas']['PaymentApproval'];
export type InDoubtRequest = components['schemas']['InDoubtRequest'];
export type RecordedRedemption = components['schemas']['RecordedRedemption'];
export type OutcomeRequest = components['schemas']['OutcomeRequest'];
export type Outcome = components['schemas']['Outcome'];
export type PolicyId = components['schemas']['PolicyID'];
export type Metadata = components['schemas']['Metadata'];
export type Action = components['schemas']['Action'];
export type SimulationRequest = components['schemas']['SimulationRequest'];
export type CheckResult = components['schemas']['CheckResult'];
export type RecordedAction = components['schemas']['RecordedAction'];
export type CheckRecord = components['schemas']['CheckRecord'];
export type Simulation = components['schemas']['Simulation'];
export type StatsBucket = components['schemas']['StatsBucket'];
export type Stats = components['schemas']['Stats'];
export type Sums = components['schemas']['Sums'];
export type SummedLatency = components['schemas']['SummedLatency'];
export type CurrencySum = components['schemas']['CurrencySum'];
export type AgentCount = components['schemas']['AgentCount'];
export type CounterpartyCount = components['schemas']['CounterpartyCount'];
export type RuleCount = components['schemas']['RuleCount'];
export type DecisionCounts = components['schemas']['DecisionCounts'];
export type SimulationSummary = components['schemas']['SimulationSummary'];
export type Rule = components['schemas']['Rule'];
export type RuleId = components['schemas']['RuleID'];
export type OptionalDescription = components['schemas']['OptionalDescription'];
export type OptionalActionTypes = components['schemas']['OptionalActionTypes'];
export type Conditions = components['schemas']['Conditions'];
export type Fields = components['schemas']['Fields'];
export type ChangesRequest = components['schemas']['ChangesRequest'];
export type Changes = components['schemas']['Changes'];
export type PolicyRequest = components['schemas']['PolicyRequest'];
export type Policy = components['schemas']['Policy'];
export type DraftRequest = components['schemas']['DraftRequest'];
export type Draft = components['schemas']['Draft'];
export type DraftDecision = components['schemas']['DraftDecision'];
export type DraftApproval = components['schemas']['DraftApproval'];
export type DraftApprovalRequest = components['schemas']['DraftApprovalRequest'];
export type DraftRejectionRequest = components['schemas']['DraftRejectionRequest'];
export type DraftReport = components['schemas']['DraftReport'];
export type Promotion = components['schemas']['Promotion'];
export type PolicyVersion = components['schemas']['PolicyVersion'];
export type PolicyAuthor = components['schemas']['PolicyAuthor'];
export type Violation = components['schemas']['Violation'];
export type Pagination = components['schemas']['Pagination'];
export type ApprovalStatus = components['schemas']['ApprovalStatus'];
export type ApprovalId = components['schemas']['ApprovalID'];
export type ApprovalDecisionRequest = components['schemas']['ApprovalDecisionRequest'];
export type ApprovalItem = components['schemas']['ApprovalItem'];
export type WaitingDraft = components['schemas']['WaitingDraft'];
export type Approval = components['schemas']['Approval'];
export type ApprovalGroup = components['schemas']['ApprovalGroup'];
export type BudgetRemaining = components['schemas']['BudgetRemaining'];
export type ApprovalDecision = components['schemas']['ApprovalDecision'];
export type GroupRequired = components['schemas']['GroupRequired'];
export type Event = components['schemas']['Event'];
export type ConsoleUrl = components['schemas']['ConsoleURL'];
export type EventPage = components['schemas']['EventPage'];
export type GrantId = components['schemas']['GrantID'];
export type GrantStatus = components['schemas']['GrantStatus'];
export type CounterPer = components['schemas']['CounterPer'];
export type GrantRequest = components['schemas']['GrantRequest'];
export type GrantDecision = components['schemas']['GrantDecision'];
export type Grant = components['schemas']['Grant'];
export type GrantPerson = components['schemas']['GrantPerson'];
export type FreezeId = components['schemas']['FreezeID'];
export type FreezeScope = components['schemas']['FreezeScope'];
export type FreezeRequest = components['schemas']['FreezeRequest'];
export type FreezeReleaseRequest = components['schemas']['FreezeReleaseRequest'];
export type Freeze = components['schemas']['Freeze'];
export type FreezeRelease = components['schemas']['FreezeRelease'];
export type FreezeReaches = components['schemas']['FreezeReaches'];
export type EventId = components['schemas']['EventID'];
export type EventSequence = components['schemas']['EventSequence'];
export type PaginationWithoutTotal = components['schemas']['PaginationWithoutTotal'];
export type BacktestStatus = components['schemas']['BacktestStatus'];
export type BacktestState = components['schemas']['BacktestState'];
export type BacktestRequest = components['schemas']['BacktestRequest'];
export type BacktestProgress = components['schemas']['BacktestProgress'];
export type BacktestSummary = components['schemas']['BacktestSummary'];
export type Backtest = components['schemas']['Backtest'];
export type Report = components['schemas']['Report'];
export type ReportRow = components['schemas']['ReportRow'];
export type ReportCell = components['schemas']['ReportCell'];
export type ReportEffects = components['schemas']['ReportEffects'];
export type ReportPeak = components['schemas']['ReportPeak'];
export type Flip = components['schemas']['Flip'];
export type FlipAction = components['schemas']['FlipAction'];
export type Verdict = components['schemas']['Verdict'];
export type Budget = components['schemas']['Budget'];
export type KeyRequest = components['schemas']['KeyRequest'];
export type KeyChange = components['schemas']['KeyChange'];
export type NewKey = components['schemas']['NewKey'];
export type Key = components['schemas']['Key'];
export type Session = components['schemas']['Session'];
export type Role = components['schemas']['Role'];
export type Scope = components['schemas']['Scope'];
export type RoleChange = components['schemas']['RoleChange'];
export type ScopesChange = components['schemas']['ScopesChange'];
export type PolicyIDsChange = components['schemas']['PolicyIDsChange'];
export type AgentIDsChange = components['schemas']['AgentIDsChange'];
export type PrincipalChange = components['schemas']['PrincipalChange'];
export type GroupsChange = components['schemas']['GroupsChange'];
export type ExpiryChange = components['schemas']['ExpiryChange'];
export type EventType = components['schemas']['EventType'];
export type WebhookUrl = components['schemas']['WebhookURL'];
export type WebhookEventTypes = components['schemas']['WebhookEventTypes'];
export type Webhook = components['schemas']['Webhook'];
export type NewWebhook = components['schemas']['NewWebhook'];
export type Retried = components['schemas']['Retried'];
export type Delivery = components['schemas']['Delivery'];
export type Health = components['schemas']['Health'];
export type ErrorBody = components['schemas']['ErrorBody'];
export type ListChecksQuery = components['schemas']['ListChecksQuery'];
export type ListPoliciesQuery = components['schemas']['ListPoliciesQuery'];
export type GetPolicyQuery = components['schemas']['GetPolicyQuery'];
export type ListPolicyVersionsQuery = components['schemas']['ListPolicyVersionsQuery'];
export type ListApprovalsQuery = components['schemas']['ListApprovalsQuery'];
export type ListGrantsQuery = components['schemas']['ListGrantsQuery'];
export type ListFreezesQuery = components['schemas']['ListFreezesQuery'];
export type ListBacktestsQuery = components['schemas']['ListBacktestsQuery'];
export type ListFlipsQuery = components['schemas']['ListFlipsQuery'];
export type ListBudgetsQuery = components['schemas']['ListBudgetsQuery'];
export type ListEventsQuery = components['schemas']['ListEventsQuery'];
export type ListViolationsQuery = components['schemas']['ListViolationsQuery'];
export type GetStatsQuery = components['schemas']['GetStatsQuery'];
export type GetSumsQuery = components['schemas']['GetSumsQuery'];
export type ListKeysQuery = components['schemas']['ListKeysQuery'];
export type ListSessionsQuery = components['schemas']['ListSessionsQuery'];
export type ListDeliveriesQuery = components['schemas']['ListDeliveriesQuery'];
export type $defs = Record<string, never>;
export type operations = Record<string, never>;

import type { Timestamp } from "./types.js";

/** What an API key may do, and whom it belongs to. */
export interface Grants {
  role?: string;
  scopes?: string[];
  policy_ids?: string[];
  agent_ids?: string[];
  principal?: string;
  owner?: string;
  groups?: string[];
  expires_at?: Timestamp;
}

/** The record of an API key. */
export interface Key extends Grants {
  key_id: string;
  name: string;
  /** Of the person who signed in; absent for a key. */
  email?: string;
  rate_limit_rpm: number;
  active: boolean;
  created_at: Timestamp;
  last_used_at: Timestamp | null;
}

export interface KeyRequest extends Grants {
  name: string;
  rate_limit_rpm?: number;
}

/** An API key as it is made: the only time that it is shown. */
export interface NewKey extends Grants {
  key_id: string;
  name: string;
  api_key: string;
  rate_limit_rpm: number;
  created_at: Timestamp;
}

/** A change of a key. null removes a member. */
export type KeyChange = { active?: boolean; name?: string; rate_limit_rpm?: number } & { [M in keyof Grants]?: Grants[M] | null };

/** A person who signed in, with the rights that their groups give. */
export interface Session extends Grants {
  session_id: string;
  name: string;
  email?: string;
  created_at: Timestamp;
  last_used_at: Timestamp;
  ends_at: Timestamp;
}

export interface Webhook {
  webhook_id: string;
  url: string;
  event_types: string[];
  status: "active" | "disabled";
  created_at: Timestamp;
}

/** A webhook with its secret, which is shown only this once. */
export interface NewWebhook extends Webhook {
  secret: string;
}

export interface Delivery {
  delivery_id: string;
  webhook_id: string;
  event_id: string;
  event_type: string;
  sequence: number;
  attempt: number;
  timestamp: Timestamp;
  duration_ms: number;
  delivered: boolean;
  status_code: number | null;
  error: string | null;
  next_attempt_at: Timestamp | null;
}

export interface Health {
  status: "ok";
  version: string;
  timestamp: Timestamp;
}

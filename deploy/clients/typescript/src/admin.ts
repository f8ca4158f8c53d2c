import { type Accept, having, page } from "./accept.js";
import { List } from "./list.js";
import { type CallOptions, type Request, withQuery } from "./send.js";
import type { Delivery, Key, KeyChange, KeyRequest, NewKey, NewWebhook, Session, Webhook } from "./types.js";

type Fetch = <R>(request: Request, accept: Accept<R>) => Promise<R>;

/** Admin has the operations that need the admin key. A request that would act twice is not repeated when it may have been carried out. */
export class Admin {
  readonly #fetch: Fetch;

  constructor(fetch: Fetch) {
    this.#fetch = (request, accept) => fetch({ ...request, admin: true }, accept);
  }

  #list<R>(path: string, query: object, name: string): List<R> {
    return new List((cursor, call) =>
      this.#fetch(
        { ...call, method: "GET", path: withQuery(path, { ...query, cursor }), repeatable: true },
        page<R>(name, cursor),
      ),
    );
  }

  createKey(key: KeyRequest, call?: CallOptions): Promise<NewKey> {
    return this.#fetch({ ...call, method: "POST", path: "/v1/keys", content: key, statuses: [201] }, having("key_id", "api_key"));
  }

  /** updateKey changes a key. When it returns, the change is in force on every node. */
  updateKey(keyId: string, change: KeyChange, call?: CallOptions): Promise<Key> {
    return this.#fetch(
      { ...call, method: "PATCH", path: `/v1/keys/${encodeURIComponent(keyId)}`, content: change, repeatable: true },
      having("key_id"),
    );
  }

  keys(query: { limit?: number } = {}): List<Key> {
    return this.#list("/v1/keys", query, "key_id");
  }

  /** sessions lists who is signed in, newest first. */
  sessions(query: { limit?: number } = {}): List<Session> {
    return this.#list("/v1/sessions", query, "session_id");
  }

  /** endSession ends a session. When it returns, the session has ended on every node. */
  endSession(sessionId: string, call?: CallOptions): Promise<void> {
    return this.#fetch({ ...call, method: "DELETE", path: `/v1/sessions/${encodeURIComponent(sessionId)}`, statuses: [204] }, () => undefined);
  }

  createWebhook(webhook: { url: string; event_types: string[] }, call?: CallOptions): Promise<NewWebhook> {
    return this.#fetch(
      { ...call, method: "POST", path: "/v1/webhooks", content: webhook, statuses: [201] },
      having("webhook_id", "secret"),
    );
  }

  webhooks(): List<Webhook> {
    return this.#list("/v1/webhooks", {}, "webhook_id");
  }

  webhook(webhookId: string, call?: CallOptions): Promise<Webhook> {
    return this.#fetch({ ...call, method: "GET", path: webhookPath(webhookId), repeatable: true }, having("webhook_id"));
  }

  updateWebhook(
    webhookId: string,
    change: { url?: string; event_types?: string[]; status?: "active" | "disabled" },
    call?: CallOptions,
  ): Promise<Webhook> {
    return this.#fetch(
      { ...call, method: "PATCH", path: webhookPath(webhookId), content: change, repeatable: true },
      having("webhook_id"),
    );
  }

  /** deleteWebhook deletes a webhook and its undelivered events. */
  deleteWebhook(webhookId: string, call?: CallOptions): Promise<void> {
    return this.#fetch({ ...call, method: "DELETE", path: webhookPath(webhookId), statuses: [204] }, () => undefined);
  }

  /** rotateWebhook gives a webhook a new secret. For 24 hours the old one signs deliveries, too. */
  rotateWebhook(webhookId: string, call?: CallOptions): Promise<NewWebhook> {
    return this.#fetch({ ...call, method: "POST", path: `${webhookPath(webhookId)}/rotate` }, having("webhook_id", "secret"));
  }

  deliveries(webhookId: string, query: { limit?: number; status?: "failed" } = {}): List<Delivery> {
    return this.#list(`${webhookPath(webhookId)}/deliveries`, query, "delivery_id");
  }

  /** retryWebhook makes the service retry now all events that wait for a retry. */
  retryWebhook(webhookId: string, call?: CallOptions): Promise<{ webhook_id: string; retried: number }> {
    return this.#fetch({ ...call, method: "POST", path: `${webhookPath(webhookId)}/retry`, statuses: [202] }, having("webhook_id"));
  }

  /** replayDelivery makes the service deliver the event of an attempt again. */
  replayDelivery(webhookId: string, deliveryId: string, call?: CallOptions): Promise<Delivery> {
    const path = `${webhookPath(webhookId)}/deliveries/${encodeURIComponent(deliveryId)}/replay`;
    return this.#fetch({ ...call, method: "POST", path, statuses: [202] }, having("delivery_id"));
  }
}

const webhookPath = (webhookId: string) => `/v1/webhooks/${encodeURIComponent(webhookId)}`;

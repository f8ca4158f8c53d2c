import type { OutcomeReport } from "./types.js";

/**
 * The steps that are written down of an idempotency key, each once: the service is about to
 * be asked; it refused to judge, so that another action may be asked for; somebody else may have asked before; the service allowed it to who writes this
 * journal; the body is about to run; it is repeated, or with a report certainly moved nothing,
 * whichever came first; it has ended; nothing is to be done any more.
 */
export const steps = ["asked", "refused", "doubted", "allowed", "began", "repeated", "ended", "closed"] as const;
export type Step = (typeof steps)[number];

/** What is written down of a step: JSON. */
export interface Line {
  key: string;
  /** SHA-256 of the action, as it was asked for and as it began. */
  action?: string;
  /** The nonce of its checks, and what makes the key of a redemption: the same in a later attempt, and known to nobody else. */
  seed?: string;
  check_id?: string;
  /** When the body began, at the earliest. */
  at?: string;
  report?: OutcomeReport;
}

export type Lines = Partial<Record<Step, Line>>;

/**
 * Journal remembers what was begun, over crashes. One journal belongs to all processes that
 * may use the same idempotency keys. A table with a primary key of (key, step) is one, and
 * so is fileJournal of spendgate/journal.
 */
export interface Journal {
  /** add stores a line, durably before it resolves to true. When the key has the step, it changes nothing and resolves to false. */
  add(key: string, step: Step, line: Line): Promise<boolean>;
  read(key: string): Promise<Lines>;
  /** open returns the keys that have doubted or began, and not closed. */
  open(): Promise<string[]>;
}

/** isOpen reports whether a key with these steps is one that Journal.open returns. */
export function isOpen(has: (step: Step) => boolean): boolean {
  return (has("doubted") || has("began")) && !has("closed");
}

/** memoryJournal forgets everything with the process. It is for tests, and for guards that redeem. */
export function memoryJournal(): Journal {
  const keys = new Map<string, Lines>();
  return {
    add: async (key, step, line) => {
      const lines = keys.get(key) ?? {};
      if (lines[step]) return false;
      keys.set(key, { ...lines, [step]: line });
      return true;
    },
    read: async (key) => keys.get(key) ?? {},
    open: async () => [...keys].flatMap(([key, lines]) => (isOpen((step) => step in lines) ? [key] : [])),
  };
}

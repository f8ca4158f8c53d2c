import type { OutcomeReport } from "./types.js";

/**
 * The steps that a journal has of an idempotency key, each at most once. asked: the service is about
 * to be asked. refused: it refused to judge, so that another action may be asked for. doubted:
 * somebody else may have asked before. allowed: it allowed the action to a process with this
 * journal. began: the body is about to run. repeated: the body is repeated, or, with a report, it
 * certainly moved nothing, whichever came first. ended: the body has ended. closed: nothing is left to do.
 */
export const steps = ["asked", "refused", "doubted", "allowed", "began", "repeated", "ended", "closed"] as const;
export type Step = (typeof steps)[number];

/** What a journal stores of a step, as JSON. */
export interface Line {
  key: string;
  /** The SHA-256 of the action: in asked the one that was asked for, in began the one that began. */
  action?: string;
  /** The nonce of the checks, from which the key of a redemption is made, too. It is the same in later attempts, and secret. */
  seed?: string;
  check_id?: string;
  /** The earliest time at which the body may have begun. */
  at?: string;
  report?: OutcomeReport;
}

export type Lines = Partial<Record<Step, Line>>;

/**
 * Journal remembers across crashes what was begun. All processes that may use the same idempotency
 * keys must share one journal. It can be a table with the primary key (key, step), or fileJournal
 * of spendgate/journal.
 */
export interface Journal {
  /** add stores a line, which is durable when it resolves to true. If the key has the step, it changes nothing and resolves to false. */
  add(key: string, step: Step, line: Line): Promise<boolean>;
  read(key: string): Promise<Lines>;
  /** open returns the keys that have the step doubted or began, and not the step closed. */
  open(): Promise<string[]>;
}

/** isOpen reports whether a key with these steps is one that Journal.open returns. */
export function isOpen(has: (step: Step) => boolean): boolean {
  return (has("doubted") || has("began")) && !has("closed");
}

/** memoryJournal forgets everything when the process ends. It is for tests, and for guards that redeem. */
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

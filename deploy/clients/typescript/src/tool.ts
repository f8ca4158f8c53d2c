import { ActionChanged, ApprovalExpired, ApprovalPending, BadKey, Blocked, Denied, Differs, Escalated, Frozen, InDoubt, SpendgateError, Unanswered } from "./errors.js";
import type { Guarded } from "./guard-types.js";

/** What a call of a tool came to. It is plain JSON, for a model and for a library that stores it. */
export interface Told {
  state:
    | "executed" // by this call, or before
    | "failed" // the provider moved nothing
    | "invalid" // the arguments; nothing was asked
    | "refused" | "pending" | "denied" | "expired"
    | "in_doubt" // it may have been carried out
    | "unanswered" // this call carried nothing out; it may be made again
    | "error";
  /** What happened and what to do next, for a model. It never reads like a success if it was none. */
  message: string;
  /** What the provider calls the payment, as it was reported. */
  reference: string | null;
  approval_id?: string;
}

/** A schema of zod 4, Valibot, ArkType or another library with Standard Schema. */
export interface Schema<I> {
  readonly "~standard": {
    readonly validate: (value: unknown) => Validated<I> | Promise<Validated<I>>;
    readonly jsonSchema?: { readonly input: (options: { target: "draft-2020-12" }) => Record<string, unknown> };
  };
}
type Validated<I> = { readonly value: I; readonly issues?: undefined } | { readonly issues: readonly Issue[] };
interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

export interface ToolOptions<I> {
  name: string;
  description: string;
  schema: Schema<I>;
  /** The schema as JSON Schema, if it cannot say that itself. */
  parameters?: Record<string, unknown>;
}

/** A guarded function as a tool of any library. */
export interface Tool {
  name: string;
  description: string;
  /** The JSON Schema of the arguments. */
  parameters: Record<string, unknown>;
  /** call validates arguments, carries them out as the guard does, and tells what came of it. It throws only what the plan's functions throw. */
  call(given: unknown): Promise<Told>;
  /** pending asks the service, and returns whether the payment waits for people. Nothing is carried out. */
  pending(given: unknown): Promise<boolean>;
}

/** tool makes a tool of a guarded function. Arguments are validated by its schema before anything is asked. */
export function tool<I, R>(guarded: Guarded<I, R>, { name, description, schema, parameters }: ToolOptions<I>): Tool {
  const { validate, jsonSchema } = schema["~standard"];
  const json = parameters ?? jsonSchema?.input({ target: "draft-2020-12" });
  if (!json) throw new TypeError(`the schema of ${name} does not say its JSON Schema: give that as parameters`);
  return {
    name,
    description,
    parameters: { ...json }, // zod's has hidden members, which make it a schema of another kind
    call: async (given) => {
      const checked = await validate(given);
      if (checked.issues) return invalid(checked.issues.map(worded).join("; "));
      try {
        const { state, isNew, value, reference, problem } = await guarded.run(checked.value);
        if (state === "failed") return { state, message: `Not carried out: it failed. ${said(problem ?? value)}`.trim(), reference };
        const as = reference === null ? "" : `, as ${reference}`;
        const message = isNew ? said(value) || `Carried out${as}.` : `Carried out before${as}. It is not repeated.`;
        return { state, message, reference };
      } catch (problem) {
        return told(problem);
      }
    },
    pending: async (given) => {
      const checked = await validate(given);
      return !checked.issues && (await guarded.pending(checked.value).catch(() => false)); // call says why
    },
  };
}

const invalid = (why: string): Told => ({ state: "invalid", message: `Not carried out: ${why}. Nothing was asked.`, reference: null });

function worded({ message, path = [] }: Issue): string {
  const names = path.map((part) => String(typeof part === "object" ? part.key : part));
  return names.length ? `${names.join(".")}: ${message}` : message;
}

function said(value: unknown): string {
  return value instanceof Error ? value.message : typeof value === "string" ? value : "";
}

// A class must come before the class that it extends.
const states: [new (...args: never[]) => SpendgateError, Told["state"], string][] = [
  [Blocked, "refused", "Not carried out."],
  [Escalated, "refused", "Not carried out."],
  [Differs, "refused", "Not carried out."],
  [Frozen, "refused", "Not carried out."],
  [ActionChanged, "refused", ""],
  [ApprovalPending, "pending", "Not carried out yet."],
  [ApprovalExpired, "expired", "Not carried out."],
  [Denied, "denied", "Not carried out."],
  [Unanswered, "unanswered", ""],
  [InDoubt, "in_doubt", ""],
  [SpendgateError, "error", "Not carried out."],
];

function told(problem: unknown): Told {
  if (problem instanceof RangeError || problem instanceof BadKey) return invalid(problem.message); // an amount that nobody can pay
  const [, state, before] = states.find(([type]) => problem instanceof type) ?? [];
  if (!state) throw problem;
  const { message, approvalId = "" } = problem as ApprovalPending;
  return {
    state,
    message: [before, message].filter(Boolean).join(" "),
    reference: null,
    ...(approvalId ? { approval_id: approvalId } : {}),
  };
}

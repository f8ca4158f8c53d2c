import { createCheck, createPolicy, listEvents, type Action, type PolicyRequest } from "./generated";

export type { Action, CheckResult, Rule } from "./generated";

const options = { headers: { "X-API-Key": process.env.KEY! } };

export async function post(body: PolicyRequest) {
  const { status, data } = await createPolicy(body, options);
  if (status !== 201) throw new Error(data.error.message);
  return data;
}

export async function check(body: Action) {
  const { status, data, headers } = await createCheck(body, { headers: { ...options.headers, Prefer: "amounts=string" } });
  const replayed = headers.get("Idempotent-Replayed");
  return status === 200 ? { result: data, replayed } : { error: data, replayed };
}

export async function events() {
  const { status, data } = await listEvents({ limit: 100 }, options);
  if (status !== 200) throw new Error(data.error.message);
  return data.data;
}

import { createCheck, createPolicy, listEvents, type Action, type PolicyRequest } from "./generated";
import { client } from "./generated/client.gen";

export type { Action, CheckResult, Rule } from "./generated";

client.setConfig({ baseUrl: process.env.API!, auth: process.env.KEY! });

export async function post(body: PolicyRequest) {
  return (await createPolicy({ body, throwOnError: true })).data;
}

export async function check(body: Action) {
  const { data: result, error, response } = await createCheck({ body, headers: { Prefer: "amounts=string" } });
  return { result, error, replayed: response.headers.get("Idempotent-Replayed") };
}

export async function events() {
  return (await listEvents({ query: { limit: 100 }, throwOnError: true })).data.data;
}

import createClient from "openapi-fetch";
import type { components, paths } from "./generated";

type Schemas = components["schemas"];
export type Action = Schemas["Action"];
export type CheckResult = Schemas["CheckResult"];
export type Rule = Schemas["Rule"];

const api = createClient<paths>({ baseUrl: process.env.API!, headers: { "X-API-Key": process.env.KEY! } });

export async function post(body: Schemas["PolicyRequest"]) {
  const { data, error } = await api.POST("/v1/policies", { body });
  if (error) throw new Error(error.error.message);
  return data;
}

export async function check(body: Action) {
  const { data: result, error, response } = await api.POST("/v1/checks", { body, params: { header: { Prefer: "amounts=string" } } });
  return { result, error, replayed: response.headers.get("Idempotent-Replayed") };
}

export async function events() {
  const { data, error } = await api.GET("/v1/events", { params: { query: { limit: 100 } } });
  if (error) throw new Error(error.error.message);
  return data.data;
}

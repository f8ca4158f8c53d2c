// Writes the structures of openapi.yaml for both packages: node generate.mjs openapi.yaml generated.ts generated.py
import { readFileSync, writeFileSync } from "node:fs";
import { parseYaml } from "@redocly/openapi-core"; // which openapi-typescript reads documents with
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";

const [source, typescript, python] = process.argv.slice(2);
const { openapi, info, paths, components } = parseYaml(readFileSync(source, "utf8"));
const { schemas } = components;
const header = "Generated from openapi.yaml by `go test ./deploy/clients -run TestGeneratedTypes -write-types`.";
const anything = { type: ["object", "null"], additionalProperties: true };
const nameOf = ({ $ref }) => $ref?.split("/").pop();

// Later versions may have more kinds of rules and events. So one structure has any kind, as a text, with any members inside.
for (const [union, kind, inside] of [["Rule", "rule_type", "parameters"], ["Event", "type", "data"]]) {
  const { description, oneOf: [{ $ref }] } = schemas[union];
  const { required, properties } = schemas[nameOf({ $ref })];
  const members = { ...properties, [kind]: { type: "string" }, [inside]: { ...anything, type: "object" } };
  schemas[union] = { description, type: "object", required, properties: members };
}
for (const open of ["EventType", "ReasonCode", "Role", "Scope"]) delete schemas[open].enum;
schemas.Metadata = anything;

/** used returns the schemas that a part of the document refers to, and those that they refer to, in the document's order. */
function used(part) {
  const names = new Set();
  (function visit(node) {
    if (typeof node !== "object" || node === null) return;
    const [, , kind, name] = node.$ref?.split("/") ?? [];
    if (kind && !(kind === "schemas" && names.has(name))) {
      if (kind === "schemas") names.add(name);
      visit(components[kind][name]);
    }
    Object.values(node).forEach(visit);
  })(part);
  return Object.entries(schemas).filter(([name]) => names.has(name));
}

const operations = Object.values(paths).flatMap(Object.values);

// The filters of a list are a structure, too.
const queries = {};
for (const { operationId, parameters = [] } of operations) {
  const all = parameters.map((parameter) => components.parameters[nameOf(parameter)] ?? parameter);
  const filters = all.filter((parameter) => parameter.in === "query" && parameter.name !== "cursor");
  if (filters.length > 0) queries[`${operationId.replace(/^./, (first) => first.toUpperCase())}Query`] = {
    type: "object",
    required: filters.filter(({ required }) => required).map(({ name }) => name),
    properties: Object.fromEntries(filters.map(({ name, description, schema }) => [name, { description, ...schema }])),
  };
}

const { createTypeReferenceNode: named, createUnionTypeNode: union } = ts.factory;
const exact = union([named("number"), named("ExactNumber")]);
const money = ["#/components/schemas/Amount", "#/components/schemas/Sum"];
const nodes = await openapiTS(
  { openapi, info, paths: {}, components: { schemas: { ...Object.fromEntries(used(paths)), ...queries } } },
  {
    defaultNonNullable: false,
    rootTypes: true,
    rootTypesNoSchemaPrefix: true,
    inject: 'import type { ExactNumber } from "./json.js";\nimport type { JsonObject } from "./types.js";\n',
    transform({ type, format, properties, additionalProperties }, { path }) {
      if (money.includes(path)) return named("string");
      if (type === "number" && format !== "double") return exact;
      if (type === "object" && additionalProperties === true && !properties) return named("JsonObject");
    },
  },
);
writeFileSync(typescript, `// ${header}\n${astToString(nodes)}`);

// In Python: dataclasses of what the service answers. The package adds members and properties to some of them, by a base class.
const bases = {
  CheckResult: "Judged", Outcome: "Replayable", Redemption: "Replayable", Approval: "Polled", Backtest: "Ending", BacktestSummary: "Ending",
};
const plain = ["Changes", "Report"]; // dicts, as they came
const restricted = ["Key", "NewKey", "Session"]; // with None, and not an empty list, for what is not restricted
const className = (name) => (name === "CheckResult" ? "Result" : name);
const isClass = (name) => schemas[name].properties && !plain.includes(name);
const isNull = ({ type }) => type === "null";
const variants = ({ anyOf, oneOf }) => anyOf ?? oneOf;

/** nullable reports whether a value of a schema may be null. */
function nullable(schema) {
  return schema.$ref ? nullable(schemas[nameOf(schema)]) : (variants(schema)?.some(nullable) ?? [schema.type].flat().includes("null"));
}

/** hint returns the Python type of a schema's values that are not null. */
function hint(schema) {
  const name = nameOf(schema);
  if (name === "Amount") return "Decimal";
  if (name) return isClass(name) || schemas[name].enum ? className(name) : hint(schemas[name]);
  if (variants(schema)) return [...new Set(variants(schema).filter((variant) => !isNull(variant)).map(hint))].join(" | ");
  const { format, items, additionalProperties } = schema;
  const type = [schema.type].flat().find((type) => type !== "null");
  if (type === "array") return `list[${hint(items)}]`;
  if (type === "object") return `dict[str, ${additionalProperties?.type ? hint(additionalProperties) : "Any"}]`;
  if (type === "string") return format === "date-time" ? "datetime" : "str";
  return { integer: "int", boolean: "bool", number: "Decimal" }[type];
}

/** member returns the line of a class's member, with a comment above. Members that may be absent or null have a default. */
function member(of, name, schema, required) {
  const type = hint(schema);
  let rest = type;
  if (nullable(schema)) rest = `${type} | None = None`;
  else if (!required) {
    if (type === "bool") rest = "bool = False";
    else if (type.startsWith("list") && !restricted.includes(of)) rest = `${type} = field(default_factory=list)`;
    else rest = `${type} | None = None`;
  } else if (schema.format === "password") rest = `${type} = field(repr=False)`;
  const said = schema.description ?? (schema.enum && schema.enum.join(", "));
  return `${said ? `    # ${said.trim().replaceAll("\n", " ")}\n` : ""}    ${name === "from" ? "from_" : name}: ${rest}\n`;
}

function dataclass([name, { description, required = [], properties }]) {
  const members = Object.entries(properties).map(([member_, schema]) => member(name, member_, schema, required.includes(member_)));
  const said = description ? `    """${description.trim()}"""\n\n` : "";
  return `@dataclass(frozen=True, kw_only=True)\nclass ${className(name)}${bases[name] ? `(${bases[name]})` : ""}:\n${said}${members.join("")}`;
}

const answers = operations.map(({ responses }) => Object.entries(responses ?? {}).filter(([status]) => status < "3"));
const known = used(answers);
const enums = known.filter(([, schema]) => schema.enum);
const classes = known.filter(([name]) => isClass(name) && !/^(Pagination|Report|GroupRequired)/.test(name));
writeFileSync(
  python,
  `"""The service's answers. ${header}"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from .answers import ${[...new Set(Object.values(bases))].sort().join(", ")}

__all__ = [
${[...enums, ...classes].map(([name]) => `    "${className(name)}",\n`).join("")}]

${enums.map(([name, schema]) => `${name} = Literal[${schema.enum.map((value) => JSON.stringify(value)).join(", ")}]\n`).join("")}

${classes.map(dataclass).join("\n\n")}`,
);

import { type OperationInputs, bodySchema } from "../src/api/input.ts";
import { ANSWERS, INPUTS } from "../src/api/operations.ts";
import { type JsonSchema, namedSchemas } from "../src/api/schema.ts";
import type { Setting } from "../src/config/setting-rule.ts";
import { SETTING_LIST } from "../src/config/setting.ts";
import { STATUS_TABLE } from "../src/domain/status.ts";
import { OTHERWISE } from "../src/embedded/settings.ts";

/**
 * Writes `src/client/api.ts` as the package's users have it: types of their own with the schemas' descriptions, where
 * the sources compute them from the schemas. A test holds the two against each other.
 */
export function apiTypes(): string {
  const operations = Object.keys(ANSWERS).filter((key) => !OTHERS.test(key));
  const inputs: Readonly<Record<string, OperationInputs>> = INPUTS;
  const schemas: Readonly<Record<string, JsonSchema>> = ANSWERS;
  const takes = (key: string): OperationInputs => inputs[key] ?? {};
  const used = operations.map((key) => [schemas[key], bodyOf(takes(key))]);
  const named = Object.entries(namedSchemas(used)).map(
    ([name, schema]) => `${comment(schema)}export type ${name} = ${typeOf(schema)};\n`,
  );
  return [
    `export type Code = ${Object.keys(STATUS_TABLE).join(" | ")};\n`,
    "export type Operation = keyof Answers;\n",
    table("Answers", operations, (key) => typeOf(schemas[key] ?? {})),
    table("Queries", operations, (key) => queryType(takes(key))),
    table("Bodies", operations, (key) => bodyType(takes(key))),
    ...named,
  ].join("\n");
}

/** Operations of the operator, of workers and of the browser's sessions. */
const OTHERS = /^[A-Z]+ \/(?:v1\/operator|v1\/worker|v1\/session|metrics)/;

function table(
  name: string,
  operations: readonly string[],
  typeIn: (key: string) => string,
): string {
  const rows = operations.map((key) => `  readonly ${JSON.stringify(key)}: ${typeIn(key)};\n`);
  return `export interface ${name} {\n${rows.join("")}}\n`;
}

const NOTHING = "Readonly<Record<string, never>>";

function queryType({ query = {} }: OperationInputs): string {
  const schema = bodySchema(query);
  if (Object.keys(query).length === 0) return NOTHING;
  // A query has no null: what may be absent is left out.
  const properties = Object.fromEntries(
    Object.entries(query).map(([name, { schema: own, description }]) => {
      return [name, { ...own, ...(description === "" ? {} : { description }) }];
    }),
  );
  return typeOf({ ...schema, properties });
}

// The daemon's own limit is of no matter to types.
const ANY_NUMBER = 100;

function bodyOf({ body, json }: OperationInputs): JsonSchema | null {
  if (json !== undefined) return json(ANY_NUMBER);
  return body === undefined ? null : bodySchema(body);
}

function bodyType(takes: OperationInputs): string {
  const schema = bodyOf(takes);
  if (schema === null) return "undefined";
  const type = Object.keys(takes.body ?? { any: true }).length === 0 ? NOTHING : typeOf(schema);
  return takes.isBodyOptional === true ? `${type} | undefined` : type;
}

/** The type of the values that fit a schema, as TypeScript. */
export function typeOf(schema: JsonSchema): string {
  const { $ref, anyOf, const: constant, enum: words, type } = schema;
  if (typeof $ref === "string") return $ref.slice($ref.lastIndexOf("/") + 1);
  if (Array.isArray(anyOf)) return anyOf.map(typeOf).join(" | ");
  if (constant !== undefined) return JSON.stringify(constant);
  if (Array.isArray(type)) return type.map((one) => typeOf({ ...schema, type: one })).join(" | ");
  if (type === "null") return "null";
  if (type === "string" && Array.isArray(words)) {
    const texts = words.filter((word) => typeof word === "string");
    return texts.map((word) => JSON.stringify(word)).join(" | ");
  }
  return plainType(schema);
}

function plainType(schema: JsonSchema): string {
  switch (schema["type"]) {
    case "string":
      return "string";
    case "integer":
    case "number":
      return "number";
    case "boolean":
      return "boolean";
    case "array":
      return arrayType(schema);
    case "object":
      return objectType(schema);
    default:
      return "unknown";
  }
}

function arrayType({ items, minItems, maxItems }: JsonSchema): string {
  const item = typeOf(Object(items));
  const isPair = minItems === 2 && maxItems === 2;
  return isPair ? `readonly [name: ${item}, value: ${item}]` : `readonly (${item})[]`;
}

function objectType({ properties, required, additionalProperties }: JsonSchema): string {
  if (properties === undefined) {
    return `Readonly<Record<string, ${typeOf(Object(additionalProperties))}>>`;
  }
  const names = new Set<unknown>(Array.isArray(required) ? required : []);
  const members = Object.entries<JsonSchema>(Object(properties)).map(([name, schema]) => {
    const isRequired = names.has(name);
    const mark = isRequired ? ":" : "?:";
    const type = typeOf(schema) + (isRequired ? "" : " | undefined");
    return `${comment(schema)}readonly ${name}${mark} ${type};\n`;
  });
  if (typeof additionalProperties === "object") {
    members.push(`readonly [name: string]: ${typeOf(Object(additionalProperties))};\n`);
  }
  return `{\n${members.join("").replaceAll(/^(?=.)/gm, "  ")}}`;
}

/** The description, if it exists; a table in Markdown is not a comment. */
function comment({ description }: JsonSchema): string {
  if (typeof description !== "string" || description.includes("| --- |")) return "";
  return `/** ${description.replaceAll("*/", "*\\/")} */\n`;
}

/**
 * Writes `src/embedded/config-settings.ts` as the package's users have it: an interface with a member for each key of a
 * `postbackd.toml` that `createDaemon` reads.
 */
export function configTypes(): string {
  const root = newTable();
  for (const setting of SETTING_LIST) {
    if (setting.inFile && !OTHERWISE.has(setting.key)) place(setting, root);
  }
  root.properties["marketplaces"] = MARKETPLACES;
  return `export interface ConfigSettings ${typeOf(root)}\n`;
}

interface Table extends JsonSchema {
  readonly type: "object";
  readonly properties: Record<string, JsonSchema>;
}

function newTable(): Table {
  return { type: "object", properties: {} };
}

/** `limits.account.bytes` is a member of the table `account` in the table `limits`. */
function place({ key, rule, description, default: standard }: Setting, root: Table): void {
  const path = key.split(".");
  const name = path.pop() ?? "";
  let table = root;
  for (const section of path) {
    const known = table.properties[section] ?? newTable();
    table.properties[section] = known;
    table = known as Table;
  }
  const isEmpty = standard === null || (Array.isArray(standard) && standard.length === 0);
  const note = isEmpty ? "" : ` (${JSON.stringify(standard)} unless given)`;
  table.properties[name] = { ...rule.schema, description: `${description}${note}.` };
}

const MARKETPLACES: JsonSchema = {
  description: "Marketplaces that tasks may name; any further key of one is shown to clients.",
  type: "array",
  items: {
    type: "object",
    properties: { code: { type: "string" }, name: { type: "string" } },
    required: ["code", "name"],
    additionalProperties: {},
  },
};

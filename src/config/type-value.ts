import { LEASE_MS_MAX, LEASE_MS_MIN } from "../domain/lease/lease.ts";
import { DURATION, fault, rule, type Rule, quote } from "../domain/rule.ts";
import type { TaskFunction } from "../domain/task/function.ts";
import type { CommandLine } from "../domain/task/run.ts";
import { hasControl } from "../domain/text.ts";
import { isTable, keyPart } from "./file.ts";
import { PATH, type SettingRule } from "./setting-rule.ts";

/** Program and arguments; one of them may be a secret. */
export const COMMAND_LINE: Rule<CommandLine> = rule({
  takes: 'a list of texts, such as ["ffprobe-json", "-v"]: no shell reads it',
  hint: "COMMAND",
  form: "list",
  schema: { type: "array", items: { type: "string" }, minItems: 1 },
  isSecret: true,
  read(raw) {
    const parts: unknown[] = Array.isArray(raw) ? raw : [];
    const [program, ...args] = parts.filter(isArgument);
    if (program === undefined || program === "" || args.length + 1 !== parts.length) return null;
    return Object.freeze<CommandLine>([program, ...args]);
  },
});

/** A NUL would end an argument early in the system call, so spawn throws on it. */
function isArgument(part: unknown): part is string {
  return typeof part === "string" && !part.includes("\0");
}

const TEXT_TABLE = {
  hint: "TABLE",
  form: "text",
  schema: { type: "object", additionalProperties: { type: "string" } },
} as const;

/** Variables by name. Never quoted in a fault: a value may be a secret. */
export const ENVIRONMENT: Rule<Readonly<Record<string, string>>> = {
  ...TEXT_TABLE,
  takes: 'a table of texts, such as { LANG = "C.UTF-8" }',
  parse(raw) {
    if (!isTable(raw)) return fault(`must be ${ENVIRONMENT.takes}`);
    const variables: [string, string][] = [];
    for (const [name, value] of Object.entries(raw)) {
      if (name === "" || name.includes("=") || hasControl(name)) {
        return fault("has a name that is empty, or contains = or a control character");
      }
      if (typeof value !== "string" || value.includes("\0")) {
        return fault(`must give a text without NUL for ${keyPart(name)}`);
      }
      variables.push([name, value]);
    }
    // fromEntries defines properties and does not set them, so `__proto__` is a name like any other.
    return { kind: "value", value: Object.freeze(Object.fromEntries(variables)) };
  },
};

/** An http or https URL of the operator's own. Never quoted in a fault: its query may hold a secret. */
export const SERVICE_URL: SettingRule<string> = {
  takes: 'an http or https URL, such as "http://127.0.0.1:9000/resize"',
  hint: "URL",
  form: "text",
  schema: { type: "string", format: "uri" },
  parse(raw) {
    const url = typeof raw === "string" && !hasControl(raw) ? URL.parse(raw) : null;
    if (url === null || !/^https?:$/.test(url.protocol))
      return fault(`must be ${SERVICE_URL.takes}`);
    if (url.username !== "" || url.password !== "") {
      return fault('must hold no user and password: give headers = { Authorization = "…" }');
    }
    url.hash = "";
    return { kind: "value", value: url.href };
  },
  shown: (url) => url.replace(/\?.*$/, "?…"),
};

// RFC 9110 §5.6.2 and §5.5, without obs-text, which all servers read alike.
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const HEADER_VALUE = /^[\t\x20-\x7e]*$/;

/** The headers that the runner itself sets or leaves out, so that the request is valid and its answer can be read. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  ...["accept-encoding", "connection", "content-encoding", "content-length", "content-type"],
  ...["expect", "host", "idempotency-key", "keep-alive", "proxy-connection", "te", "trailer"],
  ...["transfer-encoding", "upgrade"],
]);

/** Headers by lower-case name. Never quoted in a fault: a value may be a secret. */
export const REQUEST_HEADERS: Rule<Readonly<Record<string, string>>> = {
  ...TEXT_TABLE,
  takes: 'a table of texts, such as { Authorization = "…" }',
  parse(raw) {
    if (!isTable(raw)) return fault(`must be ${REQUEST_HEADERS.takes}`);
    const headers = new Map<string, string>();
    for (const [given, value] of Object.entries(raw)) {
      const name = given.toLowerCase();
      if (!HEADER_NAME.test(given)) return fault("has a name that is not a valid header name");
      if (OWN_HEADERS.has(name)) return fault(`must not set ${name}: the runner does`);
      if (headers.has(name)) return fault(`names ${name} twice: case is ignored`);
      if (typeof value !== "string" || !HEADER_VALUE.test(value)) {
        return fault(`must give printable ASCII text for ${name}`);
      }
      headers.set(name, value);
    }
    return { kind: "value", value: Object.freeze(Object.fromEntries(headers)) };
  },
};

/** Paths of files by name. Each holds the value of a variable or header, as of a mounted secret. */
export const SECRET_FILES: SettingRule<Readonly<Record<string, string>>> = {
  ...TEXT_TABLE,
  takes: 'a table of paths, such as { API_TOKEN = "/run/secrets/token" }',
  parse(raw, folder) {
    if (!isTable(raw)) return fault(`must be ${SECRET_FILES.takes}`);
    const files: [string, string][] = [];
    for (const [name, given] of Object.entries(raw)) {
      const path = PATH.parse(given, folder);
      if (path.kind === "fault") return fault(`must give a path for ${keyPart(name)}`);
      files.push([name, path.value]);
    }
    return { kind: "value", value: Object.freeze(Object.fromEntries(files)) };
  },
};

/** A function of the program that embeds the daemon. */
export const TASK_FUNCTION: Rule<TaskFunction> = rule({
  takes: "a function: async (task, { signal }) => …",
  hint: "FUNCTION",
  schema: {},
  isSecret: true,
  read: (raw) => (isFunction(raw) ? raw : null),
});

// The parameters and results of a function are unknown from outside: its runner accepts any value.
function isFunction(value: unknown): value is TaskFunction {
  return typeof value === "function";
}

/** Shorter leases would end between two heartbeats, longer ones would keep a dead worker's tasks. */
export const LEASE_DURATION: Rule<number> = {
  ...DURATION,
  takes: "a time from 1s to 1h",
  parse(raw) {
    const parsed = DURATION.parse(raw);
    if (parsed.kind === "fault") return parsed;
    const isWithin = parsed.value >= LEASE_MS_MIN && parsed.value <= LEASE_MS_MAX;
    return isWithin ? parsed : fault(`must be ${LEASE_DURATION.takes}, not ${quote(raw)}`);
  },
};

import type { CommandLine } from "../domain/command-line.ts";
import { LEASE_MS_MAX, LEASE_MS_MIN } from "../domain/lease.ts";
import type { TaskFunction } from "../domain/task-function.ts";
import { hasControl } from "../domain/text.ts";
import { isTable, keyPart } from "./file.ts";
import { duration, fault } from "./value.ts";
import type { ValueKind } from "./value.ts";

/** What the keys of a type may hold that no other setting has. */

/** Program and arguments. Never quoted in a fault: an argument may be a secret. */
export const commandLine: ValueKind<CommandLine> = {
  form: "list",
  hint: "COMMAND",
  parse(raw) {
    const parts: unknown[] = Array.isArray(raw) ? raw : [];
    const [program, ...args] = parts.filter(isArgument);
    if (program !== undefined && program !== "" && args.length + 1 === parts.length) {
      const command: CommandLine = [program, ...args];
      return { kind: "value", value: Object.freeze(command) };
    }
    return fault('must be a list of texts, such as ["ffprobe-json", "-v"]: no shell reads it');
  },
};

/** A NUL would end an argument early in the system call, so spawn throws. */
function isArgument(part: unknown): part is string {
  return typeof part === "string" && !part.includes("\0");
}

/** Variables by name. Never quoted in a fault: a value may be a secret. */
export const environment: ValueKind<Readonly<Record<string, string>>> = {
  form: "text",
  hint: "TABLE",
  parse(raw) {
    if (!isTable(raw)) return fault('must be a table of texts, such as { LANG = "C.UTF-8" }');
    const variables: [string, string][] = [];
    for (const [name, value] of Object.entries(raw)) {
      if (name === "" || name.includes("=") || hasControl(name)) {
        return fault("has a name that is empty or holds = or a control character");
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
export const serviceUrl: ValueKind<string> = {
  form: "text",
  hint: "URL",
  parse(raw) {
    const url = typeof raw === "string" && !hasControl(raw) ? URL.parse(raw) : null;
    if (url === null || !/^https?:$/.test(url.protocol)) {
      return fault('must be an http or https URL, such as "http://127.0.0.1:9000/resize"');
    }
    if (url.username !== "" || url.password !== "") {
      return fault('must hold no user and password: give headers = { Authorization = "…" }');
    }
    url.hash = "";
    return { kind: "value", value: url.href };
  },
  shown: (url) => url.replace(/\?.*$/, "?…"),
};

// RFC 9110 §5.6.2 and §5.5, without obs-text: what every server reads alike.
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const HEADER_VALUE = /^[\t\x20-\x7e]*$/;

/** Those that the runner itself sets or leaves out, for the request to be one and its answer to be read. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  ...["accept-encoding", "connection", "content-encoding", "content-length", "content-type"],
  ...["expect", "host", "idempotency-key", "keep-alive", "proxy-connection", "te", "trailer"],
  ...["transfer-encoding", "upgrade"],
]);

/** Headers by lower-case name. Never quoted in a fault: a value may be a secret. */
export const requestHeaders: ValueKind<Readonly<Record<string, string>>> = {
  form: "text",
  hint: "TABLE",
  parse(raw) {
    if (!isTable(raw)) return fault('must be a table of texts, such as { Authorization = "…" }');
    const headers = new Map<string, string>();
    for (const [given, value] of Object.entries(raw)) {
      const name = given.toLowerCase();
      if (!HEADER_NAME.test(given)) return fault("has a name that is no header's");
      if (OWN_HEADERS.has(name)) return fault(`must not set ${name}: the runner does`);
      if (headers.has(name)) return fault(`names ${name} twice: upper and lower case are the same`);
      if (typeof value !== "string" || !HEADER_VALUE.test(value)) {
        return fault(`must give printable ASCII text for ${name}`);
      }
      headers.set(name, value);
    }
    return { kind: "value", value: Object.freeze(Object.fromEntries(headers)) };
  },
};

/** A function of the program that embeds the daemon. */
export const taskFunction: ValueKind<TaskFunction> = {
  form: "text",
  hint: "FUNCTION",
  parse: (raw) =>
    isFunction(raw)
      ? { kind: "value", value: raw }
      : fault("must be a function: async (task, { signal }) => …"),
};

// What a function takes and gives cannot be told from outside: its runner takes whatever comes.
function isFunction(value: unknown): value is TaskFunction {
  return typeof value === "function";
}

/** How long a lease holds: shorter ones run out between two heartbeats, longer ones keep a dead worker's tasks. */
export const leaseDuration: ValueKind<number> = {
  ...duration,
  parse(raw, folder) {
    const parsed = duration.parse(raw, folder);
    if (parsed.kind === "fault") return parsed;
    const isFine = parsed.value >= LEASE_MS_MIN && parsed.value <= LEASE_MS_MAX;
    return isFine ? parsed : fault("must be a time from 1s to 1h");
  },
};

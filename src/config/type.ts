import { hasControl } from "../domain/text.ts";
import { isTable, keyPart } from "./file.ts";
import type { FileTable } from "./file.ts";
import { takeValue } from "./layer.ts";
import type { Findings, Given } from "./layer.ts";
import { duration, fault, integerBetween, nearestName, path, quote } from "./value.ts";
import type { ValueKind } from "./value.ts";

/** How tasks of one type are run. */
export type TypeConfig = EchoTypeConfig | CommandTypeConfig;

/** What a type of any kind has. */
export interface TypeLimits {
  readonly name: string;
  /** From the start of a run to its end. */
  readonly timeoutMs: number;
  /** Runs at once. */
  readonly concurrency: number;
  /** Further runs after a failed one; 0 is none. */
  readonly retries: number;
}

/** `runner = "echo"`: the result is the input. */
export interface EchoTypeConfig extends TypeLimits {
  readonly kind: "echo";
}

/** `command = […]`: one process per task. */
export interface CommandTypeConfig extends TypeLimits {
  readonly kind: "command";
  /** Program and arguments; no shell reads them. */
  readonly command: CommandLine;
  /** The operator's own variables for the process. They may be secrets: never log them. */
  readonly env: Readonly<Record<string, string>>;
  /** Absolute. The folder of the configuration file unless the type says otherwise. */
  readonly cwd: string;
}

/** A program and its arguments, as a runner takes them. */
export type CommandLine = readonly [program: string, ...args: string[]];

/** The kinds of contract §6 that a configuration can name. */
type TypeKind = "echo" | "command" | "http" | "worker";

const KIND_KEYS = ["runner", "command", "url"] as const;

/** Kinds each key is for. `http` and `worker` are here to be refused by name. */
const TYPE_KEYS: ReadonlyMap<string, readonly TypeKind[]> = new Map([
  ["runner", ["echo", "worker"]],
  ["command", ["command"]],
  ["url", ["http"]],
  ["timeout", ["echo", "command", "http", "worker"]],
  ["concurrency", ["echo", "command", "http", "worker"]],
  ["retries", ["echo", "command", "http", "worker"]],
  ["env", ["command"]],
  ["cwd", ["command"]],
  ["headers", ["http"]],
  ["lease", ["worker"]],
]);

/** An echo takes no time of its own; this only sets how many tasks are claimed at once. */
const ECHO_CONCURRENCY = 256;

/** Each run is a process: more at once than a small machine has cores would slow them all. */
const COMMAND_CONCURRENCY = 4;

/** A type as it stands in the file, and what is needed to judge it. */
interface TypeEntry {
  readonly name: string;
  /** `types.NAME`. */
  readonly key: string;
  readonly table: FileTable;
  readonly source: string;
  readonly folder: string;
  readonly findings: Findings;
}

/** The configured task types by name; where none is defined, one `echo`. */
export function parseTypes(
  given: Given | undefined,
  findings: Findings,
): ReadonlyMap<string, TypeConfig> {
  const { raw, source, folder } = given ?? { raw: {}, source: "default", folder: "/" };
  const types = new Map<string, TypeConfig>();
  if (!isTable(raw)) {
    findings.problems.push({ key: "types", source, message: "types must be tables: [types.NAME]" });
    return types;
  }
  for (const [name, table] of Object.entries(raw)) {
    const key = `types.${keyPart(name)}`;
    const type = isTable(table)
      ? parseType({ name, key, table, source, folder, findings })
      : report({ key, source, findings }, `must be a table: [${key}]`);
    if (type !== null) types.set(name, type);
  }
  if (Object.keys(raw).length > 0) return types;
  return parseTypes({ raw: { echo: { runner: "echo" } }, source: "default", folder }, findings);
}

/** Null where the type has no usable kind; every fault is reported either way. */
function parseType(entry: TypeEntry): TypeConfig | null {
  if (!/^[A-Za-z0-9._-]{1,64}$/.test(entry.name)) {
    report(entry, "must have a name of 1 to 64 characters of A-Z a-z 0-9 . _ -");
  }
  const kind = parseKind(entry);
  reportMisplacedKeys(entry, kind);
  const limits = takeLimits(entry, kind === "echo" ? ECHO_CONCURRENCY : COMMAND_CONCURRENCY);
  if (kind === "echo") return Object.freeze({ kind, ...limits });
  if (kind !== "command") return null;
  return Object.freeze({
    kind,
    ...limits,
    // No type runs by this default: without a command it is no command type. It stands in for a fault.
    command: takeField(entry, { key: "command", kind: commandLine, default: ["false"] }),
    env: takeField(entry, { key: "env", kind: environment, default: {} }),
    cwd: takeField(entry, { key: "cwd", kind: path, default: "." }),
  });
}

/** The type's kind; null, and reported, where it has none, several, or one of a later release. */
function parseKind(entry: TypeEntry): TypeKind | null {
  const given = KIND_KEYS.filter((key) => key in entry.table);
  const [only] = given;
  if (only === undefined) {
    return report(entry, 'has no kind: give runner = "echo" or command = ["program", "argument"]');
  }
  if (given.length > 1) {
    return report(entry, `has more than one kind (${given.join(", ")}): give exactly one`);
  }
  if (only === "url") {
    report(entry, "is an http type (url), which is not in this release");
    return "http";
  }
  if (only === "command") return "command";
  if (entry.table["runner"] === "echo") return "echo";
  if (entry.table["runner"] === "worker") {
    report(entry, 'is a worker type (runner = "worker"), which is not in this release');
    return "worker";
  }
  const at = { ...entry, key: `${entry.key}.runner` };
  return report(at, `must be "echo", not ${quote(entry.table["runner"])}`);
}

/** Reports keys that no type has and, where the kind is known, keys of other kinds. */
function reportMisplacedKeys(entry: TypeEntry, kind: TypeKind | null): void {
  for (const name of Object.keys(entry.table)) {
    const at = { ...entry, key: `${entry.key}.${keyPart(name)}` };
    const kinds = TYPE_KEYS.get(name);
    if (kinds === undefined) {
      const nearest = nearestName(name, [...TYPE_KEYS.keys()]) ?? "none";
      report(at, `is an unknown key; the nearest known one is ${nearest}`);
    } else if (kind !== null && !kinds.includes(kind)) {
      report(at, `is for ${kinds.join(" and ")} types only, and this one is ${kind}`);
    }
  }
}

function takeLimits(entry: TypeEntry, concurrency: number): TypeLimits {
  return {
    name: entry.name,
    timeoutMs: takeField(entry, { key: "timeout", kind: duration, default: "10m" }),
    concurrency: takeField(entry, {
      key: "concurrency",
      kind: integerBetween(1, 10_000),
      default: concurrency,
    }),
    retries: takeField(entry, { key: "retries", kind: integerBetween(0, 100), default: 0 }),
  };
}

function takeField<T>(
  entry: TypeEntry,
  field: { readonly key: string; readonly kind: ValueKind<T>; readonly default: unknown },
): T {
  const { source, folder, findings } = entry;
  const raw = entry.table[field.key];
  return takeValue(field.kind, {
    key: `${entry.key}.${field.key}`,
    given: raw === undefined ? undefined : { raw, source, folder },
    fallback: { raw: field.default, source: "default", folder },
    findings,
  });
}

/** Program and arguments. Never quoted in a fault: an argument may be a secret. */
const commandLine: ValueKind<CommandLine> = {
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
const environment: ValueKind<Readonly<Record<string, string>>> = {
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

/** Reports a fault; `reason` completes "KEY …". Null, so that a caller can return it. */
function report(
  at: { readonly key: string; readonly source: string; readonly findings: Findings },
  reason: string,
): null {
  at.findings.problems.push({ key: at.key, source: at.source, message: `${at.key} ${reason}` });
  return null;
}

import type { CommandLine } from "../domain/command-line.ts";
import { TYPE_NAME } from "../domain/lease/worker.ts";
import { DURATION, integerBetween, quote } from "../domain/rule.ts";
import type { TaskFunction } from "../domain/task/task-function.ts";
import { EMBEDDING_SOURCE, isTable, keyPart } from "./file.ts";
import type { FileTable } from "./file.ts";
import { takeValue } from "./layer.ts";
import type { Findings, Given } from "./layer.ts";
import { nearestName } from "./nearest-name.ts";
import { PATH } from "./setting-rule.ts";
import type { SettingRule } from "./setting-rule.ts";
import {
  COMMAND_LINE,
  ENVIRONMENT,
  LEASE_DURATION,
  REQUEST_HEADERS,
  SERVICE_URL,
  TASK_FUNCTION,
} from "./type-value.ts";

/** How tasks of one type are run. */
export type TypeConfig =
  | EchoTypeConfig
  | CommandTypeConfig
  | HttpTypeConfig
  | WorkerTypeConfig
  | FunctionTypeConfig;

/** The limits of every kind of type. */
export interface TypeLimits {
  readonly name: string;
  /** From the start of a run to its end. */
  readonly timeoutMs: number;
  /** The most runs at once. */
  readonly concurrency: number;
  /** Further runs after a failed one; 0 is none. */
  readonly retries: number;
}

/** `runner = "echo"`: the result is the input. */
export interface EchoTypeConfig extends TypeLimits {
  readonly kind: "echo";
}

/** `command = […]`: one process for each task. */
export interface CommandTypeConfig extends TypeLimits {
  readonly kind: "command";
  /** Program and arguments, without a shell. */
  readonly command: CommandLine;
  /** The operator's own variables for the process. They may be secrets: never log them. */
  readonly env: Readonly<Record<string, string>>;
  /** Absolute. The folder of the configuration file unless the type names another. */
  readonly cwd: string;
}

/** `url = "…"`: a POST to the operator's own service for each task. */
export interface HttpTypeConfig extends TypeLimits {
  readonly kind: "http";
  /** http or https. It may hold a secret in its query: never log that. */
  readonly url: string;
  /** Headers on top of the runner's own, by lower-case name. They may be secrets: never log them. */
  readonly headers: Readonly<Record<string, string>>;
}

/** `runner = "worker"`: external processes claim the tasks (contract §7). `concurrency` limits the leases at once. */
export interface WorkerTypeConfig extends TypeLimits {
  readonly kind: "worker";
  /** How long a lease holds without a heartbeat. */
  readonly leaseMs: number;
}

/** A function of the program that embeds the daemon: no configuration can name one. */
export interface FunctionTypeConfig extends TypeLimits {
  readonly kind: "function";
  readonly run: TaskFunction;
}

/** The kinds of contract §6. */
type TypeKind = TypeConfig["kind"];

const KIND_KEYS = ["runner", "command", "url", "run"] as const;

/** The kinds that each key is for. */
const TYPE_KEYS: ReadonlyMap<string, readonly TypeKind[]> = new Map([
  ["runner", ["echo", "worker"]],
  ["command", ["command"]],
  ["url", ["http"]],
  ["run", ["function"]],
  ["timeout", ["echo", "command", "http", "worker", "function"]],
  ["concurrency", ["echo", "command", "http", "worker", "function"]],
  ["retries", ["echo", "command", "http", "worker", "function"]],
  ["env", ["command"]],
  ["cwd", ["command"]],
  ["headers", ["http"]],
  ["lease", ["worker"]],
]);

/** An echo takes no time; this only decides how many tasks are claimed at once. */
const ECHO_CONCURRENCY = 256;

/** Each run is a process: more at once than a small machine has cores would slow down all of them. */
const COMMAND_CONCURRENCY = 4;

/** Each run is a request that waits: the service bears the cost. */
const HTTP_CONCURRENCY = 16;

/** No limit in practice: each worker takes as much as it can run. */
const WORKER_CONCURRENCY = 10_000;

/** Functions share the daemon's thread: more at once helps only those that wait for something else. */
const FUNCTION_CONCURRENCY = 16;

const CONCURRENCY: Readonly<Record<TypeKind, number>> = {
  echo: ECHO_CONCURRENCY,
  command: COMMAND_CONCURRENCY,
  http: HTTP_CONCURRENCY,
  worker: WORKER_CONCURRENCY,
  function: FUNCTION_CONCURRENCY,
};

/** A type as it is in the file, with everything that is needed to judge it. */
interface TypeEntry {
  readonly name: string;
  /** `types.NAME`. */
  readonly key: string;
  readonly table: FileTable;
  readonly source: string;
  readonly folder: string;
  readonly findings: Findings;
}

/** The configured task types by name; a single `echo` when none is configured. */
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
    const type = isTypeTable(table, source)
      ? parseType({ name, key, table: toTypeTable(table), source, folder, findings })
      : report({ key, source, findings }, `must be a table: [${key}]`);
    if (type !== null) types.set(name, type);
  }
  if (Object.keys(raw).length > 0) return types;
  return parseTypes({ raw: { echo: { runner: "echo" } }, source: "default", folder }, findings);
}

/** Null when the type has no usable kind; every fault is reported either way. */
function parseType(entry: TypeEntry): TypeConfig | null {
  if (TYPE_NAME.parse(entry.name).kind === "fault") {
    report(entry, `must have a name of ${TYPE_NAME.takes}`);
  }
  const kind = parseKind(entry);
  reportMisplacedKeys(entry, kind);
  const limits = takeLimits(entry, CONCURRENCY[kind ?? "echo"]);
  switch (kind) {
    case null:
      return null;
    case "echo":
      return Object.freeze({ kind, ...limits });
    case "command":
      return Object.freeze({ kind, ...limits, ...takeCommand(entry) });
    case "http":
      return Object.freeze({
        kind,
        ...limits,
        // Without a URL it is no http type; the stand-in for a faulty one is never requested.
        url: takeField(entry, { key: "url", rule: SERVICE_URL, default: "http://localhost/" }),
        headers: takeField(entry, { key: "headers", rule: REQUEST_HEADERS, default: {} }),
      });
    case "worker":
      return Object.freeze({
        kind,
        ...limits,
        leaseMs: takeField(entry, { key: "lease", rule: LEASE_DURATION, default: "30s" }),
      });
    case "function":
      return Object.freeze({
        kind,
        ...limits,
        // Without a function it is no function type; the stand-in for a faulty one is never called.
        run: takeField(entry, { key: "run", rule: TASK_FUNCTION, default: () => null }),
      });
  }
}

function takeCommand(entry: TypeEntry): Pick<CommandTypeConfig, "command" | "env" | "cwd"> {
  return {
    // Without a command it is no command type; no type runs by this stand-in for a faulty one.
    command: takeField(entry, { key: "command", rule: COMMAND_LINE, default: ["false"] }),
    env: takeField(entry, { key: "env", rule: ENVIRONMENT, default: {} }),
    cwd: takeField(entry, { key: "cwd", rule: PATH, default: "." }),
  };
}

/** A function alone stands for a type without other settings: only a program that embeds the daemon can give one. */
function isTypeTable(value: unknown, source: string): value is FileTable | TaskFunction {
  return isTable(value) || (source === EMBEDDING_SOURCE && typeof value === "function");
}

function toTypeTable(table: FileTable | TaskFunction): FileTable {
  return typeof table === "function" ? { run: table } : table;
}

/** A file that uses a key which no file can hold uses an unknown key. */
function isKnown(name: string, { source }: TypeEntry): boolean {
  return TYPE_KEYS.has(name) && (name !== "run" || source === EMBEDDING_SOURCE);
}

/** The type's kind; null, and reported, when it has none or several. */
function parseKind(entry: TypeEntry): TypeKind | null {
  const given = KIND_KEYS.filter((key) => Object.hasOwn(entry.table, key) && isKnown(key, entry));
  const [only] = given;
  if (only === undefined) {
    const kinds =
      'command = ["program", "argument"], url = "http://…", or runner = "worker" or "echo"';
    const own = entry.source === EMBEDDING_SOURCE ? "a function (run), " : "";
    return report(entry, `has no kind: give ${own}${kinds}`);
  }
  if (given.length > 1) {
    return report(entry, `has more than one kind (${given.join(", ")}): give exactly one`);
  }
  if (only === "url") return "http";
  if (only === "command") return "command";
  if (only === "run") return "function";
  const { runner } = entry.table;
  if (runner === "echo" || runner === "worker") return runner;
  const at = { ...entry, key: `${entry.key}.runner` };
  return report(at, `must be "echo" or "worker", not ${quote(runner)}`);
}

/** Reports keys that no type has and, when the kind is known, keys of other kinds. */
function reportMisplacedKeys(entry: TypeEntry, kind: TypeKind | null): void {
  for (const name of Object.keys(entry.table)) {
    const at = { ...entry, key: `${entry.key}.${keyPart(name)}` };
    const kinds = TYPE_KEYS.get(name);
    if (kinds === undefined || !isKnown(name, entry)) {
      const known = [...TYPE_KEYS.keys()].filter((key) => isKnown(key, entry));
      const nearest = nearestName(name, known) ?? "none";
      report(at, `is an unknown key; the nearest known one is ${nearest}`);
    } else if (kind !== null && !kinds.includes(kind)) {
      report(at, `is for ${kinds.join(" and ")} types only, and this one is ${kind}`);
    }
  }
}

function takeLimits(entry: TypeEntry, concurrency: number): TypeLimits {
  return {
    name: entry.name,
    timeoutMs: takeField(entry, { key: "timeout", rule: DURATION, default: "10m" }),
    concurrency: takeField(entry, {
      key: "concurrency",
      rule: integerBetween(1, 10_000),
      default: concurrency,
    }),
    retries: takeField(entry, { key: "retries", rule: integerBetween(0, 100), default: 0 }),
  };
}

function takeField<T>(
  entry: TypeEntry,
  field: { readonly key: string; readonly rule: SettingRule<T>; readonly default: unknown },
): T {
  const { source, folder, findings } = entry;
  const raw = entry.table[field.key];
  return takeValue(field.rule, {
    key: `${entry.key}.${field.key}`,
    given: raw === undefined ? undefined : { raw, source, folder },
    fallback: { raw: field.default, source: "default", folder },
    findings,
  });
}

/** Reports a fault; `reason` completes "KEY …". Answers null, so that a caller can return it. */
function report(
  at: { readonly key: string; readonly source: string; readonly findings: Findings },
  reason: string,
): null {
  at.findings.problems.push({ key: at.key, source: at.source, message: `${at.key} ${reason}` });
  return null;
}
